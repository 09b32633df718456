"""Batch scripts: the words of the plan, with the script's variables in them, and the files that they find."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from mnrun import files as render
from mnrun.errors import Impossible, UsageError
from mnrun.model import JobSpec, Site, Variable
from mnrun.nodes import kit
from mnrun.planning import layout, plan, script
from mnrun.planning.script import Script
from mnrun.schedulers.slurm import steps
from unit.conftest import Shell
from unit.samples import build


def written(*command: str, **given: Any) -> Script:
    job = build(*(command or ("./app",)), **{"nodes": "2", "ntasks_per_node": "2", **given})
    return of_the_job(job, "")


def of_the_job(job: JobSpec, source: str) -> Script:
    laid = layout.lay_out(job, None)
    made = plan.make(plan.on_paper(job), script.on_paper(laid), script.JOB)
    where = steps.on_paper(Site("slurm", script.SLURM_JOB, (24, 11)), job, laid)
    return script.write(made, where, "/stage", source)


@pytest.mark.parametrize(
    "word",
    [
        "plain",
        "two words",
        "$HOME `x` \\ \"q\" 'q'",
        f"/tmp/mnrun.{script.JOB}/a b",
        f"x=$y,{steps.HEAD}",
        f"{steps.EACH};\n*",
        "echo $MNRUN_JOB_ID in $MNRUN_NODES of /tmp/mnrun.MNRUN_JOB",
        "é!",
    ],
)
def test_a_word_is_what_bash_makes_of_it(sh: Shell, word: str) -> None:
    """Byte for byte, but for the names that are the script's variables."""
    known = {"here": "/tmp/mnrun.7", "id": "7", "head": "node01", "each": "node01,node02", "nodes": "node[01-02]"}
    text = "".join(f"mnrun_{name}={value}; " for name, value in known.items()) + f"printf %s {script._word(word)}"
    expected = word.replace(script.JOB, "7").replace(steps.HEAD, "node01").replace(steps.EACH, "node01,node02")
    assert sh('exec bash -c "$1"', text).decode() == expected


def test_the_stage_holds_what_nodes_are_sent() -> None:
    """All of a live launch's files but those that are made in the job."""
    files = written().stage
    assert {f"kit/{name}" for name in kit.wrappers()} <= set(files)
    assert {"walk.sh", "words.sh", "ssh_config", "kit/job.sh", "kit/needs", "kit/launch.env"} <= set(files)
    assert not {"kit/layout", "kit/key"} & set(files)
    assert "ssh_config" not in written(mode="outside-in").stage


def test_what_is_passed_on_is_never_written() -> None:
    """A name whose value is the job's own: no file of ours has the value, the script has the name."""
    made = written(env=("TOKEN", "A=b"), environ={"TOKEN": "s3cret", "SLURM_JOB_ID": "7"})
    assert '"TOKEN${TOKEN+=$TOKEN}"' in made.text
    assert not [name for name, text in {"": made.text, **made.stage}.items() if "s3cret" in text]
    assert "SLURM_JOB_ID" not in made.text


def test_gpus_for_each_task_are_all_of_the_nodes() -> None:
    """Every rank sees all GPUs of its node: the steps ask for what the job's tasks hold together."""
    made = written(gpus_per_task="2")
    assert "#SBATCH --gpus-per-task=2" in made.text
    assert made.text.count("--gres=gpu:4 ") == 3
    with pytest.raises(Impossible, match="--gpus-per-task with different numbers of ranks"):
        written(gpus_per_task="1", ntasks="3", ntasks_per_node=None)


def test_directives_say_where_they_come_from() -> None:
    """In sbatch's words, quoted where a shell would; what mnrun does not read goes last."""
    lines = written(partition="gpu", constraint="a&b", exclusive=True, slurm=("switches=1@30:00",)).text.split("\n")
    assert [re.sub(" +#", "  #", line) for line in lines if line.startswith("#SBATCH")] == [
        "#SBATCH --job-name=app  # the program's name",
        "#SBATCH --partition=gpu  # command line",
        "#SBATCH '--constraint=a&b'  # command line",
        "#SBATCH --exclusive  # command line",
        "#SBATCH --nodes=2  # command line",
        "#SBATCH --ntasks-per-node=2  # command line",
        "#SBATCH --output=%x-%j.out  # built-in",
        "#SBATCH --switches=1@30:00  # command line",
    ]


