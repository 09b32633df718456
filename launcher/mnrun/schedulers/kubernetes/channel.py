"""Run commands in pods by kubectl exec, and believe no end of which the pod itself has not told.

kubectl exec may end early, and with 0 (kubernetes issue 73056). It may outlive its pod (129144), and what it has
started outlives it (89031). So the command's own shell tells its begin and its exit code, on the stream of its errors.
"""

from __future__ import annotations

import queue
import shlex
import signal
import sys
from contextlib import suppress
from types import FrameType

from mnrun.errors import NodeError
from mnrun.model import Words
from mnrun.reach import login_shell
from mnrun.reach.channel import BROKEN, Channel, Told
from mnrun.reach.program import Program
from mnrun.reach.transport import Transport
from mnrun.schedulers.kubernetes import answers
from mnrun.schedulers.kubernetes.kubectl import Place
from mnrun.system.events import Ended, Event, Lost
from mnrun.system.process import ProcessChannel, write

VANISHED = "the connection to it ended before the command did"
# The words become a part of a URL, which a proxy may cut at 8 kB. So the command itself comes first on the input.
_SHELL = ("bash", "--norc", "-p", "-c", 'IFS= read -rd "" mnrun_text && eval "$mnrun_text"')
# In a session of its own, the command may end all of that session.
# bash has set SHELL. Open MPI asks for it where the image has no such user.
_TEXT = """export SHELL
trap : HUP INT TERM USR1 USR2
echo {mark} >&2
setsid -w {line}
code=$?
{told}
printf '\\0%s %s\\n' {mark} "$code" >&2
"""
_SHORT = """echo "$0" >&2; "$@"; code=$?; printf '\\0%s %s\\n' "$0" "$code" >&2; exit "$code\""""
# `python -m` would look for modules in the working directory first.
_CALL = (
    "import sys; sys.path[:] = filter(None, sys.path)\n"
    "from mnrun.schedulers.kubernetes.channel import enter; sys.exit(enter(*sys.argv[1:]))"
)


def within(place: Place, pod: str, words: Words, terminal: bool) -> Words:
    """Return the words that run a command in a pod, with its own code. At a terminal, they have that of kubectl."""
    if terminal:
        return client(place, pod, *words, terminal=True)
    return (sys.executable, "-c", _CALL, place.program, place.context, place.namespace, pod, *words)


def enter(program: str, context: str, namespace: str, pod: str, *words: str) -> int:
    """Run a command in a pod with the streams of this process. Return its code, or 121 if its pod has told none."""

    def end(signum: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + signum)

    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, end)
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    channel = Exec(Place(program, context, namespace), pod, words, short=True)
    Program("", pod, channel, events)
    try:
        while not isinstance(event := events.get(), (Ended, Lost)):
            pass
    finally:
        channel.cut()
    if isinstance(event, Ended):
        return event.code
    write(2, f"mnrun: {pod}: {VANISHED}\n".encode())
    return NodeError.code


def client(place: Place, pod: str, *words: str, terminal: bool = False) -> Words:
    """Return the words of a kubectl exec in a pod."""
    return place.words("exec", "-it" if terminal else "-i", pod, "-c", "main", "--", *words)


class Exec:
    """A channel to a command in a pod."""

    def __init__(self, place: Place, pod: str, argv: Words, short: bool = False) -> None:
        """Start the command. `short` words are in the URL, and need no bash."""
        mark = login_shell.mark()
        self._begin, self._told = f"{mark}\n".encode(), Told(mark)
        shell = ("sh", "-c", _SHORT, mark, *argv) if short else _SHELL
        self._process, self._place = ProcessChannel(client(place, pod, *shell)), place
        self._own, self._begun = b"", False  # errors of kubectl itself, until the command begins
        if short:
            return
        of_launch = any(word.startswith("/tmp/mnrun.") for word in argv)  # so hold.sh need not wait for guards any more
        text = _TEXT.format(mark=mark, line=shlex.join(argv), told="kill -s USR1 1" if of_launch else "") + "\0"
        with suppress(OSError):  # its end tells more
            self._process.send(text.encode("utf-8", "surrogateescape"))

    @property
    def why(self) -> str:
        """The reason of an end before that of the command."""
        own = self._own.decode("utf-8", "replace").strip()
        return answers.refusal(own, self._place.program, self._place.namespace)[0] if own else BROKEN

    def receive(self, stream: int) -> bytes:
        if stream == 1:
            return self._process.receive(1)
        while data := self._process.receive(2):
            if not self._begun:
                self._own, begun, data = (self._own + data).partition(self._begin)
                self._begun = bool(begun)
            if self._begun and (errors := self._told.take(data)):
                return errors
        unbegun = "" if self._begun or not self._own else f"{self.why}\n"
        self._begun = True  # said once
        return unbegun.encode()

    def send(self, data: bytes) -> None:
        if data:
            self._process.send(data)

    def shut(self) -> None:
        self._process.shut()

    def wait(self) -> int | None:
        self._process.wait()
        return self._told.code

    def cut(self) -> None:
        self._process.cut()


class Pods(Transport):
    """A transport to the pods of a job."""

    def __init__(self, names: Words, place: Place) -> None:
        def at_terminal(node: str, line: str, terminal: bool) -> Words:
            return client(place, node, "sh", "-c", line, terminal=terminal)

        super().__init__(names, at_terminal)
        self._place = place

    def connect(self, node: str, argv: Words) -> Channel:
        return Exec(self._place, node, argv)


__all__ = ["Pods", "client", "within"]
