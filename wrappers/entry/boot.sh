# shellcheck shell=bash disable=SC2206  # the fields that are split are numbers
# The launcher starts this text on each node, as one word of srun or ssh: `bash --norc -p -c BOOT DIR [CONTAINER WORDS…]`.
# It makes DIR, the job's directory, for the user alone (0700). It reads the kit from standard input, writes the job's
# files into DIR, and becomes the guard. If the lease ends before that, it removes DIR.
# It says `here NODE` on standard output, or `fail NODE WHY`.
# The directory comes first, and a taken name is refused. Every user of the node may have read the name in the list of
# processes.
# The line `here` comes before the kit. srun passes the kit on only when every node's task has started. By this line the
# launcher knows which tasks have.
# The kit begins with the number of its files. Each file is a line `NAME SIZE`, and its text. So unpacking takes no
# process, and ends exactly where the lease goes on.
# If the scheduler grants GPUs by the task, a step has several tasks on a node. One of them is enough.
[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0
trap : USR1 USR2 # for the program, which does not run yet
# With TMOUT, bash would end each `read` after so many seconds. grep up to 3.5 would take GREP_OPTIONS as words.
unset TMOUT GREP_OPTIONS
set +o posix
# In the C locale, this process and the programs of the guard read no files of a locale. The container gets the user's
# own back (guard.sh, box).
export mnrun_locale=${LC_ALL-} LC_ALL=C
mnrun_node=${MNRUN_NODE:-${SLURMD_NODENAME-}}
[ -n "$mnrun_node" ] || read -r mnrun_node </proc/sys/kernel/hostname
echo "here $mnrun_node"
mnrun_fail() { echo "fail $mnrun_node $1" && exit 1; }
umask 077
# Until the directory goes with this process, a signal is only noted, and mkdir ignores it.
mnrun_ended=''
trap mnrun_ended=1 HUP INT TERM
(trap '' HUP INT TERM; exec mkdir -- "$0") 2>/dev/null || {
  [ ! -O "$0.lease" ] || rm -rf -- "$0.lease" # lease.sh made it
  [ -z "$mnrun_ended" ] || exit 143
  [ ! -e "$0" ] && [ ! -L "$0" ] || mnrun_fail "cannot make $0 on this node: another user has made it"
  mnrun_fail "cannot make $0 on this node: ${0%/*} is full, or not writable"
}
cd -- "$0" || exit 1
trap 'cd / && rm -rf -- "$0" "$0.lease"' EXIT
trap - HUP INT TERM
[ -z "$mnrun_ended" ] || exit 143
[ "${BASH_VERSINFO[0]}${BASH_VERSINFO[1]}" -ge 44 ] || mnrun_fail "bash $BASH_VERSION is too old: mnrun needs 4.4 or newer on the nodes"
# `own` names the maker of the directory by its pid, its start time (proc(5), field 22) and the boot of the node, because
# pids are used again.
IFS= read -rd '' mnrun_stat <"/proc/$$/stat"
mnrun_stat=(${mnrun_stat##*) })
{ read -r mnrun_boot </proc/sys/kernel/random/boot_id; } 2>/dev/null || mnrun_boot=unknown
echo "$0 $mnrun_node $$ ${mnrun_stat[19]} $mnrun_boot" >own || mnrun_fail "cannot write to $0 on this node"
# The undertaker notices when this process, or the guard that it becomes, is killed. It reads a pipe that only this
# process writes, and is no child of the step. Until the kit is here, the undertaker can only remove the directory.
# shellcheck disable=SC2016  # the undertaker's own shell expands these words
exec {mnrun_life}> >(exec setsid --fork bash --norc -p -c '
  trap "" HUP INT TERM USR1 USR2
  read -r _ && exec bash -p ./undertaker.sh "$0"
  [[ ! -O . || ! . -ef $0 ]] || rm -rf -- "$0" "$0.lease"
' "$0" <&0 >/dev/null 2>&1)
export mnrun_life
mnrun_unpack() { # Write the files of the kit. Return false where there is no room
  local count name size text damaged="the kit was damaged on its way to this node" # a size counts bytes, as in the C locale
  read -rt "${MNRUN_WAIT:-3600}" count || exit 1
  [[ $count =~ ^[0-9]+$ ]] || mnrun_fail "$damaged"
  mkdir bin steady box box/{bin,out,tmp,shm,serve,hold,heard} || return 1
  for ((; count > 0; count--)); do
    # Under pdsh, a lease that breaks off does not end (lease.sh). So each read has a limit there. It has none under
    # Slurm, where bash would make two system calls for each byte.
    read -r ${MNRUN_WAIT:+-t "$MNRUN_WAIT"} name size || exit 1
    [[ $name =~ ^(box/)?((bin|out)/)?[a-z][A-Za-z0-9._-]*$ && $size =~ ^[0-9]+$ ]] || mnrun_fail "$damaged"
    text='' # bash 4.4 would read on to the end for a size of 0
    ((size == 0)) || IFS= read -r ${MNRUN_WAIT:+-t "$MNRUN_WAIT"} -N "$size" text || exit 1
    printf %s "$text" >"$name" || return 1
  done
}
mnrun_unpack 2>/dev/null || mnrun_fail "cannot write the kit to $0 on this node: ${0%/*} is full"
exec bash -p ./guard.sh "$@"
