"""Answer the words of Slurm's own commands, and of pyxis.

Sources: sbatch(1), srun(1) and salloc(1) of Slurm 26.11, and the README of pyxis.
"""

from __future__ import annotations

from mnrun.schedulers.vocabulary import Foreign

_ENTRY = "leave it out: the image's entry point does not run, only the command"
_STEPS = "leave it out: mnrun chooses the steps"
_BIND = "use --bind-to UNIT, or with srun: --launcher srun --mpi-args --cpu-bind=HOW"
_FILE = "write it as a job file, with bind for mounts and chdir for workdir: mnrun job.toml"
FOREIGN = Foreign(
    # sbatch's options that mnrun lacks
    passed="""
    acctg-freq= batch= bb= bbf= begin= cluster-constraint= clusters= comment= consolidate-segments container-id=
    contiguous core-spec= cores-per-socket= cpu-freq= cpus-per-gpu= deadline= delay-boot= distribution= export-file=
    extra= extra-node-info= get-user-env gid= gpu-freq= gpus-per-socket= gres-flags= hint= hold ignore-pbs input=
    kill-on-invalid-dep= mcs-label= mem-bind= mem-update= mincpus= nice no-kill no-requeue ntasks-per-core=
    ntasks-per-socket= ntasks-per-tres= oom-kill-step open-mode= power= prefer= priority= propagate reboot resources=
    resv-ports segment= sockets-per-node= spread-job spread-segments stepmgr switches= thread-spec= threads-per-core=
    time-min= tmp= tres-bind= tres-per-task= uid= use-min-nodes wait-all-nodes= wckey=
    """,
    answers={
        "cpu-bind": _BIND,
        "cpu_bind": _BIND,
        "exact": _STEPS,
        "immediate": "give it to salloc: salloc --immediate mnrun …",
        "jobid": "leave it out: mnrun uses the job in which it is typed",
        "kill-on-bad-exit": "leave it out: mnrun ends all ranks when one fails",
        "multi-prog": "use --script FILE, with a line of mpirun for all programs",
        "nodefile": "use --nodelist NODES",
        "ntasks-per-gpu": "use --ntasks-per-node N",
        "overcommit": "use --force for more ranks than CPUs",
        "overlap": _STEPS,
        "oversubscribe": "use --force for more ranks than CPUs, or --slurm oversubscribe for nodes that jobs share",
        "parsable": "leave it out: mnrun submit prints the number alone",
        "preserve-env": "leave it out: mnrun sets the number of nodes and ranks",
        "pty": "use mnrun shell for a prompt",
        "task-prolog": "use --launcher srun --mpi-args --task-prolog=FILE",
        "test-only": "use mnrun plan",
        "unbuffered": "use --launcher srun --mpi-args --unbuffered",
        "usage": "use --help",
        "wait": "use mnrun submit --wait, or mnrun wait ID",
        "wrap": "write the command after the options: mnrun submit --image app.sif -- ./app",
        "x11": "give it to salloc: salloc --x11 mnrun …",
        # pyxis
        "container-entrypoint": _ENTRY,
        "container-env": "use -x NAME",
        "container-image": "use --image REF",
        "container-mount-home": "leave it out: the home directory is mounted, and --no-home leaves it out",
        "container-mounts": "use --bind SRC:DST",
        "container-name": "leave it out: mnrun removes its containers at the end",
        "container-readonly": "leave it out: Apptainer's images are read-only",
        "container-remap-root": "use --container-args --fakeroot (Apptainer)",
        "container-save": "build another image: mnrun saves no container",
        "container-workdir": "use --chdir DIR",
        "container-writable": "use --container-args --writable-tmpfs (Apptainer)",
        "edf": _FILE,
        "environment": _FILE,
        "no-container-entrypoint": _ENTRY,
        "no-container-mount-home": "use --no-home",
        "no-container-remap-root": "leave it out: programs run as you",
    },
    letters={
        "-b": "begin",
        "-E": "preserve-env",
        "-F": "nodefile",
        "-I": "immediate",
        "-K": "kill-on-bad-exit",
        "-k": "no-kill",
        "-m": "distribution",
        "-M": "clusters",
        "-O": "overcommit",
        "-s": "oversubscribe",
        "-S": "core-spec",
        "-W": "wait",
    },
    verbs={
        "sinfo": "use mnrun nodes",
        "squeue": "use mnrun status",
        "scancel": "use mnrun cancel ID",
    },
    commands={
        "salloc": "write salloc -N 2 mnrun --image app.sif -- ./app",
        "sbatch": "write mnrun submit --image app.sif -- ./app",
    },
    directive="#SBATCH",
    ranks=r"\bSLURM_(PROCID|LOCALID|NODEID|NTASKS|NPROCS|NNODES|JOB_NUM_NODES|NTASKS_PER_NODE|GPUS_ON_NODE)\b",
    lists=r"\bscontrol\s+show\s+hostnames?\b|\bSLURM_(JOB_)?NODELIST\b|\bsrun\b.*\bhostname\b",
)
