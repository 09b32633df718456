"""Channels to several hosts, and what is made of them: with channels that are only played."""

from __future__ import annotations

import os
import queue
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from pytest_mock import MockerFixture

from mnrun.model import Command, Words
from mnrun.schedulers.hosts import channel, leases, names, pdsh, transport
from mnrun.schedulers.hosts.channel import Answer, Channel, Marked
from mnrun.schedulers.hosts.leases import ChannelLease, Lease
from mnrun.schedulers.hosts.pdsh import PdshTransport
from mnrun.schedulers.hosts.program import Program
from mnrun.schedulers.hosts.transport import Transport
from mnrun.system.process import Event
from unit.conftest import Shell
from unit.samples import job_spec
from unit.world import World


class Played:
    """A command on a host that says these chunks, hears what it is sent, and ends when its input does or at once."""

    def __init__(self, *out: bytes, err: bytes = b"", code: int | None = 0, stays: bool = False) -> None:
        self._said = {1: iter(out), 2: iter([err] if err else [])}
        self._code = code
        self._stays = stays
        self._over: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.heard = b""

    def receive(self, stream: int) -> bytes:
        chunk = next(self._said[stream], b"")
        if not chunk and self._stays:
            self._over.get(timeout=10)
            self._over.put(None)
        return chunk

    def send(self, data: bytes) -> None:
        self.heard += data

    def shut(self) -> None:
        self._over.put(None)

    def wait(self) -> int | None:
        return self._code

    def cut(self) -> None:
        self._code = None
        self._over.put(None)


class Unending(Played):
    """A command that ends only where it is cut."""

    def __init__(self) -> None:
        super().__init__(stays=True)

    def shut(self) -> None:
        pass


class Hosts(Transport):
    """Hosts whose channels a test opens by a function of its own."""

    def __init__(self, hosts: Words, opener: Callable[[str, Words], Channel]) -> None:
        super().__init__(hosts)
        self.opener = opener
        self.prompts: list[object] = []

    def connect(self, node: str, argv: Words) -> Channel:
        return self.opener(node, argv)

    def prompt(self, name: str, node: str, argv: Words, environ: object, events: object) -> Any:
        self.prompts.append((name, node, argv))


def heard(events: queue.SimpleQueue[Event]) -> Iterator[Event]:
    """All that is said until the end."""
    while True:
        event = events.get(timeout=10)
        yield event
        if event[0] == "ended":
            return


def test_lines_come_whole() -> None:
    """However they were cut on their way; the last needs no end, and no byte is an error."""
    played = Played(b"one\ntw", b"o\n\nth", b"r\xff")
    assert list(channel.lines(played, 1)) == ["one", "two", "", "thr�"]


def test_every_host_is_asked() -> None:
    """With the words' input; where a channel cannot be opened or breaks there is no code."""
    opened: dict[str, Played] = {}

    def opener(node: str, argv: Words) -> Played:
        if node == "c":
            raise OSError("no more sessions")
        opened[node] = Played(b"hello ", node.encode(), err=b"hm", code=None if node == "b" else 3)
        return opened[node]

    hosts = Hosts(("a", "b", "c"), opener)
    assert hosts.ask(("true",), b"given") == {
        "a": Answer(3, "hello a", "hm"),
        "b": Answer(None, "hello b", "hm"),
        "c": Answer(None, "", "no more sessions"),
    }
    assert opened["a"].heard == b"given"
    assert list(hosts.ask(("true",), only=("b",))) == ["b"]
    assert hosts.give(("cat",), lambda: iter((b"x", b"y")), ("a",), 10)["a"].code == 3
    assert opened["a"].heard == b"xy"


def marked(played: Played) -> tuple[Answer, Played]:
    """The answer of a command that a login shell starts, to an input."""
    return channel.answer(Marked(played, "MARK"), (b"in",), 10), played


def test_what_a_login_shell_prints_does_not_count() -> None:
    """(F1) Neither its output nor its errors, however they are cut, and no newline is at their end."""
    said, played = marked(Played(b"welcome\n4", b"2MA", b"RK\nout", b"MARK\n", err=b"noise\nMARK\nerr", code=7))
    assert (said, played.heard) == (Answer(7, "outMARK\n", "err"), b"in")


