"""`mnrun check`: which machines it asks, the login node, and the verdict on an image. salloc and srun are played."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import SchedulerError
from mnrun.facts import parse
from mnrun.mpi.facts import mpi_facts
from mnrun.running import probe
from mnrun.schedulers import slurm
from mnrun.system import modules, process
from published import checked
from unit.salloc import Salloc
from unit.samples import RECORDED, SITE, held
from unit.typed import Terminal

FACTS = (RECORDED / "facts.txt").read_text()
MPICH = FACTS.replace("openmpi /usr/bin/mpirun mpirun (Open MPI) 4.1.4", "mpich /usr/bin/mpirun HYDRA")
WELL = ("apptainer 1.4.5", "apptainer-suid yes", "system Debian")
ELSEWHERE = "ask the nodes: salloc -N 2 mnrun check"


def surveyed(node: str, *lines: str) -> str:
    return "".join(f"fact {node} node {line}\n" for line in lines)


@dataclass
class Nodes:
    """node01 and node02, which report a survey, or refuse with srun's own words."""

    survey: str = surveyed("node01", *WELL) + surveyed("node02", *WELL)
    refusal: str = ""
    names: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, allocation: object, names: tuple[str, ...], words: object, environ: object) -> str:
        self.names.append(tuple(names))
        if self.refusal:
            raise SchedulerError(self.refusal)
        return self.survey


@pytest.fixture
def nodes(mocker: MockerFixture) -> Nodes:
    mocker.patch.object(slurm, "current", return_value=(held("node01", "node02"), SITE))
    nodes = Nodes()
    mocker.patch.object(slurm, "on_each", nodes)
    return nodes


@pytest.fixture
def login(outside: Terminal, mocker: MockerFixture) -> Terminal:
    """A login node with Apptainer."""
    mocker.patch.object(process, "ask", return_value=surveyed("login", *WELL))
    return outside


def test_a_login_node_is_called_one(login: Terminal, salloc: Salloc) -> None:
    """Its own runtimes are shown, since no node was asked for."""
    answer = login("check")
    assert (answer.code, salloc.argv) == (0, ())
    assert "1.4.5, setuid" in answer.out
    assert answer.err == f"mnrun: this is the login node only; {ELSEWHERE}\n"


def test_a_login_node_without_a_runtime(login: Terminal, salloc: Salloc, mocker: MockerFixture) -> None:
    """That tells nothing about the nodes."""
    mocker.patch.object(process, "ask", return_value=surveyed("login", "system Debian"))
    answer = login("check")
    assert answer.code == 122
    said = "mnrun: no container runtime works on this machine, and this is the login node only"
    assert answer.err == f"{said}; {ELSEWHERE}\n"


def test_a_machine_without_slurm_is_no_login_node(login: Terminal, mocker: MockerFixture) -> None:
    """Neither is this machine where --local names it."""
    assert login("check", "--local").err == ""
    mocker.patch.object(slurm, "is_here", return_value=False)
    assert login("check").err == ""


@pytest.mark.parametrize(
    ("words", "request_words"),
    [
        (("-N", "2"), ("-N", "2")),
        (("-p", "gpu", "-A", "abc"), ("--partition=gpu", "--account=abc")),
        (("-w", "node01,node02"), ("-w", "node01,node02")),
        (("--constraint", "a100", "-t", "5"), ("--time=5", "--constraint=a100")),
    ],
)
def test_nodes_that_are_asked_for(
    login: Terminal, salloc: Salloc, nodes: Nodes, words: tuple[str, ...], request_words: tuple[str, ...]
) -> None:
    """They come from salloc, and go back."""
    answer = login("check", *words)
    assert answer.code == 0, answer
    assert salloc.argv[1:-3] == (*request_words, "--wait-all-nodes=1", "--job-name=check")
    assert salloc.done == [b"0\n", "close"]
    assert nodes.names == [("node01", "node02")]
    assert "node[01-02]" in answer.out
    assert answer.err == f"mnrun: no Slurm allocation here; mnrun gets one: salloc {' '.join(request_words)}\n"


