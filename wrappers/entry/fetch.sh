# shellcheck shell=bash
# PREPARE's first words on a node, `bash -p -c FETCH pull_image.sh WORDS…`: runs what comes down standard input, its size on
# a line before it. No file is needed, so none is left.
[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0
echo "here ${MNRUN_NODE:-${SLURMD_NODENAME:-$(uname -n)}}"
umask 077
read -r mnrun_size && mnrun_text=$(head -c "$mnrun_size") && eval "$mnrun_text"
