#!/bin/bash
# The launcher runs `survey.sh` on a node. It prints the node's facts for jobs in containers.
# needs: home.sh facts.sh engines.sh() network_facts.sh()
# A function `scheduler` stands in front, too, where the scheduler's package has one.
set -u
first() { "$@" 2>&1 </dev/null | head -n 1; }
limited() { # WORDS: Run WORDS for at most 10 s, because a daemon may not answer
  timeout 10 "$@" 2>&1 </dev/null
}
has() { command -v "$1" >/dev/null; }
version() { # NAME WORDS: Print the version that WORDS tell, or why they tell none, without colours
  local said name=$1
  shift
  if said=$("$@" 2>&1 </dev/null); then
    fact "$name" "${said%%$'\n'*}"
  else
    fact "$name" '?'
    # shellcheck disable=SC2001  # a pattern of bash has no repetition
    fact "$name-refuses" "$(sed $'s/\e\\[[0-9;]*m//g' <<<"${said##*$'\n'}")"
  fi
}

PATH=$PATH:/usr/sbin:/sbin
(. /etc/os-release 2>/dev/null && fact system "$PRETTY_NAME, Linux $(uname -r), $(uname -m)")
fact bash "$BASH_VERSION"
for program in awk grep sed tar gzip base64 getent mkfifo od setsid; do
  has "$program" || fact lacks "$program"
done
if has setsid && ! setsid --fork true 2>/dev/null; then fact lacks "setsid --fork (util-linux 2.32)"; fi
if unshare --user true 2>/dev/null; then fact userns yes; fi
if [[ -r /dev/fuse && -w /dev/fuse ]]; then fact fuse yes; fi
if has squashfuse_ll || has squashfuse; then fact squashfuse yes; fi

scratch=$(TMPDIR='' mktemp -d) # podman makes its own directories in spite of its options
trap 'rm -rf "$scratch"' EXIT
judged() { # RUNTIME: Print why a job could not use RUNTIME here
  # The text is the job's own (engines.sh).
  # shellcheck disable=SC2034  # engines.sh reads all three
  (cd "$scratch" && mnrun_runtime=$1 mnrun_id=check mnrun_podman=$scratch/store && engines && usable)
}

for name in apptainer singularity; do
  has "$name" || continue
  version "$name" "$name" --version
  for starter in /usr/libexec/"$name" /usr/local/libexec/"$name" /usr/lib/*/"$name"; do
    [[ ! -u $starter/bin/starter-suid ]] || fact "$name-suid" yes
    [[ ! -x $starter/bin/squashfuse_ll ]] || fact squashfuse yes
  done
done
if has docker; then
  fact docker-refuses "$(judged docker)"
  version docker docker --version # a later fact of a name counts
  info=$(timeout 10 docker info --format '{{json .}}' 2>/dev/null </dev/null)
  if [[ $info =~ '"ServerVersion":"'([0-9][^\"]*) ]]; then fact docker-server "${BASH_REMATCH[1]}"; fi
  [[ $info != *name=rootless* ]] || fact docker-rootless yes
  [[ $info != *'"nvidia":'* ]] || fact docker-nvidia yes
  [[ $info != *'"CDISpecDirs":["'* ]] || fact docker-cdi yes
fi
if has podman; then
  fact podman-refuses "$(judged podman)"
  HOME=$scratch XDG_CONFIG_HOME=$scratch XDG_RUNTIME_DIR=$scratch version podman podman --version
  for place in "$(command -v catatonit)" /usr/{local/,}lib{exec,}/podman/catatonit; do
    [[ ! -x $place ]] || fact podman-init yes
  done
  [[ ! -d /dev/mqueue ]] || fact mqueue yes
fi
if has ch-run; then
  fact ch-run-refuses "$(judged charliecloud)"
  version ch-run ch-run --version
fi

if [[ -r /proc/driver/nvidia/version ]]; then
  fact nvidia "$(driver)"
  if has nvidia-smi; then fact gpus "$(limited nvidia-smi -L | grep -c '^GPU ')"; fi
  if has nvidia-container-runtime-hook; then fact nvidia-hook yes; fi
  # shellcheck disable=SC2034,SC2154  # engines.sh reads the one, and sets the other
  if (mnrun_runtime='' && engines && grep -qrs nvidia.com/gpu "${mnrun_cdi[@]}"); then fact cdi yes; fi
fi
if [[ -e /dev/kfd ]]; then fact amd yes; fi
facts < <(network_facts)

if has mpirun && said=$(limited mpirun --version); then fact mpirun "$(head -n 2 <<<"$said")"; fi
if declare -F scheduler >/dev/null; then scheduler version; fi
# Other people who have processes here. By login.defs, theirs have numbers from 1000 on; 65534 is nobody.
others=$({ stat -c %u /proc/[0-9]* | awk -v me="$UID" '$1 >= 1000 && $1 != 65534 && $1 != me && !seen[$1]++ { n++ } END { print n + 0 }'; } 2>/dev/null)
((others == 0)) || fact others "$others"
if has pdsh; then fact pdsh "$(first pdsh -V)"; fi
exit 0
