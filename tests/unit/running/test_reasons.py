"""The last line about a program that failed: which rank, on which node, how, and why if its output names it."""

from __future__ import annotations

import pytest

from mnrun.errors import NodeError
from mnrun.model import Culprit, Outcome
from mnrun.running import reasons

MISSING = (
    "app: error while loading shared libraries: libm.so.9: cannot open shared object file: No such file or directory"
)
RANK = Culprit(5, "node03")


@pytest.mark.parametrize(
    ("code", "culprit", "end"),
    [
        (1, RANK, "rank 5 on node03 exited with 1"),
        (125, None, "the program exited with 125"),
        (128, RANK, "rank 5 on node03 exited with 128"),
        (137, RANK, "rank 5 on node03 was killed by signal 9 (KILL)"),
        (139, None, "the program was killed by signal 11 (SEGV)"),
        (255, RANK, "rank 5 on node03 exited with 255"),
    ],
)
def test_an_end_without_a_known_cause(code: int, culprit: Culprit | None, end: str) -> None:
    assert reasons.last_line(Outcome(code, culprit=culprit), ["step 1", "error: 0.01"]) == (end, "")


def test_an_end_with_its_cause() -> None:
    why, remedy = reasons.last_line(Outcome(127, culprit=RANK), [MISSING])
    assert why == "rank 5 on node03 exited with 127: the library libm.so.9 is missing in the container"
    assert remedy.startswith("install it in the image")


def test_the_cause_of_an_end_without_a_container() -> None:
    """The node is named, and a remedy that works there."""
    why, remedy = reasons.last_line(Outcome(127, culprit=RANK), [MISSING], contained=False)
    assert why == "rank 5 on node03 exited with 127: the library libm.so.9 is missing on the node"
    assert remedy == "load its module with --module, or name its directory with -x LD_LIBRARY_PATH=DIR"


def test_a_cause_that_does_not_fit_the_exit_code() -> None:
    assert reasons.last_line(Outcome(3, culprit=RANK), [MISSING]) == ("rank 5 on node03 exited with 3", "")


@pytest.mark.parametrize("tool", ["PRTE", "ORTE"])
def test_an_mpirun_that_ends_with_0_as_it_loses_a_node(tool: str) -> None:
    outcome = Outcome(0, silent=("node02",))
    reasons.refuse_lost(outcome, ["a line"])
    with pytest.raises(NodeError, match=r"^node02: lost while the job ran"):
        reasons.refuse_lost(outcome, ["a line", f"{tool} has lost communication with a remote daemon."])
