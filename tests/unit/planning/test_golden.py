"""Plans and kits of stories that users tell: nothing about them changes unseen.

Each folder of golden/ is a story. `command` is the typed command, with the recorded job in which it is typed. plan.txt
(or plan.json) is the answer of `mnrun plan`. commands.txt has the lines that --commands adds, and kit.txt a node's
files. Two stories have both whole, and the others have the lines that differ from these. A story on paper has
its job.toml and its script.sh, too. Any story may have site/profiles as in /etc/mnrun.
`pytest tests/unit/planning/test_golden.py --accept` takes what there is now.
"""

from __future__ import annotations

import difflib
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from pytest_mock import MockerFixture

from mnrun.cli import main
from mnrun.config import load
from mnrun.facts import by_node, parse
from mnrun.model import Plan, Site
from mnrun.nodes import kit, sides
from mnrun.planning import show
from mnrun.planning.commands import job_here
from mnrun.running import probe, session, submission
from mnrun.schedulers import SCHEDULERS
from unit.samples import RECORDED, recorded
from unit.texts import GOLDEN, Expected

# These stories have their texts whole. They come first, so that --accept compares the others with the new texts.
WHOLE = {True: "inside-out", False: "outside-in-mpirun"}
STORIES = sorted((path.parent.name for path in GOLDEN.glob("*/command")), key=lambda name: name not in WHOLE.values())


@dataclass(frozen=True)
class Story:
    """`# in the recorded job NAME` (or `# on paper`), then the command with its variables in front."""

    job: str
    variables: dict[str, str]
    words: tuple[str, ...]

    @property
    def file(self) -> str:
        return "plan.json" if "json" in self.words else "plan.txt"


def read(folder: Path) -> Story:
    first, _, rest = (folder / "command").read_text().partition("\n")
    words = shlex.split(rest)
    start = words.index("mnrun")
    return Story(first.split()[-1], dict(word.split("=", 1) for word in words[:start]), tuple(words[start + 1 :]))


TEXTS = [name for name in STORIES if read(GOLDEN / name).file == "plan.txt"]


@pytest.fixture
def told(request: pytest.FixtureRequest, mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch) -> Story:
    folder = GOLDEN / str(request.param)
    story = read(folder)
    said, environ = ("", {}) if story.job == "paper" else recorded(story.job)
    answers = {"srun": "slurm-wlm 24.11.5\n", "scontrol": said}
    mocker.patch(
        "subprocess.run", side_effect=lambda argv, **_: subprocess.CompletedProcess(argv, 0, answers[argv[0]], "")
    )
    mocker.patch("mnrun.schedulers.slurm.scheduler.is_here", return_value=True)
    mocker.patch("mnrun.schedulers.slurm.queue.UserQueue.nodes", return_value=())
    mocker.patch("mnrun.system.paths.fault", return_value="")
    mocker.patch("mnrun.system.modules.load", side_effect=lambda names, environ: environ)
    facts = by_node(parse((RECORDED / "facts.txt").read_text()))
    mocker.patch("mnrun.running.nodes.Held.ask", return_value=facts)
    mocker.patch.object(probe.Probe, "_file", return_value=None)
    mocker.patch.object(session, "token", return_value="xxxxxx")
    mocker.patch("mnrun.running.request.cwd", return_value="/home/alice/run")
    mocker.patch.object(load, "_text", side_effect=lambda path, _: (folder / Path(path).name).read_text())
    mocker.patch.object(load, "_of_the_site", side_effect=lambda path, _: path.read_text() if path.exists() else None)
    mocker.patch.object(load, "SITE", folder / "site")
    monkeypatch.setattr(os, "environ", {**environ, **story.variables, "HOME": "/home/alice", "PATH": "/usr/bin"})
    return story


def answer(story: Story) -> str:
    done = CliRunner().invoke(main.main, story.words, standalone_mode=False)
    assert done.exception is None, done.exception
    return done.stdout


def with_commands(story: Story) -> Story:
    return replace(story, words=("plan", "--commands", *story.words[1:]))


def sent(made: Plan, site: Site) -> str:
    outside = made.spec.start.mode == "outside-in"
    launch = {}
    if outside:
        launch["launch.env"] = kit.outside_environment(made, SCHEDULERS[site.scheduler].launch_environment(made, site))
    files = kit.files(made, launch, job_here(site))
    assert files["box/job.sh"] == files["job.sh"]
    known = {*sides.node_wrappers(made.connect, not outside), "rules.sh", "box/job.sh", "box/rules.sh"}
    return "".join(f"--- {name}\n{text}" for name, text in files.items() if name not in known)


@pytest.mark.parametrize("told", STORIES, indirect=True)
def test_a_storys_plan(told: Story, expected: Expected, request: pytest.FixtureRequest) -> None:
    """The whole text of `mnrun plan`: the answer, each value that somebody set with its origin, every step."""
    folder = GOLDEN / request.node.callspec.params["told"]
    expected(folder / told.file, answer(told))


@pytest.mark.parametrize("told", TEXTS, indirect=True)
def test_a_storys_commands(told: Story, expected: Expected, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["told"]
    known = set()
    if name not in WHOLE.values():
        files = (GOLDEN / name / "plan.txt", *(GOLDEN / whole / "commands.txt" for whole in WHOLE.values()))
        known = {line for file in files for line in file.read_text().splitlines()}
    lines = answer(with_commands(told)).splitlines()
    expected(GOLDEN / name / "commands.txt", "".join(f"{line}\n" for line in lines if line not in known))


@pytest.mark.parametrize("told", STORIES, indirect=True)
def test_a_storys_kit(told: Story, expected: Expected, request: pytest.FixtureRequest, mocker: MockerFixture) -> None:
    name = request.node.callspec.params["told"]
    carried = mocker.spy(show, "carry")
    answer(with_commands(told))
    made, site = carried.call_args.args
    text = sent(made, site).replace(made.job, "JOB-xxxxxx")
    whole = WHOLE[made.spec.start.mode == "inside-out"]
    if name != whole:
        before = (GOLDEN / whole / "kit.txt").read_text().splitlines()
        lines = difflib.unified_diff(before, text.splitlines(), n=0, lineterm="")
        text = "".join(f"{line}\n" for line in lines if not line.startswith(("---", "+++", "@@")))
    expected(GOLDEN / name / "kit.txt", text)


PAPER = [name for name in STORIES if read(GOLDEN / name).job == "paper"]


@pytest.mark.parametrize("told", PAPER, indirect=True)
def test_a_storys_script(
    told: Story, expected: Expected, request: pytest.FixtureRequest, mocker: MockerFixture
) -> None:
    mocker.patch("time.strftime", return_value="2026-01-01")
    mocker.patch.object(sys, "argv", ["mnrun", *told.words])
    mocker.patch.object(submission, "own_call", return_value=("/usr/local/bin/mnrun",))
    words = ("plan", "--format", "sbatch", *told.words[1:])
    expected(GOLDEN / request.node.callspec.params["told"] / "script.sh", answer(replace(told, words=words)))


def test_every_folder_is_a_story() -> None:
    for folder in GOLDEN.iterdir():
        known = {"command", read(folder).file, "kit.txt"}
        known |= {"commands.txt"} if folder.name in TEXTS else set()
        known |= {"script.sh", "job.toml"} if folder.name in PAPER else set()
        assert {path.name for path in folder.iterdir()} - {"site"} == known