def test_nodes_are_not_asked_for_where_that_is_forbidden(
    login: Terminal, salloc: Salloc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal has the line to type, as that of run."""
    monkeypatch.setenv("MNRUN_ALLOC", "false")
    answer = login("check", "-N", "2")
    assert (answer.code, answer.out, salloc.argv) == (2, "", ())
    assert "get one with\n    salloc -N 2 mnrun check -N 2\n" in answer.err
    assert login("check").code == 0


def test_in_a_job_the_nodes_are_the_jobs(
    login: Terminal, salloc: Salloc, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """-N chooses among them."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    nodes.survey = surveyed("node01", *WELL)
    assert login("check", "-N", "1").code == 0
    assert (nodes.names, salloc.argv) == ([("node01",)], ())


def test_nodes_that_cannot_be_asked(login: Terminal, salloc: Salloc, nodes: Nodes) -> None:
    """One line, and the allocation goes back."""
    nodes.refusal = "srun: error: Unable to create step for job 8: Requested nodes are busy"
    answer = login("check", "-N", "2")
    assert answer.code == 123
    assert answer.err.splitlines()[1:] == [f"mnrun: {nodes.refusal}"]
    assert salloc.done == [b"123\n", "close"]


def test_a_module_is_loaded_first(login: Terminal, mocker: MockerFixture) -> None:
    """As the finding about a missing runtime proposes."""
    load = mocker.patch.object(modules, "load", side_effect=lambda names, environ: environ)
    assert login("check", "--module", "apptainer/1.3").code == 0
    assert load.call_args.args[0] == ("apptainer/1.3",)
    assert login("check", "--module", "apptainer/1.3", "--image", "/app.sif").code == 0
    assert load.call_count == 2, "once for each call"


@pytest.fixture
def in_job(login: Terminal, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    return login


@pytest.mark.parametrize(
    "lines",
    [
        '[resources]\npartition = "gpu"\n[partition.gpu]\ngpus_per_node = 8',
        "nodes = 3",
        "ntasks_per_node = 800000",
        '[policy]\nruntime = "Apptainer alone is there"',
    ],
)
def test_settings_of_jobs_have_no_effect_on_what_is_asked(
    in_job: Terminal, nodes: Nodes, tmp_path: Path, lines: str
) -> None:
    """All nodes of the job are asked, without ranks."""
    place = tmp_path / ".config/mnrun/profiles"
    place.mkdir(parents=True)
    (place / "here.toml").write_text(f'match.hostname = "*"\n{lines}\n')
    answer = in_job("check")
    assert answer.code == 0, answer
    assert nodes.names == [("node01", "node02")]


def test_nodes_that_are_asked_for_are_those_of_the_profile(login: Terminal, salloc: Salloc, nodes: Nodes) -> None:
    """Its partition counts, and so do the GPUs of that."""
    place = Path.home() / ".config/mnrun/profiles"
    place.mkdir(parents=True)
    lines = 'ntasks_per_node = 8\nresources.partition = "gpu"\n[partition.gpu]\ngpus_per_node = 4\n'
    (place / "here.toml").write_text(f'match.hostname = "*"\n{lines}')
    login("check", "-N", "2")
    assert set(salloc.argv[1:-3]) > {"-N", "2", "--partition=gpu", "--gpus-per-node"}
    assert not any(word.startswith(("-n", "--ntasks")) for word in salloc.argv)


def test_the_verdict_on_an_image(in_job: Terminal, mocker: MockerFixture) -> None:
    """Below the table, and in JSON as a finding about no single node."""
    mocker.patch.object(probe.Probe, "ask", return_value=mpi_facts(parse(FACTS)))
    mocker.patch.object(probe.Probe, "networks", return_value=[])
    answer = in_job("check", "--image", "/app.sif")
    assert (answer.code, answer.err) == (0, ""), answer
    assert "\nverdict: inside-out: works: the image's Open MPI 4.1.4" in answer.out
    assert "\n  image: Open MPI 4.1.4" in answer.out
    shown = checked("check", in_job("check", "--image", "/app.sif", "--json").out)
    (row,) = [row for row in shown["findings"] if row["subject"] == "image"]
    assert (row["node"], row["state"]) == ("", "ok")
    assert row["found"].startswith("verdict: ")


def test_an_image_that_does_not_fit(in_job: Terminal, mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the way of starting ranks that the site has set."""
    mocker.patch.object(probe.Probe, "ask", return_value=mpi_facts(parse(MPICH)))
    mocker.patch.object(probe.Probe, "networks", return_value=[])
    monkeypatch.setenv("MNRUN_MODE", "outside-in")
    monkeypatch.setenv("MNRUN_MPI", "openmpi")
    answer = in_job("check", "--image", "/app.sif")
    assert answer.code == 122, answer
    assert answer.err == "mnrun: this image does not fit these nodes; the verdict above says why, and what works\n"


def test_an_image_without_an_answer(in_job: Terminal, mocker: MockerFixture) -> None:
    """It is no verdict, and no refusal."""
    mocker.patch.object(probe.Probe, "networks", return_value=[])
    done = in_job("check", "--image", "/app.sif", "--json")
    assert done.code == 0, done
    assert [row["state"] for row in checked("check", done.out)["findings"] if row["subject"] == "image"] == ["partly"]
