"""Show messages on standard error, with a live line on a terminal and plain lines elsewhere, and print tables."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Any

from mnrun.errors import one_line


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

    def phase(self, text: str) -> None:
        """Show the current phase: in one changing line on a terminal, or in a plain line if `verbose`."""
        if self._live:
            self._spin(text)
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


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on standard output: framed on a terminal, else in columns with at least two blanks between them.

    Without rows, there are no headers. Unprintable characters appear as `?`, since a job may have any name.
    """
    rows = [["".join(c if c.isprintable() else "?" for c in word) for word in row] for row in rows]
    if sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for header in headers:
            grid.add_column(header, overflow="fold")
        for row in rows:
            grid.add_row(*map(Text, row))
        Console().print(grid)
        return
    lines = [headers, *rows] if rows else []
    widths = [max(len(line[place]) for line in lines) for place in range(len(headers))] if lines else []
    for line in lines:
        print("  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip())
