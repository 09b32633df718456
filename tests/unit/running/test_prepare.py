"""PREPARE: what nodes say while an image of a registry is pulled, and what it comes to. The step is only played."""

from __future__ import annotations

import os
import queue
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import DeadlineError, JobEnded, LaunchError, NodeError, RuntimeFailed, SchedulerError
from mnrun.model import Command, Layout, Phase, Plan, Words
from mnrun.nodes import kit
from mnrun.planning import plan as planner
from mnrun.running.prepare import prepare
from mnrun.schedulers.hosts import leases, steps, transport
from mnrun.schedulers.hosts.transport import Transport
from mnrun.system.process import Event, ProcessChannel, Stopped
from mnrun.system.screen import Screen
from unit.samples import SITE, build, changed, make
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
            self.events.put(("line", "prepare", line))
        if self.over is not None:
            self.events.put(("ended", "prepare", self.over))

    def pulse(self) -> None:
        self.sent += b"pulse"

    def close(self) -> None:
        if self.over is None:
            self.events.put(("ended", "prepare", 0))

    def end(self, signum: int) -> None:
        self.signals.append(signum)


def carried_out(step: Step, *before: Event, wait: int = 60) -> Plan:
    """PREPARE of a job of two nodes; everything of the step has been heard at its end."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    for event in before:
        events.put(event)
    plan = make(build("./app", image=IMAGE), 1, 1)
    plan = replace(plan, spec=changed(plan.spec, pull_timeout=wait))
    try:
        return prepare(plan, SITE, {}, events, Screen(), step.start)
    finally:
        assert events.empty()
        assert step.signals == []


def images(*digests: str) -> Sequence[str]:
    return [f"image node{number:02} {digest} {HERE}" for number, digest in enumerate(digests, 1)]


def test_an_image_that_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    """The steps that come after name its place; what goes down is the script; nothing is said of what is usual."""
    step = Step(*images("sha256:1", "sha256:1"))
    plan = carried_out(step)
    assert (
        step.sent == kit.prepare_input(plan.spec, {"APPTAINER_DOCKER_PASSWORD": "of no matter"}, pulse=True) + b"pulse"
    )
    assert plan.spec.container.image_name == HERE
    assert HERE in plan.step(Phase.SERVE).argv
    assert IMAGE in step.argv
    assert capsys.readouterr().err == ""


def test_an_image_that_is_pulled(capsys: pytest.CaptureFixture[str]) -> None:
    """It is said that this takes time, how long it may, and where the image is then."""
    carried_out(Step("here node01", "pulling node01 layer 1 of 3", *images("sha256:1", "sha256:1")))
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"mnrun: pulling {IMAGE}, for 60 s at most (--pull-timeout)"
    assert said[1].startswith(f"mnrun: {IMAGE} is {HERE}, after ")


def test_the_same_image_by_names_of_the_nodes_own() -> None:
    """An engine's id differs from store to store: the reference then is what all understand."""
    plan = carried_out(Step("image node01 sha256:1 id1", "image node02 sha256:1 id2"))
    assert plan.spec.container.image_name == IMAGE


