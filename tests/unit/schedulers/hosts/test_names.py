"""The names of hosts that no scheduler gives, and what these hosts say."""

from __future__ import annotations

import pytest

from mnrun.errors import UsageError
from mnrun.facts import parse
from mnrun.jobspec import HostRequest
from mnrun.schedulers.hosts import names
from mnrun.schedulers.hosts.facts import HostFacts, host_facts


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


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("gate", ("gate", "", None)),
        ("gate:2222", ("gate", "", 2222)),
        ("bob@gate", ("gate", "bob", None)),
        ("bob@ad@gate:22", ("gate", "bob@ad", 22)),
        ("bob@10.0.0.1:2222", ("10.0.0.1", "bob", 2222)),
        ("[10.0.0.1]", ("10.0.0.1", "", None)),
        ("bob@[10.0.0.1]:2222", ("10.0.0.1", "bob", 2222)),
        ("[2001:db8::1]", ("2001:db8::1", "", None)),
        ("[2001:db8::1]:22", ("2001:db8::1", "", 22)),
    ],
)
def test_a_jump_host(text: str, wanted: tuple[str, str, int | None]) -> None:
    """As people write it, and as ssh -G of OpenSSH 9.2 does."""
    assert names.jump(text) == wanted


def test_a_hostfile_in_both_spellings() -> None:
    """Open MPI's and Hydra's, with comments, blank lines and another system's line ends."""
    text = "# mine\nnode01 slots=2\r\nnode02:3\n\nnode[03-04]  # two\nnode05 slots=1 max_slots=4\n"
    assert ",".join(map(str, names.parse_file(text, "f"))) == "node01:2,node02:3,node03:1,node04:1,node05:1"
    assert names.parse_file("a\nb\n", "f") == (HostRequest("a"), HostRequest("b"))


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
    facts = ("cpus 8", "gpus 2", "home /home/al ice", "busy GPU 0 (python, process 7)", "image 1.2.3", "size 5", "x y")
    said = "Welcome!\ncpus 9\n" + "".join(f"fact ws1 node {fact}\n" for fact in facts)
    assert host_facts(parse(said)) == HostFacts(8, 2, ("GPU 0 (python, process 7)",), "1.2.3", 5, "/home/al ice")
    assert host_facts(parse("fact ws1 node cpus many\n")) == host_facts([]) == HostFacts()
