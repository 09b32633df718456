"""Define the events of a launch: what its commands say, how they end, and the signals that mnrun gets."""

from __future__ import annotations

from typing import Union

from mnrun.model import Words
from mnrun.record import Record


class Line(Record):
    """A line of a command's output. `name` is the command's."""

    name: str
    text: str


class Noise(Record):
    """A line of a command's errors."""

    name: str
    text: str


class Pipe(Record):
    """Lines of nodes to each other, which come many at once (nodes/relay.py)."""

    name: str
    lines: Words


class Ended(Record):
    """The end of a command."""

    name: str
    code: int


class Lost(Record):
    """A node to which the connection of a command has gone."""

    name: str
    node: str
    why: str


class Signal(Record):
    """A signal that ends the launch."""

    signum: int


class Told(Record):
    """A signal for the program, such as USR1."""

    signal: str


class State(Record):
    """The scheduler's answer about its job, after a TERM. `signal` is for the program if the job goes on."""

    signal: str
    over: bool
    preempted: bool


class Queued(Record):
    """A reason for which a job waits."""

    job: str
    reason: str


class Doubt(Record):
    """A fault of a request for nodes."""

    text: str


Event = Union[Line, Noise, Pipe, Ended, Lost, Signal, Told, State, Queued, Doubt]
