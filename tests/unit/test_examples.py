"""The table of examples/ names each of them, and says truly which of them a plain run of the tests types."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from live import test_examples as live

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_table_of_examples() -> None:
    rows = [line.strip("| ").split(" | ") for line in (EXAMPLES / "README.md").read_text().splitlines() if "](" in line]
    runs = {match[1]: row[-1] for row in rows if (match := re.match(r"\[(.+)\]\(\1\)$", row[0]))}
    assert sorted(runs) == sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))
    assert sorted(runs) == sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
    groups = {"yes": live.QUICK, "by turn": live.BY_TURN, "`--full`": (*live.SLOW, live.REFRAME, live.SCALING)}
    for said, examples in groups.items():
        assert {name for name, when in runs.items() if when == said} == {example.folder for example in examples}


def test_an_example_shows_what_it_prints() -> None:
    for example in (*live.QUICK, *live.BY_TURN, *live.SLOW, live.REFRAME, live.SCALING):
        steps = live.shown(example.folder)
        assert steps and any(printed for _, printed in steps), example.folder


def test_the_figures_of_a_comparison() -> None:
    compare = runpy.run_path(str(EXAMPLES / "compare/compare.py"))
    table = compare["table"]([(2.0, 2.2), (2.0, 2.0), (1.0, 0.9)]).splitlines()
    assert table[1].split() == ["1", "2.000", "s", "2.200", "s", "1.100"]
    assert table[-2].endswith("median 1.000, half of the pairs between 0.950 and 1.050")
    assert table[-1] == "all of them between 0.900 and 1.100"
    plot = ElementTree.fromstring(compare["plot"]([1.1, 1.0, 0.9]))
    places = [float(dot.attrib["cx"]) for dot in plot.iter() if dot.tag.endswith("circle")]
    assert places == [520.0, 280.0, 40.0]


def test_a_comparison_says_what_went_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare = runpy.run_path(str(EXAMPLES / "compare/compare.py"))["seconds"]
    monkeypatch.chdir(tmp_path)
    codes = iter([3, 0])
    monkeypatch.setitem(compare.__globals__, "Job", lambda *_, **__: SimpleNamespace(run=lambda: next(codes)))
    with pytest.raises(SystemExit, match=r"^the run without a container ended with 3: see bare\.out$"):
        compare(["./app"], "", "")
    (tmp_path / "in-image.out").write_text("nothing\n")
    with pytest.raises(SystemExit, match=r"^no line of in-image\.out has took"):
        compare(["./app"], r"took (\S+)", "app.sif")
