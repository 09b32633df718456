"""Define the one table of options: the source of the command line, the variables, the help and the job file's keys.

A key is the long option with `_` for `-`. The variable is `MNRUN_` and the key in capitals, for every verb.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_WHERE, _BOX, _START, _OURS = "Nodes and ranks", "Container", "Launch", "mnrun itself"
_BATCH = "Batch job, in sbatch's words"
# Options of a batch job that an interactive allocation has not.
_SCRIPTED = (
    *("array", "dependency", "mail_type", "mail_user", "signal", "requeue", "export"),
    *("slurm", "setup", "ulimit", "templates", "mnrun"),
)
# Options of a batch job that a live run takes from its command line. In a job file, they are the batch job's.
LIVE = ("output", "error")

# A verb -> the options that it refuses, or that have no effect in it. Its help lacks them.
_WITHOUT = {
    "run": _SCRIPTED,
    "plan": (),
    "submit": ("hosts", "hostfile", "ssh_user", "ssh_port", "rsh", "local", "alloc"),
    "shell": (*_SCRIPTED, *LIVE, "script", "label", "split_output", "mode", "launcher", "gpu_bind", "container_per"),
}

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
        """Return whether the option is a request to Slurm, and so has no meaning inside an allocation."""
        return self.section == _BATCH

    @property
    def negatable(self) -> bool:
        """Return whether --no-X exists: for a flag that a file may set for every job, or that is on by default."""
        return self.kind == "flag" and (self.batch or self.name in ("alloc", "stage"))

    @property
    def verbs(self) -> tuple[str, ...]:
        """Return the verbs in which the option has an effect. All verbs accept it, since one job file is for all."""
        return tuple(verb for verb, names in _WITHOUT.items() if self.name not in names)

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
    _option(
        "-N --nodes",
        "number",
        "Number of nodes. Default: all nodes of the allocation, else enough for the ranks.",
        _WHERE,
        metavar="N",
    ),
    _option("-n --ntasks -np", "number", "Number of ranks in all.", _WHERE, metavar="N"),
    _option(
        "--ntasks-per-node --tasks-per-node -ppn",
        "number",
        "Number of ranks on each node. Default: one per GPU, else one.",
        _WHERE,
        metavar="N",
    ),
    _option("-c --cpus-per-task", "number", "Number of CPUs for each rank.", _WHERE, metavar="N"),
    _option("--gres", "text", "Generic resources on each node, in Slurm's words: gpu:4.", _WHERE, metavar="LIST"),
    _option("--gpus-per-node", "text", "GPUs on each node: 4, a100:4, or a100:3,h100:1.", _WHERE, metavar="[TYPE:]N"),
    _option("--no-gpu", "flag", "Hide all GPUs from the ranks.", _WHERE),
    _option(
        "--gpu-bind",
        "text",
        "GPUs that a rank sees: none (all), closest, single:N, per_task:N, or srun's values with --launcher srun.",
        _WHERE,
        metavar="HOW",
    ),
    _option(
        "-w --nodelist",
        "text",
        "Nodes of the allocation to use. Without an allocation, they are requested: node[01-02].",
        _WHERE,
        metavar="NODES",
    ),
    _option("--exclude", "text", "Nodes not to use: node[03,07].", _WHERE, metavar="NODES"),
    _option(
        "-H --hosts",
        "text",
        "Hosts to use by ssh, without a scheduler: 'node[01-04]', or with ranks: ws1:2,ws2:1.",
        _WHERE,
        metavar="LIST",
    ),
    _option(
        "--hostfile", "text", "File with hosts, one on each line: HOST, HOST slots=N or HOST:N.", _WHERE, metavar="FILE"
    ),
    _option("--ssh-user", "text", "User name on --hosts. Default: from ~/.ssh/config.", _WHERE, metavar="NAME"),
    _option("--ssh-port", "number", "Port of ssh on --hosts. Default: from ~/.ssh/config.", _WHERE, metavar="PORT"),
    _option(
        "--rsh",
        "choice",
        "Program that connects to --hosts; auto is pdsh if it can do the job, else paramiko.",
        _WHERE,
        choices="auto pdsh paramiko",
        default="auto",
    ),
    _option("--local", "flag", "Use this machine alone, without a scheduler.", _WHERE),
    _option("--alloc", "flag", "Get nodes from Slurm if there are none (the default); --no-alloc forbids it.", _WHERE),
    _option("-J --job-name --name", "text", "Name of the job. Default: the program's name.", _BATCH, metavar="NAME"),
    _option("-p --partition", "text", "Partition of the job.", _BATCH, metavar="NAME"),
    _option("-A --account", "text", "Account that the job is charged to.", _BATCH, metavar="NAME"),
    _option("-q --qos", "text", "Quality of service of the job.", _BATCH, metavar="NAME"),
    _option("-t --time", "text", "Time limit: 30 (minutes), 12:00:00 (hours) or 2-0 (days).", _BATCH, metavar="TIME"),
    _option("-C --constraint", "text", "Features that the nodes must have.", _BATCH, metavar="LIST"),
    _option("--reservation", "text", "Reservation to use.", _BATCH, metavar="NAME"),
    _option("--exclusive", "flag", "Share no node with another job; --no-exclusive cancels it.", _BATCH),
    _option("-L --licenses", "text", "Licences that the job needs.", _BATCH, metavar="LIST"),
    _option("--mem", "text", "Memory on each node: 64G; a plain number is in MB.", _BATCH, metavar="SIZE"),
    _option("--mem-per-cpu", "text", "Memory for each CPU: 4G.", _BATCH, metavar="SIZE"),
    _option("--mem-per-gpu", "text", "Memory for each GPU: 32G.", _BATCH, metavar="SIZE"),
    _option("-G --gpus", "text", "Number of GPUs in all: 16, or a100:16.", _BATCH, metavar="[TYPE:]N"),
    _option(
        "--gpus-per-task",
        "text",
        "Number of GPUs to request for each rank; --gpu-bind limits what a rank sees.",
        _BATCH,
        metavar="N",
    ),
    _option("-a --array", "text", "Tasks of a job array: 0-9%2 (two at a time).", _BATCH, metavar="LIST"),
    _option("-d --dependency", "text", "Jobs to wait for: afterok:123.", _BATCH, metavar="LIST"),
    _option("--mail-type", "text", "Events to send a mail for: END,FAIL.", _BATCH, metavar="LIST"),
    _option("--mail-user", "text", "Address for the mails.", _BATCH, metavar="ADDRESS"),
    _option(
        "--signal", "text", "Signal for every rank, so many seconds before the time limit.", _BATCH, metavar="USR1@120"
    ),
    _option("--requeue", "flag", "Restart after a node failure or preemption; --no-requeue forbids it.", _BATCH),
    _option("--export", "text", "Variables that the job takes along: ALL, NONE, or a list.", _BATCH, metavar="LIST"),
    _option(
        "-o --output",
        "text",
        "File for the output of all ranks. Default of a batch job: %x-%j.out, of an array %x-%A_%a.out. "
        "A live run takes it from the command line or MNRUN_OUTPUT only.",
        _BATCH,
        metavar="FILE",
    ),
    _option("-e --error", "text", "File for standard error. Default: the file of --output.", _BATCH, metavar="FILE"),
    _option("-l --label", "flag", "Begin each line of output with the rank's number.", _START),
    _option(
        "--split-output", "text", "Directory with a file of output for each rank: rank.R.out.", _START, metavar="DIR"
    ),
    _option("--slurm", "list", "Another long option of sbatch: --slurm switches=1@30:00.", _BATCH, metavar="OPTION"),
    _option("--module", "list", "Environment module to load before the job.", _START, metavar="NAME"),
    _option("--setup", "list", "Shell line for the batch script, before mnrun.", _BATCH, metavar="LINE"),
    _option("--ulimit", "list", "Limit to set in the batch script: memlock=unlimited.", _BATCH, metavar="NAME=VALUE"),
    _option(
        "--image",
        "text",
        "Image: a file or directory of the nodes, or in a registry: docker://…, host/name:tag, name@sha256:….",
        _BOX,
        metavar="REF",
    ),
    _option(
        "--pull",
        "choice",
        "When to ask the registry: missing (only if the image is not there), never, or always (for tags that move).",
        _BOX,
        choices="missing never always",
        default="missing",
    ),
    _option("--pull-timeout", "seconds", "Time limit for bringing the image.", _BOX, metavar="TIME", default="30m"),
    _option("--stage", "flag", "Copy the image file to each node that lacks it, which then reads its copy.", _BOX),
    _option("--stage-dir", "text", "Directory for copies on nodes.", _BOX, metavar="DIR", default="/var/tmp"),
    _option("--stage-limit", "text", "Room for copies: 50G, or 20% of the disk.", _BOX, metavar="SIZE", default="20%"),
    _option("--image-cache", "text", "Directory for pulled images.", _BOX, metavar="DIR", default="~/.mnrun/cache"),
    _option(
        "--runtime",
        "choice",
        "Container runtime; auto is apptainer, host is no container.",
        _BOX,
        choices="auto apptainer singularity docker podman charliecloud host",
        default="auto",
    ),
    _option("-B --bind", "list", "Path of the nodes to mount in the container.", _BOX, metavar="SRC[:DST[:OPTS]]"),
    _option(
        "-D --chdir --pwd --workdir",
        "text",
        "Directory to start in. Default: the current directory.",
        _BOX,
        metavar="DIR",
    ),
    _option("--no-home", "flag", "Leave the home directory out of the container.", _BOX),
    _option(
        "-x --env",
        "env",
        "Variable for every rank; without a value, it is forwarded from here.",
        _BOX,
        metavar="NAME[=VALUE]",
    ),
    _option("--env-file", "list", "File of NAME=VALUE lines for every rank.", _BOX, metavar="FILE"),
    _option(
        "--container-args", "words", "Options for the container runtime, passed on unchanged.", _BOX, metavar="WORDS"
    ),
    _option("--privileged", "flag", "Give Docker and Podman containers all rights.", _BOX),
    _option("--nv", "flag", "No effect, since mnrun always brings in the NVIDIA driver.", _BOX),
    _option(
        "--hardened",
        "flag",
        "Docker and Podman: drop all capabilities, forbid new privileges, keep SELinux labels.",
        _BOX,
    ),
    _option(
        "--podman-root",
        "text",
        "Directory for Podman's images on each node. Default: /tmp/mnrun-podman.UID.",
        _BOX,
        metavar="DIR",
    ),
    _option(
        "--container-per",
        "choice",
        "Number of containers outside-in: one per node or one per rank.",
        _BOX,
        choices="auto node rank",
        default="auto",
    ),
    _option(
        "--mode",
        "choice",
        "Order of nesting: inside-out is container(mpirun), outside-in is mpirun(container).",
        _START,
        choices="auto inside-out outside-in",
        default="auto",
    ),
    _option(
        "--launcher",
        "choice",
        "Program that starts the ranks; env and torchrun need no MPI.",
        _START,
        choices="auto mpirun srun env torchrun",
        default="auto",
    ),
    _option(
        "--mpi",
        "choice",
        "Kind of MPI (mpirun) or PMI (srun); auto is the first MPI on the image's PATH.",
        _START,
        choices="auto openmpi mpich mvapich2 intelmpi pmix pmi2",
        default="auto",
    ),
    _option("--mpi-args", "words", "Options for mpirun or srun, passed on unchanged.", _START, metavar="WORDS"),
    _option(
        "--require",
        "choice",
        "Network that data between nodes must use, else the job fails: ib (also RoCE, EFA, Slingshot) or tcp.",
        _START,
        choices="any ib tcp",
        default="any",
    ),
    _option(
        "--bind-to",
        "text",
        "CPUs to bind each rank to: none, core, socket …. Default with GPUs or -c: none.",
        _START,
        metavar="UNIT",
    ),
    _option(
        "--connect",
        "choice",
        "Way from mpirun to other nodes' containers; auto is the pipe, or ssh under pdsh.",
        _START,
        choices="auto ssh pipe",
        default="auto",
    ),
    _option(
        "--fabric",
        "choice",
        "Network settings for NCCL, UCX and MPI: auto chooses by the nodes' hardware, off sets none.",
        _START,
        choices="auto off",
        default="auto",
    ),
    _option("--script", "text", "Script to run once, in the first node's container.", _START, metavar="FILE"),
    _option(
        "--ports",
        "text",
        "Range of ports that the nodes' firewall lets through.",
        _START,
        metavar="FROM-TO",
        default="20000-29999",
    ),
    _option(
        "--start-timeout",
        "seconds",
        "Time limit until all nodes are ready: 90s, 5m or 1h.",
        _OURS,
        metavar="TIME",
        default="120s",
    ),
    _option("--job-dir", "text", "Directory for the records of jobs.", _OURS, metavar="DIR", default="~/.mnrun/jobs"),
    _option("--profile", "text", "Profile to use. Default: the one whose match fits.", _OURS, metavar="NAME"),
    _option(
        "--slurm-poll", "seconds", "Shortest time between two questions to Slurm.", _OURS, metavar="TIME", default="30s"
    ),
    _option(
        "--mnrun",
        "text",
        "Path of mnrun on the first node of the job. Default: the path of this mnrun.",
        _BATCH,
        metavar="PATH",
    ),
    _option("--templates", "text", "Directory with your templates for batch scripts.", _BATCH, metavar="DIR"),
    _option(
        "--timeline",
        "text",
        "File for the time of each phase on each node, as JSON that Perfetto reads, too.",
        _OURS,
        metavar="FILE",
    ),
    _option("--keep", "flag", "Keep the records of this run.", _OURS),
    _option("--force", "flag", "Run a job that mnrun would refuse.", _OURS),
    _option("-v --verbose", "flag", "Show the commands that mnrun runs.", _OURS),
    _option("-Q --quiet", "flag", "Show nothing but errors.", _OURS),
)

BY_NAME = {option.name: option for option in OPTIONS}
BY_FLAG = {flag: option for option in OPTIONS for flag in option.flags}

# Options that --help shows. --help-all shows all of them.
COMMON = frozenset(
    (
        *("nodes", "ntasks", "ntasks_per_node", "cpus_per_task", "gpus_per_node", "nodelist", "hosts", "local"),
        *("image", "runtime", "bind", "chdir", "env", "no_home", "container_args"),
        *("mode", "launcher", "mpi_args", "script", "module", "label", "require"),
        *("job_name", "partition", "account", "time", "mem", "array", "output", "slurm"),
        *("profile", "force", "verbose", "quiet"),
    )
)
# Options whose values are paths.
PATHS = (
    *("image", "bind", "chdir", "script", "env_file", "job_dir", "image_cache", "templates", "split_output"),
    *("output", "error", "hostfile", "podman_root", "timeline", "stage_dir"),
)


def sections() -> Iterator[tuple[str, list[Option]]]:
    """Yield the options by section, in the table's order."""
    for name in dict.fromkeys(option.section for option in OPTIONS):
        yield name, [option for option in OPTIONS if option.section == name]
