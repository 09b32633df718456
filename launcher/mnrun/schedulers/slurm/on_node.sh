# shellcheck shell=bash disable=SC2034  # boot.sh, fetch.sh and probes read these
# nodes/kit.py puts these lines in front of a script that a step starts on a node.
# If Slurm grants GPUs by the task, a step has several tasks on a node. One of them is enough.
[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0
mnrun_node=${SLURMD_NODENAME-} mnrun_job_value=${SLURM_JOB_ID-} mnrun_step=${SLURM_STEP_ID-}
# Slurm passes the SSH_CONNECTION of the login node on.
[ -z "$mnrun_job_value" ] || mnrun_address='' mnrun_peer=${SLURM_LAUNCH_NODE_IPADDR-}
