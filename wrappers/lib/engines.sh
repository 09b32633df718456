# shellcheck shell=bash disable=SC2034,SC2154  # some names are for who sources it, others are job.sh's
# The guard and the wrappers of images, probes and containers source this file on the node, after job.sh and from
# the job's directory.
# needs: processes.sh exposed.sh
# It defines how docker and podman run here. Their containers are no children of the job's processes. The job's label
# identifies them.

mnrun_driver=/proc/driver/nvidia/version mnrun_infiniband=/dev/infiniband
mnrun_selinux=/sys/fs/selinux/booleans mnrun_dockerd=/run/docker.pid
mnrun_cdi=(/etc/cdi /var/run/cdi) mnrun_mounts=/proc/self/mountinfo mnrun_tmp=/tmp
# mnrun_engine is the command for images. mnrun_jobs_engine is the command for the job's containers. mnrun_at_once makes
# `rm --force` kill a container's processes without a TERM. podman would wait 10 s after the TERM (podman-rm(1)).
mnrun_at_once=()
case $mnrun_runtime in
  docker) mnrun_engine=(docker) mnrun_jobs_engine=(docker) ;;
  podman)
    # Every call has the same options in front, because podman records these places in its database and refuses others
    # later. Containers lie in the job's own directory.
    # Where the scheduler kills podman's helpers, podman cannot use the store that it then finds (seen with 5.4).
    mnrun_own=${mnrun_here-}/podman
    mnrun_store=${mnrun_podman:-/tmp/mnrun-podman.$(id -u)}
    mnrun_engine=(podman --root "$mnrun_store/root" --runroot "$mnrun_store/run" --tmpdir "$mnrun_store/tmp"
      --storage-driver=overlay --cgroup-manager=cgroupfs) # podman up to 4.3 may choose vfs, which copies every layer
    mnrun_jobs_engine=(env "XDG_RUNTIME_DIR=$mnrun_own/user" podman --root "$mnrun_own/root"
      --runroot "$mnrun_own/run" --tmpdir "$mnrun_own/tmp"
      --storage-driver=overlay --storage-opt "additionalimagestore=$mnrun_store/root" --cgroup-manager=cgroupfs)
    mnrun_at_once=(--time 0)
    # `podman login` writes this file, and podman reads it before other files (containers-auth.json(5)).
    mnrun_logged_in=${XDG_RUNTIME_DIR-}/containers/auth.json
    export XDG_RUNTIME_DIR=$mnrun_store/user
    export PODMAN_IGNORE_CGROUPSV1_WARNING=1
    ;;
  *) mnrun_engine=() mnrun_jobs_engine=() ;;
esac

ask() { # SECONDS WORDS: Run the engine. podman leaves a process behind, and sweep.sh finds it by the job's mark
  MNRUN_JOB_ID=$mnrun_id timeout -k 1 "$1" "${mnrun_engine[@]}" "${@:2}" </dev/null
}

ask_jobs_engine() { # SECONDS WORDS: Run the engine of the job's containers, with the job's mark
  MNRUN_JOB_ID=$mnrun_id timeout -k 1 "$1" "${mnrun_jobs_engine[@]}" "${@:2}" </dev/null
}

