"""Nodes that call back. A shell starts their line on this machine, and gives it no input."""

from __future__ import annotations

import hashlib
import os
import queue
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from mnrun.jobspec import Way
from mnrun.model import Command, Words
from mnrun.reach import calling
from mnrun.reach.calling import Calls
from mnrun.reach.channel import Answer
from mnrun.reach.door import Caller
from mnrun.reach.program import UNHEARD
from mnrun.system.events import Ended, Event, Line
from unit.world import World

pytestmark = pytest.mark.usefixtures("started")
EVERY = bytes(range(256)) * 40_000  # more than sockets hold


@pytest.fixture
def started(world: World) -> Iterator[None]:
    with world.allowed():
        yield


def starter(node: str, line: str) -> Words:
    return ("sh", "-c", f"export MNRUN_CLIENT={node}\n{line}")


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(("a", "b"), starter, (), Way("call", "127.0.0.1", directory=str(tmp_path)))


def test_a_call_carries_any_bytes_both_ways(calls: Calls) -> None:
    program = 'test "$(sha256sum | cut -d" " -f1)" = "$0" && printf "%b" "\\303\\274" && echo no >&2 && exit 7'
    asked = calls.ask(("sh", "-c", program, hashlib.sha256(EVERY).hexdigest()), EVERY, seconds=30)
    assert asked == dict.fromkeys(("a", "b"), Answer(7, "ü", "no\n"))


@pytest.mark.parametrize("stream", ("", " >&2"))
def test_the_end_of_a_large_output_comes_though_the_input_is_not_read(calls: Calls, stream: str) -> None:
    """Linux resets a connection that is closed with input in it, and drops output that is still to be sent."""
    program = f"head -c 9000000 /dev/zero | tr '\\0' x{stream}; echo the end{stream}; exit 7"
    answer = calls.ask(("sh", "-c", program), EVERY, ("a",), 30)["a"]
    said = answer.err if stream else answer.out
    assert (answer.code, len(said), said[-8:]) == (7, 9_000_008, "the end\n")


def test_errors_may_look_like_the_end(calls: Calls) -> None:
    answer = calls.ask(("printf", "\\0a\\0" * 9), only=("a",), seconds=30)["a"]
    again = calls.ask(("sh", "-c", 'printf "\\0a\\0" >&2; exit 3'), only=("a",), seconds=30)["a"]
    assert (answer.out, again.err, again.code) == ("\0a\0" * 9, "\0a\0", 3)


def test_a_lease_is_heard_and_ends_with_its_connection(calls: Calls) -> None:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    lease = calls.start(
        "serve", Command(("sh", "-c", "read word; echo bye $MNRUN_NODE $word; cat"), ("a",)), {}, events, True
    )
    lease.send(b"hello\n")
    assert events.get(timeout=30) == Line("serve", "bye a hello")
    lease.close()
    assert events.get(timeout=30) == Ended("serve", 0)


def test_a_program_ends_though_nobody_reads_its_errors(calls: Calls) -> None:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    taken, closed = os.pipe()
    os.close(taken)
    command = Command(("sh", "-c", "echo no >&2; exec cat"), ("a",))
    running = calls.start("program", command, {}, events, False, output=(None, closed))
    assert running.wait(30) and events.get(timeout=30) == Ended("program", UNHEARD)
    os.close(closed)


@pytest.mark.parametrize("served", (False, True))
def test_a_call_without_a_thread_is_over(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: bool
) -> None:
    """As at the limit of processes. Its secret is gone, and the next call is taken."""
    expected = Caller("1", "0", Mock())
    if served:
        calls._door.expect(expected)
    with monkeypatch.context() as limited:
        limited.setattr(calling, "Thread", Mock(side_effect=RuntimeError("can't start new thread")))
        assert "new thread" in calls.ask(("true",), only=("a",), seconds=30)["a"].err
    calls._door.forget(expected)
    assert list(tmp_path.iterdir()) == [] and calls._door._expected == {}
    assert calls.ask(("true",), only=("a",), seconds=30)["a"].code == 0


def test_the_file_of_a_killed_launch_goes_with_a_later_one(tmp_path: Path) -> None:
    old, new = tmp_path / ".call.1", tmp_path / ".call.2"
    for file in (old, new):
        file.write_text("mnrun-call 0\n")
    os.utime(old, (0, 0))
    Calls(("a",), starter, (), Way("call", "127.0.0.1", directory=str(tmp_path)))
    assert list(tmp_path.iterdir()) == [new]


def test_nothing_of_a_secret_remains(calls: Calls, tmp_path: Path) -> None:
    calls.ask(("true",), seconds=30)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mask", (0o077, 0o777))
def test_a_node_can_read_the_secret_under_any_umask(tmp_path: Path, mask: int) -> None:
    calls = Calls(("a",), starter, (), Way("call", "127.0.0.1", directory=str(tmp_path / "new" / "jobs")))
    before = os.umask(mask)
    try:
        assert calls.ask(("true",), seconds=30)["a"].code == 0
    finally:
        os.umask(before)


def test_a_client_that_hangs_at_its_end_holds_nothing_up(tmp_path: Path) -> None:
    way = Way("call", "127.0.0.1", directory=str(tmp_path))
    calls = Calls(("a",), lambda node, line: ("sh", "-c", '(eval "$0"); sleep 60', line), (), way)
    for code in (7, 8):
        assert calls.ask(("sh", "-c", f"exit {code}"), seconds=10)["a"].code == code


def test_commands_of_a_node_run_at_once_by_one_client(tmp_path: Path) -> None:
    """The second ends the first."""
    started: list[str] = []

    def counted(node: str, line: str) -> Words:
        started.append(node)
        return starter(node, line)

    calls = Calls(("a",), counted, (), Way("call", "127.0.0.1", directory=str(tmp_path)))
    os.mkfifo(pipe := tmp_path / "pipe")
    first = calls.connect("a", ("sh", "-c", f"read word <{pipe}; exit $word"))
    second = calls.connect("a", ("sh", "-c", f"echo 7 >{pipe}"))
    assert second.receive(2) == first.receive(2) == b""
    assert (first.wait(), second.wait(), started) == (7, 0, ["a"])


def test_a_node_ends_with_the_launch(calls: Calls) -> None:
    calls.ask(("true",), only=("a",), seconds=30)
    client = calls._nodes["a"]._client
    assert client is not None and client.poll() is None
    calls.leave()
    assert client.wait(30) == 0
