#!/bin/bash
# shellcheck disable=SC2154  # engines.sh's, which is a function `engines` in front of this; so are mpis.sh and $mnrun_asking
# The launcher runs `mpi_node.sh RUNTIME PODMAN_ROOT [CONTAINER WORDS…]` on a node. It prints the MPI facts of the node
# and of an image, in lines `node|image<tab>NAME<tab>VALUE`. A container of the image gives the image's facts.
# launcher/mnrun/planning/compatibility.py judges them. engines.sh, mpis.sh and offers.sh stand in front.
set -u
# NAME VALUE: Print a fact of the node. The value is shortened, and has no tab or newline.
tell() { [[ -z $2 ]] || printf 'node\t%s\t%s\n' "$1" "$(tr '\n\t' '  ' <<<"${2:0:300}")"; }
asked() { timeout -k 1 10 "$@" 2>/dev/null </dev/null; } # a daemon may not answer, and must not stop this
# shellcheck disable=SC2034  # engines.sh reads mnrun_podman
mnrun_runtime=$1 mnrun_podman=$2 mnrun_id=facts.$$
shift 2

tell name "${SLURMD_NODENAME:-$(uname -n)}"
(sh -c "$mnrun_asking" | sed 's/^image/node/')
if command -v srun >/dev/null; then
  tell srun "$(offers)" # offers.sh, which stands in front of this, defines offers
  tell unloadable "$(unloadable)"
fi
if unshare --user true 2>/dev/null; then tell userns yes; fi
tell ptrace "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null)"
tell driver "$(sed -n '1s/.*Kernel Module[^0-9]*\([0-9.]*\).*/\1/p' /proc/driver/nvidia/version 2>/dev/null)"
if command -v nvidia-smi >/dev/null; then tell driver_cuda "$(asked nvidia-smi | sed -n 's/.*CUDA Version: *\([0-9.]*\).*/\1/p')"; fi
(($#)) || exit 0

case $mnrun_runtime in
  podman)
    engines
    said=$(usable) || { tell silent "$said"; exit 0; } # the store may belong to another user
    set -- "${mnrun_engine[@]}" "${@:2}" ;;
  charliecloud)
    export PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    for word; do
      [[ $word != -- ]] || break
      image=$word
    done
    if [[ ! -d $image ]]; then
      # Where ch-run mounts a squashfs file, it leaves a directory behind.
      mnrun_mount=$(mktemp -d)
      set -- "$1" "--mount=$mnrun_mount" "${@:2}"
    fi ;;
esac
said=$(MNRUN_JOB_ID=$mnrun_id timeout -k 1 60 "$@" sh -c "$mnrun_asking" 2>&1 </dev/null) || tell silent "$(tail -n 1 <<<"$said")"
[[ -z ${mnrun_mount-} ]] || rmdir "$mnrun_mount"
# podman leaves a process behind.
grep -slzxF -- "MNRUN_JOB_ID=$mnrun_id" /proc/[0-9]*/environ | cut -d/ -f3 | xargs -r kill -KILL 2>/dev/null
grep $'^image\t' <<<"$said"
exit 0
