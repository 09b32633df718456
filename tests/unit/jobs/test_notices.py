"""Telling people of a job: to a server and a command of this machine, and by a program that plays a mail program."""

from __future__ import annotations

import email
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from mnrun.errors import NodeError, Requeued, UsageError
from mnrun.jobs import notices
from mnrun.model import Outcome
from unit.texts import Refused
from unit.world import World

NOTICE = notices.ended("7_4", "hello", 3, "rank 0 on n1 exited with 3", 65.4)


@pytest.fixture(autouse=True)
def allowed(world: World) -> Iterator[None]:
    """Let a server listen, and a shell run."""
    with world.allowed():
        yield


class Server(HTTPServer):
    """A server that keeps what it gets, and answers with `code`."""

    code = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.got: list[dict[str, object]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/hook"


class Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Server)
        self.server.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.code)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.05,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_a_url_gets_json(server: Server) -> None:
    assert notices.send(server.url, NOTICE) == ""
    (got,) = server.got
    assert {name: got[name] for name in ("job", "name", "state", "code", "seconds")} == {
        **{"job": "7_4", "name": "hello"},
        **{"state": "failed", "code": 3, "seconds": 65},
    }
    server.code = 500
    assert "500" in notices.send(server.url, NOTICE)


def test_a_server_that_is_not_there_or_silent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "SECONDS", 0.2)
    server.shutdown()
    assert notices.send(server.url, NOTICE), "it takes the connection, and says nothing"
    server.server_close()
    assert notices.send(server.url, NOTICE)


def test_a_command_gets_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    assert notices.send(f'echo "$MNRUN_JOB $MNRUN_STATE $MNRUN_CODE" >{out}', NOTICE) == ""
    assert out.read_text() == "7_4 failed 3\n"
    assert "3" in notices.send("exit 3", NOTICE)
    monkeypatch.setattr(notices, "COMMAND", 0.2)
    assert notices.send("sleep 60", NOTICE)


def test_a_mail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "sendmail"
    program.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/words\ncat >{tmp_path}/letter\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert notices.send("mail:alice@example.org", NOTICE) == ""
    letter = email.message_from_string((tmp_path / "letter").read_text())
    assert (letter["To"], "7_4" in letter["Subject"]) == ("alice@example.org", True)
    assert "code: 3\n" in str(letter.get_payload())
    program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(notices, "SBIN", str(tmp_path))
    assert notices.send("mail", NOTICE)


@pytest.mark.parametrize(
    "way",
    [
        *("ftp://h/x", "https://", "http://h:x/", "http://h/ a", "mail:", "mail:-f x", "mail:a@b@c", "'half", " "),
        *("mial", "/nowhere/program"),
    ],
)
def test_a_way_that_cannot_be(refused: Refused, way: str) -> None:
    with refused(UsageError):
        notices.check(way, "end")
        notices.refuse_missing(way)


def test_what_can_be(refused: Refused) -> None:
    for way in ("https://h/x?a=1", "mail", "mail:a.b@c", "mail:alice", "sh -c 'exit 3'", "A=1 sh", "true"):
        notices.check(way, "start,fail")
        notices.refuse_missing(way, mail=False)
    with refused(UsageError):
        notices.check("mail", "begin")


@pytest.mark.parametrize(
    ("events", "code", "told"),
    [("end", 0, 1), ("end", 3, 1), ("fail", 0, 0), ("fail", 3, 1), ("start,end", 0, 2), ("start", 3, 1)],
)
def test_events(server: Server, events: str, code: int, told: int) -> None:
    teller = notices.Teller(server.url, events, pytest.fail)
    with teller.telling():
        teller.started("7", "hello", "n1")
        for thread in threading.enumerate():
            if thread.daemon and thread.name.startswith("Thread") and thread is not threading.current_thread():
                thread.join(5)
        teller.outcome = Outcome(code)
    assert len(server.got) == told


def test_ends_by_an_error(server: Server) -> None:
    def ends(error: BaseException, started: bool = True) -> None:
        teller = notices.Teller(server.url, "end", pytest.fail)
        with pytest.raises(type(error)), teller.telling():
            if started:
                teller.started("7", "hello", "n1")
            raise error

    ends(UsageError("a typo"), started=False)
    ends(Requeued("it begins anew"))
    assert server.got == []
    ends(NodeError("n2 was lost"))
    ends(SystemExit(143))
    ends(KeyboardInterrupt())
    assert [got["code"] for got in server.got] == [121, 143, 130]
    assert [got["state"] for got in server.got] == ["failed", "cancelled", "failed"]


def test_a_submitted_job_has_its_own_name(server: Server) -> None:
    teller = notices.Teller(server.url, "end", pytest.fail)
    teller.job, teller.name = "7", "train"
    with teller.telling():
        teller.started("7-abcdef", "sh", "n1")
    assert [(got["job"], got["name"]) for got in server.got] == [("7", "train")]


def test_a_failure_is_one_line_and_no_more(tmp_path: Path) -> None:
    lines: list[str] = []
    teller = notices.Teller("exit 3", "end", lines.append)
    with teller.telling():
        teller.started("7", "hello", "n1")
        teller.outcome = Outcome(0)
    assert len(lines) == 1
