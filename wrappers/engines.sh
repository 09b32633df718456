# shellcheck shell=bash disable=SC2034,SC2154  # for who sources it; job.sh's
# Docker and podman as this node has them, and whether Charliecloud can be used. The containers of those two are no
# children of ours: they are found by the job's label. Sourced, after job.sh, from the job's node directory.

# where this node says what it has
mnrun_driver=/proc/driver/nvidia/version mnrun_infiniband=/dev/infiniband
mnrun_selinux=/sys/fs/selinux/booleans mnrun_dockerd=/run/docker.pid
mnrun_cdi=(/etc/cdi /var/run/cdi) mnrun_mounts=/proc/self/mountinfo mnrun_tmp=/tmp
# mnrun_engine: for its images; mnrun_boxes: for the job's containers; mnrun_at_once: `rm --force` without a word to what runs there
mnrun_at_once=()
case $mnrun_runtime in
  docker) mnrun_engine=(docker) mnrun_boxes=(docker) ;;
  podman)
    # Images lie on the node, never in the home directory, which nodes share; the same words with every call,
    # since podman keeps them in its database. Containers lie in the job's own directory: where the scheduler
    # kills podman's helpers, podman cannot make anything any more of what it then finds there (5.4).
    mnrun_own=${mnrun_here-}/podman
    mnrun_store=${mnrun_podman:-/tmp/mnrun-podman.$(id -u)}
    mnrun_engine=(podman --root "$mnrun_store/root" --runroot "$mnrun_store/run" --tmpdir "$mnrun_store/tmp"
      --storage-driver=overlay --cgroup-manager=cgroupfs) # up to 4.3 its own choice may be vfs
    mnrun_boxes=(env "XDG_RUNTIME_DIR=$mnrun_own/user" podman --root "$mnrun_own/root" --runroot "$mnrun_own/run" --tmpdir "$mnrun_own/tmp"
      --storage-driver=overlay --storage-opt "additionalimagestore=$mnrun_store/root" --cgroup-manager=cgroupfs)
    mnrun_at_once=(--time 0)
    mnrun_logged_in=${XDG_RUNTIME_DIR-}/containers/auth.json # podman login's, the first of several that podman reads
    export XDG_RUNTIME_DIR=$mnrun_store/user
    export PODMAN_IGNORE_CGROUPSV1_WARNING=1
    ;;
  *) mnrun_engine=() mnrun_boxes=() ;;
esac

ask() { # SECONDS WORDS: the engine, as a process of the job; podman leaves one behind
  MNRUN_JOB_ID=$mnrun_id timeout -k 1 "$1" "${mnrun_engine[@]}" "${@:2}" </dev/null
}

ask_boxes() { # the same of the job's containers
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
    if [[ -d $mnrun_store/root/vfs-images && ! -d $mnrun_store/root/overlay-images ]]; then # an earlier mnrun's, say
      echo "$mnrun_store is of podman's driver vfs, and jobs need overlay: remove it on this node (podman unshare rm -rf $mnrun_store), or name another place with --podman-root"
      return 1
    fi
    ! own_tmp || [[ ! -O $mnrun_tmp ]] || chmod a+x "$mnrun_tmp" # Slurm 24.11 opens it for the job's own user alone, who is none of a container's
    subordinate && return
    echo "$(id -un) has no subordinate ids here, which podman needs: an administrator adds them (usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $(id -un))"
    return 1
  fi
  if own_tmp; then
    echo "dockerd does not see the /tmp that Slurm gives each job of its own here (job_container/tmpfs): use --runtime podman or apptainer"
    return 1
  fi
  said=$(ask 20 info --format '{{json .}}' 2>&1) || code=$? # 0 as well where dockerd did not answer
  case $said in # beside an answer there may be warnings
    *'"ServerVersion":"'[0-9]*) if [[ $said != *name=rootless* ]] || rootless "$said"; then return 0; fi ;;
    *'permission denied while'* | *'connect: permission denied'*) echo "$(id -un) may not use docker here: an administrator adds them to its group (usermod -aG docker $(id -un)), or use --runtime podman" ;;
    *'annot connect'* | *'ailed to connect'* | *'daemon running'*) echo 'dockerd is not running on this node: systemctl start docker, or use another --runtime' ;;
    *)
      if ((code == 124 || code == 137)); then echo 'dockerd does not answer on this node'; else said=${said##*$'\n'} && echo "docker: ${said:0:200}"; fi
      ;;
  esac
  return 1
}

