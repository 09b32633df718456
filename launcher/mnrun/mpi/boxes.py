"""Hold back the messages of mpirun about the end of a rank, which mnrun names in one line.

Where mnrun or the scheduler has ended the program, such a message is about that alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

# The first line of a message -> its last line. Open MPI (show_help) and MPICH's Hydra have a rule around it.
_BOXES = {
    re.compile(first): re.compile(last)
    for first, last in {
        rb" ?-{74}\n": rb" ?-{74}\n",
        rb"={83}\n": rb"={83}\n",
        rb"\[\S+:\d+\] \*\*\* Process received signal \*\*\*\n": rb"\[\S+:\d+\] \*\*\* End of error message \*\*\*\n",
        rb"\[\S+:\d+\] \*\*\* An error occurred in Socket closed\n": rb"\[\S+:\d+\] \*\*\*    and MPI will try ",
    }.items()
}
_RULED = re.compile(rb" ?[-=]")
_MARK = re.compile(rb"-{74}\n|={83}\n|\] \*\*\* ")  # in each first line, quick to find
# A line of a message that says only that a rank has ended, or that mpirun itself has crashed at the end.
_END = re.compile(
    rb"(?:prterun|mpirun) (?:has exited due to process|noticed that process|detected that one or more processes)"
    rb"|Primary job  terminated normally, but|MPI_ABORT was invoked on rank|=   BAD TERMINATION OF ONE OF YOUR "
    rb"|\[\S+:\d+\] (?:\*\*\* An error occurred in Socket closed|\[ ?\d+\] \S*/(?:mpirun|prterun|orted|prted)\()"
)
# Lines of mpirun and mpiexec that may follow such a message.
_AFTER = re.compile(
    rb"mpirun: abort is already in progress|\[(?:mpiexec|proxy:\d+)@\S+\] "
    rb"|\[\S+:\d+\] (?:oob:tcp: |\[prterun-\S+ prte_oob_)"
)
_OF_SRUN = re.compile(r"srun: (?:error: \S+: tasks? \S+: (?:Exited with exit code|Terminated)|Terminating )")
MOST = 64  # lines of a message


class Apart:
    """The messages of one stream about the end of ranks. They come last, and only if they are still `wanted` then."""

    def __init__(self, wanted: bool = True) -> None:
        self.wanted = wanted
        self._held = b""  # messages about the end of ranks
        self._box: list[bytes] = []  # the lines of a message that may be one
        self._last = _MARK

    def rest(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the bytes as they come, but for such messages. Then yield these if they are wanted."""
        begun = False  # whether a line has begun
        for data in parts:
            if not (self._box or self._held or _MARK.search(data)):  # a program may write millions of lines
                yield data
            else:
                lines = re.findall(rb"[^\n]*\n|[^\n]+", data)
                yield b"".join(self._passed(line, begun and not place) for place, line in enumerate(lines))
            begun = not data.endswith(b"\n") if data else begun
        yield b"".join(self._box)
        if self.wanted:
            yield self._held

    def _passed(self, line: bytes, begun: bool) -> bytes:
        """Return the bytes that nothing holds back any more. `begun` says that the line has begun before."""
        if self._box and not self._box[-1].endswith(b"\n"):
            line = self._box.pop() + line
        elif begun:
            return line
        if self._box:
            return self._boxed(line)
        if self._held and _AFTER.match(line):
            self._held += line
            return b""
        last = next((last for first, last in _BOXES.items() if first.match(line)), None)
        if last is None:
            return line
        self._box, self._last = [line], last
        return b""

    def _boxed(self, line: bytes) -> bytes:
        """Take in a line of a message. Return the message as soon as it is none about the end of ranks."""
        self._box.append(line)
        ends, over = any(map(_END.match, self._box)), self._last.match(line) is not None
        if _RULED.match(self._box[0]) and not ends:
            box, self._box = self._box[:-1], []
            return b"".join(box) + self._passed(line, begun=False)
        if not over and len(self._box) <= MOST:
            return b""
        text, self._box = b"".join(self._box), []
        if not (ends and over):
            return text
        self._held += text
        return b""


def without_boxes(lines: Sequence[str]) -> list[str]:
    """Return the lines without these messages. A message whose last line is missing stays."""
    text = "\n".join([*lines, ""]).encode("utf-8", "surrogateescape")
    shown = b"".join(Apart(wanted=False).rest([text])).decode("utf-8", "surrogateescape")
    return [line for line in shown.split("\n")[:-1] if not _OF_SRUN.match(line)]
