"""The stand-in of the live tests answers as flux-core 0.88 was recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mnrun.schedulers.flux import answers, typed
from mnrun.schedulers.vocabulary import JobState
from rehearsal import flux as stand_in
from unit.schedulers.flux.test_answers import said

NOW = 1795807232.0
RECORDED = {entry["name"]: entry for entry in json.loads(said("jobs.json"))["jobs"]}


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(stand_in, "PLACE", tmp_path)
    monkeypatch.setenv("FLUX_HOSTS", "node01 node02 node03")
    monkeypatch.delenv("FLUX_URI", raising=False)
    return tmp_path


def played(name: str, code: int | None, cause: str = "", limit: str = "0") -> dict[str, Any]:
    """Return a job that ends with this code, or runs without one, and the events of its life."""
    size = "9" if name == "bad" else "1"
    job = stand_in.accept(
        ["-N", size, "--cores-per-slot=8", "--exclusive", f"-t{limit}", f"--job-name={name}"], "", NOW
    )
    if name != "bad":
        stand_in.begin(job, NOW)
    if cause:
        stand_in.stop(job, cause, NOW)
    if code is not None:
        stand_in.finish(job, code, NOW)
    return job


def shape(entry: dict[str, Any]) -> dict[str, type]:
    """Return the names and types of what is told, without the site's own."""
    return {name: type(value) for name, value in entry.items() if name != "annotations"}


@pytest.mark.parametrize(
    ("name", "code", "cause", "limit"),
    [
        ("runs", None, "", "600s"),
        ("bad", None, "", "0"),
        ("three", 3, "", "0"),
        ("killed", 137, "", "0"),
        ("cancelled", 143, "cancel", "0"),
        ("limit", 142, "timeout", "2s"),
        ("ok", 0, "", "0"),
    ],
)
def test_its_jobs_are_those_of_flux(name: str, code: int | None, cause: str, limit: str) -> None:
    real, entry = RECORDED[name], played(name, code, cause, limit)["shown"]
    assert shape(entry) == shape(real)
    same = (
        "state",
        "status",
        "result",
        "returncode",
        "waitstatus",
        "success",
        "duration",
        "ntasks",
        "nnodes",
        "ncores",
    )
    assert {word: entry.get(word) for word in same} == {word: real.get(word) for word in same}
    assert entry["exception"] == real["exception"]


def test_a_job_that_cleans_up_does_not_tell_why() -> None:
    assert shape(played("cancelled", None, "cancel")["shown"]) == shape(json.loads(said("cleanup.json")))


@pytest.mark.parametrize(
    ("events", "name", "code", "cause"),
    [
        ("run", "runs", None, ""),
        ("bad", "bad", None, ""),
        ("can", "cancelled", 143, "cancel"),
        ("lim", "limit", 142, "timeout"),
        ("ok", "ok", 0, ""),
    ],
)
def test_the_life_of_a_job_has_the_same_events(events: str, name: str, code: int | None, cause: str) -> None:
    told = "\n".join(played(name, code, cause)["events"])
    own = r"(?m)^\S+ |userid=\d+|annotations=.*|uri=.*"
    assert re.sub(own, "", told).split() == re.sub(own, "", said(f"eventlog_{events}.txt")).split()
    assert answers.ending(told) == answers.ending(said(f"eventlog_{events}.txt"))


def test_its_ids_are_those_of_flux() -> None:
    assert stand_in.shown(12280922112) == "ƒKiDwHR"
    assert stand_in.integer("ƒKiDwHR") == typed("ƒKiDwHR") == "12280922112"


def test_it_refuses_what_flux_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    ended = json.loads(said("jobs.json"))["jobs"][-1]
    with stand_in.jobs() as known:
        known[str(ended["id"])] = {"shown": ended}
    assert stand_in.cancel([str(ended["id"])]) == stand_in.cancel([typed("ƒ4fr")]) == 1
    assert capsys.readouterr().err == said("cancel_ended.txt") + said("cancel_unknown.txt")
    assert stand_in.list_jobs(["--json", str(ended["id"])]) == 0
    assert json.loads(capsys.readouterr().out) == ended  # one job alone has no list around it
    with pytest.raises(ValueError, match=r"\[Errno 22\] 'nosuch' is not a valid queue"):
        stand_in.accept(["--queue=nosuch"], "", NOW)


def test_what_a_job_asked_for_and_its_resources() -> None:
    line = "#!/bin/sh\n#flux: -N2 -n4 -c2 -t90s --job-name=slots\n"
    spec = stand_in.accept([], line, NOW)["spec"]
    assert answers.request(json.dumps(spec)) == answers.request(said("jobspec.json"))
    hosts = ["node01", "node02", "node03"]
    real, ours = said("R.json"), json.dumps(stand_in.resources(hosts, [0, 1, 2], {}))
    assert shape(json.loads(ours)["execution"]) == shape(json.loads(real)["execution"])
    assert [(one.name, one.cores) for one in answers.hosts(ours)] == [
        (one.name, one.cores) for one in answers.hosts(real)
    ]
    assert stand_in.resources(hosts, [], {}) == json.loads(said("R_down.json"))


def test_the_state_that_mnrun_reads() -> None:
    job = answers.job(played("limit", 142, "timeout", "2s")["shown"])
    assert (job.state, job.signal, job.code) == (JobState.TIMEOUT, 14, 0)
