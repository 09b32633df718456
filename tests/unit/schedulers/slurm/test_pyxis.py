"""Lines of srun and sbatch for pyxis: what mnrun makes of them, and the page that says so."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from mnrun.errors import Impossible
from mnrun.schedulers.slurm import pyxis
from mnrun.schedulers.vocabulary import Shimmed
from unit.cases import Cases
from unit.conftest import Shell
from unit.texts import Refused

PAGE = Path(__file__).parents[4] / "docs/howto/pyxis.md"
RECORDED = Path(__file__).parents[2] / "recorded/pyxis"
IN_JOB = {"SLURM_JOB_ID": "7"}


def shimmed(line: str, **environ: str) -> Shimmed:
    asked = pyxis.shimmed(shlex.split(line), {**IN_JOB, **environ})
    assert asked is not None
    return asked


def test_lines(cases: Cases) -> None:
    """A line without its srun, and its environment: `job` is that of job 7."""

    def words(line: str, around: str) -> str:
        environ = dict(word.split("=") for word in around.replace("job", "SLURM_JOB_ID=7").split())
        asked = pyxis.shimmed(shlex.split(line), environ)
        if asked is None:
            return "srun's own"
        traits = " ".join(("", *sorted(asked.traits)))
        verb = "shell" if asked.prompt else "run"
        return f"{verb}{traits}: {shlex.join((*asked.container, *asked.options, '--', *asked.command))}"

    cases(words)


@pytest.mark.parametrize("name", ["nemo_plain", "nemo_torchrun", "nemo_group", "dstack"])
def test_lines_of_other_tools(name: str) -> None:
    """Their lines with a container have no option that mnrun refuses."""
    text = (RECORDED / name).read_text(encoding="utf-8")
    lines = [line.partition(" &")[0] for line in re.findall(r"^srun (.*--container-image.*)", text, re.MULTILINE)]
    assert lines
    for line in lines if name != "dstack" else [text.partition("\nsrun ")[2]]:
        asked = shimmed(line)
        assert asked.command[0] in ("bash", "torchrun", "sh")
        assert "--image" in asked.container


# The page


def rows(heading: str) -> list[list[str]]:
    section = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [
        [cell.strip() for cell in row.strip("|").split("|")] for row in section.splitlines() if row.startswith("| `--")
    ]


def test_the_page_has_every_option_of_pyxis() -> None:
    assert [row[0].strip("`-") for row in rows("pyxis's options")] == [*pyxis.PYXIS]


@pytest.mark.parametrize(("option", "fate"), [row[:2] for row in rows("pyxis's options")])
def test_the_page_says_what_becomes_of_an_option(option: str, fate: str) -> None:
    name = option.strip("`-")
    value = {"container-image": "=a.sif", "container-mounts": "=/a:/b"}.get(name, "=x" if pyxis.PYXIS[name] else "")
    image = "" if name == "container-image" else "--container-image=a.sif"
    line = f"--{name}{value} {image} ./app"
    if fate == "refused":
        with pytest.raises(Impossible, match=f"--{name}"):
            shimmed(line)
        return
    plain, asked = shimmed("--container-image=b.sif ./app"), shimmed(line, x="1")
    changed = (asked.container, asked.traits, asked.name) != (("--image", "a.sif"), plain.traits, "")
    assert changed == (fate == "runs") or name == "container-image"


def test_the_page_has_every_option_of_srun_that_a_line_may_have() -> None:
    named = {name for row in rows("srun's options beside them") for name in re.findall(r"`--([\w-]+)`", row[0])}
    read = set(re.findall(r"[a-z-]{3,}", pyxis._READ))
    assert named - {"het-group", "multi-prog", "relative"} == {*pyxis.ALIKE, *pyxis.REQUESTS, *pyxis.NEEDLESS, *read}


# Batch scripts

SCRIPT = """#!/bin/bash -l
# A comment
#SBATCH -N2 --container-image nvcr.io\\#team/app:1
#SBATCH --container-mounts=/a:/b

