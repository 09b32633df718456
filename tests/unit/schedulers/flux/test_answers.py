"""What flux-core 0.88 said, as mnrun reads it."""

from __future__ import annotations

import json

import pytest

from mnrun.errors import Impossible
from mnrun.schedulers.flux import answers, job, typed
from mnrun.schedulers.vocabulary import JobState, NodeState
from unit.samples import RECORDED

SAID = RECORDED / "flux"


def said(name: str) -> str:
    return (SAID / name).read_text(encoding="utf-8")


def test_ids_are_numbers_inside() -> None:
    """`flux job id --to=dec` said both numbers."""
    assert typed("ƒKiDwHR") == "12280922112"
    assert [typed(word) for word in ("12280922112", "fKiDwHR", "ƒ0", "hello")] == [
        "12280922112",
        "fKiDwHR",
        "ƒ0",
        "hello",
    ]


def test_the_job_is_that_of_the_instance_around() -> None:
    around = {"FLUX_URI": "local:///tmp/flux-x/local-0", "FLUX_ENCLOSING_ID": "ƒKiDwHR"}
    assert job(around) == job({**around, "FLUX_ENCLOSING_ID": "fKiDwHR"}) == "12280922112"
    assert job({**around, "FLUX_ENCLOSING_ID": "ƒN82h5Gkf"}) == "46635258216448"
    assert job({"FLUX_URI": around["FLUX_URI"]}) == job({"FLUX_ENCLOSING_ID": "ƒKiDwHR"}) == ""


def test_jobs_of_the_queue() -> None:
    jobs = {one.name: one for one in map(answers.job, answers.entries(said("jobs.json")))}
    assert {name: (one.state.value, one.code, one.signal, one.reason) for name, one in jobs.items()} == {
        "runs": ("RUNNING", 0, 0, ""),
        "waits": ("PENDING", 0, 0, "waits for another job"),
        "held": ("PENDING", 0, 0, "held"),
        "bad": ("FAILED", 0, 0, "unsatisfiable request: need 9 exclusive node(s), only 3 eligible"),
        "three": ("FAILED", 3, 0, ""),
        "killed": ("FAILED", 0, 9, ""),
        "cancelled": ("CANCELLED", 0, 15, ""),
        "limit": ("TIMEOUT", 0, 14, "resource allocation expired"),
        "ok": ("COMPLETED", 0, 0, ""),
    }
    assert (jobs["runs"].id, jobs["runs"].nodelist, jobs["bad"].nodelist) == ("39578559840256", "node01", "")
    assert jobs["runs"].end == pytest.approx(jobs["runs"].start + 600, abs=1)


def test_one_job_stands_without_a_list() -> None:
    (entry,) = answers.entries(said("cleanup.json"))
    assert answers.job(entry).state == JobState.COMPLETING
    assert answers.entries("") == []


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("run", JobState.RUNNING),
        ("can", JobState.CANCELLED),
        ("lim", JobState.TIMEOUT),
        ("bad", JobState.FAILED),
    ],
)
def test_the_events_of_a_job_tell_how_it_ends(name: str, state: JobState) -> None:
    """The list of jobs has no exception before the job is inactive (seen with 0.88: cleanup.json)."""
    assert answers.ending(said(f"eventlog_{name}.txt")) == state
    assert not json.loads(said("cleanup.json"))["exception"]["occurred"]


def test_a_request_has_slots_on_each_node() -> None:
    assert answers.request(said("jobspec.json")) == ("slots", 4, 90)
    assert [answers.request(said(f"jobspec_{name}.json"))[1] for name in ("uneven", "slots")] == [3, 4]


def test_hosts_are_in_the_order_of_their_brokers() -> None:
    names = ["login", "node01", "node02", "node03"]
    assert answers.hosts(said("R_instance.json")) == [answers.Host(name, 8, (0, 1, 2, 3)) for name in names]
    assert answers.hosts(said("R_down.json")) == []


def test_several_brokers_on_a_host_are_refused() -> None:
    with pytest.raises(Impossible, match="2 brokers on login"):
        answers.hosts(said("R_brokers.json"))


def test_nodes_of_the_queue() -> None:
    free = said("R_free.json")
    part = free.replace('"core": "0-7", "gpu": "0-3"', '"core": "0-1", "gpu": "3"')
    found = {
        one.node: one for one in answers.nodes(said("R.json"), part, free.replace("[02-03]", "03").replace("2-3", "3"))
    }
    assert {name: (one.state, one.cpus_idle, one.gpus_used) for name, one in found.items()} == {
        "node01": (NodeState.BUSY, 0, 4),
        "node02": (NodeState.PARTLY, 2, 3),
        "node03": (NodeState.OUT, 2, 3),
    }
    assert {one.state for one in answers.nodes(said("R.json"), said("R.json"), said("R_down.json"))} == {NodeState.FREE}
