"""Starting one command and hearing of it. Real processes, small ones: `sh` in a folder of the test's own."""

from __future__ import annotations

import os
import queue
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnrun.errors import NodeError
from mnrun.model import Command, Listed
from mnrun.system import process
from mnrun.system.events import Ended, Event, Line, Noise, Pipe
from mnrun.system.process import Child
from unit.conftest import Shell
from unit.texts import Refused
from unit.world import World
from unit.wrappers.node import executable


class Starter:
    """transports.start, with what its process said up to its end."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def start(self, script: str, piped: bool = True) -> Child:
        environ = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        return process.start("step", Command(("sh", "-c", script)), environ, self.events, piped)

    def said(self) -> list[Event]:
        found = [self.events.get(timeout=60)]
        while not isinstance(found[-1], Ended):
            found.append(self.events.get(timeout=60))
        return found


@pytest.fixture
def starter(world: World) -> Iterator[Starter]:
    with world.allowed():
        yield Starter()


def close(running: Child) -> None:
    assert running.process.stdin is not None
    running.process.stdin.close()


def test_lines_then_the_end(starter: Starter) -> None:
    close(starter.start("echo one; printf 'two\\nthree'; exit 7"))
    assert starter.said() == [
        Line("step", "one"),
        Line("step", "two"),
        Line("step", "three"),
        Ended("step", 7),
    ]


def test_errors_are_noise(starter: Starter) -> None:
    close(starter.start("echo oops >&2"))
    assert starter.said() == [Noise("step", "oops"), Ended("step", 0)]


def test_what_nodes_say_to_each_other_comes_together(starter: Starter) -> None:
    close(starter.start("echo ask a b >&2; exec 2>&-; printf 'one\nask a b\nanswer b a\ntwo\nask c d\n'"))
    said = starter.said()
    said.remove(Noise("step", "ask a b"))
    assert said == [
        Line("step", "one"),
        Pipe("step", ("ask a b", "answer b a")),
        Line("step", "two"),
        Pipe("step", ("ask c d",)),
        Ended("step", 0),
    ]


def test_bytes_that_are_no_text(starter: Starter) -> None:
    close(starter.start("printf 'a\\377b\\n'"))
    assert starter.said()[0] == Line("step", "a\N{REPLACEMENT CHARACTER}b")


def test_a_signals_death_is_told_as_a_shell_tells_it(starter: Starter) -> None:
    """128 + n."""
    close(starter.start("kill -KILL $$"))
    assert starter.said() == [Ended("step", 137)]


def test_the_lease_is_its_input(starter: Starter) -> None:
    running = starter.start("read -r line; echo got $line; cat >/dev/null; echo end")
    assert running.process.stdin is not None
    running.process.stdin.write(b"hello\n")
    assert starter.events.get(timeout=60) == Line("step", "got hello")
    close(running)
    assert starter.said() == [Line("step", "end"), Ended("step", 0)]


def test_a_session_of_its_own(starter: Starter) -> None:
    running = starter.start("cat >/dev/null")
    assert os.getsid(running.process.pid) == running.process.pid
    close(running)
    starter.said()


def test_what_drives_the_terminal_stays_in_our_session(starter: Starter, world: World) -> None:
    argv = ("sh", "-c", "echo said >&2; exec sleep 60")
    running = process.start("step", Command(argv), dict(os.environ), starter.events, False, terminal=True, noise=True)
    assert starter.events.get(timeout=60) == Noise("step", "said")
    assert (os.getsid(running.process.pid), os.getpgid(running.process.pid)) == (os.getsid(0), os.getpgrp())
    with world.allowed():
        running.end(signal.SIGKILL)
    assert starter.said() == [Ended("step", 137)]


def test_ending_reaches_the_children_too(starter: Starter) -> None:
    running = starter.start("sleep 60 & wait")
    running.end(signal.SIGKILL)
    assert starter.said() == [Ended("step", 137)]
    running.process.wait()
    running.end(signal.SIGKILL)


def test_a_held_step_is_not_ended_with_us(monkeypatch: pytest.MonkeyPatch, starter: Starter) -> None:
    """The lease's end is enough, and srun would kill its guards; the program's has the second net."""
    monkeypatch.setattr(process, "tied", lambda argv: ("sh", "-c", "exit 3"))
    close(starter.start("exit 4"))
    assert starter.said() == [Ended("step", 4)]
    starter.start("exit 4", piped=False)
    assert starter.said() == [Ended("step", 3)]


@pytest.mark.parametrize(("code", "tied"), [(0, True), (1, False)])
def test_a_setpriv_without_pdeathsig(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, tied: bool
) -> None:
    executable(tmp_path / "bin/setpriv", f"exit {code}")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setattr(process, "_setpriv", process._setpriv.__wrapped__)
    with world.allowed():
        words = process.tied(("srun",))
    by_setpriv = (str(tmp_path / "bin/setpriv"), "--pdeathsig", "TERM")
    assert words == (*(by_setpriv if tied else (sys.executable, "-I", "-S", "-c", process._TIED)), "srun")


def test_a_command_tied_by_python(monkeypatch: pytest.MonkeyPatch, sh: Shell, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "_setpriv", lambda: "")
    look = (
        "grep SigIgn /proc/self/status >ignored; trap 'echo told >told; exit' TERM; : >up; while :; do sleep 0.05; done"
    )
    script = """sh -c '"$@" & wait' x "$@" & parent=$!
    until [ -e up ]; do sleep 0.05; done; kill -KILL $parent
    until [ -e told ]; do sleep 0.05; done; cut -f2 ignored"""
    assert int(sh(script, *process.tied(("sh", "-c", look))), 16) & (1 << 12 | 1 << 24) == 0


def test_no_such_program(starter: Starter) -> None:
    with pytest.raises(FileNotFoundError):
        process.start("step", Command(("/nowhere/srun",)), {}, starter.events, True)


@pytest.mark.parametrize("piped", [True, False])
def test_a_list_that_is_no_word_is_a_file(starter: Starter, tmp_path: Path, piped: bool) -> None:
    """B2: longer than Linux lets a word be. The process reads it where the word says; nobody else can, as it has no
    name, and the process is handed nothing else of ours."""
    text = "".join(f"node{number},\n" for number in range(100_000))
    place = tmp_path / "read"
    look = 'stat -L -c %a:%h "${1#*=}" >"$0.mode"; ls /proc/self/fd >"$0.open"; cat "${1#*=}" >"$0"'
    argv = ("sh", "-c", look, str(place), Listed("--nodelist=", "node[0-99999]*1", text))
    running = process.start("step", Command(argv), {"PATH": os.environ["PATH"]}, starter.events, piped)
    running.close()
    assert starter.said() == [Ended("step", 0)]
    assert place.read_text() == text
    assert (tmp_path / "read.mode").read_text() == "600:0\n"  # and no name
    assert len((tmp_path / "read.open").read_text().split()) == 5  # the usual three, the list, and ls's own


@pytest.mark.parametrize("words", ["exit 3", "echo one; echo two >&2; exit 3", "sleep 60"])
def test_a_question_without_an_answer(refused: Refused, world: World, words: str) -> None:
    with world.allowed():
        assert process.ask(("echo", "hello")) == "hello\n"
    with refused(NodeError), world.allowed():
        process.ask(("sh", "-c", words), 0.3 if "sleep" in words else process.PROBE)


def test_a_question_to_a_program_that_is_not_there(refused: Refused, world: World) -> None:
    with refused(NodeError), world.allowed():
        process.ask(("/nowhere/ssh",))


def test_no_input_in_the_background(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "background", lambda: True)
    before, (out, into) = os.dup(0), os.pipe()
    os.dup2(out, 0)
    try:
        starter.start("[ /dev/stdin -ef /dev/null ] && [ -c /dev/stdin ]", piped=False)
        assert starter.said() == [Ended("step", 0)]
    finally:
        os.dup2(before, 0)
        for fd in (before, out, into):
            os.close(fd)
