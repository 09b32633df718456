#!/bin/bash
# A submitted job by hand: recorded.sh JOBS DIR COMMAND… runs the command and keeps records as a generated script does.
jobs=$1 dir=$2
shift 2
id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
start=$jobs/${id:-$SLURM_JOB_ID}/${SLURM_RESTART_COUNT:-0}
mkdir -p "$start"
split=
[ "$SLURM_JOB_NAME" = talk ] && split=$dir/split
printf '{"time": %s, "nodes": "%s", "head": "%s", "output": "%s", "split_output": "%s"}\n' \
  "$(date +%s)" "$SLURM_JOB_NODELIST" "$SLURMD_NODENAME" "$dir/$SLURM_JOB_NAME.out" "$split" >"$start/.begun"
mv "$start/.begun" "$start/begun"
echo "$SLURMD_NODENAME ready" >"$start/log"
code=0
"$@" || code=$?
printf '{"time": %s, "code": %s, "why": ""}\n' "$(date +%s)" "$code" >"$start/.outcome"
mv "$start/.outcome" "$start/outcome"
exit "$code"
