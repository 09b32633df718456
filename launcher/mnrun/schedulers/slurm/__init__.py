"""Slurm: allocations, steps, batch scripts and the queue."""
