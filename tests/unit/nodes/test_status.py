"""What the guards say, understood."""

from __future__ import annotations

import re

import pytest

from mnrun.errors import NodeError
from mnrun.model import Culprit, Worker
from mnrun.nodes.status import Roster
from unit.samples import build, make

READY = "ready node02 host=n2.site address=10.0.0.2 step=3 port=22345"


@pytest.fixture
def roster() -> Roster:
    return Roster(("node01", "node02"))


def test_ready_is_a_record(roster: Roster) -> None:
    """What the node said of itself."""
    assert roster.hear(READY) == "ready"
    assert roster.workers == {"node02": Worker("node02", "n2.site", "10.0.0.2", 22345, "3")}
    assert (roster.complete, roster.missing) == (False, ("node01",))


def test_ready_with_nothing_known(roster: Roster) -> None:
    """No scheduler, no sshd, no address: the name is all there is."""
    roster.hear("ready node01 host= address= step=")
    assert roster.workers["node01"] == Worker("node01", "node01", "", 0, "")


def test_complete_when_all_are_ready(roster: Roster) -> None:
    """Then, and in the order of the nodes, whoever was first."""
    roster.hear(READY)
    roster.hear("ready node01 host=node01 address=10.0.0.1 step=3 port=22345")
    assert roster.complete
    assert roster.settled
    assert [worker.name for worker in roster.in_order()] == ["node01", "node02"]


def test_ready_said_twice_counts_once(roster: Roster) -> None:
    """A node is not two nodes."""
    roster.hear(READY)
    roster.hear(READY.replace("22345", "22346"))
    assert not roster.complete
    assert roster.workers["node02"].port == 22346


def test_settled_when_everyone_has_spoken(roster: Roster) -> None:
    """Ready, failed or gone: nobody is waited for any longer."""
    roster.hear(READY)
    assert not roster.settled
    roster.hear("lost node01 its guard ended with 1")
    assert not roster.settled  # pdsh tells its end and its words on two streams
    roster.hear("fail node01 the image /app.sif is not there")
    assert roster.settled
    assert not roster.complete


def test_nodes_that_will_send_no_answer(roster: Roster) -> None:
    """A launch that asks what its nodes wait for does not wait for these."""
    roster.hear("ready node01 host=node01 address= step=")
    roster.hear("fail node02 no image")
    assert roster.answered == {"node02"}
    roster.hear("waits node01 sleep 9")
    assert roster.answered == {"node01", "node02"}


def test_the_first_reason_counts(roster: Roster) -> None:
    """What follows a failure is its consequence."""
    roster.hear("fail node01 the image has no sshd: add it")
    roster.hear("fail node01 sshd ended")
    roster.hear("gone node01 1")
    assert roster.why("node01", {}) == "the image has no sshd: add it"


@pytest.mark.parametrize(
    ("lines", "thoughts", "why"),
    [
        ([], {}, "no answer from it"),
        ([], {"node01": "down*"}, "no answer from it (Slurm says down*)"),
        (["here node01"], {}, "not ready yet"),
        (["here node01", "log node01 a"], {"node01": "drained"}, "not ready yet (a) (Slurm says drained)"),
        (["here node01"], {"node01": "mixed*"}, "no answer from it any more (Slurm says mixed*)"),
        (["gone node01 255"], {}, "its container ended with 255"),
        (["log node01 a", "log node01 b", "gone node01 255"], {}, "its container ended with 255 (a; b)"),
        (["log node01 " + c for c in "abcde"] + ["gone node01 1"], {}, "its container ended with 1 (c; d; e)"),
        (["fail node01 why not"], {"node01": "down*"}, "why not"),
        (["fail node01"], {}, "it failed without a reason"),  # found by fuzzing
        (["lost node01"], {}, "it failed without a reason"),
    ],
)
def test_why_a_node_is_not_ready(roster: Roster, lines: list[str], thoughts: dict[str, str], why: str) -> None:
    """Its own reason, its container's log, the scheduler's thoughts: the first that there is."""
    for line in lines:
        roster.hear(line)
    assert roster.why("node01", thoughts) == why


@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        ([], ("node01", "node02")),
        (["here node01"], ("node02",)),
        (["here node01", "here node02"], ("node01", "node02")),
        (["here node01", "here node02", "fail node02 why"], ("node02",)),
        (["here node01", "here node02", "gone node02 1"], ("node02",)),
        (["here node01", "fail node01 why"], ("node01", "node02")),
        (["here node01", READY], ("node01",)),
    ],
)
def test_who_keeps_the_job_from_starting(roster: Roster, lines: list[str], missing: tuple[str, ...]) -> None:
    """Not those that only wait: srun hands on no kit before all nodes have answered."""
    for line in lines:
        roster.hear(line)
    assert roster.missing == missing


