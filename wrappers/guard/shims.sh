# shellcheck shell=bash disable=SC2154  # job.sh
# The guard sources this file on the node, in the job's directory.

shims() { # Make shims in steady/ for the programs by which a runtime keeps images mounted
  # A shim runs the node's program with signals ignored. A scheduler may send these to every process of a job, and one
  # of them would end the mount. libfuse handles no signal that is ignored at its start (lib/fuse_signals.c).
  # Without a scheduler nobody sends such signals.
  local name
  jobs_around
  [[ -n $REPLY ]] || return 0
  [[ $mnrun_runtime == apptainer || $mnrun_runtime == singularity ]] || return 0
  for name in squashfuse_ll squashfuse fuse-overlayfs fuse2fs gocryptfs; do
    hash "$name" 2>/dev/null || continue
    # `hash` knows the place of the program, without a process.
    printf '#!/bin/sh\ntrap "" HUP INT TERM USR1 USR2\nexec %q "$@"\n' "${BASH_CMDS[$name]}" >"steady/$name"
  done
}

executable() { # DIR: Make the programs of bin/, which mpirun starts, of both out/ and of steady/ executable
  # If they cannot be executed here (noexec), they are moved to DIR and linked. If DIR is noexec too, worker.sh fails
  # with a message.
  local place bin=${mnrun_inside:+box/}bin
  shopt -s nullglob
  chmod 700 "$bin"/* out/* box/out/* steady/*
  shopt -u nullglob
  [[ ! -x $bin/ssh ]] || return 0 # the kernel says whether it can be executed
  for place in "$bin" box/out steady; do
    cp -r "$place" "$1"
    rm -r "$place"
    ln -s "$1/${place#box/}" "$place"
  done
  [[ -x $bin/ssh ]] || rm -r "$1/steady" # without shims the runtime finds the node's own programs
}
