"""Whole plans, and whole kits, of stories that users tell: nothing about them changes unseen.

Each folder of golden/ is a story: `command` is what is typed, with the recorded job in which
it is typed; plan.txt (or plan.json) is what `mnrun plan` answers, commands.txt what it answers with
--commands, and kit.txt what each node is sent. One on paper has its job.toml and its script.sh, too;
any may have site/profiles as in /etc/mnrun.
`pytest tests/unit/planning/test_golden.py --accept` takes what there is now.
"""

from __future__ import annotations

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
from mnrun.model import Plan, Site
from mnrun.nodes import kit, sides
from mnrun.planning import show
from mnrun.running import probe, session, submission
from mnrun.schedulers import SCHEDULERS
from unit.samples import RECORDED, recorded
from unit.texts import GOLDEN, Expected

STORIES = sorted(path.parent.name for path in GOLDEN.glob("*/command"))


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
    """The story's surroundings: alice in /home/alice/run, a fixed token, Slurm and a node as they were recorded."""
    folder = GOLDEN / str(request.param)
    story = read(folder)
    said, environ = ("", {}) if story.job == "paper" else recorded(story.job)
    answers = {"srun": "slurm-wlm 24.11.5\n", "scontrol": said}
    mocker.patch(
        "subprocess.run", side_effect=lambda argv, **_: subprocess.CompletedProcess(argv, 0, answers[argv[0]], "")
    )
    mocker.patch("mnrun.schedulers.slurm.is_here", return_value=True)
    mocker.patch("mnrun.schedulers.slurm.queue.UserQueue.nodes", return_value=())
    mocker.patch("mnrun.system.paths.fault", return_value="")
    mocker.patch("mnrun.system.modules.load", side_effect=lambda names, environ: environ)
    mocker.patch.object(probe.Probe, "_answer", return_value=(RECORDED / "facts.txt").read_text())
    mocker.patch.object(probe.Probe, "_place", return_value=None)
    mocker.patch.object(session, "token", return_value="xxxxxx")
    mocker.patch.object(session, "cwd", return_value="/home/alice/run")
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
    """What each node of the job gets, but for the wrappers and the rules, which are files of their own."""
    outside = made.spec.start.mode == "outside-in"
    launch = {}
    if outside:
        launch["launch.env"] = kit.outside_environment(made, SCHEDULERS[site.scheduler].launch_environment(made, site))
    files = kit.files(made, launch)
    known = {*sides.node_wrappers(made.connect, not outside), "rules.sh"}
    return "".join(f"--- {name}\n{text}" for name, text in files.items() if name not in known)


@pytest.mark.parametrize("told", STORIES, indirect=True)
def test_a_storys_plan(told: Story, expected: Expected, request: pytest.FixtureRequest) -> None:
    """The whole text of `mnrun plan`: the answer, each value that somebody set with its origin, every step."""
    folder = GOLDEN / request.node.callspec.params["told"]
    expected(folder / told.file, answer(told))


@pytest.mark.parametrize("told", TEXTS, indirect=True)
def test_a_storys_commands(told: Story, expected: Expected, request: pytest.FixtureRequest) -> None:
    """The whole text with --commands: every word of every step, and every default."""
    expected(GOLDEN / request.node.callspec.params["told"] / "commands.txt", answer(with_commands(told)))


@pytest.mark.parametrize("told", STORIES, indirect=True)
def test_a_storys_kit(told: Story, expected: Expected, request: pytest.FixtureRequest, mocker: MockerFixture) -> None:
    """The whole text of what every node is sent: values, variables, hosts."""
    carried = mocker.spy(show, "carry")
    answer(with_commands(told))
    expected(GOLDEN / request.node.callspec.params["told"] / "kit.txt", sent(*carried.call_args.args))


PAPER = [name for name in STORIES if read(GOLDEN / name).job == "paper"]


@pytest.mark.parametrize("told", PAPER, indirect=True)
def test_a_storys_script(
    told: Story, expected: Expected, request: pytest.FixtureRequest, mocker: MockerFixture
) -> None:
    """The whole batch script of a job that nobody holds nodes for; scripts/lint has shellcheck read it."""
    mocker.patch("time.strftime", return_value="2026-01-01")
    mocker.patch.object(sys, "argv", ["mnrun", *told.words])
    mocker.patch.object(submission, "own_call", return_value=("/usr/local/bin/mnrun",))
    words = ("plan", "--format", "sbatch", *told.words[1:])
    expected(GOLDEN / request.node.callspec.params["told"] / "script.sh", answer(replace(told, words=words)))


def test_every_folder_is_a_story() -> None:
    """No golden text is left behind by a story that is no longer told."""
    for folder in GOLDEN.iterdir():
        known = {"command", read(folder).file, "kit.txt"}
        known |= {"commands.txt"} if folder.name in TEXTS else set()
        known |= {"script.sh", "job.toml"} if folder.name in PAPER else set()
        assert {path.name for path in folder.iterdir()} - {"site"} == known
