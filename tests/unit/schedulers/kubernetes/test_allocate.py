"""What becomes of a run whose pods have ended before mnrun has seen them run, as on a busy machine."""

from __future__ import annotations

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import LaunchError, OutOfMemory, RuntimeFailed, TimeLimit
from mnrun.schedulers.kubernetes.allocate import Waiting
from mnrun.schedulers.kubernetes.kubectl import Place

from .test_answers import EVENTS, PODS


@pytest.mark.parametrize(
    ("pod", "error"),
    [
        ("deadline", TimeLimit),
        ("oom", OutOfMemory),
        ("evicted-memory", OutOfMemory),
        ("evicted", RuntimeFailed),
        ("image-pull", RuntimeFailed),
    ],
)
def test_pods_that_have_ended_already(mocker: MockerFixture, pod: str, error: type[LaunchError]) -> None:
    waiting = Waiting(Place(), "app", [pod], 120, mocker.Mock(), pods={pod: PODS[pod]})
    with pytest.raises(error):
        waiting.show(waiting.why(EVENTS))