echo "$1"
#SBATCH --container-name=late
"""


def test_a_script_runs_in_its_container() -> None:
    new = pyxis.within(SCRIPT, (), ("mnrun",), {}, "job.sh")
    assert new is not None
    *head, last = new.partition("exec ")
    assert "#SBATCH --nodes=2\n" in head[0]
    assert "\n#SBATCH --container" not in head[0]
    assert head[0].startswith("#!/bin/bash -l\n#SBATCH --job-name=job.sh\n")
    words = shlex.split(last)
    image, mounts = "--container-image=nvcr.io#team/app:1", "--container-mounts=/a:/b"
    assert words[:9] == ["mnrun", "shim", "--", "srun", "-N1", "-n1", "--mpi=none", image, mounts]
    assert words[9:12] == ["/bin/bash", "-l", "-c"]
    assert words[12] == 'echo "$1"\n#SBATCH --container-name=late\n'
    assert words[13:] == ["slurm_script", "$@"]


@pytest.mark.parametrize("script", ["#!/bin/sh\n#SBATCH -N2\nsrun --container-image=a.sif ./app\n", "", "no script\n"])
def test_another_script_is_left_alone(script: str) -> None:
    assert pyxis.within(script, (), ("mnrun",), {}, "job.sh") is None


def test_a_script_of_an_unknown_language_is_refused(refused: Refused) -> None:
    with refused(Impossible):
        pyxis.within("#!/usr/bin/awk -f\nx\n", ("--container-image=a.sif",), ("mnrun",), {}, "job.awk")


def test_a_line_of_sbatch_in_its_parts() -> None:
    line = pyxis.script_of(shlex.split("-N 2 --wait --container-image x.sif -o out job.sh -n 3 --container-name=y"))
    assert line.own == ("--nodes=2", "--wait", "--output=out")
    assert (line.script, line.arguments) == ("job.sh", ("-n", "3", "--container-name=y"))
    assert line.container == ("--container-image=x.sif",)
    assert not line.reads
    assert pyxis.script_of(["-N2"]).reads
    assert not pyxis.script_of(["--wrap=x"]).reads


# The front


@pytest.fixture
def front(tmp_path: Path) -> Path:
    """Return a PATH on which the fronts stand twice before a srun and an sbatch, and mnrun tells its words."""
    for name in ("front", "slurm"):
        (tmp_path / name).mkdir()
    text = f'#!/bin/sh\nmnrun_program() {{ echo mnrun "$@"; exit; }}\n{pyxis.FRONT}'
    for program in pyxis.PROGRAMS:
        for folder, content in (("front", text), ("slurm", f'#!/bin/sh\necho {program} "$@"\nexit 7\n')):
            (tmp_path / folder / program).write_text(content)
            (tmp_path / folder / program).chmod(0o755)
    (tmp_path / "plain.sh").write_text("#!/bin/sh\n#SBATCH -N2\nsrun --container-image=x ./app\n")
    (tmp_path / "inside.sh").write_text("#!/bin/sh\n#SBATCH -N2 --container-image=x\n./app\n")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("srun -N2 ./app --image x", "srun"),
        ("srun --container=/oci ./app", "srun"),
        ("srun -N2 --container-image=x ./app", "mnrun"),
        ("srun --no-container-mount-home ./app", "mnrun"),
        ("PYXIS_CONTAINER_IMAGE=x srun ./app", "mnrun"),
        ("PYXIS_CONTAINER_IMAGE=x sbatch plain.sh", "sbatch"),
        ("sbatch -N2 plain.sh inside.sh", "sbatch"),
        ("sbatch inside.sh", "mnrun"),
        ("sbatch --container-image=x plain.sh", "mnrun"),
        ("sbatch --wrap ./app", "sbatch"),
        ("sbatch -N2", "mnrun"),
    ],
)
@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_only_lines_with_a_container_start_mnrun(sh: Shell, front: Path, line: str, first: str, shell: str) -> None:
    words = " ".join(word for word in line.split() if not word.startswith("PYXIS"))
    path = f"{front}/front:{front}/front:/usr/bin:{front}/front:{front}/slurm:/bin"
    said = sh(f"cd {front}; PATH={path}; {line}", shell=shell, code=0 if first == "mnrun" else 7).decode()
    assert said == (f"mnrun shim -- {words}\n" if first == "mnrun" else f"{words}\n")


def test_a_front_without_a_program_behind_it_says_so(sh: Shell, front: Path) -> None:
    assert sh(f"PATH={front}/front:/usr/bin:/bin srun ./app", code=127) == b""
