#!/bin/bash
# reco: 2 nodes x 2 ranks, outside-in, apptainer
# Written by mnrun 0.1.0 on 2026-01-01 by: mnrun plan job.toml
# You may edit this script, and submit it with sbatch. The first node of the job needs mnrun at the path below.
#SBATCH --job-name=reco                          # job.toml line 2
#SBATCH --account=physics                        # job.toml line 18
#SBATCH --qos=high                               # job.toml line 19
#SBATCH --reservation=beamtime                   # job.toml line 20
#SBATCH --constraint=ib                          # job.toml line 21
#SBATCH --licenses=app:2                         # job.toml line 22
#SBATCH '--nodelist=node[01-02]'                 # job.toml line 23
#SBATCH --exclude=node03                         # job.toml line 24
#SBATCH --exclusive                              # job.toml line 25
#SBATCH --nodes=2                                # job.toml line 26
#SBATCH --ntasks-per-node=2                      # one per GPU asked for
#SBATCH --gpus-per-node=2                        # --gpus 4 (job.toml line 27) on 2 nodes
#SBATCH --mem=8G                                 # job.toml line 28
#SBATCH --time=2:00:00                           # job.toml line 29
#SBATCH --output=/home/alice/run/logs/%A_%a.out  # job.toml line 4
#SBATCH --error=/home/alice/run/logs/%A_%a.err   # job.toml line 5
#SBATCH --mail-type=END,FAIL                     # job.toml line 32
#SBATCH --mail-user=alice@example.org            # job.toml line 33
#SBATCH --dependency=singleton                   # job.toml line 34
#SBATCH --array=0-3%2                            # job.toml line 35
#SBATCH --signal=B:USR1@120                      # job.toml line 36
#SBATCH --no-requeue                             # job.toml line 37
#SBATCH --export=ALL,RUN=2026                    # job.toml line 38

mnrun_options=(
  --mode=outside-in           # job.toml line 14
  --launcher=mpirun           # job.toml line 15
  --image=/images/reco.sif    # job.toml line 8
  --stage                     # job.toml line 9
  --stage-dir=/local/scratch  # job.toml line 10
  --stage-limit=50G           # job.toml line 11
  --chdir=/home/alice/run     # the current directory
)
shopt -s execfail # the script goes on if mnrun cannot be started
exec /usr/local/bin/mnrun run --as-given "${mnrun_options[@]}" -- ./reco --events 100000
echo "mnrun: cannot start /usr/local/bin/mnrun on $(uname -n): a submitted job needs mnrun on its first node; name another path with --mnrun" >&2
exit 122
