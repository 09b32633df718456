"""`mnrun top` as it is typed, with clients that say what nodes have said."""

from __future__ import annotations

import json
import queue
import re
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from mnrun.attach import sampling
from mnrun.model import Command
from mnrun.schedulers.slurm import scheduler as slurm
from mnrun.system import process
from mnrun.system.events import Ended, Event, Line, Noise
from published import checked
from unit.cli.test_exec import running
from unit.typed import Complaint, Terminal
from unit.watching.test_series import lines

CPU = ("cpu {t}0.00 4", "memory 1 9")


class Client:
    """A client that was started, and whether its input was closed."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        self.argv, self.closed = argv, False

    def close(self) -> None:
        self.closed = True

    def wait(self, seconds: float) -> bool:
        return True


class Clients:
    """In the place of process.start: the words of each client, and what it says of its nodes."""

    def __init__(self) -> None:
        self.started: list[Client] = []
        self.says: list[type | str] = []

    def start(
        self, name: str, command: Command, environ: dict[str, str], events: queue.SimpleQueue[Event], piped: bool
    ) -> Client:
        assert piped
        for what in self.says:
            if what is Ended:
                events.put(Ended(name, 137))
            elif str(what).startswith("sample"):
                events.put(Line(name, str(what).replace("NODE", name)))
            else:
                events.put(Noise(name, str(what)))
        self.started.append(Client(command.argv))
        return self.started[-1]


@pytest.fixture
def clients(mocker: MockerFixture) -> Clients:
    clients = Clients()
    mocker.patch.object(process, "start", clients.start)
    mocker.patch.object(sampling, "FIRST", 0.2)
    return clients


@pytest.fixture
def mnrun(
    mocker: MockerFixture, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Terminal:
    monkeypatch.setenv("HOME", str(tmp_path))
    mocker.patch.object(slurm, "runs", return_value=True)
    mocker.patch.object(slurm, "trace", return_value=None)
    running(tmp_path / ".mnrun" / "jobs")
    return Terminal(mocker, capsys)


def said(*things: str) -> list[Any]:
    return lines(2, *things, node="NODE").splitlines()


def test_once_it_asks_until_each_node_has_two_samples(mnrun: Terminal, clients: Clients) -> None:
    """A node with GPUs gets a client of its own, which asks for them."""
    clients.says = said(*CPU)
    done = mnrun("top", "--once", "--json")
    found = checked("top", done.out)
    assert {(node["node"], node["cpu"], bool(node["odd"])) for node in found["nodes"]} == {
        *(("n1", 0.25, False), ("n2", 0.25, True))
    }, "only n2 has GPUs, of which nothing is told"
    assert [("--gres=gpu:4" in client.argv, client.closed) for client in clients.started] == [
        (False, True),
        (True, True),
    ]
    assert all(client.argv[-3:] == ("/tmp/mnrun.12-abcdef", "job.sh", "2") for client in clients.started)


def test_a_table(mnrun: Terminal, clients: Clients) -> None:
    clients.says = said(*CPU, "gpu 0 97 1 1 60 300 0")
    assert mnrun("top", "12", "--once").out.splitlines() == [
        "NODE  CPU        MEMORY      GPU  USE   MEM  TEMP  POWER  ODD",
        "n1    25 % of 4  1 B of 9 B  0    97 %  1 B  60 C  300 W",
        "n2    25 % of 4  1 B of 9 B  0    97 %  1 B  60 C  300 W",
    ]


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_it_ends_with_the_job(mnrun: Terminal, clients: Clients, form: list[str]) -> None:
    clients.says = [*said(*CPU), Ended]
    done = mnrun("top", *form)
    assert done.code == 0
    assert done.err.endswith("mnrun: job 12-abcdef has ended\n")
    for line in done.out.splitlines():
        assert len(json.loads(line)["nodes"]) == 2 if form else ": cpu " in line
    assert not any(client.closed for client in clients.started), "they have ended by themselves"


def test_where_no_node_answers(mnrun: Terminal, clients: Clients, complaint: Complaint) -> None:
    clients.says = ["srun: error: Unable to create step", Ended]
    complaint(mnrun("top"), 121)
    clients.says = []
    complaint(mnrun("top", "--once"), 121)
    assert all(client.closed for client in clients.started[2:])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--every", "0"], 2),
        (["--every", "soon"], 2),
        (["--once", "12", "13"], 2),
        (["13"], 123),
        (["--json", "--metrics", ":1"], 2),
    ],
)
def test_what_cannot_be(mnrun: Terminal, clients: Clients, words: list[str], code: int, complaint: Complaint) -> None:
    complaint(mnrun("top", *words), code)
    assert not clients.started


def test_metrics_in_a_file(mnrun: Terminal, clients: Clients, tmp_path: Path) -> None:
    clients.says = said(*CPU, "gpu 0 97 1 1 60 300 0")
    assert mnrun("top", "--once", "--metrics", f"{tmp_path}/m.prom").out == ""
    rows = re.findall(r'^mnrun_gpu_power_watts\{gpu="0",hpc_job="12",node="(n.)",user=".*"\} 300\.0$', *read(tmp_path))
    assert rows == ["n1", "n2"]
    clients.says.append(Ended)
    done = mnrun("top", "--metrics", f"{tmp_path}/m.prom")
    assert (done.code, done.out, (tmp_path / "m.prom").exists()) == (0, "", False)


def read(folder: Path) -> tuple[str, re.RegexFlag]:
    return (folder / "m.prom").read_text(), re.MULTILINE
