"""Nodes that call by themselves, as pods do. Processes of this machine run what a pod runs."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mnrun.errors import NodeError
from mnrun.files import BASH, spoken
from mnrun.reach.channel import Answer
from mnrun.reach.gathering import Gathered
from unit.world import World

pytestmark = pytest.mark.usefixtures("started")
SECRET = "5" * 64


@pytest.fixture
def started(world: World) -> Iterator[None]:
    with world.allowed():
        yield


@pytest.fixture
def port() -> int:
    return random.SystemRandom().randrange(20000, 30000)


@contextmanager
def pod(name: str, port: int, secret: str = SECRET, wait: int = 10) -> Iterator[subprocess.Popen[str]]:
    words = (*BASH, "-c", spoken("call.sh"), "", name, str(port), "127.0.0.1", str(wait))
    environ = {"PATH": os.environ["PATH"], "mnrun_secret": secret, "POD": name}
    with subprocess.Popen(words, env=environ, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        yield process
        process.kill()


def gathered(port: int, seconds: float = 10) -> Gathered:
    found = Gathered(("a", "b"), SECRET, port)
    found.gather(seconds, "see its log")
    return found


def test_pods_run_commands_and_end(port: int) -> None:
    """Neither needs to be first. Their commands do not get the secret."""
    with pod("a", port) as first, pod("b", port) as second:
        transport = gathered(port)
        for code in (7, 8):
            asked = transport.ask(("sh", "-c", f'cat; echo "$POD${{mnrun_secret-}}"; exit {code}'), b"x", seconds=10)
            assert asked == {name: Answer(code, f"x{name}\n", "") for name in ("a", "b")}
        assert transport.leave() == ""
        assert (first.wait(10), second.wait(10)) == (0, 0)


def test_a_pod_that_never_calls(port: int) -> None:
    with pod("a", port) as here:
        with pytest.raises(NodeError, match=r"b: it did not call within 2 s; see its log"):
            gathered(port, 2)
        assert here.wait(10) == 0


def test_a_pod_with_another_secret(port: int) -> None:
    """It starts nothing, and its log has a reason."""
    with pod("a", port), pod("b", port, "6" * 64, 0) as other:
        with pytest.raises(NodeError, match=r"b: it did not call within 3 s; .*strangers"):
            gathered(port, 3)
        assert other.wait(10) == 75 and other.stderr is not None
        assert f"b: no mnrun at 127.0.0.1, port {port}: code 75" in other.stderr.read()


def test_a_launcher_that_is_gone(port: int) -> None:
    """A pod ends with its commands, and not well."""
    with pod("a", port) as here, pod("b", port):
        transport = gathered(port)
        running = transport.connect("a", ("sh", "-c", "read word; exit 3"))
        transport._nodes["a"]._calls.get(timeout=60).close()  # type: ignore[union-attr]
        transport._nodes["a"]._forget()
        running.shut()
        assert (running.receive(2), running.wait(), here.wait(10)) == (b"", 3, 76)
