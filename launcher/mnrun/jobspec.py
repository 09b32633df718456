"""Define the request of a user: JobSpec, its sections, and the origins of its values. No code here acts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Union

from mnrun.record import Record

CLAIM = "pvc:"  # in front of the source of a mount: a claim for a volume, NAME or NAME/SUBDIRECTORY
CLAIMING = "kubernetes"  # the scheduler that has such claims


class Mount(Record):
    """A mount `source[:target[:options]]`, as Apptainer and Docker write it."""

    source: str
    target: str = ""
    options: str = ""

    def __str__(self) -> str:
        target = self.target or self.source
        return ":".join(filter(None, (self.source, target, self.options)))


@dataclass(frozen=True)
class Variable:
    """One variable of the job."""

    name: str
    value: str | None  # None removes it
    inherited: bool = field(default=False, compare=False)  # the value is that of the place where the job starts
    why: str = field(default="", compare=False)


class HostRequest(Record):
    """A named host, and its number of ranks if that was given."""

    name: str
    slots: int | None = None

    def __str__(self) -> str:
        return f"{self.name}:{self.slots}" if self.slots is not None else self.name


class Layer(Enum):
    """The layers of settings, from the weakest to the strongest."""

    BUILT_IN = "built-in"
    DEFAULTS = "defaults"  # the site's or the user's config.toml
    PROFILE = "profile"
    JOB_FILE = "job file"
    VARIABLE = "MNRUN_*"
    SCHEDULER = "scheduler"  # variables of the scheduler: SBATCH_*
    COMMAND_LINE = "command line"
    DERIVED = "derived"  # mnrun itself concludes it


JOB_LAYERS = frozenset((Layer.JOB_FILE, Layer.VARIABLE, Layer.COMMAND_LINE))  # layers of one job, and not of every job


@dataclass(frozen=True)
class Origin:
    """The origin of a value."""

    text: str  # for people: `job.toml line 3`
    layers: frozenset[Layer]  # those in which the value was set
    level: int = field(default=0, compare=False)  # of one word of a list: the index of its layer. A higher one wins

    @classmethod
    def of(cls, text: str, layer: Layer) -> Origin:
        return cls(text, frozenset((layer,)))

    def __str__(self) -> str:
        return self.text

    def __add__(self, other: Origin) -> Origin:
        return Origin(f"{self.text}, {other.text}", self.layers | other.layers)

    @property
    def of_job(self) -> bool:
        """Return whether this very job asks for the value. A site's setting for every job does not count."""
        return bool(self.layers & JOB_LAYERS)


BUILT_IN = Origin.of("built-in", Layer.BUILT_IN)
COMMAND_LINE = Origin.of("command line", Layer.COMMAND_LINE)


def derived(text: str) -> Origin:
    return Origin.of(text, Layer.DERIVED)


class ImageKind(Enum):
    """The meanings of an image's name."""

    FILE = "file"  # an absolute path on the nodes, of a file or a directory
    REFERENCE = "reference"  # an image of a registry, which must be pulled before anything starts
    STORED = "stored"  # a name or an id in the runtime's own store


@dataclass(frozen=True)
class Image:
    kind: ImageKind
    name: str

    def __str__(self) -> str:
        return self.name


class Program(Record):
    command: tuple[str, ...] = ()
    script: str = ""  # runs once in the master container instead of `command`
    once: bool = False  # the command starts its own ranks: mpirun ./app
    prompt: str = ""  # a shell instead, at a "terminal", or with commands from standard "input"
    cwd: str = "/"  # where mnrun was started. A runtime starts there, with its relative paths
    chdir: str = "/"
    umask: str = "0022"
    env: tuple[Variable, ...] = ()  # variables of every rank
    forwarded: tuple[str, ...] = ()  # names in `env` from -x and --env-file
    explicit: tuple[Variable, ...] = ()  # variables of -x alone, as given
    env_files: tuple[str, ...] = ()
    label: bool = False
    split_output: str = ""

    @property
    def direct(self) -> bool:
        """Return whether mnrun starts the ranks, and not the command, a script or a shell."""
        return not (self.once or self.script or self.prompt)


