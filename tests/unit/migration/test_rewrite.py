"""Batch scripts of other tools, as mnrun writes them anew."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from mnrun.errors import UsageError
from mnrun.migration.jobfile import page
from mnrun.migration.rewrite import Rewriting
from unit.cases import Cases
from unit.texts import Expected, Refused

HERE = Path(__file__).parent
SCRIPTS = sorted((HERE / "scripts").iterdir())


def told(path: Path) -> str:
    """Return what becomes of a script: the lines that change, and the remarks."""
    text = path.read_text(encoding="utf-8")
    made = Rewriting(text)
    lines = difflib.unified_diff(text.splitlines(), made.text.splitlines(), n=0, lineterm="")
    changes = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    said = [f"{one.line}: {'stays: ' if one.stays else ''}{one.text}" for one in made.remarks]
    return "\n".join([f"## {path.name}", "", "```diff", *changes, "```", "", *(f"- {line}" for line in said)]).rstrip()


def test_scripts_of_public_sites(expected: Expected) -> None:
    """Each has the shape of scripts on the pages of a site, or of its users: NVIDIA, JSC, a Grid Engine, TACC,
    NERSC (twice), CSCS, LUMI, nodes with Docker, PBS. `steps.sh` has what is difficult."""
    head = "# Scripts and what becomes of them\n\n`pytest tests/unit/migration --accept` writes this file.\n\n"
    expected(HERE / "scripts.md", head + "\n\n".join(map(told, SCRIPTS)) + "\n")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_migrated_once(path: Path) -> None:
    """What was turned is no container's start any more: the second time, only what stays is there."""
    once = Rewriting(path.read_text(encoding="utf-8"))
    if not any(remark.stays for remark in once.remarks):
        with pytest.raises(UsageError):
            Rewriting(once.text)
    else:
        again = Rewriting(once.text)
        assert (again.text, again.steps) == (once.text, [])


def test_a_line(cases: Cases) -> None:
    def turned(*line: str) -> object:
        made = Rewriting(" | ".join(line).replace(" ⏎ ", "\n"))
        notes = [f"({remark.text})" for remark in made.remarks]
        return " ".join([made.text.replace(" \\\n    ", " ").replace("\n", " ⏎ "), *notes])

    cases(turned)


def test_a_job_file(expected: Expected) -> None:
    pages = []
    for name in ("nemo.sh", "shifter.sh", "nested.sh", "docker-ssh.sh"):
        text = (HERE / "scripts" / name).read_text(encoding="utf-8")
        first = text.partition("srun -n 1 ")[0]
        job, left = page(Rewriting(first), name)
        pages += [job, *(f"# line {number} is not here: {line}\n" for number, line in left)]
    expected(HERE / "jobs.toml", "\n".join(pages))


@pytest.mark.parametrize(
    "text", ["echo 'apptainer exec", 'A="${B', "cat $(ls\n", "#!/bin/sh\necho singularity exec\n", ""]
)
def test_bad_input(refused: Refused, text: str) -> None:
    with refused(UsageError):
        Rewriting(text)
