"""What the test programs print, understood and judged."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from .stage import Desk, Result

HELLO_LINE = re.compile(r"rank (\d+) of (\d+) on (\S+) sum (\d+) VAR=(.*?)(?: gpus=(\S*))?")
OURS = (121, 122, 123, 124, 125)


@dataclass(frozen=True)
class Rank:
    """One line of /opt/mpi/hello."""

    rank: int
    size: int
    host: str
    total: int
    value: str
    gpus: str


def ranks(result: Result) -> list[Rank]:
    """Return the ranks that spoke, in order; standard output must hold nothing else."""
    found = []
    for line in result.out.splitlines():
        match = HELLO_LINE.fullmatch(line)
        assert match, f"standard output has a line that is not the program's: {line!r}\n{result}"
        number, size, host, total, value, gpus = match.groups()
        found.append(Rank(int(number), int(size), host, int(total), value, gpus or ""))
    return sorted(found, key=lambda rank: rank.rank)


def check(result: Result, *nodes: str, tasks: int = 2, spread: dict[str, int] | None = None) -> list[Rank]:
    """hello ended well: every rank once, the sum right, and so many on each of these nodes."""
    assert result.code == 0, result
    wanted = spread or dict.fromkeys(nodes, tasks)
    found, size = ranks(result), sum(wanted.values())
    assert [rank.rank for rank in found] == list(range(size)), result
    assert {rank.size for rank in found} == {size}, result
    assert {rank.total for rank in found} == {size * (size + 1) // 2}, result
    assert Counter(rank.host for rank in found) == wanted, result
    return found


def everybody_spoke(size: int) -> Any:
    """Return a condition on a running hello: all its ranks have printed their line."""
    return lambda result: result.out.count("\n") >= size


# A child of Open MPI's mpirun was quicker than its parent (plm_ssh and plm_rsh, setpgid), which harms nothing.
SETPGID = r"\[\S+\] plm:(?:ssh|rsh): Warning: setpgid"
# What is said only where Slurm takes its time.
BUSY = r"mnrun: job \d+ is queued: |srun: (?:Job .*step creation|Step created|job \d+ (?:queued|has been))"


def errors(result: Result) -> str:
    """Standard error, less what depends on who is first and on how busy the machine is."""
    return re.sub(f"(?m)^(?:{SETPGID}|{BUSY}).*\n", "", result.err)


def mine(result: Result) -> list[str]:
    """mnrun's own lines on standard error, without its name; that of a job that waits in the queue is left out."""
    lines = errors(result).replace("\0", "").splitlines()  # mpirun 5 ends its long messages with one
    return [line[len("mnrun: ") :] for line in lines if line.startswith("mnrun: ")]


def refusal(result: Result, code: int | tuple[int, ...], *wanted: str) -> str:
    """Return the last line of ours on standard error: it must say all that is wanted; nothing ran, nothing broke."""
    codes = (code,) if isinstance(code, int) else code
    assert result.code in codes, result
    assert "Traceback" not in result.err, result
    assert result.out == "", result
    said = mine(result)
    assert said, result
    for text in wanted:
        assert text in said[-1], f"{text!r} is not in {said[-1]!r}\n{result}"
    return said[-1]


def only_line(result: Result, code: int | tuple[int, ...], *wanted: str) -> str:
    """Return a refusal that is all there is on standard error: one clear line."""
    line = refusal(result, code, *wanted)
    assert errors(result) == f"mnrun: {line}\n", result
    return line


def shown(desk: Desk, size: int) -> list[dict[str, Any]]:
    """Return what every rank of programs/show.py found out, in the order of ranks."""
    names = [f"rank{number}.json" for number in range(size)]
    assert [name for name in desk.names() if name.startswith("rank")] == sorted(names), desk.names()
    return [json.loads(desk.read(name)) for name in names]


def tells(report: Any, code: int, last: str, image: str = "", ranks: int = 4) -> None:
    """A report begins with its job: its code, the last word of its command, its image, and its ranks on two nodes."""
    job = report["about"]
    assert (job["code"], job["command"][-1], job["image"]) == (code, last, image), job
    assert (job["nodes"], job["ranks"]) == (2, ranks), job
    assert 0 < job["submitted"] <= job["began"], job
    # Kubernetes says no end of a job while its pods are removed.
    assert job["began"] <= job["ended"] or (job["state"], job["ended"]) == ("CANCELLED", 0), job
    if image.startswith("/"):
        assert job["identity"]["size"] > 1e6 and UUID(job["identity"]["sif"]), job
