"""Commit the faults of table.py, each for real.

disks.py has those of file systems and clocks.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from live.stage import LOGIN, Cluster, Process, wait_for
from live.stranger import at_once, found, guards, undertakers
from rehearsal import host as machine
from rehearsal import network

from . import kube
from .disks import clock, full, hanging, read_only
from .scene import RECORDS, SHORT, Act, Scene, daemon, once
from .table import HEAD, WORKER


def _of_launcher(*signums: int, pause: float = 0.0) -> Act:
    def strike(scene: Scene) -> None:
        launcher = scene.launcher()
        for number, signum in enumerate(signums):
            time.sleep(pause if number else 0)
            launcher.send(signum)

    return once(strike)


def _rank(scene: Scene) -> list[Process]:
    ranks = found(scene.cluster, "os.path.exists", node=scene.at(WORKER))
    return [p for p in ranks if p.argv[0].endswith("python3")][:1]


def _mpirun(scene: Scene) -> list[Process]:
    names = ("mpirun", "mpirun.openmpi", "prterun")
    return [p for name in names for p in scene.named(name, LOGIN, scene.at(HEAD))]


def _power(node: str) -> Act:
    """Switch a node off. slurmctld saves a new job within 5 s, or else gives its number to the next one
    (state_save.c, SAVE_MAX_WAIT).
    """

    def act(scene: Scene) -> Generator[None, None, None]:
        yield
        time.sleep(6 if node == LOGIN else 0)
        registry = any(p.node == node and p.argv[0].endswith("docker-registry") for p in scene.cluster.processes())
        host = scene.host(node)
        scene.cluster.tool("kill", host)
        try:
            yield
        finally:
            scene.cluster.tool("heal", host)
            scene.cluster.restarted(host)
            if registry:
                scene.cluster.tool("registry")

    return act


def _cut(seconds: float = 0.0) -> Act:
    """Cut the worker's network for that time, or else until the launch has ended."""

    def act(scene: Scene) -> Generator[None, None, None]:
        yield
        host = scene.host(WORKER)
        scene.cluster.tool("cut", host)
        try:
            if seconds:
                time.sleep(seconds)
                scene.cluster.tool("heal", host)
            yield
        finally:
            scene.cluster.tool("heal", host)

    return act


def _flap(scene: Scene) -> None:
    host = scene.host(WORKER)
    for _ in range(10):
        for verb, seconds in (("cut", 0.3), ("heal", 0.7)):
            scene.cluster.tool(verb, host)
            time.sleep(seconds)


def _reset(scene: Scene) -> None:
    """Abort every connection of the worker, as a firewall that was started anew does."""
    words = ("ss", "-K", "-t", "state", "established")
    scene.cluster.root(scene.host(WORKER), *words)
    for process in scene.mine(scene.at(WORKER))[:1] if scene.pods else ():
        subprocess.run(("nsenter", "-t", str(process.pid), "-n", *words), check=True, stdout=subprocess.DEVNULL)


def _lossy(scene: Scene) -> Generator[None, None, None]:
    machine.install_tools({"nft": "nftables"})
    yield
    host = scene.host(WORKER)
    network.lose(scene.cluster.model, host, 3)
    try:
        yield
    finally:
        network.lose(scene.cluster.model, host, 0)


def _controller(seconds: float) -> Act:
    def strike(scene: Scene) -> None:
        controller = daemon(scene, "slurmctld", LOGIN)
        controller.send(signal.SIGSTOP)
        time.sleep(seconds)
        controller.send(signal.SIGCONT)

    return once(strike)


def _restart(scene: Scene) -> None:
    daemon(scene, "slurmd", WORKER).send(signal.SIGTERM)
    wait_for(lambda: "slurmd" not in scene.cluster.root(WORKER, "ps", "-e", "-o", "comm="), "without slurmd", 20)
    scene.cluster.root(WORKER, "/usr/sbin/slurmd")


def _scancel(scene: Scene) -> None:
    scene.cluster.root(LOGIN, "setpriv", "--reuid", "alice", "--clear-groups", "scancel", *scene.jobs())


