"""Bob on the nodes where alice's jobs run: an ordinary user with a shell, who can be quicker than she is.

Carol is one, too. She is in a group of alice's, `proj`, and so may write where bob may not.

A name in /tmp belongs to who makes it first, and the names of a job are in the list of processes. Where bob must be
quicker than alice her command waits for him, on her side of the race: who wins by luck here wins somewhere.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .cells import OMPI5, Way
from .stage import LOGIN, TOP, USERS, Cluster, Desk, Job, Process, wait_for

LAIR = "/var/tmp/lair"  # the stranger's, on each node
ALICE, BOB, CAROL = USERS
JOB = r"/tmp/mnrun\.[0-9a-z]+-[0-9a-z]+"  # the job's directory
PULL = r"/tmp/mnrun\.pull\.\d+\.\d+"
FIRST, SECOND = "node01", "node02"
SRUN_HOST = ("--mode", "outside-in", "--launcher", "srun", "--runtime", "host")
BARE, BARE_MPIRUN = Way("inside", "host"), Way("mpirun", "host")
BARE_SSH = Way("inside", "host", connect="ssh")
SLEEP = ("sleep", "3601")  # a program, to be told from a bystander
BYSTANDER = ("sleep", "3599")

# What lies in a directory of bob's under each name that anything of ours has ever been run by.
EVIL = f'#!/bin/sh\n{{ id; echo "$0 $*"; }} >"{LAIR}/ran/$$.$(date +%N)"\n'
# What it takes to be taken for a job's directory, made beside and renamed, and so complete at once.
PLANT = f"""
set -eu
new=/tmp/new.$$
mkdir -m 777 "$new"
chmod 777 "$new" # whatever the umask
cd "$new"
cp {LAIR}/evil/* .
mkfifo -m 666 stdin up go
echo "$1 $(uname -n) $$ 1" >own
chmod 666 own
mkfifo -m 666 gate
chmod 666 gate
mv -T "$new" "$1"
echo planted
"""


@dataclass(frozen=True)
class Stranger:
    """Bob, or carol, with a folder on each node."""

    cluster: Cluster
    name: str = "bob"

    def argv(self, script: str, *words: str) -> list[str]:
        return ["sh", "-c", script, self.name, *words]

    def does(self, script: str, *words: str, node: str = FIRST) -> str:
        """Run a script of theirs, which must succeed."""
        done = self.cluster.alice(self.argv(script, *words), node=node, user=self.name)
        assert done.code == 0, done
        return done.out

    @contextmanager
    def watching(self, script: str, pattern: str = JOB, node: str = FIRST, suffix: str = "") -> Iterator[Job]:
        """Run a script of theirs with such a name, as soon as that is in the list of processes."""
        script = f'PATH=/usr/bin:/bin\nset -- "$1{suffix}"\n{script}'
        words = ["python3", f"{LAIR}/watcher.py", pattern, *self.argv(script)]
        with self.cluster.running(words, node=node, user=self.name) as job:
            yield job

    def ran(self) -> list[str]:
        """Return what code of theirs said when somebody ran it."""
        places = [self.cluster.path(f"{LAIR}/ran", node) for node in (LOGIN, *self.cluster.nodes)]
        return [path.read_text() for place in places for path in place.iterdir()]


@contextmanager
def lair(cluster: Cluster, name: str = "bob") -> Iterator[Stranger]:
    """Bob comes, and goes with all that is his. So does carol."""
    uid = {"bob": BOB, "carol": CAROL}[name]
    names = {path.name for path in (TOP / "wrappers").glob("*.sh")} | {"pour", "say"}
    everywhere = (LOGIN, *cluster.nodes)
    watcher = (Path(__file__).parent / "programs" / "watcher.py").read_bytes()
    namesake = (Path(__file__).parent / "programs" / "namesake.py").read_bytes()
    for node in everywhere:
        cluster.root(node, "install", "-d", "-o", name, LAIR, f"{LAIR}/evil")
        cluster.root(node, "install", "-d", "-o", name, "-m", "777", f"{LAIR}/ran")
        cluster.put(f"{LAIR}/watcher.py", watcher, 0o755, node, uid)
        cluster.put(f"{LAIR}/namesake.py", namesake, 0o755, node, uid)
        for each in names:
            cluster.put(f"{LAIR}/evil/{each}", EVIL, 0o755, node, uid)
    try:
        yield Stranger(cluster, name)
    finally:
        for process in cluster.processes():
            if process.uid == uid:
                process.send(signal.SIGKILL)
        for node in everywhere:
            cluster.root(
                node,
                "sh",
                "-c",
                f"rm -rf {LAIR}; find /tmp /dev/shm /var/tmp -depth -user {name} -delete 2>/dev/null || :",
            )


# An image whose `sh` leaves a mark wherever it may write, and says that it has run.
EVIL_IMAGE = """
    set -eu
    umask 022
    mkdir -p "$1/bin" "$1/dev" "$1/etc" "$1/home" "$1/mnt" "$1/proc" "$1/root" "$1/sys" "$1/tmp" "$1/var/tmp"
    for file in /bin/dash $(ldd /bin/dash | grep -o '/[^ ]*'); do
        mkdir -p "$1${file%/*}" && cp -L "$file" "$1$file"
    done
    write='for place in /mnt %s /tmp; do echo >"$place/evil"; done 2>/dev/null'
    printf "#!/bin/dash\n$write\necho has run >&2\necho has run\nexit 3\n" "$2" >"$1/bin/sh"
    chmod 755 "$1/bin/sh"
"""


def evil_images(cluster: Cluster, desk: Desk, stranger: Stranger) -> None:
    """Such an image of theirs, as a directory and as a file of the size of another one."""
    pack = f'cd "$1" && apptainer -q build evil.sif {LAIR}/image && truncate -s "$(stat -c %s {OMPI5})" evil.sif'
    stranger.does(EVIL_IMAGE, f"{LAIR}/image", desk.path, node=LOGIN)
    Stranger(cluster, "alice").does(pack, desk.path, node=LOGIN)
    cluster.root(LOGIN, "mv", f"{desk.path}/evil.sif", f"{LAIR}/image.sif")


def marks(cluster: Cluster, desk: Desk) -> list[str]:
    """Where the image of somebody's choice has run."""
    places = [cluster.path("/tmp/evil", node) for node in (LOGIN, *cluster.nodes)]
    return [str(place) for place in (*places, cluster.path(f"{desk.path}/evil")) if place.exists()]


GROUPS = "/home/groups"  # shared by all nodes, and closed to those who have no group there


@contextmanager
def project(cluster: Cluster, name: str) -> Iterator[str]:
    """Yield a directory in which this stranger may make and rename, as alice may: everybody's, or a group's."""
    mode = ("-m", "777") if name == "bob" else ("-g", "proj", "-m", "2775")
    cluster.root(LOGIN, "install", "-d", GROUPS)
    cluster.root(LOGIN, "install", "-d", *mode, f"{GROUPS}/proj")
    try:
        yield f"{GROUPS}/proj"
    finally:
        cluster.root(LOGIN, "rm", "-rf", GROUPS)


# Whatever alice makes below such a name waits, half a minute at most, until somebody has been quicker.
SLOW = """\
#!/bin/sh
for last; do :; done
case $last in
  /tmp/mnrun.pull.* | /tmp/mnrun.*/*) ;;
  PATTERN) i=0; until [ -e "$last" ] || [ -L "$last" ] || [ "$i" = 300 ]; do sleep 0.1; i=$((i + 1)); done ;;
