"""The stage of the live tests: a rehearsal cluster, commands of its users, and what is left of them.

cluster.alice(["hostname"])                                       on the login node
cluster.mnrun("--image", OMPI5, "--", "/opt/mpi/hello", nodes=4, tasks=2)
with cluster.running(cluster.launch("sleep", "600", nodes=2)) as job: …
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Union

from rehearsal import door, enter, kube, model, namespaces, pbs, sge, signals

from . import autopsy

TOP = Path(__file__).resolve().parents[2]
TOOL = TOP / "scripts" / "cluster"
LOGIN = model.LOGIN
USERS = (model.USERS["alice"], model.USERS["bob"], model.USERS["carol"])
# In ~/.mnrun: where jobs leave records, where else they do, why live runs failed, what the scheduler last said, and
# what is known of images.
OURS = (
    "jobs",
    "ssh",
    "map",
    "kubernetes",
    "places",
    "ends",
    "slurm.json",
    "sge.json",
    "pbs.json",
    "kubernetes.json",
    "cache",
    "named",
)
SLURM = "squeue -h -o 'job %i %T' && sinfo -h -N -o 'node %N %T'"  # what is in its queue, and how its nodes are
PODMANS = ("mnrun-podman.", "libpod_rootless_lock_")  # podman's images, and what it counts its containers with
INSTANCES = ".apptainer/instances/app"  # what Apptainer writes of each, by node and user
PATIENCE = float(os.environ.get("MNRUN_TEST_PATIENCE", "240"))  # says "never", not "slow", and outlasts --start-timeout

Stdin = Union[bytes, Path, None]


@dataclass(frozen=True)
class Result:
    """How a command ended and what it said."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode("utf-8", "replace")

    def __str__(self) -> str:
        return f"exit code {self.code}\n--- stdout\n{_short(self.out)}\n--- stderr\n{_short(self.err)}"


@dataclass(frozen=True)
class Process:
    """A process of a user in a node, by the pid that this machine knows it by."""

    pid: int
    uid: int
    node: str
    argv: tuple[str, ...]
    parent: int = 0
    began: int = 0  # when, in clock ticks: no other process with this pid began then

    def send(self, signum: int) -> None:
        """Send it a signal, unless it has ended."""
        signals.send(self.pid, signum, lambda: signals.began(self.pid) == self.began)

    def __str__(self) -> str:
        return f"{self.node}: process {self.pid} of {self.uid}: {' '.join(self.argv)[:150]}"


