"""The names of hosts that no scheduler gives, and what these hosts say."""

from __future__ import annotations

import pytest

from mnrun.errors import UsageError
from mnrun.facts import parse
from mnrun.jobspec import HostRequest
from mnrun.schedulers.hosts import names
from mnrun.schedulers.hosts.steps import HostFacts, host_facts
from unit.cases import Cases
from unit.texts import Refused


def test_a_list_of_hosts(cases: Cases) -> None:
    """ClusterShell's node sets, each with the ranks that it takes. mpirun counts a name that comes twice so, too."""
    cases(lambda text: ",".join(map(str, names.parse(text))))


def test_a_jump_host(cases: Cases) -> None:
    cases(names.jump)


def test_a_hostfile_in_both_spellings() -> None:
    """Open MPI's and Hydra's, with comments, blank lines and another system's line ends."""
    text = "# mine\nnode01 slots=2\r\nnode02:3\n\nnode[03-04]  # two\nnode05 slots=1 max_slots=4\n"
    assert ",".join(map(str, names.parse_file(text, "f"))) == "node01:2,node02:3,node03:1,node04:1,node05:1"
    assert names.parse_file("a\nb\n", "f") == (HostRequest("a"), HostRequest("b"))


@pytest.mark.parametrize("text", ["a\nb slots=x\n", "a:2 slots=2\n", "a slots=0\n", "bob@a\n", "# none\n"])
def test_what_is_no_hostfile(refused: Refused, text: str) -> None:
    with refused(UsageError):
        names.parse_file(text, "f")


def test_what_a_host_says_of_itself() -> None:
    facts = ("cpus 8", "gpus 2", "home /home/al ice", "image 1.2.3", "size 5", "x y")
    said = "Welcome!\ncpus 9\n" + "".join(f"fact ws1 node {fact}\n" for fact in facts)
    assert host_facts(parse(said)) == HostFacts(8, 2, "1.2.3", 5, "/home/al ice")
    assert host_facts(parse("fact ws1 node cpus many\n")) == host_facts([]) == HostFacts()
