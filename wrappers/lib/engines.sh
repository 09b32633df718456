# shellcheck shell=bash disable=SC2034,SC2154  # some names are for who sources it, others are job.sh's
# Docker and podman as this node has them, and whether Charliecloud can be used. Containers of docker and podman are no
# children of ours: they are found by the job's label. Sourced, after job.sh, from the job's node directory.

# Where this node says what it has: files of the driver, the kernel, dockerd and CDI.
mnrun_driver=/proc/driver/nvidia/version mnrun_infiniband=/dev/infiniband
mnrun_selinux=/sys/fs/selinux/booleans mnrun_dockerd=/run/docker.pid
mnrun_cdi=(/etc/cdi /var/run/cdi) mnrun_mounts=/proc/self/mountinfo mnrun_tmp=/tmp
# mnrun_engine is the command for images, and mnrun_boxes the one for the job's containers. mnrun_at_once makes
# `rm --force` kill what runs there without a TERM first: podman waits 10 s after that (podman-rm(1)).
mnrun_at_once=()
case $mnrun_runtime in
  docker) mnrun_engine=(docker) mnrun_boxes=(docker) ;;
  podman)
    # Images lie on the node, never in the home directory, which nodes share. Every call has the same words in front:
    # podman records these places in its database, and refuses others later. Containers lie in the job's own directory:
    # where the scheduler kills podman's helpers, podman (seen with 5.4) cannot use the store that it finds then.
    mnrun_own=${mnrun_here-}/podman
    mnrun_store=${mnrun_podman:-/tmp/mnrun-podman.$(id -u)}
    mnrun_engine=(podman --root "$mnrun_store/root" --runroot "$mnrun_store/run" --tmpdir "$mnrun_store/tmp"
      --storage-driver=overlay --cgroup-manager=cgroupfs) # podman up to 4.3 may choose vfs, which copies every layer
    mnrun_boxes=(env "XDG_RUNTIME_DIR=$mnrun_own/user" podman --root "$mnrun_own/root" --runroot "$mnrun_own/run" --tmpdir "$mnrun_own/tmp"
      --storage-driver=overlay --storage-opt "additionalimagestore=$mnrun_store/root" --cgroup-manager=cgroupfs)
    mnrun_at_once=(--time 0)
    # What `podman login` writes, and podman reads before other files (containers-auth.json(5)).
    mnrun_logged_in=${XDG_RUNTIME_DIR-}/containers/auth.json
    export XDG_RUNTIME_DIR=$mnrun_store/user
    export PODMAN_IGNORE_CGROUPSV1_WARNING=1
    ;;
  *) mnrun_engine=() mnrun_boxes=() ;;
esac

ask() { # SECONDS WORDS: the engine, with the job's mark: podman leaves a process behind, which sweep.sh finds by it
  MNRUN_JOB_ID=$mnrun_id timeout -k 1 "$1" "${mnrun_engine[@]}" "${@:2}" </dev/null
}

ask_boxes() { # SECONDS WORDS: the same for the job's containers
  MNRUN_JOB_ID=$mnrun_id timeout -k 1 "$1" "${mnrun_boxes[@]}" "${@:2}" </dev/null
}

usable() { # whether the engine can be used here; says why not
  local said code=0
  if [[ $mnrun_runtime == charliecloud ]]; then
    ch-run --help 2>&1 | grep -qe --write-fake && return
    echo "ch-run is too old on this node: it has no --write-fake, by which directories are mounted into an image"
    return 1
  fi
  command -v "$mnrun_runtime" >/dev/null || { echo "$mnrun_runtime is not installed on this node"; return 1; }
  if [[ $mnrun_runtime == podman ]]; then
    (umask 077 && mkdir -p "$mnrun_store" && [[ -O $mnrun_store && ! -L $mnrun_store ]] && mkdir -p "$mnrun_store/user/containers") 2>/dev/null ||
      { echo "$mnrun_store cannot be made or is not ours: name a place on the nodes with --podman-root"; return 1; }
    [[ ! -r $mnrun_logged_in ]] || ln -sf "$mnrun_logged_in" "$mnrun_store/user/containers/auth.json"
    new_enough || return 1
    # A store keeps the driver that it was made with: by an earlier mnrun, or by hand.
    if [[ -d $mnrun_store/root/vfs-images && ! -d $mnrun_store/root/overlay-images ]]; then
      echo "$mnrun_store is of podman's driver vfs, and jobs need overlay: remove it on this node (podman unshare rm -rf $mnrun_store), or name another place with --podman-root"
      return 1
    fi
    # Slurm 24.11 makes the job's own /tmp with mode 0700. A container's other users could not enter it.
    ! own_tmp || [[ ! -O $mnrun_tmp ]] || chmod a+x "$mnrun_tmp"
    subordinate && return
    echo "$(id -un) has no subordinate ids here, which podman needs: an administrator adds them (usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $(id -un))"
    return 1
  fi
  if own_tmp; then
    echo "dockerd does not see the /tmp that Slurm gives each job of its own here (job_container/tmpfs): use --runtime podman or apptainer"
    return 1
  fi
  said=$(ask 20 info --format '{{json .}}' 2>&1) || code=$? # docker ends with 0 also where dockerd did not answer
  case $said in # warnings may stand beside an answer
    *'"ServerVersion":"'[0-9]*) if [[ $said != *name=rootless* ]] || rootless "$said"; then return 0; fi ;;
    *'permission denied while'* | *'connect: permission denied'*) echo "$(id -un) may not use docker here: an administrator adds them to its group (usermod -aG docker $(id -un)), or use --runtime podman" ;;
    *'annot connect'* | *'ailed to connect'* | *'daemon running'*) echo 'dockerd is not running on this node: systemctl start docker, or use another --runtime' ;;
    *)
      if ((code == 124 || code == 137)); then echo 'dockerd does not answer on this node'; else said=${said##*$'\n'} && echo "docker: ${said:0:200}"; fi
      ;;
  esac
  return 1
}

