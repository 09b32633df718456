"""What the scripts of wrappers/probe/ print, run here, is read as facts: all in one format."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from mnrun.facts import Fact, parse, values
from mnrun.files import spoken, wrapper
from mnrun.mpi.facts import mpi_facts
from mnrun.network.facts import network_facts
from mnrun.nodes import kit
from mnrun.nodes.survey import findings, node_survey
from mnrun.schedulers.hosts.steps import host_facts
from mnrun.schedulers.slurm import scheduler as slurm
from unit.conftest import Shell
from unit.decoys import Decoys
from unit.samples import RECORDED
from unit.wrappers.node import executable

FACTS = kit.probe("facts.sh", slurm.ON_NODE)
HOST = os.uname().nodename
TOOLS = (
    *("bash", "cat", "cut", "env", "grep", "head", "mktemp", "readlink"),
    *("rm", "sed", "sh", "stat", "timeout", "tr", "uname"),
)
NODE = {"PATH": os.environ["PATH"], "SLURMD_NODENAME": "node07"}
MPIRUN = "#!/bin/sh\necho 'mpirun (Open MPI) 5.0.7'; printf 'Report\\tbugs\\n'\n"


@pytest.mark.parametrize("script", ["survey.sh", "mpi_node.sh", "mpi_image.sh", "host_facts.sh", "network_ask.sh"])
def test_every_name_is_in_the_table(script: str) -> None:
    table = (Path(__file__).parents[3] / "docs/internals/facts.md").read_text(encoding="utf-8")
    names = set(re.findall(r"\bfact ([a-z][a-z_]*(?:-[a-z]+)?)\b", spoken(script)))
    runtimes = {"docker", "podman", "ch"}  # they have one column
    (row,) = re.findall(rf"(?m)^\| `{script}` \|.*", table)
    assert names
    assert {name for name in names if name.partition("-")[0] not in runtimes and f"`{name}`" not in row} == set()


def test_every_subject_of_networks_is_in_the_table() -> None:
    table = (Path(__file__).parents[3] / "docs/internals/facts.md").read_text(encoding="utf-8")
    subjects = set(re.findall(r"""echo ["'](\w+) |="(hca|gid) """, wrapper("network_facts.sh")))
    assert len(subjects) > 8
    assert {one or other for one, other in subjects if f"`{one or other}`" not in table} == set()


def test_a_fact_is_one_line(sh: Shell) -> None:
    said = sh(FACTS + "fact a '' ; fact b 1 2; fact c $'x\\ty\\nz'; fact d '*'", shell="bash", environ=NODE).decode()
    assert said == "fact node07 node b 1 2\nfact node07 node c x y z\nfact node07 node d *\n"


def test_facts_of_one_subject(sh: Shell) -> None:
    lines = b"image a 1\nnode a 2\nimages a 3\nimage a 4\tnode a 5\n"
    assert parse(sh(FACTS + "facts image", shell="bash", environ=NODE, stdin=lines).decode()) == [
        Fact("node07", "image", "a", "1"),
        Fact("node07", "image", "a", "4 node a 5"),
    ]
    assert len(parse(sh(FACTS + "facts", shell="bash", environ=NODE, stdin=lines).decode())) == 4


def test_no_process_is_started_for_a_fact(sh: Shell) -> None:
    script = f"set -m; trap 'echo forked' CHLD\n{FACTS}fact a 1; facts <<<'node b 2'; echo; (:)"
    said = sh(script, shell="bash", environ={"PATH": NODE["PATH"]}).decode()
    assert said == f"fact {HOST} node a 1\nfact {HOST} node b 2\n\nforked\n"


OLDER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue Jul 13 16:14:05 UTC 2021\n"


@pytest.mark.parametrize(
    ("version", "wanted"),
    [((RECORDED / "gpus/h100.version").read_text(), "580.159.04\n"), (OLDER, "470.57.02\n"), ("", "")],
)
def test_the_driver(sh: Shell, tmp_path: Path, version: str, wanted: str) -> None:
    """The open kernel module names the processor, x86_64, after itself."""
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    (tmp_path / "driver/nvidia/version").write_text(version)
    assert sh(FACTS + "driver", shell="bash", environ={**NODE, "mnrun_proc": str(tmp_path)}).decode() == wanted


def test_a_node_without_a_driver(sh: Shell, tmp_path: Path) -> None:
    assert sh(FACTS + "driver", shell="bash", environ={**NODE, "mnrun_proc": str(tmp_path)}) == b""


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    for tool in TOOLS:
        (tmp_path / tool).symlink_to(shutil.which(tool) or "/nonexistent")
    (tmp_path / "mpirun.openmpi").write_text(MPIRUN)
    (tmp_path / "mpirun.openmpi").chmod(0o755)
    return {**NODE, "PATH": str(tmp_path)}


def test_a_setsid_that_is_too_old(sh: Shell, bare: dict[str, str], tmp_path: Path) -> None:
    executable(tmp_path / "setsid", '[ "$1" != --fork ]')
    survey = node_survey(
        parse(sh(kit.probe("survey.sh", slurm.ON_NODE + slurm.PROBE), shell="bash", environ=bare).decode())
    )
    assert "setsid --fork (util-linux 2.32)" in survey.lacks


def test_the_survey(sh: Shell, bare: dict[str, str]) -> None:
    survey = node_survey(
        parse(sh(kit.probe("survey.sh", slurm.ON_NODE + slurm.PROBE), shell="bash", environ=bare).decode())
    )
    assert "bash" in survey.values
    assert {"tar", "od"} <= set(survey.lacks)
    assert not {"grep", "sed"} & set(survey.lacks)
    assert survey.network.kernel == os.uname().release


@pytest.mark.parametrize("runtime", ["apptainer", "docker", "podman", "ch-run"])
def test_a_runtime_that_does_not_start(sh: Shell, bare: dict[str, str], tmp_path: Path, runtime: str) -> None:
    """(W7) What it says then is no version: an account may be unknown on one node."""
    executable(tmp_path / runtime, "printf 'INFO: a\\n\\033[31mFATAL: \\033[0m unknown userid 7\\n' >&2; exit 255")
    said = sh(kit.probe("survey.sh", slurm.ON_NODE + slurm.PROBE), shell="bash", environ=bare).decode()
    survey = node_survey(parse(said))
    assert survey.values[f"{runtime}-refuses"].split() == ["FATAL:", "unknown", "userid", "7"]
    (row,) = [row for row in findings("n1", survey) if row.subject == {"ch-run": "charliecloud"}.get(runtime, runtime)]
    assert row.state == "no"


def test_the_facts_of_a_host(sh: Shell, tmp_path: Path, decoys: Decoys) -> None:
    (tmp_path / "app.sif").write_text("SIF")
    environ = {**NODE, "HOME": "/home/al ice", "PATH": decoys.without}
    said = sh(kit.probe("host_facts.sh"), str(tmp_path / "app.sif"), shell="bash", environ=environ).decode()
    facts = host_facts(parse(said))
    assert (facts.size, facts.home, bool(facts.cpus), bool(facts.image)) == (3, "/home/al ice", True, True)
    assert (
        host_facts(parse(sh(kit.probe("host_facts.sh"), str(tmp_path), shell="bash", environ=environ).decode())).image
        == "directory"
    )


def test_the_networks(sh: Shell) -> None:
    read = parse(
        sh(
            kit.probe("network_ask.sh", slurm.ON_NODE),
            shell="bash",
            environ={**NODE, "SSH_CONNECTION": "a 1 10.9.9.9 2"},
        ).decode()
    )
    assert {fact.node for fact in read} == {"node07"}
    assert network_facts(read).nics["lo"].kind == "loopback"
    assert values(read, "node")["address"].count(".") == 3


def test_the_mpis_of_node_and_image(sh: Shell, bare: dict[str, str]) -> None:
    image = ("env", "CUDA_VERSION=12.4", "sh", "-c", 'echo noise; echo "node mpi x"; exec "$@"', "sh")
    said = sh(
        kit.probe(kit.MPI_NODE, slurm.ON_NODE + slurm.PROBE), "apptainer", "", "", *image, shell="bash", environ=bare
    ).decode()
    facts = mpi_facts(parse(said))
    assert facts is not None
    assert facts.node.values["name"] == "node07"
    assert [str(side.has("openmpi")).partition(" (/")[0] for side in (facts.node, facts.image)] == [
        "Open MPI 5.0.7"
    ] * 2
    assert (facts.node.values.get("cuda"), facts.image.values["cuda"]) == (None, "12.4")
    assert "node mpi x" not in said


def test_the_nodes_cuda_is_not_the_images(sh: Shell, bare: dict[str, str]) -> None:
    """Apptainer passes the node's variables on to an image that does not set them; without a container they count."""
    environ = {**bare, "CUDA_VERSION": "13.0.2", "NVIDIA_REQUIRE_CUDA": "cuda>=13.0"}
    for runtime, wanted in (("apptainer", (None, None)), ("host", ("13.0.2", "cuda>=13.0"))):
        said = sh(
            kit.probe(kit.MPI_NODE, slurm.ON_NODE + slurm.PROBE), runtime, "", "", "env", shell="bash", environ=environ
        ).decode()
        facts = mpi_facts(parse(said))
        assert facts is not None
        assert (facts.image.values.get("cuda"), facts.image.values.get("require")) == wanted


def test_an_image_of_a_cache_of_others_is_not_asked(sh: Shell, tmp_path: Path, bare: dict[str, str]) -> None:
    """(S3) Its program does not run, and the reason is told."""
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    words = ("apptainer", "", str(place), "sh", "-c", f": >{tmp_path}/ran")
    said = sh(kit.probe(kit.MPI_NODE, slurm.ON_NODE + slurm.PROBE), *words, shell="bash", environ=bare).decode()
    assert not (tmp_path / "ran").exists()
    assert f"silent other users may write to {place} (chmod go-w): name another with --image-cache" in said


@pytest.mark.parametrize("version", ["cuda = '12.1'", "cuda: Optional[str] = '12.1'", "cuda = None"])
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_python_of_an_image(sh: Shell, tmp_path: Path, shell: str, version: str) -> None:
    """By its files alone: no program runs."""
    programs, torch = tmp_path / "conda/bin", tmp_path / "conda/lib/python3.12/site-packages/torch"
    torch.mkdir(parents=True)
    programs.mkdir()
    (torch / "version.py").write_text(f"from typing import Optional\n__version__ = '2.4.1+cu121'\n{version}\n")
    (programs / "python3.12").write_text("#!/bin/sh\nexit 9\n")
    (programs / "python3.12").chmod(0o755)
    (programs / "python3").symlink_to("python3.12")
    text = re.search(r"(?s)pythons\(\) \{.*?\n\}\n", wrapper("mpi_image.sh"))
    assert text
    line = f"{text[0]} subject=image; PATH={programs}; pythons; echo end"
    said = sh(line, shell=shell, environ={}).decode().splitlines()
    told = [f"image python 3.12 ({programs}/python3)", "image pytorch 2.4.1+cu121"]
    assert said[:2] == told
    assert ("image pytorch_cuda 12.1" in said) == ("12.1" in version)
    assert (
        sh(f"{text[0]} subject=image; PATH=/none; pythons; echo end", shell=shell, environ={}).decode()[-4:] == "end\n"
    )
