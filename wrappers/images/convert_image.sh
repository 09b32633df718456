#!/bin/bash
# shellcheck disable=SC2034,SC2154  # engines.sh reads these, and sets mnrun_engine
# The launcher runs `convert_image.sh RUNTIME PODMAN_ROOT PROGRAM PLACE file|store SOURCE TARGET` on this machine.
#     file     makes the SIF file TARGET of the image SOURCE in the store of RUNTIME (podman, docker)
#     store    makes the image TARGET in that store of the image file SOURCE
# PROGRAM is apptainer or singularity. PLACE is an empty directory, which the launcher removes.
# processes.sh and engines.sh stand in front of it, the latter as a function `engines` (nodes/kit.py).
set -uo pipefail
mnrun_runtime=$1 mnrun_podman=$2 program=$3 place=$4 what=$5 source=$6 target=$7 mnrun_id=convert.$$

engine() { MNRUN_JOB_ID=$mnrun_id XDG_DATA_HOME=${mnrun_store:-$HOME/.local/share} "${mnrun_engine[@]}" "$@"; }

to_file() { # Save the image to an archive, and build a file of that
  local format=() reason
  [[ $mnrun_runtime != podman ]] || format=(--format docker-archive)
  reason=$(has "$source") || {
    echo "$reason" >&2
    return 1
  }
  engine save "${format[@]}" --output "$place/image.tar" "$source" &&
    "$program" build "$target" "docker-archive:$place/image.tar"
}

variables() { # Print the variables that the image sets, each as `ENV NAME="VALUE"` and a NUL
  local pair value
  env -i "PATH=$PATH" "HOME=$HOME" "$program" exec --cleanenv --no-home --contain --pwd / "$place/tree" env -0 |
    while IFS= read -rd '' pair; do
      # The runtime appends its own directory to this one.
      [[ $pair != LD_LIBRARY_PATH=* ]] || pair=${pair%/.singularity.d/libs} pair=${pair%:}
      case $pair in
        APPTAINER_* | SINGULARITY_* | HOME=* | PWD=* | OLDPWD=* | SHLVL=* | TERM=* | PS1=* | PROMPT_COMMAND=* | USER_PATH=* | LD_LIBRARY_PATH= | _=*) ;;
        *$'\n'*) ;; # an image of a store cannot set these
        *)
          value=${pair#*=}
          # Docker reads backslashes between the quotes. Podman takes everything there as it is.
          [[ $mnrun_runtime == podman ]] || value=${value//\\/\\\\} value=${value//\"/\\\"} value=${value//\$/\\\$}
          printf 'ENV %s="%s"\0' "${pair%%=*}" "$value" ;;
      esac
    done
}

to_store() { # Unpack the file, and import it with its variables. root owns all files of the image
  local changes=() line
  "$program" build --sandbox "$place/tree" "$source" || return $?
  variables >"$place/variables" || return $?
  while IFS= read -rd '' line; do changes+=(--change "$line"); done <"$place/variables"
  # The runtime's own files would be in the way of a file that is made of this image.
  tar -C "$place/tree" --numeric-owner --owner=0 --group=0 --exclude=./.singularity.d --exclude=./singularity \
    --exclude=./environment --exclude=./.exec --exclude=./.run --exclude=./.shell --exclude=./.test -c . | engine import "${changes[@]}" - "$target"
}

engines
reason=$(usable) || {
  echo "$reason" >&2
  exit 1
}
trap : TERM # build_group.sh ends the whole group, and this shell cleans up after that
code=0
case $what in
  file) to_file || code=$? ;;
  store) to_store || code=$? ;;
esac
end_marked "$mnrun_id"
exit "$code"
