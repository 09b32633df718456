"""Modules that an answer of mnrun must do without. Each costs a fraction of a millisecond to several, at every call."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mnrun.cli.words.verbs import VERBS
from unit.conftest import Shell
from unit.samples import recorded

LAUNCHER = Path(__file__).resolve().parents[3] / "launcher"
ENTRY = """
import os, sys
from mnrun.__main__ import entry
errors = os.dup(2)  # an answer to a shell closes the other one
os._exit = lambda code: os.write(errors, " ".join(sys.modules).encode())
sys.argv[0] = "mnrun"
entry()
"""
FOR_NO_ANSWER = {
    *("hpccm", "jinja2", "rich", "paramiko", "psutil", "cryptography", "ClusterShell", "spython"),
    *("pathlib", "subprocess", "shutil", "traceback", "json", "difflib", "logging"),
    *("mnrun.jobspec", "mnrun.environment", "mnrun.config.docs", "mnrun.config.layers"),
    *("mnrun.planning", "mnrun.running", "mnrun.schedulers", "mnrun.system", "mnrun.jobs"),
}


# Modules that a run needs after its first step is on its way, or in a case of its own.
FOR_NO_FIRST_STEP = {
    *("hpccm", "jinja2", "rich", "paramiko", "cryptography", "spython", "pyslurm"),
    *("concurrent.futures", "difflib", "hashlib", "importlib.resources", "multiprocessing"),
    *("mnrun.diagnosis", "mnrun.images.build", "mnrun.mpi.facts", "mnrun.network", "mnrun.running.probe"),
    *("mnrun.planning.compatibility", "mnrun.planning.script", "mnrun.reach.transport"),
    *("mnrun.schedulers.sge.scheduler", "mnrun.schedulers.parts", "mnrun.schedulers.slurm.allocate"),
    *("mnrun.schedulers.slurm.queue", "mnrun.schedulers.queue"),
    *("mnrun.jobs.state", "mnrun.planning.show"),
}
FIRST_STEP = """
import os, sys
from mnrun.__main__ import entry
from mnrun.system import process
def start(name, command, *_, **__):
    print(command.argv[0], *sys.modules)
    sys.stdout.flush()
    os._exit(0)
process.start = start
sys.argv[0] = "mnrun"
entry()
"""


def imported(sh: Shell, *words: str, environ: Sequence[str] = ()) -> set[str]:
    python = ("env", f"PYTHONPATH={LAUNCHER}", *environ, sys.executable, "-B", "-c", ENTRY)
    return set(sh('"$@" 2>&1 >/dev/null', *python, *words).decode().split())


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_first_answers_import_little(sh: Shell, option: str) -> None:
    names = imported(sh, option)
    assert "mnrun.cli.main" in names
    assert sorted(names & FOR_NO_ANSWER) == []
    assert ("mnrun.config.options" in names) == (option == "--help")


LINES = ("mnrun ", "mnrun s", "mnrun --no", "mnrun --mode in", "mnrun submit --dry", "mnrun plan -")
VERB_LINES = (*(f"mnrun {verb} -" for verb in VERBS), "mnrun image ", "mnrun image build --format ")


@pytest.mark.parametrize("line", (*LINES, *VERB_LINES))
def test_a_completion_imports_little(sh: Shell, line: str) -> None:
    count = str(len(line.split(" ")) - 1)
    asks = ("_MNRUN_COMPLETE=bash_complete", f"COMP_WORDS={line}", f"COMP_CWORD={count}")  # bash itself drops COMP_*
    names = imported(sh, environ=asks)
    ours = {"mnrun.cli.profile", "mnrun.cli.shim", "mnrun.cli.explain", "mnrun.cli.migrate"}
    assert names & {"mnrun.config.options", *ours}
    assert sorted(names & FOR_NO_ANSWER) == []


@pytest.mark.parametrize("runtime", ["host", "apptainer"])
@pytest.mark.parametrize("scheduler", ["local", "slurm"])
def test_the_first_step_starts_after_few_imports(sh: Shell, tmp_path: Path, scheduler: str, runtime: str) -> None:
    """Slurm has two questions to answer, with what it was recorded to say."""
    said, variables = recorded("plain")
    for client, answer in {"scontrol": said, "srun": "slurm-wlm 24.11.5\n"}.items():
        (tmp_path / f"{client}.txt").write_text(answer)
        (tmp_path / client).write_text(f"#!/bin/sh\ncat '{tmp_path}/{client}.txt'\n")
        (tmp_path / client).chmod(0o700)
    slurm = scheduler == "slurm"
    place, job = ((), [f"{name}={value}" for name, value in variables.items()]) if slurm else (("--local",), [])
    path = f"PATH={tmp_path}:{os.environ['PATH']}"
    python = ("env", path, *job, f"PYTHONPATH={LAUNCHER}", sys.executable, "-B", "-c", FIRST_STEP)
    program, image = tmp_path / "app.py", tmp_path / "app.sif"
    program.write_text("#!/usr/bin/python3\n# A comment.\n")
    image.touch()
    box = ("--image", str(image)) if runtime == "apptainer" else ()
    words = (*place, *box, "--runtime", runtime, "--launcher", "env", str(program))
    begun, *names = sh('"$@"', *python, *words).decode().split()
    assert begun == ("srun" if slurm else "bash")
    assert "mnrun.running.execute" in names
    assert sorted(set(names) & FOR_NO_FIRST_STEP) == []


@pytest.mark.parametrize("theirs", ["{place}", "", ".:{place}", "{place}/"])
def test_modules_of_the_users_programs_are_not_mnruns(sh: Shell, tmp_path: Path, theirs: str) -> None:
    """(W6, F6) Nor are those of the directory where mnrun is typed, which an empty element names. A module that nobody
    else has is found, as where a site names mnrun's own directory."""
    for name in ("click", "json", "fcntl"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(99)")
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin/mnrun"
    script.write_text("import sys\nfrom mnrun.__main__ import entry\nentry()\n")
    path = f"PYTHONPATH={theirs.format(place=tmp_path)}:{LAUNCHER}"
    said = sh('cd "$1"; shift; "$@"', str(tmp_path), "env", path, sys.executable, "-B", str(script), "--help")
    assert said.startswith(b"mnrun: run one job"), said
