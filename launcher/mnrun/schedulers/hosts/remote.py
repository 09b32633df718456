"""Hosts by ssh from within Python: the only module that imports paramiko.

`ssh -G` gives names, users, ports, keys and jump hosts, if OpenSSH is installed. No host's key is taken on trust.
"""

from __future__ import annotations

import base64
import contextlib
import getpass
import logging
import os
import queue
import re
import shlex
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mnrun.errors import NodeError
from mnrun.jobspec import JobSpec
from mnrun.model import Command, Words
from mnrun.schedulers.hosts import known_hosts, login_shell, unreachable
from mnrun.schedulers.hosts.channel import Channel, Marked
from mnrun.schedulers.hosts.names import jump
from mnrun.schedulers.hosts.program import Program
from mnrun.schedulers.hosts.transport import AT_ONCE, Transport, each, why_unopened
from mnrun.system import process, terminal
from mnrun.system.process import Event, ProcessChannel, Running

if TYPE_CHECKING:
    import paramiko

PATIENCE = 15.0  # seconds for each step of a login, and for `ssh -G`
SILENT = 30000  # milliseconds that sent data may stay without an acknowledgement (tcp(7), TCP_USER_TIMEOUT)
SSH = 22
SYSTEM_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
LOGIN = re.compile(r"permission denied|authentication|encrypted", re.IGNORECASE)


@dataclass(frozen=True)
class Place:
    """A host as the OpenSSH client would reach it."""

    name: str
    address: str
    port: int = SSH
    user: str = ""
    keys: Words = ()
    known_hosts: Words = ()  # files
    alias: str = ""  # the name in known_hosts
    jump: str = ""
    command: str = ""  # the ProxyCommand
    agent: bool = True
    only: bool = False  # IdentitiesOnly: of the agent's keys, those of `keys` alone
    timeout: float = PATIENCE


def place(name: str, user: str = "", port: int | None = None) -> Place:
    """Return a host as the OpenSSH client would reach it, with this user and port if they are given."""
    settings = _settings(name, user, port)

    def first(key: str, default: str = "") -> str:
        value = settings.get(key, [default])[0]
        return "" if value == "none" else value

    timeout = first("connecttimeout")
    home, common = first("userknownhostsfile", "~/.ssh/known_hosts"), first("globalknownhostsfile", SYSTEM_KNOWN_HOSTS)
    return Place(
        name,
        first("hostname", name),
        port or int(first("port") or SSH),
        user or first("user") or getpass.getuser(),
        tuple(os.path.expanduser(key) for key in settings.get("identityfile", _KEYS)),
        tuple(map(os.path.expanduser, (*home.split(), *common.split()))),
        first("hostkeyalias"),
        first("proxyjump"),
        first("proxycommand"),
        first("identityagent", "yes") != "",
        first("identitiesonly") == "yes",
        float(timeout) if timeout.isdecimal() else PATIENCE,
    )


_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")


def _settings(name: str, user: str, port: int | None) -> Mapping[str, list[str]]:
    """Return the values of each setting of a host, by `ssh -G`, or by paramiko's own reading of ~/.ssh/config."""
    options = [*(["-l", user] if user else []), *(["-p", str(port)] if port else [])]
    settings: dict[str, list[str]] = {}
    with contextlib.suppress(NodeError):  # there is no ssh, or an old one
        for line in process.ask(("ssh", "-G", *options, "--", name), PATIENCE).splitlines():
            key, _, value = line.partition(" ")
            settings.setdefault(key.lower(), []).append(value)
    path = os.path.expanduser("~/.ssh/config")
    if settings or not os.path.exists(path):
        return settings
    import paramiko

    config = paramiko.SSHConfig.from_path(path).lookup(name)
    return {key: values if isinstance(values, list) else [values] for key, values in config.items()}


def places(spec: JobSpec) -> list[Place]:
    """Return the settings of all hosts of the job."""
    names = [host.name for host in spec.hosts.names]
    return list(each(names, lambda name: place(name, spec.hosts.ssh_user, spec.hosts.ssh_port)).values())


def _agents(where: Place) -> list[paramiko.AgentKey]:
    """Return the agent's keys that may be used for a host."""
    import paramiko

    keys = paramiko.Agent().get_keys() if where.agent else ()
    identities = {_public(path) for path in where.keys}
    return [key for key in keys if not where.only or key.asbytes() in identities]


