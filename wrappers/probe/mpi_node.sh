#!/bin/bash
# shellcheck disable=SC2154  # what it needs sets them
# The launcher runs `mpi_node.sh RUNTIME PODMAN_ROOT CACHE [CONTAINER WORDS…]` on a node. It prints the MPI facts of the
# node and of an image (docs/internals/facts.md). CACHE is the image cache that the image is from, or "".
# needs: home.sh facts.sh engines.sh() mnrun_asking=mpi_image.sh
# A function `scheduler` stands in front, too, where the scheduler's package has one.
set -u
cd / # a runtime may show its working directory to the image
limited() { timeout -k 1 10 "$@" 2>/dev/null </dev/null; } # a daemon may not answer, and must not stop this
# shellcheck disable=SC2034  # engines.sh reads mnrun_podman
mnrun_runtime=$1 mnrun_podman=$2 mnrun_id=facts.$$ cache=$3
shift 3

fact name "$node"
facts < <(sh -c "$mnrun_asking" mpi_image.sh node)
if declare -F scheduler >/dev/null; then scheduler; fi
if unshare --user true 2>/dev/null; then fact userns yes; fi
fact ptrace "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null)"
fact driver "$(driver)"
if command -v nvidia-smi >/dev/null; then
  fact driver_cuda "$(limited nvidia-smi | sed -n 's/.*CUDA Version: *\([0-9.]*\).*/\1/p')"
fi
(($#)) || exit 0
if [[ -n $cache ]] && foreign "$cache"; then
  fact silent "$REPLY: name another with --image-cache"
  exit 0
fi

for word; do # a runtime would wait for somebody who writes there
  [[ ! -p $word ]] || { fact silent "$word is a pipe, and not a container image"; exit 0; }
done
# These are the image's own. Apptainer passes the node's on to an image that does not set them.
[[ $mnrun_runtime == host ]] || unset CUDA_VERSION NVIDIA_REQUIRE_CUDA
engines
case $mnrun_runtime in
  docker) set -- "${@:1:2}" "--user=$(id -u):$(id -g)" "${@:3}" ;; # docker would start the image's sh as root
  podman)
    reason=$(usable) || { fact silent "$reason"; exit 0; } # the store may belong to another user
    set -- "${mnrun_engine[@]}" "${@:2}" ;;
  charliecloud)
    export PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    for word; do
      [[ $word != -- ]] || break
      image=$word
    done
    if [[ ! -d $image ]]; then
      # Where ch-run mounts a squashfs file, it leaves a directory behind.
      mnrun_mount=$(TMPDIR='' mktemp -d)
      set -- "$1" "--mount=$mnrun_mount" "${@:2}"
    fi ;;
esac
program=$1
hash "$program" 2>/dev/null || { fact silent "$program is not installed on this node"; exit 0; }
answer=$(MNRUN_JOB_ID=$mnrun_id timeout -k 1 60 "$@" sh -c "$mnrun_asking" mpi_image.sh image 2>&1 </dev/null) ||
  fact silent "$(tail -n 1 <<<"$answer")"
[[ -z ${mnrun_mount-} ]] || rmdir "$mnrun_mount"
if [[ -n ${mnrun_stored-} ]]; then # `mnrun image inspect` of an image in the engine's store
  fact stored "$(limited "${mnrun_engine[@]}" image inspect --format \
    '{{.Size}} {{.Id}}{{range .RepoDigests}} {{.}}{{end}}' "$mnrun_stored")"
fi
end_marked "$mnrun_id"
facts image <<<"$answer"
exit 0
