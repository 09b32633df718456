"""Start one command, and turn its output and end into events. Every process of a launch begins here.

Each command runs in a session of its own, so that Ctrl-C reaches mnrun alone. Only a command that drives the user's
terminal stays in mnrun's session, since the terminal refuses others. The program's command gets a TERM when mnrun
is killed (`tied`). The serving command gets none: srun answers TERM by killing its tasks, and guards must clean up
first.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import groupby
from typing import IO, Generic, Optional, Protocol, TypeVar, Union

from mnrun.errors import NodeError, SchedulerError
from mnrun.files import BASH, spoken
from mnrun.model import Command, Listed, Words
from mnrun.system.commands import captured, last_line
from mnrun.system.events import Ended, Event, Line, Noise, Pipe
from mnrun.system.terminal import background

T = TypeVar("T")
Said = Union[type[Line], type[Noise]]  # the kind of a stream's lines
Output = tuple[Optional[int], Optional[int]]  # open files in place of mnrun's output and errors
PIPE = ("ask ", "answer ")  # the words of a Pipe
BLOCK = 65536  # bytes in one read
PROBE = 150.0  # seconds for the scripts of wrappers/probe, which have limits of their own for each program


class Stopped(SystemExit):
    """A signal that ends the launch. A verb that does not catch it ends with the shell's code for that signal."""

    def __init__(self, signum: int) -> None:
        super().__init__(128 + signum)
        self.signum = signum


class Running(Protocol):
    """A started command: a child process, or its counterpart on hosts (reach/leases.py)."""

    def send(self, data: bytes, node: str = "") -> None:
        """Write to its input, on that node or on all of them, and return at once, if nobody reads any more, too."""

    def pulse(self) -> None:
        """Write a sign of life from now on, even while mnrun is stopped. Later writes have at most PIPE_BUF bytes."""

    def close(self) -> None:
        """End its input after all data was sent."""

    def wait(self, seconds: float) -> bool:
        """Return whether it ended within that time."""

    def end(self, signum: int) -> None:
        """End it, by that signal if it can receive one."""


class Starter(Protocol):
    """A function that starts a command: `start` below, or a transport's (reach/transport.py)."""

    def __call__(
        self,
        name: str,
        command: Command,
        environ: dict[str, str],
        events: queue.SimpleQueue[Event],
        piped: bool,
        *,
        terminal: bool = False,
        noise: bool = False,
        output: Output = (None, None),
    ) -> Running: ...


