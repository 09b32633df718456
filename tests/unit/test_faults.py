"""The pure parts of the fault suite: the table of cells, the judgement of an end, the table of results."""

from __future__ import annotations

from collections import Counter

import pytest

from faults import checker, engine, record
from faults.acts import ACTS
from faults.table import FAULTS, MODES, PHASES, PLACES, cells
from live.stage import Result


def test_there_are_enough_cells() -> None:
    every = cells()
    assert len(every) >= 150
    assert len(set(map(str, every))) == len(every)
    for values in ([cell.phase for cell in every], [cell.mode for cell in every], [cell.place for cell in every]):
        assert min(Counter(values).values()) >= 40
    assert {cell.phase for cell in every} == set(PHASES)


def test_each_fault_can_be_committed() -> None:
    assert list(FAULTS) == list(ACTS)
    for fault in FAULTS.values():
        assert set(fault.phases) <= set(PHASES) and set(fault.modes) <= set(MODES) and set(fault.places) <= set(PLACES)


def played(code: int, err: str = "", left: tuple[str, ...] = ()) -> engine.Played:
    return engine.Played(Result(code, b"", err), left, 0.1, 0.1)


@pytest.mark.parametrize(
    ("fault", "phase", "end", "wrong"),
    [
        ("scancel", "run", played(143, "mnrun: job 7 was cancelled\n"), []),
        ("scancel", "run", played(121, "mnrun: job 7 was cancelled\n"), ["the exit code is 121, not 143"]),
        ("scancel", "run", played(143, "mnrun: job 7 ended\n"), ["the message does not say 'cancelled'"]),
        ("scancel", "stop", played(0), []),  # its program had ended
        ("SIGKILL of mnrun", "run", played(0), []),  # the code is salloc's
        ("SIGINT", "run", played(130, "Traceback (most\n"), ["there is a traceback"]),
        ("SIGINT", "run", played(130, left=("node01: file /tmp/x",)), ["left: node01: file /tmp/x"]),
    ],
)
def test_an_end_is_judged(fault: str, phase: str, end: engine.Played, wrong: list[str]) -> None:
    assert end.wrong(FAULTS[fault], phase) == wrong


def test_what_came_is_left_and_a_daemon_that_went_is_missed() -> None:
    before = Counter(["n: process of 0: slurmd", "n: file /tmp/a", "n: file /tmp/b"])
    now = Counter({"n: file /tmp/b": 2})
    assert checker.differences(before, now) == ["gone: n: process of 0: slurmd", "n: file /tmp/b"]
    assert checker.differences(before, before) == []


def test_the_table_counts_cells() -> None:
    """Cells that were run; those that failed among them; and no figure for what cannot be."""
    good, bad = {"date": "2026-11-23", "took": 1.0, "wrong": []}, {"date": "2026-11-24", "took": 9.0, "wrong": ["why"]}
    found = {"SIGKILL of srun, run, ssh, slurm": good, "SIGKILL of srun, await, ssh, slurm": bad}
    lines = record.table(found).splitlines()
    assert lines[0] == f"| fault | {' | '.join((*PHASES, *MODES, *PLACES))} |"
    (line,) = [line for line in lines if line.startswith("| SIGKILL of srun ")]
    assert line == "| SIGKILL of srun | - | 0 | 0 of 1 | 1 | - | 1 of 2 | 0 | 0 | 1 of 2 | 0 | - | - | - | - | - |"
    text = record.section(found)
    assert f"{len(cells())} cells, 2 of them run, 1 passed. Dates: 2026-11-23 to 2026-11-24." in text
    assert "after 1.0 s in the slowest cell" in text
    assert "Failed: SIGKILL of srun, await, ssh, slurm: why." in text
