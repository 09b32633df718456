"""Where the time of a launch went: --timeline and `mnrun report`, against what happened."""

from __future__ import annotations

import pytest

from mnrun.jobs import timeline
from published import checked

from .cells import HELLO, MAIN, OMPI5, Way
from .stage import Cluster, Desk

pytestmark = pytest.mark.live

NODES = ("node01", "node02", "node03")
REAL = "/usr/bin/apptainer"
TIMED = 'begin=$EPOCHREALTIME; "$@"; code=$?; echo "$begin $EPOCHREALTIME" >&2; exit $code'
# Of one node: its containers start late.
SLOW = f'#!/bin/sh\nsleep 10\nexec {REAL}.real "$@"\n'


@pytest.mark.parametrize("way", MAIN, ids=str)
def test_phases_add_up_to_the_launch(cluster: Cluster, desk: Desk, way: Way) -> None:
    """Of each node, to the time that mnrun really took; and no phase of a good launch is missing."""
    mnrun = ["mnrun", "--timeline", f"{desk.path}/times.json", *way.words, "--", HELLO, "-s", "2"]
    done = cluster.alice(["salloc", "-Q", "-N3", "-w", ",".join(NODES), "bash", "-c", TIMED, "timed", *mnrun])
    assert done.code == 0, done
    begin, end = map(float, done.err.split()[-2:])
    found = timeline.parse(desk.read("times.json").decode())
    assert found is not None
    assert 0.5 * (end - begin) < found.whole < end - begin + 0.05, "Python's own end is the difference"
    for node in NODES:
        seconds = timeline.phases(found, node)
        assert list(seconds) == list(timeline.PHASES)
        assert sum(seconds.values()) == pytest.approx(found.whole)
        assert seconds["run"] > 2
        assert min(seconds["prepare"], seconds["reach"], seconds["container"]) > 0, seconds


def test_the_slow_node_is_named(cluster: Cluster, desk: Desk) -> None:
    cluster.root("node02", "mv", REAL, f"{REAL}.real")
    try:
        cluster.put(REAL, SLOW, 0o755, "node02", uid=0)
        done = cluster.mnrun("--timeline", f"{desk.path}/times.json", "--image", OMPI5, "--", HELLO, nodes=3)
    finally:
        cluster.root("node02", "mv", f"{REAL}.real", REAL)
    assert done.code == 0, done
    shown = cluster.alice(["mnrun", "report", f"{desk.path}/times.json"])
    container = next(line for line in shown.out.splitlines() if line.startswith("container"))
    name, seconds = container.split()[5:7]
    assert name == "node02", shown
    assert float(seconds.rstrip(",")) > 10, shown


def test_the_report_of_a_submitted_job(cluster: Cluster, desk: Desk) -> None:
    """As a table, as JSON and as a page, by its ID."""
    records = ["--job-dir", f"{desk.path}/jobs"]
    submit = ["mnrun", "submit", "--wait", "-N2", *records, "-o", f"{desk.path}/out", "--image", OMPI5, "--", HELLO]
    job = cluster.alice(submit).out.split()[0]
    shown = cluster.alice(["mnrun", "report", job, *records])
    assert shown.code == 0, shown
    assert shown.out.splitlines()[1].split() == ["PHASE", "50", "%", "90", "%", "99", "%", "100", "%", "SLOWEST"]
    values = checked("report", cluster.alice(["mnrun", "report", job, "--json", *records]).out)
    rows = {event["args"]["name"] for event in values["traceEvents"] if event["ph"] == "M"}
    assert rows == {"node01", "node02"}
    page = cluster.alice(["mnrun", "report", job, "--html", *records]).out
    assert page.startswith("<!DOCTYPE html>") and "node02: container" in page
