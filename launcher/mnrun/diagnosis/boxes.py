"""Leave out the messages of mpirun and srun about the end of a rank, which mnrun names in one line."""

from __future__ import annotations

import re
from collections.abc import Sequence

RULE = re.compile(r"-{74}|={83}")  # the lines around a message of Open MPI (show_help), and of MPICH's Hydra
# The beginning of a message that says only that a rank has ended.
_END = re.compile(
    r"(?:prterun|mpirun) (?:has exited due to process|noticed that process|detected that one or more processes)"
    r"|Primary job  terminated normally, but|MPI_ABORT was invoked on rank|=   BAD TERMINATION OF ONE OF YOUR "
)
_OF_SRUN = re.compile(r"srun: (?:error: \S+: tasks? \S+: (?:Exited with exit code|Terminated)|Terminating )")


def without_boxes(lines: Sequence[str]) -> list[str]:
    """Return the lines without these messages. A message whose last line is missing stays."""
    shown: list[str] = []
    box: list[str] | None = None
    for line in lines:
        if RULE.fullmatch(line) is None:
            (shown if box is None else box).append(line)
        elif box is None:
            box = []
        else:
            shown += [] if any(map(_END.match, box)) else [line, *box, line]
            box = None
    shown += box or []
    return [line for line in shown if not _OF_SRUN.match(line)]
