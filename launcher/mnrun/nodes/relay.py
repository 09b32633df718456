"""Relay the messages between the nodes of a job through the launcher (wrappers/pipe/pipe_frames.sh). Reads no file.

up    ask|answer FROM TO ID KIND DATA      from FROM's guard
down  ask|answer TO FROM ID KIND DATA      to TO's guard, which passes the rest on

srun keeps only short lines whole on their way up. Down the lease a line may be as long as a pipe keeps whole. So lines
of data that follow each other become one, since each line costs each node's guard time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

LONGEST = 4095  # bytes of a line without its end: below PIPE_BUF (pipe(7))
AT_ONCE = 4  # lines from below, which are below 1024 bytes each
COMMAND = re.compile(r"\d+\.\d+", re.ASCII)  # the process that asked, and its start time: a part of file names
DATA = re.compile(r"(\w+ \S+ \S+ \S+ (?:in|out|err))(\+?) (\d+) (\S+)")


def join(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines, with those of data that follow each other as one."""
    parts: list[re.Match[str]] = []
    end = 0
    for line in lines:
        part = DATA.fullmatch(line)
        if parts and not (part and len(parts) < AT_ONCE and _follows(part, parts[-1], end)):
            yield _whole(parts, end)
            parts = []
        if part:
            parts.append(part)
            end = int(part[3]) + len(part[4])
        else:
            yield line
    if parts:
        yield _whole(parts, end)


def _follows(part: re.Match[str], last: re.Match[str], end: int) -> bool:
    return part[1] == last[1] and last[2] == "+" and int(part[3]) == end


def _whole(parts: list[re.Match[str]], end: int) -> str:
    last = parts[-1]
    return f"{last[1]}{last[2]} {parts[0][3]}-{end} {''.join(part[4] for part in parts)}"


def route(line: str, nodes: Collection[str], gone: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the node that a line goes to, and the line as it goes there, or None if nobody waits for it.

    `gone` has the reason for each node that cannot be reached. A node that asks such a node gets the reason as its
    answer.
    """
    try:
        word, sender, to, identity, kind, *data = line.split(" ", 5)
    except ValueError:
        return None
    reason = gone.get(to, "") if to in nodes else "it is not a node of this job"
    if sender not in nodes or not COMMAND.fullmatch(identity):
        return None
    if not reason:
        return to, " ".join((word, to, sender, identity, kind, *data))
    if word == "ask" and kind == "run":
        return sender, f"answer {sender} {to} {identity} no {reason}"[:LONGEST]
    return None
