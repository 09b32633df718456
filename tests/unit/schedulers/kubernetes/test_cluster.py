"""What becomes of a job on pods, by the answers of a server."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import SchedulerError, UsageError
from mnrun.model import Site
from mnrun.schedulers.kubernetes import answers, cluster
from mnrun.schedulers.vocabulary import JobState

NOW, JOB = "2026-11-28T08:00:00Z", "app-8k2xd"


@pytest.mark.parametrize(("failures", "state"), [(1, JobState.FAILED), (99, JobState.UNKNOWN)])
def test_a_busy_server_is_asked_again(mocker: MockerFixture, failures: int, state: JobState) -> None:
    """Ranks that end with a pod would count as a program that has ended, if a single question decided."""
    owner = {"kind": "ConfigMap", "metadata": {"name": "app"}}
    pods = [{"kind": "Pod", "metadata": {"name": f"app-{number}"}, "status": {"phase": "Running"}} for number in (0, 1)]
    pods[1]["metadata"] = {"name": "app-1", "deletionTimestamp": NOW}
    clock = itertools.count(0, 1)
    mocker.patch.object(cluster, "time", mocker.Mock(monotonic=lambda: next(clock)))
    mocker.patch.object(cluster.kubectl, "place_of")
    mocker.patch.object(cluster.kubectl, "of_job", side_effect=[*[SchedulerError("busy")] * failures, [owner, *pods]])
    assert cluster.ending(Site("kubernetes", "app"), {}) == state


@pytest.mark.parametrize("late", (1, 99))
def test_a_pod_is_entered_though_kubelet_tells_late_that_it_runs(mocker: MockerFixture, late: int) -> None:
    """Its ranks may have printed already."""
    waiting, runs = (
        [{"kind": "Pod", "metadata": {"name": "app-node-0"}, "status": {"phase": phase}}]
        for phase in ("Pending", "Running")
    )
    clock = itertools.count(0, 1)
    mocker.patch.object(cluster, "time", mocker.Mock(monotonic=lambda: next(clock)))
    mocker.patch.object(cluster.kubectl, "place_of")
    mocker.patch.object(cluster.kubectl, "of_job", side_effect=[*[waiting] * late, runs])
    enter = mocker.patch.object(cluster, "beside")
    if late > 1:
        with pytest.raises(UsageError):
            cluster.inside("app", None, "", ("true",), {}, False)
    else:
        assert cluster.inside("app", None, "", ("true",), {}, False) is enter.return_value[0]
        assert enter.call_args[0][0].nodes == ("app-node-0",)


@pytest.mark.parametrize(
    ("phase", "state", "code"), [("Running", JobState.CANCELLED, 0), ("Failed", JobState.FAILED, 7)]
)
def test_the_end_of_a_removed_job(
    mocker: MockerFixture, tmp_path: Path, phase: str, state: JobState, code: int
) -> None:
    """One that had ended before keeps its end."""
    ended = {"name": "main", "state": {"terminated": {"exitCode": 7}} if phase == "Failed" else {}}
    pod = {"kind": "Pod", "metadata": {"name": JOB, "labels": {answers.LABEL: JOB, answers.USER: "alice"}}}
    pod.update(spec={"containers": [{"name": "main"}]}, status={"phase": phase, "containerStatuses": [ended]})
    mocker.patch.object(cluster.kubectl, "place_of")
    mocker.patch.object(cluster.kubectl, "of_job", return_value=[pod])
    mocker.patch.object(cluster.kubectl, "delete")
    mocker.patch.object(cluster.kubectl, "kept", return_value={})
    (tmp_path / ".mnrun/jobs" / JOB).mkdir(parents=True)
    queue = cluster.user_queue({}, tmp_path, 1.0)
    assert queue.cancel([JOB]) == ([JOB] if phase == "Failed" else [])
    for ids in ([JOB], []):
        (one,) = queue.history(ids)
        assert (one.id, one.state, one.code) == (JOB, state, code)
