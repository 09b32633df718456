#!/bin/bash
# shellcheck disable=SC2034,SC2154  # walk.sh has the rest
# The batch script's side of PREPARE, as running/prepare.py is a live launch's; walk.sh's, where the image is a registry's.

declare -A mnrun_pulling=() mnrun_image_id=() mnrun_image_at=()
mnrun_image='' mnrun_pulled='' mnrun_unpulled='' mnrun_pull=''

prepare() { # SECONDS REFERENCE WORDS: the image on every node; its input is a lease, too
  local deadline=$((SECONDS + $1)) limit=$1 reference=$2 begun=$SECONDS name told='' spoke=''
  shift 2
  mkfifo "$mnrun_mine/pull"
  exec {mnrun_pull}<>"$mnrun_mine/pull"
  {
    deaf
    exec {mnrun_pull}>&- {mnrun_lease}>&-
    "$@" <"$mnrun_mine/pull" 2>"$mnrun_mine/noise" && echo pull-ended 0 || echo "pull-ended $?"
  } | relay {mnrun_pull}>&- {mnrun_lease}>&- &
  {
    stat -c %s "$mnrun_stage/pull.sh"
    cat "$mnrun_stage/pull.sh"
  } >&"$mnrun_pull"
  while ((${#mnrun_image_id[@]} < ${#mnrun_names[@]})); do
    if [[ -z $told && ${#mnrun_pulling[@]} -gt 0 ]]; then
      told=1
      say "pulling $reference, for $limit s at most (--pull-timeout)"
    fi
    if [[ -z $spoke && ${#mnrun_failed[@]} -gt 0 ]]; then # the others have a moment to say the same
      spoke=1 deadline=$((SECONDS + mnrun_grace))
    fi
    ((${#mnrun_failed[@]} == 0 || ${#mnrun_failed[@]} + ${#mnrun_image_id[@]} < ${#mnrun_names[@]})) || deadline=$((SECONDS - 1))
    if [[ -z $mnrun_pulled ]] && hear $((deadline - SECONDS)); then continue; fi
    [[ -z $mnrun_unpulled ]] || die 125 "$(reasons mnrun_failed)"
    ((${#mnrun_failed[@]} == 0)) || die 121 "${#mnrun_failed[@]} of ${#mnrun_names[@]} nodes not ready: $(reasons mnrun_failed)"
    [[ -z $mnrun_pulled ]] || die 121 "the step that pulls $reference ended$(noise)"
    for name in "${mnrun_names[@]}"; do
      [[ -n ${mnrun_image_id[$name]-} ]] || mnrun_failed["$name"]=${mnrun_pulling["$name"]:-no word from it}
    done
    die 124 "$reference is not there after $limit s: $(reasons mnrun_failed); --pull-timeout gives it longer"
  done
  end_pull
  for name in "${mnrun_names[@]}"; do
    [[ ${mnrun_image_id[$name]} == "${mnrun_image_id[$mnrun_head]}" ]] ||
      die 121 "$reference is not the same on all nodes: $(reasons mnrun_image_id); --pull always asks the registry anew on each; what none has, load anew on each"
  done
  for name in "${mnrun_names[@]}"; do
    [[ ${mnrun_image_at[$name]} == "${mnrun_image_at[$mnrun_head]}" ]] || mnrun_image=$reference # the same, under ids of the nodes' own
  done
  [[ -z $told ]] || say "$reference is $mnrun_image, after $((SECONDS - begun)) s"
  mnrun_here_is=()
  sed -i "s|"$'\x1a'"MNRUN_PULLED|$(as_it_is "$mnrun_image")|g" "$mnrun_mine/kit/needs"
}

as_it_is() { # TEXT in the place of what sed has found; quoted, since an & is a word of bash's own from 5.2 on
  local text=${1//\\/"\\\\"}
  text=${text//|/"\\|"}
  printf %s "${text//&/"\\&"}"
}

hear_of_image() { # WORD NODE WHAT
  case $1 in
    pulling) mnrun_pulling[$2]=$3 ;;
    image) mnrun_image_id[$2]=${3%% *} mnrun_image_at[$2]=${3#* } mnrun_image=${3#* } ;;
    unpulled) mnrun_unpulled=1 mnrun_failed[$2]=${mnrun_failed[$2]:-$3} ;;
  esac
}

end_pull() { # its lease; what is half-done goes, on every node
  local deadline=$((SECONDS + mnrun_farewell))
  [[ -n $mnrun_pull ]] || return 0
  exec {mnrun_pull}>&-
  mnrun_pull=''
  while [[ -z $mnrun_pulled ]] && ((SECONDS < deadline)); do hear 1 || true; done
}
