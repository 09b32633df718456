# shellcheck shell=sh disable=SC1091,SC2154
# rank.sh sources this where the program is a service. It fills in the words {port}, {node_rank} … of the command, and
# gives the token by the environment, which only the user can read (proc(5), /proc/pid/environ).
. "$mnrun_here/service"
if [ -n "$mnrun_secret" ]; then export "$mnrun_secret=$mnrun_token"; fi

mnrun_it=0
for mnrun_own in $mnrun_addresses; do
  [ "$mnrun_it" != "${NODE_RANK-0}" ] || break
  mnrun_it=$((mnrun_it + 1))
done

mnrun_fill() { # WORD: Set mnrun_word to it, with the values for its names
  mnrun_word='' mnrun_rest=$1
  while :; do
    case $mnrun_rest in *'{'*'}'*) ;; *) break ;; esac
    mnrun_word=$mnrun_word${mnrun_rest%%'{'*} mnrun_rest=${mnrun_rest#*'{'}
    case ${mnrun_rest%%'}'*} in
      port) mnrun_it=$mnrun_port ;;
      nnodes) mnrun_it=$mnrun_nnodes ;;
      node_rank) mnrun_it=${NODE_RANK-0} ;;
      address) mnrun_it=$mnrun_own ;;
      local_rank) mnrun_it=${LOCAL_RANK-0} ;;
      head) mnrun_it=${MASTER_ADDR-} ;;
      master_port) mnrun_it=${MASTER_PORT-} ;;
      *) mnrun_word="$mnrun_word{" && continue ;;
    esac
    mnrun_word=$mnrun_word$mnrun_it mnrun_rest=${mnrun_rest#*'}'}
  done
  mnrun_word=$mnrun_word$mnrun_rest
}

for mnrun_it; do
  shift
  case $mnrun_it in
    '{first:'*'}') [ "${NODE_RANK-0}" = 0 ] || continue ;;
    '{others:'*'}') [ "${NODE_RANK-0}" != 0 ] || continue ;;
  esac
  case $mnrun_it in '{first:'*'}' | '{others:'*'}') mnrun_it=${mnrun_it#*:} mnrun_it=${mnrun_it%'}'} ;; esac
  mnrun_fill "$mnrun_it"
  set -- "$@" "$mnrun_word"
done
