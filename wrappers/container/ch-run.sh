# shellcheck shell=bash disable=SC2154  # into.sh's
# clean_env.sh sources this adverb for the words `ch-run WORDS… IMAGE -- COMMAND…`. It adds the variables of the image,
# which ch-run does not set by itself.
source ./mps.sh
mnrun_program=$(command -v ch-run)
shift
mnrun_flags=("--set-env=TMPDIR=$TMPDIR" "--set-env=HOME=$HOME")
mps
for mnrun_dir in "${mnrun_mps[@]}"; do mnrun_flags+=("--bind=$mnrun_dir:$mnrun_dir"); done
mnrun_tree=
for mnrun_word; do
  [[ $mnrun_word != -- ]] || break
  mnrun_tree=$mnrun_word
done
if [[ -d $mnrun_tree ]]; then
  [[ ! -e $mnrun_tree/ch/environment ]] || mnrun_flags+=(--set-env)
else
  # Where ch-run mounts a squashfs file, it leaves a directory behind.
  mkdir -p "$mnrun_here/image"
  mnrun_flags+=("--mount=$mnrun_here/image")
fi
mnrun_file=$mnrun_here/ch.environment.$$ # other ranks read theirs meanwhile
if [[ -f $mnrun_tree ]] && command -v unsquashfs >/dev/null &&
  unsquashfs -cat "$mnrun_tree" ch/environment >"$mnrun_file" 2>/dev/null; then
  mnrun_flags+=("--set-env=$mnrun_file")
fi
# The host's PATH is wrong for the image. ch-run mounts TMPDIR as /tmp, and sets HOME to /root.
set -- env -u TMPDIR PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  "$mnrun_program" "${mnrun_flags[@]}" "$@"
