"""Everything that is Slurm."""
