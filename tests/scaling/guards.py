"""Speak for the guards of many nodes: one process in place of srun and all nodes. Needs neither.

    guards.py FOLDER FACTS RANKS NODE…

It says what a guard says, with the facts in the file FACTS, and has the ranks say that they start after `go`. The FIFO
`program` in FOLDER is read by the program, which ends once every rank has spoken. The end of standard input is the end
of the lease. The number of bytes from there is then in the file `received`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO


def facts(text: str, place: int) -> str:
    """Return the facts of a node as its guard sends them, on one line."""
    return (
        text.strip().replace("\n", "\t").replace("{n}", str(place % 250 + 1)).replace("{h}", f"{place % 250 + 1:02x}")
    )


def ready(text: str, nodes: Sequence[str]) -> Iterator[str]:
    """Yield the lines of all guards up to the moment when they wait for go."""
    for place, node in enumerate(nodes):
        yield f"fact {node} {facts(text, place)}"
        yield f"ready {node} host={node} address=10.20.{place >> 8}.{place & 255} step=1 user=alice"


def started(nodes: Sequence[str], ranks: int) -> Iterator[str]:
    """Yield the lines of all ranks."""
    for place, node in enumerate(nodes):
        yield from (f"rank {node} {place * ranks + i} {len(nodes) * ranks}" for i in range(ranks))


def until(lease: BinaryIO, word: bytes = b"") -> int:
    """Read up to that line, or to the end. Return the number of bytes."""
    count = 0
    for line in iter(lease.readline, b""):
        count += len(line)
        if line == word:
            break
    return count


def say(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def main(folder: str, text: str, ranks: str, *nodes: str) -> None:
    lease = sys.stdin.buffer
    say(f"here {node}" for node in nodes)
    size = lease.readline()
    received = len(size) + len(lease.read(int(size)))
    with open(Path(folder, "program"), "w", encoding="utf-8"):
        say(ready(Path(text).read_text(encoding="utf-8"), nodes))
        received += until(lease, b"go\n")
        say(started(nodes, int(ranks)))
    received += until(lease)
    Path(folder, "received").write_text(str(received), encoding="utf-8")
    say(f"bye {node} " for node in nodes)


if __name__ == "__main__":
    main(*sys.argv[1:])
