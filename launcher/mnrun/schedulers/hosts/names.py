"""Hosts without a scheduler: the names asked for, the facts of each host, and ssh in front of a step."""

from __future__ import annotations

import base64
import gzip
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mnrun import nodeset
from mnrun.errors import NodeError, UsageError
from mnrun.files import spoken
from mnrun.model import Allocation, Asked, Node, Plan, Site, Variable, Where, Words

CLIENT = SIGNALS = LIMITS = NUMBERS = False

EACH = "MNRUN_NODE={node}"  # in the words of `reach`: the name of each host in turn
JOB = "hosts"

_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\Z")


def parse(text: str) -> tuple[Asked, ...]:
    """Parse `node[01-04]` or `ws1:2,ws2:1`: each host once, with its number of ranks if the text has one.

    A host that is written twice takes the sum. Raises UsageError if the text is no such list.
    """
    found: list[Asked] = []
    for part in re.split(r",(?![^\[]*\])", text):
        names, colon, slots = part.strip().partition(":")
        if not names:
            continue
        if colon and not (slots.isdecimal() and int(slots)):
            raise UsageError(f"--hosts {part.strip()!r} is not HOST or HOST:RANKS", _ODD)
        found += [Asked(name, int(slots) if colon else None) for name in nodeset.expand(names)]
    if not found:
        raise UsageError(f"--hosts {text!r} names no host", "write node[01-04], or ws1:2,ws2:1")
    return _merged(found, "--hosts")


def parse_file(text: str, path: str) -> tuple[Asked, ...]:
    """Parse a hostfile, as mpirun and mpiexec read it: `host`, `host slots=2` or `host:2` on each line.

    Raises UsageError with the line's number if a line is none of these.
    """
    found: list[Asked] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        match = re.fullmatch(r"([^\s:]+)(?::(\d+))?", words[0])
        rest = [word for word in words[1:] if not re.fullmatch(r"max[-_]slots=\d+", word)]
        slots = re.fullmatch(r"slots=(\d+)", rest[0]) if len(rest) == 1 else None
        if not match or (rest and not slots) or (match[2] and slots):
            raise UsageError(f"{path}, line {number}: {line.strip()!r} is not `HOST`, `HOST slots=N` or `HOST:N`", _ODD)
        count = match[2] or (slots[1] if slots else None)
        if count == "0":
            raise UsageError(f"{path}, line {number}: {words[0]} has no slots", "leave the line out")
        found += [Asked(name, int(count) if count else None) for name in nodeset.expand(match[1])]
    if not found:
        raise UsageError(f"--hostfile {path} names no host", "write one to a line: HOST, or HOST slots=N")
    return _merged(found, path)


_ODD = "give users, ports and addresses with colons a name in ~/.ssh/config, or use --ssh-user and --ssh-port"


def _merged(found: Iterable[Asked], origin: str) -> tuple[Asked, ...]:
    """Return each host once, in the order of writing. If some have a number of ranks, the others take one."""
    slots: dict[str, int | None] = {}
    for host in found:
        if not _NAME.match(host.name):
            raise UsageError(f"{origin}: {host.name!r} is not a host name", _ODD)
        if host.name in slots:
            slots[host.name] = (slots[host.name] or 1) + (host.slots or 1)
        else:
            slots[host.name] = host.slots
    some = any(count is not None for count in slots.values())
    return tuple(Asked(name, (count or 1) if some else None) for name, count in slots.items())


@dataclass(frozen=True)
class Facts:
    """The facts that a host reports (wrappers/probe/host_facts.sh)."""

    cpus: int = 1
    gpus: int = 0
    busy: Words = ()  # a GPU and the process on it
    # A text that tells the image's file from a copy, "" without a file, "directory" for a tree.
    image: str = ""
    size: int = 0
    home: str = ""


def facts(said: str) -> Facts:
    """Parse the `name value` lines of host_facts.sh. Lines that a user's own profile prints among them are skipped."""
    found: dict[str, str] = {}
    busy: list[str] = []
    for line in said.splitlines():
        word, _, value = line.partition(" ")
        if word == "busy":
            busy.append(value)
        elif word in ("cpus", "gpus", "image", "size", "home"):
            found[word] = value

    def number(name: str, default: int) -> int:
        return int(found[name]) if found.get(name, "").isdecimal() else default

    return Facts(
        number("cpus", 1),
        number("gpus", 0),
        tuple(busy),
        found.get("image", ""),
        number("size", 0),
        found.get("home", ""),
    )


