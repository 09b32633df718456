"""Messages of srun, sbatch, salloc and slurmstepd."""

from __future__ import annotations

from mnrun.diagnosis.entry import Entry

ENTRIES = (
    Entry(
        name="slurm-memory-request",
        pattern=r"^(?:srun|sbatch|salloc): error: Memory specification can not be satisfied",
        cause="no node has as much memory as was asked for",
        remedy="lower --mem",
        anchor="requests-that-no-node-fulfils",
    ),
    Entry(
        name="slurm-request",
        pattern=r"^(?:srun|sbatch|salloc): error: .*Requested node configuration is not available",
        cause="the cluster has no nodes that fulfil the request",
        remedy="compare nodes, CPUs, memory and GPUs of the request with sinfo -N -l",
        anchor="requests-that-no-node-fulfils",
    ),
    Entry(
        name="slurm-gres",
        pattern=r"^(?:srun|sbatch|salloc): error: .*Invalid generic resource \(gres\) specification",
        cause="the cluster has no such resource",
        remedy="correct --gres, as sinfo -o %G names them",
        anchor="words-that-slurm-does-not-know",
    ),
    Entry(
        name="slurm-partition",
        pattern=r"^(?:srun|sbatch|salloc): error: invalid partition specified: (?P<partition>\S+)",
        cause="there is no partition {partition}",
        remedy="correct --partition, as sinfo names them",
        anchor="words-that-slurm-does-not-know",
    ),
    Entry(
        name="slurm-feature",
        pattern=r"^(?:srun|sbatch|salloc): error: .*Invalid feature specification",
        cause="no node has such a feature",
        remedy="correct --constraint, as sinfo -o %f names them",
        anchor="words-that-slurm-does-not-know",
    ),
    Entry(
        name="slurm-mpi",
        pattern=r"^srun: error: Invalid MPI type '(?P<kind>[^']*)'",
        cause="srun does not offer --mpi={kind}",
        remedy="use a type that srun --mpi=list names, or --mode inside-out",
        anchor="words-that-slurm-does-not-know",
    ),
    Entry(
        name="slurm-processors",
        pattern=r"^srun: error: Unable to create step for job \d+: More processors requested than permitted",
        cause="the step asked for more CPUs than the job has",
        remedy="ask for fewer ranks, or for more CPUs in the job",
        anchor="more-ranks-than-cpus",
    ),
    Entry(
        name="slurm-memory",
        pattern=r"^slurmstepd(?:-\S+)?: error: Detected \d+ oom[_-]kill events? in ",
        cause="the memory that the job has on a node was used up",
        remedy="ask for more with --mem, or run fewer ranks a node",
        anchor="memory-of-the-job",
    ),
    Entry(
        name="slurm-memory-rank",
        pattern=r"^srun: error: (?P<node>\S+): tasks? \S+: Out Of Memory",
        cause="the memory that the job has on {node} was used up",
        remedy="ask for more with --mem, or run fewer ranks a node",
        anchor="memory-of-the-job",
    ),
    Entry(
        name="slurm-time",
        pattern=r"^slurmstepd(?:-\S+)?: error: \*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT \S+ DUE TO TIME LIMIT",
        cause="the job reached its time limit",
        remedy="ask for more with --time",
        anchor="the-time-limit",
    ),
    Entry(
        name="slurm-node",
        pattern=r"^srun: error: Node failure on (?P<node>\S+)",
        cause="node {node} failed",
        remedy="leave it out with --exclude {node}, and tell your administrator",
        anchor="a-node-failed",
    ),
    Entry(
        name="slurm-architecture",
        pattern=r"^slurmstepd(?:-\S+)?: error: execve\(\): (?P<program>.+): Exec format error",
        cause="{program} was built for another type of CPU, or lacks its #! line",
        remedy="build it for the nodes: file {program} and uname -m show both",
        anchor="exec-format-error",
    ),
    Entry(
        name="slurm-permission",
        pattern=r"^slurmstepd(?:-\S+)?: error: execve\(\): (?P<program>.+): Permission denied",
        cause="{program} is not executable",
        remedy="use chmod +x, and a file system that is not mounted noexec",
        anchor="the-program-cannot-be-executed",
    ),
    Entry(
        name="slurm-program",
        pattern=r"^slurmstepd(?:-\S+)?: error: execve\(\): (?P<program>.+): No such file or directory",
        cause="there is no program {program} on the node",
        remedy="name its path as the node sees it",
        anchor="the-program-is-not-in-the-container",
    ),
)
