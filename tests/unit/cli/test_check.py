"""`mnrun check`: which machines it asks, the login node, and the verdict on an image. salloc and srun are played."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import SchedulerError
from mnrun.facts import parse
from mnrun.mpi.facts import mpi_facts
from mnrun.running import following, probe
from mnrun.schedulers import BATCH, KNOWN
from mnrun.schedulers.slurm import scheduler as slurm
from mnrun.system import modules, process
from published import checked
from unit.salloc import Salloc
from unit.samples import RECORDED, SITE, held
from unit.texts import Says
from unit.typed import Complaint, Terminal

FACTS = (RECORDED / "facts.txt").read_text()
MPICH = FACTS.replace("openmpi /usr/bin/mpirun mpirun (Open MPI) 4.1.4", "mpich /usr/bin/mpirun HYDRA")
WELL = ("apptainer 1.4.5", "apptainer-suid yes", "system Debian")
ELSEWHERE = "ask the nodes: mnrun check -N 2"


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


def test_a_login_node_is_called_one(login: Terminal, salloc: Salloc, says: Says) -> None:
    answer = login("check")
    assert (answer.code, salloc.argv) == (0, ())
    assert "1.4.5, setuid" in answer.out
    says(answer.err)


def test_a_login_node_without_a_runtime(login: Terminal, salloc: Salloc, mocker: MockerFixture, says: Says) -> None:
    mocker.patch.object(process, "ask", return_value=surveyed("login", "system Debian"))
    answer = login("check")
    assert answer.code == 122
    says(answer.err)


def test_a_machine_without_slurm_is_no_login_node(login: Terminal, mocker: MockerFixture) -> None:
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
    login: Terminal, salloc: Salloc, nodes: Nodes, words: tuple[str, ...], request_words: tuple[str, ...], says: Says
) -> None:
    answer = login("check", *words)
    assert answer.code == 0, answer
    assert salloc.argv[1:-4] == (*request_words, "--wait-all-nodes=1", "--job-name=check")
    assert salloc.done == [b"0\n", "close"]
    assert nodes.names == [("node01", "node02")]
    assert "node[01-02]" in answer.out
    says(answer.err)


def test_nodes_are_not_asked_for_where_that_is_forbidden(
    login: Terminal, salloc: Salloc, monkeypatch: pytest.MonkeyPatch, complaint: Complaint
) -> None:
    monkeypatch.setenv("MNRUN_ALLOC", "false")
    complaint(login("check", "-N", "2"))
    assert salloc.argv == ()
    assert login("check").code == 0


def test_nodes_of_a_scheduler_that_gives_none_to_a_process(login: Terminal, mocker: MockerFixture) -> None:
    for name, known in KNOWN.items():
        for module in (known, BATCH[name]):
            mocker.patch.object(module, "is_here", return_value=name == "sge")
    mocker.patch.object(following, "again", return_value=5)
    assert login("check", "-N", "2").code == 5


def test_in_a_job_the_nodes_are_the_jobs(
    login: Terminal, salloc: Salloc, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    nodes.survey = surveyed("node01", *WELL)
    assert login("check", "-N", "1").code == 0
    assert (nodes.names, salloc.argv) == ([("node01",)], ())


def test_nodes_that_cannot_be_asked(login: Terminal, salloc: Salloc, nodes: Nodes) -> None:
    nodes.refusal = "srun: error: Unable to create step for job 8: Requested nodes are busy"
    answer = login("check", "-N", "2")
    assert answer.code == 123
    assert answer.err.splitlines()[1:] == [f"mnrun: {nodes.refusal}"]
    assert salloc.done == [b"123\n", "close"]


def test_a_module_is_loaded_first(login: Terminal, mocker: MockerFixture) -> None:
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
    place = tmp_path / ".config/mnrun/profiles"
    place.mkdir(parents=True)
    (place / "here.toml").write_text(f'match.hostname = "*"\n{lines}\n')
    answer = in_job("check")
    assert answer.code == 0, answer
    assert nodes.names == [("node01", "node02")]


def test_nodes_that_are_asked_for_are_those_of_the_profile(login: Terminal, salloc: Salloc, nodes: Nodes) -> None:
    place = Path.home() / ".config/mnrun/profiles"
    place.mkdir(parents=True)
    lines = 'ntasks_per_node = 8\nresources.partition = "gpu"\n[partition.gpu]\ngpus_per_node = 4\n'
    (place / "here.toml").write_text(f'match.hostname = "*"\n{lines}')
    login("check", "-N", "2")
    assert set(salloc.argv[1:-4]) > {"-N", "2", "--partition=gpu", "--gpus-per-node"}
    assert not any(word.startswith(("-n", "--ntasks")) for word in salloc.argv)


def test_the_verdict_on_an_image(in_job: Terminal, mocker: MockerFixture, says: Says) -> None:
    mocker.patch.object(probe.Probe, "ask", return_value=mpi_facts(parse(FACTS)))
    mocker.patch.object(probe.Probe, "networks", return_value=[])
    answer = in_job("check", "--image", "/app.sif")
    assert (answer.code, answer.err) == (0, ""), answer
    says(answer.out[answer.out.index("verdict: ") :])
    shown = checked("check", in_job("check", "--image", "/app.sif", "--json").out)
    (row,) = [row for row in shown["findings"] if row["subject"] == "image"]
    assert (row["node"], row["state"]) == ("", "ok")
    assert row["found"].startswith("verdict: ")


def test_an_image_that_does_not_fit(
    in_job: Terminal, mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch, says: Says
) -> None:
    mocker.patch.object(probe.Probe, "ask", return_value=mpi_facts(parse(MPICH)))
    mocker.patch.object(probe.Probe, "networks", return_value=[])
    monkeypatch.setenv("MNRUN_MODE", "outside-in")
    monkeypatch.setenv("MNRUN_MPI", "openmpi")
    answer = in_job("check", "--image", "/app.sif")
    assert answer.code == 122, answer
    says(answer.err)


def test_an_image_without_an_answer(in_job: Terminal, mocker: MockerFixture) -> None:
    mocker.patch.object(probe.Probe, "networks", return_value=[])
    done = in_job("check", "--image", "/app.sif", "--json")
    assert done.code == 0, done
    assert [row["state"] for row in checked("check", done.out)["findings"] if row["subject"] == "image"] == ["partly"]
