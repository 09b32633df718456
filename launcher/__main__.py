"""`mnrun`, and `python -m launcher`. Light, so that even an early Ctrl-C ends in a code and not a traceback."""

import sys


def entry() -> None:
    try:
        from .cli import entry as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    entry()
