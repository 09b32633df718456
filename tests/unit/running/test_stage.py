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

from mnrun import formats
from mnrun.errors import JobEnded, LaunchError, NodeError, SchedulerError, UsageError
from mnrun.images import staged
from mnrun.images.cache import fact
from mnrun.model import Command, Phase, Plan
from mnrun.running.prepare import prepare
from mnrun.schedulers.vocabulary import JobState
from mnrun.system.events import Ended, Event, Line, Noise, Signal
from mnrun.system.process import Stopped
from mnrun.system.screen import Screen
from unit.samples import SITE, build, make
from unit.texts import Refused

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
                events.put(Noise(name, line))
            if cluster.copy is not None:
                events.put(Ended(name, cluster.copy))

    def send(self, data: bytes) -> None:
        if self.cluster.stays and self.name != self.cluster.stays:
            self.events.put(Line(self.cluster.stays, "fail node01 it was given up"))
            self.events.put(Ended(self.cluster.stays, 137))
        self.cluster.sent.append(data)
        for line in self.cluster.taken if data == b"take\n" else self.cluster.steps.pop(0):
            self.events.put(Line(self.name, line))

    def pulse(self) -> None:
        pass

    def close(self) -> None:
        self.cluster.while_closing(self.events)
        if self.name != self.cluster.stays:
            self.events.put(Ended(self.name, 0))

    def end(self, signum: int) -> None:
        self.cluster.signals.append(signum)
        if self.name != self.cluster.stays:
            self.events.put(Ended(self.name, 128 + signum))


@pytest.fixture
def source(tmp_path: Path, mocker: MockerFixture) -> Path:
    mocker.patch("getpass.getuser", return_value="alice")
    path = tmp_path / "app.sif"
    path.write_bytes(b"image")
    return path


def carried_out(cluster: Cluster, source: Path) -> Plan:
    job = build("./app", image=str(source), stage=True, stage_dir="/disk", image_cache=str(source.parent / "cache"))
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    try:
        return prepare(make(job, 1, 1), SITE, {}, events, Screen(), cluster.start)
    finally:
        assert events.empty() and cluster.steps == []


def test_nodes_that_have_it(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster([image("node01"), image("node02")])
    plan = carried_out(cluster, source)
    assert [words[0] for words in cluster.commands] == ["srun"]
    assert plan.spec.container.image_name == COPY
    assert COPY in plan.step(Phase.SERVE).argv and str(source) not in plan.step(Phase.SERVE).argv
    assert capsys.readouterr().err == ""


def test_nodes_that_lack_it(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(["lacks node01 7.3", "lacks node02 7.3"], taken=(image("node01"), image("node02")))
    plan = carried_out(cluster, source)
    assert cluster.commands[1:] == [
        ("sbcast", "--force", "--jobid=7.3", str(source), "/disk/mnrun.alice/images/7-abcdef.part")
    ]
    assert cluster.sent[-1] == b"take\n"
    assert plan.spec.container.image_name == COPY
    first, last = capsys.readouterr().err.splitlines()
    assert first == f"mnrun: copying {source} ({formats.size(source.stat().st_size)}) to node[01-02]"
    assert last.startswith(f"mnrun: {source} is {COPY}, after ")


def test_one_node_that_lacks_it(source: Path) -> None:
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
    ("cluster", "kind"),
    [
        (Cluster(BOTH, copy=1, said="sbcast: error: REQUEST_FILE_BCAST(node02): No space left on device"), NodeError),
        (Cluster(BOTH, copy=127), SchedulerError),
        (Cluster(BOTH, taken=(image("node01"), "fail node02 its copy differs")), NodeError),
        (Cluster(["lacks node01 7.3", "fail node02 no space left"]), NodeError),
        (Cluster(["lacks node01 --x", "lacks node02 --x"]), NodeError),
    ],
)
def test_how_it_fails(
    refused: Refused, cluster: Cluster, kind: type[LaunchError], source: Path, mocker: MockerFixture
) -> None:
    mocker.patch("mnrun.schedulers.slurm.scheduler.ending", return_value=JobState.UNKNOWN)
    with refused(kind):
        carried_out(cluster, source)


def test_a_job_that_is_cancelled_meanwhile(source: Path, mocker: MockerFixture) -> None:
    """sbcast's own message says less."""
    mocker.patch("mnrun.schedulers.slurm.scheduler.ending", return_value=JobState.CANCELLED)
    with pytest.raises(JobEnded):
        carried_out(Cluster(BOTH, copy=1), source)


def test_a_signal_while_it_is_copied(source: Path) -> None:
    cluster = Cluster(BOTH, copy=None)
    cluster.while_copying = lambda events: events.put(Signal(signal.SIGINT))
    with pytest.raises(Stopped):
        carried_out(cluster, source)
    assert cluster.signals == [signal.SIGTERM]


def test_a_signal_between_two_steps(source: Path) -> None:
    cluster = Cluster(["lacks node02 7.3", image("node01")])
    cluster.while_closing = lambda events: events.put(Signal(signal.SIGINT))
    with pytest.raises(Stopped):
        carried_out(cluster, source)
    assert len(cluster.commands) == 1


def test_a_step_that_ends_late(source: Path, mocker: MockerFixture) -> None:
    mocker.patch("mnrun.running.prepare.FAREWELL", 0.01)
    cluster = Cluster(["lacks node02 7.3", image("node01")], [image("node02")])
    cluster.stays = "prepare"
    assert carried_out(cluster, source).spec.container.image_name == COPY
    assert cluster.signals == [signal.SIGKILL]


def test_a_signal_while_it_is_read(source: Path) -> None:
    job = build("./app", image=str(source), stage=True, image_cache=str(source.parent))
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    events.put(Signal(signal.SIGINT))
    cluster = Cluster()
    with pytest.raises(Stopped):
        prepare(make(job, 1, 1), SITE, {}, events, Screen(), cluster.start)
    assert cluster.commands == []


def test_a_directory_has_no_copy(refused: Refused, source: Path) -> None:
    source.unlink()
    source.mkdir()
    with refused(UsageError):
        carried_out(Cluster(), source)


def test_a_file_is_read_once(source: Path, tmp_path: Path, mocker: MockerFixture) -> None:
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
    assert build("./app", image="/app.sif", stage=True).staged
    job = build("./app", **{"image": "/app.sif", "stage": True, **given})
    steps = make(job, 1).steps
    assert not job.staged and not any("stage_image.sh" in step.argv for step in steps)
