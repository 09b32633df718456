"""Run a client whose sudden end would end the whole job. A signal ends its command instead, by another client.

Under Grid Engine, the tasks of a client that dies are killed, and a task that a signal has ended takes its job along.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

from mnrun.model import Words

# `python -m` would look for modules in the working directory first.
_CALL = (
    "import sys; sys.path[:] = filter(None, sys.path)\n"
    "from mnrun.reach.gentle import run; sys.exit(run(int(sys.argv[1]), sys.argv[2:]))"
)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Signals the processes of a command on its node. A shell waits for it, with the command's mark among its words.
_END = """\
for file in $(grep -laF -- "$0" /proc/[0-9]*/cmdline 2>/dev/null); do
  process=${file%/cmdline}
  read -r name <"$process/comm" && [ "$name" = sh ] && [ "$process" != "/proc/$$" ] &&
    read -r children <"$process/task/${process#/proc/}/children"
  for child in $children; do kill -s "$1" -- "-$child"; done
  children=
done 2>/dev/null
"""


def ending(mark: str, name: str) -> Words:
    """Return the words that send a signal to the command with this mark, on its node."""
    return ("sh", "-c", _END, mark, name)


def client(words: Words, *ends: Words) -> Words:
    """Return the words that run a client. `ends` are the clients that end its command, from gentle to hard."""
    counted = [word for end in ends for word in (str(len(end)), *end)]
    return (sys.executable, "-c", _CALL, str(len(ends)), *counted, *words)


def run(number: int, words: Sequence[str]) -> int:
    """Run a client with `number` ends in front of it, and return its code. Each signal starts the next of them."""
    rest, ends = list(words), []
    for _ in range(number):
        length = int(rest[0])
        ends.append(rest[1 : length + 1])
        rest = rest[length + 1 :]
    told: list[int] = []

    def end(signum: int, frame: FrameType | None) -> None:
        told.append(signum)
        if ends:
            null = subprocess.DEVNULL
            subprocess.Popen(ends.pop(0), stdin=null, stdout=null, stderr=null, start_new_session=True)

    for each in SIGNALS:
        signal.signal(each, end)
    code = subprocess.Popen(rest, start_new_session=True).wait()
    return 128 + told[0] if told else 128 - code if code < 0 else code
