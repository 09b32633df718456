"""The port where nodes call, and the proofs of nodes and mnrun that they know a secret. docs/security.md has more."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import random
import selectors
import socket
import threading
import time
from collections.abc import Callable

from mnrun.errors import NodeError
from mnrun.reach.pair import Pair, read
from mnrun.system.process import Thread

SILENT, AT_ONCE = 256, 64  # connections without a proof: in all, and new ones between two looks at the others
LINE, DIGITS = 200, 32  # the longest line of one, and a proof's length
TURN = 0.2  # seconds after which an unneeded port closes
TRIES = 500  # ports


class Caller:
    """A node that may call, by the secret that it must know. `take` gets its connections once it has proved that."""

    def __init__(self, ticket: str, secret: str, take: Callable[[Pair], None]) -> None:
        self.ticket, self.port = ticket, 0
        self._secret, self._take = secret, take
        self._numbers: set[str] = set()
        self._greeting: tuple[socket.socket, str, str] | None = None  # the last, and the next proofs of both sides

    def proof(self, text: str) -> str:
        """Return digits that only who knows the secret can know. Nobody is told the last 32 of them: without these, a
        hash cannot be continued."""
        return hashlib.sha512(f"{self._secret}{text}".encode()).hexdigest()

    def greets(self, guest: socket.socket, number: str, said: str) -> bool:
        """Return whether the node greets by this connection. A number counts once, so a greeting cannot be repeated."""
        about = f"{self.ticket} {self.port} {number}"
        if number in self._numbers or not _same(self.proof(f"hello {about}")[:DIGITS], said):
            return False
        self._numbers.add(number)
        self.forget()  # the node calls again if mnrun has dropped it
        own = os.urandom(16).hex()
        proofs = self.proof(f"reply {about} {own}")
        ours, its, mark = (proofs[start : start + DIGITS] for start in range(0, 3 * DIGITS, DIGITS))
        self._greeting = guest, its, mark
        return guest.send(f"{own} {ours}\n".encode()) > 0

    def joins(self, side: socket.socket, said: str) -> bool:
        """Return whether this is the second connection of the node that has greeted."""
        if self._greeting is None or not _same(self._greeting[1], said):
            return False
        (data, _, mark), self._greeting = self._greeting, None
        side.send(f"{mark}\n".encode())
        self._take(Pair(data, side, mark))
        return True

    def forget(self) -> None:
        if self._greeting is not None:
            self._greeting[0].close()
            self._greeting = None


class Door:
    """The port where nodes call, which is open only while a call is expected.

    Everybody can connect. So a connection that has proved nothing costs a descriptor and a line. There are few at a
    time, and the oldest goes first. A node whose connection went so calls again.
    """

    def __init__(self, ports: str) -> None:
        self._ports = ports
        self._lock = threading.RLock()
        self._expected: dict[str, Caller] = {}
        self._listener: socket.socket | None = None
        self.strangers = 0

    def expect(self, caller: Caller) -> int:
        """Return the port at which the node will be let in. Raises NodeError if all are taken."""
        with self._lock:
            if self._listener is None:
                listener = _listener(self._ports)
                Thread(self._serve, listener)
                self._listener = listener
            caller.port = self._listener.getsockname()[1]
            self._expected[caller.ticket] = caller
            return caller.port

    def forget(self, caller: Caller) -> None:
        with self._lock:
            self._expected.pop(caller.ticket, None)
            caller.forget()

    def _needed(self) -> bool:
        with self._lock:
            if not self._expected and self._listener is not None:
                self._listener.close()  # before another one opens the same port
                self._listener = None
            return self._listener is not None

    def _serve(self, listener: socket.socket) -> None:
        with listener, selectors.DefaultSelector() as ready:
            ready.register(listener, selectors.EVENT_READ)
            while self._needed():
                room = SILENT
                for key, _ in ready.select(TURN):
                    if key.fileobj is not listener:
                        self._hear(key, ready)
                    elif not _accept(listener, ready):
                        room = len(_guests(ready)) // 2
                for key in (guests := _guests(ready))[: max(0, len(guests) - room)]:
                    self._leave(key, ready)
                if not room:  # others must close files
                    time.sleep(TURN)
            for key in _guests(ready):
                self._leave(key, ready)

    def _hear(self, key: selectors.SelectorKey, ready: selectors.BaseSelector) -> None:
        """Take in what a connection says, and judge it by a line, or by all that it can say."""
        guest, line = key.fileobj, key.data
        assert isinstance(guest, socket.socket)
        line += (said := read(guest))
        if said and b"\n" not in said and len(line) <= LINE:
            return
        if self._knows(guest, line):
            ready.unregister(guest)
        else:
            self._leave(key, ready)

    def _leave(self, key: selectors.SelectorKey, ready: selectors.BaseSelector) -> None:
        assert isinstance(key.fileobj, socket.socket)
        self.strangers += 1
        ready.unregister(key.fileobj)
        key.fileobj.close()

    def _knows(self, guest: socket.socket, line: bytearray) -> bool:
        """Return whether a connection is that of an expected node, which keeps it then."""
        ticket, *words = (*line.decode("ascii", "replace").split(), "")
        with self._lock, contextlib.suppress(OSError):  # it is gone again
            caller = self._expected.get(ticket)
            if caller is None or not line.endswith(b"\n"):
                return False
            if len(words) == 2:
                return caller.joins(guest, words[0])
            return len(words) == 3 and caller.greets(guest, words[0], words[1])
        return False


def _guests(ready: selectors.BaseSelector) -> list[selectors.SelectorKey]:
    """Return the connections without a proof, the oldest first. The listener came before them."""
    return list(ready.get_map().values())[1:]


def _accept(listener: socket.socket, ready: selectors.BaseSelector) -> bool:
    """Let some connections in. Return False if there are too many open files."""
    try:
        for _ in range(AT_ONCE):
            guest, _ = listener.accept()
            guest.setblocking(False)
            ready.register(guest, selectors.EVENT_READ, bytearray())
    except OSError as error:
        return error.errno not in (errno.EMFILE, errno.ENFILE)
    return True


def _same(proof: str, said: str) -> bool:
    return hmac.compare_digest(proof.encode(), said.encode())


def _listener(ports: str) -> socket.socket:
    """Return a socket that listens at a free port of a range, at all addresses of this machine."""
    first, last = map(int, ports.split("-"))
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    for port in random.SystemRandom().sample(range(first, last + 1), min(TRIES, last - first + 1)):
        with contextlib.suppress(OSError):  # it is taken
            found = socket.create_server(("", port), family=family, backlog=1024, dualstack_ipv6=both)
            found.setblocking(False)
            return found
    raise NodeError(f"no port of {ports} is free, and nodes need one to call", "name others with --ports")
