#!/bin/bash
# shellcheck disable=SC2034,SC2154  # engines.sh reads these, and sets mnrun_engine
# The launcher runs `make_image.sh BUILDER PODMAN_ROOT WHAT WORDS…` on this machine, with the store that jobs use.
#     build WORDS…                        `BUILDER build WORDS` (docker, podman or buildah), which reads standard input
#     file PROGRAM PLACE SOURCE TARGET    makes the SIF file TARGET of the image SOURCE in the store
#     store PROGRAM PLACE SOURCE TARGET   makes the image TARGET in the store of the image file SOURCE
# PROGRAM is apptainer or singularity. PLACE is an empty directory, which the launcher removes.
# needs: engines.sh()
set -uo pipefail
builder=$1 mnrun_runtime=${1/#buildah/podman} mnrun_podman=$2 what=$3 mnrun_id=make.$$
shift 3

# podman writes a cache below XDG_DATA_HOME.
engine() { MNRUN_JOB_ID=$mnrun_id XDG_DATA_HOME=${mnrun_store:-$HOME/.local/share} "${mnrun_engine[@]}" "$@"; }

build() { # WORDS: Build an image of the Dockerfile on standard input
  # podman's own isolation needs cgroups that a login session may not have (podman-build(1)).
  [[ $builder == docker ]] || set -- --isolation=chroot "$@"
  [[ $builder != buildah ]] || set -- --layers "$@" # what podman does by itself, and --force-rm needs (buildah 1.39)
  engine build "$@"
}

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
test=usable
if [[ $builder == buildah ]]; then # podman may be absent, and buildah lacks some of its options
  test=storable mnrun_engine=(buildah --root "$mnrun_store/root" --runroot "$mnrun_store/run" --storage-driver=overlay)
fi
reason=$("$test") || {
  echo "$reason" >&2
  exit 1
}
trap : TERM # build_group.sh ends the whole group, and this shell cleans up after that
code=0
if [[ $what == build ]]; then
  build "$@" || code=$?
else
  program=$1 place=$2 source=$3 target=$4
  if [[ $what == file ]]; then to_file; else to_store; fi || code=$?
fi
end_marked "$mnrun_id"
exit "$code"