@dataclass
class Child:
    """A started process, with the name that its events carry."""

    name: str
    process: subprocess.Popen[bytes]
    group: bool = True  # it leads a process group of its own
    _words: queue.SimpleQueue[bytes | Words | None] = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        if self.process.stdin is not None:
            Thread(_write, self.process.stdin, self._words)

    def send(self, data: bytes, node: str = "") -> None:
        """Write to its input. `node` is ignored: srun copies its input to every node."""
        self._words.put(data)

    def pulse(self) -> None:
        self._words.put((*BASH, "-c", spoken("pulse.sh")))

    def close(self) -> None:
        self._words.put(None)

    def wait(self, seconds: float) -> bool:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self, signum: int) -> None:
        """Send `signum` to it and its children, if it still runs."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if self.group else os.kill)(self.process.pid, signum)


@contextlib.contextmanager
def starting(program: str, remedy: str = "") -> Iterator[None]:
    """Enclose the start of a command. Raises SchedulerError if the command cannot be started."""
    try:
        yield
    except FileNotFoundError:
        raise SchedulerError(f"{program} is not on PATH", remedy) from None
    except OSError as error:  # for example E2BIG, for words that are longer than the system's limit
        raise SchedulerError(f"cannot start {program}: {error.strerror}") from None


def start(
    name: str,
    command: Command,
    environ: dict[str, str],
    events: queue.SimpleQueue[Event],
    piped: bool,
    *,
    terminal: bool = False,
    noise: bool = False,
    errors: IO[bytes] | None = None,
    output: Output = (None, None),
    deaf: bool = False,
) -> Child:
    """Start the words of `command` on this machine.

    piped     its input is a pipe, and its output becomes events. Without it, the command has mnrun's own input,
              output and errors, and gets a TERM when mnrun is killed. In the background of a terminal it has no input
    terminal  it stays in mnrun's session and process group, to drive the terminal
    noise     only its errors become events
    errors    a file for its errors
    output    files in place of mnrun's output and errors, for a command that is not piped
    deaf      signals that Slurm sends to every process of a batch script do not reach it
    """
    pipe = subprocess.PIPE if piped else None
    with _with_list_files(command.argv) as (words, lists):
        process = subprocess.Popen(
            (*BASH, "-c", spoken("deaf.sh"), "deaf.sh", *words) if deaf else words if piped else tied(words),
            env=environ,
            stdin=pipe or (subprocess.DEVNULL if background() and not terminal else None),
            stdout=pipe or output[0],
            stderr=errors or (subprocess.PIPE if piped or noise else output[1]),
            start_new_session=not terminal,
            bufsize=0,
            pass_fds=lists,
        )
    streams = ((Line, process.stdout), (Noise, process.stderr))
    readers = [Thread(_read, kind, name, stream, events) for kind, stream in streams if stream is not None]
    Thread(_wait, name, process, readers, events)
    return Child(name, process, group=not terminal)


@contextlib.contextmanager
def _with_list_files(argv: Words) -> Iterator[tuple[Words, list[int]]]:
    """Yield the words, with each list in a file, and the open files. The files have no names, so that no other user can
    have made them, and nothing of them remains. The process finds them among its inherited files."""
    with contextlib.ExitStack() as files:
        words, lists = [], []
        for word in argv:
            if isinstance(word, Listed):
                file = files.enter_context(tempfile.TemporaryFile())
                file.write(word.text.encode())
                file.flush()
                lists.append(file.fileno())
                word = f"{word.option}/proc/self/fd/{file.fileno()}"
            words.append(word)
        yield tuple(words), lists


class ProcessChannel:
    """A child process as a channel (reach/channel.py): a command on this machine, or an ssh client."""

    def __init__(self, argv: Words, lost: int | None = None, environ: Mapping[str, str] | None = None) -> None:
        """Start the process. `lost` is its exit code for a broken connection."""
        self._process = subprocess.Popen(
            argv,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        self._lost = lost

    def receive(self, stream: int) -> bytes:
        source = self._process.stdout if stream == 1 else self._process.stderr
        assert source is not None
        return os.read(source.fileno(), 65536)

    def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        write(self._process.stdin.fileno(), data)

    def shut(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> int | None:
        code = self._process.wait()
        return None if code == self._lost else 128 - code if code < 0 else code

    def cut(self) -> None:
        self.tell(signal.SIGKILL)

    def tell(self, signum: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signum)


def has(program: str) -> bool:
    return shutil.which(program) is not None


def ask(argv: Words, seconds: float = PROBE) -> str:
    """Return the output of a command on this machine. Raises NodeError if it fails, is missing or takes longer."""
    try:
        done = captured(argv, seconds)
    except OSError as error:
        raise NodeError(f"cannot start {argv[0]} here: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        problem = f"this machine did not answer within {seconds:.0f} s"
        raise NodeError(problem, "see whether a daemon or a file system hangs: ps -eo pid,stat,wchan,args") from None
    if done.returncode:
        raise NodeError(f"{argv[0]} ended here with {done.returncode}: {last_line(done.stderr) or 'without a message'}")
    return done.stdout


def tied(argv: Words) -> Words:
    """Return `argv` in a form that gets a TERM when mnrun is killed."""
    setpriv = _setpriv()
    return (setpriv, "--pdeathsig", "TERM", *argv) if setpriv else (sys.executable, "-I", "-S", "-c", _TIED, *argv)


# This does what setpriv does, but takes 20 ms and not 1. PR_SET_PDEATHSIG is 1 (prctl(2)). Python itself ignores these
# two signals.
_TIED = """import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, 15)
for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(ignored, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])"""


@cache
def _setpriv() -> str:
    """Return the path of a setpriv that knows --pdeathsig, as util-linux has since 2.33, or ""."""
    path = shutil.which("setpriv") or ""
    known = path and subprocess.run([path, "--pdeathsig", "keep", "true"], capture_output=True, check=False)
    return path if known and not known.returncode else ""


def write(target: int, data: bytes) -> None:
    """Write all bytes, also where another program has made a shared terminal or pipe non-blocking."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(target, view) :]
        except BlockingIOError:
            select.select((), (target,), ())


class Thread(threading.Thread, Generic[T]):
    """A function that runs in a thread of its own, and has a result."""

    def __init__(self, act: Callable[..., T], *arguments: object) -> None:
        super().__init__(daemon=True)
        self._act, self._arguments = act, arguments
        self._result: T | None = None
        self.start()

    def run(self) -> None:
        self._result = self._act(*self._arguments)

    def result(self) -> T | None:
        """Return the result at the end of the thread, or None if an error has ended it."""
        self.join()
        return self._result


def _read(kind: Said, name: str, stream: IO[bytes], events: queue.SimpleQueue[Event]) -> None:
    rest = b""
    with os.fdopen(os.dup(stream.fileno()), "rb", buffering=0) as source:
        for block in iter(partial(source.read, BLOCK), b""):
            *lines, rest = (rest + block).split(b"\n")
            put_lines(kind, name, (line.decode("utf-8", "replace") for line in lines), events)
    if rest:
        put_lines(kind, name, (rest.decode("utf-8", "replace"),), events)


def put_lines(kind: Said, name: str, lines: Iterable[str], events: queue.SimpleQueue[Event]) -> None:
    """Turn lines of a command into events."""
    for piped, run in groupby(lines, lambda line: kind is Line and line.startswith(PIPE)):
        if piped:
            events.put(Pipe(name, tuple(run)))
        else:
            for line in run:
                events.put(kind(name, line))


def _write(stream: IO[bytes], words: queue.SimpleQueue[bytes | Words | None]) -> None:
    """Write until the words end, or until the reader is gone. The reader's end and its reason come as an event."""
    pulse: subprocess.Popen[bytes] | None = None
    with contextlib.suppress(BrokenPipeError):
        for data in iter(words.get, None):
            if isinstance(data, tuple):
                pulse = subprocess.Popen(data, stdin=subprocess.PIPE, stdout=stream, start_new_session=True)
                continue
            assert isinstance(data, bytes)
            view = memoryview(data)
            while view:
                view = view[stream.write(view) or 0 :]
    if pulse is not None:
        pulse.kill()
        pulse.wait()
    stream.close()


def _wait(
    name: str, process: subprocess.Popen[bytes], readers: list[Thread[None]], events: queue.SimpleQueue[Event]
) -> None:
    code = process.wait()
    for reader in readers:
        reader.join()  # the last lines come before the end
    events.put(Ended(name, 128 - code if code < 0 else code))
