"""Commit the faults of table.py, each for real.

An act is a generator with two stops. It prepares the ground before the first stop, commits the fault before the second,
and mends everything after it, or where it is closed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from live.stage import LOGIN, USERS, Cluster, Process, wait_for
from live.stranger import found, guards, undertakers

from .table import HEAD, WORKER

ALICE = USERS[0]
RECORDS = "/home/alice/.mnrun"
SHORT = 5.0  # seconds of a fault that passes
Act = Callable[["Scene"], Generator[None, None, None]]


@dataclass(frozen=True)
class Scene:
    """The cluster with the launch, and the Slurm jobs of its user."""

    cluster: Cluster

    def launcher(self) -> Process:
        (one,) = self.cluster.mnruns()
        return one

    def mine(self, *nodes: str) -> list[Process]:
        return [p for p in self.cluster.processes() if p.uid == ALICE and p.node in nodes]

    def named(self, name: str, *nodes: str) -> list[Process]:
        """Return the user's processes of that program. sshd changes its words, so the first part of them counts."""
        return [p for p in self.mine(*nodes) if os.path.basename(p.argv[0].split(":")[0].split(" ")[0]) == name]

    def jobs(self) -> list[str]:
        return self.cluster.root(LOGIN, "squeue", "-h", "-o", "%i").split()


def kill(processes: Iterable[Process], signum: int = signal.SIGKILL) -> None:
    """Send a signal to all of them. Before a KILL they are stopped, so that none sees another one's end."""
    victims = list(processes)
    assert victims, "the fault has no victim"
    for each in (signal.SIGSTOP, signum) if signum == signal.SIGKILL else (signum,):
        for victim in victims:
            with suppress(ProcessLookupError):
                os.kill(victim.pid, each)


def _once(strike: Callable[[Scene], object]) -> Act:
    """Return the act of a fault that needs no ground and leaves nothing to mend."""

    def act(scene: Scene) -> Generator[None, None, None]:
        yield
        strike(scene)
        yield

    return act


def _of_launcher(*signums: int, pause: float = 0.0) -> Act:
    def strike(scene: Scene) -> None:
        launcher = scene.launcher()
        for number, signum in enumerate(signums):
            time.sleep(pause if number else 0)
            os.kill(launcher.pid, signum)

    return _once(strike)


def _rank(scene: Scene) -> list[Process]:
    return [p for p in found(scene.cluster, "os.path.exists", node=WORKER) if p.argv[0].endswith("python3")][:1]


def _mpirun(scene: Scene) -> list[Process]:
    names = ("mpirun", "mpirun.openmpi", "prterun")
    return [p for name in names for p in scene.named(name, LOGIN, HEAD)]


def _power(node: str) -> Act:
    def act(scene: Scene) -> Generator[None, None, None]:
        yield
        scene.cluster.tool("kill", node)
        try:
            yield
        finally:
            scene.cluster.tool("heal", node)

    return act


def _cut(seconds: float = 0.0) -> Act:
    """Cut the worker's network for that time, or else until the launch has ended."""

    def act(scene: Scene) -> Generator[None, None, None]:
        yield
        scene.cluster.tool("cut", WORKER)
        try:
            if seconds:
                time.sleep(seconds)
                scene.cluster.tool("heal", WORKER)
            yield
        finally:
            scene.cluster.tool("heal", WORKER)

    return act


def _flap(scene: Scene) -> None:
    for _ in range(10):
        for verb, seconds in (("cut", 0.3), ("heal", 0.7)):
            scene.cluster.tool(verb, WORKER)
            time.sleep(seconds)


def _reset(scene: Scene) -> None:
    """Abort every connection of the worker, as a firewall that was started anew does."""
    scene.cluster.root(WORKER, "ss", "-K", "-t", "state", "established")


def _daemon(scene: Scene, name: str, node: str) -> int:
    """Return the pid of a daemon of root's or Slurm's, as this machine knows it."""
    return _outer(scene.cluster, node, scene.cluster.root(node, "pidof", "-s", name).strip())


def _outer(cluster: Cluster, node: str, inside: str) -> int:
    """Return this machine's number of a process that the node knows by `inside`."""
    network = os.stat(f"/run/netns/{cluster.model.netns(node)}").st_ino
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, StopIteration):
                names = next(x for x in (entry / "status").read_text().splitlines() if x.startswith("NSpid:"))
                if names.split()[-1] == inside and (entry / "ns/net").stat().st_ino == network:
                    return int(entry.name)
    raise AssertionError(f"no process {inside} on {node}")


