"""PREPARE of an image file that is staged: which nodes lack it, and how it gets there. The steps are only played."""

from __future__ import annotations

import hashlib
import os
import queue
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import JobEnded, LaunchError, NodeError, SchedulerError, UsageError
from mnrun.images import staged
from mnrun.images.cache import fact
from mnrun.model import Command, Phase, Plan
from mnrun.running.prepare import prepare
from mnrun.system.process import Event, Stopped
from mnrun.system.screen import Screen
from unit.samples import SITE, build, make

SUM = hashlib.sha256(b"image").hexdigest()
COPY = f"/disk/mnrun.alice/images/sha256-{SUM}.sif"


def image(node: str) -> str:
    return f"image {node} sha256:{SUM} {COPY}"


class Cluster:
    """In the starter's place. A step says its lines at its start, and those of `taken` after the word `take`."""

    def __init__(self, *steps: list[str], taken: tuple[str, ...] = (), copy: int | None = 0, said: str = "") -> None:
        self.steps, self.taken, self.copy, self.said = list(steps), taken, copy, said
        self.commands: list[tuple[str, ...]] = []
        self.sent: list[bytes] = []
        self.signals: list[int] = []
        self.while_copying: Callable[[queue.SimpleQueue[Event]], None] = lambda events: None
        self.while_closing: Callable[[queue.SimpleQueue[Event]], None] = lambda events: None
        self.stays = ""  # a step that ends only after its successor has begun

    def start(
        self, name: str, command: Command, environ: object, events: queue.SimpleQueue[Event], piped: bool, **_: object
    ) -> Any:
        assert piped == (name != "copy")
        self.commands.append(command.argv)
        if name == "copy" and self.copy == 127:
            raise FileNotFoundError
        return Started(self, name, events)


class Started:
    def __init__(self, cluster: Cluster, name: str, events: queue.SimpleQueue[Event]) -> None:
        self.cluster, self.name, self.events = cluster, name, events
        if name == "copy":
            cluster.while_copying(events)
            for line in filter(None, [cluster.said]):
                events.put(("noise", name, line))
            if cluster.copy is not None:
                events.put(("ended", name, cluster.copy))

    def send(self, data: bytes) -> None:
        if self.cluster.stays and self.name != self.cluster.stays:
            self.events.put(("line", self.cluster.stays, "fail node01 it was given up"))
            self.events.put(("ended", self.cluster.stays, 137))
        self.cluster.sent.append(data)
        for line in self.cluster.taken if data == b"take\n" else self.cluster.steps.pop(0):
            self.events.put(("line", self.name, line))

    def pulse(self) -> None:
        pass

    def close(self) -> None:
        self.cluster.while_closing(self.events)
        if self.name != self.cluster.stays:
            self.events.put(("ended", self.name, 0))

    def end(self, signum: int) -> None:
        self.cluster.signals.append(signum)
        if self.name != self.cluster.stays:
            self.events.put(("ended", self.name, 128 + signum))


@pytest.fixture
def source(tmp_path: Path, mocker: MockerFixture) -> Path:
    mocker.patch("getpass.getuser", return_value="alice")
    path = tmp_path / "app.sif"
    path.write_bytes(b"image")
    return path


def carried_out(cluster: Cluster, source: Path) -> Plan:
    """PREPARE of a job of two nodes, of which nothing is left."""
    job = build("./app", image=str(source), stage=True, stage_dir="/disk", image_cache=str(source.parent / "cache"))
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    try:
        return prepare(make(job, 1, 1), SITE, {}, events, Screen(), cluster.start)
    finally:
        assert events.empty() and cluster.steps == []


