"""Environment modules, by a real module system: what is loaded, in which order, and what cannot be."""

from __future__ import annotations

from .batch import end, of_modules, output, programs, submit
from .cells import HELLO, INSIDE, OMPI5
from .reports import refusal
from .stage import Cluster, Desk

LOOK = ("-x", "TOOL", "-x", "LOADEDMODULES", "--", "sh", "-c", 'echo "$TOOL $LOADEDMODULES"')
UNKNOWN = "Unable to locate a modulefile for 'none'"


def test_modules_that_are_there(cluster: Cluster, desk: Desk) -> None:
    words = ["--module", "tool/2", "--module", "more", *INSIDE.words]
    with of_modules(cluster, {"tool/1": "", "tool/2": "setenv TOOL two\n", "more/1": "prereq tool/2\n"}):
        job = submit(cluster, desk, "-N", "1", *words, *LOOK)
        live = cluster.mnrun(*words, *LOOK, nodes=1, tasks=1)
        assert (live.code, live.out) == (0, "two tool/2:more/1\n"), live
        assert end(cluster, desk, job).code == 0, output(desk, job)
    assert programs(output(desk, job)) == live.out


def test_modules_that_are_not_there(cluster: Cluster, desk: Desk) -> None:
    words = ["--module", "tool", "--module", "none", "--image", OMPI5, "--", HELLO]
    with of_modules(cluster, {"tool/1": ""}):
        job = submit(cluster, desk, "-N", "1", *words)
        refusal(cluster.mnrun("-Q", *words, nodes=1), 122, "module load none failed", UNKNOWN)
        followed = cluster.alice(["mnrun", "logs", "-f", job])
        assert (followed.code, UNKNOWN in followed.out) == (0, True), followed
        assert "mnrun: failed with 1: module load none  # command line" in followed.out
        assert cluster.alice(["mnrun", "wait", job]).code == 122
        result = end(cluster, desk, job)
        assert (result.code, result.out) == (122, ""), result


def test_modules_where_there_are_none(cluster: Cluster, desk: Desk) -> None:
    words = ["--module", "tool", *INSIDE.words, "--", HELLO]
    job = submit(cluster, desk, "-N", "1", *words)
    refusal(cluster.mnrun(*words, nodes=1), 122, "the command `module` is not defined here")
    result = end(cluster, desk, job)
    assert (result.code, result.out) == (122, ""), result
    assert "module load tool" in result.err, result
