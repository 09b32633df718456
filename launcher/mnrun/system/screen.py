"""Show messages on standard error, with a live line on a terminal and plain lines elsewhere, and print tables."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mnrun.errors import one_line

if TYPE_CHECKING:
    from rich.table import Table


class Screen:
    """The messages to the user. `quiet` shows only errors and warnings, and `verbose` also shows commands."""

    def __init__(self, quiet: bool = False, verbose: bool = False) -> None:
        self.quiet = quiet
        self.verbose = verbose
        self._status: Any | None = None
        self._last = ""  # the last phase
        self._live = sys.stderr.isatty() and not quiet

    def say(self, text: str) -> None:
        if not self.quiet:
            self._print(f"mnrun: {text}")

    def warn(self, text: str) -> None:
        self._print(f"mnrun: warning: {one_line(text)}")

    def error(self, text: str) -> None:
        self._print(f"mnrun: {text}")

    def detail(self, text: str) -> None:
        """Show a text only if `verbose`."""
        if self.verbose:
            self._print(f"mnrun: {text}")

    def relay(self, text: str) -> None:
        """Show another program's line."""
        self._print(text)

    def command(self, line: str) -> None:
        if self.verbose:
            self._print(f"+ {line}")

    def phase(self, text: str, count: str = "") -> None:
        """Show the current phase: in one changing line on a terminal, or in a plain line if `verbose`. A terminal alone
        shows the count in it."""
        if self._live:
            self._spin(text + count)
        elif text != self._last:
            self.detail(text)
        self._last = text

    def done(self) -> None:
        """Remove the live line: the program has the terminal from now on."""
        if self._status is not None:
            status, self._status = self._status, None
            with contextlib.suppress(OSError):
                status.stop()

    def _spin(self, text: str) -> None:
        from rich.text import Text

        plain = Text(text)  # other programs' words may look like rich's markup
        if self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True).status(plain)
            self._status.start()
        else:
            self._status.update(plain)

    def _print(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a closed terminal (EIO), or a pipe without a reader (EPIPE)
            if self._status is not None:
                self._status.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                print(text, file=sys.stderr, flush=True)


GAP = 3  # columns between two of a framed table
WORD = 24  # letters of a word that stays whole where it can
Style = Callable[[str, str], str]  # of a word below a header: a style of rich, or ""


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], style: Style = lambda header, word: "") -> None:
    """Print a table on standard output: framed on a terminal, else in columns with at least two blanks between them.
    Without rows, there are no headers. Unprintable characters appear as `?`, since a job may have any name."""
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(_framed(headers, rows, style))
    elif rows:
        for line in _lines(headers, rows):
            print(line)


class Board:
    """A table that changes. A terminal shows it anew in its place, and another output has each new row once."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._live: Any | None = None
        self._shown: set[tuple[str, ...]] = set()
        self.moves = sys.stdout.isatty()

    def __enter__(self) -> Board:
        if self.moves:
            from rich.live import Live

            self._live = Live(auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        if self._live is not None:
            self._live.update(_framed(headers, rows, self._style), refresh=True)
            return
        for line, words in zip(_lines(headers, rows), (headers, *rows)):
            if tuple(words) not in self._shown:
                print(line, flush=True)
            self._shown.add(tuple(words))


def _framed(headers: Sequence[str], rows: Sequence[Sequence[str]], style: Style) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    rows = _printable(rows)
    least = [len(header) for header in headers]
    whole = [min(max(map(len, column)), WORD) for column in zip(headers, *rows)][:-1] + least[-1:]
    room = width() - sum(whole[:-1]) - GAP * len(headers)  # of the last column
    fits = room >= least[-1]
    if not fits and sum(least) + GAP * len(headers) > width():
        least = [1] * len(headers)  # broken words are better than none
    for header, size in zip(headers, whole if fits else least):
        most = room if fits and header == headers[-1] else None
        grid.add_column(header, overflow="fold", min_width=size, max_width=most)
    for row in rows:
        grid.add_row(*(Text(word, style(header, word)) for header, word in zip(headers, row)))
    return grid


def width() -> int:
    """Return the columns of the terminal that shows the tables, or 0 if none does."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def _lines(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [list(headers), *_printable(rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(headers))]
    return ["  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip() for line in lines]


def _printable(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [["".join(c if c.isprintable() else "?" for c in word) for word in row] for row in rows]


def rendered(page: str, width: int) -> str:
    """Return a page of Markdown for a terminal of that width."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(width=width, force_terminal=True)
    with console.capture() as capture:
        console.print(Markdown(page, hyperlinks=False))
    return capture.get()
