"""Others at the port where nodes call, and in the place of mnrun there."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import queue
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mnrun import files
from mnrun.jobspec import Way
from mnrun.model import Words
from mnrun.reach import calling
from mnrun.reach import door as door_module
from mnrun.reach.calling import Calls
from mnrun.reach.channel import Answer
from mnrun.reach.door import Caller, Door
from mnrun.reach.pair import Pair
from unit.world import World

pytestmark = pytest.mark.usefixtures("started")
PORTS = "20000-29999"
LATER = 2.0  # seconds that a launch may be later for all attacks


@pytest.fixture
def started(world: World) -> Iterator[None]:
    with world.allowed():
        yield


class Expected:
    """A node that is expected to call."""

    def __init__(self, door: Door) -> None:
        self.opened: queue.SimpleQueue[Pair] = queue.SimpleQueue()
        self.secret = os.urandom(32).hex()
        self.caller = Caller(os.urandom(8).hex(), self.secret, self.opened.put)
        door.expect(self.caller)


@pytest.fixture
def expected() -> Iterator[tuple[Door, Expected]]:
    door = Door(PORTS)
    one = Expected(door)
    yield door, one
    door.forget(one.caller)


class Node:
    """The node's side of an exchange, step by step. It keeps what it has said."""

    def __init__(self, expected: Expected, secret: str = "") -> None:
        self.secret, self.caller = secret or expected.secret, expected.caller
        self.said: list[bytes] = []

    def proof(self, text: str) -> str:
        return hashlib.sha512(f"{self.secret}{text}".encode()).hexdigest()

    def greets(self, number: str) -> tuple[socket.socket, bytes]:
        self.about = f"{self.caller.ticket} {self.caller.port} {number}"
        return self.says(f"{self.caller.ticket} {number} {self.proof(f'hello {self.about}')[:32]}\n")

    def joins(self, answer: bytes) -> tuple[socket.socket, bytes]:
        its = self.proof(f"reply {self.about} {answer.split()[0].decode()}")
        return self.says(f"{self.caller.ticket} {its[32:64]}\n")

    def says(self, line: str) -> tuple[socket.socket, bytes]:
        self.said.append(line.encode())
        return sent(self.caller.port, self.said[-1])


def sent(port: int, data: bytes) -> tuple[socket.socket, bytes]:
    """Return a connection that has said this, and the answer."""
    guest = socket.create_connection(("127.0.0.1", port), 10)
    guest.sendall(data)
    with contextlib.suppress(ConnectionError):
        return guest, guest.recv(1000)
    return guest, b""


def test_only_who_knows_the_secret_is_answered(expected: tuple[Door, Expected]) -> None:
    door, call = expected
    node = Node(call)
    data, answer = node.greets("1")
    side, mark = node.joins(answer)
    assert mark and call.opened.get(timeout=60) and door.strangers == 0
    for one in (data, side):
        one.close()


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        b"\n",
        b"\0" * 300,
        b"x" * 100_000,
        b"T N P\n",
        b"T N P more\n",
        b"T P\n",
        b"T\n",
        b"T \xff\n",
    ],
    ids=str,
)
def test_a_stranger_gets_no_answer(expected: tuple[Door, Expected], line: bytes) -> None:
    door, call = expected
    guest, answer = sent(call.caller.port, line.replace(b"T", call.caller.ticket.encode()))
    guest.close()
    assert (answer, door.strangers, call.opened.empty()) == (b"", 1, True)


def test_another_secret_opens_nothing(expected: tuple[Door, Expected]) -> None:
    _, call = expected
    assert Node(call, "0" * 64).greets("1")[1] == b""
    right, wrong = Node(call), Node(call, "0" * 64)
    data, answer = right.greets("2")
    wrong.about = right.about
    assert wrong.joins(answer)[1] == b"" and call.opened.empty()
    data.close()


def test_a_recorded_exchange_opens_nothing(expected: tuple[Door, Expected]) -> None:
    """Neither before the node has finished, nor after that, nor for the next call."""
    door, call = expected
    node = Node(call)
    data, answer = node.greets("1")
    assert sent(call.caller.port, node.said[0])[1] == b""
    following = Expected(door)
    side, mark = node.joins(answer)
    for line in node.said:
        assert sent(call.caller.port, line)[1] == b""
        other = line.replace(call.caller.ticket.encode(), following.caller.ticket.encode())
        assert sent(call.caller.port, other)[1] == b""
    opened = call.opened.get(timeout=60)
    assert mark and call.opened.empty() and following.opened.empty()
    door.forget(following.caller)
    for one in (data, side, opened):
        one.close()


