"""Start one command and hear of it: every process of a launch begins here.

Each runs in a session of its own, so that Ctrl-C reaches mnrun alone; only what drives the user's
terminal stays in ours, since no other may. The program's has `setpriv --pdeathsig TERM` in front where
that exists: a second net for when mnrun is killed. The serving one has not: srun answers TERM by killing
its tasks, and guards must clean up first.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Optional, Protocol

from mnrun.errors import SchedulerError
from mnrun.files import spoken, wrappers
from mnrun.model import Listed, Words

Output = tuple[Optional[int], Optional[int]]  # open files in place of our output and errors
Event = tuple[str, str, object]  # (kind, whose, what): "line", "noise", "ended", "signal", "told"


class Stopped(Exception):
    """A signal told us to stop."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


class Running(Protocol):
    """A command that was started: a process of ours, or what stands for one on hosts (schedulers/hosts/wires.py)."""

    def send(self, data: bytes, node: str = "") -> None:
        """Write to its input, on that node or on all of them; return at once."""

    def pulse(self) -> None:
        """Show on its input from here on that we live. What is sent after that is a line a time."""

    def close(self) -> None:
        """End its input, after all that was sent."""

    def wait(self, seconds: float) -> bool:
        """Return whether it ended within that time."""

    def end(self, signum: int) -> None:
        """End it, by that signal where it can be sent one."""


class Starter(Protocol):
    """What starts a command: `start` below, or a way to hosts."""

    def __call__(
        self,
        name: str,
        argv: Words,
        environ: dict[str, str],
        events: queue.SimpleQueue[Event],
        held: bool,
        *,
        terminal: bool = False,
        apart: bool = False,
        output: Output = (None, None),
    ) -> Running: ...


@dataclass
class Child:
    """A process that was started, by the name that its events carry."""

    name: str
    process: subprocess.Popen[bytes]
    group: bool = True  # it leads a process group of its own
    _words: queue.SimpleQueue[bytes | Words | None] = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        if self.process.stdin is not None:
            _thread(_write, self.process.stdin, self._words)

    def send(self, data: bytes, node: str = "") -> None:
        """Write to its input, where that is a pipe of ours and it still reads; to whatever node. Returns at once: a
        node that does not answer shall not hold us up."""
        self._words.put(data)

    def pulse(self) -> None:
        """From here on show on its input that we live, also while we are stopped. What is sent after that is a line a
        time, none longer than PIPE_BUF."""
        self._words.put(("bash", "-p", "-c", spoken("pulse.sh")))

    def close(self) -> None:
        """End its input, after all that was sent."""
        self._words.put(None)

    def wait(self, seconds: float) -> bool:
        """Whether it ended within that time."""
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
    """For as long as a command is being started. Raises SchedulerError where that cannot be."""
    try:
        yield
    except FileNotFoundError:
        raise SchedulerError(f"{program} is not on PATH", remedy) from None
    except OSError as error:  # its words are more than the system takes, say
        raise SchedulerError(f"cannot start {program}: {error.strerror}") from None


def start(
    name: str,
    argv: Words,
    environ: dict[str, str],
    events: queue.SimpleQueue[Event],
    held: bool,
    *,
    terminal: bool = False,
    apart: bool = False,
    errors: IO[bytes] | None = None,
    output: Output = (None, None),
    deaf: bool = False,
) -> Child:
    """Start `argv`. `held`: its input is a pipe of ours, its output becomes events; otherwise it has our own input,
    output and errors, and gets a TERM when mnrun is killed. `terminal`: it stays in our session and process group, to
    drive the terminal. Of its errors alone `apart` makes events; `errors` is a file for them. `output`: where what is
    not held writes in place of our own output and errors. `deaf`: signals that Slurm sends to every process of a batch
    script do not reach it."""
    pipe = subprocess.PIPE if held else None
    with _written(argv) as (words, lists):
        process = subprocess.Popen(
            _deaf(words) if deaf else words if held else tied(words),
            env=environ,
            stdin=pipe,
            stdout=pipe or output[0],
            stderr=errors or (subprocess.PIPE if held or apart else output[1]),
            start_new_session=not terminal,
            bufsize=0,
            pass_fds=lists,
        )
    readers = []
    for kind, stream in (("line", process.stdout), ("noise", process.stderr)):
        if stream is not None:
            readers.append(_thread(_read, kind, name, stream, events))
    _thread(_wait, name, process, readers, events)
    return Child(name, process, group=not terminal)


