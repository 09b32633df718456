# shellcheck shell=bash disable=SC2154  # the scheduler's lines
# The launcher starts PREPARE with this text on a node, as `bash --norc -p -c FETCH pull_image.sh WORDS…`.
# It runs the script that comes down standard input, after a line with its size. It needs no file, so no file remains.
# The scheduler's lines stand in front of it, as in front of boot.sh.
unset TMOUT GREP_OPTIONS # as in boot.sh
set +o posix # in posix mode, bash 4.4 and 5.0 have no process substitution
echo "here $mnrun_node"
umask 077
mnrun_whole() { local LC_ALL=C && ((${#mnrun_text} == mnrun_size + 1)); } # a size counts bytes, as in the C locale
read -r mnrun_size && mnrun_text=$(head -c "$mnrun_size" && echo .) && mnrun_whole || exit 1
eval "${mnrun_text%.}"