class ContainerOptions(Record):
    """The image of a job, and the options of its containers."""

    image: Image | None = None  # None without containers
    pull: str = "missing"
    pull_timeout: int = 1800  # seconds, for PREPARE
    image_cache: str = ""  # directory where images of registries become files
    stage: bool = False  # nodes read a copy of the image file on a disk of their own
    stage_dir: str = ""  # on the nodes
    stage_limit: str = ""  # room for such copies
    runtime: str = "apptainer"
    args: tuple[str, ...] = ()
    per: str = "auto"  # outside-in: a container for each `node` or each `rank`
    privileged: bool = False
    hardened: bool = False
    podman_root: str = ""  # on the nodes
    binds: tuple[Mount, ...] = ()
    home: str = ""  # "" if it is not mounted
    # (path, place) of each path that the container must have, where links lead from a mounted directory to elsewhere
    links: tuple[tuple[str, str], ...] = ()
    nv: bool = False  # without effect, since nodes with the driver have it on

    @property
    def by_reference(self) -> bool:
        """Return whether the image is a registry's, which must be pulled before anything starts."""
        return self.image is not None and self.image.kind is ImageKind.REFERENCE

    @property
    def image_name(self) -> str:
        """Return the image as the runtime names it, or "" without containers."""
        return self.image.name if self.image is not None else ""

    @property
    def image_file(self) -> str:
        """Return the path of the image, or "" if it is no file of the nodes."""
        return self.image.name if self.image is not None and self.image.kind is ImageKind.FILE else ""


def split_gres(gres: str) -> tuple[str, str]:
    """Split a --gres value into its GPUs and its other resources, such as local disks: `gpu:4`, `nvme:1`."""
    items = [item for item in gres.split(",") if item]
    gpus = [item for item in items if item.partition(":")[0] in ("gpu", "gres/gpu")]
    return ",".join(gpus), ",".join(item for item in items if item not in gpus)


def gpu_count(text: str) -> int:
    """Return the number of GPUs in the value of an option: 8 in `a100:3,h100:5`, 1 in `gpu`, 0 in no text."""
    counts = [item.rpartition(":")[2][:9] for item in text.split(",") if item]
    return sum(int(count) if count.isdecimal() else 1 for count in counts)


class Resources(Record):
    nodes: int | None = None
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    gres: str = ""
    gpus_per_node: str = ""
    gpus: str = ""  # in all
    gpus_per_task: str = ""
    no_gpu: bool = False
    gpu_bind: str = ""
    nodelist: str = ""
    exclude: str = ""
    alloc: bool = True  # whether mnrun may get an allocation for the job

    @property
    def gpus_asked(self) -> int:
        """Return the GPUs per node in --gpus-per-node or --gres, or 0: `4`, `a100:3,h100:5`, `gpu:a100:2,tmp:1`."""
        return gpu_count(self.gpus_per_node or split_gres(self.gres)[0])


class Start(Record):
    """The start of the ranks, and the connection between them."""

    mode: str = "inside-out"
    launcher: str = "auto"
    mpi: str = "auto"
    undecided: tuple[str, ...] = ()  # options among mode, launcher and mpi that mnrun chooses
    mpi_args: tuple[str, ...] = ()
    bind_to: str = ""
    connect: str = "auto"  # auto: the pipe
    ports: str = "20000-29999"
    fabric: str = "auto"
    require: str = "any"  # the network that ranks must use between nodes: ib, tcp
    module: tuple[str, ...] = ()
    timeout: int = 120  # seconds from the first container start until every node is ready
    reach: str = "auto"  # a word of the scheduler's REACHES, with an address of this machine behind `call:`


class Way(Record):
    """How commands get to the nodes of a job, where that can be chosen."""

    word: str = "auto"  # or one of the scheduler's REACHES
    address: str = ""  # this machine, as nodes call it. "" for its names
    ports: str = Start().ports  # where nodes call
    directory: str = ""  # for the secrets of calls, shared with the nodes. "" for ~/.mnrun


class Hosts(Record):
    """The machines of a job without a scheduler. Inside a scheduler's job, those that are named are nodes of it."""

    named: tuple[HostRequest, ...] = ()
    in_job: bool = False
    hostfile: str = ""  # the file that named them
    ssh_user: str = ""
    ssh_port: int | None = None
    rsh: str = "auto"
    local: bool = False  # this machine alone

    @property
    def names(self) -> tuple[HostRequest, ...]:
        """Return the machines that no scheduler gives."""
        return () if self.in_job else self.named


