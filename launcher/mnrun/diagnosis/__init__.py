"""Recognise what MPIs, runtimes, Slurm, networks and Python print when a job fails. Reads no file."""