def allocation(asked: Sequence[Asked], found: Mapping[str, Facts]) -> Allocation:
    """Return the hosts as an allocation."""
    nodes = (Node(h.name, found[h.name].cpus, found[h.name].gpus, h.slots) for h in asked)
    return Allocation("hosts", JOB, tuple(nodes))


def site(asked: Sequence[Asked]) -> Site:
    return Site("hosts", JOB)


def reach(where: Where, plan: Plan, site: Site) -> Words:
    """Return `ssh HOST` and the variable with the host's name. Each way to reach hosts turns `ssh` into its own
    words."""
    names = plan.layout.nodes
    if where is Where.HEAD:
        return ("ssh", names[0], "exec", "env", f"MNRUN_NODE={names[0]}")
    return ("ssh", nodeset.fold(names), "exec", "env", EACH)


def named(words: Words, node: str) -> Words:
    """Return the words of `reach` with the name of this node filled in. The user's own words stay as they are."""
    place = words.index("env") + 1 if "env" in words else 0
    return (*words[:place], EACH.format(node=node), *words[place + 1 :]) if words[place] == EACH else words


def unnamed(words: Words) -> Words:
    """Return the words of `reach` without the name, for hosts that get it from their environment."""
    place = words.index("env") + 1 if "env" in words else 0
    return (*words[:place], *words[place + 1 :]) if words[place] == EACH else words


_PIECE = 900  # letters: a word in csh has at most 1024
LONGEST = 128 * 1024 - 1  # letters of a line, which is one word for the login shell (MAX_ARG_STRLEN, execve(2))


def program(words: Words) -> Words:
    """Return the same words for a caller that starts the program without a shell."""
    return words[1:] if words[0] == "exec" else words


def in_one_line(words: Words) -> str:
    """Return `exec sh …` in one line that means these words in every login shell, whatever bytes are in them."""
    said = shlex.join(program(words)).encode("utf-8", "surrogateescape")
    packed = base64.b64encode(gzip.compress(said, mtime=0)).decode("ascii")
    pieces = (packed[place : place + _PIECE] for place in range(0, len(packed), _PIECE))
    return f"exec sh -c '{spoken('words.sh')}' sh {' '.join(pieces)}"


def launch_environment(plan: Plan, site: Site) -> tuple[Variable, ...]:
    return ()


def client_environment(environ: Mapping[str, str], plan: Plan) -> Mapping[str, str]:
    return environ


# Errors of ssh, paramiko and the system about a host, their meaning, and the fix.
_REASONS = (
    (  # first, since ssh says it of an unknown key, too
        r"identification has changed|does not match",
        "its host key has CHANGED",
        "ask its admin whether it was installed again; `ssh {host}` then names the line of known_hosts to remove",
    ),
    (
        r"host key verification failed|not found in known_hosts|no acceptable host key",
        "its host key is not known here",
        "`ssh {host}` once and compare it, or ssh-keyscan {host} >>~/.ssh/known_hosts",
    ),
    (
        r"known by a CA only",
        "only a CA signs its host key",
        "use --rsh pdsh, or ssh-keyscan {host} >>~/.ssh/known_hosts",
    ),
    (r"passphrase|encrypted", "the key for it has a passphrase", "ssh-add it to an agent first"),
    (
        r"permission denied|authentication|no existing session",
        "the login was refused",
        "see --ssh-user; `ssh {host} true` must work without a password",
    ),
    (
        r"could not resolve|name or service|no address associated|name resolution",
        "there is no host of that name",
        "check the spelling",
    ),
    (r"refused|unable to connect", "no ssh server answers", "see --ssh-port"),
    (r"timed out|timeout", "it does not answer", "it is down, or a firewall is in between"),
    (r"no route|unreachable", "there is no route to it", "it is down, or not on this network"),
)


def unreachable(reasons: Mapping[str, str], count: int) -> NodeError:
    """Return one error for all hosts that cannot be reached, of `count`: one line, with the fix."""
    alike: dict[tuple[str, str], list[str]] = {}
    for host, said in reasons.items():
        known = ((why, fix) for pattern, why, fix in _REASONS if re.search(pattern, said, re.IGNORECASE))
        alike.setdefault(next(known, (said, "")), []).append(host)
    parts = []
    for (why, fix), hosts in alike.items():
        parts.append(f"{nodeset.fold(hosts)}: {why}" + (f" ({fix.format(host=hosts[0])})" if fix else ""))
    return NodeError(f"{len(reasons)} of {count} hosts cannot be reached: {'; '.join(parts)}")