def test_a_login_shell_gets_no_input() -> None:
    """(F1) Its files may read. So the input waits for the mark, and is not sent where there is none."""
    waiting = Played(stays=True)
    sender = channel.thread(Marked(waiting, "MARK").send, b"in")
    sender.join(0.05)
    assert sender.is_alive()
    assert waiting.heard == b""


@pytest.mark.parametrize(
    ("played", "err"),
    [
        (Played(b"welcome\n", err=b"Permission denied (publickey).\n", code=None), "Permission denied (publickey).\n"),
        (Played(b"welcome\n", err=b"noise\n", code=3), f"its login shell ended with 3: {channel.FILES}"),
        (Played(b"MARK\nout", err=b"noise\n", code=3), ""),
    ],
)
def test_a_login_shell_that_ends_itself(played: Played, err: str) -> None:
    """(F1) `exit 3` in a file is told as that. ssh's own errors stay. A file may have closed the errors."""
    said, _ = marked(played)
    assert said.err == err
    assert said.out in ("", "out")


def test_a_login_shell_that_does_not_end() -> None:
    """(F1)"""
    said = channel.answer(Marked(Unending(), "MARK"), (b"in",), 0.1)
    assert (said.late, said.err) == (True, f"its login shell did not begin in time: {channel.FILES}")


def test_what_login_shells_print_under_pdsh() -> None:
    """(F1) A line before the mark of its host is dropped, and errors come at the end if a host does not begin."""
    nodes = ("a", "b")
    said = ["welcome", "here b", "xMARK.a", "42", "here a", "here b", "MARK.b", "here b", "more"]
    assert list(pdsh.begun(said, "MARK", nodes, errors=False)) == ["here a", "here b", "more"]
    broken = ["ssh: no route", "pdsh@login: b: ssh exited with exit code 255", "MARK.a"]
    assert list(pdsh.begun(broken, "MARK", nodes, errors=True)) == [broken[1], broken[0]]
    assert list(pdsh.begun(broken[:1], "MARK", nodes, errors=False)) == []


def test_a_host_that_answers_too_late() -> None:
    """It is given up, which is something else than a connection that broke."""
    hosts = Hosts(("a", "b"), lambda node, argv: Unending() if node == "b" else Played())
    answers = hosts.ask(("sha256sum",), seconds=0.1)
    assert answers == {"a": Answer(0, "", ""), "b": Answer(None, "", "", late=True)}


def test_ctrl_c_ends_commands_on_hosts(world: World) -> None:
    """It does not wait for the last of them, as for the copy of a large image."""
    opened, both = {"a": Unending(), "b": Unending()}, threading.Barrier(2)
    hosts = Hosts(("a", "b"), lambda node, argv: opened[node])
    main = threading.main_thread().ident
    assert main is not None

    def chunks() -> Iterator[bytes]:
        if both.wait(10) == 0:
            signal.pthread_kill(main, signal.SIGINT)
        yield b"x"

    with pytest.raises(KeyboardInterrupt), world.allowed():
        hosts.give(("cat",), chunks, ("a", "b"), 60)
    assert [channel.wait() for channel in opened.values()] == [None, None]


def test_a_prompt_is_on_the_commands_host() -> None:
    """Its words as they are behind the host's name, by what the transport has for it."""
    hosts = Hosts(("a", "b"), lambda node, argv: Played())
    hosts.start("run", Command(("sh",), ("b",)), {}, queue.SimpleQueue(), piped=False, terminal=True)
    assert hosts.prompts == [("run", "b", ("env", "MNRUN_NODE=b", "sh"))]


