"""Define the errors that end a launch, with their exit codes, reasons and remedies.

    LaunchError
    ├── UsageError      2    the command line or a value in it is wrong
    │   └── NoImageError    2    nothing names an image
    ├── NodeError       121  a node was lost, or never became ready
    ├── Impossible      122  the request cannot work, for a known reason
    ├── SchedulerError  123  the scheduler refused or failed
    │   ├── NoAnswerError   123  it did not answer, and may still act
    │   └── NotYours        123  there are no such jobs of this user's
    ├── DeadlineError   124  a deadline passed (as timeout(1))
    │   ├── NotServing      124  a service was not ready in time
    │   └── TimeLimit       124  the job's own
    ├── OutOfMemory     137  the kernel killed the program for want of memory
    ├── RuntimeFailed   125  the container runtime failed (as docker run)
    └── JobEnded        143  the scheduler's job was cancelled
        └── Requeued    143  … and the scheduler will start it again

120 is a bug in mnrun (any other exception). 126, 127 and 128+n are the shell's codes. Every other code is the user's
program's own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import suppress

BUG = 120
# Also those that change the direction of the text after them (UAX #9), and that end a line (U+2028, U+2029).
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def one_line(text: str) -> str:
    """Return a text with `?` for each control character, so that a terminal does not obey a name or a value."""
    return _CONTROL.sub("?", text)


class LaunchError(Exception):
    """An error in one line: the problem with its findings, and the action to take. `more` has further lines.
    `reason` is a word for programs, which never changes."""

    code, reason = BUG, "bug"
    told = False  # whether it was shown

    def __init__(self, message: str, remedy: str = "", *more: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.more = more

    def __str__(self) -> str:
        line = f"{self.message}; {self.remedy}" if self.remedy else self.message
        return "\n".join(map(one_line, (line, *self.more)))


def tell(error: LaunchError, after: str = "") -> int:
    """Show an error, unless that was done before, and return its exit code. `after` follows it. The record of a
    job's end comes after it, so that who sees the record has the whole output."""
    if not error.told:
        error.told = True
        with suppress(OSError):  # nobody reads the message, and the exit code counts all the same
            print(f"mnrun: {error}{after}", file=sys.stderr, flush=True)
    return error.code


class UsageError(LaunchError):
    code, reason = 2, "usage"


class NoImageError(UsageError):
    reason = "no-image"


class NodeError(LaunchError):
    code, reason = 121, "node"


class Impossible(LaunchError):
    code, reason = 122, "impossible"


class SchedulerError(LaunchError):
    code, reason = 123, "scheduler"


class NoAnswerError(SchedulerError):
    """An error for a scheduler that did not answer in time, but may still act. `heard` is its output before that."""

    reason = "no-answer"

    def __init__(self, message: str, remedy: str = "", heard: str = "") -> None:
        super().__init__(message, remedy)
        self.heard = heard


class NotYours(SchedulerError):
    """An error for ids that are no jobs of this user's."""

    reason = "no-such-job"

    def __init__(self, message: str, ids: Sequence[str]) -> None:
        super().__init__(message)
        self.ids = tuple(ids)


class DeadlineError(LaunchError):
    code, reason = 124, "deadline"


class NotServing(DeadlineError):
    reason = "not-ready"


class TimeLimit(DeadlineError):
    reason = "time-limit"


class JobEnded(LaunchError):
    code, reason = 143, "cancelled"


class Requeued(JobEnded):
    reason = "requeued"


class RuntimeFailed(LaunchError):
    code, reason = 125, "runtime"


class OutOfMemory(LaunchError):
    """An error for a program that the kernel killed. Its exit code is the program's own, by SIGKILL."""

    code, reason = 137, "out-of-memory"
