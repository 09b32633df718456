"""Parse the names of hosts without a scheduler."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mnrun import nodeset
from mnrun.errors import UsageError
from mnrun.jobspec import HostRequest

_RANKS = re.compile(r"0*[1-9]\d{0,6}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\Z")


def parse(text: str) -> tuple[HostRequest, ...]:
    """Parse `node[01-04]` or `ws1:2,ws2:1`: each host once, with its number of ranks if the text has one. A host that
    is written twice takes the sum. Raises UsageError if the text is no such list."""
    hosts: list[HostRequest] = []
    for part in re.split(r",(?![^\[]*\])", text):
        names, colon, slots = part.strip().partition(":")
        if not names:
            continue
        if colon and not _RANKS.fullmatch(slots):
            raise UsageError(f"--hosts {part.strip()!r} is not HOST or HOST:RANKS", _ODD)
        hosts += [HostRequest(name, int(slots) if colon else None) for name in nodeset.expand(names)]
    if not hosts:
        raise UsageError(f"--hosts {text!r} names no host", "write node[01-04], or ws1:2,ws2:1")
    return _merged(hosts, "--hosts")


def parse_file(text: str, path: str) -> tuple[HostRequest, ...]:
    """Parse a hostfile, as mpirun and mpiexec read it: `host`, `host slots=2` or `host:2` on each line. Raises
    UsageError with the line's number if a line is none of these."""
    hosts: list[HostRequest] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        match = re.fullmatch(r"([^\s:]+)(?::(\d{1,7}))?", words[0], re.ASCII)
        rest = [word for word in words[1:] if not re.fullmatch(r"max[-_]slots=\d+", word)]
        slots = re.fullmatch(r"slots=(\d{1,7})", rest[0], re.ASCII) if len(rest) == 1 else None
        if not match or (rest and not slots) or (match[2] and slots):
            raise UsageError(f"{path}, line {number}: {line.strip()!r} is not `HOST`, `HOST slots=N` or `HOST:N`", _ODD)
        count = match[2] or (slots[1] if slots else None)
        if count is not None and not int(count):
            raise UsageError(f"{path}, line {number}: {words[0]} has no slots", "leave the line out")
        hosts += [HostRequest(name, int(count) if count else None) for name in nodeset.expand(match[1])]
    if not hosts:
        raise UsageError(f"--hostfile {path} names no host", "write one to a line: HOST, or HOST slots=N")
    return _merged(hosts, path)


_ODD = "give users, ports and addresses with colons a name in ~/.ssh/config, or use --ssh-user and --ssh-port"


def jump(text: str) -> tuple[str, str, int | None]:
    """Return the host, the user and the port of a jump host, `[user@]host[:port]`. `ssh -G` writes an address in
    brackets."""
    user, _, place = text.rpartition("@")
    match = re.fullmatch(r"\[?(.*?)\]?(?::(\d+))?", place, re.ASCII | re.DOTALL)
    assert match is not None
    return match[1], user, int(match[2]) if match[2] else None


def _merged(hosts: Iterable[HostRequest], origin: str) -> tuple[HostRequest, ...]:
    """Return each host once, in the order of writing. If some have a number of ranks, the others take one."""
    slots: dict[str, int | None] = {}
    for host in hosts:
        if not _NAME.match(host.name):
            raise UsageError(f"{origin}: {host.name!r} is not a host name", _ODD)
        if host.name in slots:
            slots[host.name] = (slots[host.name] or 1) + (host.slots or 1)
        else:
            slots[host.name] = host.slots
    some = any(count is not None for count in slots.values())
    return tuple(HostRequest(name, (count or 1) if some else None) for name, count in slots.items())