def test_a_program_whose_reader_is_slow() -> None:
    """Another program may have made the pipe non-blocking. The whole output arrives all the same."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    size = 1 << 20
    program = Program("run", "n1", Played(b"x" * size), events, (writer, None))
    assert not program.wait(0.1)
    with os.fdopen(reader, "rb") as file:
        assert len(file.read(size)) == size
    assert program.wait(10)
    assert list(heard(events)) == [("ended", "run", 0)]
    os.close(writer)


def leased(**played: Played) -> tuple[ChannelLease, queue.SimpleQueue[Event]]:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    return ChannelLease("serve", played, events), events


def test_a_lease_is_one_to_its_owner() -> None:
    """Words go to all or to one; the guards' lines come up; the worst code is that of the whole."""
    a, b = Played(b"ready a\n", stays=True), Played(b"alive b\n", b"bye b\n", err=b"srun: x", stays=True, code=4)
    lease, events = leased(a=a, b=b)
    lease.send(b"kit")
    lease.send(b"mine", "a")
    lease.close()
    said = list(heard(events))
    assert said[-1] == ("ended", "serve", 4)
    assert set(said[:-1]) == {("line", "serve", "ready a"), ("line", "serve", "bye b"), ("noise", "serve", "srun: x")}
    assert (a.heard, b.heard) == (b"kitmine", b"kit")
    assert lease.wait(10)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (Played(code=None), "lost b the connection to it broke"),
        (Played(code=7), "lost b its guard ended with 7"),
    ],
)
def test_a_host_that_ends_too_early_is_lost(other: Played, said: str) -> None:
    """By its name, and why; the others are served on."""
    a = Played(stays=True)
    lease, events = leased(a=a, b=other)
    assert events.get(timeout=10) == ("line", "serve", said)
    lease.send(b"on")
    lease.close()
    assert list(heard(events))[-1][0] == "ended"
    assert a.heard == b"on"


def test_a_silent_host_is_lost(mocker: MockerFixture) -> None:
    """Whose guard has spoken before: its connection may live on without it. Who lives is greeted."""
    mocker.patch.object(leases, "TICK", 0.01)
    mocker.patch.object(leases, "LOST", 0.05)
    lease, events = leased(a=Played(b"alive a\n", stays=True))
    kind, _, line = events.get(timeout=10)
    assert (kind, str(line).startswith("lost a no answer from it for ")) == ("line", True)
    assert list(heard(events))[-1] == ("ended", "serve", channel.GONE)
    assert lease.wait(10)


class Hours(Lease):
    """One whose ticks are told: after how many seconds each comes, and who has spoken since the one before."""

    def __init__(self, mocker: MockerFixture, *ticks: tuple[float, str]) -> None:
        super().__init__("serve", ("a", "b"), queue.SimpleQueue())
        self._ticks = iter(ticks)
        self._now = 0.0
        self.lost: list[tuple[float, str]] = []
        self.greeted: list[float] = []
        mocker.patch("mnrun.schedulers.hosts.leases.time.monotonic", side_effect=lambda: self._now)
        mocker.patch.object(self._ended, "wait", side_effect=self._tock)
        for node in ("a", "b"):
            self._hear("line", f"alive {node}")
        self._tick()

    def _tock(self, seconds: float) -> bool:
        tick = next(self._ticks, None)
        if tick is None:
            return True
        self._now += tick[0]
        for node in tick[1]:
            self._hear("line", f"alive {node}")
        return False

    def send(self, data: bytes, node: str = "") -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def end(self, signum: int) -> None:
        raise NotImplementedError

    def _give_up(self, node: str) -> None:
        self.lost.append((self._now, node))

    def _greet(self, nodes: Sequence[str]) -> None:
        self.greeted.append(self._now)


@pytest.mark.parametrize(
    ("ticks", "lost"),
    [
        ([(10, "ab"), (36, ""), (10, "ab"), (10, "ab")], []),  # their words are read after the tick
        ([(10, "ab"), (36, ""), (10, "a"), (10, "a")], [(56.0, "b")]),
        ([(10, "ab"), (36, "ab"), (10, "ab"), (3600, ""), (10, "ab")], []),
        ([(10, "ab"), (10, "a"), (10, "a"), (10, "a"), (10, "a")], [(50.0, "b")]),
    ],
)
def test_who_was_stopped_himself_calls_nobody_silent(
    mocker: MockerFixture, ticks: list[tuple[float, str]], lost: list[tuple[float, str]]
) -> None:
    """B5: after Ctrl-Z, or in a virtual machine that was frozen, the clock has gone on and words wait unread. Who was
    there is greeted at once, before he takes our silence for the end."""
    hours = Hours(mocker, *ticks)
    assert hours.lost == lost
    assert {sum(seconds for seconds, _ in ticks[: n + 1]) for n in range(len(ticks)) if ticks[n][0] > 15} <= {
        *hours.greeted
    }