def _at_its_limit(scene: Scene) -> None:
    (job,) = scene.jobs()
    wait_for(lambda: job not in scene.jobs(), "at its limit", 60)


def suspended(scene: Scene) -> None:
    """Suspend the job, which Grid Engine stops ten seconds after a warning by USR1, and let it go on."""
    scene.cluster.root(LOGIN, "qmod", "-sj", *scene.jobs())
    wait_for(lambda: all(map(_stopped, scene.named("qrsh", HEAD))), "stopped", 30)
    scene.cluster.root(LOGIN, "qmod", "-usj", *scene.jobs())


def _stopped(process: Process) -> bool:
    return "\nState:\tT" in Path(f"/proc/{process.pid}/status").read_text()


def _execd(node: str) -> Act:
    def strike(scene: Scene) -> None:
        daemon(scene, "sge_execd", node).send(signal.SIGKILL)
        wait_for(
            lambda: "sge_execd" not in scene.cluster.root(node, "ps", "-e", "-o", "comm="), "without sge_execd", 20
        )
        scene.cluster.root(node, "sh", "/etc/rehearsal/sge.sh", node)

    return once(strike)


def mom_again(cluster: Cluster, node: str) -> None:
    """Kill the MOM of a node, and start it when the server has missed it."""
    cluster.root(node, "pkill", "-9", "-f", "sbin/pbs_mom")
    wait_for(lambda: "communication closed" in cluster.root(LOGIN, "pbsnodes", "-l"), "down", 20)
    cluster.root(node, "sh", "/etc/rehearsal/pbs.sh", node)
    wait_for(lambda: not cluster.root(LOGIN, "pbsnodes", "-l"), "up", 20)


def _time_limit(scene: Scene) -> None:
    """Slurm ends such a job within half a minute, and starts no step in it meanwhile."""
    for job in scene.jobs():
        scene.cluster.root(LOGIN, "scontrol", "update", f"jobid={job}", "EndTime=now+1")
    wait_for(lambda: not scene.cluster.root(LOGIN, "squeue", "-h", "-t", "RUNNING"), "ended", 90)


@contextmanager
def _urgent(cluster: Cluster) -> Iterator[Callable[[], None]]:
    """Make a partition before whose jobs others must go, and yield what hands in one."""
    scontrol = partial(cluster.root, LOGIN, "scontrol")
    scontrol("create", "partition=urgent", "nodes=ALL", "PriorityTier=10", "PreemptMode=off")
    words = ["sbatch", "-p", "urgent", "-w", f"{HEAD},{WORKER}", "--exclusive", "-o", "/dev/null", "--wrap", "true"]

    def hand_in() -> None:
        done = cluster.alice(words)
        assert done.code == 0, done

    try:
        yield hand_in
    finally:
        wait_for(lambda: not cluster.root(LOGIN, "squeue", "-h", "-p", "urgent"), "done with what is urgent")
        scontrol("delete", "partition=urgent")


def _preempted(scene: Scene) -> Generator[None, None, None]:
    with _urgent(scene.cluster) as hand_in:
        yield
        hand_in()
        yield


def _requeued(scene: Scene) -> Generator[None, None, None]:
    """Slurm starts the job again after two minutes, unless it is told to do so sooner."""
    with _urgent(scene.cluster) as hand_in:
        yield
        (job,) = scene.jobs()
        hand_in()
        shown = partial(scene.cluster.root, LOGIN, "scontrol", "-o", "show", "job", job)
        wait_for(lambda: " JobState=PENDING " in shown(), "requeued", state=shown)
        scene.cluster.root(LOGIN, "scontrol", "update", f"jobid={job}", "StartTime=now+3")
        yield
        words = f"rm -rf {RECORDS}/slurm.json {RECORDS}/jobs/*"  # a submitted job keeps them
        scene.cluster.root(LOGIN, "sh", "-c", words)


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


