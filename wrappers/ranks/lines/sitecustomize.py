"""Let a Python program write each line at once and whole. Python runs this file at its start, by PYTHONPATH.

With PYTHONUNBUFFERED, Python writes the text of a line and its end apart, and the lines of two ranks may run together.
Here each line is one write: at its end, at a `\\r` and at a flush (io, TextIOWrapper). Open MPI gives each rank a
terminal of its own, and that makes no difference. The image may have a sitecustomize of its own, which runs next.
"""

import os
import sys


def whole_lines():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != here]
    for stream in (sys.stdout, sys.stderr):
        # Python 3.6 and older have no `reconfigure`, and a closed stream is None.
        if os.environ.get("PYTHONUNBUFFERED") and hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True, write_through=False)


def images_own():
    own = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ImportError:
        pass
    finally:
        sys.modules.setdefault(__name__, own)


whole_lines()
images_own()