def starter(node: str, line: str) -> Words:
    return ("sh", "-c", line)


def calls(folder: Path) -> Calls:
    return Calls(("a",), starter, (), Way("call", "127.0.0.1", PORTS, str(folder)))


def seconds(act: Callable[[], object]) -> float:
    begun = time.monotonic()
    act()
    return time.monotonic() - begun


def test_a_crowd_keeps_no_node_away(tmp_path: Path) -> None:
    """1,000 connections that say nothing, some that say a byte at a time, and some that come again and again."""
    reached = calls(tmp_path)

    def ask() -> None:
        assert reached.ask(("sh", "-c", "exit 7"), seconds=30)["a"] == Answer(7, "", "")

    alone = seconds(ask)
    keeps_open = Expected(reached._door)
    port = keeps_open.caller.port
    over = threading.Event()
    answers: list[bytes] = []

    def again_and_again(data: bytes) -> None:
        while not over.is_set():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as guest:
                for number in range(len(data)):
                    guest.sendall(data[number : number + 1])
                    over.wait(0.01)
                answers.append(guest.recv(100))

    crowd = []
    for _ in range(1000):
        crowd.append(socket.create_connection(("127.0.0.1", port), 10))
    rest = [threading.Thread(target=again_and_again, args=(data,)) for data in (b"", b"x" * 50, b"hello\n")]
    for each in rest:
        each.start()
    late = seconds(ask)
    over.set()
    for guest in crowd:
        guest.close()
    for each in rest:
        each.join()
    reached._door.forget(keeps_open.caller)
    assert late < alone + LATER and not any(answers), (alone, late)
    assert reached._door.strangers > 700 and "strangers" in reached.leave()


def test_only_who_knows_the_secret_gives_words(tmp_path: Path) -> None:
    """The node asks for a proof before it starts anything, and tells."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:

        def answer() -> None:
            guest, _ = taken.accept()
            with guest:
                heard.append(guest.recv(1000))
                guest.sendall(b"1 " + b"0" * 32 + b"\n")
                heard.append(guest.recv(1000))

        other = threading.Thread(target=answer)
        other.start()
        reached = calls(tmp_path)
        reached._door.expect = lambda caller: taken.getsockname()[1]  # type: ignore[method-assign]
        answer_ = reached.ask(("touch", str(tmp_path / "started")), seconds=30)["a"]
        other.join()
    assert answer_.code is None and "another program answers" in answer_.err
    assert heard[1] == b"" and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("client", "says"),
    [
        ("exit 1", "its client ended with 1"),
        ("echo no slot for it >&2; exit 1", "no slot for it"),
        ("exit 71", "it cannot read"),
        ("exit 74", "its bash has no /dev/tcp"),
        ("exit 0", "it did not call 127.0.0.1:"),
        ("sleep 60", "it did not call 127.0.0.1:"),
    ],
)
def test_a_node_that_does_not_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str, says: str) -> None:
    monkeypatch.setattr(calling, "PATIENCE", 1.0)
    reached = Calls(("a",), lambda *_: ("sh", "-c", client), (), Way("call", "127.0.0.1", PORTS, str(tmp_path)))
    answer = reached.ask(("true",), seconds=30)["a"]
    assert answer.code is None and says in answer.err and "\n" not in answer.err.strip()
    assert list(tmp_path.iterdir()) == [] and reached._door._expected == {}


def test_a_bash_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes /dev/tcp for a directory."""
    text = files.spoken("call.sh").replace("/dev/tcp", "/dev/none").replace("sleep 0.2", ":")
    monkeypatch.setattr(calling, "spoken", lambda name: text)
    assert "its bash has no /dev/tcp" in calls(tmp_path).ask(("true",), seconds=30)["a"].err