# Real processes in place of hosts, as many as the system lets us open, or more.
MANY = """
import queue, sys
from mnrun.model import Command
from mnrun.schedulers.hosts import transport
from mnrun.system import process
class Here(transport.Transport):
    def connect(self, node, argv): return process.ProcessChannel(argv)
    def prompt(self, *_): raise NotImplementedError
count = int(sys.argv[1])
transport.room(count)
hosts = Here(tuple(f"n{n}" for n in range(count)))
events = queue.SimpleQueue()
lease = hosts.start("serve", Command(("sh", "-c", "echo ready; exec cat"), hosts.hosts), {}, events, piped=True)
said = [events.get(timeout=20)[2] for _ in range(count)]
lease.close()
assert lease.wait(20)
print(said.count("ready"), *{line.split(" ", 2)[2] for line in said if line != "ready"}, sep="|")
"""


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ("ulimit -S -n 64; ulimit -H -n 4096", "120"),
        ("ulimit -n 100", r"\d\d\|too many open files here: 120 hosts, limit 100 \(ulimit -n\)"),
    ],
)
def test_more_hosts_than_files_may_be_open(sh: Shell, limits: str, said: str) -> None:
    """B4: the soft limit is no limit; beyond the hard one it is said what is wrong, and not that a connection broke."""
    line = f'{limits}; PYTHONPATH="$1" exec "$2" -c "$3" 120'
    found = sh(line, str(Path(transport.__file__).parents[3]), sys.executable, MANY, shell="bash").decode().splitlines()
    assert re.fullmatch(said, found[0]), found


NASTY = ("bash", "{node}", "/data/{node}:/d", "MNRUN_NODE={node}", "100%h")


def test_words_for_several_hosts_are_written_for_each() -> None:
    """The word that says on which it is; a user's own words stay as they are."""
    opened: list[tuple[str, Words]] = []

    def opener(node: str, argv: Words) -> Played:
        opened.append((node, argv))
        return Played()

    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    hosts = Hosts(("n1", "n2"), opener)
    hosts.start("serve", Command(NASTY, ("n1", "n2")), {}, events, piped=True)
    assert sorted(opened) == [(n, ("env", f"MNRUN_NODE={n}", *NASTY)) for n in ("n1", "n2")]
    list(heard(events))
    hosts.start("run", Command(NASTY, ("n1",)), {}, events, piped=False)
    assert opened[-1] == ("n1", ("env", "MNRUN_NODE=n1", *NASTY))
    list(heard(events))


# pdsh, whose one process says what all hosts do


class Output(Played):
    """pdsh itself: it wants no input, and ends once its hosts have."""

    def shut(self) -> None:
        pass


def _await_calls(started: MagicMock, count: int) -> None:
    """Wait until so many programs have started: the last one is a thread's, which outlives the lease's own end."""
    deadline = time.monotonic() + 60
    while started.call_count < count:
        assert time.monotonic() < deadline, started.call_args_list
        time.sleep(0.01)


TOLD = '#!/bin/sh\nprintf "%s\\0" "$MNRUN_NODE" "$@"\n'


