# shellcheck shell=sh disable=SC2154
# `mnrun shim` writes this file as DIR/srun, DIR/sbatch and DIR/enroot, with the words of its mnrun in front. It hands
# the lines of pyxis to mnrun, and becomes Slurm's program for all others. So those keep process, signals and exit code.
mnrun_name=${0##*/}
mnrun_ours=
case $mnrun_name${1+ $1} in
  'srun --help' | enroot*) mnrun_program shim -- "$mnrun_name" "$@" ;; # tools ask there for pyxis and its containers
  srun*) mnrun_ours=${PYXIS_CONTAINER_IMAGE-}${PYXIS_CONTAINER_NAME-} ;;
  *) mnrun_input=1 ;; # a script that no word names comes from standard input
esac
for mnrun_word; do
  case $mnrun_word in
    --container-* | --no-container-*) mnrun_ours=1 ;;
    --wrap | --wrap=*) mnrun_input= ;;
    *)
      [ "${mnrun_input-}" ] && [ -f "$mnrun_word" ] || continue
      mnrun_input=
      grep -q '^#SBATCH.*[[:space:]]--\(no-\)\{0,1\}container-' "$mnrun_word" && mnrun_ours=1
      ;;
  esac
done
[ "$mnrun_ours${mnrun_input-}" = "" ] || mnrun_program shim -- "$mnrun_name" "$@"

# The next program of this name on PATH, behind this one
mnrun_path=":$PATH:"
mnrun_path=${mnrun_path##*":${0%/*}:"}
while [ "$mnrun_path" ]; do
  mnrun_place=${mnrun_path%%:*}
  mnrun_path=${mnrun_path#*:}
  [ ! -f "${mnrun_place:-.}/$mnrun_name" ] || [ ! -x "${mnrun_place:-.}/$mnrun_name" ] || exec "${mnrun_place:-.}/$mnrun_name" "$@"
done
echo "mnrun: no $mnrun_name is on PATH behind ${0%/*}; put Slurm's directory there" >&2
exit 127
