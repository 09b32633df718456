"""Hosts by ssh from within Python: the only module that imports paramiko.

`ssh -G` gives names, users, ports, keys and jump hosts, if OpenSSH is installed. No host's key is taken on trust.
"""

from __future__ import annotations

import contextlib
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

from mnrun.errors import NodeError
from mnrun.jobspec import JobSpec
from mnrun.model import Words
from mnrun.reach import login_shell
from mnrun.reach.channel import Channel, Marked
from mnrun.reach.ssh import words
from mnrun.reach.transport import AT_ONCE, Client, Transport, each, why_unopened
from mnrun.schedulers.hosts import known_hosts, ssh, unreachable
from mnrun.schedulers.hosts.names import jump
from mnrun.schedulers.hosts.ssh import PATIENCE, SSH, Target, is_here, of_settings, target
from mnrun.system import process

if TYPE_CHECKING:
    import paramiko

SILENT = 30000  # milliseconds that sent data may stay without an acknowledgement (tcp(7), TCP_USER_TIMEOUT)


def _target(name: str, user: str = "", port: int | None = None) -> Target:
    """Return a host as ssh would reach it, or by paramiko's own reading of ~/.ssh/config where there is no ssh."""
    path = os.path.expanduser("~/.ssh/config")
    if process.has("ssh") or not os.path.exists(path):
        return target(name, user, port)
    import paramiko

    found = paramiko.SSHConfig.from_path(path).lookup(name)
    settings = {key: values if isinstance(values, list) else [values] for key, values in found.items()}
    return of_settings(name, settings, user, port)


class SshChannel:
    """A command on a host, through a channel of its connection."""

    def __init__(self, channel: paramiko.Channel, line: str) -> None:
        self._channel = channel
        channel.exec_command(line)  # nosec B601 # login_shell.line has packed it

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


@dataclass(frozen=True)
class Trust:
    """The keys that a host may have, any of them, as with ssh. This replaces paramiko's policies, and its own
    comparison, which knows one key of each kind."""

    keys: tuple[paramiko.PKey, ...]

    def unknown(self) -> Words:
        """Return the kinds of signatures without a known key. The result is empty if no key is known at all."""
        kinds = {key.get_name() for key in self.keys}
        return tuple(name for kind, names in _SIGNATURES.items() if kinds and kind not in kinds for name in names)

    def missing_host_key(self, client: object, name: str, key: paramiko.PKey) -> None:
        import paramiko

        if not self.keys:
            raise paramiko.SSHException(f"{name} not found in known_hosts")
        if key not in self.keys:
            raise paramiko.BadHostKeyException(name, key, self.keys[0])


_SIGNATURES = {  # by the kind of the host's key
    **{kind: (kind,) for kind in ("ssh-ed25519", "ssh-dss", *(f"ecdsa-sha2-nistp{n}" for n in (256, 384, 521)))},
    "ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa"),
}


