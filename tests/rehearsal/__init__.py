"""The rehearsal cluster: a real Slurm cluster on one machine, in namespaces.

    scripts/cluster up -n 4
    scripts/cluster exec -u alice login srun -N4 hostname
    scripts/cluster down

README.md beside this file tells the commands, the variants and the faults.
"""
