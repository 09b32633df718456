"""Hosts that no scheduler gives: how they are named, what they say, and what is said of those out of reach."""

from __future__ import annotations

import hashlib
import os

import pytest

from mnrun.errors import Impossible, UsageError
from mnrun.files import spoken
from mnrun.model import Asked, JobSpec, Where, Words
from mnrun.planning.layout import lay_out
from mnrun.schedulers.hosts import names
from mnrun.schedulers.hosts.names import Facts
from unit.conftest import Shell
from unit.samples import make


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("node[01-03]", "node01,node02,node03"),
        ("b,a", "b,a"),
        ("ws1:2,ws2:1", "ws1:2,ws2:1"),
        ("node[01-02]:4", "node01:4,node02:4"),
        ("node[01,07], ws.example.org ", "node01,node07,ws.example.org"),
        ("ws1:2,ws2", "ws1:2,ws2:1"),  # where some say it, the others take one
        ("ws1,ws1", "ws1:2"),  # as mpirun counts them
        ("10.0.0.1:3", "10.0.0.1:3"),
    ],
)
def test_a_list_of_hosts(text: str, wanted: str) -> None:
    """ClusterShell's node sets, each with the ranks that it takes."""
    assert ",".join(map(str, names.parse(text))) == wanted


@pytest.mark.parametrize(
    "text", ["", ",", "ws1:", "ws1:x", "ws1:0", "node[01-", "bob@ws1", "fe80::1", "-oProxyCommand=x", "a b"]
)
def test_what_is_no_list_of_hosts(text: str) -> None:
    """Refused, and never handed to ssh as an option."""
    with pytest.raises(UsageError):
        names.parse(text)


def test_a_hostfile_in_both_spellings() -> None:
    """Open MPI's and Hydra's, with comments, blank lines and another system's line ends."""
    text = "# mine\nnode01 slots=2\r\nnode02:3\n\nnode[03-04]  # two\nnode05 slots=1 max_slots=4\n"
    assert ",".join(map(str, names.parse_file(text, "f"))) == "node01:2,node02:3,node03:1,node04:1,node05:1"
    assert names.parse_file("a\nb\n", "f") == (Asked("a"), Asked("b"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a\nb slots=x\n", "f, line 2: 'b slots=x'"),
        ("a:2 slots=2\n", "line 1"),
        ("a slots=0\n", "a has no slots"),
        ("bob@a\n", "'bob@a' is not a host name"),
        ("# none\n", "names no host"),
    ],
)
def test_what_is_no_hostfile(text: str, why: str) -> None:
    """The line's number, and what was found there."""
    with pytest.raises(UsageError) as found:
        names.parse_file(text, "f")
    assert why in str(found.value)


def test_what_a_host_says_of_itself() -> None:
    """Whatever its user's profile prints besides."""
    said = (
        "Welcome!\ncpus 8\ngpus 2\nhome /home/al ice\nbusy GPU 0 (python, process 7)\nimage 1.2.3\nsize 5\ncpus? no\n"
    )
    assert names.facts(said) == Facts(8, 2, ("GPU 0 (python, process 7)",), "1.2.3", 5, "/home/al ice")
    assert names.facts("") == Facts()


def test_ranks_as_was_said_of_each_host() -> None:
    """Their slots, whatever CPUs they have; fewer ranks than slots go round in turn; more are refused by layout."""
    asked = names.parse("ws1:3,ws2:1")
    held = names.allocation(asked, {"ws1": Facts(1), "ws2": Facts(64)})
    assert lay_out(JobSpec(hosts=asked), held).ranks == (3, 1)
    assert lay_out(JobSpec(hosts=asked, ntasks=2, origins={"ntasks": "x"}), held).ranks == (1, 1)
    free = names.allocation(names.parse("a,b"), {"a": Facts(4, 2), "b": Facts(4, 2)})
    assert lay_out(JobSpec(), free).ranks == (2, 2)  # one per GPU


def test_a_step_goes_to_its_hosts() -> None:
    """By names that ClusterShell and pdsh read; each command knows its own."""
    plan = make(JobSpec(command=("./app",), hosts=names.parse("node01,node02")), 2, 1)
    site = names.site(plan.spec.hosts)
    assert names.reach(Where.ALL, plan, site) == ("ssh", "node[01-02]", "exec", "env", "MNRUN_NODE={node}")
    assert names.reach(Where.HEAD, plan, site) == ("ssh", "node01", "exec", "env", "MNRUN_NODE=node01")


def test_all_hosts_out_of_reach_are_named_with_the_fix() -> None:
    """One line, alike ones together, and what nobody has seen before as it was said."""
    error = names.unreachable(
        {
            "n1": "[Errno 111] Connection refused",
            "n2": "Server 'n2' not found in known_hosts",
            "n3": "[Errno 111] Connection refused",
            "n4": "Authentication failed.",
            "n5": "green cheese",
        },
        9,
    )
    assert error.code == 121
    assert str(error).startswith("5 of 9 hosts cannot be reached: n[1,3]: no ssh server answers (see --ssh-port); n2: ")
    assert "ssh-keyscan n2" in str(error)
    assert "n4: the login was refused" in str(error)
    assert str(error).endswith("n5: green cheese")


ANY = (
    "a!b",
    "!!",
    "two\nlines",
    "end\n",
    "it's",
    '"',
    "$HOME",
    "back\\slash\\",
    "\\!",
    "`x`",
    "*",
    "",
    "%h",
    "ü\udcff",
)


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "zsh", "csh", "bsd-csh", "tcsh", "fish"])
@pytest.mark.parametrize("front", [("exec",), ()], ids=["exec", "plain"])
def test_words_arrive_whatever_the_login_shell_is(sh: Shell, shell: str, front: Words) -> None:
    """B10: byte for byte, many of them too; and standard input is the command's."""
    words = (*ANY, *(f"/data/run/{number:06}.root" for number in range(25000)))
    line = names.in_one_line((*front, "env", "A=1", "sh", "-c", 'printf "%s\\0" "$A" "$@"; exec cat', "sh", *words))
    assert len(line) < names.LONGEST
    one, *said, rest = sh(line, shell=shell, stdin=b"in\0put").split(b"\0", len(words) + 1)
    assert (one, tuple(map(os.fsdecode, said)), rest) == (b"1", words, b"in\0put")


def test_the_first_words_are_read_alike_by_every_login_shell() -> None:
    """Also where csh and fish are not installed, whose single quotes do not hold these."""
    assert not set(spoken("words.sh")) & set("'!\\\n")


def test_a_command_that_is_too_long_for_ssh() -> None:
    """B10, B11: it says so before anything begins; as a node's srun takes any."""
    words = tuple(hashlib.sha256(b"%d" % number).hexdigest() for number in range(4000))
    with pytest.raises(
        Impossible, match="the command has 256000 characters, more than a login shell reads in one line"
    ):
        make(JobSpec(words, hosts=names.parse("ws1,ws2")), 1, 1)
    assert make(JobSpec(words), 1, 1)
