"""Nodes that are reached by a client program, in whose place a shell starts the line on this machine."""

from __future__ import annotations

import hashlib
import queue
from collections.abc import Iterator

import pytest

from mnrun.model import Command, Words
from mnrun.reach.channel import Answer
from mnrun.reach.transport import Transport
from mnrun.system.events import Ended, Event
from unit.world import World

pytestmark = pytest.mark.usefixtures("started")
EVERY = bytes(range(256)) * 4000
SSH_FAILED = 255


@pytest.fixture
def started(world: World) -> Iterator[None]:
    with world.allowed():
        yield


def client(node: str, line: str, terminal: bool) -> Words:
    return ("sh", "-c", f"echo welcome; export MNRUN_CLIENT={node}\n{line}")


def hosts(*here: str) -> Transport:
    return Transport(("a", "b"), client, here, SSH_FAILED)


def test_a_client_carries_any_bytes_both_ways() -> None:
    """More than a pipe holds, and the end of the input is the command's."""
    program = 'test "$(sha256sum | cut -d" " -f1)" = "$0" && printf "%b" "\\303\\274" && exit 7'
    asked = hosts().ask(("sh", "-c", program, hashlib.sha256(EVERY).hexdigest()), EVERY, seconds=20)
    assert asked == dict.fromkeys(("a", "b"), Answer(7, "ü", ""))


def test_this_machine_needs_no_client() -> None:
    """Its words start as they are, and a missing program is an exit code."""
    asked = hosts("a").ask(("sh", "-c", 'echo "${MNRUN_CLIENT-}"'), seconds=10)
    assert {node: answer.out for node, answer in asked.items()} == {"a": "\n", "b": "b\n"}
    assert hosts("a").ask(("/nowhere",), only=("a",), seconds=10)["a"].code == 127


def test_a_client_that_does_not_reach_its_node() -> None:
    """Its own code and errors are those of the connection."""
    lost = Transport(("a",), lambda *_: ("sh", "-c", "echo no route >&2; exit 255"), (), SSH_FAILED)
    assert lost.ask(("true",), seconds=10)["a"] == Answer(None, "", "no route\n")


@pytest.mark.parametrize(("words", "code"), [("exit 255", 255), ("exit 3", 3)])
def test_a_program_that_ends_as_a_client_fails(words: str, code: int) -> None:
    """Its code is its own: the lease alone says whether its node is lost."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    hosts().start("run", Command(("sh", "-c", words), ("a",)), {}, events, piped=False)
    assert events.get(timeout=60) == Ended("run", code)
