# shellcheck shell=sh
# The launcher puts this text in front of a command on a host without a scheduler
# (reach/login_shell.py). It unpacks the words of the command, and becomes the command.
# A login shell reads the text first, in single quotes. csh and fish act on `!`, a newline and a backslash even there.
# So the text is one line without these characters and without single quotes.
# Before that, the login shell reads files of the user, which may print and change the directory. So the text begins
# both streams with a line MARK, unless MARK is empty.
cd /; mnrun_mark=$1; shift; [ -z "$mnrun_mark" ] || { echo "$mnrun_mark"; echo "$mnrun_mark" >&2; }; mnrun_words=$(printf %s "$@" | base64 -d | gzip -d) && eval "exec $mnrun_words"
