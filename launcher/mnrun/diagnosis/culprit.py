"""Find the rank that failed first, in the words of mpirun. A rank that mpirun starts does not report its own end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from mnrun.model import Culprit

# Open MPI 4 and 5 name the rank of a signal, and a process as [[JOB,1],RANK] or [NAME@1,RANK].
_RANK = re.compile(r"noticed that process rank (\d+) with PID \d+ on node |Process name: \[\S+,(\d+)\]$")


def culprit(lines: Iterable[str], places: Mapping[int, str]) -> Culprit | None:
    """Return the first rank that mpirun calls failed. `places` are the nodes of the ranks that have started."""
    for line in lines:
        match = _RANK.search(line.rstrip())
        rank = int(match[1] or match[2]) if match else -1
        if rank in places:
            return Culprit(rank, places[rank])
    return None
