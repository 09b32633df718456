# shellcheck shell=bash disable=SC2206  # the fields that are split are numbers
# First words on a node, as one word of srun's or ssh's: `bash -p -c BOOT DIR [CONTAINER WORDS…]`.
# Makes DIR, the job's directory, which belongs to the user alone (0700); unpacks the kit there from standard
# input; becomes the guard. Where the lease ends before that, nothing stays.
# The directory comes first, and a name that is taken is refused: every user of the node may have read the name in the
# list of processes. The line `here` comes before the kit: srun hands on no input before all nodes have answered,
# and the line tells which have. The kit's size comes before the kit: tar would read on into the lease.
# Where GPUs are granted by the task, a step has several tasks on a node, of which one is enough.
[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0
set +o posix
mnrun_node=${MNRUN_NODE:-${SLURMD_NODENAME:-$(uname -n)}}
echo "here $mnrun_node"
mnrun_fail() { echo "fail $mnrun_node $1" && exit 1; }
[ "${BASH_VERSINFO[0]}${BASH_VERSINFO[1]}" -ge 44 ] || mnrun_fail "bash $BASH_VERSION is too old: mnrun needs 4.4 or newer on the nodes"
umask 077
mkdir -- "$0" 2>/dev/null || {
  [ ! -e "$0" ] && [ ! -L "$0" ] || mnrun_fail "cannot make $0 on this node: somebody else has made it"
  mnrun_fail "cannot make $0 on this node: ${0%/*} is full, or not writable"
}
cd -- "$0" || exit 1
trap 'cd / && rm -rf -- "$0" "$0.lease"' EXIT
# Who has made it: our number, and the time of our start (proc(5), field 22), since numbers are used again.
IFS= read -rd '' mnrun_stat <"/proc/$$/stat"
mnrun_stat=(${mnrun_stat##*) })
echo "$0 $mnrun_node $$ ${mnrun_stat[19]}" >own || mnrun_fail "cannot write to $0 on this node"
# An undertaker notices where somebody kills us, or the guard that we become: it reads a pipe that we alone write, and is
# no child of our step. Until the kit is here it can only remove the directory.
# shellcheck disable=SC2016  # the undertaker's own shell expands these words
exec {mnrun_life}> >(setsid bash -p -c 'bash -p -c "$1" "$0" <&0 >/dev/null 2>&1 &' "$0" '
  trap "" HUP INT TERM USR1 USR2
  read -r _ && exec bash -p ./undertaker.sh "$0"
  [[ ! -O . || ! . -ef $0 ]] || rm -rf -- "$0" "$0.lease"
')
export mnrun_life
read -rt "${MNRUN_WAIT:-3600}" mnrun_size || exit 1
mnrun_said=$({ head -c "$mnrun_size" | tar -xzf -; } 2>&1) || {
  mnrun_said=${mnrun_said%$'\n'*} # tar's last line says only that it has failed
  mnrun_fail "cannot unpack the kit in $0 on this node: ${mnrun_said##*$'\n'}"
}
exec bash -p ./guard.sh "$@"