def test_ranks_are_counted_by_node(roster: Roster) -> None:
    """Each with how many it thinks there are; one that is started again is no other."""
    for line in ("rank node01 0 3", "rank node01 1 3", "rank node02 2 3", "rank node02 2 3"):
        assert roster.hear(line) == "rank"
    assert roster.ranks == {"node01": {0: "3", 1: "3"}, "node02": {2: "3"}}


def test_ranks_that_took_themselves_for_the_only_one(roster: Roster) -> None:
    """The guards find their traces at the end."""
    roster.hear("alone node01 1")
    roster.hear("alone node02 2")
    assert roster.alone == ["1", "2"]


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        (("0", "9", "143 told"), 9),
        (("143 told", "0", "11"), 11),
        (("5 told", "143"), 143),
        (("143", "14"), 143),  # Open MPI's, which has missed the first
        (("143 told", "137 told"), 143),
        (("137", "143 told"), 137),
        (("0", "0 told"), 0),
        (("3", "4"), 3),
    ],
)
def test_the_code_of_the_first_rank_that_failed(roster: Roster, ends: tuple[str, ...], code: int) -> None:
    """Not that of the ranks that were ended because of it, which may be heard of sooner."""
    for rank, one in enumerate(ends):
        assert roster.hear(f"ended node01 {rank} {one}") == "ended"
    assert roster.first_bad == code


@pytest.mark.parametrize(
    ("ends", "culprit"),
    [
        (("node01 0 0", "node02 2 7", "node01 1 1"), Culprit(2, "node02")),
        (("node01 1 143 told", "node02 2 9"), Culprit(2, "node02")),
        (("node01 0 0",), None),
    ],
)
def test_the_first_rank_that_failed(roster: Roster, ends: tuple[str, ...], culprit: Culprit | None) -> None:
    for end in ends:
        roster.hear(f"ended {end}")
    assert roster.culprit == culprit


def test_farewell(roster: Roster) -> None:
    """With the processes that could not be ended, if there are any."""
    roster.hear("bye node01 ")
    roster.hear("bye node02 17 18 ")
    assert roster.bye == {"node01", "node02"}
    assert roster.survivors == {"node02": "17 18"}


@pytest.mark.parametrize("line", ["", " ", "srun: error: x", "readynode01", "Ready node01", "READY"])
def test_other_peoples_lines_are_none_of_ours(roster: Roster, line: str) -> None:
    """srun speaks on the same stream."""
    assert roster.hear(line) == ""
    assert (roster.workers, roster.failed, roster.ranks) == ({}, {}, {})


@pytest.mark.parametrize(
    "line",
    ["ready node01 port=y", "rank node01", "rank node01  8", "rank node01 one 8", "ended node01 1", "ended node01"],
)
def test_a_broken_line_is_none_of_ours(roster: Roster, line: str) -> None:
    """Every process of the job can write into the pipe: half a line is no reason to break down."""
    assert roster.hear(line) == ""
    assert (roster.workers, roster.ranks) == ({}, {})


def test_a_stranger_never_takes_anothers_place(roster: Roster) -> None:
    """A node that calls itself otherwise than we do is not the one that is missing."""
    roster.hear("ready node01.site port=1")
    roster.hear(READY)
    assert not roster.complete
    assert roster.missing == ("node01",)


PLAN = make(build("./app"), 1, 1)


@pytest.mark.parametrize(("first", "second"), [("1.7", "1.7"), ("", "")])
def test_image_files_that_are_alike(roster: Roster, first: str, second: str) -> None:
    """Or that are not there."""
    roster.hear(f"ready node01 image={first}")
    roster.hear(f"ready node02 image={second}")
    roster.check_images(PLAN)


@pytest.mark.parametrize(
    ("second", "text"),
    [
        ("directory", "node01: 1 bytes, header 7; node02: directory"),
        ("1.8", "node01: 1 bytes, header 7; node02: 1 bytes, header 8"),
    ],
)
def test_image_files_that_differ(roster: Roster, second: str, text: str) -> None:
    """Each node says of its own."""
    roster.hear("ready node01 image=1.7")
    roster.hear(f"ready node02 image={second}")
    with pytest.raises(NodeError, match=rf"app\.sif is not the same on all nodes: {re.escape(text)}; copy one"):
        roster.check_images(PLAN)


def test_ranks_that_do_not_come(roster: Roster) -> None:
    """How many, of which nodes, and what to do."""
    assert str(roster.not_started(make(build("./app"), 1))).startswith("1 of 1 rank, of node01, not started 120 s")
    plan = make(build("./app"), 2, 2)
    for rank in (0, 1):
        roster.hear(f"rank node01 {rank} 4")
    assert not roster.all_there(plan)
    late = roster.not_started(plan)
    assert late.code == 124
    assert str(late).startswith(
        "2 of 4 ranks, of node02, not started 120 s after all nodes were ready; mpirun may hang"
    )
    for rank in (2, 3):
        roster.hear(f"rank node02 {rank} 4")
    assert roster.all_there(plan)