def test_nodes_that_have_it(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is sent, and nothing said. Later steps name the copy, and do not compare it again."""
    cluster = Cluster([image("node01"), image("node02")])
    plan = carried_out(cluster, source)
    assert [words[0] for words in cluster.commands] == ["srun"]
    assert plan.spec.container.image_name == COPY
    assert COPY in plan.step(Phase.SERVE).argv and str(source) not in plan.step(Phase.SERVE).argv
    assert capsys.readouterr().err == ""


def test_nodes_that_lack_it(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The copy goes to all nodes of their step at once, which then take it."""
    cluster = Cluster(["lacks node01 7.3", "lacks node02 7.3"], taken=(image("node01"), image("node02")))
    plan = carried_out(cluster, source)
    assert cluster.commands[1:] == [
        ("sbcast", "--force", "--jobid=7.3", str(source), "/disk/mnrun.alice/images/7-abcdef.part")
    ]
    assert cluster.sent[-1] == b"take\n"
    assert plan.spec.container.image_name == COPY
    first, last = capsys.readouterr().err.splitlines()
    assert first == f"mnrun: copying {source} (0 MB) to node[01-02]"
    assert last.startswith(f"mnrun: {source} is {COPY}, after ")


def test_one_node_that_lacks_it(source: Path) -> None:
    """It gets a step of its own, since a copy goes to all nodes of a step."""
    cluster = Cluster(["lacks node02 7.3", image("node01")], ["lacks node02 7.4"], taken=(image("node02"),))
    carried_out(cluster, source)
    srun, again, sbcast = cluster.commands
    assert "--nodelist=node[01-02]" in srun and "--nodelist=node02" in again and "--jobid=7.4" in sbcast


def test_a_node_that_another_job_served_meanwhile(source: Path) -> None:
    cluster = Cluster(["lacks node02 7.3", image("node01")], [image("node02")])
    assert carried_out(cluster, source).spec.container.image_name == COPY
    assert [words[0] for words in cluster.commands] == ["srun", "srun"]


BOTH = ["lacks node01 7.3", "lacks node02 7.3"]
UNSTAGED = "--no-stage makes the nodes read the image where it is"


@pytest.mark.parametrize(
    ("cluster", "kind", "said"),
    [
        (
            Cluster(BOTH, copy=1, said="sbcast: error: REQUEST_FILE_BCAST(node02): No space left on device"),
            NodeError,
            "{} could not be copied to node[01-02] (sbcast: error: REQUEST_FILE_BCAST(node02): "
            f"No space left on device); {UNSTAGED}",
        ),
        (Cluster(BOTH, copy=127), SchedulerError, f"sbcast is not on PATH; {UNSTAGED}"),
        (
            Cluster(BOTH, taken=(image("node01"), "fail node02 its copy differs")),
            NodeError,
            "1 of 2 nodes not ready: node02: its copy differs",
        ),
        (
            Cluster(["lacks node01 7.3", "fail node02 no space left"]),
            NodeError,
            "1 of 2 nodes not ready: node02: no space left",
        ),
        (
            Cluster(["lacks node01 --x", "lacks node02 --x"]),
            NodeError,
            f"node01 names its step '--x', which is not JOB.STEP; {UNSTAGED}",
        ),
    ],
)
def test_how_it_fails(
    cluster: Cluster, kind: type[LaunchError], said: str, source: Path, mocker: MockerFixture
) -> None:
    """One line that says where, why, and what to do."""
    mocker.patch("mnrun.schedulers.slurm.ending", return_value="")
    with pytest.raises(kind) as wrong:
        carried_out(cluster, source)
    assert str(wrong.value) == said.format(source)


def test_a_job_that_is_cancelled_meanwhile(source: Path, mocker: MockerFixture) -> None:
    """sbcast's own message says less."""
    mocker.patch("mnrun.schedulers.slurm.ending", return_value="CANCELLED")
    with pytest.raises(JobEnded):
        carried_out(Cluster(BOTH, copy=1), source)


def test_a_signal_while_it_is_copied(source: Path) -> None:
    """The copy ends at once, and the lease removes what has arrived."""
    cluster = Cluster(BOTH, copy=None)
    cluster.while_copying = lambda events: events.put(("signal", "", int(signal.SIGINT)))
    with pytest.raises(Stopped):
        carried_out(cluster, source)
    assert cluster.signals == [signal.SIGTERM]


def test_a_signal_between_two_steps(source: Path) -> None:
    """The first step ends, and no second one begins."""
    cluster = Cluster(["lacks node02 7.3", image("node01")])
    cluster.while_closing = lambda events: events.put(("signal", "", int(signal.SIGINT)))
    with pytest.raises(Stopped):
        carried_out(cluster, source)
    assert len(cluster.commands) == 1


def test_a_step_that_ends_late(source: Path, mocker: MockerFixture) -> None:
    """What it still says, and its end, are not those of the second step."""
    mocker.patch("mnrun.running.prepare.FAREWELL", 0.01)
    cluster = Cluster(["lacks node02 7.3", image("node01")], [image("node02")])
    cluster.stays = "prepare"
    assert carried_out(cluster, source).spec.container.image_name == COPY
    assert cluster.signals == [signal.SIGKILL]


def test_a_signal_while_it_is_read(source: Path) -> None:
    """A large file takes long to read."""
    job = build("./app", image=str(source), stage=True, image_cache=str(source.parent))
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    events.put(("signal", "", int(signal.SIGINT)))
    cluster = Cluster()
    with pytest.raises(Stopped):
        prepare(make(job, 1, 1), SITE, {}, events, Screen(), cluster.start)
    assert cluster.commands == []


def test_a_directory_has_no_copy(source: Path) -> None:
    source.unlink()
    source.mkdir()
    with pytest.raises(UsageError) as wrong:
        carried_out(Cluster(), source)
    assert str(wrong.value) == (
        f"--stage copies only an image file of this machine, and {source} is not one; "
        "name an image file, or use --no-stage"
    )


def test_a_file_is_read_once(source: Path, tmp_path: Path, mocker: MockerFixture) -> None:
    """Until it changes, even to one of the same size and time."""
    cache = tmp_path / "cache"
    read = mocker.spy(staged, "_digest")
    assert {staged.source(str(source), cache).digest for _ in range(2)} == {SUM}
    assert read.call_count == 1
    before = source.stat()
    source.write_bytes(b"imag2")
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert staged.source(str(source), cache).digest == hashlib.sha256(b"imag2").hexdigest()
    (place,) = cache.glob(f"facts/{fact(cache, staged._state(str(source)), 'sum-').name}")
    place.write_text("not a sum")
    assert staged.source(str(source), cache).digest == hashlib.sha256(b"imag2").hexdigest()
    assert read.call_count == 3


@pytest.mark.parametrize(
    "given", [{"hosts": "n1"}, {"local": True}, {"stage": False}, {"image": "docker://app:1"}, {"runtime": "host"}]
)
def test_a_launch_that_stages_nothing(given: dict[str, Any]) -> None:
    """Hosts have their copies before there is a plan."""
    assert build("./app", image="/app.sif", stage=True).staged
    job = build("./app", **{"image": "/app.sif", "stage": True, **given})
    steps = make(job, 1).steps
    assert not job.staged and not any("stage_image.sh" in step.argv for step in steps)
