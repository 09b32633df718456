"""The one table of options: the source of the command line, the variables, the help and the job file's keys.

A key is the long option with `_` for `-`. The variable is `MNRUN_` and the key in capitals, for every verb.
"""

from __future__ import annotations

from dataclasses import dataclass

_WHERE, _BOX, _START, _OURS = "Nodes and ranks", "Container", "Launch", "mnrun itself"
_BATCH = "Batch job, in sbatch's words"
# Options of a batch job that an interactive allocation has not.
_SCRIPTS_OWN = (
    *("array", "dependency", "mail_type", "mail_user", "signal", "requeue", "export"),
    *("slurm", "setup", "ulimit", "templates", "mnrun"),
)
# Options of a batch job that a live run takes from its command line. In a job file, they are the batch job's.
LIVE = ("output", "error")

# Keys of a job file -> the option's own name.
ALIASES = {"name": "job_name", "modules": "module", "lines": "setup"}


@dataclass(frozen=True)
class Option:
    """One option. `kind` is flag, text, number, choice, seconds, list, words or env.

    A list adds up. Words are split as by a shell. env is NAME[=VALUE].
    """

    name: str
    flags: tuple[str, ...]
    kind: str
    help: str
    section: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    default: str | None = None  # as a person would write it

    @property
    def batch(self) -> bool:
        """Return whether the option asks sbatch for something, and so has no meaning inside an allocation."""
        return self.section == _BATCH

    @property
    def verbs(self) -> tuple[str, ...]:
        """Return the verbs in which the option has an effect. All verbs accept it, since one job file is for all."""
        if not self.batch:
            return ("run", "plan", "submit", "shell")
        if self.name in LIVE:
            return ("run", "plan", "submit")
        return ("plan", "submit") if self.name in _SCRIPTS_OWN else ("plan", "submit", "shell")

    @property
    def takes_value(self) -> bool:
        return self.kind != "flag"

    @property
    def repeats(self) -> bool:
        return self.kind in ("list", "words", "env")

    @property
    def key(self) -> str:
        """Return the key in a job file, as documents write it. The option's name is a key, too."""
        return next((alias for alias, name in ALIASES.items() if name == self.name), self.name)

    @property
    def variable(self) -> str | None:
        """Return the environment variable, or None for env and setup, in which a comma is no separator."""
        return None if self.kind == "env" or self.name == "setup" else f"MNRUN_{self.name.upper()}"


def _option(flags: str, kind: str, help: str, section: str, **rest: str) -> Option:
    spellings = tuple(flags.split())
    long = next(f for f in spellings if f.startswith("--"))
    return Option(
        name=long[2:].replace("-", "_"),
        flags=spellings,
        kind=kind,
        help=help,
        section=section,
        metavar=rest.get("metavar", ""),
        choices=tuple(rest.get("choices", "").split()),
        default=rest.get("default"),
    )


