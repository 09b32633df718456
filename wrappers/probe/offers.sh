# shellcheck shell=bash
# What `srun --mpi` offers on this node, one name to a line: it stands in front of survey.sh and of mpi_node.sh.
offers() { # Slurm 20.11 says it on standard error, with its name before each line
  timeout -k 1 10 srun --mpi=list 2>&1 </dev/null | sed 's/^srun: //' | tail -n +2
}
unloadable() { # those PMIx plugins that are listed and cannot be loaded, for want of libpmix: said before anything is asked for
  local name
  while read -r name; do
    ! timeout -k 1 10 env -u SLURM_JOB_ID -u SLURM_JOBID LC_ALL=C srun "--mpi=$name" --nodes=1 --nodelist=. --test-only true 2>&1 </dev/null |
      grep -qiE 'load specified plugin name for mpi|invalid MPI type' || echo "$name"
  done < <(offers | grep -oE '\bpmix(_v[0-9]+)?\b' | sort -u)
}