def _controller(seconds: float) -> Act:
    def strike(scene: Scene) -> None:
        pid = _daemon(scene, "slurmctld", LOGIN)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    return _once(strike)


def _restart(scene: Scene) -> None:
    os.kill(_daemon(scene, "slurmd", WORKER), signal.SIGTERM)
    wait_for(lambda: "slurmd" not in scene.cluster.root(WORKER, "ps", "-e", "-o", "comm="), "without slurmd", 20)
    scene.cluster.root(WORKER, "/usr/sbin/slurmd")


def _scancel(scene: Scene) -> None:
    scene.cluster.root(LOGIN, "setpriv", "--reuid", "alice", "--clear-groups", "scancel", *scene.jobs())


def _time_limit(scene: Scene) -> None:
    for job in scene.jobs():
        scene.cluster.root(LOGIN, "scontrol", "update", f"jobid={job}", "EndTime=now+1")


# What Slurm's commands do first. The number of each call lies in a file, so that every third fails, and not by chance.
LATE = '#!/bin/sh\nsleep 2\nexec /usr/bin/{name} "$@"\n'
FAILING = (
    "#!/bin/sh\nn=$(wc -c </run/faults.calls)\nprintf x >>/run/faults.calls\n"
    '[ $((n % 3)) != 0 ] || {{ echo "{name}: error: Unable to contact slurm controller" >&2; exit 1; }}\n'
    'exec /usr/bin/{name} "$@"\n'
)
COMMANDS = ("scontrol", "squeue", "sinfo", "scancel")


@contextmanager
def _in_front(cluster: Cluster, text: str) -> Iterator[None]:
    try:
        cluster.put("/run/faults.calls", "", 0o666)
        for name in COMMANDS:
            cluster.put(f"/usr/local/bin/{name}", text.format(name=name), 0o755, uid=0)
        yield
    finally:
        cluster.root(LOGIN, "rm", "-f", "/run/faults.calls", *(f"/usr/local/bin/{name}" for name in COMMANDS))


def _late(scene: Scene) -> Generator[None, None, None]:
    with _in_front(scene.cluster, LATE):
        yield
        yield


def _failing(scene: Scene) -> Generator[None, None, None]:
    with _in_front(scene.cluster, FAILING):
        yield
        scene.cluster.root(LOGIN, "/usr/bin/scancel", *scene.jobs())
        yield


@contextmanager
def _small(cluster: Cluster, node: str, place: str, size: str, mode: str, owner: str) -> Iterator[None]:
    """Mount a file system of that size at a place."""
    options = f"size={size},mode={mode},uid={cluster.root(node, 'id', '-u', owner).strip()}"
    cluster.root(node, "mount", "-t", "tmpfs", "-o", options, "faults", place)
    try:
        yield
    finally:
        cluster.root(node, "umount", "--lazy", place)


def _fill(cluster: Cluster, node: str, place: str) -> None:
    """Fill a file system to its last byte and its last file."""
    script = "cat /dev/zero >$0; i=0; while true >$0.$((i += 1)); do :; done; true"
    cluster.root(node, "sh", "-c", f"{{ {script}; }} 2>/dev/null", f"{place}/filler")


def _full(node: str, place: str, size: str, mode: str = "1777", owner: str = "root") -> Act:
    def act(scene: Scene) -> Generator[None, None, None]:
        with _small(scene.cluster, node, place, f"{size},nr_inodes=300", mode, owner):
            yield
            _fill(scene.cluster, node, place)
            yield
            scene.cluster.root(node, "sh", "-c", f"rm -f {place}/filler*")
            if place != RECORDS:  # the checker cannot look into a file system that goes away with the fault
                wait_for(lambda: not any(scene.cluster.path(place, node).iterdir()), f"without files in {place}", 10)

    return act


def _read_only(scene: Scene) -> Generator[None, None, None]:
    with _small(scene.cluster, LOGIN, RECORDS, "10m", "700", "alice"):
        yield
        scene.cluster.root(LOGIN, "chmod", "-R", "a-w", RECORDS)  # a remount waits for the files that are open
        yield


