"""Define the errors that end a launch, with their exit codes and remedies.

    LaunchError
    ├── UsageError      2    the command line or a value in it is wrong
    │   └── NoImageError    2    nothing names an image
    ├── NodeError       121  a node was lost, or never became ready
    ├── Impossible      122  the request cannot work, for a known reason
    ├── SchedulerError  123  the scheduler refused or failed
    │   └── NoAnswerError   123  it did not answer, and may still act
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

BUG = 120
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CONTROL_IN_LINES = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")  # without the end of a line


class LaunchError(Exception):
    """An error with the problem and its findings (`message`), and the action to take (`remedy`).

    A control character of a name or a value becomes `?`, so that a terminal does not obey it. The message is one line,
    and a remedy may have a line of its own to copy.
    """

    code = BUG

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        message = _CONTROL.sub("?", self.message)
        return f"{message}; {_CONTROL_IN_LINES.sub('?', self.remedy)}" if self.remedy else message


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
