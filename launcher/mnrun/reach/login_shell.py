"""Write a command in one line that means the same words to every login shell.

The shell reads files of the user first, as bash reads ~/.bashrc. They may print, and read from standard input. So the
command prints a mark on both streams before it begins, and only after that it is heard and given its input.
"""

from __future__ import annotations

import os
import shlex

from mnrun.files import spoken
from mnrun.model import Words

_PIECE = 900  # letters: a word in csh has at most 1024
LONGEST = 128 * 1024 - 1  # letters of a line, which is one word for the login shell (MAX_ARG_STRLEN, execve(2))


def mark() -> str:
    """Return a mark that no file of the user can print."""
    return f"mnrun.{os.urandom(8).hex()}"


def line(argv: Words, mark: str = "") -> str:
    """Return the line that becomes these words, whatever bytes are in them, after a line `mark` on both streams."""
    return f"exec {unpacking(argv, mark)}"


def unpacking(argv: Words, mark: str = "") -> str:
    """Return `sh …`, the command in the line. It prints the mark, unpacks the words, and becomes them."""
    import base64
    import gzip

    text = shlex.join(argv).encode("utf-8", "surrogateescape")
    packed = base64.b64encode(gzip.compress(text, mtime=0)).decode("ascii")
    pieces = (packed[start : start + _PIECE] for start in range(0, len(packed), _PIECE))
    return f"sh -c '{spoken('words.sh')}' sh {shlex.quote(mark)} {' '.join(pieces)}"
