"""Hold a launch in a phase, by conditions of its surroundings, and let it go on.

A program that the guards call waits until its node is open, as on a busy machine. In `prepare` a registry waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from live.cells import OMPI5
from live.stage import LOGIN, Cluster, Desk, Job

from .table import HEAD, WORKER

NODES = (HEAD, WORKER)
RANKS = 4
OPEN = "/run/faults.open"
# CASES chooses the calls that wait.
SHIM = """\
#!/bin/sh
case ${{MNRUN_JOB_ID:+marked}}$* in {cases}) until [ -e {open} ]; do sleep 0.1; done ;; esac
exec /usr/bin/{program} "$@"
"""
SHIMS = {
    "serve": ("mkdir", "*'-- /tmp/mnrun.'*"),
    "await": ("apptainer", "marked*"),
    "stop": ("rm", "*'-- /'*'/tmp/mnrun.'*"),
}
# A guard whose container has enclosed all processes of its node need not look for others by awk. It waits at rm. awk
# stands there late, because guards use it before; rm stands there early, because bash remembers where a program is.
LATE = ("awk", "*")
PLACES = {f"/usr/local/bin/{program}" for program, _ in (*SHIMS.values(), LATE)}
GATE = Path(__file__).parent / "gate.py"
PORT = 5002


@dataclass(frozen=True)
class Hold:
    """A phase that a launch will stay in. `gate` is the registry of `prepare`."""

    cluster: Cluster
    desk: Desk
    phase: str
    gate: Job | None

    @property
    def image(self) -> Sequence[str]:
        if self.phase != "prepare":
            return ("--image", OMPI5)
        return ("--image", f"docker://{LOGIN}:{PORT}/small:1", "--image-cache", f"{self.desk.path}/cache")

    @property
    def program(self) -> Sequence[str]:
        """Return a program whose ranks say `up`, and end once the desk has the file `go`. With MPI they meet then."""
        go = f"{self.desk.path}/go"
        if self.phase == "prepare":
            return ("sh", "-c", f"echo up >&2; until [ -e {go} ]; do sleep 0.2; done")
        code = (
            "import os, sys, time\nfrom mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\nos.write(2, b'up\\n')\n"
            f"while not os.path.exists({go!r}): time.sleep(0.2)\nMPI.COMM_WORLD.Barrier()\n"
        )
        return ("python3", "-c", code)

    @property
    def output(self) -> str:
        """Return the place of a submitted job's output."""
        return f"{self.desk.path}/out"

    def written(self) -> str:
        """Return what a submitted job has written."""
        return self.desk.read("out").decode() if "out" in self.desk.names() else ""

    def reached(self, job: Job) -> None:
        """Return when the launch is in the phase."""
        if self.gate is not None:
            gate = self.gate
            self._of(job, lambda: "held" in gate.so_far().out)
            return
        if self.phase in ("run", "stop"):
            job.saying(lambda said: (said.err + self.written()).count("up\n") >= RANKS, "running on all ranks")
        if self.phase == "stop":
            self.put(*LATE)
            self.end()
        if self.phase in SHIMS:
            self._of(job, lambda: self._held() == set(NODES))

    def _of(self, job: Job, condition: Callable[[], bool]) -> None:
        job.saying(lambda _: condition(), f"in the phase {self.phase}")

    def _held(self) -> set[str]:
        return {process.node for process in self.cluster.processes() if PLACES & set(process.argv[:2])}

    def put(self, program: str, cases: str) -> None:
        """Put what waits in front of a program of the nodes."""
        for node in NODES:
            text = SHIM.format(cases=cases, open=OPEN, program=program)
            self.cluster.put(f"/usr/local/bin/{program}", text, 0o755, node, 0)

    def open(self) -> None:
        """Let the launch go on."""
        if self.gate is not None:
            self.cluster.put(OPEN, "", uid=0)
        for node in NODES:
            if self.cluster.model.pid(node) is not None:
                self.cluster.put(OPEN, "", node=node, uid=0)

    def end(self) -> None:
        """End the program."""
        self.desk.put("go", "")


@contextmanager
def held(cluster: Cluster, phase: str, desk: Desk) -> Iterator[Hold]:
    """Prepare a hold, and take it away at the end."""
    try:
        if phase == "prepare":
            cluster.tool("registry")
            cluster.put("/run/faults.gate.py", GATE.read_bytes(), uid=0)
            words = ["python3", "/run/faults.gate.py", LOGIN, str(PORT), "5000", OPEN]
            with cluster.running(words, user="root") as gate:
                gate.saying(lambda said: "listening" in said.out, "listening")
                yield Hold(cluster, desk, phase, gate)
        else:
            hold = Hold(cluster, desk, phase, None)
            if phase in SHIMS:
                hold.put(*SHIMS[phase])
            yield hold
    finally:
        for node in (LOGIN, *NODES):
            if cluster.model.pid(node) is not None:
                cluster.root(node, "rm", "-f", OPEN, "/run/faults.gate.py", *(PLACES if node != LOGIN else ()))
