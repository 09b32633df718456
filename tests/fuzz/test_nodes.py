"""The words of nodes: their guards', their facts, and their messages through the pipe."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import strategies as st

from mnrun import facts
from mnrun.errors import LaunchError
from mnrun.facts import Fact
from mnrun.images import inspection
from mnrun.mpi.facts import mpi_facts
from mnrun.network import choose
from mnrun.network.facts import network_facts, too_small
from mnrun.nodes import relay, survey, transport
from mnrun.nodes.status import Roster
from mnrun.schedulers.hosts.steps import host_facts
from unit.samples import RECORDED, build, make

from .cases import CONTROL, answer, cases
from .texts import TEXT, lines, texts

NODES = ("node01", "node02")
GUARD = (
    *("here node01", "pulling node01 layer 3 of 7", "image node01 sha256:ab /i/a.sif", "unpulled node02 no such tag"),
    "lacks node01 7.3",
    *("ready node01 host=n1 address=10.0.0.1 step=3 port=20001 user=alice image=512.99", "ready node02 host=n2"),
    *("nossh node01 no sshd", "fail node02 no room", "gone node01 1", "log node01 a line", "rank node01 0 2"),
    *("rank node02 1 2", "ended node01 0 137", "ended node02 1 1 told", "warned node01", "lost node01 reset"),
    *("alone node01 1", "memory node01 1073741824 killed 0,1", "memory node02 5 reached 1", "bye node01 12 13"),
    *(
        "used node01 tcp eth0 NCCL",
        "used node02 ib mlx5_0,mlx5_1 UCX",
        "used node01 there mlx5_0 -",
        "topology node01 :x",
    ),
    *("fact node01 nic eth0 kind=physical state=up", "fact node01 address eth0 10.0.0.1/24", "starter node01 env"),
)
REPORTED = tuple(
    line
    for path in sorted((RECORDED / "fabric").glob("*.txt"))
    for line in path.read_text().splitlines()
    if line.startswith("fact ") and len(line) < 200
)[::7] + tuple((RECORDED / "facts.txt").read_text().splitlines()[:12])
WORD = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,255}")


def told(rows: Sequence[str]) -> Roster:
    roster = Roster(NODES)
    for row in rows:
        roster.hear(row)
    return roster


@cases(rows=lines(GUARD))
def test_any_words_of_guards_make_a_roster(rows: list[str]) -> None:
    roster = told(rows)
    plan = make(build("./app", ntasks="2", nodes="2", require="ib"), 1, 1)
    for node in NODES:
        assert roster.why(node, {})
    assert roster.complete == (set(roster.workers) == set(NODES))
    assert set(roster.missing) <= set(NODES)
    answer(lambda: roster.check_images(plan), 121)
    answer(lambda: transport.check(plan, roster), 121, 122, 125)
    for error in (roster.out_of_memory(137), roster.not_started(plan)):
        assert error is None or not CONTROL.search(str(error))
    assert transport.summary(roster.counts, roster.used) is not None
    assert transport.slow(roster.used) is not None


@cases(rows=lines(GUARD))
def test_a_line_that_is_no_word_changes_nothing(rows: list[str]) -> None:
    before, after = told(GUARD[:8:2]), told(GUARD[:8:2])
    for row in rows:
        if not after.hear(row):
            assert vars(after).keys() == vars(before).keys()
        else:
            before.hear(row)
    assert {**vars(after), "_": 0} == {**vars(before), "_": 0}


@cases(rows=lines(REPORTED))
def test_any_facts_of_networks_give_choices(rows: list[str]) -> None:
    reports = facts.by_node(facts.parse("\n".join(rows)))
    networks = {node: network_facts(found) for node, found in reports.items()}
    pair = {**networks, "one": network_facts([]), "two": network_facts(Fact(*row) for row in reports.get("dgx01", ()))}
    for nodes in (networks, pair):
        addresses = dict.fromkeys(nodes, "10.0.0.1")
        for choice in answer(lambda: choose.choose(nodes, addresses), 122) or ():  # noqa: B023  # called at once
            assert choice.name
    for found in networks.values():
        assert all(not CONTROL.search(line) for line in too_small(found, 2))


@cases(address=texts("10.0.0.1", "fe80::1", "node01", ""), rows=lines(REPORTED))
def test_any_address_that_a_node_gives(address: str, rows: list[str]) -> None:
    """The guard's `ready` line has it, as one word."""
    one = network_facts(facts.parse("\n".join(rows)))
    words = address.split()
    choose.choose({"a": one, "b": one}, {"a": words[0] if words else "", "b": "10.0.0.2"})


