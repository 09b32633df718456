"""Where the time of a launch went: --timeline and `mnrun report`, against what happened."""

from __future__ import annotations

import pytest

from mnrun.jobs import timeline
from published import checked

from .cells import HELLO, MAIN, OMPI5, Way
from .reports import tells
from .stage import Cluster, Desk

NODES = ("node01", "node02", "node03")
REAL = "/usr/bin/apptainer"
TIMED = 'begin=$EPOCHREALTIME; "$@"; code=$?; echo "$begin $EPOCHREALTIME" >&2; exit $code'
# Of one node: its containers start late.
SLOW = f'#!/bin/sh\nsleep 10\nexec {REAL}.real "$@"\n'


@pytest.mark.parametrize("way", MAIN, ids=str)
def test_phases_add_up_to_the_launch(cluster: Cluster, desk: Desk, way: Way) -> None:
    mnrun = ["mnrun", "--timeline", f"{desk.path}/times.json", *way.words, "--", HELLO, "-s", "2"]
    done = cluster.alice(["salloc", "-Q", "-N3", "-w", ",".join(NODES), "bash", "-c", TIMED, "timed", *mnrun])
    assert done.code == 0, done
    begin, end = map(float, done.err.split()[-2:])
    found = timeline.parse(desk.read("times.json").decode())
    assert found is not None
    assert 2 < found.whole < end - begin + 0.5, "Python's own begin and end are the difference"
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
    records = ["--job-dir", f"{desk.path}/jobs"]
    submit = [
        "mnrun",
        "submit",
        "--wait",
        "-N2",
        "--ntasks-per-node",
        "2",
        *records,
        "-o",
        f"{desk.path}/out",
        "--image",
        OMPI5,
        "--",
        HELLO,
    ]
    job = cluster.alice(submit).out.split()[0]
    shown = cluster.alice(["mnrun", "report", job, *records])
    assert shown.code == 0, shown
    assert ["PHASE", "50", "%", "90", "%", "99", "%", "100", "%", "SLOWEST"] in map(str.split, shown.out.splitlines())
    values = checked("report", cluster.alice(["mnrun", "report", job, "--json", *records]).out)
    rows = {event["args"]["name"] for event in values["traceEvents"] if event["ph"] == "M"}
    assert rows == {"node01", "node02"}
    page = cluster.alice(["mnrun", "report", job, "--html", *records]).out
    assert page.startswith("<!DOCTYPE html>") and "node02: container" in page
    tells(values, 0, HELLO, OMPI5)
    assert "<dt>image</dt>" in page


def test_the_report_of_a_run_on_hosts(cluster: Cluster, desk: Desk) -> None:
    words = ["--hosts", "node01:2,node02:2", "--timeline", f"{desk.path}/times.json"]
    assert cluster.alice(["mnrun", *words, "--image", OMPI5, "--", HELLO]).code == 0
    tells(
        checked("report", cluster.alice(["mnrun", "report", f"{desk.path}/times.json", "--json"]).out), 0, HELLO, OMPI5
    )


# The shell goes on after each of its launches. The last one counts, and fails.
SCRIPT = f"""#!/bin/bash
#SBATCH -N2 --ntasks-per-node=2 -J mine
mnrun -Q --image {OMPI5} -- {HELLO}
mnrun -Q --image {OMPI5} --launcher env -- sh -c '[ $RANK != 3 ] || exit 3; exec sleep 60'
code=$?
echo after $code
exit $code
"""


def test_the_report_of_a_script_that_goes_on(cluster: Cluster, desk: Desk) -> None:
    home = f"HOME={desk.path}"
    desk.put("mine.sh", SCRIPT)
    done = cluster.alice(["env", home, "sbatch", "--parsable", "--wait", "mine.sh"], cwd=desk.path)
    job = done.out.strip()
    values = checked("report", cluster.alice(["env", home, "mnrun", "report", job, "--json"]).out)
    told = values["about"]
    assert (told["name"], told["state"], told["code"], told["ranks"]) == ("mine", "FAILED", 3, 4), told
    assert 0 < told["submitted"] <= told["began"] <= told["ended"], told
    assert set(values["nodes"]) == {"node01", "node02"}, values
    ended = checked("why", cluster.alice(["env", home, "mnrun", "why", job, "--json"]).out)
    assert (ended["code"], ended["first"]["rank"]) == (3, 3), ended
    view = checked("status", cluster.alice(["env", home, "mnrun", "status", job, "--json"]).out)["jobs"][0]
    assert view["why"] == told["why"] != "", view
