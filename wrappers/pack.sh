#!/bin/bash
# shellcheck disable=SC2016,SC2154  # for another shell; walk.sh's
# Of walk.sh: what the job's nodes are sent, with this job's names, values and keys in it.

quoted() { # for any shell
  local value=${1//\'/\'\\\'\'}
  printf "'%s'" "$value"
}

write_kit() { # the same files as a live launch sends, with this job's names and values
  local kit=$mnrun_mine/kit name i mark=$'\x1a'MNRUN_ # script.py's names, which nobody can type
  mkdir -m 700 "$kit"
  cp -r "$mnrun_stage/kit/." "$kit"
  for name in job.sh user.env launch.env; do
    sed -i -e "s|${mark}HOSTS:[0-9]*|$mnrun_hostlist|g; s|${mark}JOB|$mnrun_id|g; s|${mark}SLURM|$mnrun_job|g; s|${mark}NODES|$mnrun_nodes|g" "$kit/$name"
  done
  for i in "${!mnrun_names[@]}"; do echo "${mnrun_names[i]} ${mnrun_ranks[i]}"; done >"$kit/layout"
  printf 'mnrun_nodes=%s\nmnrun_split=%s\n' "$mnrun_list" "$(quoted "$mnrun_split")" >>"$kit/job.sh"
  [[ -z ${mnrun_fabric-} ]] || fabric >"$kit/fabric.env"
  rank_variables >>"$kit/user.env"
  if [[ -n $mnrun_inside ]]; then
    given_back | cat - "$kit/launch.env" >"$mnrun_mine/launch.env"
    mv "$mnrun_mine/launch.env" "$kit/launch.env"
  fi
  if [[ $mnrun_connect == auto ]] && ! command -v ssh-keygen >/dev/null; then mnrun_connect=pipe; fi
  echo "mnrun_connect=$mnrun_connect" >>"$kit/job.sh"
  if [[ $mnrun_connect == ssh || $mnrun_connect == auto ]]; then
    command -v ssh-keygen >/dev/null || die 121 "ssh-keygen is not installed on $mnrun_head; --connect pipe does without"
    for name in key hostkey; do ssh-keygen -q -t ed25519 -N '' -C mnrun -f "$kit/$name"; done
    mv "$kit/key.pub" "$kit/authorized_keys"
    (echo -n 'mnrun ' && cat "$kit/hostkey.pub") >"$kit/known_hosts" && rm "$kit/hostkey.pub"
  fi
}

fabric() { # the profile's networks and adapters, for who has no others; Open MPI's include excludes its exclude
  local name value
  for value in "${mnrun_fabric[@]}"; do
    name=${value%%=*}
    printf '[ -n "${%s+x}${%s+x}" ] || export %s=%s\n' "$name" "${name/include/exclude}" "$name" "$(quoted "${value#*=}")"
  done
}

facts() { # what a rank gets back of its job: names
  local name
  for name in SLURM_JOB_ID SLURM_JOB_NAME SLURM_RESTART_COUNT SLURM_JOB_END_TIME SLURM_SUBMIT_DIR "${!SLURM_ARRAY_@}"; do
    [[ -z ${!name-} ]] || echo "$name"
  done
}

rank_variables() { # `export` lines: the job's facts, the values that were asked for, and those passed on
  local name value
  for name in $(facts); do printf 'export %s=%s\n' "$name" "$(quoted "${!name}")"; done
  for value in "${mnrun_inherited[@]}"; do
    [[ $value == *=* ]] || die 2 "there is no variable $value in this job, which was to be passed on"
  done
  for value in "${mnrun_variables[@]}" "${mnrun_inherited[@]}"; do
    name=${value%%=*}
    if [[ $value != *=* ]]; then
      echo "unset $name"
      continue
    fi
    value=${value#*=}
    [[ $name != PATH || -z $mnrun_inside ]] || value=$mnrun_here/bin:$value
    printf 'export %s=%s\n' "$name" "$(quoted "$value")"
  done
}

given_back() { # the facts again, for Open MPI, which hands them to every rank though its mpirun must not see them
  local name back=''
  for name in $(facts); do [[ ${!name} == *';'* ]] || back+=${back:+;}$name=${!name}; done
  printf 'export OMPI_MCA_mca_base_env_list=%s\n' "$(quoted "$back")"
}
