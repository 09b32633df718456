"""Hosts by ssh from within Python: the one door to paramiko.

Names, users, ports, keys and jump hosts are what the OpenSSH client itself makes of them (`ssh -G`), where there
is one. A host's key must be known: none is ever taken on trust.
"""

from __future__ import annotations

import contextlib
import getpass
import logging
import os
import re
import shlex
import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from . import transports
from .model import JobSpec, Words
from .schedulers.hosts import unreachable
from .wires import AT_ONCE, Way, Wire

if TYPE_CHECKING:
    import paramiko

PATIENCE = 15.0  # seconds for each step of a login
SILENT = 30000  # milliseconds that what we send may stay without an answer
SSH = 22


@dataclass(frozen=True)
class Place:
    """A host as the OpenSSH client would reach it."""

    name: str
    address: str
    port: int = SSH
    user: str = ""
    keys: Words = ()
    known: Words = ()  # files
    alias: str = ""  # the name by which known_hosts has it
    jump: str = ""
    command: str = ""  # its ProxyCommand
    agent: bool = True
    timeout: float = PATIENCE


def place(name: str, user: str = "", port: int | None = None) -> Place:
    """What `ssh -G` says of a host; paramiko's own reading of ~/.ssh/config where there is no ssh."""
    asked = [*(["-l", user] if user else []), *(["-p", str(port)] if port else [])]
    said: dict[str, list[str]] = {}
    for line in transports.ask(("ssh", "-G", *asked, "--", name)).splitlines():
        key, _, value = line.partition(" ")
        said.setdefault(key.lower(), []).append(value)
    if not said:
        said = {key: values if isinstance(values, list) else [values] for key, values in _config(name).items()}

    def one(key: str, default: str = "") -> str:
        value = said.get(key, [default])[0]
        return "" if value == "none" else value

    timeout = one("connecttimeout")
    known = " ".join(
        [one("userknownhostsfile", "~/.ssh/known_hosts"), one("globalknownhostsfile", "/etc/ssh/ssh_known_hosts")]
    )
    return Place(
        name,
        one("hostname", name),
        port or int(one("port") or SSH),
        user or one("user") or getpass.getuser(),
        tuple(os.path.expanduser(key) for key in said.get("identityfile", _KEYS)),
        tuple(map(os.path.expanduser, known.split())),
        one("hostkeyalias"),
        one("proxyjump"),
        one("proxycommand"),
        one("identityagent", "yes") != "" and one("identitiesonly") != "yes",
        float(timeout) if timeout.isdecimal() else PATIENCE,
    )


_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")


def _config(name: str) -> Mapping[str, str | list[str]]:
    import paramiko

    path = os.path.expanduser("~/.ssh/config")
    return paramiko.SSHConfig.from_path(path).lookup(name) if os.path.exists(path) else {}


def places(asked: JobSpec) -> list[Place]:
    """All of the hosts."""
    with ThreadPoolExecutor(min(AT_ONCE, len(asked.hosts))) as pool:
        return list(pool.map(lambda host: place(host.name, asked.ssh_user, asked.ssh_port), asked.hosts))


def is_here(where: Place) -> bool:
    """Whether it is this very machine, which needs no ssh server."""
    if where.jump or where.command or where.port != SSH or where.user != getpass.getuser():
        return False
    with contextlib.suppress(OSError), socket.create_server((socket.gethostbyname(where.address), 0)):
        return True
    return False


class ChannelWire:
    """A command on a host, through a channel of its connection."""

    def __init__(self, channel: paramiko.Channel, line: str) -> None:
        self._channel = channel
        channel.exec_command(line)

    def receive(self, stream: int) -> bytes:
        try:
            return self._channel.recv(65536) if stream == 1 else self._channel.recv_stderr(65536)
        except OSError:
            return b""

    def send(self, data: bytes) -> None:
        self._channel.sendall(data)

    def shut(self) -> None:
        self._channel.shutdown_write()

    def wait(self) -> int | None:
        code = self._channel.recv_exit_status()
        return None if code < 0 else code

    def cut(self) -> None:
        self._channel.close()