def _public(path: str) -> bytes:
    """Return the public key from the file beside a private one, as an agent has it, or b""."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"{path}.pub", encoding="utf-8") as file:
        return base64.b64decode(file.read().split()[1])
    return b""


def why_refused(where: Place, error: str) -> str:
    """Return the reason of a failed login: the words of the error, or a passphrase on one of our keys."""
    return "the key for it has a passphrase" if LOGIN.search(error) and _locked(where) else error


def _locked(where: Place) -> bool:
    """Return whether a key for the host has a passphrase, and no agent holds that key."""
    import paramiko

    public = {key.asbytes() for key in _agents(where)}
    for path in where.keys:
        try:
            paramiko.RSAKey.from_private_key_file(path)
        except paramiko.PasswordRequiredException:
            if _public(path) not in public:
                return True
        except (paramiko.SSHException, OSError, ValueError):
            pass  # no such file, or a key of another kind
    return False


def is_here(where: Place) -> bool:
    """Return whether the host is this very machine, which needs no ssh server."""
    direct = not (where.jump or where.command) and where.port == SSH and where.user == getpass.getuser()
    with contextlib.suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as probe:
        probe.connect((socket.gethostbyname(where.address), SSH))  # it sends nothing
        return direct and probe.getsockname()[0] in (probe.getpeername()[0], "127.0.0.1")
    return False


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


class PromptChannel(SshChannel):
    """A command whose terminal on its host is mnrun's own."""

    def __init__(self, channel: paramiko.Channel, line: str, term: str) -> None:
        channel.get_pty(term, *terminal.size())
        super().__init__(channel, line)
        self._loan = terminal.RawTerminal(self._resize)

    def wait(self) -> int | None:
        code = super().wait()
        self._loan.back()
        return code

    def _resize(self, columns: int, lines: int) -> None:
        import paramiko

        with contextlib.suppress(paramiko.SSHException):  # the command has ended
            self._channel.resize_pty(columns, lines)


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

    def admits(self, client: paramiko.SSHClient, user: str, keys: Sequence[paramiko.PKey]) -> bool:
        """Return whether the host takes one of these keys, on the connection on which it has refused others."""
        import paramiko

        transport = client.get_transport()
        for key in keys:
            with contextlib.suppress(paramiko.SSHException):
                trusted = transport and transport.get_remote_server_key() in self.keys
                # auth_publickey returns the further methods that the host wants.
                if transport and trusted and not transport.auth_publickey(user, key):
                    return True
        return False


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

    def client(self, where: Place) -> paramiko.SSHClient:
        """Return a connection to a host, logged in. Raises the errors of paramiko and the network."""
        import paramiko

        client = paramiko.SSHClient()
        trust = self._trust(where)
        client.set_missing_host_key_policy(trust)  # type: ignore[arg-type]
        agent_keys = _agents(where) if where.only else []
        try:
            client.connect(
                where.alias or where.address,
                port=SSH if where.alias else where.port,
                username=where.user,
                key_filename=[key for key in where.keys if os.access(key, os.R_OK)],  # type: ignore[arg-type]
                pkey=agent_keys[0] if agent_keys else None,
                allow_agent=where.agent and not where.only,
                look_for_keys=False,
                sock=self._socket(where),
                timeout=where.timeout,
                banner_timeout=where.timeout,
                auth_timeout=where.timeout,
                disabled_algorithms={"keys": trust.unknown()},
            )
        except paramiko.SSHException:
            if not trust.admits(client, where.user, agent_keys[1:]):
                raise
        with self._lock:
            self._clients.append(client)
        return client

    def _trust(self, where: Place) -> Trust:
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

    def _socket(self, where: Place) -> socket.socket | paramiko.Channel | paramiko.ProxyCommand:
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
                where = place(*jump(last))
                self._jumps[names] = self.client(replace(where, jump=before) if before else where)
            return self._jumps[names]

    def close(self) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda client: client.close(), self._clients))


class ParamikoTransport(Transport):
    """The transport by one connection to each host. A host that is this very machine has None instead."""

    def __init__(self, clients: Mapping[str, paramiko.SSHClient | None]) -> None:
        super().__init__(tuple(clients))
        self._clients = clients

    def connect(self, node: str, argv: Words) -> Channel:
        client, mark = self._clients[node], login_shell.mark()
        if client is None:
            return ProcessChannel((*_HERE, *argv))
        return Marked(SshChannel(_session(client), login_shell.line(argv, mark)), mark)

    def prompt(
        self, name: str, node: str, argv: Words, environ: dict[str, str], events: queue.SimpleQueue[Event]
    ) -> Running:
        client = self._clients[node]
        if client is None:
            return process.start(name, Command((*_HERE, *argv)), environ, events, piped=False, terminal=True)
        try:
            channel = PromptChannel(_session(client), login_shell.line(argv), environ.get("TERM", "dumb"))
        except Exception as error:  # the server allows no terminal, or is gone
            raise NodeError(f"{node} refuses a terminal ({error})", "see PermitTTY in its sshd_config") from None
        return Program(name, node, channel, events)


_HERE = ("sh", "-c", 'exec "$@"', "sh")  # a missing program is an exit code, as on other hosts, and not an error


def _session(client: paramiko.SSHClient) -> paramiko.Channel:
    transport = client.get_transport()
    assert transport is not None
    return transport.open_session(timeout=PATIENCE)


@contextlib.contextmanager
def connected(spec: JobSpec) -> Iterator[ParamikoTransport]:
    """Yield the transport to the hosts of the job, and close it at the end.

    Raises NodeError with the name of each host that cannot be reached. In that case, nothing runs on the others.
    """
    # Without a handler, logging prints paramiko's messages among mnrun's errors.
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    pool = SshPool()
    reasons: dict[str, str] = {}

    def client(name: str) -> paramiko.SSHClient | None:
        where = Place(name, name)
        try:
            where = place(name, spec.hosts.ssh_user, spec.hosts.ssh_port)
            return None if is_here(where) else pool.client(where)
        except Exception as error:  # errors of paramiko, the network, known_hosts and keys
            reasons[name] = why_refused(where, why_unopened(error, len(spec.hosts.names)))
            return None

    try:
        clients = each([host.name for host in spec.hosts.names], client)
        if reasons:
            raise unreachable.error({name: reasons[name] for name in clients if name in reasons}, len(clients))
        yield ParamikoTransport(clients)
    finally:
        pool.close()
