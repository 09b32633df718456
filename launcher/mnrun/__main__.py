"""`mnrun`, and `python -m mnrun`. Light, so that even an early Ctrl-C ends in a code and not a traceback."""

import os
import sys


def _open_streams() -> None:
    """Have a closed standard stream lead nowhere, as cron and daemons may leave them: else what is opened next, or
    what is started with it, takes it for the terminal's or the program's."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def entry() -> None:
    _open_streams()
    try:
        from mnrun.cli.main import entry as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    entry()
