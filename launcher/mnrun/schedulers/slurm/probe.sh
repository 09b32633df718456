# shellcheck shell=bash disable=SC2154  # facts.sh
# survey.sh and mpi_node.sh have this in front, on the node.
scheduler() { # [version]: Print facts of Slurm on the node: the values of `srun --mpi`, and those that cannot be loaded
  command -v srun >/dev/null || return 0
  # Standard error may have warnings.
  [[ -z ${1-} ]] || fact scheduler "$(srun --version 2>/dev/null </dev/null | head -n 1)"
  fact starts "$(offers)"
  fact unloadable "$(unloadable)"
}
offers() { # Print the values of `srun --mpi`, each on a line
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
