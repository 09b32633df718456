"""Moments since the begin of a launch."""

from __future__ import annotations

import math
import queue
import time

from pytest_mock import MockerFixture

from mnrun.system import clock
from mnrun.system.clock import Clock, begun


def test_this_process_began_before_now() -> None:
    first, now = begun(), time.monotonic()
    assert now - 24 * 3600 < first < now
    assert abs(begun() - first) < 5


def test_moments_count_from_the_begin() -> None:
    clock = Clock(time.monotonic() - 5)
    clock.mark("go")
    clock.mark("ready", "node01")
    assert 5 <= clock.moments["go"] < 6
    assert 5 <= clock.nodes["node01"]["ready"] < 6


def test_a_wait_without_a_limit_wakes_up(mocker: MockerFixture) -> None:
    """Python may handle a signal that comes just before a wait only after it: no single wait is without an end."""
    waits: list[float] = []

    def get(timeout: float) -> str:
        waits.append(timeout)
        if len(waits) < 3:
            raise queue.Empty
        return "event"

    assert clock.take(mocker.Mock(get=get), math.inf) == "event"
    assert waits == [clock.WAKE] * 3


def test_a_wait_ends_at_its_limit() -> None:
    assert clock.take(queue.SimpleQueue[str](), time.monotonic() + 0.01) is None
