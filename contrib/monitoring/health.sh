#!/bin/bash
# A sample for an admin: `health.sh prologue` before a job on a node, and `health.sh epilogue` after it, as root, under
# Slurm, PBS and Grid Engine (docs/admin/monitoring.md). It asks NVIDIA's DCGM for the health of the job's GPUs, keeps a
# job's statistics, and tells dcgm-exporter whose GPUs these are. A node without DCGM is left as it is.
# Where a GPU is sick, it takes the node out, and ends with a code by which the job waits again. Else it ends with 0.
set -u
jobs=${MNRUN_DCGM_JOBS:-/run/dcgm-job-mapping} # dcgm-exporter --hpc-job-mapping-dir
stats=${MNRUN_DCGM_STATS:-/var/log/dcgm-jobs}
PATH=$PATH:/usr/bin:/bin

case ${SLURM_JOB_ID:+slurm}${PBS_JOBID:+pbs}${JOB_ID:+sge} in
  slurm*)
    job=$SLURM_JOB_ID gpus=${SLURM_JOB_GPUS:-${GPU_DEVICE_ORDINAL:-${CUDA_VISIBLE_DEVICES-}}}
    drain() { scontrol update "nodename=${SLURMD_NODENAME:-$(hostname -s)}" state=drain "reason=$1"; }; again=1 ;;
  pbs*)
    job=$PBS_JOBID gpus=${CUDA_VISIBLE_DEVICES-}
    drain() { pbsnodes -o -C "$1" "$(hostname -s)"; }; again=2 ;; # 1 would end the job
  sge*)
    job=$JOB_ID gpus=${SGE_HGR_gpu-${CUDA_VISIBLE_DEVICES-}} gpus=${gpus// /,}
    [[ ${SGE_TASK_ID:-undefined} == undefined ]] || job+=.$SGE_TASK_ID
    drain() { qmod -d "*@$(hostname -s)" && echo "$1" >&2; }; again=99 ;; # queue_conf(5)
  *) echo "health.sh: this is no job of Slurm, PBS or Grid Engine" >&2; exit 0 ;;
esac

gpus=${MNRUN_DCGM_GPUS-$gpus} # where the scheduler tells the prologue none: 0,1,2,3
command -v dcgmi >/dev/null || exit 0
[[ $job =~ ^[][A-Za-z0-9._-]+$ && $gpus =~ ^[0-9]+(,[0-9]+)*$ ]] || exit 0 # a job without GPUs, or with names of them
group='' # dcgmi prints: Successfully created group "mnrun-271" with a group ID of 2

sick() { # Print the reason why a GPU cannot take a job. A question without an answer is no reason
  local said
  said=$(timeout 30 dcgmi health -g "$group" -c 2>/dev/null)
  if grep -qE 'Overall Health[ :|]+Failure' <<<"$said"; then echo 'DCGM health: failure' && return 0; fi
  said=$(timeout 120 dcgmi diag -g "$group" -r 1 2>/dev/null)
  if grep -qE '[|:] *Fail( |$)' <<<"$said"; then echo 'DCGM diag -r 1: failure'; fi
}

made() { # Set group to a new group of the job's GPUs
  [[ $(timeout 30 dcgmi group -c "mnrun-$job" -a "$gpus" 2>/dev/null) =~ group\ ID\ of\ ([0-9]+) ]] && group=${BASH_REMATCH[1]}
}

case ${1-} in
  prologue)
    made || exit 0
    timeout 30 dcgmi health -g "$group" -s a >/dev/null 2>&1
    why=$(sick)
    if [[ -z $why ]]; then
      timeout 30 dcgmi stats -g "$group" -e >/dev/null 2>&1
      timeout 30 dcgmi stats -g "$group" -s "$job" >/dev/null 2>&1
      mkdir -p "$jobs" "$jobs.groups"
      for gpu in ${gpus//,/ }; do echo "$job" >>"$jobs/$gpu"; done
      echo "$group" >"$jobs.groups/$job"
    else
      timeout 30 dcgmi group -d "$group" >/dev/null 2>&1
      drain "$why"
      exit "$again"
    fi ;;
  epilogue)
    for gpu in ${gpus//,/ }; do
      [[ -e $jobs/$gpu ]] || continue
      others=$(grep -vxF -- "$job" "$jobs/$gpu")
      if [[ -n $others ]]; then echo "$others" >"$jobs/$gpu"; else rm -f -- "$jobs/$gpu"; fi
    done
    { read -r group <"$jobs.groups/$job"; } 2>/dev/null || exit 0
    rm -f -- "$jobs.groups/$job"
    timeout 30 dcgmi stats -x "$job" >/dev/null 2>&1
    mkdir -p "$stats" && timeout 30 dcgmi stats -j "$job" -v >"$stats/$job" 2>/dev/null
    timeout 30 dcgmi stats -r "$job" >/dev/null 2>&1
    why=$(sick)
    timeout 30 dcgmi group -d "$group" >/dev/null 2>&1
    [[ -z $why ]] || drain "$why" ;;
  *) echo 'usage: health.sh prologue|epilogue' >&2; exit 2 ;;
esac
exit 0
