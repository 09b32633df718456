"""Keep the results of cells in docs/reliability/faults.json, and write the table of docs/reliability.md from them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from figures import Book, Results

from .table import FAULTS, MODES, PHASES, PLACES, cells


def keep(cell: str, wrong: Sequence[str], code: int = -1, ended: float = 0, took: float = 0, said: str = "") -> None:
    """Put the result of a cell in the place of its last one, and write the page anew."""
    date, ended, took = time.strftime("%Y-%m-%d"), round(ended, 1), round(took, 1)
    result = {"date": date, "code": code, "ended": ended, "took": took, "said": said, "wrong": list(wrong)}
    Book("faults", section).keep(cell, result, list(map(str, cells())))


def section(results: Results) -> str:
    """Return the figures, and a table with a line for each fault."""
    every = [str(cell) for cell in cells()]
    run = [name for name in every if name in results]
    bad = {name: results[name]["wrong"] for name in run if results[name]["wrong"]}
    dates = sorted({results[name]["date"] for name in run}) or ["never"]
    took = sorted(results[name]["took"] for name in run if name not in bad) or [0]
    text = (
        f"{len(every)} cells, {len(run)} of them run, {len(run) - len(bad)} passed. "
        f"Dates: {' to '.join(dict.fromkeys((dates[0], dates[-1])))}.\n"
        f"Nothing was left after {took[len(took) // 2]:.1f} s (median), and after {took[-1]:.1f} s in the slowest cell."
    )
    failed = "".join(f"\n\nFailed: {name}: {'; '.join(wrong)}." for name, wrong in bad.items())
    return f"{text}\n\n{table(results)}{failed}"


def table(results: Results) -> str:
    """Return a line for each fault: passed and run cells of each phase, mode and place."""
    axes = [*PHASES, *MODES, *PLACES]
    lines = [f"| fault | {' | '.join(axes)} |", "|---" * (len(axes) + 1) + "|"]
    for fault in FAULTS:
        possible, run, passed = Counter[str](), Counter[str](), Counter[str]()
        for cell in cells():
            if cell.fault == fault:
                values = (cell.phase, cell.mode, cell.place)
                possible.update(values)
                if str(cell) in results:
                    run.update(values)
                    passed.update(values if not results[str(cell)]["wrong"] else ())
        lines.append(f"| {fault} | {' | '.join(_figure(passed[a], run[a], possible[a]) for a in axes)} |")
    return "\n".join(lines)


def _figure(passed: int, run: int, possible: int) -> str:
    """Return `2` where all that were run passed, `1 of 2` where not all did, and a dash for what cannot be."""
    if not possible:
        return "-"
    return str(passed) if passed == run else f"{passed} of {run}"
