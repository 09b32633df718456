"""Hosts that no scheduler gives: how they are reached, and that they have one image. The ways to them are played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pytest_mock import MockerFixture

from launcher import machines, pdsh, remote, transports
from launcher.errors import Impossible, NodeError
from launcher.model import JobSpec, Words
from launcher.progress import Screen
from launcher.schedulers import hosts
from launcher.schedulers.hosts import Facts
from launcher.wires import Answer

JOB = JobSpec(command=("./app",), image="/app.sif", hosts=hosts.parse("a,b"))


@dataclass
class Here:
    """What this machine has."""

    pdsh: bool = True
    sshd: bool = True  # in the image
    local: bool = False  # one of the hosts is this machine
    jump: str = ""  # the jump host before them


@pytest.fixture
def here(mocker: MockerFixture) -> Here:
    found = Here()
    mocker.patch.object(transports, "has", side_effect=lambda name: found.pdsh)
    mocker.patch.object(remote, "places", side_effect=lambda job: [remote.Place("a", "a", jump=found.jump)])
    mocker.patch.object(remote, "is_here", side_effect=lambda place: found.local)
    mocker.patch.object(machines, "_has_sshd", side_effect=lambda job, environ: found.sshd)
    assert pdsh.installed()
    return found


@pytest.mark.parametrize(
    ("known", "asked", "rsh", "connect"),
    [
        (Here(), {}, "pdsh", "ssh"),
        (Here(), {"connect": "ssh"}, "pdsh", "ssh"),
        (Here(sshd=False), {}, "paramiko", "auto"),
        (Here(sshd=False), {"connect": "ssh"}, "pdsh", "ssh"),  # who asks for it is told where it is not
        (Here(sshd=False), {"mode": "outside-in"}, "pdsh", "ssh"),  # it needs none
        (Here(), {"connect": "pipe"}, "paramiko", "pipe"),
        (Here(pdsh=False), {}, "paramiko", "auto"),
        (Here(local=True), {}, "paramiko", "auto"),
        (Here(jump="gate"), {}, "paramiko", "auto"),
        (Here(jump="gate"), {"rsh": "pdsh"}, "pdsh", "ssh"),
        (Here(), {"rsh": "paramiko"}, "paramiko", "auto"),
        (Here(sshd=False), {"rsh": "pdsh"}, "pdsh", "ssh"),
    ],
)
def test_by_pdsh_or_by_paramiko(here: Here, known: Here, asked: Mapping[str, Any], rsh: str, connect: str) -> None:
    """pdsh where it is there and its want of standard input does no harm."""
    here.__dict__.update(known.__dict__)
    job = machines._by_pdsh(replace(JOB, **asked), {})
    assert (job.rsh, job.connect) == (rsh, connect)


def test_pdsh_that_cannot_be(here: Here) -> None:
    """Refused, with what works instead."""
    with pytest.raises(Impossible, match="pdsh closes standard input, which --connect pipe needs"):
        machines._by_pdsh(replace(JOB, rsh="pdsh", connect="pipe"), {})
    here.pdsh = False
    with pytest.raises(Impossible, match="pdsh is not installed here; install it, or use --rsh paramiko"):
        machines._by_pdsh(replace(JOB, rsh="pdsh"), {})


class Way:
    """Answers questions after the sum of an image."""

    def __init__(self, **sums: str) -> None:
        self.sums = sums
        self.asked: list[tuple[str, ...]] = []

    def ask(self, words: Words, given: bytes = b"", only: Sequence[str] = ()) -> dict[str, Answer]:
        self.asked.append(tuple(only))
        return {node: Answer(0, f"{self.sums[node]}  /app.sif\n", "") for node in only}


def file(size: int, changed: str) -> Facts:
    return Facts(image=changed, size=size)


def test_one_image_on_all_hosts() -> None:
    """Nobody reads it whole where a look at it tells, or where all are directories."""
    way: Any = Way(a="1" * 64, b="1" * 64)
    machines._one_image(way, {"a": file(5, "7.1"), "b": file(5, "7.1")}, JOB)
    machines._one_image(way, {"a": Facts(image="directory"), "b": Facts(image="directory")}, JOB)
    assert way.asked == []
    machines._one_image(way, {"a": file(5, "7.1"), "b": file(5, "8.2")}, JOB)
    assert way.asked == [("a", "b")]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"a": file(5, "7.1"), "b": Facts()}, "/app.sif is not there, or cannot be read, on b"),
        (
            {"a": file(5, "7.1"), "b": file(6, "8.2")},
            "/app.sif is not the same on all hosts: a: 5 bytes; b: 6 bytes",
        ),
        (
            {"a": file(5, "7.1"), "b": file(5, "8.2")},
            "/app.sif is not the same on all hosts: a: sha256 111111111111…; b: sha256 222222222222…",
        ),
        (
            {"a": file(5, "7.1"), "b": Facts(image="directory")},
            "/app.sif is not the same on all hosts: a: a file; b: a directory",
        ),
    ],
)
def test_images_that_differ(found: Mapping[str, Facts], said: str) -> None:
    """The hosts by name, and the option that copies one to all."""
    way: Any = Way(a="1" * 64, b="2" * 64)
    with pytest.raises(NodeError) as wrong:
        machines._one_image(way, found, JOB)
    assert str(wrong.value) == f"{said}; copy one to all hosts: --stage"


def test_hosts_that_did_not_answer() -> None:
    """All at once, with what they said."""
    machines.refuse_silent({"a": Answer(0, "", "noise")})
    with pytest.raises(NodeError) as wrong:
        machines.refuse_silent({"a": Answer(0, "", ""), "b": Answer(None, "", ""), "c": Answer(1, "", "no\nspace\n")})
    assert str(wrong.value) == "2 of 3 hosts cannot be reached: b: it ended without a word; c: no space"


def test_gpus_that_others_use(capsys: pytest.CaptureFixture[str]) -> None:
    """A warning for each host that has such."""
    busy = ("GPU 0 (python, process 7)", "GPU 1 (X, process 8)")
    machines._warn_of_busy({"a": Facts(gpus=2, busy=busy), "b": Facts(gpus=2)}, Screen())
    assert capsys.readouterr().err == ("mnrun: warning: a: not free: GPU 0 (python, process 7), GPU 1 (X, process 8)\n")