def _hanging(scene: Scene) -> Generator[None, None, None]:
    """The records lie on a FUSE file system, whose server stops for a while."""
    cluster = scene.cluster
    words = ["fuse-overlayfs", "-f", "-o", "allow_other,lowerdir=/run/fuse/l,upperdir=/run/fuse/u,workdir=/run/fuse/w"]
    cluster.root(LOGIN, "sh", "-c", "mkdir -p /run/fuse/l /run/fuse/u /run/fuse/w; chown alice: /run/fuse/*")
    with cluster.running([*words, RECORDS], user="root") as server:
        wait_for(
            lambda: f" {RECORDS} fuse" in Path(f"/proc/{cluster.model.pid(LOGIN)}/mounts").read_text(), "mounted", 20
        )
        try:
            yield
            pid = _outer(cluster, LOGIN, cluster.root(LOGIN, "pidof", "-s", "fuse-overlayfs").strip())
            os.kill(pid, signal.SIGSTOP)
            time.sleep(SHORT)
            os.kill(pid, signal.SIGCONT)
            yield
        finally:
            cluster.root(LOGIN, "umount", "--lazy", RECORDS)
            server.end(10)
            cluster.root(LOGIN, "rm", "-rf", "/run/fuse")


def _injected(rule: str) -> Act:
    """The kernel's answers to the system calls of the worker's guard change."""

    def act(scene: Scene) -> Generator[None, None, None]:
        yield
        pids = ",".join(str(guard.pid) for guard in guards(scene.cluster, WORKER))
        words = ["strace", "-f", "-qq", "-o", "/dev/null", "-p", pids, "-e", f"inject={rule}"]
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as tracer:
            try:
                wait_for(lambda: _traced(pids.split(",")[0]), "traced", 10)
                yield
            finally:
                tracer.terminate()

    return act


def _traced(pid: str) -> bool:
    return "TracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text()


ACTS: dict[str, Act] = {
    "SIGINT": _of_launcher(signal.SIGINT),
    "SIGTERM": _of_launcher(signal.SIGTERM),
    "SIGHUP": _of_launcher(signal.SIGHUP),
    "SIGSTOP, then SIGCONT": _of_launcher(signal.SIGSTOP, signal.SIGCONT, pause=SHORT),
    "SIGSTOP, then SIGCONT after 3 minutes": _of_launcher(signal.SIGSTOP, signal.SIGCONT, pause=180),
    "SIGKILL of mnrun": _of_launcher(signal.SIGKILL),
    "SIGKILL of all on the login node": _once(lambda scene: kill(scene.mine(LOGIN))),
    "SIGKILL of srun": _once(lambda scene: kill(scene.named("srun", LOGIN))),
    "SIGKILL of mpirun": _once(lambda scene: kill(_mpirun(scene))),
    "SIGKILL of a rank": _once(lambda scene: kill(_rank(scene))),
    "SIGKILL of an sshd": _once(lambda scene: kill(scene.named("sshd", WORKER))),
    "SIGKILL of a guard": _once(lambda scene: kill(guards(scene.cluster, WORKER))),
    "SIGKILL of an undertaker": _once(lambda scene: kill(undertakers(scene.cluster, WORKER))),
    "SIGKILL of guard and undertaker": _once(
        lambda scene: kill([*guards(scene.cluster, WORKER), *undertakers(scene.cluster, WORKER)])
    ),
    "SIGKILL of all on a worker": _once(lambda scene: kill(scene.mine(WORKER))),
    "a guard whose system calls are slow": _injected("openat,clone,write:delay_exit=50000"),
    "a guard that cannot fork": _injected("clone,clone3,vfork:error=EAGAIN"),
    "power off, a worker": _power(WORKER),
    "power off, the first node": _power(HEAD),
    "power off, the login node": _power(LOGIN),
    "network of a worker cut for 5 s": _cut(SHORT),
    "network of a worker flaps for 10 s": _once(_flap),
    "network of a worker cut for 60 s": _cut(60.0),
    "network of a worker cut for good": _cut(),
    "connections of a worker reset": _once(_reset),
    "scancel": _once(_scancel),
    "time limit": _once(_time_limit),
    "slurmctld stopped for 5 s": _controller(SHORT),
    "slurmctld stopped for 60 s": _controller(60.0),
    "slurmd of a worker restarted": _once(_restart),
    "Slurm's commands take 2 s more": _late,
    "scancel, and Slurm's commands fail one time in three": _failing,
    "/tmp of a worker full": _full(WORKER, "/tmp", "2m"),
    "/tmp of a worker full, later": _full(WORKER, "/tmp", "20m"),
    "/dev/shm of a worker full": _full(WORKER, "/dev/shm", "1m"),
    "disk of the records full": _full(LOGIN, RECORDS, "1m", "700", "alice"),
    "records read-only": _read_only,
    "records hang for 5 s": _hanging,
}
