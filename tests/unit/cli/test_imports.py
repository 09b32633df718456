"""Modules that an answer of mnrun must do without. Each costs a fraction of a millisecond to several, at every call."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from unit.conftest import Shell

LAUNCHER = Path(__file__).resolve().parents[3] / "launcher"
ENTRY = """
import atexit, sys
from mnrun.__main__ import entry
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
sys.argv[0] = "mnrun"
entry()
"""
FOR_NO_ANSWER = {
    *("hpccm", "jinja2", "rich", "paramiko", "cryptography", "ClusterShell", "spython"),
    *("subprocess", "shutil", "traceback", "json", "difflib", "logging"),
    *("mnrun.jobspec", "mnrun.environment", "mnrun.config.docs", "mnrun.config.layers"),
    *("mnrun.planning", "mnrun.running", "mnrun.schedulers", "mnrun.system", "mnrun.jobs"),
}


def imported(sh: Shell, *words: str, environ: Sequence[str] = ()) -> set[str]:
    """The modules that a call of mnrun has imported up to its end."""
    python = ("env", f"PYTHONPATH={LAUNCHER}", *environ, sys.executable, "-B", "-c", ENTRY)
    return set(sh('"$@" 2>&1 >/dev/null', *python, *words).decode().split())


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_first_answers_import_little(sh: Shell, option: str) -> None:
    names = imported(sh, option)
    assert "mnrun.cli.main" in names
    assert sorted(names & FOR_NO_ANSWER) == []
    assert ("mnrun.config.options" in names) == (option == "--help")


LINES = ("mnrun ", "mnrun s", "mnrun --no", "mnrun --mode in", "mnrun submit --dry", "mnrun plan -")


@pytest.mark.parametrize("line", LINES)
def test_a_completion_imports_little(sh: Shell, line: str) -> None:
    count = str(len(line.split(" ")) - 1)
    asks = ("_MNRUN_COMPLETE=bash_complete", f"COMP_WORDS={line}", f"COMP_CWORD={count}")  # bash itself drops COMP_*
    names = imported(sh, environ=asks)
    assert "mnrun.cli.parsing" in names
    assert sorted(names & FOR_NO_ANSWER) == []