class Job:
    """A command that runs in the background, with its output in files that can be looked at meanwhile."""

    def __init__(self, argv: Sequence[str | bytes], stdin: Stdin = None) -> None:
        self._out: IO[bytes] = tempfile.TemporaryFile()
        self._err: IO[bytes] = tempfile.TemporaryFile()
        source = _open(stdin)
        try:
            self.process = subprocess.Popen(argv, stdin=source, stdout=self._out, stderr=self._err, umask=0o022)
        finally:
            if not isinstance(source, int):
                source.close()

    def so_far(self) -> Result:
        code = self.process.returncode
        if code is None:
            code = -1
        elif code < 0:  # a signal, as a shell would tell it
            code = 128 - code
        return Result(code, _all(self._out), _all(self._err).decode("utf-8", "replace"))

    def saying(self, wanted: Callable[[Result], bool], what: str, seconds: float = PATIENCE) -> Result:
        """What it has said once `wanted` is true of it; fails where it ends before."""

        def ready() -> bool:
            ended = self.process.poll() is not None
            if wanted(self.so_far()):
                return True
            assert not ended, f"ended before it was {what}: {self.so_far()}"
            return False

        wait_for(ready, what, seconds, lambda: str(self.so_far()))
        return self.so_far()

    def end(self, seconds: float = PATIENCE) -> Result:
        """Return its result; one that does not end in time is a failure, and is killed."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            there = autopsy.processes(self.process.pid)
            self.kill()
            raise AssertionError(f"still running after {seconds:.0f} s: {self.so_far()}\n{there}") from None
        return self.so_far()

    def kill(self) -> None:
        """End it at once; all that it started in the node gets a SIGHUP, as when a connection breaks."""
        self.process.kill()
        self.process.wait()


@dataclass
class Cluster:
    """A running rehearsal cluster."""

    name: str
    model: model.Cluster = field(init=False)
    nodes: tuple[str, ...] = field(init=False)
    _before: frozenset[str] = frozenset()
    kept: set[str] = field(default_factory=set)  # jobs that tests share

    def __post_init__(self) -> None:
        self.model = model.Cluster(self.name)
        self.nodes = tuple(self.model.options().compute)
        self.settle()

    def settle(self) -> None:
        """Take everything that is there now as a part of the cluster."""
        self._before = frozenset(self._found())

    # Commands

    def argv(self, node: str, user: str, words: Sequence[str | bytes], cwd: str = "") -> list[str | bytes]:
        """The cluster tool's `exec`, without the tool: it takes three times as long to start. It forwards signals."""
        return [sys.executable, "-IS", door.__file__, str(self._pid(node)), *enter.words(words, user, cwd, "xterm")]

    def _pid(self, node: str) -> int:
        pid = self.model.pid(node)
        assert pid is not None, f"{node} is switched off"
        return pid

    def tool(self, *words: str) -> None:
        """Run a verb of the cluster tool: cut, heal, kill."""
        done = subprocess.run([str(TOOL), "--name", self.name, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"cluster {' '.join(words)}: {done.stderr}"

    def root(self, node: str, *words: str) -> str:
        """Return the output of a command of root's in a node. It must succeed."""
        result = self.alice(words, node=node, user="root")
        assert result.code == 0, f"{node}: {' '.join(words)}: {result}"
        return result.out

    def alice(
        self,
        words: Sequence[str | bytes],
        stdin: Stdin = None,
        *,
        node: str = LOGIN,
        user: str = "alice",
        cwd: str = "",
        seconds: float = PATIENCE,
    ) -> Result:
        """Run a command of alice's on the login node. No signal of ours reaches it."""
        line = [*namespaces.nsenter(self._pid(node)), *enter.words(words, user, cwd, "xterm")]
        return Job(line, stdin).end(seconds)

    def launch(
        self,
        *words: str | bytes,
        nodes: int = 4,
        tasks: int = 2,
        salloc: Sequence[str] = (),
        env: Mapping[str, str | bytes] | None = None,
    ) -> list[str | bytes]:
        """`salloc … mnrun WORDS`; tasks 0 leaves their number to mnrun."""
        shape = [f"-N{nodes}", *([f"--ntasks-per-node={tasks}"] if tasks else []), *salloc]
        if not {"-w", "--nodelist"} & set(salloc):
            shape += ["-w", ",".join(self.nodes[:nodes])]  # the first ones, though a job before may linger there
        return ["salloc", "-Q", *shape, *_env(env), "mnrun", *words]

    def mnrun(
        self,
        *words: str | bytes,
        nodes: int = 4,
        tasks: int = 2,
        salloc: Sequence[str] = (),
        env: Mapping[str, str | bytes] | None = None,
        stdin: Stdin = None,
        user: str = "alice",
        cwd: str = "",
        seconds: float = PATIENCE,
    ) -> Result:
        """mnrun in an allocation of its own, from a shell on the login node."""
        line = self.launch(*words, nodes=nodes, tasks=tasks, salloc=salloc, env=env)
        return self.alice(line, stdin, user=user, cwd=cwd, seconds=seconds)

    @contextmanager
    def running(
        self, words: Sequence[str | bytes], stdin: Stdin = None, *, node: str = LOGIN, user: str = "alice"
    ) -> Iterator[Job]:
        """Yield a command in the background; ended at the end if it still runs."""
        job = Job(self.argv(node, user, words), stdin)
        try:
            yield job
        finally:
            job.kill()

    @contextmanager
    def held(self, *salloc: str) -> Iterator[str]:
        """Yield the id of an allocation that nobody sits in."""
        granted = self.alice(["salloc", "--no-shell", *salloc])
        assert granted.code == 0, granted
        job = granted.err.split("Granted job allocation ")[1].split()[0]
        self.kept.add(job)
        try:
            yield job
        finally:
            self.alice(["scancel", job])
            self.kept.discard(job)

    # Files, seen from this machine

    def path(self, path: str, node: str = LOGIN) -> Path:
        """Return a path of a node as this machine sees it."""
        return Path(f"/proc/{self._pid(node)}/root") / path.lstrip("/")

    def put(self, path: str, text: str | bytes, mode: int = 0o644, node: str = LOGIN, uid: int = USERS[0]) -> str:
        """Write a file that belongs to alice; its path in the node."""
        place = self.path(path, node)
        place.write_bytes(text.encode() if isinstance(text, str) else text)
        place.chmod(mode)
        os.chown(place, uid, uid)
        return path

    @contextmanager
    def desk(self, nodes: Sequence[str] = (LOGIN,), under: str = "/home/alice") -> Iterator[Desk]:
        """Yield a folder of alice's for one test."""
        path = f"{under}/desk.{time.monotonic_ns()}"
        for node in nodes:
            self.path(path, node).mkdir()
            os.chown(self.path(path, node), USERS[0], USERS[0])
        try:
            yield Desk(self, path)
        finally:
            for node in nodes:
                shutil.rmtree(self.path(path, node), ignore_errors=True)

    # What is there, and what should not be

    def processes(self) -> list[Process]:
        """Return the users' processes in all nodes."""
        networks = {os.stat(f"/run/netns/{self.model.netns(node)}").st_ino: node for node in (LOGIN, *self.nodes)}
        hosts = {self.model.pid(node) for node in self.nodes} if self.model.options().kube else set()
        found = []
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                node = networks.get(os.stat(f"{entry.path}/ns/net").st_ino)
                uid = entry.stat().st_uid
                if not node and hosts and (uid in USERS or not uid):
                    node = _pod(int(entry.name), hosts)
                if not node:  # most processes are of other clusters, or of the kernel
                    continue
                words = Path(entry.path, "cmdline").read_bytes().split(b"\0")[:-1]
                status = Path(entry.path, "status").read_text(errors="replace")
                parent, owner = (int(status.split(f"\n{key}:")[1].split()[0]) for key in ("PPid", "Uid"))
                began = signals.began(int(entry.name))
            except (OSError, IndexError):
                continue
            uid = max(uid, owner)  # the folder of an undumpable process (sshd's) is root's
            if words and (uid in USERS or uid >= model.SUBORDINATES):
                argv = tuple(word.decode("utf-8", "replace") for word in words)
                found.append(Process(int(entry.name), uid, node, argv, parent, began))
        return found

    def mnruns(self) -> list[Process]:
        """Return the launchers that run. A child has its parent's words until its exec, and is none of them."""
        found = {p.pid: p for p in self.processes() if any(word.endswith("/bin/mnrun") for word in p.argv[:2])}
        return [process for process in found.values() if process.parent not in found]

    def launcher(self) -> Process:
        """Return the one launcher that runs."""
        (one,) = self.mnruns()
        return one

    def leftovers(self) -> list[str]:
        """Return what is there now that was not there at the beginning, a line each."""
        return sorted(set(self._found()) - self._before) + self.busy()

    def wait_clean(self, seconds: float, besides: str = "") -> list[str]:
        """Return what is left after that long, or [] as soon as nothing is left. Lines with `besides` do not count."""
        deadline = time.monotonic() + seconds
        while True:
            found = set(self._found()) - self._before
            left = sorted(line for line in found if not besides or besides not in line) or self.busy()
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.2)

    def _found(self) -> Iterator[str]:
        yield from map(str, self.processes())
        for node in (LOGIN, *self.nodes):
            if self.model.pid(node) is None:
                continue
            for folder in ("/tmp", "/dev/shm", "/var/tmp", "/run/user"):
                there = [entry.name for entry in self.path(folder, node).iterdir()]
                yield from (f"{node}: {folder}/{name}" for name in there if not name.startswith(PODMANS))
            for home in self.path("/home", node).iterdir():
                names = {entry.name for entry in home.iterdir()} - {".mnrun", ".apptainer", ".bash_history"}
                records = (path for path in below(home / INSTANCES) if path.match(f"{INSTANCES}/*/*/*"))
                names |= {str(record.relative_to(home)) for record in records}
                yield from (f"{node}: {home.name}'s ~/{name}" for name in names)
                for folder in (".mnrun", ".mnrun/jobs", ".mnrun/kubernetes", ".mnrun/map"):
                    if (home / folder).is_dir():
                        inside = (home / folder).iterdir()
                        yield from (f"{node}: {home.name}'s ~/{folder}/{e.name}" for e in inside if e.name not in OURS)

    def restarted(self, node: str) -> None:
        """Make Apptainer's records of a node older than the node's start. All nodes share the start of one kernel."""
        for record in self.path(f"/home/alice/{INSTANCES}/{node}").glob("*/*"):
            os.utime(record, (0, 0))

    def containers(self) -> list[str]:
        """Docker's with their volumes in all nodes, and podman's of alice's jobs, by their files; a line each."""
        found = []
        for node in self.nodes:
            docker = self.path("/run/docker.sock", node).exists()
            for words in ("ps -a", "volume ls") if docker else ():
                found += [f"{node}: {line}" for line in self.root(node, "docker", *words.split()).splitlines()[1:]]
            stores = self.path("/tmp", node).glob("mnrun[.-]*/**/overlay-containers/*/userdata")
            found += [f"{node}: {place}" for place in stores]
        return found

    def busy(self) -> list[str]:
        """Return its jobs, and the nodes that are not idle: job 7 RUNNING, node node01 DOWN."""
        ask = {"sge": self._grid_engine, "pbs": self._pbs, "kube": self._kubernetes, "slurm": self._slurm}
        lines = ask[self.model.options().scheduler]()
        jobs = [line for line in lines if line.split()[0] == "job" and line.split()[1] not in self.kept]
        ready = (sge.TAKES_JOBS, pbs.TAKES_JOBS, kube.TAKES_JOBS)
        well = ("idle", "mixed", "allocated", "completing") if self.kept else ("idle", *ready)
        return jobs + [line for line in lines if line.split()[0] == "node" and line.split()[2] not in well]

    def jobs(self) -> list[str]:
        return [line.split()[1] for line in self.busy() if line.startswith("job ")]

    def delete(self, jobs: Sequence[str]) -> None:
        """End jobs, also those whose nodes do not answer. Some may have ended just now."""
        by_force = ("kubectl", "delete", "-n", "lab", "--grace-period=0", "--force")
        words = {"sge": ("qdel", "-f"), "pbs": ("qdel", "-W", "force"), "kube": by_force, "slurm": ("scancel",)}
        self.alice([*words[self.model.options().scheduler], *jobs], user="root")

    def _slurm(self) -> list[str]:
        return self.root(LOGIN, "sh", "-c", SLURM).splitlines()

    def _pbs(self) -> list[str]:
        jobs = [line.split() for line in self.root(LOGIN, "qstat").splitlines()[2:]]
        nodes = pbs.states(self.root(LOGIN, "pbsnodes", "-a", "-F", "json"))
        return [
            *(f"job {words[0]} {words[4]}" for words in jobs),
            *(f"node {' '.join(node)}" for node in nodes.items()),
        ]

    def _grid_engine(self) -> list[str]:
        jobs = [line.split() for line in self.root(LOGIN, "qstat", "-u", "*").splitlines()[2:]]
        nodes = sge.states(self.root(LOGIN, "qstat", "-f", "-q", sge.MAIN))
        return [
            *(f"job {words[0]} {words[4]}" for words in jobs),
            *(f"node {' '.join(node)}" for node in nodes.items()),
        ]

    def _kubernetes(self) -> list[str]:
        """What is in the namespace of the tests, but for what Kubernetes has in each."""
        things = self.root(LOGIN, "kubectl", "get", kube.KINDS, "-n", "lab", "-o", "name").split()
        nodes = kube.states(self.root(LOGIN, *kube.NODES))
        return [
            *(f"job {thing} there" for thing in things if not thing.startswith(kube.ALWAYS)),
            *(f"node {' '.join(node)}" for node in nodes.items()),
        ]

    def clean_after_mpirun(self) -> None:
        """Take away what a bare mpirun left: Slurm may end its job before its daemons have cleaned up."""
        for node in self.nodes:
            self.root(node, "sh", "-c", "rm -rf /tmp/prted.*")

    def wipe(self) -> None:
        """Take away by force what a failed test left, so that the next one starts clean."""
        others = [p for p in self.processes() if str(p) not in self._before]
        for process in others:
            process.send(signal.SIGKILL)

        if jobs := self.jobs():
            self.delete(jobs)
            wait_for(lambda: not self.jobs(), "free of jobs", 60)
        for line in set(self._found()) - self._before:
            node, _, what = line.partition(": ")
            if what.startswith("process "):
                continue
            name = what.replace("'s ~", "") if "'s ~" in what else what
            place = self.path(name if name.startswith("/") else f"/home/{name}", node)
            shutil.rmtree(place, ignore_errors=True)
            with suppress(OSError):
                place.unlink()
        for _, node, _ in map(str.split, self.busy()):
            if self.model.options().sge:
                self.root(LOGIN, "qmod", "-c", f"{sge.MAIN}@{node}")
            elif self.model.options().kube:
                self.root(LOGIN, "kubectl", "uncordon", node)
            elif not self.model.options().pbs:
                self.root(LOGIN, "scontrol", "update", f"nodename={node}", "state=resume")


@dataclass(frozen=True)
class Desk:
    """A folder in alice's home."""

    cluster: Cluster
    path: str

    def put(self, name: str, text: str | bytes, mode: int = 0o644) -> str:
        return self.cluster.put(f"{self.path}/{name}", text, mode)

    def program(self, name: str) -> str:
        """One of programs/, ready to run."""
        return self.put(name, (Path(__file__).parent / "programs" / name).read_bytes(), 0o755)

    def read(self, name: str) -> bytes:
        return self.cluster.path(f"{self.path}/{name}").read_bytes()

    def names(self) -> list[str]:
        return sorted(entry.name for entry in self.cluster.path(self.path).iterdir())


def below(top: Path) -> Iterator[Path]:
    """Yield all that lies below a folder, whose content may go meanwhile: for that, Path.rglob raises an error."""
    for folder, folders, names in os.walk(top):
        yield from (Path(folder, name) for name in (*folders, *names))


def wait_for(
    condition: Callable[[], bool],
    what: str,
    seconds: float = PATIENCE,
    state: Callable[[], str] = lambda: "",
    every: float = 0.05,
) -> None:
    """Return once the condition holds; fail at the deadline with what it was waited for. One that costs much, such as a
    kubectl, is looked at less often."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not {what} after {seconds:.0f} s. {state()}"
        time.sleep(every)


def old_file(cluster: Cluster, node: str) -> Path:
    """Return a file of alice's in /dev/shm of a node, as NCCL leaves one of a job that was killed long ago."""
    place = cluster.path(cluster.put("/dev/shm/nccl-old", "", node=node), node)
    os.utime(place, (0, 0))
    return place


@contextmanager
def held(cluster: Cluster) -> Iterator[None]:
    """On each node, nvidia-smi shows a process of another user on each of four GPUs, and there is such an old file."""
    script = """#!/bin/sh
case $1 in
  -q) printf 'GPU 00000000:0%s:00.0\n Process ID : 1\n Type : C\n Name : vllm\n' 1 2 3 4 ;;
  *) printf '%s, GPU-%s, 00000000:0%s:00.0\n' 0 a 1 1 b 2 2 c 3 3 d 4 ;;
esac
"""
    places = [cluster.path("/usr/local/bin/nvidia-smi", node) for node in cluster.nodes]
    for node in cluster.nodes:
        cluster.put("/usr/local/bin/nvidia-smi", script, 0o755, node)
        places.append(old_file(cluster, node))
    try:
        yield
    finally:
        for place in places:
            place.unlink(missing_ok=True)


def tells_what_is_held(said: str) -> bool:
    """Return whether mnrun names both of these for each of two nodes."""
    whole = [line for line in said.splitlines() if ": not free: " in line]
    return (
        sum("(vllm, process 1, another user's)" in line for line in whole)
        == sum("nccl-old" in line for line in whole)
        == 2
    )


def _pod(pid: int, hosts: set[int | None]) -> str:
    """Return the name of the pod in which a process is, if one of these is the first process of its node."""
    status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    if len(status.split("\nNSpid:")[1].split("\n")[0].split()) < 3:
        return ""
    above = pid
    while above > 1:
        above = int(Path(f"/proc/{above}/status").read_text(errors="replace").split("\nPPid:")[1].split()[0])
        if above in hosts:
            return Path(f"/proc/{pid}/root/etc/hostname").read_text().strip()
    return ""


def _env(env: Mapping[str, str | bytes] | None) -> list[str | bytes]:
    if not env:
        return []
    return ["env", *(os.fsencode(name) + b"=" + os.fsencode(value) for name, value in env.items())]


def _open(stdin: Stdin) -> int | IO[bytes]:
    if stdin is None:
        return subprocess.DEVNULL
    if isinstance(stdin, Path):
        return open(stdin, "rb")
    source = tempfile.TemporaryFile()
    source.write(stdin)
    source.seek(0)
    return source


def _all(file: IO[bytes]) -> bytes:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


def _short(text: str, limit: int = 6000) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n… and {len(text) - limit} characters more"