esac
exec "/usr/bin/${0##*/}" "$@"
"""
DIRECTORY, SHM = "/tmp/mnrun.*-??????", "/dev/shm/mnrun.*"


@contextmanager
def slow(cluster: Cluster, pattern: str, *nodes: str) -> Iterator[None]:
    """Yield nodes on which alice makes such names after everybody else."""
    program = "/usr/local/bin/mkdir"
    try:
        for node in nodes:
            cluster.put(program, SLOW.replace("PATTERN", pattern), 0o755, node)
        yield
    finally:
        for node in nodes:
            cluster.root(node, "rm", "-f", program)


def inner(process: Process) -> tuple[str, str, str]:
    """Return the number of a process as its node knows it, that of its session, and when it began."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    numbers = {line.split(":")[0]: line.split()[-1] for line in status.splitlines() if line.startswith("NS")}
    return numbers["NSpid"], numbers["NSsid"], str(process.began)


def found(cluster: Cluster, *wanted: str, node: str = FIRST) -> list[Process]:
    """Alice's processes there with all these in their command."""
    mine_ = [process for process in cluster.processes() if process.node == node and process.uid == ALICE]
    return [process for process in mine_ if all(word in " ".join(process.argv) for word in wanted)]


def undertakers(cluster: Cluster, node: str = FIRST) -> list[Process]:
    return [p for p in found(cluster, "bash -p ./", node=node) if p.argv[2] == "./undertaker.sh" or "watch" in p.argv]


def guards(cluster: Cluster, node: str = FIRST) -> list[Process]:
    return [process for process in found(cluster, "bash -p", "/guard.sh", node=node) if process.argv[0] == "bash"]


def kill(processes: Sequence[Process], signum: int = signal.SIGKILL) -> None:
    assert processes, "there is no process to signal"
    for process in processes:
        process.send(signum)


def at_once(processes: Sequence[Process]) -> None:
    """Kill them all before one of them can act on another's death, as a lost node does."""
    kill(processes, signal.SIGSTOP)
    kill(processes)


@contextmanager
def bystander(cluster: Cluster, node: str = FIRST) -> Iterator[Process]:
    """Yield a process of alice's that has nothing to do with any job; it must outlive what is done meanwhile."""

    def there() -> list[Process]:
        return [p for p in found(cluster, *BYSTANDER, node=node) if p.argv == BYSTANDER]

    with cluster.running(BYSTANDER, node=node) as job:
        wait_for(lambda: bool(there()), "there")  # what starts it has its words, too
        (process,) = there()
        yield process
        assert job.process.poll() is None, "the bystander was killed"
        assert process in cluster.processes(), "the bystander was killed"


def up(cluster: Cluster, count: int, node: str = FIRST) -> None:
    """So many of alice's programs run there."""
    wait_for(lambda: len(programs(cluster, node)) >= count, "running")


def programs(cluster: Cluster, node: str = FIRST) -> list[Process]:
    return [process for process in found(cluster, *SLEEP, node=node) if process.argv == SLEEP]


def planted(job: Job) -> None:
    job.saying(lambda said: "planted" in said.out, "planted")


def place_of(cluster: Cluster, node: str = FIRST) -> str:
    """Return the job's directory there."""
    (name,) = [path.name for path in cluster.path("/tmp", node).glob("mnrun.*-*") if path.stat().st_uid == ALICE]
    return f"/tmp/{name}"