end_marked() { # ID: End all processes with this mark. One may have started another since the last look
  local pids
  for _ in {1..100}; do
    mapfile -t pids < <(marked "$1")
    ((${#pids[@]})) || return 0
    kill -KILL "${pids[@]}" 2>/dev/null || true
    sleep 0.02
  done
}

usable() { # Test whether the job's runtime is usable here. Print the reason where it is not
  local said code=0
  if [[ $mnrun_runtime == charliecloud ]]; then
    ch-run --help 2>&1 | grep -qe --write-fake && return 0
    echo "ch-run is too old on this node: it has no --write-fake, which mnrun needs to mount directories"
    return 1
  fi
  command -v "$mnrun_runtime" >/dev/null || { echo "$mnrun_runtime is not installed on this node"; return 1; }
  if [[ $mnrun_runtime == podman ]]; then
    storable && new_enough && return 0
    return 1
  fi
  if [[ $mnrun_runtime != docker ]]; then
    echo "mnrun cannot test $mnrun_runtime on a node: add a branch for it to usable in wrappers/lib/engines.sh"
    return 1
  fi
  if own_tmp; then
    echo "dockerd does not see the /tmp that each job has of its own here (job_container/tmpfs): use --runtime podman or apptainer"
    return 1
  fi
  said=$(ask 20 info --format '{{json .}}' 2>&1) || code=$? # docker exits with 0 also where dockerd did not answer
  case $said in # warnings may stand beside an answer
    *'"ServerVersion":"'[0-9]*) if [[ $said != *name=rootless* ]] || rootless "$said"; then return 0; fi ;;
    *'permission denied while'* | *'connect: permission denied'*)
      echo "$(id -un) may not use docker here: an administrator adds them to its group" \
        "(usermod -aG docker $(id -un)), or use --runtime podman" ;;
    *'annot connect'* | *'ailed to connect'* | *'daemon running'*)
      echo 'dockerd is not running on this node: an administrator starts it, or use another --runtime' ;;
    *)
      if ((code == 124 || code == 137)); then
        echo 'dockerd does not answer on this node'
      else
        said=${said##*$'\n'} && echo "docker: ${said:0:200}"
      fi
      ;;
  esac
  return 1
}

storable() { # Make podman's store, and test whether this user's images can lie there. Print the reason where they cannot
  local other="name another place with --podman-root"
  (umask 077 && mkdir -p "$mnrun_store" && [[ ! -L $mnrun_store ]]) 2>/dev/null ||
    { echo "$mnrun_store cannot be made, or is a link: $other"; return 1; }
  ! foreign "$mnrun_store" || { echo "$REPLY: $other"; return 1; } # exposed.sh
  (umask 077 && mkdir -p "$mnrun_store/user/containers") 2>/dev/null ||
    { echo "cannot write to $mnrun_store: $other"; return 1; }
  [[ ! -r $mnrun_logged_in ]] || ln -sf "$mnrun_logged_in" "$mnrun_store/user/containers/auth.json"
  # A store keeps the driver of its maker. An earlier mnrun or the user may have made it.
  if [[ -d $mnrun_store/root/vfs-images && ! -d $mnrun_store/root/overlay-images ]]; then
    echo "$mnrun_store uses podman's driver vfs, and jobs need overlay: remove it on this node" \
      "(podman unshare rm -rf $mnrun_store), or name another place with --podman-root"
    return 1
  fi
  # Slurm 24.11 makes the job's own /tmp with mode 0700. The container's other users could not enter it.
  ! own_tmp || [[ ! -O $mnrun_tmp ]] || chmod a+x "$mnrun_tmp"
  subordinate && return 0
  echo "$(id -un) has no subordinate ids here, which podman needs: an administrator adds them" \
    "(usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $(id -un))"
  return 1
}

own_tmp() { # Test whether the job has a /tmp of its own
  # Slurm mounts …/JOB/.JOB on /tmp, and since 23.02 the directory _tmp inside it (job_container.conf(5)).
  [[ ${mnrun_job_value-} =~ ^[0-9]+$ ]] &&
    grep -qE "^[0-9]+ [0-9]+ [0-9:]+ [^ ]*/\.?$mnrun_job_value(/[^ ]*)? /tmp " "$mnrun_mounts"
}

new_enough() { # Test for --group-add=keep-groups of podman 3.2, once for each store. Print why where it is missing
  local said
  [[ ! -e $mnrun_store/keeps-groups ]] || return 0
  said=$(HOME=$mnrun_store/user XDG_CONFIG_HOME=$mnrun_store/user timeout -k 1 20 podman --version 2>/dev/null </dev/null)
  if [[ $said =~ ([0-9]+)\.([0-9]+) ]] && ((BASH_REMATCH[1] * 1000 + BASH_REMATCH[2] < 3002)); then
    echo "podman ${BASH_REMATCH[1]}.${BASH_REMATCH[2]} is too old on this node, since only 3.2 and later keep a user's" \
      "groups: install a newer one, or use another --runtime"
    return 1
  fi
  : >"$mnrun_store/keeps-groups"
}

