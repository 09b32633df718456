#!/bin/bash
# The launcher runs `survey.sh` on a node. engines.sh, offers.sh and network_facts.sh stand in front of it.
# It prints the node's facts for jobs in containers, in lines `NODE<tab>NAME<tab>VALUE`. It judges nothing.
# launcher/mnrun/nodes/survey.py interprets the facts and says what to do.
set -u
node=${SLURMD_NODENAME:-$(uname -n)}
tell() { # NAME VALUE…: Print a fact in one line
  local value=${*:2}
  [[ -z $value ]] || printf '%s\t%s\t%s\n' "$node" "$1" "${value//[$'\t\n']/ }"
}
first() { "$@" 2>&1 </dev/null | head -n 1; }
asked() { # WORDS: Run WORDS for at most 10 s, because a daemon may not answer
  timeout 10 "$@" 2>&1 </dev/null
}
has() { command -v "$1" >/dev/null; }

PATH=$PATH:/usr/sbin:/sbin
(. /etc/os-release 2>/dev/null && tell system "$PRETTY_NAME, Linux $(uname -r), $(uname -m)")
tell bash "$BASH_VERSION"
for program in awk grep sed tar gzip base64 getent mkfifo od setsid; do
  has "$program" || tell lacks "$program"
done
if has ssh-keygen; then tell keygen yes; fi
if unshare --user true 2>/dev/null; then tell userns yes; fi
if [[ -r /dev/fuse && -w /dev/fuse ]]; then tell fuse yes; fi
if has squashfuse_ll || has squashfuse; then tell squashfuse yes; fi

scratch=$(mktemp -d) # podman makes its own directories in spite of its options
trap 'rm -rf "$scratch"' EXIT
judged() { # RUNTIME: Print why a job could not use RUNTIME here
  # The text is the job's own. engines.sh, which stands in front of this, prints it.
  # shellcheck disable=SC2034  # engines.sh reads all three
  (cd "$scratch" && mnrun_runtime=$1 mnrun_id=check mnrun_podman=$scratch/store && engines && usable)
}

for name in apptainer singularity; do
  has "$name" || continue
  tell "$name" "$(first "$name" --version)"
  for starter in /usr/libexec/"$name" /usr/local/libexec/"$name" /usr/lib/*/"$name"; do
    [[ ! -u $starter/bin/starter-suid ]] || tell "$name-suid" yes
    [[ ! -x $starter/bin/squashfuse_ll ]] || tell squashfuse yes
  done
done
if has docker; then
  tell docker "$(first docker --version)"
  tell docker-refuses "$(judged docker)"
  said=$(timeout 10 docker info --format '{{json .}}' 2>/dev/null </dev/null)
  if [[ $said =~ '"ServerVersion":"'([0-9][^\"]*) ]]; then tell docker-server "${BASH_REMATCH[1]}"; fi
  [[ $said != *name=rootless* ]] || tell docker-rootless yes
  [[ $said != *'"nvidia":'* ]] || tell docker-nvidia yes
  [[ $said != *'"CDISpecDirs":["'* ]] || tell docker-cdi yes
fi
if has podman; then
  tell podman "$(HOME=$scratch XDG_CONFIG_HOME=$scratch XDG_RUNTIME_DIR=$scratch first podman --version)"
  tell podman-refuses "$(judged podman)"
  for place in "$(command -v catatonit)" /usr/{local/,}lib{exec,}/podman/catatonit; do
    [[ ! -x $place ]] || tell podman-init yes
  done
  [[ ! -d /dev/mqueue ]] || tell mqueue yes
fi
if has ch-run; then
  tell ch-run "$(first ch-run --version)"
  tell ch-run-refuses "$(judged charliecloud)"
fi

if [[ -r /proc/driver/nvidia/version ]]; then
  tell nvidia "$(sed -n '1s/.*Kernel Module[^0-9]*\([0-9.]*\).*/\1/p' /proc/driver/nvidia/version)"
  if has nvidia-smi; then tell gpus "$(asked nvidia-smi -L | grep -c '^GPU ')"; fi
  if has nvidia-container-runtime-hook; then tell nvidia-hook yes; fi
  # shellcheck disable=SC2034,SC2154  # engines.sh reads the one, and sets the other
  if (mnrun_runtime='' && engines && grep -qrs nvidia.com/gpu "${mnrun_cdi[@]}"); then tell cdi yes; fi
fi
if [[ -e /dev/kfd ]]; then tell amd yes; fi
# network_facts.sh stands in front of this, as the function `fabric`.
while IFS= read -r line; do tell fabric "$line"; done < <(fabric)

if has mpirun; then tell mpirun "$(asked mpirun --version | head -n 2)"; fi
if has srun; then
  tell slurm "$(srun --version 2>/dev/null </dev/null | head -n 1)" # standard error may have warnings
  tell pmi "$(offers | tr -s '[:space:]' ' ')" # offers.sh, which stands in front of this, defines offers
  tell unloadable "$(unloadable)"
fi
if has pdsh; then tell pdsh "$(first pdsh -V)"; fi
exit 0
