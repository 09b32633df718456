"""Find the rank that failed first, in the words of mpirun or of mnrun.

A rank that mpirun starts does not report its own end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from mnrun.model import Culprit

# Open MPI 4 and 5 name the rank of a signal, and a process as [[JOB,1],RANK] or [NAME@1,RANK].
_RANK = re.compile(
    r"noticed that process rank (\d+) with PID \d+ on node |Process name: \[\S+,(\d+)\]$"
    r"|^mnrun: rank (\d+) on \S+ (?:exited with|was killed by) "
)


def culprit(lines: Iterable[str], node_of_rank: Mapping[int, str]) -> Culprit | None:
    """Return the first rank that mpirun or mnrun calls failed. `node_of_rank` has the ranks that have started."""
    for line in lines:
        match = _RANK.search(line.rstrip())
        rank = int(match[match.lastindex or 0]) if match else -1
        if rank in node_of_rank:
            return Culprit(rank, node_of_rank[rank])
    return None
