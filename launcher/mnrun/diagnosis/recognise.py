"""Find the cause of a failure in a job's output. A wrong cause is worse than none."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable

from mnrun.diagnosis import gpus, mpis, networks, programs, python, runtimes
from mnrun.messages import Diagnosis
from mnrun.schedulers import KNOWN

# A line counts for the first entry that fits, so the specific tables come first.
TABLE = (
    *gpus.ENTRIES,
    *networks.ENTRIES,
    *mpis.ENTRIES,
    *runtimes.ENTRIES,
    *(entry for scheduler in KNOWN.values() for entry in scheduler.MESSAGES),
    *python.ENTRIES,
    *programs.ENTRIES,
)

LINES = 2000  # the last lines of the output, which are read
WIDTH = 1000  # the first characters of a line, which are read
# Colours, titles and other sequences for a terminal (ECMA-48, 5.4), and other control characters
SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# The rank in front of a line: of srun -l and mnrun -l, of mpirun --tag-output, of torchrun and Intel's mpirun -l
LABEL = re.compile(r"^(?: {0,8}\d+: |\[\d+,\d+\]<std(?:out|err)>: ?|\[rank\d+\]: ?|\[\d+\] )")
# The last line of a Python traceback, but for errors about the end of another process
EXCEPTION = re.compile(
    r"^(?!.*(?:CalledProcessError|ChildFailedError))(?:[A-Za-z_]\w*\.){0,9}[A-Z]\w*(?:Error|Exception)(?::|$)"
)
CHAINED = "The above exception was the direct cause of the following exception:"


def diagnose(lines: Iterable[str], code: int | None = None, contained: bool = True) -> Diagnosis | None:
    """Return the cause that a failed job's output names, or None if it names no known cause.

    `code` is the job's exit code, if it is known. `contained` says whether the program ran in a container. Of several
    causes the first counts: the others may follow from it. Python's errors are different: a program may have dealt with
    all but the last one.
    """
    if code == 0:
        return None
    cause: Diagnosis | None = None
    consequence: Diagnosis | None = None
    chained = False
    for line in map(plain, deque(lines, maxlen=LINES)):
        entry = next((entry for entry in TABLE if entry.explains(code) and entry.regex.search(line)), None)
        found = entry.read(line, contained) if entry else None
        exception = EXCEPTION.search(line) is not None
        if entry and entry.consequence:
            consequence = consequence or found
        elif exception and not chained:
            cause = found
        else:
            cause = cause or found
        chained = line == CHAINED or (chained and not exception)
    return cause or consequence


def exception(lines: Iterable[str], code: int) -> str:
    """Return the last line of the traceback by which a Python program ended, or "" if there is none, or several."""
    if code != 1:  # Python's for an exception that nobody handles
        return ""
    found, inside = set(), False
    for line in map(plain, deque(lines, maxlen=LINES)):
        inside = inside or line.startswith("Traceback (most recent call last):")
        if inside and EXCEPTION.search(line):
            found.add(line)
            inside = False
    return found.pop()[:200] if len(found) == 1 else ""


def traceback(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the traceback by which a Python program ended, or () if there is none, or several, or half of one."""
    found: list[tuple[str, ...]] = []
    block: list[str] = []
    for line in map(plain, deque(lines, maxlen=LINES)):
        begins = line.startswith("Traceback (most recent call last):")
        if begins or (block and line.startswith(" ")):
            block = [line] if begins else [*block, line]
        elif block and EXCEPTION.search(line):
            found, block = [*found, (*block, line)], []
        elif block:  # of another rank
            return ()
    return found[0] if len(found) == 1 else ()


def labelled(lines: Iterable[str], rank: int) -> tuple[str, ...]:
    """Return the lines that begin with the label of a rank (-l), without it."""
    label = re.compile(rf"^ {{0,8}}{rank}: ")
    return tuple(label.sub("", line) for line in deque(lines, maxlen=LINES) if label.match(line))


def plain(line: str) -> str:
    """Return the text of a line without its label and terminal sequences. Of a progress bar the last state remains."""
    text = line.rstrip().rpartition("\r")[2][:WIDTH]
    return LABEL.sub("", SEQUENCE.sub("", text))
