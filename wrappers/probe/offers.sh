# shellcheck shell=bash
# survey.sh and mpi_node.sh have these functions in front, on the node. One prints the values of `srun --mpi` here, and
# the other prints the PMIx plugins among them that cannot be loaded. Each line is one name.
offers() { # Print the listed values
  # Slurm 20.11 lists them on standard error, with its name before each line.
  timeout -k 1 10 srun --mpi=list 2>&1 </dev/null | sed 's/^srun: //' | tail -n +2
}
unloadable() { # Print the listed PMIx plugins that cannot be loaded, because libpmix is missing
  # srun reports this before it asks for anything.
  local name
  while read -r name; do
    ! timeout -k 1 10 env -u SLURM_JOB_ID -u SLURM_JOBID LC_ALL=C srun "--mpi=$name" --nodes=1 --nodelist=. --test-only true 2>&1 </dev/null |
      grep -qiE 'load specified plugin name for mpi|invalid MPI type' || echo "$name"
  done < <(offers | grep -oE '\bpmix(_v[0-9]+)?\b' | sort -u)
}
