# shellcheck shell=bash
# clean_env.sh sources this adverb. It waits for the container that this node's ranks share. Then it puts the container
# into the words of the runtime, in place of MNRUN_HOLDER. It knows the spellings of ch-run and Apptainer.
until [[ -e held ]]; do sleep 0.02; done # the guard ends this process where the container cannot come
read -r mnrun_pid mnrun_parent <holder
mnrun_words=()
for mnrun_word; do
  case $mnrun_word in
    --join-pid=MNRUN_HOLDER) mnrun_word=--join-pid=$mnrun_pid ;;
    instance://sharens_instance_MNRUN_HOLDER)
      mnrun_word=instance://sharens_instance_$mnrun_parent
      # Apptainer has written the name once this file is not empty.
      until [[ -s /dev/shm/sharens_instance_$mnrun_parent ]]; do sleep 0.02; done ;;
  esac
  mnrun_words+=("$mnrun_word")
done
set -- "${mnrun_words[@]}"
