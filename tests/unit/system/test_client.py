"""A scheduler's client in mnrun's place: its output, its exit code and its own lines."""

from __future__ import annotations

import re
import sys

import pytest

from mnrun.errors import SchedulerError
from mnrun.model import Command
from mnrun.system import client
from mnrun.system.client import EXITED
from unit.conftest import Shell

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
    ],
)
def test_the_clients_own_line_is_left_out(chunks: list[bytes], shown: list[bytes]) -> None:
    """All other bytes go on as they come."""
    assert list(filter(None, client.without(iter(chunks), EXITED))) == shown


SCRIPT = """
import os, re, sys
from mnrun.system import client
from mnrun.model import Command
sys.exit(client.run(Command(tuple(sys.argv[2:]), mark=sys.argv[1]), os.environ, re.compile(rb"srun: x")))
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


def test_a_client_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the scheduler's code."""

    def absent(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("subprocess.Popen", absent)
    with pytest.raises(SchedulerError, match="srun is not on PATH"):
        client.run(Command(("srun",)), {}, re.compile(b""))