OPTIONS: tuple[Option, ...] = (
    _option("-N --nodes", "number", "Nodes to run on.", _WHERE, metavar="N"),
    _option("-n --ntasks -np", "number", "Ranks in all.", _WHERE, metavar="N"),
    _option(
        "--ntasks-per-node --tasks-per-node -ppn",
        "number",
        "Ranks on each node; by default one per granted GPU, else one.",
        _WHERE,
        metavar="N",
    ),
    _option("-c --cpus-per-task", "number", "CPUs for each rank.", _WHERE, metavar="N"),
    _option("--gres", "text", "Generic resources per node, in Slurm's words: gpu:4.", _WHERE, metavar="LIST"),
    _option("--gpus-per-node", "text", "GPUs on each node: 4, or a100:4.", _WHERE, metavar="[TYPE:]N"),
    _option("--no-gpu", "flag", "Let ranks see no GPU.", _WHERE),
    _option(
        "--gpu-bind",
        "text",
        "Which of its node's GPUs a rank sees: none, closest, single:N, per_task:N; srun's own where it starts them.",
        _WHERE,
        metavar="HOW",
    ),
    _option("-w --nodelist", "text", "Run on these nodes of the allocation: node[01-02].", _WHERE, metavar="NODES"),
    _option("--exclude", "text", "Leave these nodes of the allocation out.", _WHERE, metavar="NODES"),
    _option(
        "-H --hosts",
        "text",
        "Run on these hosts by ssh, without a scheduler: 'node[01-04]', or with their ranks: ws1:2,ws2:1.",
        _WHERE,
        metavar="LIST",
    ),
    _option(
        "--hostfile", "text", "The same from a file: HOST, HOST slots=N or HOST:N on each line.", _WHERE, metavar="FILE"
    ),
    _option("--ssh-user", "text", "Log in to them as this user.", _WHERE, metavar="NAME"),
    _option("--ssh-port", "number", "The port of their ssh server.", _WHERE, metavar="PORT"),
    _option(
        "--rsh",
        "choice",
        "How to reach them: pdsh where it is installed and can serve, else paramiko.",
        _WHERE,
        choices="auto pdsh paramiko",
        default="auto",
    ),
    _option("--stage", "flag", "Copy the image to those that lack it.", _WHERE),
    _option("--local", "flag", "Run on this one machine, without a scheduler.", _WHERE),
    _option("-J --job-name", "text", "Name of the job.", _BATCH, metavar="NAME"),
    _option("-p --partition", "text", "Partition.", _BATCH, metavar="NAME"),
    _option("-A --account", "text", "Account that pays.", _BATCH, metavar="NAME"),
    _option("-q --qos", "text", "Quality of service.", _BATCH, metavar="NAME"),
    _option("-t --time", "text", "Time limit: 30, 12:00:00, 2-0.", _BATCH, metavar="TIME"),
    _option("-C --constraint", "text", "Features that nodes must have.", _BATCH, metavar="LIST"),
    _option("--reservation", "text", "Reservation.", _BATCH, metavar="NAME"),
    _option("--exclusive", "flag", "Share no node with another job; --no-exclusive takes it back.", _BATCH),
    _option("-L --licenses", "text", "Licences.", _BATCH, metavar="LIST"),
    _option("--mem", "text", "Memory on each node: 64G.", _BATCH, metavar="SIZE"),
    _option("--mem-per-cpu", "text", "Memory for each CPU.", _BATCH, metavar="SIZE"),
    _option("--mem-per-gpu", "text", "Memory for each GPU.", _BATCH, metavar="SIZE"),
    _option("-G --gpus", "text", "GPUs in all, spread as Slurm likes.", _BATCH, metavar="[TYPE:]N"),
    _option("--gpus-per-task", "text", "GPUs for each rank, though each sees all of its node.", _BATCH, metavar="N"),
    _option("-a --array", "text", "Tasks of an array: 0-9%2.", _BATCH, metavar="LIST"),
    _option("-d --dependency", "text", "Start after other jobs: afterok:123.", _BATCH, metavar="LIST"),
    _option("--mail-type", "text", "When to write a mail: END,FAIL.", _BATCH, metavar="LIST"),
    _option("--mail-user", "text", "To whom.", _BATCH, metavar="ADDRESS"),
    _option(
        "--signal",
        "text",
        "A signal so many seconds before the end; every rank gets it, once.",
        _BATCH,
        metavar="USR1@120",
    ),
    _option("--requeue", "flag", "Start again when a node fails, or after a preemption; --no-requeue: never.", _BATCH),
    _option("--export", "text", "Variables that the job takes along: ALL, NONE, or a list.", _BATCH, metavar="LIST"),
    _option(
        "-o --output",
        "text",
        "Output file: %x-%j.out, %A_%a.out; of a live run only from its command line.",
        _BATCH,
        metavar="FILE",
    ),
    _option("-e --error", "text", "File for standard error.", _BATCH, metavar="FILE"),
    _option("-l --label", "flag", "Begin each line of a rank's output with its number.", _START),
    _option(
        "--split-output", "text", "Each rank's output in files of its own here: rank.R.out.", _START, metavar="DIR"
    ),
    _option("--slurm", "list", "Any other long option of sbatch: --slurm switches=1@30:00.", _BATCH, metavar="OPTION"),
    _option("--module", "list", "Load this environment module before.", _START, metavar="NAME"),
    _option(
        "--setup", "list", "A line of shell for the batch script, before anything of ours.", _BATCH, metavar="LINE"
    ),
    _option("--ulimit", "list", "A limit in the batch script: memlock=unlimited.", _BATCH, metavar="NAME=VALUE"),
    _option(
        "--image",
        "text",
        "The image: a file or directory of the nodes, or one of a registry: docker://…, host/name:tag, name@sha256:….",
        _BOX,
        metavar="REF",
    ),
    _option(
        "--pull",
        "choice",
        "When to ask the registry: where the image is missing, never, or always, for a tag that may have moved.",
        _BOX,
        choices="missing never always",
        default="missing",
    ),
    _option("--pull-timeout", "seconds", "For pulling and converting the image.", _BOX, metavar="TIME", default="30m"),
    _option(
        "--image-cache", "text", "Where pulled images are kept as files.", _BOX, metavar="DIR", default="~/.mnrun/cache"
    ),
    _option(
        "--runtime",
        "choice",
        "What runs the containers: auto is apptainer, host is none at all.",
        _BOX,
        choices="auto apptainer singularity docker podman charliecloud host",
        default="auto",
    ),
    _option("-B --bind", "list", "Mount a path of the nodes into the container.", _BOX, metavar="SRC[:DST[:OPTS]]"),
    _option("-D --chdir --pwd --workdir", "text", "Start here; by default the current directory.", _BOX, metavar="DIR"),
    _option("--no-home", "flag", "Do not mount the home directory.", _BOX),
    _option(
        "-x --env", "env", "Set a variable on every rank; without a value, pass it on.", _BOX, metavar="NAME[=VALUE]"
    ),
    _option("--env-file", "list", "Read NAME=VALUE lines from a file.", _BOX, metavar="FILE"),
    _option("--container-args", "words", "Words for the runtime, unread by mnrun.", _BOX, metavar="WORDS"),
    _option("--privileged", "flag", "Docker and podman: give the containers all rights.", _BOX),
    _option("--nv", "flag", "As apptainer's; the NVIDIA driver comes along by itself.", _BOX),
    _option("--hardened", "flag", "Docker and podman: no capabilities, no new privileges, SELinux labels kept.", _BOX),
    _option(
        "--podman-root",
        "text",
        "Where podman keeps images on each node, by default /tmp/mnrun-podman.UID.",
        _BOX,
        metavar="DIR",
    ),
    _option(
        "--container-per",
        "choice",
        "Outside-in: one container for each node or each rank.",
        _BOX,
        choices="auto node rank",
        default="auto",
    ),
    _option(
        "--mode",
        "choice",
        "inside-out: mpirun runs in the image. outside-in: the host's mpirun or srun starts containers.",
        _START,
        choices="auto inside-out outside-in",
        default="auto",
    ),
    _option(
        "--launcher",
        "choice",
        "Who starts the ranks; env and torchrun need no MPI.",
        _START,
        choices="auto mpirun srun env torchrun",
        default="auto",
    ),
    _option(
        "--mpi",
        "choice",
        "Which MPI (mpirun) or PMI (srun) it is; auto: the image's own, the first of several.",
        _START,
        choices="auto openmpi mpich mvapich2 intelmpi pmix pmi2",
        default="auto",
    ),
    _option("--mpi-args", "words", "Words for mpirun or srun, unread by mnrun.", _START, metavar="WORDS"),
    _option(
        "--require",
        "choice",
        "What ranks on different nodes must talk by: ib (InfiniBand, RoCE, EFA, Slingshot) or tcp; else the job fails.",
        _START,
        choices="any ib tcp",
        default="any",
    ),
    _option("--bind-to", "text", "Bind ranks to: none, core, socket …; none with GPUs or -c.", _START, metavar="UNIT"),
    _option(
        "--connect",
        "choice",
        "How mpirun reaches the other nodes' containers.",
        _START,
        choices="auto ssh pipe",
        default="auto",
    ),
    _option(
        "--fabric",
        "choice",
        "Tell NCCL, UCX and MPI which networks and adapters to use, from what the nodes have; off: leave it to them.",
        _START,
        choices="auto off",
        default="auto",
    ),
    _option("--script", "text", "Run this script once, in the master container.", _START, metavar="FILE"),
    _option(
        "--ports",
        "text",
        "Ports that the nodes' firewall lets through.",
        _START,
        metavar="FROM-TO",
        default="20000-29999",
    ),
    _option(
        "--start-timeout",
        "seconds",
        "From the first container start to all nodes ready.",
        _OURS,
        metavar="TIME",
        default="120s",
    ),
    _option(
        "--job-dir", "text", "Where the launcher writes its records.", _OURS, metavar="DIR", default="~/.mnrun/jobs"
    ),
    _option("--profile", "text", "Use this profile of the site's or your own.", _OURS, metavar="NAME"),
    _option(
        "--slurm-poll", "seconds", "Least time between two questions to Slurm.", _OURS, metavar="TIME", default="30s"
    ),
    _option(
        "--mnrun",
        "text",
        "The mnrun that the job calls on its first node; by default the one that submits.",
        _BATCH,
        metavar="PATH",
    ),
    _option("--templates", "text", "Templates of your own, before those of mnrun.", _BATCH, metavar="DIR"),
    _option("--keep", "flag", "Keep the records of this run.", _OURS),
    _option("--force", "flag", "Run what mnrun would refuse.", _OURS),
    _option("-v --verbose", "flag", "Say what is run.", _OURS),
    _option("-Q --quiet", "flag", "Say nothing but errors.", _OURS),
)

