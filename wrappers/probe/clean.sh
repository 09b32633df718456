# shellcheck shell=bash
# The launcher runs this on a node for `mnrun clean --nodes`, with DRY and KEPT, which are empty or not. It removes the
# remains of killed jobs, and with KEPT what --keep has left, and prints each. With DRY, it only prints.
# needs: names.sh processes.sh leftovers.sh mnrun_into=into.sh
mnrun_dry=$1
remains
ghosts
[[ -n $2 ]] || exit 0
for mnrun_place in /tmp/mnrun.*; do
  (
    cd -- "$mnrun_place" 2>/dev/null && [[ -O . && .. -ef ${mnrun_place%/*} && ! -L $mnrun_place && -O kept ]] || exit 0
    for place in "/dev/shm/${mnrun_place##*/}" "$mnrun_place"; do # this one last: it says that both were kept
      [[ -O $place && -d $place && ! -L $place ]] || continue
      [[ -n $mnrun_dry ]] || rm -rf --one-file-system -- "$place"
      echo "$place"
    done
  )
done
