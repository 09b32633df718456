# shellcheck shell=bash disable=SC2154  # mnrun_into, the text of into.sh
# What is left on this node of jobs of ours whose guards and undertakers were killed together, as Slurm does with a
# step that is out of memory, or is cancelled with KILL: the next launch of the same user takes it away, and
# `mnrun clean --nodes`. Whose guard or undertaker lives is let alone, and so is what --keep has kept. Sourced, after processes.sh.

is_left() { # DIRECTORY: enters it; whether it is a job's that has ended there
  local name node pid start
  cd -- "$1" 2>/dev/null && [[ -O . && .. -ef ${1%/*} && -O own ]] || return
  read -r name node pid start _ <own && [[ $name == "$1" && $node == "$mnrun_node" ]] || return
  ! lives "$pid" "$start" || return
  if { read -r pid start <undertaker; } 2>/dev/null; then ! lives "$pid" "$start"; fi
}

remains() { # says what it has taken away
  local place
  for place in /tmp/mnrun.* /dev/shm/mnrun.*; do
    [[ -O $place && -d $place && ! -L $place ]] || continue
    [[ $place == /tmp/* || ! -O /tmp/${place##*/} ]] || continue # goes when that goes, or is kept with it
    ( # which enters it
      is_left "$place" || exit 0
      [[ ! -e stop.sh ]] || bash -p -c "$mnrun_into" "$place" stop.sh
      [[ ! -O . || ! . -ef $place ]] || rm -rf -- "$place"
      echo "$place"
    ) </dev/null 2>/dev/null || true
  done
}
