#!/bin/bash
# shellcheck disable=SC2034,SC2154  # walk.sh has the rest
# The batch script's side of PREPARE, as launcher/prepare.py is a live launch's; walk.sh's, where the image is a registry's.

declare -A pulling=() image_id=() image_at=()
image='' pulled='' unpulled='' pull=''

prepare() { # SECONDS REFERENCE WORDS: the image on every node; its input is a lease, too
  local deadline=$((SECONDS + $1)) limit=$1 reference=$2 begun=$SECONDS name told='' spoke=''
  shift 2
  mkfifo "$mine/pull"
  exec {pull}<>"$mine/pull"
  {
    deaf
    exec {pull}>&- {lease}>&-
    "$@" <"$mine/pull" 2>"$mine/noise" && echo pull-ended 0 || echo "pull-ended $?"
  } | relay {pull}>&- {lease}>&- &
  {
    stat -c %s "$stage/pull.sh"
    cat "$stage/pull.sh"
  } >&"$pull"
  while ((${#image_id[@]} < ${#names[@]})); do
    if [[ -z $told && ${#pulling[@]} -gt 0 ]]; then
      told=1
      say "pulling $reference, for $limit s at most (--pull-timeout)"
    fi
    if [[ -z $spoke && ${#failed[@]} -gt 0 ]]; then # the others have a moment to say the same
      spoke=1 deadline=$((SECONDS + GRACE))
    fi
    ((${#failed[@]} == 0 || ${#failed[@]} + ${#image_id[@]} < ${#names[@]})) || deadline=$((SECONDS - 1))
    if [[ -z $pulled ]] && hear $((deadline - SECONDS)); then continue; fi
    [[ -z $unpulled ]] || die 125 "$(reasons failed)"
    ((${#failed[@]} == 0)) || die 121 "${#failed[@]} of ${#names[@]} nodes not ready: $(reasons failed)"
    [[ -z $pulled ]] || die 121 "the step that pulls $reference ended$(noise)"
    for name in "${names[@]}"; do
      [[ -n ${image_id[$name]-} ]] || failed["$name"]=${pulling["$name"]:-no word from it}
    done
    die 124 "$reference is not there after $limit s: $(reasons failed); --pull-timeout gives it longer"
  done
  end_pull
  for name in "${names[@]}"; do
    [[ ${image_id[$name]} == "${image_id[$head]}" ]] ||
      die 121 "$reference is not the same on all nodes: $(reasons image_id); --pull always asks the registry anew on each; what none has, load anew on each"
  done
  for name in "${names[@]}"; do
    [[ ${image_at[$name]} == "${image_at[$head]}" ]] || image=$reference # the same, under ids of the nodes' own
  done
  [[ -z $told ]] || say "$reference is $image, after $((SECONDS - begun)) s"
  here_is=()
  sed -i "s|"$'\x1a'"MNRUN_PULLED|${image//[\\|&]/\\&}|g" "$mine/kit/needs"
}

hear_of_image() { # WORD NODE WHAT
  case $1 in
    pulling) pulling[$2]=$3 ;;
    image) image_id[$2]=${3%% *} image_at[$2]=${3#* } image=${3#* } ;;
    unpulled) unpulled=1 failed[$2]=${failed[$2]:-$3} ;;
  esac
}

end_pull() { # its lease; what is half-done goes, on every node
  local deadline=$((SECONDS + FAREWELL))
  [[ -n $pull ]] || return 0
  exec {pull}>&-
  pull=''
  while [[ -z $pulled ]] && ((SECONDS < deadline)); do hear 1 || true; done
}
