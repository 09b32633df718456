# shellcheck shell=bash
# The guard, its undertaker and stop.sh source this file, on the node. It defines the functions that end all processes
# of a job and remove the job's directory.
# The caller's working directory is the job's directory, and the caller has proven its ownership. So files in it are
# read as ./NAME. While the directory exists, no other user can take its name $mnrun_here, so that name is safe as well.
source ./job.sh
mnrun_boxes=()
[[ ! -e engines.sh ]] || source ./engines.sh # a kit has it for a runtime that the guard must try (nodes/kit.py)
source ./names.sh
source ./processes.sh
mnrun_shm=/dev/shm/${mnrun_here##*/}

forget_keys() { # Remove the job's keys, if it has any
  local place
  for place in {,box/}{key,hostkey}; do [[ ! -e $place ]] || rm -f "$place" || true; done
}

alive() { # Set mnrun_alive to the job's live processes of this user
  # Children of this shell do not count, except those of the coprocess `mnrun_box`.
  # The mark finds most of them. The session finds squashfuse_ll, which has none of the job's variables. Descent from
  # these finds sshd's processes, which hide their environment from other processes of the user.
  local sessions=() found
  mapfile -t found < <(marked "$mnrun_id")
  [[ ! -e sessions ]] || mapfile -t sessions <sessions # a guard that was killed early has noted none
  mapfile -t mnrun_alive < <(exec awk -v caller=$$ -v box="${mnrun_box_PID:-0}" -v uid="$EUID" -v sessions="${sessions[*]}" -v marked="${found[*]}" '
    function content(file,   text, line) {
      while ((getline line < file) > 0) text = text line "\n"
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
      n = split(sessions, s)
      for (i = 1; i < n; i += 2) { known[s[i]] = s[i + 1]; listed[s[i], s[i + 1]] = 1 }
      n = split(marked, s)
      for (i = 1; i <= n; i++) found[s[i]] = 1
      for (i = 1; i < ARGC; i++) {
        pid = ARGV[i]
        gsub(/[^0-9]/, "", pid)
        text = content(ARGV[i])
        sub(/^.*\) /, "", text) # field 20 of the rest is the start (proc(5), field 22)
        if (split(text, f) < 20 || f[1] == "Z") continue
        parent[pid] = f[2]; session[pid] = f[4]; start[pid] = f[20]
      }
      for (pid in parent) {
        if (pid in found) continue
        boxed = 0; kin = 0
        for (p = pid; p in parent && p != caller; p = parent[p]) {
          if (p == box && pid != box) boxed = 1
          if (near(session[p])) kin = 1
        }
        if (boxed || (kin && p != caller)) found[pid] = 1
      }
      for (pid in found) if (pid in parent && is_ours(pid)) print pid
    }' /proc/[0-9]*/stat)
}

rest() { # Wait 10 ms
  # The guard has made this pipe, and nothing writes to it.
  if [[ -p idle ]]; then read -rt 0.01 <>idle || true; else sleep 0.01; fi
}

remain() { # PIDS: Test whether one of them is still there
  local pid
  for pid; do [[ ! -d /proc/$pid ]] || return 0; done
  return 1
}

end_sessions() { # End the leaders of the job's sessions and their descendants, which are nearly all of its processes
  # These signals cost less than a look at all processes of the node. Return false where some of them remain.
  leaders
  below "${mnrun_leaders[@]}"
  ((${#mnrun_below[@]})) || return 0
  kill -KILL "${mnrun_below[@]}" 2>/dev/null || true
  for _ in {1..10}; do
    remain "${mnrun_below[@]}" || return 0
    rest
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
      remain "${mnrun_alive[@]}" || break
      rest
    done
  done
}

sweep_all() { # End containers and processes. Set mnrun_left to those that remain
  mnrun_left=''
  if ((${#mnrun_boxes[@]})); then
    # Containers end first, and once more after the processes, because one may have been about to start.
    end_containers >/dev/null
    sweep
    mnrun_left=$(end_containers)
    sweep
    [[ -n $mnrun_keep ]] || scrap
  fi
  sweep
  mnrun_left+=${mnrun_alive[*]}
}

unname() { # PID: Remove the files that Apptainer has named after PID
  # A killed `apptainer exec --sharens` leaves them. In /dev/shm, another user may have made that name.
  [[ $1 =~ ^[0-9]+$ ]] || return 0
  instances
  rm -rf "/dev/shm/sharens_instance_$1" "$REPLY/sharens_instance_$1" || true
}

beside() { # DIRECTORY: Test whether a directory that lies beside the node directory is there, and the user's
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
  local parent step place doomed=() places=("$mnrun_here.lease")
  unmount
  { read -r _ parent <holder; } 2>/dev/null && unname "$parent"
  if { read -r step <pmix; } 2>/dev/null; then
    places+=("/tmp/spmix_appdir_${EUID}_${SLURM_JOB_ID-}.$step" "/tmp/spmix_appdir_${SLURM_JOB_ID-}.$step")
  fi
  [[ $mnrun_runtime != charliecloud ]] || rm -f /dev/shm/{ch-run_shm,sem.ch-run_sem}-"$mnrun_id" || true
  [[ -n $mnrun_keep ]] || places+=("$mnrun_shm")
  for place in "${places[@]}"; do
    if beside "$place"; then doomed+=("$place"); fi
  done
  if [[ -n $mnrun_keep ]]; then
    # The environment files may hold secrets. Without `own`, leftovers.sh leaves the directory alone.
    rm -f {,box/}{key,hostkey,user.env,session.env,launch.env} hold.env own {,box/}enter.* || true
  elif [[ -O . && . -ef $mnrun_here ]]; then # the directory still has this name
    doomed+=("$mnrun_here")
  fi
  # A removal that failed halfway has taken `own`, and no later launch would know the rest.
  ((${#doomed[@]} == 0)) || rm -rf --one-file-system -- "${doomed[@]}" ||
    { [[ . -ef $mnrun_here ]] && rm -rf --one-file-system -- "$mnrun_here"; }
}