@cases(rows=lines(REPORTED))
def test_any_facts_of_a_node_give_findings(rows: list[str]) -> None:
    for node, found in facts.by_node(facts.parse("\n".join(rows))).items():
        for finding in survey.findings(node, survey.node_survey(found)):
            assert finding.state in (survey.OK, survey.PART, survey.NO)
        host = host_facts(found)
        assert host.cpus >= 0
        mpis = mpi_facts(found)
        assert mpis is None or inspection.rows(inspection.inspected("a", None, "", mpis, ()), "")
        copies = inspection.copies({node: found}, (node,))
        assert inspection.table(copies)
        answer(lambda: inspection.refuse("a.sif", copies, True), 121, 125)  # noqa: B023  # called at once


@cases(
    node=st.from_regex(WORD, fullmatch=True),
    items=st.lists(
        st.tuples(st.from_regex(WORD, fullmatch=True), st.from_regex(WORD, fullmatch=True), TEXT), min_size=1
    ),
)
def test_a_fact_comes_back_as_its_node_wrote_it(node: str, items: list[tuple[str, str, str]]) -> None:
    values = [" ".join(re.sub(r"[\n\t]", " ", value).split(" ")).strip()[: facts.LONGEST] for *_, value in items]
    row = "\t".join(f"{subject} {name} {value}" for (subject, name, _), value in zip(items, values))
    found = facts.parse(f"a line of a profile\nfact {node} {row}\n")
    printable = [re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", "?", value) for value in values]
    assert found == [Fact(node, *item[:2], value) for item, value in zip(items, printable)]


@cases(text=TEXT)
def test_any_output_has_only_facts_of_its_form(text: str) -> None:
    for fact in facts.parse(f"fact {text}"):
        assert not any(CONTROL.search(part) for part in fact)


SENT = (
    "ask n1 n2 Ab run 1 0 ::date:",
    "answer n2 n1 Ab out+ 0 QUJD",
    "answer n2 n1 Ab code 0 4 0",
    "ask n1 n9 A run 0 0 :",
)


@cases(line=texts(*SENT).map(lambda line: line.replace("\n", " ")))
def test_any_line_of_the_pipe_goes_to_one_node_or_nowhere(line: str) -> None:
    routed = relay.route(line, ("n1", "n2"), {"n2": "no power"})
    assert routed is None or (routed[0] in ("n1", "n2") and "\n" not in routed[1])


@cases(
    parts=st.lists(st.text("ABCabc+/=", min_size=1, max_size=900), max_size=12),
    noise=st.lists(st.sampled_from(SENT[::2])),
)
def test_joined_lines_of_the_pipe_carry_the_same_data(parts: list[str], noise: list[str]) -> None:
    at, rows = 0, list(noise)
    for number, part in enumerate(parts):
        more = "" if number == len(parts) - 1 else "+"
        rows.append(f"answer n2 n1 Zz out{more} {at} {part}")
        at += len(part)
    joined = list(relay.join(rows))
    ours = [row for row in joined if row.startswith("answer n2 n1 Zz out")]
    assert "".join(row.split(" ")[-1] for row in ours) == "".join(parts)
    assert all(len(row) <= relay.LONGEST for row in ours)
    assert [row for row in joined if row not in ours] == noise


def test_a_launch_error_is_what_answer_means() -> None:
    for error in (LaunchError("no"), ValueError("no")):

        def action(error: Exception = error) -> None:
            raise error

        try:
            answer(action, 2)
        except (AssertionError, ValueError):
            continue
        raise AssertionError(f"{error!r} went for an answer")