own_tmp() { # whether Slurm has given the job a /tmp of its own: it mounts …/JOB/.JOB there, and in it _tmp since 23.02
  [[ ${SLURM_JOB_ID-} =~ ^[0-9]+$ ]] &&
    grep -qE "^[0-9]+ [0-9]+ [0-9:]+ [^ ]*/$SLURM_JOB_ID/\.$SLURM_JOB_ID(/_tmp)? /tmp " "$mnrun_mounts"
}

new_enough() { # whether this podman has keep-groups; asked until the store has a mark that it has. Says why not
  local said
  [[ ! -e $mnrun_store/keeps-groups ]] || return 0
  said=$(HOME=$mnrun_store/user XDG_CONFIG_HOME=$mnrun_store/user timeout -k 1 20 podman --version 2>/dev/null </dev/null)
  if [[ $said =~ ([0-9]+)\.([0-9]+) ]] && ((BASH_REMATCH[1] * 1000 + BASH_REMATCH[2] < 3002)); then
    echo "podman ${BASH_REMATCH[1]}.${BASH_REMATCH[2]} is too old on this node, which cannot keep a user's groups (it is from 3.2 on): install a newer one, or use another --runtime"
    return 1
  fi
  : >"$mnrun_store/keeps-groups"
}

rootless() { # INFO: docker without root: its user is root inside, and until 29.5 `--network=host` was no host's
  : >rootless
  if [[ $1 =~ '"ServerVersion":"'([0-9]+)\.([0-9]+) ]] && ((BASH_REMATCH[1] * 1000 + BASH_REMATCH[2] < 29005)); then
    echo "docker ${BASH_REMATCH[1]}.${BASH_REMATCH[2]} is rootless here, and its network not the node's (it is from 29.5 on): use --runtime podman"
    return 1
  fi
}

subordinate() { # whether podman can map more than one user
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

map() { # ID: podman copies an image for a user's ids, for seconds: once, in the store, and not for each job anew
  local id
  ask 20 container prune --force --filter until=10m >/dev/null 2>&1 || true # what one that was killed here left
  if id=$(ask 600 create --userns=keep-id "$1" true 2>/dev/null); then
    ask 20 rm "$id" >/dev/null 2>&1 && mkdir -p "$mnrun_store/mapped" && : >"$mnrun_store/mapped/$1"
  fi || true # then the job makes its own
}

end_containers() { # of the job, all of them; says what is left. Never waits long: an engine may hang
  local deadline=$((SECONDS + 6)) ids=''
  ((${#mnrun_boxes[@]})) && [[ $mnrun_runtime == docker || -d $mnrun_own/root ]] || return 0
  while ((SECONDS < deadline)); do
    if ! ids=$(ask_boxes 3 ps --all --quiet --filter "label=mnrun.job=$mnrun_id" 2>/dev/null); then
      [[ $mnrun_runtime == docker ]] || return 0 # its processes end as the job's do, and its files with the directory
      echo "$mnrun_runtime's containers with the label mnrun.job=$mnrun_id ($mnrun_runtime does not answer)"
      return
    fi
    [[ -n $ids ]] || return 0
    # shellcheck disable=SC2086  # ids
    ask_boxes 3 rm --force "${mnrun_at_once[@]}" $ids >/dev/null 2>&1 || sleep 0.1
  done
  echo "$mnrun_runtime's containers ${ids//$'\n'/ }"
}

scrap() { # podman's files, some of which belong to its subordinate users
  [[ $mnrun_runtime == podman && -d $mnrun_own ]] || return 0
  rm -rf "$mnrun_own" 2>/dev/null || {
    rm -rf "$mnrun_own"/{user,run,tmp} "$mnrun_own"/root/{libpod,db.sql*} # so that it starts afresh
    (umask 077 && mkdir "$mnrun_own/user")
    ask_boxes 30 unshare rm -rf "$mnrun_own/root" >/dev/null 2>&1
  } || true
}
