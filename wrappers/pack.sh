#!/bin/bash
# shellcheck disable=SC2154  # walk.sh's
# Of walk.sh: what the job's nodes are sent, with this job's names, values and keys in it.

quoted() { # for any shell
  local value=${1//\'/\'\\\'\'}
  printf "'%s'" "$value"
}

write_kit() { # the same files as a live launch sends, with this job's names and values
  local kit=$mine/kit name i mark=$'\x1a'MNRUN_ # script.py's names, which nobody can type
  mkdir -m 700 "$kit"
  cp -r "$stage/kit/." "$kit"
  for name in job.sh user.env launch.env; do
    sed -i -e "s|${mark}HOSTS:[0-9]*|$hostlist|g; s|${mark}JOB|$id|g; s|${mark}SLURM|$job|g; s|${mark}NODES|$nodes|g" "$kit/$name"
  done
  for i in "${!names[@]}"; do echo "${names[i]} ${ranks[i]}"; done >"$kit/layout"
  printf 'job_nodes=%s\njob_split=%s\n' "$list" "$(quoted "$split")" >>"$kit/job.sh"
  rank_variables >>"$kit/user.env"
  if [[ -n $inside ]]; then
    given_back | cat - "$kit/launch.env" >"$mine/launch.env"
    mv "$mine/launch.env" "$kit/launch.env"
  fi
  if [[ $connect == auto ]] && ! command -v ssh-keygen >/dev/null; then connect=pipe; fi
  echo "job_connect=$connect" >>"$kit/job.sh"
  if [[ $connect == ssh || $connect == auto ]]; then
    command -v ssh-keygen >/dev/null || die 121 "ssh-keygen is not installed on $head; --connect pipe does without"
    for name in key hostkey; do ssh-keygen -q -t ed25519 -N '' -C mnrun -f "$kit/$name"; done
    mv "$kit/key.pub" "$kit/authorized_keys"
    (echo -n 'mnrun ' && cat "$kit/hostkey.pub") >"$kit/known_hosts" && rm "$kit/hostkey.pub"
  fi
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
  for value in "${inherited[@]}"; do
    [[ $value == *=* ]] || die 2 "there is no variable $value in this job, which was to be passed on"
  done
  for value in "${variables[@]}" "${inherited[@]}"; do
    name=${value%%=*}
    if [[ $value != *=* ]]; then
      echo "unset $name"
      continue
    fi
    value=${value#*=}
    [[ $name != PATH || -z $inside ]] || value=$here/bin:$value
    printf 'export %s=%s\n' "$name" "$(quoted "$value")"
  done
}

given_back() { # the facts again, for Open MPI, which hands them to every rank though its mpirun must not see them
  local name back=''
  for name in $(facts); do [[ ${!name} == *';'* ]] || back+=${back:+;}$name=${!name}; done
  printf 'export OMPI_MCA_mca_base_env_list=%s\n' "$(quoted "$back")"
}