rootless() { # INFO: Note that docker runs without root, where the user is root in the container
  # Before 29.5, its `--network=host` is not the network of the node. Print this then, and return false.
  : >rootless
  if [[ $1 =~ '"ServerVersion":"'([0-9]+)\.([0-9]+) ]] && ((BASH_REMATCH[1] * 1000 + BASH_REMATCH[2] < 29005)); then
    echo "docker ${BASH_REMATCH[1]}.${BASH_REMATCH[2]} is rootless here, and uses the node's network only from 29.5" \
      "on: use --runtime podman"
    return 1
  fi
}

subordinate() { # Test for subordinate ids (subuid(5)). podman maps only one user without them
  local name
  name=$(id -un)
  if command -v getsubids >/dev/null; then
    getsubids "$name" >/dev/null 2>&1 && getsubids -g "$name" >/dev/null 2>&1
  else
    grep -qE "^($name|$(id -u)):" /etc/subuid && grep -qE "^($name|$(id -u)):" /etc/subgid
  fi
}

has() { # IMAGE: Test whether the engine has it on this node. Print the reason where it has not
  local said
  if said=$(ask 60 image inspect --format '{{.Id}}' "$1" 2>&1); then return 0; fi
  case ${said,,} in
    *'no such image'* | *'image not known'* | '')
      echo "$mnrun_runtime has no image $1 on this node: load it there (\`$mnrun_runtime load\`), or name an image of a registry" ;;
    *) echo "$mnrun_runtime: ${said##*$'\n'}" ;;
  esac
  return 1
}

# ID: Test whether the image is there for the user's ids
mapped() { [[ $mnrun_runtime == docker || -e $mnrun_store/mapped/$1 ]]; }

map() { # ID: Make podman copy the image for the user's ids, which takes seconds. The copy serves all jobs
  local id
  # A process that was killed here has left its container.
  ask 20 container prune --force --filter until=10m >/dev/null 2>&1 || true
  if id=$(ask 600 create --userns=keep-id "$1" true 2>/dev/null); then
    ask 20 rm --volumes "$id" >/dev/null 2>&1 && mkdir -p "$mnrun_store/mapped" && : >"$mnrun_store/mapped/$1"
  fi || true # without that copy each container of the job makes its own
}

end_containers() { # End all containers of the job. Print those that remain. An engine may hang
  local deadline=$((SECONDS + 6)) ids=''
  ((${#mnrun_jobs_engine[@]})) && [[ $mnrun_runtime == docker || -d $mnrun_own/root ]] || return 0
  while ((SECONDS < deadline)); do
    if ! ids=$(ask_jobs_engine 3 ps --all --quiet --filter "label=mnrun.job=$mnrun_id" 2>/dev/null); then
      # A podman that does not answer matters little. sweep.sh ends its processes, and remove_podman_store removes its
      # files.
      [[ $mnrun_runtime == docker ]] || return 0
      echo "$mnrun_runtime's containers with the label mnrun.job=$mnrun_id ($mnrun_runtime does not answer)"
      return 0
    fi
    [[ -n $ids ]] || return 0
    # shellcheck disable=SC2086  # a list of ids
    ask_jobs_engine 3 rm --force --volumes "${mnrun_at_once[@]}" $ids >/dev/null 2>&1 || sleep 0.1
  done
  echo "$mnrun_runtime's containers ${ids//$'\n'/ }"
}

remove_podman_store() { # Remove podman's files
  # Files of the user's subordinate ids are removable only within podman's user namespace.
  [[ $mnrun_runtime == podman && -d $mnrun_own ]] || return 0
  rm -rf "$mnrun_own" 2>/dev/null || {
    rm -rf "$mnrun_own"/{user,run,tmp} "$mnrun_own"/root/{libpod,db.sql*} # podman starts afresh without its database
    (umask 077 && mkdir "$mnrun_own/user")
    ask_jobs_engine 30 unshare rm -rf "$mnrun_own/root" >/dev/null 2>&1
  } || true
}
