"""PREPARE: what nodes say while an image of a registry is pulled, and what it comes to. The step is only played."""

from __future__ import annotations

import os
import queue
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import DeadlineError, JobEnded, LaunchError, NodeError, RuntimeFailed, SchedulerError
from mnrun.model import Command, Layout, Phase, Plan, Words
from mnrun.nodes import kit
from mnrun.planning import plan as planner
from mnrun.reach import leases, transport
from mnrun.reach.transport import Transport
from mnrun.running.prepare import prepare
from mnrun.schedulers.hosts import steps
from mnrun.schedulers.vocabulary import JobState
from mnrun.system.events import Ended, Event, Line, Signal
from mnrun.system.process import ProcessChannel, Said, Stopped
from mnrun.system.screen import Screen
from unit.samples import SITE, build, changed, make
from unit.texts import Refused
from unit.world import World

IMAGE = "docker://app:1"
HERE = "/home/alice/.mnrun/cache/one.sif"


class Step:
    """In transports.start's place, and what it gives: says its lines once it has been sent the script."""

    def __init__(self, *said: str, over: int | None = None) -> None:
        self.said = said
        self.over = over  # its exit code, where it ends before it is told to
        self.sent = b""
        self.argv: Words = ()
        self.signals: list[int] = []
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def start(
        self, name: str, command: Command, environ: object, events: queue.SimpleQueue[Event], piped: bool, **_: object
    ) -> Any:
        assert (name, piped) == ("prepare", True)
        self.argv, self.events = command.argv, events
        return self

    def send(self, data: bytes) -> None:
        self.sent = data
        for line in self.said:
            self.events.put(Line("prepare", line))
        if self.over is not None:
            self.events.put(Ended("prepare", self.over))

    def pulse(self) -> None:
        self.sent += b"pulse"

    def close(self) -> None:
        if self.over is None:
            self.events.put(Ended("prepare", 0))

    def end(self, signum: int) -> None:
        self.signals.append(signum)


def carried_out(step: Step, *before: Event, wait: int = 60) -> Plan:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    for event in before:
        events.put(event)
    plan = make(build("./app", image=IMAGE), 1, 1)
    plan = plan._replace(spec=changed(plan.spec, pull_timeout=wait))
    try:
        return prepare(plan, SITE, {}, events, Screen(), step.start)
    finally:
        assert events.empty()
        assert step.signals == []


def images(*digests: str) -> Sequence[str]:
    return [f"image node{number:02} {digest} {HERE}" for number, digest in enumerate(digests, 1)]


def test_an_image_that_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    step = Step(*images("sha256:1", "sha256:1"))
    plan = carried_out(step)
    assert step.sent == kit.prepare_input(plan, {"APPTAINER_DOCKER_PASSWORD": "of no matter"}, pulse=True) + b"pulse"
    assert plan.spec.container.image_name == HERE
    assert HERE in plan.step(Phase.SERVE).argv
    assert IMAGE in step.argv
    assert capsys.readouterr().err == ""


def test_an_image_that_is_pulled(capsys: pytest.CaptureFixture[str]) -> None:
    carried_out(Step("here node01", "pulling node01 layer 1 of 3", *images("sha256:1", "sha256:1")))
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"mnrun: pulling {IMAGE}, for 60 s at most (--pull-timeout)"
    assert said[1].startswith(f"mnrun: {IMAGE} is {HERE}, after ")


def test_the_same_image_by_names_of_the_nodes_own() -> None:
    plan = carried_out(Step("image node01 sha256:1 id1", "image node02 sha256:1 id2"))
    assert plan.spec.container.image_name == IMAGE


# what is said -> the failure with its whole line
ENDS: dict[str, tuple[Step, type[LaunchError]]] = {
    "differing digests": (Step(*images("sha256:1", "sha256:2")), NodeError),
    "no such tag, on all": (Step("unpulled node01 no such tag", "unpulled node02 no such tag"), RuntimeFailed),
    "a node without the runtime": (Step(images("sha256:1")[0], "fail node02 no apptainer"), NodeError),
    "a node that is lost": (Step(images("sha256:1")[0], "lost node02 the connection to it broke"), NodeError),
    "a step that ends": (Step("srun: error: what", over=1), NodeError),
    "a step that ends after a failure": (Step("fail node01 no apptainer", over=1), NodeError),
}


