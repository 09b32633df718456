"""How the parts talk: a request in a credential of munge, and one line of JSON as its answer.

PBS has setuid programs and privileged ports for what munge does here.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import socketserver
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

SERVER, MOM = 15001, 15003  # ports
CONF = "/etc/pbs.conf"
VERSION = "23.06.06"
# PBS_NAME -> number, of pbs_error.h; a client ends with the last eight bits of it.
UNKNOWN_JOB, BAD_STATE, PERMISSION, BAD_VALUE, BAD_QUEUE = 15001, 15016, 15007, 15014, 15018
BAD_USER, UNKNOWN_RESOURCE, EXCEEDS, NO_RERUN, NO_MOM, IN_HISTORY = 15023, 15035, 15036, 15038, 15044, 15139
NO_HISTORY = 15140
NO_HOST, REFUSED = 15008, 15010
Reply = dict[str, Any]


@dataclass(frozen=True)
class Caller:
    """Who asks, as munge knows it, from which host."""

    uid: int
    host: str


class Unreachable(Exception):
    """Nobody answers there; `number` is PBS's."""

    def __init__(self, number: int) -> None:
        super().__init__(str(number))
        self.number = number


def conf(name: str, default: str = "") -> str:
    """Return a value of pbs.conf, before which a variable of the environment counts."""
    if name in os.environ:
        return os.environ[name]
    with open(CONF, encoding="ascii") as file:
        return dict(line.strip().split("=", 1) for line in file if "=" in line).get(name, default)


def _munge() -> ctypes.CDLL:
    return ctypes.CDLL("libmunge.so.2")


def seal(request: Mapping[str, Any]) -> bytes:
    """Return bytes that say who asks, and what."""
    text, sealed, library = json.dumps(request).encode(), ctypes.c_char_p(), _munge()
    if library.munge_encode(ctypes.byref(sealed), None, text, len(text)) or sealed.value is None:
        raise OSError("munge does not answer")
    return b"%08x" % len(sealed.value) + sealed.value


def _received(link: socket.socket) -> bytes:
    """Return what `seal` made, and not a byte more."""
    return link.recv(int(link.recv(8, socket.MSG_WAITALL) or b"0", 16), socket.MSG_WAITALL)


def unseal(line: bytes) -> tuple[int, dict[str, Any]]:
    """Return the user and the request; each counts once."""
    buffer, size, uid, gid = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint(), ctypes.c_uint()
    refs = map(ctypes.byref, (buffer, size, uid, gid))
    if _munge().munge_decode(line, None, *refs):
        raise PermissionError("no credential of munge")
    return uid.value, json.loads(ctypes.string_at(buffer.value or 0, size.value))


def connect(host: str, port: int, timeout: float | None = 10) -> socket.socket:
    """Return a connection."""
    try:
        return socket.create_connection((host, port), timeout)
    except socket.gaierror:
        raise Unreachable(NO_HOST) from None
    except OSError:
        raise Unreachable(REFUSED) from None


def ask(host: str, port: int, timeout: float | None = 10, **request: Any) -> Reply:
    """Return the answer to a request."""
    with connect(host, port, timeout) as link:
        try:
            link.sendall(seal(request))
            with link.makefile("rb") as file:
                reply: Reply = json.loads(file.readline() or b"{}")
        except (OSError, ValueError):
            raise Unreachable(REFUSED) from None
    if not reply:
        raise Unreachable(REFUSED)
    return reply


class Listener(socketserver.ThreadingTCPServer):
    """Answer each request by a method of `answers`: do_NAME(caller, request, connection) -> reply, or None for none."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 1000

    def __init__(self, port: int, answers: object) -> None:
        super().__init__(("", port), _Handler)
        self.answers = answers


class _Handler(socketserver.BaseRequestHandler):
    server: Listener

    def handle(self) -> None:
        try:
            uid, request = unseal(_received(self.request))
            caller = Caller(uid, socket.gethostbyaddr(self.client_address[0])[0])
            method: Callable[..., Reply | None] = getattr(self.server.answers, f"do_{request.pop('do')}")
            reply = method(caller, request, self.request)
            if reply is not None:
                self.request.sendall(json.dumps(reply).encode() + b"\n")
        except OSError as error:
            print(f"pbs: {error}", file=sys.stderr, flush=True)


def only_root(caller: Caller) -> None:
    """Refuse what only the daemons ask of each other."""
    if caller.uid:
        raise PermissionError(f"uid {caller.uid} asks for what only daemons may")


def become_daemon(log: str) -> None:
    """Go on in the background, with the usual signals: they are those of every job."""
    if os.fork():
        os._exit(0)
    os.setsid()
    quiet, file = os.open("/dev/null", os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for old, new in ((quiet, 0), (file, 1), (file, 2)):
        os.dup2(old, new)
