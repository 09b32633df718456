# shellcheck shell=bash
# The guard, its undertaker and stop.sh source this file on the node, to end a job's processes and remove its directory.
# The caller is in that directory, and has proven its ownership. While it exists, no other user can take its name.
source ./job.sh
mnrun_jobs_engine=()
[[ ! -e engines.sh ]] || source ./engines.sh # a kit has it for a runtime that the guard must try (nodes/kit.py)
source ./names.sh
source ./processes.sh
mnrun_shm=/dev/shm/${mnrun_here##*/}

forget_keys() { # Remove the job's keys, if it has any
  local place
  for place in {,box/}{key,hostkey}; do [[ ! -e $place ]] || rm -f "$place" || true; done
}

alive() { # Set mnrun_alive to the job's live processes of this user. Of our children, those of `mnrun_container` count
  # The mark finds most of them. The session finds squashfuse_ll, which has none of the job's variables. Descent from
  # these finds sshd's processes, which hide their environment from other processes of the user.
  local sessions=()
  [[ ! -e sessions ]] || mapfile -t sessions <sessions # a guard that was killed early has noted none
  # shellcheck disable=SC2016  # awk's own
  mapfile -t mnrun_alive < <(by_mark "$mnrun_id" "$$ ${mnrun_container_PID:-0} $EUID ${sessions[*]}" '
    function content(file,   text) { # these files have no NUL
      getline text < file
      close(file)
      return text
    }
    function is_ours(pid,   parts, ids) { # Linux escapes newlines in Name (fs/proc/array.c)
      split(content("/proc/" pid "/status"), parts, /\nUid:[ \t]*/)
      return split(parts[2], ids) && ids[1] == uid
    }
    function near(session) {
      # A noted session counts if its leader has ended, was hidden when noted (start 0), or lives with the noted start
      # time.
      return session in known && (!(session in start) || known[session] == 0 || (session, start[session]) in listed)
    }
    BEGIN {
      n = split(given, s, " ")
      caller = s[1]; container = s[2]; uid = s[3]
      for (i = 4; i < n; i += 2) { known[s[i]] = s[i + 1]; listed[s[i], s[i + 1]] = 1 }
      for (i = 1; i < ARGC; i++) {
        pid = ARGV[i]
        gsub(/[^0-9]/, "", pid)
        text = content(ARGV[i])
        sub(/^.*\) /, "", text) # field 20 of the rest is the start (proc(5), field 22)
        if (split(text, f) < 20 || f[1] == "Z") continue
        parent[pid] = f[2]; session[pid] = f[4]; start[pid] = f[20]
        if (marked(pid)) found[pid] = 1
      }
      for (pid in parent) {
        if (pid in found) continue
        contained = 0; kin = 0
        for (p = pid; p in parent && p != caller; p = parent[p]) {
          if (p == container && pid != container) contained = 1
          if (near(session[p])) kin = 1
        }
        if (contained || (kin && p != caller)) found[pid] = 1
      }
      for (pid in found) if (pid in parent && is_ours(pid)) print pid
    }' /proc /proc/[0-9]*/stat)
}

pause_10ms() { # Wait 10 ms, on a pipe that nothing writes to
  if [[ -p idle ]]; then read -rt 0.01 <>idle || true; else sleep 0.01; fi
}

any_alive() { # PIDS: Test whether one of them is still there
  local pid
  for pid; do [[ ! -d /proc/$pid ]] || return 0; done
  return 1
}

end_sessions() { # End the leaders of the job's sessions and their descendants, which are nearly all of its processes
  # These signals cost less than a look at all processes of the node. Return false where some of them remain.
  family
  ((${#mnrun_below[@]})) || return 0
  kill -KILL "${mnrun_below[@]}" 2>/dev/null || true
  for _ in {1..10}; do
    any_alive "${mnrun_below[@]}" || return 0
    pause_10ms
  done
  return 1
}

sweep() { # End all processes of the job, and set mnrun_alive to those that could not be ended
  mnrun_alive=()
  if end_sessions && [[ -n ${mnrun_enclosed-} ]]; then return 0; fi # the guard knows that there are no others
  for _ in {1..100}; do
    alive
    ((${#mnrun_alive[@]})) || return 0
    kill -KILL "${mnrun_alive[@]}" 2>/dev/null || true
    for _ in {1..5}; do # the next round looks again, because a process may have started another
      any_alive "${mnrun_alive[@]}" || break
      pause_10ms
    done
  done
}

sweep_all() { # End containers and processes. Set mnrun_left to those that remain
  mnrun_left=''
  if ((${#mnrun_jobs_engine[@]})); then
    # Containers end first, and once more after the processes, because one may have been about to start.
    end_containers >/dev/null
    sweep
    mnrun_left=$(end_containers)
    sweep
    [[ -n $mnrun_keep ]] || remove_podman_store
  fi
  sweep
  mnrun_left+=${mnrun_alive[*]}
}

remove_instance_files() { # PID: Remove the files that Apptainer has named after PID
  # A killed `apptainer exec --sharens` leaves them. In /dev/shm, another user may have made that name.
  [[ $1 =~ ^[0-9]+$ ]] || return 0
  instances
  rm -rf "/dev/shm/sharens_instance_$1" "$REPLY/sharens_instance_$1" || true
}

is_our_directory() { # DIRECTORY: Test whether a directory that lies beside the node directory is there, and the user's
  [[ -O $1 && ! -L $1 && -d $1 ]]
}

unmount() { # Unmount the FUSE file systems that programs have left below the job's directories
  local line place lines
  mapfile -t lines </proc/self/mountinfo
  for line in "${lines[@]}"; do
    place=${line#* * * * } place=${place%% *} # the fifth field, with blanks and backslashes as octal numbers (proc(5))
    [[ $place == "$mnrun_here"/* || $place == "$mnrun_shm"/* ]] || continue
    printf -v place %b "${place//\\/\\0}"
    fusermount3 -uz "$place" || fusermount -uz "$place" || true
  done 2>/dev/null
}

wipe() { # Remove the job's files and directories on this node
  local parent place doomed=() places=()
  unmount
  { read -r _ parent <holder; } 2>/dev/null && remove_instance_files "$parent"
  [[ ! -e step.places ]] || mapfile -t places <step.places
  [[ $mnrun_runtime != charliecloud ]] || rm -f /dev/shm/{ch-run_shm,sem.ch-run_sem}-"$mnrun_id" || true
  [[ -n $mnrun_keep ]] || places+=("$mnrun_shm")
  for place in "${places[@]}"; do
    if is_our_directory "$place"; then doomed+=("$place"); fi
  done
  if [[ -n $mnrun_keep ]]; then
    # The environment files may hold secrets. Without `own`, leftovers.sh leaves the directory alone. `kept` is for
    # clean.sh.
    : >kept
    rm -f {,box/}{key,hostkey,user.env,session.env,launch.env} hold.env own proxy.* {,box/}enter.* || true
  elif [[ -O . && . -ef $mnrun_here ]]; then # the directory still has this name
    doomed+=("$mnrun_here")
  fi
  # A removal that failed halfway has taken `own`, and no later launch would know the rest.
  ((${#doomed[@]} == 0)) || rm -rf --one-file-system -- "${doomed[@]}" ||
    { [[ . -ef $mnrun_here ]] && rm -rf --one-file-system -- "$mnrun_here"; }
}