@pytest.mark.parametrize("end", ENDS)
def test_how_it_fails(refused: Refused, end: str, mocker: MockerFixture) -> None:
    mocker.patch("mnrun.schedulers.slurm.scheduler.ending", return_value=JobState.RUNNING)
    step, expected = ENDS[end]
    with refused(expected):
        carried_out(step)


@pytest.mark.parametrize(("state", "kind"), [("CANCELLED", JobEnded), ("TIMEOUT", DeadlineError)])
def test_a_job_that_ends_meanwhile(state: str, kind: type[LaunchError], mocker: MockerFixture) -> None:
    """Slurm knows which it was."""
    mocker.patch("mnrun.schedulers.slurm.scheduler.ending", return_value=JobState(state))
    mocker.patch("mnrun.schedulers.slurm.scheduler.time_limit", return_value="")
    with pytest.raises(kind):
        carried_out(Step(over=143))


def test_a_pull_that_takes_too_long(refused: Refused) -> None:
    with refused(DeadlineError):
        carried_out(Step("pulling node01 layer 1 of 3"), wait=0)


def test_a_signal_meanwhile() -> None:
    with pytest.raises(Stopped) as stopped:
        carried_out(Step(), Signal(signal.SIGTERM))
    assert stopped.value.signum == signal.SIGTERM


def test_an_image_that_is_a_file_needs_none_of_it() -> None:
    plan = make(build("./app"), 1, 1)
    step = Step()
    assert prepare(plan, SITE, {}, queue.SimpleQueue(), Screen(), step.start) is plan
    assert step.argv == ()


def test_no_srun(refused: Refused) -> None:
    def absent(*words: object, **more: object) -> Any:
        raise FileNotFoundError

    with refused(SchedulerError):
        prepare(make(build("./app", image=IMAGE), 1), SITE, {}, queue.SimpleQueue(), Screen(), absent)


# On hosts without a scheduler: the real script, with a stand-in for Apptainer

SLOW = """#!/bin/sh
# Takes as long as the test wants, and says what it was given.
for _ in $(seq 200); do [ -e "$0.go" ] || sleep 0.1; done
printf '%s\\n' "$APPTAINER_DOCKER_PASSWORD" "$https_proxy" "$LEFT" >"$0.given"
tee "$APPTAINER_CACHEDIR/cache/oci-tmp/key" <"$0" >"$3"
"""


@pytest.fixture
def apptainer(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    program = tmp_path / "bin" / "apptainer"
    program.parent.mkdir()
    program.write_text(SLOW)
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with world.allowed():
        yield program


def test_a_pull_that_takes_long_is_not_silent(
    apptainer: Path, tmp_path: Path, mocker: MockerFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    mocker.patch.object(kit, "BEAT", 0.2)
    mocker.patch.object(leases, "TICK", 0.1)
    mocker.patch.object(leases, "LOST", 3.0)
    alive: list[str] = []
    asked: list[Words] = []

    class Hearing(leases.ChannelLease):
        def _hear(self, kind: Said, line: str) -> None:
            alive.extend(line.split()[:1])
            if alive.count("alive") == 20:  # 4 s
                (apptainer.parent / "apptainer.go").touch()
            super()._hear(kind, line)

    mocker.patch.object(transport, "ChannelLease", Hearing)

    class Here(Transport):
        def connect(self, node: str, argv: Words) -> ProcessChannel:
            asked.append(argv)
            return ProcessChannel(argv)

    job = build("./app", image=IMAGE, hosts="node01", image_cache=f"{tmp_path}/cache")
    plan = planner.make(job, Layout(("node01",), (1,), "asked", "all"), f"7-{os.getpid()}", True)  # looked for by it
    secret = "it's $HOME"
    environ = {"APPTAINER_DOCKER_PASSWORD": secret, "https_proxy": "http://proxy:3128", "LEFT": "here"}
    hosts = Here(("node01",), lambda *_: ())
    made = prepare(plan, steps.SITE, environ, queue.SimpleQueue(), Screen(), hosts.start)
    assert made.spec.container.image_name.startswith(f"{tmp_path}/cache/sha256-")
    assert (apptainer.parent / "apptainer.given").read_text() == f"{secret}\nhttp://proxy:3128\n\n"
    assert secret not in " ".join(asked[0])
