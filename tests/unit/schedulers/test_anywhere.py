"""One job file as the script of each scheduler, with the origin of each line. anywhere.md has them side by side.

tests/live/test_jobfile.py, test_pbs.py and test_lsf.py run the same file. A new scheduler appears there by itself:
`pytest tests/unit/schedulers/test_anywhere.py --accept`.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pytest_mock import MockerFixture

from mnrun.cli import main
from mnrun.config import load
from mnrun.running import submission
from mnrun.schedulers import BATCH, NAMED
from unit.schedulers.test_words import COLUMNS, Column
from unit.texts import Expected

JOB = Path(__file__).with_name("anywhere.toml")
DOCUMENT = JOB.with_suffix(".md")
PAGE = Path(__file__).parents[3] / "docs/howto/jobfiles.md"
SECTION = re.compile(r"(?<=^## One file for several schedulers\n).*?(?=^## )", re.MULTILINE | re.DOTALL)
# Scheduler -> the value in its own table.
ITS_OWN = {
    name: value for name, value in re.findall(r'^\[(\w+)\]\n.*"(.*)"$', JOB.read_text(), re.MULTILINE) if name in BATCH
}
HEAD = "# One job file in the words of each scheduler\n\nEach reads its own table of the file alone.\n"


@pytest.fixture
def at_home(mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Play the place of a user who has typed `mnrun plan job.toml`. Return the folder of the site."""
    mocker.patch("time.strftime", return_value="2026-01-01")
    mocker.patch("mnrun.running.request.cwd", return_value="/home/alice/run")
    mocker.patch.object(sys, "argv", ["mnrun", "plan", "job.toml"])
    mocker.patch.object(submission, "own_call", return_value=("/usr/local/bin/mnrun",))
    mocker.patch.object(load, "_text", return_value=JOB.read_text(encoding="utf-8"))
    mocker.patch.object(load, "_of_the_site", side_effect=lambda path, _: path.read_text() if path.exists() else None)
    mocker.patch.object(load, "SITE", tmp_path)
    monkeypatch.setattr(os, "environ", {"HOME": "/home/alice", "PATH": ""})
    return tmp_path


def script_of(column: Column, site: Path) -> str:
    (site / "profiles").mkdir(exist_ok=True)
    keys = "".join(f'{column.scheduler}.{key} = "{value}"\n' for key, value in column.site.items())
    (site / "profiles/here.toml").write_text(f'match.hostname = "*"\n{keys}')
    words = ("plan", "--format", "sbatch", "--scheduler", column.scheduler, "job.toml")
    done = CliRunner().invoke(main.main, words, standalone_mode=False)
    assert done.exception is None, done.exception
    return done.stdout


def test_one_file_in_the_words_of_each_scheduler(at_home: Path, expected: Expected) -> None:
    texts = [HEAD]
    for column in (one for one in COLUMNS if one.scheduler not in NAMED):  # they take no scripts
        script = script_of(column, at_home)
        assert {name for name, value in ITS_OWN.items() if value in script} == {column.scheduler}
        texts.append(f"\n## {column.title}\n\n```bash\n{script}```\n")
    expected(DOCUMENT, "".join(texts))


def test_the_page_shows_the_file_and_a_script(at_home: Path, expected: Expected) -> None:
    shown = {
        'toml title="job.toml"': JOB.read_text(encoding="utf-8"),
        "bash": script_of(next(column for column in COLUMNS if column.scheduler == "pbs"), at_home).partition("\n\n")[
            0
        ],
    }
    page = PAGE.read_text(encoding="utf-8")
    (section,) = SECTION.findall(page)
    for kind, text in shown.items():
        block = text.rstrip().replace("\\", r"\\") + "\n"
        section = re.sub(rf"(?<=```{kind}\n).*?(?=^```$)", block, section, flags=re.DOTALL | re.MULTILINE)
    expected(PAGE, SECTION.sub(lambda _: section, page))