class SshPool:
    """Connections: one to each host, and one to each jump host that several may share."""

    def __init__(self) -> None:
        self._clients: list[paramiko.SSHClient] = []
        self._jumps: dict[str, paramiko.SSHClient] = {}
        self._lock = threading.Lock()
        self._jumping = threading.RLock()
        self._lines: dict[Words, list[str]] = {}

    def client(self, where: Target) -> paramiko.SSHClient:
        """Return a connection to a host, logged in. Raises the errors of paramiko and the network."""
        import paramiko

        client = paramiko.SSHClient()
        trust = self._trust(where)
        client.set_missing_host_key_policy(trust)  # type: ignore[arg-type]
        client.connect(
            where.alias or where.address,
            port=SSH if where.alias else where.port,
            username=where.user,
            key_filename=[key for key in where.keys if os.access(key, os.R_OK)],  # type: ignore[arg-type]
            allow_agent=where.agent,
            look_for_keys=False,
            sock=self._socket(where),
            timeout=where.timeout,
            banner_timeout=where.timeout,
            auth_timeout=where.timeout,
            disabled_algorithms={"keys": trust.unknown()},
        )
        with self._lock:
            self._clients.append(client)
        return client

    def _trust(self, where: Target) -> Trust:
        """Return the known keys of the host. Raises SSHException if the key of a CA alone is known."""
        import paramiko

        with self._lock:
            if where.known_hosts not in self._lines:
                self._lines[where.known_hosts] = list(known_hosts.read(where.known_hosts))
        bare = where.alias or where.address
        names = (bare,) if where.port == SSH or where.alias else (f"[{bare}]:{where.port}", bare)  # as with ssh
        known_keys = known_hosts.host_keys(self._lines[where.known_hosts], names)
        keys = []
        for key in known_keys.keys:
            with contextlib.suppress(Exception):  # a broken key: its line does not count
                entry = paramiko.hostkeys.HostKeyEntry.from_line(f"{names[0]} {key}")
                keys += [entry.key] if entry is not None else []
        if known_keys.by_ca and not keys:
            raise paramiko.SSHException("known by a CA only")
        return Trust(tuple(keys))

    def _socket(self, where: Target) -> socket.socket | paramiko.Channel | paramiko.ProxyCommand:
        """Return the socket or channel for the connection."""
        if where.jump:
            transport = self._jump(where.jump).get_transport()
            assert transport is not None
            return transport.open_channel(
                "direct-tcpip", (where.address, where.port), ("127.0.0.1", 0), timeout=where.timeout
            )
        if where.command:
            import paramiko

            values = {"%h": where.address, "%p": str(where.port), "%r": where.user, "%%": "%"}
            command = re.sub("%[hpr%]", lambda m: values[m[0]], where.command)
            # ssh runs it by a shell (ssh_config(5)). A Ctrl-C must not end it, since mnrun still has to clean up.
            return paramiko.ProxyCommand(shlex.join(("sh", "-c", f"trap '' INT; exec {command}")))
        connection = socket.create_connection((where.address, where.port), where.timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT)
        return connection

    def _jump(self, names: str) -> paramiko.SSHClient:
        """Return a connection to the last of the jump hosts `[user@]host[:port],…`, each through the one before."""
        before, _, last = names.rpartition(",")
        with self._jumping:
            if names not in self._jumps:
                where = _target(*jump(last))
                self._jumps[names] = self.client(replace(where, jump=before) if before else where)
            return self._jumps[names]

    def close(self) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda client: client.close(), self._clients))


class ParamikoTransport(Transport):
    """The transport by one connection to each host. A host that is this very machine has None instead. `client` has the
    words of OpenSSH, to which a prompt's terminal goes."""

    def __init__(self, clients: Mapping[str, paramiko.SSHClient | None], client: Client) -> None:
        super().__init__(tuple(clients), client, [name for name, there in clients.items() if there is None])
        self._clients = clients

    def connect(self, node: str, argv: Words) -> Channel:
        client, mark = self._clients[node], login_shell.mark()
        if client is None:
            return super().connect(node, argv)
        transport = client.get_transport()
        assert transport is not None
        return Marked(SshChannel(transport.open_session(timeout=PATIENCE), login_shell.line(argv, mark)), mark)


@contextlib.contextmanager
def connected(spec: JobSpec) -> Iterator[ParamikoTransport]:
    """Yield the transport to the hosts of the job, and close it at the end. Raises NodeError with the name of each host
    that cannot be reached. In that case, nothing runs on the others."""
    # Without a handler, logging prints paramiko's messages among mnrun's errors.
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    pool = SshPool()
    reasons: dict[str, str] = {}
    options = ssh.login(spec.hosts.ssh_user, spec.hosts.ssh_port)

    def client(name: str) -> paramiko.SSHClient | None:
        where = Target(name, name)
        try:
            where = _target(name, spec.hosts.ssh_user, spec.hosts.ssh_port)
            return None if is_here(where) else pool.client(where)
        except Exception as error:  # errors of paramiko, the network, known_hosts and keys
            reasons[name] = ssh.why_refused(where, why_unopened(error, len(spec.hosts.names)))
            return None

    try:
        clients = each([host.name for host in spec.hosts.names], client)
        if reasons:
            raise unreachable.error({name: reasons[name] for name in clients if name in reasons}, len(clients))
        yield ParamikoTransport(clients, lambda node, line, on: words(node, line, *options, terminal=on))
    finally:
        pool.close()
