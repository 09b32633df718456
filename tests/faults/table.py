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
PLACES = {"slurm": "Slurm", "cgroup": "Slurm with control groups", "hosts": "hosts without a scheduler"}
SLURMS = ("slurm", "cgroup")
BEGUN, ALL = ("serve", "await", "run", "stop"), tuple(PHASES)
HEAD, WORKER = "node01", "node02"
ANY: tuple[int, ...] = ()
SILENCE = 130.0  # seconds until a host ends that hears nothing


@dataclass(frozen=True)
class Fault:
    """A fault and its right end.

    `codes` are the exit codes that are right, by phase, with "" for all other phases. ANY is for a launcher that was
    killed itself. `says` are words of mnrun's own lines then. `lives` means that the launch goes on to its program's
    end. `within` is the time until nothing is left. `relaunch` means that remains are documented, which the user's next
    launch removes. `submitted` is for a batch job.
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

    def ends(self, phase: str) -> tuple[int, ...]:
        """Return the exit codes that are right where the fault comes in this phase."""
        return self.codes.get(phase, self.codes[""])

    def limit(self, place: str) -> float:
        """Return the seconds until nothing is left. Hosts may miss a launcher that was killed for two minutes."""
        return SILENCE if place == "hosts" and self.ends("run") == ANY else self.within


def _signal(name: str, code: int) -> Fault:
    says = () if name == "SIGINT" else (f"ended by {name}",)
    return Fault(name, ALL, {"": (code,), "stop": (0, code)}, says)


def _lost(name: str, node: str = WORKER, **more: object) -> Fault:
    """Return a fault that takes a node away. A node that was not ready may be missed at the time limit alone. In `stop`
    the program has ended, and its own code may count.
    """
    codes = {"serve": (121, 124), "await": (121, 124), "run": (121,), "stop": (0, 121)}
    return Fault(name, codes={"": (121,), **codes}, says=(node,), **more)  # type: ignore[arg-type]


def _lives(name: str, phases: tuple[str, ...] = BEGUN, **more: object) -> Fault:
    return Fault(name, phases, lives=True, **more)  # type: ignore[arg-type]


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
        Fault("SIGKILL of mnrun", ALL, {"": ANY}, relaunch=True),
        Fault("SIGKILL of all on the login node", ("await", "run"), {"": ANY}, within=150, relaunch=True),
        # processes of the job
        Fault("SIGKILL of srun", ("serve", "await", "run"), {"": (121,)}, places=SLURMS, within=20.0),  # KillWait
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
        _lost("power off, the first node", HEAD, phases=("await", "run"), relaunch=True),
        Fault("power off, the login node", ("run",), {"": ANY}, within=150, relaunch=True, places=SLURMS),
        _lives("network of a worker cut for 5 s"),
        _lives("network of a worker flaps for 10 s", ("serve", "await", "run")),
        _lost("network of a worker cut for 60 s", phases=("run",), within=70.0),  # slurmstepd tries to report
        Fault("network of a worker cut for good", BEGUN, {"": (121, 124), "stop": (0, 121)}, (WORKER,), within=70.0),
        Fault("connections of a worker reset", ("await", "run", "stop"), {"": (121,), "stop": (0, 121)}, (WORKER,)),
        _lives("3 of 10 packets of a worker lost", codes={"": (0, 121, 124)}),
        _lives("clock of a worker 10 minutes ahead", ("await", "run", "stop")),
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
        # disks
        Fault("/tmp of a worker full", ("serve",), {"": (121,)}, ("/tmp", "full", WORKER)),
        _lives("/tmp of a worker full, later", ("run", "stop")),
        Fault("/dev/shm of a worker full", ("serve",), {"": (121,)}, ("/dev/shm", "full", WORKER)),
        _lives("disk of the records full", ("serve", "run", "stop")),
        _lives("records read-only", ("serve", "run", "stop")),
        _lives("records hang for 5 s", ("serve", "run", "stop")),
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
        if phase in fault.phases and mode in fault.modes and place in fault.places
    ]
