# shellcheck shell=bash disable=SC2154,SC2206  # the scheduler's lines; the fields that are split are numbers
# The launcher starts this text on each node, as one word of srun or ssh: `bash --norc -p -c BOOT DIR [WORDS…]`. The
# scheduler's lines stand in front of it (nodes/kit.py, on_node).
# It makes DIR, the job's directory, for the user alone (0700). It reads the kit from standard input, writes the job's
# files into DIR, and becomes the guard. If the lease ends before that, it removes DIR.
# The directory comes first, and a taken name is refused. Every user of the node may have read the name in the list of
# processes.
# The line `here` comes before the kit. srun passes the kit on only when every node's task has started. By this line the
# launcher knows which tasks have.
# The kit has sizes (kit.pack). So unpacking takes no process, and ends exactly where the lease goes on.
trap : USR1 USR2 # for the program, which does not run yet
# With TMOUT, bash would end each `read` after so many seconds. grep up to 3.5 would take GREP_OPTIONS as words.
unset TMOUT GREP_OPTIONS
set +o posix
# In the C locale, this process and the programs of the guard read no files of a locale. The container gets the user's
# own back (guard.sh, contain).
export mnrun_locale=${LC_ALL-} LC_ALL=C
export mnrun_address mnrun_peer mnrun_step # for the guard
echo "here $mnrun_node"
mnrun_fail() { echo "fail $mnrun_node $1" && exit 1; }
umask 077
# Until the directory goes with this process, a signal is only noted, and mkdir ignores it.
mnrun_ended=''
trap mnrun_ended=1 HUP INT TERM
(trap '' HUP INT TERM; exec mkdir -- "$0") 2>/dev/null || {
  [ -z "$mnrun_ended" ] || exit 143
  [ ! -e "$0" ] && [ ! -L "$0" ] || mnrun_fail "cannot make $0 on this node: another user has made it"
  mnrun_fail "cannot make $0 on this node: ${0%/*} is full, or not writable"
}
cd -- "$0" || exit 1
trap 'cd / && rm -rf -- "$0"' EXIT
trap 'exit 143' HUP INT TERM # the default action would end bash without the trap of EXIT
[ -z "$mnrun_ended" ] || exit 143
[ "${BASH_VERSINFO[0]}${BASH_VERSINFO[1]}" -ge 44 ] || mnrun_fail "bash $BASH_VERSION is too old: mnrun needs 4.4 or newer on the nodes"
# `own` names the maker of the directory by its pid, its start time (proc(5), field 22) and the boot of the node,
# because pids are used again.
IFS= read -rd '' mnrun_stat <"/proc/$$/stat"
mnrun_stat=(${mnrun_stat##*) })
{ read -r mnrun_boot </proc/sys/kernel/random/boot_id; } 2>/dev/null || mnrun_boot=unknown
echo "$0 $mnrun_node $$ ${mnrun_stat[19]} $mnrun_boot" >own || mnrun_fail "cannot write to $0 on this node"
# The undertaker notices when this process, or the guard that it becomes, is killed. It reads a pipe that only this
# process writes, and is no child of the step. Until the kit is here, the undertaker can only remove the directory.
# A signal to the whole step may come before it is out of the step, so it ignores them from the start.
# shellcheck disable=SC2016  # the undertaker's own shell expands these words
exec {mnrun_life}> >(trap '' HUP INT TERM USR1 USR2; exec setsid --fork bash --norc -p -c '
  read -r _ && exec bash -p ./undertaker.sh "$0"
  [[ ! -O . || ! . -ef $0 ]] || rm -rf -- "$0"
' "$0" <&0 >/dev/null 2>&1)
export mnrun_life
mnrun_unpack() { # Write the files of the kit. Return false where there is no room
  # A size counts bytes, as in the C locale.
  # These patterns take a tenth of the time of regular expressions, which bash compiles anew each time.
  local size list i REPLY='' damaged="the kit was damaged on its way to this node"
  read -rt 3600 size || exit 1
  [[ $size == +([0-9]) ]] || mnrun_fail "$damaged"
  mkdir bin out steady box box/{bin,out,lines,tmp,shm,serve,hold,heard} || return 1
  ((size == 0)) || read -rN "$size" || exit 1
  list=($REPLY)
  for ((i = 0; i < ${#list[@]}; i += 2)); do
    size=${list[i + 1]-}
    [[ ${list[i]} == ?(box/)?(bin/|out/|lines/)[a-z]*([A-Za-z0-9._-]) && $size == +([0-9]) ]] || mnrun_fail "$damaged"
    REPLY='' # bash 4.4 would read on to the end for a size of 0
    ((size == 0)) || read -rN "$size" || exit 1
    printf %s "$REPLY" >"${list[i]}" || return 1
  done
}
mnrun_unpack 2>/dev/null || mnrun_fail "cannot write the kit to $0 on this node: ${0%/*} is full"
exec bash -p ./guard.sh "$@"
