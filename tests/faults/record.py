"""Keep the results of cells in docs/reliability/faults.json, and write the table of docs/reliability.md from them."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rehearsal.model import RUN
from rehearsal.shell import locked

from .table import FAULTS, MODES, PHASES, PLACES, cells

TOP = Path(__file__).resolve().parents[2]
PAGE, FILE = TOP / "docs/reliability.md", TOP / "docs/reliability/faults.json"
MARK, END = "<!-- scripts/test --full faults writes this -->", "<!-- up to here: faults -->"
Results = Mapping[str, Mapping[str, Any]]  # cell -> date, code, ended, took, said, wrong


def keep(cell: str, wrong: Sequence[str], code: int = -1, ended: float = 0, took: float = 0, said: str = "") -> None:
    """Put the result of a cell in the place of its last one, and write the page anew."""
    date, ended, took = time.strftime("%Y-%m-%d"), round(ended, 1), round(took, 1)
    result = {"date": date, "code": code, "ended": ended, "took": took, "said": said, "wrong": list(wrong)}
    with locked(RUN / ".faults.lock"):
        results = {**_read(), cell: result}
        known = {str(cell): results[str(cell)] for cell in cells() if str(cell) in results}
        lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(one)}" for name, one in known.items())
        FILE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARK)
        PAGE.write_text(f"{before}{MARK}\n{section(known)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def _read() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return found


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