BY_NAME = {option.name: option for option in OPTIONS}
BY_FLAG = {flag: option for option in OPTIONS for flag in option.flags}

# Spellings of other tools, and the right ones here. A value in the key must match, too: -v alone is ours, -v a:b is
# docker's.
FOREIGN = {
    "-npernode": "--ntasks-per-node N",
    "--npernode": "--ntasks-per-node N",
    "-N/rank": "--ntasks-per-node N",
    "-hostfile": "--nodelist NODES inside an allocation, else --hostfile FILE",
    "-machinefile": "--nodelist NODES inside an allocation, else --hostfile FILE",
    "--machinefile": "--nodelist NODES inside an allocation, else --hostfile FILE",
    "--host": "--nodelist NODES inside an allocation, else --hosts LIST",
    "-mca": "--mpi-args '--mca KEY VALUE'",
    "--mca": "--mpi-args '--mca KEY VALUE'",
    "--prtemca": "--mpi-args '--prtemca KEY VALUE'",
    "-genv": "-x NAME=VALUE",
    "-oversubscribe": "--force",
    "--oversubscribe": "--force",
    "--container-image": "--image REF",
    "--container": "--image REF",
    "--container-mounts": "--bind SRC:DST",
    "--container-workdir": "--chdir DIR",
    "--container-env": "-x NAME",
    "--volume": "--bind SRC:DST",
    "--mount": "--bind SRC:DST",
    "--datamnts": "--bind DIR",
    "--envlist": "-x NAME",
    "--singopts": "--container-args WORDS",
    "--dockopts": "--container-args WORDS",
    "--slots_per_node": "--ntasks-per-node N",
    "--cleanenv": "-x NAME for each variable that ranks need",
    "--timeout": "--start-timeout TIME",
    "-time": "--time TIME",
}
