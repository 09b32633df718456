"""Carrying out a plan: who is started when, with which words, and what they are sent. The guards are only played."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mnrun.errors import NodeError, SchedulerError
from mnrun.model import Outcome
from mnrun.system.events import Noise
from unit.nodes.test_kit import unpack
from unit.played import BYE, FOUND, RANKS, READY, Launcher, Play, Stage, ended, noise, say
from unit.samples import build, make
from unit.texts import Refused


@pytest.mark.parametrize("name", ["serve", "run"])
def test_no_srun(refused: Refused, launch: Launcher, stage: Stage, name: str) -> None:
    stage.absent = name
    with refused(SchedulerError):
        launch(Play())


@pytest.mark.parametrize("way", [{}, {"mode": "outside-in", "launcher": "srun"}], ids=["mpirun", "srun"])
def test_the_program_starts_together_with_its_nodes(launch: Launcher, stage: Stage, way: dict[str, Any]) -> None:
    with pytest.raises(NodeError):
        launch(Play(kit=say(READY[0], "fail node02 x")), **way)
    assert stage.order == ["serve", "run"]
    stage.order.clear()
    assert launch(Play(), **way) == Outcome(0, FOUND)
    assert stage.order == ["serve", "run"]


def test_a_client_that_starts_no_ranks_is_the_programs_own_end(launch: Launcher, stage: Stage) -> None:
    """As srun with a wrong --mpi. Its nodes may become ready later."""
    play = Play(kit=[*ended("run", 3), *say(*READY)], go=[])
    assert launch(play, mode="outside-in", launcher="srun").code == 3


def test_a_prompt_starts_when_all_is_ready(launch: Launcher, stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    shell = make(build(shell="terminal"), 2, 1)
    with pytest.raises(NodeError):
        stage.play = Play(kit=say(READY[0], "fail node02 x"))
        launch.carry_out(shell)
    assert stage.order == ["serve"]
    stage.order.clear()
    said = ["srun: error: node01: task 0: Exited with exit code 7", "srun: error: other"]
    stage.play = Play(go=[Noise("run", line) for line in said] + ended("run", 7))
    assert launch.carry_out(shell) == Outcome(7, {})
    assert stage.order == ["serve", "run"]
    assert capsys.readouterr().err.splitlines() == said[1:]


def test_what_goes_down_the_lease_inside_out(launch: Launcher, stage: Stage) -> None:
    launch(Play(), connect="ssh")
    names = set(unpack(stage.lease.kit))
    keys = {f"box/{name}" for name in ("key", "authorized_keys", "hostkey", "known_hosts")}
    assert {*keys, "guard.sh", "job.sh", "box/hostfile", "box/launch.env"} <= names
    sent = {}
    rest = b"\n".join(stage.lease.lines)
    while rest != b"go\nthere":
        line, _, rest = rest.partition(b"\n")
        word, name, size = line.decode().split()
        assert word == "file"
        sent[name], rest = rest[: int(size)].decode(), rest[int(size) :]
    assert sorted(sent) == ["box/ssh_config"]
    assert "Host node02 n2\n    HostName 10.0.0.2\n" in sent["box/ssh_config"]


def test_what_goes_down_the_lease_outside_in(launch: Launcher, stage: Stage) -> None:
    launch(Play(), mode="outside-in")
    files = unpack(stage.lease.kit)
    assert "key" not in files
    assert "export SLURM_TASKS_PER_NODE='2,1'\n" in files["launch.env"]
    assert stage.lease.lines == [b"go", b"there"]


@pytest.mark.parametrize("missing", RANKS)
def test_no_program_begins_before_all_ranks_are_there(launch: Launcher, stage: Stage, missing: str) -> None:
    launch(Play(go=say(*(rank for rank in RANKS if rank != missing)) + ended("run", 3)), mode="outside-in")
    assert stage.lease.lines == [b"go"]


@pytest.mark.parametrize("count", [1, 5])
def test_the_ranks_know_how_many_they_are(launch: Launcher, stage: Stage, count: int) -> None:
    ranks = say(*(f"rank node01 {rank} {count}" for rank in range(count)))
    launch(Play(go=ranks + ended("run", 3)), mode="outside-in")
    assert stage.lease.lines == [b"go", b"there"]


def test_ranks_of_srun_do_not_wait_for_each_other(launch: Launcher, stage: Stage) -> None:
    launch(Play(), mode="outside-in", launcher="srun")
    assert stage.lease.lines == [b"go"]


def test_two_launches_have_different_keys(launch: Launcher, stage: Stage) -> None:
    keys = []
    for _ in range(2):
        launch(Play(), connect="ssh")
        keys.append(unpack(stage.lease.kit)["box/key"])
    assert keys[0] != keys[1]


def test_a_script_is_not_counted(launch: Launcher) -> None:
    assert launch(Play(go=ended("run", 0)), script="job.sh") == Outcome(0, {})


def test_the_steps_see_nothing_of_the_surrounding_step(launch: Launcher, stage: Stage) -> None:
    """srun's inputs of the job around us would shape our steps."""
    launch(Play(), {"PATH": "/bin", "SLURM_JOB_ID": "7", "SLURM_NTASKS": "64", "SLURM_CPU_BIND": "cores"})
    assert stage.environ == {"PATH": "/bin", "SLURM_JOB_ID": "7"}


def test_what_is_recorded(launch: Launcher) -> None:
    launch(Play(kit=noise("srun: a warning") + say(*READY)))
    log = (launch.path / "log").read_text().splitlines()
    assert log == ["srun: a warning", *READY, *RANKS, *BYE]
    assert [node["name"] for node in json.loads((launch.path / "nodes.json").read_text())["nodes"]] == [
        "node01",
        "node02",
    ]


def test_samples_have_a_file_of_their_own(launch: Launcher, capsys: pytest.CaptureFixture[str]) -> None:
    heard = ["sample node01 5.00 cpu 10.00 4", "sample node01 15.00 cpu 30.00 4"]
    launch(Play(go=say(*RANKS, *heard) + ended("run", 0)))
    assert (launch.path / "samples").read_text().splitlines() == heard
    assert "sample" not in (launch.path / "log").read_text()
    assert "mnrun: used: CPU 50 % of 4\n" in capsys.readouterr().err


def test_what_is_not_free_is_named(launch: Launcher, capsys: pytest.CaptureFixture[str]) -> None:
    launch(Play(kit=say("busy node01 GPU 0 (python, process 7)", *READY)))
    assert "warning: node01: not free: GPU 0 (python, process 7)\n" in capsys.readouterr().err