def test_an_origin_is_one_line() -> None:
    """Whatever a profile's author wrote."""
    job = build("./a\nb", nodes="1", env=("A=1",))
    job = dataclasses.replace(job, env=(Variable("A", "1", why="one\ntwo"),), job_name="x")
    made = of_the_job(job, "\n")
    assert "  A=1  # one two\n" in made.text
    assert made.text.splitlines()[2].startswith("# Written by mnrun")


def test_modules_limits_and_lines_come_before_anything_of_ours() -> None:
    """In that order, and before `set -u`."""
    text = written(module=("a/1", "b"), ulimit=("memlock=unlimited",), setup=("export X=$Y",)).text
    places = [text.index(line) for line in ("module load a/1", "module load b", "ulimit -l unlimited", "export X=$Y")]
    assert places == sorted(places)
    assert places[-1] < text.index("set -euo pipefail")


def test_lines_of_the_users_own_stay_as_they_are() -> None:
    """Where they come from stands above those of one place, since a comment between two could be part of a text."""
    job = build("./app", nodes="1", setup=("cat <<end", "text \\", "end"))
    job = dataclasses.replace(job, setup_origins=("profile one", "profile one", "job.toml\nline 3"))
    lines = of_the_job(job, "").text.splitlines()
    first = lines.index("# setup: profile one")
    assert lines[first + 1 : first + 5] == ["cat <<end", "text \\", "# setup: job.toml line 3", "end"]


def test_what_the_steps_clients_are_told_says_why() -> None:
    """An export of ours, beside the directives and variables, which say it too."""
    text = written(mode="outside-in", launcher="srun").text
    assert "export SLURM_PMIX_FENCE=ring  # mnrun: " in text


def test_a_template_of_the_sites_own(tmp_path: Path) -> None:
    """--templates goes in front; an unknown name in it, or what is none, is said with the file."""
    (tmp_path / "slurm.sh").write_text("#!/bin/bash\n# ours\n{{ title }}\n")
    assert written(templates=str(tmp_path)).text.startswith("#!/bin/bash\n# ours\napp: 2 nodes x 2 ranks")
    (tmp_path / "slurm.sh").write_text("{{ nothing }}")
    with pytest.raises(UsageError, match=r"slurm.sh: 'nothing' is undefined"):
        written(templates=str(tmp_path))
    (tmp_path / "slurm.sh").write_text("{% if %}")
    with pytest.raises(UsageError, match=r"slurm.sh line 1: "):
        render.render("slurm.sh", str(tmp_path))
    for text, said in ((b"\xff", "UnicodeDecodeError: "), (b"{{ 1/0 }}", "ZeroDivisionError: ")):
        (tmp_path / "slurm.sh").write_bytes(text)
        with pytest.raises(UsageError, match=f"^{tmp_path}/slurm.sh: {said}"):
            render.render("slurm.sh", str(tmp_path))
    with pytest.raises(UsageError, match=r"^--templates /nope is no directory; "):
        render.render("slurm.sh", "/nope")


def test_ranks_by_srun_that_are_uneven_are_named_in_the_job() -> None:
    """Which node a rank is on is known only there."""
    made = written(mode="outside-in", launcher="srun", ntasks="3", ntasks_per_node=None)
    assert "ranks=(2 1)" in made.text
    assert '--distribution=arbitrary "--nodelist=$mnrun_each"' in made.text


@pytest.mark.parametrize(
    "given",
    [
        {"gres": "gpu:1\ntouch /tmp/x #"},
        {"nodelist": "n1\ntouch /tmp/x"},
        {"exclude": "n1\r"},
        {"gpus_per_node": "a\n:1"},
        {"gpus": "a\t:1"},
        {"gpus_per_task": "\x7f:1"},
    ],
)
def test_no_value_becomes_a_line_of_its_own(given: dict[str, str]) -> None:
    """B11: outside its comment it would be run, as shell, in the job."""
    (name,) = given
    with pytest.raises(UsageError, match="has a tab, a newline or another control character in it") as wrong:
        written(**given)
    assert wrong.value.message.startswith(f"--{name.replace('_', '-')} "), wrong.value


def test_a_programs_name_becomes_no_line_of_its_own() -> None:
    """B11: it is the job's, unless that has another."""
    program = "./app\ntouch x"
    with pytest.raises(UsageError, match=r"--job-name 'app.ntouch x' has a tab, a newline or another control") as wrong:
        written(program)
    assert wrong.value.remedy == "give the job a name of its own with --job-name"
    assert "#SBATCH --job-name=app " in written(program, job_name="app").text
