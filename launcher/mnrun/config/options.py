"""Define the one table of options: the source of the command line, the variables, the help and the job file's keys.

A key is the long option with `_` for `-`. The variable is `MNRUN_` and the key in capitals, for every verb.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from mnrun.record import Record

_BATCH = "Batch job"  # the section of requests to the scheduler
# A scheduler -> the help of its own option (schedulers/vocabulary.py, OwnOption).
OWN = {
    "slurm": "Another long option of sbatch: --slurm switches=1@30:00.",
    "sge": "Another option of qsub: --sge '-l foo=1'.",
    "pbs": "Another option of PBS's qsub: --pbs '-l foo=1'.",
    "lsf": "Another option of bsub: --lsf '-app bio'.",
    "flux": "Another long option of flux batch: --flux begin-time=+1h.",
    "kubernetes": "A setting of Kubernetes: --kubernetes namespace=team.",
}
# A form of mnrun plan --format that is a text for others to run -> the scheduler that it is for.
FORMS = dict.fromkeys(("mpijob", "trainjob", "jobset", "job", "pod", "rbac", "pv", "statefulset"), "kubernetes")
# Options of a batch job that an interactive allocation has not.
_SCRIPTED = (
    *("array", "dependency", "mail_type", "mail_user", "signal", "requeue", "export"),
    *(*OWN, "setup", "ulimit", "templates", "mnrun"),
)
# Options of a batch job that a live run takes from its command line. In a job file, they are the batch job's.
LIVE = ("output", "error")

SERVICE = ("ready", "ready_timeout", "idle", "token", "page", "busy")

# A verb -> the options that it refuses, or that have no effect in it. Its help lacks them.
_WITHOUT = {
    "run": _SCRIPTED,
    "plan": (),
    "init": (),
    "submit": ("hosts", "hostfile", "ssh_user", "ssh_port", "rsh", "local", "alloc"),
    "rerun": ("hosts", "hostfile", "ssh_user", "ssh_port", "rsh", "local", "alloc", "script"),
    "shell": (
        *(*_SCRIPTED, *LIVE, *SERVICE),
        *("notify", "notify_on", "script", "label", "split_output", "mode", "launcher", "gpu_bind", "container_per"),
    ),
    "serve": ("array", "script"),
}

# Keys of a job file -> the option's own name.
ALIASES = {"name": "job_name", "modules": "module", "lines": "setup"}
# Keys of earlier versions, which documents do not show -> the option's own name. Their variables work, too.
FORMER = {"slurm_poll": "poll"}


class Option(Record):
    """One option. `kind` is flag, text, number, choice, seconds, list, words or env.

    A list adds up. Words are split as by a shell. env is NAME[=VALUE].
    """

    name: str
    flags: tuple[str, ...]
    kind: str
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    default: str | None = None  # as a person would write it
    section: str = ""

    @property
    def batch(self) -> bool:
        """Return whether the option is a request to the scheduler, and so has no meaning inside a job."""
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
    def variables(self) -> tuple[str, ...]:
        """Return the environment variables, the former ones last."""
        former = (f"MNRUN_{key.upper()}" for key, name in FORMER.items() if name == self.name)
        return () if self.variable is None else (self.variable, *former)

    @property
    def variable(self) -> str | None:
        """Return the environment variable, or None for env and setup, in which a comma is no separator."""
        return None if self.kind == "env" or self.name == "setup" else f"MNRUN_{self.name.upper()}"


def _option(kind: str, flags: str, help: str, default: str | None = None, choices: str = "") -> Option:
    """Return an option. `flags` has its spellings, and the word for its value in the help: `-N --nodes N`."""
    words = flags.split()
    spellings = tuple(word for word in words if word.startswith("-"))
    name = next(flag for flag in spellings if flag.startswith("--"))[2:].replace("-", "_")
    return Option(name, spellings, kind, help, " ".join(words[len(spellings) :]), tuple(choices.split()), default)


def _choice(flags: str, choices: str, help: str) -> Option:
    """Return an option that takes one of these words, by default the first."""
    return _option("choice", flags, help, choices.split()[0], choices)


_KINDS = ("flag", "text", "number", "seconds", "list", "words", "env")
_flag, _text, _number, _seconds, _list, _words, _env = (partial(_option, kind) for kind in _KINDS)

# fmt: off
_SECTIONS: dict[str, tuple[Option, ...]] = {
    "Nodes and ranks": (
        _number("-N --nodes N", "Number of nodes. Default: all nodes of the allocation, else enough for the ranks."),
        _number("-n --ntasks -np N", "Number of ranks in all."),
        _number("--ntasks-per-node --tasks-per-node -ppn N",
                "Number of ranks on each node. Default: one per GPU, else one."),
        _number("-c --cpus-per-task N", "Number of CPUs for each rank."),
        _text("--gres LIST", "Generic resources on each node: gpu:4."),
        _text("--gpus-per-node [TYPE:]N", "GPUs on each node: 4, a100:4, or a100:3,h100:1."),
        _flag("--no-gpu", "Hide all GPUs from the ranks."),
        _text("--gpu-bind HOW",
              "GPUs that a rank sees: none (all), closest, single:N, per_task:N, "
              "or the values of the scheduler's launcher."),
        _text("-w --nodelist NODES",
              "Nodes of the allocation to use. Without an allocation, they are requested: node[01-02]."),
        _text("--exclude NODES", "Nodes not to use: node[03,07]."),
        _text("-H --hosts LIST",
              "Hosts to use by ssh, without a scheduler: 'node[01-04]', or with ranks: ws1:2,ws2:1."),
        _text("--hostfile FILE", "File with hosts, one on each line: HOST, HOST slots=N or HOST:N."),
        _text("--ssh-user NAME", "User name on --hosts. Default: from ~/.ssh/config."),
        _number("--ssh-port PORT", "Port of ssh on --hosts. Default: from ~/.ssh/config."),
        _choice("--rsh", "auto ssh pdsh paramiko",
                "Program that connects to --hosts; auto is ssh, or paramiko where there is no ssh."),
        _text("--reach auto|ssh|qrsh|call[:NAME]",
              "How commands get to the nodes of a job, where its scheduler has several ways. "
              "With call, the nodes connect to mnrun, whose machine they know as NAME.", default="auto"),
        _flag("--local", "Use this machine alone, without a scheduler."),
        _choice("--scheduler", " ".join(("auto", *OWN, "hosts", "local")),
                "Scheduler of the job. auto is the one whose job this is, else that of this machine; "
                "local is --local."),
        _flag("--alloc", "Get nodes from the scheduler if there are none (the default); --no-alloc forbids it."),
    ),
    _BATCH: (
        _text("-J --job-name --name NAME", "Name of the job. Default: the program's name."),
        _text("-p --partition NAME", "Partition of the job."),
        _text("-A --account NAME", "Account that the job is charged to."),
        _text("-q --qos NAME", "Quality of service of the job."),
        _text("-t --time TIME", "Time limit: 2h, 30 (minutes), 12:00:00 (hours) or 2-0 (days)."),
        _text("-C --constraint LIST", "Features that the nodes must have."),
        _text("--reservation NAME", "Reservation to use."),
        _flag("--exclusive", "Share no node with another job; --no-exclusive cancels it."),
        _text("-L --licenses LIST", "Licences that the job needs."),
        _text("--mem SIZE", "Memory on each node: 64G; a plain number is in MB."),
        _text("--mem-per-cpu SIZE", "Memory for each CPU: 4G."),
        _text("--mem-per-gpu SIZE", "Memory for each GPU: 32G."),
        _text("-G --gpus [TYPE:]N", "Number of GPUs in all: 16, or a100:16."),
        _text("--gpus-per-task N", "Number of GPUs to request for each rank; --gpu-bind limits what a rank sees."),
        _text("-a --array LIST", "Tasks of a job array: 0-9%2 (two at a time)."),
        _text("-d --dependency LIST", "Jobs to wait for: afterok:123."),
        _text("--mail-type LIST", "Events to send a mail for: END,FAIL."),
        _text("--mail-user ADDRESS", "Address for the mails."),
        _text("--signal USR1@120", "Signal for every rank, so many seconds before the time limit."),
        _flag("--requeue", "Restart after a node failure or preemption; --no-requeue forbids it."),
        _text("--export LIST", "Variables that the job takes along: ALL, NONE, or a list."),
        _text("-o --output FILE",
              "File for the output of all ranks. Default of a batch job: %x-%j.out, of an array %x-%A_%a.out. "
              "mnrun run ignores it in job files and profiles."),
        _text("-e --error FILE", "File for standard error. Default: the file of --output."),
        *(_list(f"--{name} OPTION", text) for name, text in OWN.items()),
        _list("--setup LINE", "Shell line for the batch script, before mnrun."),
        _list("--ulimit NAME=VALUE", "Limit to set in the batch script: memlock=unlimited."),
        _text("--mnrun PATH", "Path of mnrun on the first node of the job. Default: the path of this mnrun."),
        _text("--templates DIR", "Directory with your templates for batch scripts."),
    ),
    "Launch": (
        _flag("-l --label", "Begin each line of output with the rank's number."),
        _text("--split-output DIR", "Directory with a file of output for each rank: rank.R.out."),
        _list("--module NAME", "Environment module to load before the job."),
        _choice("--mode", "auto inside-out outside-in",
                "inside-out: mpirun runs in the container. outside-in: the node's own launcher starts containers."),
        _choice("--launcher", "auto mpirun srun env torchrun ray",
                "Program that starts the ranks. mpirun is the image's, or the node's outside-in; env is mnrun itself. "
                "env, torchrun and ray need no MPI."),
        _choice("--mpi", "auto openmpi mpich mvapich2 intelmpi pmix pmi2",
                "Kind of MPI, or PMI of the scheduler's launcher; auto is the first MPI on the image's PATH."),
        _words("--mpi-args WORDS", "Options for the launcher, passed on unchanged."),
        _choice("--require", "any ib tcp",
                "Network that data between nodes must use, else the job fails: ib (also RoCE, EFA, Slingshot) or tcp."),
        _text("--bind-to UNIT", "CPUs to bind each rank to: none, core, socket …. Default with GPUs or -c: none."),
        _choice("--connect", "auto ssh pipe", "Way from mpirun to other nodes' containers; auto is the pipe."),
        _choice("--fabric", "auto off",
                "Network settings for NCCL, UCX and MPI: auto chooses by the nodes' hardware, off sets none."),
        _text("--script FILE", "Script to run once, in the first node's container."),
        _text("--ports FROM-TO", "Range of ports that the nodes' firewall lets through.", default="20000-29999"),
    ),
    "Container": (
        _text("--image REF",
              "Image: a file or directory of the nodes, or in a registry: docker://…, host/name:tag, name@sha256:…."),
        _choice("--pull", "missing never always",
                "When to ask the registry: missing (only if the image is not there), never, "
                "or always (for tags that move)."),
        _seconds("--pull-timeout TIME", "Time limit for bringing the image.", default="30m"),
        _flag("--stage", "Copy the image file to each node that lacks it, and under --hosts an image of a store."),
        _text("--stage-dir DIR", "Directory for copies on nodes.", default="/var/tmp"),
        _text("--stage-limit SIZE", "Room for copies: 50G, or 20% of the disk.", default="20%"),
        _text("--image-cache DIR", "Directory for pulled images.", default="~/.mnrun/cache"),
        _choice("--runtime", "auto apptainer singularity docker podman charliecloud host",
                "Container runtime; auto is apptainer, host is no container."),
        _list("-B --bind SRC[:DST[:OPTS]]", "Path of the nodes to mount in the container."),
        _text("-D --chdir --pwd --workdir DIR", "Directory to start in. Default: the current directory."),
        _flag("--no-home", "Leave the home directory out of the container."),
        _env("-x --env NAME[=VALUE]", "Variable for every rank; without a value, it is forwarded from here."),
        _list("--env-file FILE", "File of NAME=VALUE lines for every rank."),
        _words("--container-args WORDS", "Options for the container runtime, passed on unchanged."),
        _flag("--privileged", "Give Docker and Podman containers all rights."),
        _flag("--nv", "No effect, since mnrun always brings in the NVIDIA driver."),
        _flag("--hardened", "Docker and Podman: drop all capabilities, forbid new privileges, keep SELinux labels."),
        _text("--podman-root DIR", "Directory for Podman's images on each node. Default: /tmp/mnrun-podman.UID."),
        _choice("--container-per", "auto node rank", "Number of containers outside-in: one per node or one per rank."),
    ),
    "Service": (
        _text("--ready URL",
              "The job is a service, which is ready once this answers: /health, or http://{head}:8000/health."),
        _seconds("--ready-timeout TIME", "Time limit from the start of the program until it is ready. Default: 10m."),
        _seconds("--idle TIME", "End the service after so long a time without a connection."),
        _text("--token NAME", "Variable by which the program takes a token: JUPYTER_TOKEN. mnrun makes the token."),
        _text("--page PATH", "Path of the page for people: /lab?token={token}. Default: /."),
        _text("--busy 'PATH WORD'", "The service is not idle while the answer of PATH has WORD in it."),
    ),
    "mnrun itself": (
        _seconds("--start-timeout TIME", "Time limit until all nodes are ready: 90s, 5m or 1h.", default="120s"),
        _text("--job-dir DIR", "Directory for the records of jobs.", default="~/.mnrun/jobs"),
        _text("--profile NAME", "Profile to use. Default: the one whose match fits."),
        _seconds("--poll --slurm-poll TIME", "Shortest time between two questions to the scheduler.", default="30s"),
        _text("--timeline FILE", "File for the time of each phase on each node, as JSON that Perfetto reads, too."),
        _seconds("--watch 10s", "Time between two samples of what the job uses: CPUs, memory, GPUs, networks."),
        _text("--notify mail[:ADDRESS]|URL|COMMAND",
              "Way to tell of the job's end: a mail, a POST of JSON, or a command that gets MNRUN_JOB, MNRUN_STATE, "
              "MNRUN_CODE and more."),
        _text("--notify-on LIST",
              "Events to tell of: start, end, and fail for an end with another code than 0. Default: end."),
        _flag("--keep", "Keep the records of this run."),
        _flag("--force", "Run a job that mnrun would refuse."),
        _flag("-v --verbose", "Show the commands that mnrun runs."),
        _flag("-Q --quiet", "Show nothing but errors."),
    ),
}
# fmt: on
OPTIONS = tuple(option._replace(section=name) for name, options in _SECTIONS.items() for option in options)


def name_of(key: str) -> str:
    """Return the option's own name for a key of a file."""
    return {**ALIASES, **FORMER}.get(key, key)


BY_NAME = {option.name: option for option in OPTIONS}
BY_FLAG = {flag: option for option in OPTIONS for flag in option.flags}

# Options that --help shows. --help-all shows all of them.
COMMON = frozenset(
    (
        *("nodes", "ntasks", "ntasks_per_node", "cpus_per_task", "gpus_per_node", "nodelist", "hosts", "local"),
        *("image", "runtime", "bind", "chdir", "env", "no_home", "container_args"),
        *("mode", "launcher", "mpi_args", "script", "module", "label", "require"),
        *("ready", "idle"),
        *("job_name", "partition", "account", "time", "mem", "array", "output", *OWN),
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
    for name in _SECTIONS:
        yield name, [option for option in OPTIONS if option.section == name]
