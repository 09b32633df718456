"""Channels to several hosts, and what is made of them: with channels that are only played."""

from __future__ import annotations

import os
import queue
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.model import Command, Words
from mnrun.reach import channel, leases, transport
from mnrun.reach.channel import Answer, Channel, Marked
from mnrun.reach.leases import ChannelLease
from mnrun.reach.program import Program
from mnrun.reach.transport import Transport
from mnrun.system.events import Ended, Event, Line, Lost, Noise
from mnrun.system.process import Thread
from unit.conftest import Shell
from unit.texts import Says
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
            self._over.get(timeout=60)
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
        super().__init__(hosts, lambda *words: ("client", *map(str, words)))
        self.opener = opener

    def connect(self, node: str, argv: Words) -> Channel:
        return self.opener(node, argv)


def heard(events: queue.SimpleQueue[Event]) -> Iterator[Event]:
    while True:
        event = events.get(timeout=60)
        yield event
        if isinstance(event, Ended):
            return


def test_lines_come_whole() -> None:
    played = Played(b"one\ntw", b"o\n\nth", b"r\xff")
    assert list(channel.lines(played, 1)) == ["one", "two", "", "thr�"]


def test_every_host_is_asked() -> None:
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
    return channel.answer(Marked(played, "MARK"), (b"in",), 10), played


def test_what_a_login_shell_prints_does_not_count() -> None:
    """(F1) Neither its output nor its errors, however they are cut, and no newline is at their end."""
    said, played = marked(Played(b"welcome\n4", b"2MA", b"RK\nout", b"MARK\n", err=b"noise\nMARK\nerr", code=7))
    assert (said, played.heard) == (Answer(7, "outMARK\n", "err"), b"in")


def test_a_login_shell_gets_no_input() -> None:
    """(F1) Its files may read. So the input waits for the mark, and is not sent where there is none."""
    waiting = Played(stays=True)
    sender = Thread(Marked(waiting, "MARK").send, b"in")
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


def test_a_login_shell_that_does_not_end(says: Says) -> None:
    """(F1)"""
    said = channel.answer(Marked(Unending(), "MARK"), (b"in",), 0.1)
    assert said.late
    says(said.err)


def test_a_host_that_answers_too_late() -> None:
    hosts = Hosts(("a", "b"), lambda node, argv: Unending() if node == "b" else Played())
    answers = hosts.ask(("sha256sum",), seconds=1)
    assert answers == {"a": Answer(0, "", ""), "b": Answer(None, "", "", late=True)}


def test_ctrl_c_ends_commands_on_hosts(world: World) -> None:
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


def test_a_prompt_is_on_the_commands_host(mocker: MockerFixture) -> None:
    start = mocker.patch("mnrun.system.process.start")
    hosts = Hosts(("a", "b"), lambda node, argv: Played())
    hosts.start("run", Command(("sh",), ("b",)), {}, queue.SimpleQueue(), piped=False, terminal=True)
    assert start.call_args.args[1].argv[:2] == ("client", "b")


def test_a_program_whose_reader_is_slow() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    size = 1 << 20
    program = Program("run", "n1", Played(b"x" * size), events, (writer, None))
    assert not program.wait(0.1)
    with os.fdopen(reader, "rb") as file:
        assert len(file.read(size)) == size
    assert program.wait(10)
    assert list(heard(events)) == [Ended("run", 0)]
    os.close(writer)


def leased(**played: Played) -> tuple[ChannelLease, queue.SimpleQueue[Event]]:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    return ChannelLease("serve", played, events), events


def test_a_lease_is_one_to_its_owner() -> None:
    a, b = Played(b"ready a\n", stays=True), Played(b"alive b\n", b"bye b\n", err=b"srun: x", stays=True, code=4)
    lease, events = leased(a=a, b=b)
    lease.send(b"kit")
    lease.send(b"mine", "a")
    lease.close()
    said = list(heard(events))
    assert said[-1] == Ended("serve", 4)
    noise = {Noise("serve", "srun: x"), Noise("serve", "b: its guard ended with 4")}
    assert set(said[:-1]) == {Line("serve", "ready a"), Line("serve", "bye b"), *noise}
    assert (a.heard, b.heard) == (b"kitmine", b"kit")
    assert lease.wait(10)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (Played(code=None), "the connection to it broke"),
        (Played(code=7), "its guard ended with 7"),
        (Played(b"ready b\n", code=0), "the connection to it ended before its guard did"),
    ],
)
def test_a_host_that_ends_too_early_is_lost(other: Played, said: str) -> None:
    a = Played(stays=True)
    lease, events = leased(a=a, b=other)
    before = list(iter(lambda: events.get(timeout=60), Lost("serve", "b", said)))
    assert before in ([], [Line("serve", "ready b")])
    lease.send(b"on")
    lease.close()
    assert isinstance(list(heard(events))[-1], Ended)
    assert a.heard == b"on"


@pytest.mark.parametrize("last", [b"bye b\n", b"fail b no space\n"])
def test_a_node_that_says_its_end_is_not_lost(last: bytes) -> None:
    """Its channel may end then, before the lease does."""
    lease, events = leased(a=Played(stays=True), b=Played(last))
    assert events.get(timeout=60) == Line("serve", last.decode().strip())
    lease.close()
    assert list(heard(events)) == [Ended("serve", 0)]


def test_a_silent_host_is_lost(mocker: MockerFixture) -> None:
    mocker.patch.object(leases, "TICK", 0.01)
    mocker.patch.object(leases, "LOST", 0.05)
    lease, events = leased(a=Played(b"alive a\n", stays=True))
    lost = events.get(timeout=60)
    assert isinstance(lost, Lost)
    assert lost.why.startswith("no answer from it for ")
    assert list(heard(events))[-1] == Ended("serve", channel.GONE)
    assert lease.wait(10)


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
    ticks: list[tuple[float, str]], lost: list[tuple[float, str]]
) -> None:
    """B5: after Ctrl-Z, or in a virtual machine that was frozen, the clock has gone on and words wait unread. Who was
    there is greeted at once, before he takes our silence for the end."""
    now, silence, found = 0.0, leases.Silence(0.0), []
    for node in "ab":
        silence.hear(node, now)
    for seconds, nodes in ticks:
        now += seconds
        for node in nodes:
            silence.hear(node, now)
        gone, well = silence.tick(now)
        found += [(now, node) for node in gone]
        assert well or seconds <= 15
        for node in gone:
            silence.forget(node)
    assert found == lost


# Real processes in place of hosts, as many as the system lets us open, or more.
MANY = """
import queue, sys
from mnrun.model import Command
from mnrun.reach import transport
from mnrun.system import process
class Here(transport.Transport):
    def connect(self, node, argv): return process.ProcessChannel(argv)
count = int(sys.argv[1])
transport.allow_files(count)
hosts = Here(tuple(f"n{n}" for n in range(count)), None)
events = queue.SimpleQueue()
lease = hosts.start("serve", Command(("sh", "-c", "echo ready; exec cat"), hosts.hosts), {}, events, piped=True)
said = [getattr(event, "text", "") or event.why for event in (events.get(timeout=20) for _ in range(count))]
lease.close()
assert lease.wait(20)
print(said.count("ready"), *{why for why in said if why != "ready"}, sep="|")
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
    found = sh(line, str(Path(transport.__file__).parents[2]), sys.executable, MANY, shell="bash").decode().splitlines()
    assert re.fullmatch(said, found[0]), found


NASTY = ("bash", "{node}", "/data/{node}:/d", "MNRUN_NODE={node}", "100%h")


def test_words_for_several_hosts_are_written_for_each() -> None:
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