@contextlib.contextmanager
def _written(argv: Words) -> Iterator[tuple[Words, list[int]]]:
    """The words with each list of them in a file, and the open files. These have no names, so that nobody else can
    have made them, and nothing of them is left: the process finds them among those that it inherits."""
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


class ProcessWire:
    """A process of ours as a wire (schedulers/hosts/wires.py): a command on this very machine, or an ssh client's."""

    def __init__(self, argv: Words, lost: int | None = None, environ: Mapping[str, str] | None = None) -> None:
        """`lost`: the exit code by which it says that its connection broke."""
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
        view = memoryview(data)
        while view:
            view = view[self._process.stdin.write(view) or 0 :]

    def shut(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> int | None:
        code = self._process.wait()
        return None if code == self._lost else 128 - code if code < 0 else code

    def cut(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def has(program: str) -> bool:
    return shutil.which(program) is not None


def ask(argv: Words) -> str:
    """What a short command of this machine says; "" where it fails or is not there."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _has_a_reader(fd: int) -> bool:
    """Whether somebody reads what we write there, who may go: at the other end of a pipe, or of a connection."""
    with contextlib.suppress(OSError):
        kind = os.fstat(fd).st_mode
        return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)
    return False


def _deaf(argv: Words) -> Words:
    return ("bash", "-p", str(wrappers()["deaf.sh"]), *argv)


def tied(argv: Words, signum: signal.Signals = signal.SIGTERM) -> Words:
    """`argv` as one that gets `signum` when mnrun is killed, where the machine can do that."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", signum.name[3:], *argv) if setpriv else argv


def _thread(target: object, *args: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def _read(kind: str, name: str, stream: IO[bytes], events: queue.SimpleQueue[Event]) -> None:
    with os.fdopen(os.dup(stream.fileno()), "rb") as lines:
        for line in lines:
            events.put((kind, name, line.decode("utf-8", "replace").rstrip("\n")))


def _pulse(words: Words, stream: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=stream, start_new_session=True)


def _write(stream: IO[bytes], words: queue.SimpleQueue[bytes | Words | None]) -> None:
    """Until the end of the words, or of who reads them: its end is on its way to us with the reason."""
    pulse: subprocess.Popen[bytes] | None = None
    with contextlib.suppress(BrokenPipeError):
        for data in iter(words.get, None):
            if isinstance(data, tuple):
                pulse = _pulse(data, stream)
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
    name: str, process: subprocess.Popen[bytes], readers: list[threading.Thread], events: queue.SimpleQueue[Event]
) -> None:
    code = process.wait()
    for reader in readers:
        reader.join()  # its last words come before its end
    events.put(("ended", name, 128 - code if code < 0 else code))


class Signals:
    """SIGINT, SIGTERM and SIGHUP as events, for as long as it is entered; not those that we were started deaf to.

    As a SIGHUP counts, too, that nobody is left who would hear us: without a terminal ssh sends none. USR1 and USR2 are
    for the program: they do not end us, and become events where somebody passes them on (`told`), as do others then.
    """

    ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    PROGRAMS = (signal.SIGUSR1, signal.SIGUSR2)
    OURS = (1, 2)

    def __init__(self, events: queue.SimpleQueue[Event], told: Collection[signal.Signals] = ()) -> None:
        self._events = events
        self._told = told
        self._before: dict[int, object] = {}
        self._over = threading.Event()

    def __enter__(self) -> Signals:
        for signum in dict.fromkeys((*self.ALL, *self.PROGRAMS, *self._told)):
            if signal.getsignal(signum) is not signal.SIG_IGN:  # nohup's HUP, and what a shell gives its background
                self._before[signum] = signal.signal(signum, self._note)
        if signal.SIGHUP in self._before and signal.SIGHUP not in self._told and all(map(_has_a_reader, self.OURS)):
            _thread(self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for signum, handler in self._before.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]

    def _watch(self) -> None:
        heard = {fd: select.poll() for fd in self.OURS}
        for fd, poll in heard.items():
            poll.register(fd, 0)  # of an error and of a hang-up it tells all the same
        while not self._over.wait(1):
            if all(poll.poll(0) for poll in heard.values()):
                self._note(signal.SIGHUP, None)
                return

    def _note(self, signum: int, frame: object | None) -> None:
        if signum in self._told:
            self._events.put(("told", signal.Signals(signum).name[3:], ""))
        elif signum not in self.PROGRAMS:
            self._events.put(("signal", "", signum))