class Door:
    """Connections: one to each host, and one to each jump host that several may share."""

    def __init__(self) -> None:
        self._clients: list[paramiko.SSHClient] = []
        self._jumps: dict[str, paramiko.SSHClient] = {}
        self._lock = threading.Lock()
        self._jumping = threading.RLock()
        self._known: dict[Words, paramiko.HostKeys] = {}

    def client(self, where: Place) -> paramiko.SSHClient:
        """A connection to a host, logged in. Raises what paramiko and the network say."""
        import paramiko

        client = paramiko.SSHClient()
        name = where.alias or where.address
        name = name if where.port == SSH or where.alias else f"[{name}]:{where.port}"
        for kind, key in (self._keys(where.known).lookup(name) or {}).items():
            client.get_host_keys().add(name, kind, key)
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        line = self._line(where)
        client.connect(
            where.alias or where.address,
            port=SSH if where.alias else where.port,
            username=where.user,
            key_filename=[key for key in where.keys if os.access(key, os.R_OK)],  # type: ignore[arg-type]
            allow_agent=where.agent,
            look_for_keys=False,
            sock=line,
            timeout=where.timeout,
            banner_timeout=where.timeout,
            auth_timeout=where.timeout,
        )
        with self._lock:
            self._clients.append(client)
        return client

    def _keys(self, files: Words) -> paramiko.HostKeys:
        import paramiko

        with self._lock:
            if files not in self._known:
                self._known[files] = paramiko.HostKeys()
                for path in files:
                    with contextlib.suppress(OSError):
                        self._known[files].load(path)
            return self._known[files]

    def _line(self, where: Place) -> socket.socket | paramiko.Channel | paramiko.ProxyCommand:
        """What the connection goes over."""
        if where.jump:
            transport = self._jump(where.jump).get_transport()
            assert transport is not None
            return transport.open_channel(
                "direct-tcpip", (where.address, where.port), ("127.0.0.1", 0), timeout=where.timeout
            )
        if where.command:
            import paramiko

            values = {"%h": where.address, "%p": str(where.port), "%r": where.user, "%%": "%"}
            return paramiko.ProxyCommand(re.sub("%[hpr%]", lambda m: values[m[0]], where.command))
        line = socket.create_connection((where.address, where.port), where.timeout)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT)
        return line

    def _jump(self, names: str) -> paramiko.SSHClient:
        """The last of the jump hosts `[user@]host[:port],…`, each reached through the one before."""
        before, _, last = names.rpartition(",")
        user, _, address = last.rpartition("@")
        host, _, port = address.partition(":")
        with self._jumping:
            if names not in self._jumps:
                where = place(host, user, int(port) if port.isdecimal() else None)
                self._jumps[names] = self.client(replace(where, jump=before) if before else where)
            return self._jumps[names]

    def close(self) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda client: client.close(), self._clients))


@contextlib.contextmanager
def connected(asked: JobSpec) -> Iterator[Way]:
    """A way to the hosts that were asked for, until the end. Raises NodeError, with the name of each that cannot
    be reached, and then nothing has been started on the others."""
    names = tuple(host.name for host in asked.hosts)
    logging.getLogger("paramiko").addHandler(logging.NullHandler())  # it would write to our errors
    door = Door()
    opened: dict[str, paramiko.SSHClient | None] = {}
    reasons: dict[str, str] = {}

    def reach(name: str) -> None:
        try:
            where = place(name, asked.ssh_user, asked.ssh_port)
            opened[name] = None if is_here(where) else door.client(where)
        except Exception as error:  # of paramiko's, the network's, and what lies in known_hosts and keys
            reasons[name] = str(error) or type(error).__name__

    def start(name: str, words: Words) -> Wire:
        client = opened[name]
        if client is None:
            return transports.ProcessWire(("sh", "-c", shlex.join(words)))
        transport = client.get_transport()
        assert transport is not None
        return ChannelWire(transport.open_session(timeout=PATIENCE), shlex.join(words))

    try:
        with ThreadPoolExecutor(min(AT_ONCE, len(names))) as pool:
            list(pool.map(reach, names))
        if reasons:
            raise unreachable({name: reasons[name] for name in names if name in reasons}, len(names))
        yield Way(names, start)
    finally:
        door.close()