class Service(Record):
    """The service that the program is, if `ready` says when it answers."""

    ready: str = ""  # a path, or http://HOST:PORT/PATH, that answers with 2xx or 3xx
    ready_timeout: int = 600  # seconds from the start of the ranks
    page: str = "/"  # the path of its page. It may hold {token}
    token: str = ""  # the variable by which the program takes a token
    busy: str = ""  # a path, and a word in its answer while the service works
    idle: int = 0  # seconds without a connection, after which it ends. 0 for never

    @property
    def address(self) -> tuple[str, int, str]:
        """Return the host, the port and the path of `ready`. The port is 0 for the one that mnrun chooses."""
        url = re.fullmatch(r"http://([^/:]+)(?::(\d+|\{port\}))?(/.*)?", self.ready)
        if url is None:
            return "127.0.0.1", 0, self.ready
        port = url[2] if url[2] and url[2].isdecimal() else 0
        return url[1], int(port), url[3] or "/"


SiteSettings = Mapping[str, Union[str, int, Mapping[str, str]]]  # of one scheduler, by their keys in a profile


class Batch(Record):
    # Options that mnrun hands on to the scheduler: name with _ for - -> value. Options that nobody gave are absent.
    options: Mapping[str, str | bool] = {}
    own: Mapping[str, tuple[str, ...]] = {}  # scheduler -> words of its own option
    site: Mapping[str, SiteSettings] = {}  # scheduler -> the site's settings for it
    setup: tuple[str, ...] = ()
    ulimit: tuple[str, ...] = ()
    mnrun: str = ""  # the command that the batch script calls
    templates: str = ""  # a directory searched before mnrun's own

    def text(self, option: str) -> str:
        """Return the value of an option that is a text, or "" if nobody gave it."""
        return str(self.options.get(option, ""))


class JobSpec(Record):
    """The checked and typed request of the user, without any fact of a cluster."""

    program: Program = Program()
    container: ContainerOptions = ContainerOptions()
    resources: Resources = Resources()
    start: Start = Start()
    hosts: Hosts = Hosts()
    service: Service = Service()
    batch: Batch = Batch()
    keep: bool = False
    force: bool = False
    quiet: bool = False
    verbose: bool = False
    job_dir: str = ""
    timeline: str = ""  # a file
    watch: int = 0  # seconds between two samples, or 0 for none
    notify: str = ""  # a way of jobs/notices.py
    notify_on: str = ""  # its events, by default the end
    job_file: str = ""  # as given
    profile: str = ""
    as_given: bool = False  # for a call in mnrun's batch script, where only its own options count
    scheduler: str = "auto"  # its name, as asked for
    poll: int = 30  # least number of seconds between two questions to the scheduler
    origins: Mapping[str, Origin] = {}  # option -> its origin
    setup_origins: tuple[Origin, ...] = ()  # origin of each line in `setup`
    # (option, a word of it) -> origin
    word_origins: Mapping[tuple[str, str], Origin] = {}

    def with_image(self, image: Image) -> JobSpec:
        return self._replace(container=self.container._replace(image=image))

    def sets(self, option: str) -> bool:
        """Return whether this very job asks for the option. A site's setting for every job does not count."""
        return option in self.origins and self.origins[option].of_job

    @property
    def way(self) -> Way:
        word, _, address = self.start.reach.partition(":")
        return Way(word, address, self.start.ports, self.job_dir)

    @property
    def staged(self) -> bool:
        """Return whether PREPARE copies the image file. Hosts have it before there is a plan, and one machine needs
        no copy."""
        here = self.hosts.names or self.hosts.local
        return self.container.stage and bool(self.container.image_file) and not here

    @property
    def overhears(self) -> bool:
        """Return whether MPIs are asked for the network that they use."""
        return self.verbose or self.start.require != "any"

    def value(self, option: str) -> object:
        """Return the value of an option by its name in the table of options. Without one, it is "", None or False."""
        name = FIELDS.get(option, option)
        for part in (self, *(getattr(self, section) for section in SECTIONS)):
            if name in part._fields:
                return getattr(part, name)
        return self.batch.own.get(option) or self.batch.options.get(option, "")


SECTIONS = ("program", "container", "resources", "start", "hosts", "service", "batch")
# Options whose field has another name.
FIELDS = {
    "bind": "binds",
    "hosts": "named",
    "container_args": "args",
    "container_per": "per",
    "env_file": "env_files",
    "start_timeout": "timeout",
}