def test_a_node_that_cannot_judge_a_proof_starts_nothing(tmp_path: Path) -> None:
    """It has no sha512sum, and another program that has taken the port gives empty proofs."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as taken:

        def answer() -> None:
            taken.settimeout(0.1)
            guests = []
            while not over.is_set():
                with contextlib.suppress(OSError):
                    guests.append(taken.accept()[0])
                    guests[-1].sendall(b"x\n" if len(guests) % 2 else b"\n")
            for guest in guests:
                guest.close()

        other = threading.Thread(target=answer)
        other.start()
        bare = without_sha512sum(tmp_path)
        bare._door.expect = lambda caller: taken.getsockname()[1]  # type: ignore[method-assign]
        bare.ask(("touch", str(tmp_path / "started")), seconds=5)
        over.set()
        other.join()
    assert not (tmp_path / "started").exists()


def without_sha512sum(folder: Path) -> Calls:
    for name in ("sh", "bash", "base64", "gzip", "rm", "sleep", "setsid", "touch"):
        (folder / name).symlink_to(str(shutil.which(name)))
    way = Way("call", "127.0.0.1", PORTS, str(folder))
    return Calls(("a",), lambda _, line: ("sh", "-c", f"PATH={folder}; {line}"), (), way)


def test_a_node_without_sha512sum(tmp_path: Path) -> None:
    answer = without_sha512sum(tmp_path).ask(("true",), seconds=30)["a"]
    assert "its proof was refused at 127.0.0.1:" in answer.err


def test_a_node_that_does_not_see_the_file(tmp_path: Path) -> None:
    way = Way("call", "127.0.0.1", PORTS, str(tmp_path))
    away = Calls(("a",), lambda _, line: ("sh", "-c", f"rm {tmp_path}/.call.*; {line}"), (), way)
    assert f"it cannot read {tmp_path}/.call." in away.ask(("true",), seconds=30)["a"].err


def test_a_port_that_is_closed(tmp_path: Path) -> None:
    reached = calls(tmp_path)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        reached._door.expect = lambda caller: bound.getsockname()[1]  # type: ignore[method-assign]
        assert "it cannot connect to 127.0.0.1:" in reached.ask(("true",), seconds=30)["a"].err


def test_the_port_closes() -> None:
    """It is open as long as one call is expected."""
    door = Door(PORTS)
    first, second = Expected(door), Expected(door)
    port = first.caller.port
    assert second.caller.port == port
    door.forget(first.caller)
    socket.create_connection(("127.0.0.1", port), 10).close()
    door.forget(second.caller)
    until = time.monotonic() + 10
    with pytest.raises(ConnectionRefusedError):
        while time.monotonic() < until:
            with contextlib.suppress(ConnectionResetError):
                socket.create_connection(("127.0.0.1", port), 10).close()


def test_a_range_of_ports_of_which_some_are_taken(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        while True:  # another process may have the next port
            free = stack.enter_context(socket.create_server(("", 0)))
            first = free.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                stack.enter_context(socket.create_server(("", first + 1)))
                break
        free.close()
        door = Door(f"{first}-{first + 1}")
        call = Expected(door)
        assert call.caller.port == first
        door.forget(call.caller)


def test_a_name_whose_packets_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener with a full queue answers no packet. Then the node tries the next name soon."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    for listener in listeners:
        listener.setblocking(False)
    port = listeners[-1].getsockname()[1]
    monkeypatch.setattr(door_module, "_listener", lambda ports: listeners.pop())
    with socket.create_server(("127.0.0.2", port), backlog=0) as full:
        held = [socket.socket() for _ in range(3)]
        for one in held:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        reached = calls(tmp_path)
        reached._names = ("127.0.0.2", "127.0.0.1")
        assert reached.ask(("sh", "-c", "exit 7"), seconds=15)["a"].code == 7
        for one in held:
            one.close()


def test_a_process_out_of_files_waits_for_some(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    class Full(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            tries.append(1)
            raise OSError(errno.EMFILE, "Too many open files")

    with Full() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        monkeypatch.setattr(door_module, "_listener", lambda ports: listener)
        one = Expected(at := Door(PORTS))
        with socket.create_connection(listener.getsockname(), 10) as guest:
            guest.settimeout(1.0)
            with pytest.raises(TimeoutError):
                guest.recv(1)
        at.forget(one.caller)
    assert 1 <= len(tries) < 20
