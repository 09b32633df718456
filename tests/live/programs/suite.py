"""mpi4py's own tests, as they are, on this rank: `suite.py FOLDER OUT WORDS…`, with its WORDS for runtests.py.

Writes {test: what became of it} into OUT/rankN.json, and leaves with the code of the tests.
"""

import json
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, ClassVar

sys.dont_write_bytecode = True


class Result(unittest.TextTestResult):
    """Remembers what became of each test; the worst of its parts counts."""

    found: ClassVar["dict[str, str]"] = {}

    def addSuccess(self, test: Any) -> None:
        self.found.setdefault(test.id(), "ok")

    def addSkip(self, test: Any, reason: str) -> None:
        self.found.setdefault(test.id(), "skipped")

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.found.setdefault(test.id(), "failed as expected")

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.found[test.id()] = "succeeded unexpectedly"

    def addFailure(self, test: Any, err: Any) -> None:
        super().addFailure(test, err)
        self.found[test.id()] = "failed"

    def addError(self, test: Any, err: Any) -> None:
        super().addError(test, err)
        self.found[test.id()] = f"error: {err[0].__name__}"

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.found[test.id()] = f"error: {err[0].__name__}"


def main() -> None:
    folder, out, *words = sys.argv[1:]
    sys.path.insert(0, folder)
    tempfile.tempdir = out  # all ranks open files there, and nodes do not share their /tmp
    import main as suite  # type: ignore[import-not-found]

    runner = unittest.TextTestRunner(verbosity=0, resultclass=Result)  # type: ignore[arg-type]
    code: Any = 0
    try:
        suite.main(module=None, argv=[f"{folder}/runtests.py", *words], testRunner=runner)
    except SystemExit as end:
        code = end.code
    from mpi4py import MPI

    Path(out, f"rank{MPI.COMM_WORLD.rank}.json").write_text(json.dumps(Result.found), encoding="utf-8")
    sys.exit(code)


if __name__ == "__main__":
    main()