# what is said -> the failure with its whole line
ENDS: dict[str, tuple[Step, LaunchError]] = {
    "differing digests": (
        Step(*images("sha256:1", "sha256:2")),
        NodeError(
            f"{IMAGE} is not the same on all nodes: node01: sha256:1; node02: sha256:2",
            "use --pull always, or load the same image on each node",
        ),
    ),
    "no such tag, on all": (
        Step("unpulled node01 no such tag", "unpulled node02 no such tag"),
        RuntimeFailed("node[01-02]: no such tag"),
    ),
    "a node without the runtime": (
        Step(images("sha256:1")[0], "fail node02 no apptainer"),
        NodeError("1 of 2 nodes not ready: node02: no apptainer"),
    ),
    "a node that is lost": (
        Step(images("sha256:1")[0], "lost node02 the connection to it broke"),
        NodeError("node02: the connection to it broke"),
    ),
    "a step that ends": (
        Step("srun: error: what", over=1),
        NodeError(f"the step that brings {IMAGE} ended (srun: error: what)"),
    ),
    "a step that ends after a failure": (
        Step("fail node01 no apptainer", over=1),
        NodeError("1 of 2 nodes not ready: node01: no apptainer"),
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_how_it_fails(end: str, mocker: MockerFixture) -> None:
    """One line that says where, and why."""
    mocker.patch("mnrun.schedulers.slurm.ending", return_value="RUNNING")
    step, expected = ENDS[end]
    with pytest.raises(LaunchError) as wrong:
        carried_out(step)
    assert (type(wrong.value), str(wrong.value)) == (type(expected), str(expected))


@pytest.mark.parametrize(("state", "kind"), [("CANCELLED", JobEnded), ("TIMEOUT", DeadlineError)])
def test_a_job_that_ends_meanwhile(state: str, kind: type[LaunchError], mocker: MockerFixture) -> None:
    """Slurm knows which it was."""
    mocker.patch("mnrun.schedulers.slurm.ending", return_value=state)
    mocker.patch("mnrun.schedulers.slurm.time_limit", return_value="")
    with pytest.raises(kind):
        carried_out(Step(over=143))


def test_a_pull_that_takes_too_long() -> None:
    """Each node with how far it has come, and the option that gives it longer."""
    with pytest.raises(DeadlineError) as wrong:
        carried_out(Step("pulling node01 layer 1 of 3"), wait=0)
    assert str(wrong.value) == (
        f"{IMAGE} is not there after 0 s: node01: layer 1 of 3; node02: no answer from it; "
        "--pull-timeout allows more time for the phase prepare"
    )


def test_a_signal_meanwhile() -> None:
    """The lease is closed, and the step's end heard."""
    with pytest.raises(Stopped) as stopped:
        carried_out(Step(), ("signal", "", int(signal.SIGTERM)))
    assert stopped.value.signum == signal.SIGTERM


def test_an_image_that_is_a_file_needs_none_of_it() -> None:
    """No step, and the plan as it was."""
    plan = make(build("./app"), 1, 1)
    step = Step()
    assert prepare(plan, SITE, {}, queue.SimpleQueue(), Screen(), step.start) is plan
    assert step.argv == ()


def test_no_srun() -> None:
    """One line."""

    def absent(*words: object, **more: object) -> Any:
        raise FileNotFoundError

    with pytest.raises(SchedulerError, match=r"^srun is not on PATH$"):
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
    """The stand-in: in PATH, on what is not this machine's but plays two hosts."""
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
    """A host that converts an image for longer than any may be silent is not lost; and it has what leads to a
    registry, of our environment, by its standard input alone."""
    mocker.patch.object(kit, "BEAT", 0.2)
    mocker.patch.object(leases, "TICK", 0.1)
    mocker.patch.object(leases, "LOST", 3.0)
    alive: list[str] = []
    asked: list[Words] = []

    class Hearing(leases.ChannelLease):
        def _hear(self, kind: str, line: str) -> None:
            alive.extend(line.split()[:1])
            if alive.count("alive") == 20:  # 4 s
                (apptainer.parent / "apptainer.go").touch()
            super()._hear(kind, line)

    mocker.patch.object(transport, "ChannelLease", Hearing)

    class Here(Transport):
        def connect(self, node: str, argv: Words) -> ProcessChannel:
            asked.append(argv)
            return ProcessChannel(argv)

        def prompt(self, *_: object) -> Any:
            raise NotImplementedError

    job = build("./app", image=IMAGE, hosts="node01", image_cache=f"{tmp_path}/cache")
    plan = planner.make(job, Layout(("node01",), (1,), "asked", "all"), f"7-{os.getpid()}")  # looked for by it
    secret = "it's $HOME"
    environ = {"APPTAINER_DOCKER_PASSWORD": secret, "https_proxy": "http://proxy:3128", "LEFT": "here"}
    hosts = Here(("node01",))
    made = prepare(plan, steps.SITE, environ, queue.SimpleQueue(), Screen(), hosts.start)
    assert made.spec.container.image_name.startswith(f"{tmp_path}/cache/sha256-")
    assert (apptainer.parent / "apptainer.given").read_text() == f"{secret}\nhttp://proxy:3128\n\n"
    assert secret not in " ".join(asked[0])
