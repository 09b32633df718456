"""One line for any login shell."""

from __future__ import annotations

import hashlib
import os

import pytest

from mnrun.errors import Impossible
from mnrun.files import spoken
from mnrun.reach import login_shell
from mnrun.schedulers.hosts import names
from unit.conftest import Shell
from unit.samples import job_spec, make
from unit.texts import Refused

ANY = (
    *("a!b", "!!", "two\nlines", "end\n", "it's", '"', "$HOME", "back\\slash\\", "\\!", "`x`", "*", "", "%h"),
    "ü\udcff",
)


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "zsh", "csh", "bsd-csh", "tcsh", "fish"])
def test_words_arrive_whatever_the_login_shell_is(sh: Shell, shell: str) -> None:
    """B10: byte for byte, many of them too; and standard input is the command's."""
    words = (*ANY, *(f"/data/run/{number:06}.root" for number in range(25000)))
    line = login_shell.line(("env", "A=1", "sh", "-c", 'printf "%s\\0" "$A" "$@"; exec cat', "sh", *words))
    assert len(line) < login_shell.LONGEST
    one, *said, rest = sh(line, shell=shell, stdin=b"in\0put").split(b"\0", len(words) + 1)
    assert (one, tuple(map(os.fsdecode, said)), rest) == (b"1", words, b"in\0put")


def test_the_first_words_are_read_alike_by_every_login_shell() -> None:
    assert not set(spoken("words.sh")) & set("'!\\\n")


def test_a_command_that_is_too_long_for_ssh(refused: Refused) -> None:
    """B10, B11: it says so before anything begins; as a node's srun takes any."""
    words = tuple(hashlib.sha256(b"%d" % number).hexdigest() for number in range(4000))
    hosts = names.parse("ws1,ws2")
    with refused(Impossible):
        make(job_spec(command=words, hosts=hosts, script="/job.sh"), 1, 1)
    assert make(job_spec(command=words, script="/job.sh"), 1, 1)
    assert make(job_spec(command=words, hosts=hosts), 1, 1).words == words
