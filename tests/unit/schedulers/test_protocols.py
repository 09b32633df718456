"""What a scheduler's package has, by the page for its authors."""

from __future__ import annotations

import re
from pathlib import Path

from mnrun.schedulers import common, protocols
from mnrun.schedulers.sge import scheduler as sge

TOP = Path(__file__).parents[3]
PAGE = TOP / "docs/internals/adding-a-scheduler.md"
NAMED = ("launcher", "wrappers", "sbatch_templates")  # folders in which a file that names Grid Engine is in the table


def members(protocol: type) -> set[str]:
    ours = [base for base in protocol.__mro__ if base.__module__ == protocols.__name__]
    names = {name for base in ours for name in (*vars(base), *vars(base).get("__annotations__", {}))}
    return {name for name in names if not name.startswith("_")}


def firsts(text: str) -> list[str]:
    """Return the names in the first column of a table of the page."""
    cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([\w./-]+)`", cell)]


def test_the_page_tells_what_has_no_default() -> None:
    text = PAGE.read_text()
    _, must, may = re.split(r"\| names \| meaning \|", text)
    names = members(protocols.BatchScheduler)
    without = {name for name in names if not hasattr(common, name)}
    assert set(firsts(must)) == without
    assert set(firsts(may)) == names - without
    assert f"has {len(names)} names, of which {len(without)} have no default" in text
    (own,) = re.findall(r"Grid Engine writes (.*?)\.", text, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", own)) == {n for n in names - without if getattr(sge, n) != getattr(common, n)}


def test_the_page_names_the_files_of_a_scheduler() -> None:
    """Grid Engine is the example."""
    files = firsts(PAGE.read_text().partition("## The files")[2].partition("##")[0])
    assert [file for file in files if not (TOP / file).exists()] == []
    naming = [path for folder in NAMED for path in (TOP / folder).rglob("*") if path.suffix in (".py", ".sh")]
    ours = {str(path.relative_to(TOP)) for path in naming if re.search(r"\bsge\b", path.read_text(), re.IGNORECASE)}
    package, *others = (file for file in files if file.startswith(NAMED))
    assert {file for file in ours if not file.startswith(package)} == set(others)
