"""Write a command in one line that means the same words to every login shell."""

from __future__ import annotations

import base64
import gzip
import shlex

from mnrun.files import spoken
from mnrun.model import Words

_PIECE = 900  # letters: a word in csh has at most 1024
LONGEST = 128 * 1024 - 1  # letters of a line, which is one word for the login shell (MAX_ARG_STRLEN, execve(2))


def line(argv: Words) -> str:
    """Return the line that becomes these words, whatever bytes are in them."""
    return f"exec {unpacking(argv)}"


def unpacking(argv: Words) -> str:
    """Return `sh …`, the command in the line. It unpacks the words, and becomes them."""
    text = shlex.join(argv).encode("utf-8", "surrogateescape")
    packed = base64.b64encode(gzip.compress(text, mtime=0)).decode("ascii")
    pieces = (packed[start : start + _PIECE] for start in range(0, len(packed), _PIECE))
    return f"sh -c '{spoken('words.sh')}' sh {' '.join(pieces)}"
