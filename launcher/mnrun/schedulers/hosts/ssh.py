"""Hosts by the OpenSSH client, one for each command. It reads its configuration, and finds keys and agents itself."""

from __future__ import annotations

import base64
import contextlib
import getpass
import os
import re
import shlex
import socket
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from mnrun.errors import NodeError
from mnrun.jobspec import JobSpec
from mnrun.model import Words
from mnrun.reach.ssh import FAILED, OPTIONS, words
from mnrun.reach.transport import Client, Transport, each
from mnrun.schedulers.hosts.names import jump
from mnrun.system import process
from mnrun.system.process import ProcessChannel, tied

PATIENCE = 15.0  # seconds for each step of a login, and for `ssh -G`
SSH = 22
SYSTEM_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
LOGIN = re.compile(r"permission denied|authentication|encrypted", re.IGNORECASE)
# By default, sshd drops some logins beyond ten at a time (sshd_config(5), MaxStartups). ssh itself logs in to a jump
# host once for each host behind it.
LOGINS = 8
Kind = Callable[[Words, Client, Collection[str], int], Transport]


@dataclass(frozen=True)
class Target:
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
    timeout: float = PATIENCE


def target(name: str, user: str = "", port: int | None = None) -> Target:
    """Return a host as the OpenSSH client would reach it, with this user and port if they are given."""
    return of_settings(name, _settings(name, user, port), user, port)


def of_settings(name: str, settings: Mapping[str, list[str]], user: str, port: int | None) -> Target:
    """Return a host by the values of its settings."""

    def first(key: str, default: str = "") -> str:
        value = settings.get(key, [default])[0]
        return "" if value == "none" else value

    timeout = first("connecttimeout")
    home, common = first("userknownhostsfile", "~/.ssh/known_hosts"), first("globalknownhostsfile", SYSTEM_KNOWN_HOSTS)
    return Target(
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
        float(timeout) if timeout.isdecimal() else PATIENCE,
    )


_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")


def _settings(name: str, user: str, port: int | None) -> dict[str, list[str]]:
    """Return the values of each setting of a host, by `ssh -G`. There are none without ssh, or with an old one."""
    settings: dict[str, list[str]] = {}
    with contextlib.suppress(NodeError):
        for line in process.ask(("ssh", "-G", *login(user, port), "--", name), PATIENCE).splitlines():
            key, _, value = line.partition(" ")
            settings.setdefault(key.lower(), []).append(value)
    return settings


def login(user: str, port: int | None) -> Words:
    """Return the options of ssh for a user and a port, if they are given."""
    return (*(("-l", user) if user else ()), *(("-p", str(port)) if port else ()))


def targets(spec: JobSpec) -> list[Target]:
    """Return the settings of all hosts of the job."""
    names = [host.name for host in spec.hosts.names]
    return list(each(names, lambda name: target(name, spec.hosts.ssh_user, spec.hosts.ssh_port)).values())


def why_refused(where: Target, error: str) -> str:
    """Return the reason of a failed login: the words of the error, or a passphrase on one of our keys."""
    return "the key for it has a passphrase" if LOGIN.search(error) and _locked(where) else error


def _locked(where: Target) -> bool:
    """Return whether a key for the host has a passphrase, and no agent holds that key."""
    held = ""
    with contextlib.suppress(NodeError):  # no agent, or an empty one
        held = process.ask(("ssh-add", "-L"), PATIENCE)
    return any(_encrypted(path) and (_public(path) or path) not in held for path in where.keys)


def _public(path: str) -> str:
    """Return the public key in base64 from the file beside a private one, as an agent tells it, or ""."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"{path}.pub", encoding="utf-8") as file:
        return file.read().split()[1]
    return ""


def _encrypted(path: str) -> bool:
    """Return whether the file is a private key with a passphrase."""
    try:
        with open(path, encoding="utf-8") as file:
            first, *lines = file.read().splitlines() or [""]
        if "OPENSSH" not in first:
            return "ENCRYPTED" in "".join((first, *lines[:2]))  # PEM (RFC 1421, RFC 7468)
        # OpenSSH's own format names the cipher at its begin (PROTOCOL.key).
        return b"\0\0\0\4none" not in base64.b64decode("".join(lines[:-1]))[:32]
    except (OSError, ValueError):
        return False


def is_here(where: Target) -> bool:
    """Return whether the host is this very machine, which needs no ssh server."""
    direct = not (where.jump or where.command) and where.port == SSH and where.user == getpass.getuser()
    with contextlib.suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as probe:
        probe.connect((socket.gethostbyname(where.address), SSH))  # it sends nothing
        return direct and probe.getsockname()[0] in (probe.getpeername()[0], "127.0.0.1")
    return False


@contextlib.contextmanager
def connected(spec: JobSpec, kind: Kind = Transport) -> Iterator[Transport]:
    """Yield the transport to the hosts of the job, of that kind. It connects at the first use."""
    known = {where.name: where for where in targets(spec)}
    options = login(spec.hosts.ssh_user, spec.hosts.ssh_port)
    with _through(Counter(where.jump for where in known.values() if where.jump)) as ways:

        def client(node: str, line: str, terminal: bool) -> Words:
            return words(node, line, *ways.get(known[node].jump, ()), *options, terminal=terminal)

        here = [where.name for where in known.values() if is_here(where)]
        yield kind(tuple(known), client, here, FAILED)


@contextlib.contextmanager
def _through(jumps: Mapping[str, int]) -> Iterator[Mapping[str, Words]]:
    """Yield jump -> the options of an ssh through it, for each jump host before many hosts. One login serves them all.
    The connection ends with the context. If it fails, ssh finds its own way, and says why that fails."""
    with contextlib.ExitStack() as stack:
        ways: dict[str, Words] = {}
        for names in (names for names, hosts in jumps.items() if hosts > LOGINS):
            path = f"{stack.enter_context(tempfile.TemporaryDirectory(prefix='mnrun.'))}/ssh"
            before, _, last = names.rpartition(",")
            name, user, port = jump(last)
            to = (*OPTIONS, *login(user, port), *(("-J", before) if before else ()), "--", name)
            up = ("-o", "PermitLocalCommand=yes", "-o", "LocalCommand=echo up")
            if stack.enter_context(_says(("ssh", "-M", "-N", "-S", path, *up, *to))):
                ways[names] = ("-o", f"ProxyCommand={shlex.join(('ssh', '-S', path, '-W', '[%h]:%p', *to))}")
        yield ways


@contextlib.contextmanager
def _says(argv: Words) -> Iterator[bool]:
    """Yield whether a program that lasts as long as the context says something before it ends."""
    channel = ProcessChannel(tied(argv))
    late = threading.Timer(2 * PATIENCE, channel.cut)
    late.start()
    try:
        said = channel.receive(1)
        late.cancel()
        yield said != b""
    finally:
        channel.cut()
        channel.wait()