own_tmp() { # whether the job has a /tmp of its own (job_container.conf(5)): Slurm mounts …/JOB/.JOB there, and since 23.02
  # a directory _tmp of that
  [[ ${SLURM_JOB_ID-} =~ ^[0-9]+$ ]] &&
    grep -qE "^[0-9]+ [0-9]+ [0-9:]+ [^ ]*/$SLURM_JOB_ID/\.$SLURM_JOB_ID(/_tmp)? /tmp " "$mnrun_mounts"
}

new_enough() { # whether this podman has --group-add=keep-groups, as since 3.2; says why not. A yes is noted in the store,
  # so that podman is asked once
  local said
  [[ ! -e $mnrun_store/keeps-groups ]] || return 0
  said=$(HOME=$mnrun_store/user XDG_CONFIG_HOME=$mnrun_store/user timeout -k 1 20 podman --version 2>/dev/null </dev/null)
  if [[ $said =~ ([0-9]+)\.([0-9]+) ]] && ((BASH_REMATCH[1] * 1000 + BASH_REMATCH[2] < 3002)); then
    echo "podman ${BASH_REMATCH[1]}.${BASH_REMATCH[2]} is too old on this node, which cannot keep a user's groups (it is from 3.2 on): install a newer one, or use another --runtime"
    return 1
  fi
  : >"$mnrun_store/keeps-groups"
}

rootless() { # INFO: notes that docker runs without root, where the user is root inside. False where its `--network=host`
  # is not the node's network, as before 29.5; says so
  : >rootless
  if [[ $1 =~ '"ServerVersion":"'([0-9]+)\.([0-9]+) ]] && ((BASH_REMATCH[1] * 1000 + BASH_REMATCH[2] < 29005)); then
    echo "docker ${BASH_REMATCH[1]}.${BASH_REMATCH[2]} is rootless here, and its network not the node's (it is from 29.5 on): use --runtime podman"
    return 1
  fi
}

subordinate() { # whether the user has subordinate ids (subuid(5)), without which podman can map only one user
  local name
  name=$(id -un)
  if command -v getsubids >/dev/null; then
    getsubids "$name" >/dev/null 2>&1 && getsubids -g "$name" >/dev/null 2>&1
  else
    grep -qE "^($name|$(id -u)):" /etc/subuid && grep -qE "^($name|$(id -u)):" /etc/subgid
  fi
}

has() { # IMAGE: whether the engine has it on this node; says why not
  local said
  if said=$(ask 60 image inspect --format '{{.Id}}' "$1" 2>&1); then return; fi
  case ${said,,} in
    *'no such image'* | *'image not known'* | '')
      echo "$mnrun_runtime has no image $1 on this node: load it there (\`$mnrun_runtime load\`), or name one of a registry" ;;
    *) echo "$mnrun_runtime: ${said##*$'\n'}" ;;
  esac
  return 1
}

mapped() { [[ $mnrun_runtime == docker || -e $mnrun_store/mapped/$1 ]]; } # ID: whether the image is there for a user's ids

map() { # ID: have podman copy the image for the user's ids, which takes it seconds. The copy in the store serves all jobs
  local id
  ask 20 container prune --force --filter until=10m >/dev/null 2>&1 || true # one that was killed here has left its container
  if id=$(ask 600 create --userns=keep-id "$1" true 2>/dev/null); then
    ask 20 rm "$id" >/dev/null 2>&1 && mkdir -p "$mnrun_store/mapped" && : >"$mnrun_store/mapped/$1"
  fi || true # without that copy each of the job's containers makes its own
}

end_containers() { # all of the job's; says which are left. It never waits long, since an engine may hang
  local deadline=$((SECONDS + 6)) ids=''
  ((${#mnrun_boxes[@]})) && [[ $mnrun_runtime == docker || -d $mnrun_own/root ]] || return 0
  while ((SECONDS < deadline)); do
    if ! ids=$(ask_boxes 3 ps --all --quiet --filter "label=mnrun.job=$mnrun_id" 2>/dev/null); then
      # A podman that does not answer matters little: sweep.sh ends its processes, and scrap removes its files.
      [[ $mnrun_runtime == docker ]] || return 0
      echo "$mnrun_runtime's containers with the label mnrun.job=$mnrun_id ($mnrun_runtime does not answer)"
      return
    fi
    [[ -n $ids ]] || return 0
    # shellcheck disable=SC2086  # a list of ids
    ask_boxes 3 rm --force "${mnrun_at_once[@]}" $ids >/dev/null 2>&1 || sleep 0.1
  done
  echo "$mnrun_runtime's containers ${ids//$'\n'/ }"
}

scrap() { # podman's files. Some belong to the user's subordinate ids: only within podman's user namespace can they be removed
  [[ $mnrun_runtime == podman && -d $mnrun_own ]] || return 0
  rm -rf "$mnrun_own" 2>/dev/null || {
    rm -rf "$mnrun_own"/{user,run,tmp} "$mnrun_own"/root/{libpod,db.sql*} # podman starts anew without its database
    (umask 077 && mkdir "$mnrun_own/user")
    ask_boxes 30 unshare rm -rf "$mnrun_own/root" >/dev/null 2>&1
  } || true
}
