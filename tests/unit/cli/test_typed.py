"""The lines of typed.md, typed one by one: each has the answer that stands below it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from pytest_mock import MockerFixture

from mnrun.jobspec import JobSpec, Layer
from mnrun.running import execute, submission
from mnrun.schedulers.slurm import client
from mnrun.schedulers.slurm import scheduler as slurm
from mnrun.system import modules, process, terminal
from unit.salloc import Salloc
from unit.samples import SITE, held
from unit.texts import Expected
from unit.typed import Launched, Terminal

DOCUMENT = Path(__file__).with_name("typed.md")
CHAPTER = re.compile(r"^## .*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
CHAPTERS = CHAPTER.findall(DOCUMENT.read_text(encoding="utf-8"))
LINE = re.compile(r"^    \$ (.*)\n((?:      .*\n)*)", re.MULTILINE)
FILES = {
    "app.sif": "an image",
    "app": "a program",
    "job.toml": 'command = ["./app", "x"]\nimage = "/images/app.sif"\n',
    "bare.toml": 'image = "/images/app.sif"\n',
    "there/job.toml": 'command = ["./app", "x"]\nimage = "app.sif"\n',
    "there/set.toml": 'command = ["./app", "x"]\nimage = "app.sif"\nchdir = "."\n',
    "script.toml": 'script = "run.sh"\nimage = "/images/app.sif"\n',
    "job.sh": "#!/bin/bash\n#SBATCH -N 2\nsrun ./app\n",
    "run.sh": "#!/bin/bash\nmpirun ./app\n",
    "hosts": "node01\n",
}
STEP = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"}
BUSY = "srun: error: Unable to create step for job 7: Requested nodes are busy"
SHOWN = (Layer.COMMAND_LINE, Layer.VARIABLE)


class Desk:
    """Types a line of the document at a login node, or in a job of four nodes, and tells what came of it."""

    def __init__(self, mnrun: Terminal, mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        self._mnrun, self._mocker, self._monkeypatch, self._home = mnrun, mocker, monkeypatch, home
        self._launched = Launched()
        self._submitted: list[submission.Submission] = []
        mocker.patch.object(slurm, "current", return_value=(held("node01", "node02", "node03", "node04"), SITE))
        mocker.patch.object(execute.Launch, "run", autospec=True, side_effect=self._launched)
        mocker.patch.object(submission, "hand_in", self._hand_in)
        mocker.patch.object(submission, "record")
        mocker.patch.object(process, "ask", return_value="fact login node system Debian\n")
        mocker.patch.object(client, "run", return_value=subprocess.CompletedProcess(("srun", "bash"), 1, "", BUSY))
        mocker.patch.object(modules, "load", side_effect=lambda names, environ: environ)
        mocker.patch.object(terminal, "controls", return_value=False)
        monkeypatch.setenv("PATH", str(home / "bin"))
        (home / "bin").mkdir()
        (home / "there").mkdir()
        for name, text in FILES.items():
            (home / name).write_text(text)
        for name in ("ps", "kill", "hostname", "node"):
            (home / "bin" / name).touch(0o755)

    def _hand_in(self, batch: submission.Submission) -> tuple[str, str]:
        self._submitted.append(batch)
        return "4242", ""

    def answer(self, line: str, in_job: bool) -> str:
        words = shlex.split(line)
        place = words.index("mnrun")
        with self._monkeypatch.context() as patch, mock.patch.dict(os.environ):
            variables = dict(word.split("=", 1) for word in words[:place] if "=" in word)
            variables.update({"SLURM_JOB_ID": "7"} if in_job else {})
            variables.update(STEP if "srun" in words[:place] else {})
            for name, value in variables.items():
                patch.setenv(name, value)
            found = self._mnrun(*words[place + 1 :])
        said = found.err.removeprefix("mnrun: ").rstrip("\n").split("\nmnrun: ")
        if found.code:  # lines about nodes and ranks may stand in front
            lines = f"{found.code}: {said[-1]}".splitlines()
        else:
            lines = [*self._done(found.out), *(text for text in said if text.startswith("warning: "))]
        return "".join(f"      {text}\n" for text in lines).replace(str(self._home), "/home/me")

    def _done(self, out: str) -> Iterator[str]:
        for plan in self._launched.plans:
            yield f"runs {shown(plan.spec)}"
        for batch in self._submitted:
            yield f"submits {shown(batch.spec)}"
        if not self._launched.plans and not self._submitted:
            yield f"prints {out.splitlines()[0]}"
        self._launched.plans.clear()
        self._submitted.clear()


def shown(spec: JobSpec) -> str:
    values = [
        f"{name}={value(spec, name)}"
        for name, origin in sorted(spec.origins.items())
        if origin.layers & set(SHOWN) and name not in ("image", "script")
    ]
    program = shlex.join((*((spec.program.script,) if spec.program.script else ()), *spec.program.command)) or "a shell"
    image = f"in {spec.container.image_name}" if spec.container.image else "without a container"
    return "  ".join([program, image, *values])


def value(spec: JobSpec, name: str) -> str:
    found = spec.value(name)
    if name == "env":
        return " ".join(variable.name for variable in spec.program.explicit)
    return " ".join(map(str, found)) if isinstance(found, tuple) else str(found)


@pytest.fixture
def desk(
    mnrun: Terminal, salloc: Salloc, mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Desk:
    return Desk(mnrun, mocker, monkeypatch, tmp_path)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=[text.splitlines()[0][3:] for text in CHAPTERS])
def test_every_line_has_its_answer(desk: Desk, chapter: str, expected: Expected) -> None:
    """`--accept` writes the answers anew: read each of them before you commit it."""
    in_job = "login node" not in chapter.partition("    $ ")[0]
    now = LINE.sub(lambda line: f"    $ {line[1]}\n{desk.answer(line[1], in_job)}", chapter)
    text = DOCUMENT.read_text(encoding="utf-8")
    expected(DOCUMENT, text.replace(chapter, now))


def test_the_document_has_many_lines() -> None:
    lines = LINE.findall("".join(CHAPTERS))
    assert len({line for line, _ in lines}) == len(lines) >= 250
    assert [line for line, answer in lines if not answer] == []


def test_nothing_is_left_of_a_refused_line(desk: Desk, tmp_path: Path) -> None:
    before = sorted(os.listdir(tmp_path))
    desk.answer("mnrun sumbit --image app.sif ./app", in_job=True)
    desk.answer("mnrun --image app.sif --fakeroot ./app", in_job=True)
    assert sorted(os.listdir(tmp_path)) == before
