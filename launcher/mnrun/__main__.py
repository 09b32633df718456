"""Start `mnrun` and `python -m mnrun`. It imports little, so that an early Ctrl-C ends in a code and no traceback."""

import faulthandler
import gc
import os
import sys


def _open_streams() -> None:
    """Open closed standard streams on /dev/null, since cron and daemons may leave them closed.

    Otherwise the next open file would get such a number, and a child process would take it for its standard stream.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # open(2) returns the lowest free number, which is this one
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def _own_modules_first() -> None:
    """Look for modules in the directories of PYTHONPATH last, and not in its relative ones. They are for the user's
    programs: one may have another click, and an empty one is the directory of somebody else."""
    named = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    if named:
        theirs = named.split(os.pathsep)
        places = {os.path.abspath(path) for path in theirs}
        sys.path[:] = [path for path in sys.path if path not in places] + list(filter(os.path.isabs, theirs))


def entry() -> None:
    _own_modules_first()
    if sys.warnoptions:  # PYTHONWARNINGS and PYTHONDEVMODE are about the user's programs
        import warnings

        warnings.simplefilter("ignore")
    _open_streams()
    faulthandler.enable()  # `kill -ABRT PID` prints the stack of each thread, where mnrun seems to hang
    gc.set_threshold(50_000)  # Python's 700 would make dozens of collections during the imports, which find nothing
    try:
        from mnrun.cli.main import entry as run

        run()
    except KeyboardInterrupt:
        os._exit(130)
    except SystemExit as end:
        if isinstance(end.code, int):
            os._exit(end.code)  # all is flushed and removed, and Python would take 5 ms to free its modules
        raise


if __name__ == "__main__":
    entry()
