"""List the cells: which fault, in which phase of a launch, in which mode, at which place, and the right end of it.

Data alone. acts.py commits the faults, phases.py waits for the phases, engine.py plays a cell.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

PHASES = {
    "prepare": "a registry has the image, and does not answer yet",
    "serve": "the guards are about to make their directories",
    "await": "the guards are about to start their containers",
    "run": "all ranks have spoken",
    "stop": "the program has ended, and the guards look for what is left, or are about to remove it",
}
MODES = {"ssh": "inside-out by ssh", "pipe": "inside-out by the pipe", "outside": "outside-in by mpirun"}
PLACES = {
    "slurm": "Slurm",
    "cgroup": "Slurm with control groups",
    "hosts": "hosts without a scheduler",
    "sge": "a batch script of Grid Engine",
    "pbs": "a batch script of PBS, by its stand-in",
    "kube": "a live run on Kubernetes' pods, by kubectl exec",
    "kubejob": "a launcher in a pod of Kubernetes, which the pods of the nodes call",
}
SLURMS, GRID, PBS, KUBE = ("slurm", "cgroup"), ("sge",), ("pbs",), ("kube", "kubejob")
LIVE = (*SLURMS, "hosts")  # mnrun runs on the login node, and starts containers
TYPED = (*LIVE, "kube")  # mnrun runs on the login node
NODES = tuple(place for place in PLACES if place not in KUBE)  # mnrun starts its containers
BEGUN, ALL = ("serve", "await", "run", "stop"), tuple(PHASES)
HEAD, WORKER = "node01", "node02"
ANY: tuple[int, ...] = ()
SILENCE = 130.0  # seconds until a host ends that hears nothing
PODS = 45.0  # seconds until pods have gone: kubelet looks every few seconds, and a pod waits half a minute for guards
CUT_OFF = 160.0  # the same where their launcher may be cut off: guards wait for 120 s, and the pods for half a minute
UNSEEN = 150.0  # seconds until pods have gone that have seen no guard yet: they start, and wait for 105 s


@dataclass(frozen=True)
class Fault:
    """A fault and its right end.

    `codes` are the exit codes that are right, by phase, with "" for all other phases. ANY is for a launcher that was
    killed itself. `says` are words of mnrun's own lines then. `lives` means that the launch goes on to its program's
    end. `within` is the time until nothing is left. `relaunch` means that remains are documented, which the user's next
    launch removes. `submitted` is for a batch job, and `asks` are
    more words for its submission. `outlived` are more places where the launch goes on. `refused` means that it never
    reaches a phase.
    """

    name: str
    phases: tuple[str, ...] = BEGUN
    codes: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: {"": (0,)})
    says: tuple[str, ...] = ()
    lives: bool = False
    modes: tuple[str, ...] = tuple(MODES)
    places: tuple[str, ...] = tuple(PLACES)
    within: float = 10.0
    relaunch: bool = False
    submitted: bool = False
    asks: tuple[str, ...] = ()
    outlived: tuple[str, ...] = ()
    refused: bool = False

    def ends(self, phase: str, place: str = "") -> tuple[int, ...]:
        """Return the exit codes that are right where the fault comes in this phase, at this place."""
        if place in self.outlived and place not in self.codes:
            return (0,)
        return self.codes[next(key for key in (place or phase, phase, "") if key in self.codes)]

    def limit(self, place: str) -> float:
        """Return the seconds until nothing is left. Hosts may miss a launcher that was killed for two minutes."""
        if place in KUBE:
            cut_off = CUT_OFF if place == "kubejob" and self.name.endswith(("cut for 60 s", "cut for good")) else PODS
            return max(cut_off, self.within) if self.ends("run") != ANY else UNSEEN
        return SILENCE if place == "hosts" and self.ends("run") == ANY else self.within


def _signal(name: str, code: int) -> Fault:
    says = () if name == "SIGINT" else (f"ended by {name}",)
    return Fault(name, ALL, {"": (code,), "stop": (0, code)}, says, places=TYPED)


def _lost(name: str, node: str = WORKER, **more: object) -> Fault:
    """Return a fault that takes a node away. A node that was not ready may be missed at the time limit alone. In `stop`
    the program has ended, and its own code may count.
    """
    codes = {"serve": (121, 124), "await": (121, 124), "run": (121,), "stop": (0, 121)}
    return Fault(name, codes={"": (121,), **codes}, says=(node,), **more)  # type: ignore[arg-type]


def _lives(name: str, phases: tuple[str, ...] = BEGUN, **more: object) -> Fault:
    return Fault(name, phases, lives=True, **more)  # type: ignore[arg-type]


# A pod that is deleted gets a TERM first, which a guard that mnrun does not reach by kubectl hands on to its ranks.
_DELETED = {"": (121,), "kubejob": (121, 143)}
_SILENT = {"": (121,), "kubejob": (0, 121)}
FAULTS = {
    fault.name: fault
    for fault in (
        # mnrun itself
        _signal("SIGINT", 130),
        _signal("SIGTERM", 143),
        _signal("SIGHUP", 129),
        _lives("SIGSTOP, then SIGCONT", ALL),
        _lives("SIGSTOP, then SIGCONT after 3 minutes", ("await", "run"), places=SLURMS),
        Fault(
            "SIGSTOP for 3 minutes without a scheduler", ("await", "run"), {"": (121,)}, ("stopped",), places=("hosts",)
        ),
        Fault("SIGKILL of mnrun", ALL, {"": ANY, "kubejob": (137,)}, relaunch=True),
        Fault("SIGKILL of all on the login node", ("await", "run"), {"": ANY}, within=150, relaunch=True, places=TYPED),
        # processes of the job
        Fault("SIGKILL of srun", ("serve", "await", "run"), {"": (121,)}, places=SLURMS, within=20.0),  # KillWait
        Fault("SIGKILL of a qrsh", ("await", "run"), {"": (121,)}, (WORKER,), places=GRID),
        Fault("SIGKILL of an ssh to a node", ("await", "run"), {"": (121,)}, (WORKER,), places=PBS),
        Fault("SIGKILL of mpirun", ("run",), {"": (137,)}),
        Fault("SIGKILL of a rank", ("run",), {"": (137,)}, says=(WORKER,)),
        _lives("SIGKILL of an sshd", ("run",), modes=("ssh",)),  # mpirun's daemons do not need it any more
        _lost("SIGKILL of a guard", phases=("await", "run", "stop")),
        _lives("SIGKILL of an undertaker", ("await", "run", "stop")),
        _lost("SIGKILL of guard and undertaker", phases=("run",), relaunch=True),
        _lost("SIGKILL of all on a worker", phases=("await", "run"), relaunch=True),
        _lives("a guard whose system calls are slow", ("await", "run"), relaunch=True),
        _lives(
            "a guard that cannot open one file in ten", ("await", "run"), codes={"": (0, 121, 124, 125)}, relaunch=True
        ),
        _lives("a guard that cannot fork", ("await", "run"), codes={"": (0, 121, 124, 125)}, relaunch=True),
        # nodes and their network
        _lost("power off, a worker", relaunch=True),
        # Grid Engine and PBS call a job running as long as its first node is away
        _lost("power off, the first node", HEAD, phases=("await", "run"), relaunch=True, places=TYPED),
        Fault("power off, the login node", ("run",), {"": ANY}, within=150, relaunch=True, places=SLURMS),
        _lives("network of a worker cut for 5 s"),
        _lives("network of a worker flaps for 10 s", ("serve", "await", "run")),
        _lost("network of a worker cut for 60 s", phases=("run",), within=70.0),  # slurmstepd tries to report
        Fault("network of a worker cut for good", BEGUN, {"": (121, 124), "stop": (0, 121)}, (WORKER,), within=70.0),
        Fault("connections of a worker reset", ("await", "run", "stop"), {"": (121,), "stop": (0, 121)}, (WORKER,)),
        _lives("3 of 10 packets of a worker lost", codes={"": (0, 121, 124)}),
        _lives("clock of a worker 10 minutes ahead", ("await", "run", "stop"), places=NODES),
        # Slurm
        Fault("scancel", ALL, {"": (143,), "stop": (0, 143)}, ("cancelled",), places=SLURMS),
        Fault("time limit", ("await", "run"), {"": (124,)}, ("time limit",), places=SLURMS),
        Fault("preemption", ("await", "run"), {"": (143,)}, ("preempted",), places=SLURMS),
        _lives("preemption of a job that starts again", ("await", "run"), places=SLURMS, submitted=True),
        _lives("slurmctld stopped for 5 s", places=SLURMS),
        _lives("slurmctld stopped for 60 s", ("await", "run"), places=SLURMS),
        _lives("slurmd of a worker restarted", ("await", "run", "stop"), places=SLURMS),
        _lives("Slurm's commands take 2 s more", ("run",), places=SLURMS),
        Fault("scancel, and Slurm's commands fail one time in three", ("run",), {"": (143,)}, places=SLURMS),
        # Grid Engine and PBS
        Fault("qdel", BEGUN, {"": (143,), "stop": (0, 143)}, ("cancelled",), places=(*GRID, *PBS)),
        Fault("qdel of a job without -notify", ("run",), {"": (143,)}, ("cancelled",), places=GRID, relaunch=True),
        Fault("h_rt", ("run",), {"": (124,)}, ("time limit",), places=GRID, asks=("-t", "0:20")),
        _lives("qmod -sj, then qmod -usj", ("await", "run"), places=GRID),
        _lives("sge_execd of a worker restarted", ("await", "run", "stop"), places=GRID),
        _lives("sge_execd of the first node restarted", ("run",), places=GRID),
        Fault("qdel -W force", ("run",), {"": (123,)}, ("killed",), places=PBS, relaunch=True),
        Fault("walltime", ("run",), {"": (124,)}, ("time limit",), places=PBS, asks=("-t", "0:20")),
        _lives("pbs_mom of a worker restarted", ("await", "run", "stop"), places=PBS),
        # PBS takes the job for lost, and ends nothing of it
        Fault("pbs_mom of the first node restarted", ("run",), {"": ANY}, places=PBS, within=SILENCE, relaunch=True),
        # Kubernetes
        Fault("SIGKILL of a kubectl", ("serve", "await", "run"), {"": (121,)}, (WORKER,), places=("kube",)),
        Fault("mnrun cancel", ALL, {"": (143,), "stop": (0, 143)}, ("cancelled",), places=KUBE),
        Fault("a pod deleted", ("await", "run"), _DELETED, (WORKER,), places=KUBE),
        Fault("a pod deleted by force", ("await", "run"), _DELETED, (WORKER,), places=KUBE),
        Fault("a node drained", ("await", "run"), _DELETED, (WORKER,), places=KUBE),
        Fault("a pod of higher priority", ("run",), _DELETED, (WORKER,), places=KUBE),
        Fault("activeDeadlineSeconds", ("run",), {"": (124,)}, ("time",), places=KUBE, asks=("-t", "0:25")),
        Fault("memory of a rank", ("run",), {"": (137,)}, ("rank 3",), places=KUBE, asks=("--mem", "400M")),
        Fault("memory of a pod", ("run",), {"": (137,)}, (WORKER, "400Mi"), places=KUBE, asks=("--mem", "400M")),
        # A launcher on that node ends unseen, and its Job starts another one, whom no node calls
        Fault("kubelet of a worker killed", ("run",), _SILENT, (WORKER,), places=KUBE, outlived=("kubejob",)),
        Fault("kubelet of a worker restarted", ("run",), {"": (121,)}, (WORKER,), places=KUBE, outlived=("kubejob",)),
        Fault("API server restarted", ("await", "run"), {"": (121,)}, places=KUBE, outlived=("kubejob",)),
        _lives("API server stopped for 5 s", ("serve", "await", "run", "stop"), places=KUBE),
        Fault("an image that cannot be pulled", ("prepare",), {"": (125,), "kubejob": (121,)}, ("none",), places=KUBE),
        Fault("a quota", ("prepare",), {"": (123,)}, ("few",), places=KUBE, refused=True),
        # disks
        Fault("/tmp of a worker full", ("serve",), {"": (121,)}, ("/tmp", "full", WORKER), places=NODES),
        _lives("/tmp of a worker full, later", ("run", "stop"), places=NODES),
        Fault("/dev/shm of a worker full", ("serve",), {"": (121,)}, ("/dev/shm", "full", WORKER), places=NODES),
        _lives("disk of the records full", ("serve", "run", "stop"), places=TYPED),
        _lives("records read-only", ("serve", "run", "stop"), places=TYPED),
        _lives("records hang for 5 s", ("serve", "run", "stop"), places=TYPED),
    )
}


@dataclass(frozen=True)
class Cell:
    """One launch with one fault."""

    fault: str
    phase: str
    mode: str
    place: str

    def __str__(self) -> str:
        return ", ".join((self.fault, self.phase, self.mode, self.place))


def cells() -> list[Cell]:
    """Return every cell that can be."""
    return [
        Cell(fault.name, phase, mode, place)
        for fault in FAULTS.values()
        for phase, mode, place in itertools.product(PHASES, MODES, PLACES)
        if phase in fault.phases
        and mode in fault.modes
        and place in fault.places
        # Pods have the image, and no sshd. A launcher in a pod is not there before its node takes it.
        and (place not in KUBE or mode == "pipe")
        and (place != "kubejob" or phase != "prepare" or fault.places == KUBE)
    ]