def test_what_pdsh_is_told(sh: Shell, mocker: MockerFixture) -> None:
    """Our word is each host's name, %h, and a user's words stay; no host key is taken on trust."""
    mocker.patch("mnrun.schedulers.hosts.pdsh.tied", side_effect=lambda argv: argv)
    started = mocker.patch.object(pdsh, "ProcessChannel", side_effect=lambda *words, **_: Output(code=0))
    job = job_spec(hosts=names.parse("n1,n2"))
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    hosts = PdshTransport(job, {})
    command = Command(("bash", "-p", "-c", "text", "/tmp/mnrun.7", *NASTY), ("n1", "n2"), "/tmp/mnrun.7.lease")
    hosts.start("serve", command, {}, events, piped=True).close()
    list(heard(events))
    _await_calls(started, 2)
    hosts.ask(("true",), only=("n1",))
    line = started.call_args_list[0].args[0][-1].replace("%%", "\0").replace("%h", "n1").replace("\0", "%")
    # what the guard's own word finds there is known by the job's directory: so a script in its place says what it got
    said = sh(f'mkdir bin; printf %s "$1" >bin/bash; chmod 700 bin/bash; PATH=$PWD/bin:$PATH; {line}', TOLD).decode()
    assert said.split("\0")[-len(NASTY) - 1 : -1] == list(NASTY)
    assert re.match(r"mnrun\.[0-9a-f]{16}\.n1\nn1\0", said)
    assert "StrictHostKeyChecking=yes" in started.call_args_list[0].kwargs["environ"]["PDSH_SSH_ARGS_APPEND"]
    (ssh,) = [call.args[0] for call in started.call_args_list if call.args[0][0] == "ssh"]
    assert "StrictHostKeyChecking=yes" in ssh


def test_pdsh_starts_all_hosts_at_the_same_time(mocker: MockerFixture) -> None:
    """B4: it starts no other before one of the first 256 has ended, and these are as long there as the job."""
    mocker.patch("mnrun.schedulers.hosts.pdsh.tied", side_effect=lambda argv: argv)
    started = mocker.patch.object(pdsh, "ProcessChannel", side_effect=lambda *words, **_: Output(code=0))
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    hosts = PdshTransport(job_spec(hosts=names.parse("n[1-300]")), {})
    hosts.start("serve", Command(("true",), hosts.hosts, "/tmp/mnrun.7.lease"), {}, events, piped=True).close()
    list(heard(events))
    _await_calls(started, 2)
    argv = started.call_args_list[0].args[0]
    assert argv[argv.index("-f") + 1] == "300"


class Fifos:
    """In place of the FIFOs on the hosts."""

    def __init__(self, output: Played) -> None:
        self._output = output
        self.said: list[tuple[object, tuple[str, ...]]] = []

    def pour(self, data: bytes, nodes: Sequence[str]) -> None:
        self.said.append((data, tuple(nodes)))

    def say(self, word: str, nodes: Sequence[str]) -> None:
        self.said.append((word, tuple(nodes)))
        if word == "over":
            self._output.cut()


def test_what_goes_down_by_pdsh() -> None:
    """Mere words by a pdsh, everything else by an ssh of its own; to all, or to one; the end is a word, too."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    output = Output(stays=True)
    fifos = Fifos(output)
    lease = pdsh.PdshLease("serve", ("a", "b"), output, events, fifos, "MARK")  # type: ignore[arg-type]
    for data, node in ((b"12\nkit", ""), (b"file x 1\nx", "b"), (b"go\n", ""), (b"signal USR1\n", "a")):
        lease.send(data, node)
    lease.close()
    list(heard(events))
    assert fifos.said == [
        (b"12\nkit", ("a", "b")),
        (b"file x 1\nx", ("b",)),
        ("go", ("a", "b")),
        ("signal USR1", ("a",)),
        ("over", ("a", "b")),
    ]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"pdsh@login: b: ssh exited with exit code 255\n", "lost b the connection to it broke"),
        (b"pdsh@login: b: ssh exited with exit code 1\n", "lost b its guard ended with 1"),
        (b"pdsh@login: c: ssh exited with exit code 1\n", "pdsh@login: c: ssh exited with exit code 1"),
    ],
)
def test_what_pdsh_complains_of(said: bytes, why: str) -> None:
    """A host of ours that has ended, in our words; of others nothing is understood."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    output = Output(err=said)
    pdsh.PdshLease("serve", ("a", "b"), output, events, Fifos(output), "MARK")  # type: ignore[arg-type]
    assert str(next(heard(events))[2]) == why
