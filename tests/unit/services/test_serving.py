"""The record of a service, the lines that show it, and the last lines of the nodes of one that is late."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from mnrun.jobs.job_dir import Records
from mnrun.jobspec import Service
from mnrun.model import Plan, Worker
from mnrun.nodes.status import Roster
from mnrun.schedulers import SCHEDULERS
from mnrun.schedulers.kubernetes import kubectl
from mnrun.services import serving
from unit.samples import build, make

HEAD = Worker("node01", "node01", "10.0.0.1", service=20002)


def plan(**given: Any) -> Plan:
    made = build("./app", **given)
    return make(made._replace(service=Service("/up", 20, "/lab?token={token}", "KEY", idle=60)), 1, 1)


def test_the_token_is_new_unless_the_job_brings_one(tmp_path: Path) -> None:
    first, second = serving.of(plan(), HEAD), serving.of(plan(), HEAD)
    assert first.token != second.token and len(first.token) == 32
    assert first.url == f"http://127.0.0.1:20002/lab?token={first.token}"
    assert serving.of(plan(env=["KEY=mine"]), HEAD).token == "mine"
    text = serving.files(first, plan(), [HEAD])["box/service"]
    assert f"mnrun_token='{first.token}'" in text and "mnrun_nnodes='2'" in text


def test_the_record_is_for_the_user_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert serving.read(tmp_path) is None and serving.words(None) == ""
    found = replace(serving.of(plan(), HEAD), state=serving.READY)
    Records(tmp_path).note(serving.FILE, serving.text(found))
    assert stat.S_IMODE((tmp_path / serving.FILE).stat().st_mode) == 0o600
    assert serving.read(tmp_path) == found
    assert serving.words(found) == "serves node01:20002"


def test_a_token_is_for_a_terminal_alone() -> None:
    found = serving.of(plan(), HEAD)
    assert found.token in " ".join(found.lines(SCHEDULERS["slurm"], "7", str))
    assert found.token not in " ".join(found.told("7"))
    assert "no token" in replace(found, token="").told("7")[-1]


def test_a_tunnel_is_by_ssh_or_into_a_pod(mocker: MockerFixture) -> None:
    mocker.patch.object(kubectl, "place_of", return_value=kubectl.Place("kubectl", "", "lab"))
    found = serving.of(plan(), HEAD)
    lines = found.lines(SCHEDULERS["sge"], "7", lambda: "x@mnrun-7")
    here, tunnel, other = (line.partition(":")[2].split() for line in lines[1:4])
    assert tunnel[:4] == ["ssh", "-N", "-L", "20002:127.0.0.1:20002"] == here[:4] and here[-1] == "node01"
    assert tunnel[-1].partition("@")[2] == "node01" and other[-1] == "x@mnrun-7"
    lines = found.lines(SCHEDULERS["kubernetes"], "a", lambda: "x@mnrun-7")
    _, tunnel, other = (line.partition(":")[2].split() for line in lines)
    assert tunnel[0] == "kubectl" and tunnel[-3:] == ["port-forward", "node01", "20002"]
    assert other[0] == "ssh" and other[-len(tunnel) :] == tunnel


def test_who_can_open_a_service() -> None:
    """A program without a token is open to users of its node, and to the network where it listens there."""
    found = replace(serving.of(plan(), HEAD), token="")
    said = {found.who, replace(found, open=True).who, replace(found, token="x", open=True).who}
    assert len(said) == 3 and () in said


def test_the_lines_of_a_site_that_lets_nobody_in_by_ssh() -> None:
    found = serving.of(plan(), HEAD)
    assert (
        len(found.lines(SCHEDULERS["slurm"], "7", str)) == len(found.lines(SCHEDULERS["slurm"], "7", lambda: "x")) - 1
    )


@pytest.mark.parametrize(
    ("lines", "last"),
    [
        (["0: waits", "1: loads", "0: waits on"], "last of node02: loads; last of node01: waits on"),
        (["0: waits", "a line of nobody"], "last of node02: nothing; last of node01: waits"),
        (["7: a rank of nobody"], "last of node01: nothing; last of node02: nothing"),
    ],
)
def test_the_node_that_was_quiet_for_longest_comes_first(lines: list[str], last: str) -> None:
    assert serving.last_lines({0: "node01", 1: "node02"}, True, lines) == last


def test_an_error_names_the_last_answer() -> None:
    roster = Roster(("node01", "node02"))
    assert roster.hear("service node01 waits it answers 503") == "service"
    assert "/up of node01 is not ready 20 s after the start: it answers 503" in str(serving.late(plan(), roster))
    roster.hear("service node01 ready")
    assert roster.service == serving.READY
