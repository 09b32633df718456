"""A scheduler's client in mnrun's place: its output, its exit code and its own lines."""

from __future__ import annotations

import sys

import pytest

from mnrun.errors import SchedulerError
from mnrun.model import Command
from mnrun.schedulers.sge.cluster import CLIENT_LINES as GRID_ENGINE
from mnrun.schedulers.slurm.client import CLIENT_LINES
from mnrun.system import client
from mnrun.system.client import NOTHING
from unit.conftest import Shell
from unit.texts import Refused

LINE = b"srun: error: node01: task 0: Exited with exit code 3\n"


@pytest.mark.parametrize(
    ("chunks", "shown"),
    [
        ([b"a\nb", b"c\n"], [b"a\n", b"b", b"c\n"]),
        ([b"a prompt: "], [b"a prompt: "]),
        ([LINE[:9], LINE[9:]], []),
        ([b"\xff\n" + LINE + b"b\n"], [b"\xff\nb\n"]),
        ([b"srun: error: no such job\n"], [b"srun: error: no such job\n"]),
        ([b"sru", b"nning\n"], [b"srunning\n"]),
        ([b"srun: half"], [b"srun: half"]),
        ([b"s", b"lurmstep"], [b"slurmstep"]),
        ([b"slurmstepd-n1: error: *** STEP 7.1 ON n1 CANC", b"ELLED AT 2026-11-28T04:49:11 ***\n"], []),
    ],
)
def test_the_clients_own_line_is_left_out(chunks: list[bytes], shown: list[bytes]) -> None:
    assert list(filter(None, client.without(iter(chunks), CLIENT_LINES.own))) == shown


def test_a_line_of_the_clients_gets_better_words() -> None:
    own = client.Own((b"error: ",), rb"error: (\S+) didn't", rb"mnrun: \1 takes no more")
    assert b"".join(client.without(iter([b"a\nerror: n1 did", b"n't\nerror: x\n"]), own)) == (
        b"a\nmnrun: n1 takes no more\nerror: x\n"
    )
    assert own.words("error: n1 didn't") == "mnrun: n1 takes no more"
    assert not own.has("error: n1 didn't")


def test_a_line_that_qrsh_may_write_at_its_end() -> None:
    own, line = GRID_ENGINE.own, b'error: commlib error: got pipe error (closing "node03/shepherd_ijs/1")\n'
    assert b"".join(client.without(iter([b"a\n" + line[:20], line[20:] + b"error: b\n"]), own)) == b"a\nerror: b\n"
    assert own.has(line.decode().rstrip())


SCRIPT = """
import os, sys
from mnrun.system import client
from mnrun.model import Command
sys.exit(client.run(Command(tuple(sys.argv[2:]), mark=sys.argv[1]), os.environ, client.Own((b"srun: ",), b"srun: x")))
"""


@pytest.mark.parametrize(("last", "code"), [("exit 7", 7), ("kill -TERM $$", 143)])
def test_its_streams_and_its_code_are_the_commands(sh: Shell, last: str, code: int) -> None:
    inner = f"cat; echo 'srun: x' >&2; echo err >&2; {last}"
    assert _run(sh, "", inner, code) == [b"err", b"in"]


def test_what_a_login_shell_prints_before_the_mark_is_left_out(sh: Shell) -> None:
    """(F1)"""
    inner = "echo welcome; echo noise >&2; printf half; echo MARK; echo MARK >&2; cat; exec 1>&-; echo err >&2; exit 7"
    assert _run(sh, "MARK", inner, 7) == [b"err", b"in"]


def _run(sh: Shell, mark: str, inner: str, code: int) -> list[bytes]:
    """Return the lines of both streams, sorted: each stream is passed on by a thread of its own."""
    script = 'python=$1 text=$2; shift 2; PYTHONPATH=$1 "$python" -c "$text" "$2" sh -c "$3" 2>&1'
    path = next(entry for entry in sys.path if entry.endswith("/launcher"))
    said = sh(script, sys.executable, SCRIPT, path, mark, inner, stdin=b"in\n", code=code)
    return sorted(said.splitlines())


def test_a_client_that_is_not_there(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("subprocess.Popen", absent)
    with refused(SchedulerError):
        client.run(Command(("srun",)), {}, NOTHING)
