"""Define the errors that end a launch, with their exit codes and remedies.

    LaunchError
    ├── UsageError      2    the command line or a value in it is wrong
    │   └── NoImageError    2    nothing names an image
    ├── NodeError       121  a node was lost, or never became ready
    ├── Impossible      122  the request cannot work, for a known reason
    ├── SchedulerError  123  the scheduler refused or failed
    │   ├── NoAnswerError   123  it did not answer, and may still act
    │   └── NotYours        123  there are no such jobs of this user's
    ├── DeadlineError   124  a deadline passed (as timeout(1))
    ├── OutOfMemory     137  the kernel killed the program for want of memory
    ├── RuntimeFailed   125  the container runtime failed (as docker run)
    └── JobEnded        143  the scheduler's job was cancelled
        └── Requeued    143  … and the scheduler will start it again

120 is a bug in mnrun (any other exception). 126, 127 and 128+n are the shell's codes. Every other code is the user's
program's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

BUG = 120
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def one_line(text: str) -> str:
    """Return a text with `?` for each control character, so that a terminal does not obey a name or a value."""
    return _CONTROL.sub("?", text)


class LaunchError(Exception):
    """An error with the problem and its findings (`message`), and the action to take (`remedy`).

    Its text is one line, and `more` has further lines, such as a command to copy.
    """

    code = BUG

    def __init__(self, message: str, remedy: str = "", *more: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.more = more

    def __str__(self) -> str:
        line = f"{self.message}; {self.remedy}" if self.remedy else self.message
        return "\n".join(map(one_line, (line, *self.more)))


class UsageError(LaunchError):
    code = 2


class NoImageError(UsageError):
    pass


class NodeError(LaunchError):
    code = 121


class Impossible(LaunchError):
    code = 122


class SchedulerError(LaunchError):
    code = 123


class NoAnswerError(SchedulerError):
    """An error for a scheduler that did not answer in time, but may still act. `heard` is its output before that."""

    def __init__(self, message: str, remedy: str = "", heard: str = "") -> None:
        super().__init__(message, remedy)
        self.heard = heard


class NotYours(SchedulerError):
    """An error for ids that are no jobs of this user's."""

    def __init__(self, message: str, ids: Sequence[str]) -> None:
        super().__init__(message)
        self.ids = tuple(ids)


class DeadlineError(LaunchError):
    code = 124


class JobEnded(LaunchError):
    code = 143


class Requeued(JobEnded):
    pass


class RuntimeFailed(LaunchError):
    code = 125


class OutOfMemory(LaunchError):
    """An error for a program that the kernel killed. Its exit code is the program's own, by SIGKILL."""

    code = 137
