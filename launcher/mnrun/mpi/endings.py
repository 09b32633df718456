"""Hold back the messages of mpirun about the end of a rank, which mnrun names in one line.

Where mnrun or the scheduler has ended the program, such a message is about that alone: prterun has lost its daemons, or
has asked for the version of a Slurm that ends it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

# The first line of a message -> its last line. Open MPI (show_help) and MPICH's Hydra have a rule around it.
_MESSAGES = {
    re.compile(first): re.compile(last)
    for first, last in {
        rb" ?-{74}\n": rb" ?-{74}\n",
        rb"={83}\n": rb"={83}\n",
        rb"\[\S+:\d+\] \*\*\* Process received signal \*\*\*\n": rb"\[\S+:\d+\] \*\*\* End of error message \*\*\*\n",
        rb"\[\S+:\d+\] \*\*\* An error occurred in Socket closed\n": rb"\[\S+:\d+\] \*\*\*    and MPI will try ",
    }.items()
}
_RULED = re.compile(rb"\n?[ ]?[-=]")
# In each first line, quick to find.
_MARK = re.compile(rb"-{74}\n|={83}\n|\] \*\*\* |ort is (?:already )?in progress\.\.\.hit|\] HYD|oob:tcp: |prte_oob_")
# A line of a message that says only that a rank has ended, or that mpirun itself has crashed at the end.
_END = re.compile(
    rb"(?:prterun|mpirun) (?:has exited due to process|noticed that process|detected that one or more processes)"
    rb"|Primary job  terminated normally, but|MPI_ABORT was invoked on rank|=   BAD TERMINATION OF ONE OF YOUR "
    rb"|PRTE has lost communication with a remote daemon|The \w+ process starter requires a minimum \w+ version "
    rb"|\[\S+:\d+\] (?:\*\*\* An error occurred in Socket closed|\[ ?\d+\] \S*/(?:mpirun|prterun|orted|prted)\()"
)
# Lines about a lost connection. Another thread of prterun writes them, so one may stand within a message.
_LOST = re.compile(rb"\[\S+:\d+\] (?:oob:tcp: |\[prterun-\S+ prte_oob_)")
# Single lines about the end of the job.
_ALONE = re.compile(
    rb"(?:mpirun: abort is already|Abort is) in progress\.\.\.hit ctrl-c again|\[(?:mpiexec|proxy:\d+)@\S+\] HYD\w+ \("
)
# Other lines of mpirun and mpiexec that may follow such a message.
_AFTER = re.compile(rb"\[(?:mpiexec|proxy:\d+)@\S+\] ")
# The messages that only say which rank has failed, and how.
_NAMES = re.compile(
    rb"-+\n(?:(?:prterun|mpirun) (?:noticed that process|detected that one or more)"
    rb"|Primary job  terminated normally, but)"
)
MOST = 64  # lines of a message


class Endings:
    """The messages of one stream about the end of ranks. They come last, and only if they are still `wanted` then.

    `told` returns whether mnrun's last line names the rank that these lines name. Then they go to `left_out`. `more` is
    a pattern of lines of a scheduler's client, with their `begins`.
    """

    def __init__(self, wanted: bool = True, more: bytes = b"", begins: Sequence[bytes] = ()) -> None:
        self.wanted = wanted
        self._others = re.compile(more or b"(?!)")
        self._mark = re.compile(b"|".join((_MARK.pattern, *map(re.escape, begins))))
        self.told: Callable[[Sequence[str]], bool] = lambda lines: False
        self.left_out = ""
        self._held: list[bytes] = []  # messages about the end of ranks
        self._lines: list[bytes] = []  # the lines of a message that may be one
        self._last = _MARK

    def put_last(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the bytes as they come, but for such messages. Then yield these if they are wanted."""
        begun = False  # whether a line has begun
        for data in parts:
            if not (self._lines or self._held or self._mark.search(data)):  # a program may write millions of lines
                yield data
            else:
                yield b"".join(self._each(re.findall(rb"[^\n]*\n|[^\n]+", data), begun))
            begun = not data.endswith((b"\n", b"\0")) if data else begun
        yield b"".join(self._lines)
        if self.wanted:
            yield b"".join(self._last_ones())

    def _each(self, lines: Sequence[bytes], begun: bool) -> list[bytes]:
        passed: list[bytes] = []
        for place, line in enumerate(lines):
            passed.append(self._passed(line, begun and not place))
            if len(self._lines) == 1 and line.startswith(b"=") and passed[-2:] == [b"\n", b""]:
                self._lines[0] = passed.pop(-2) + self._lines[0]  # MPICH begins its message with a blank line
        return passed

    def _last_ones(self) -> list[bytes]:
        names = [text for text in self._held if _NAMES.match(text)]
        said = b"".join(names).decode("utf-8", "replace")
        if not self.told(said.splitlines()):
            return self._held
        self.left_out = said
        return [text for text in self._held if text not in names]

    def _passed(self, line: bytes, begun: bool) -> bytes:
        """Return the bytes that nothing holds back any more. `begun` says that the line has begun before."""
        if self._lines and not self._lines[-1].endswith(b"\n"):
            line = self._lines.pop() + line
        elif begun:
            return line
        if self._lines:
            return self._more(line)
        if self._held and line.startswith(b"\0"):  # prterun ends its messages with it
            self._held.append(b"\0")
            line = line[1:]
        blank = line == b"\n" and self._held[-1:] and self._held[-1].endswith(b" forcibly terminate\n")
        alone = _ALONE.match(line) or _LOST.match(line) or self._others.match(line)
        if blank or alone or (self._held and _AFTER.match(line)):
            self._held.append(line)
            return b""
        last = next((last for first, last in _MESSAGES.items() if first.match(line)), None)
        if last is None:
            return line
        self._lines, self._last = [line], last
        return b""

    def _more(self, line: bytes) -> bytes:
        """Take in a line of a message. Return the message as soon as it is none about the end of ranks."""
        self._lines.append(line)
        if _LOST.match(line) and len(self._lines) <= MOST:
            return b""
        ends, over = any(map(_END.match, self._lines)), self._last.match(line) is not None
        if _RULED.match(self._lines[0]) and not ends:
            lines, self._lines = self._lines[:-1], []
            return b"".join(lines) + self._passed(line, begun=False)
        if not over and len(self._lines) <= MOST:
            return b""
        text, self._lines = b"".join(self._lines), []
        if not (ends and over):
            return text
        self._held.append(text)
        return b""


def without_endings(lines: Sequence[str]) -> list[str]:
    """Return the lines without these messages. A message whose last line is missing stays."""
    text = "\n".join([*lines, ""]).encode("utf-8", "surrogateescape")
    shown = b"".join(Endings(wanted=False).put_last([text])).decode("utf-8", "surrogateescape")
    return shown.split("\n")[:-1]