def _injected(rule: str) -> Act:
    """The kernel's answers to the system calls of the worker's guard change."""

    def act(scene: Scene) -> Generator[None, None, None]:
        yield
        pids = ",".join(str(guard.pid) for guard in guards(scene.cluster, scene.at(WORKER)))
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
    "SIGSTOP for 3 minutes without a scheduler": _of_launcher(signal.SIGSTOP, signal.SIGCONT, pause=180),
    "SIGKILL of mnrun": _of_launcher(signal.SIGKILL),
    "SIGKILL of all on the login node": once(lambda scene: at_once(scene.mine(LOGIN))),
    "SIGKILL of srun": once(lambda scene: at_once(scene.named("srun", LOGIN))),
    "SIGKILL of a qrsh": once(lambda scene: at_once(scene.named("qrsh", HEAD))),
    "SIGKILL of an ssh to a node": once(lambda scene: at_once(scene.named("ssh", HEAD))),
    "SIGKILL of mpirun": once(lambda scene: at_once(_mpirun(scene))),
    "SIGKILL of a rank": once(lambda scene: at_once(_rank(scene))),
    "SIGKILL of an sshd": once(lambda scene: at_once(scene.named("sshd", WORKER))),
    "SIGKILL of a guard": once(lambda scene: at_once(guards(scene.cluster, scene.at(WORKER)))),
    "SIGKILL of an undertaker": once(lambda scene: at_once(undertakers(scene.cluster, scene.at(WORKER)))),
    "SIGKILL of guard and undertaker": once(
        lambda scene: at_once([f for kind in (guards, undertakers) for f in kind(scene.cluster, scene.at(WORKER))])
    ),
    "SIGKILL of all on a worker": once(lambda scene: at_once(scene.mine(scene.at(WORKER)))),
    "a guard whose system calls are slow": _injected("openat,clone,write:delay_exit=50000"),
    "a guard that cannot open one file in ten": _injected("openat:error=EMFILE:when=10+10"),
    "a guard that cannot fork": _injected("clone,clone3,vfork:error=EAGAIN"),
    "power off, a worker": _power(WORKER),
    "power off, the first node": _power(HEAD),
    "power off, the login node": _power(LOGIN),
    "network of a worker cut for 5 s": _cut(SHORT),
    "network of a worker flaps for 10 s": once(_flap),
    "network of a worker cut for 60 s": _cut(60.0),
    "network of a worker cut for good": _cut(),
    "connections of a worker reset": once(_reset),
    "3 of 10 packets of a worker lost": _lossy,
    "clock of a worker 10 minutes ahead": clock,
    "scancel": once(_scancel),
    "time limit": once(_time_limit),
    "preemption": _preempted,
    "preemption of a job that starts again": _requeued,
    "slurmctld stopped for 5 s": _controller(SHORT),
    "slurmctld stopped for 60 s": _controller(60.0),
    "slurmd of a worker restarted": once(_restart),
    "Slurm's commands take 2 s more": _late,
    "scancel, and Slurm's commands fail one time in three": _failing,
    "qdel": once(lambda scene: scene.cluster.root(LOGIN, "qdel", *scene.jobs())),
    "qdel of a job without -notify": once(lambda scene: scene.cluster.root(LOGIN, "qdel", *scene.jobs())),
    "h_rt": once(_at_its_limit),
    "qmod -sj, then qmod -usj": once(suspended),
    "sge_execd of a worker restarted": _execd(WORKER),
    "sge_execd of the first node restarted": _execd(HEAD),
    "qdel -W force": once(lambda scene: scene.cluster.delete(scene.jobs())),
    "walltime": once(_at_its_limit),
    "pbs_mom of a worker restarted": once(lambda scene: mom_again(scene.cluster, WORKER)),
    "pbs_mom of the first node restarted": once(lambda scene: mom_again(scene.cluster, HEAD)),
    **kube.ACTS,
    "/tmp of a worker full": full(WORKER, "/tmp", "2m"),
    "/tmp of a worker full, later": full(WORKER, "/tmp", "20m"),
    "/dev/shm of a worker full": full(WORKER, "/dev/shm", "1m"),
    "disk of the records full": full(LOGIN, RECORDS, "1m", "700", "alice"),
    "records read-only": read_only,
    "records hang for 5 s": hanging,
}
