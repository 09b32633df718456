"""Signals to mnrun, which become events."""

from __future__ import annotations

import os
import queue
import signal

import pytest

from mnrun.system.events import Event, Signal, Told
from mnrun.system.signals import Signals, cleaning_up, held
from unit.world import World


@pytest.mark.parametrize("told", [(), Signals.PROGRAMS])
def test_signals_that_are_for_the_program(world: World, told: tuple[signal.Signals, ...]) -> None:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    with Signals(events, told), world.allowed():
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR2)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
    heard = [events.get_nowait() for _ in range(events.qsize())]
    assert heard == ([Told("USR1"), Told("USR2")] if told else [])


def test_signals_become_events(world: World) -> None:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    before = [signal.getsignal(signum) for signum in Signals.ALL]
    with Signals(events), world.allowed():
        for signum in Signals.ALL:
            signal.raise_signal(signum)  # to this very thread, so that it has come when this returns
    assert [events.get_nowait() for _ in before] == [Signal(signum) for signum in Signals.ALL]
    assert [signal.getsignal(signum) for signum in Signals.ALL] == before


@pytest.mark.parametrize("last", ["out", "err"])
def test_nobody_who_hears_us_is_a_hang_up(monkeypatch: pytest.MonkeyPatch, last: str) -> None:
    """Nobody who reads what the program prints is a broken pipe. (W4) It is no matter who reads the errors."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    (out, ours), (err, too) = os.pipe(), os.pipe()
    monkeypatch.setattr(Signals, "OUTPUTS", (ours, too))
    with Signals(events):
        if last == "out":
            os.close(err)
            with pytest.raises(queue.Empty):
                events.get(timeout=1.5)
        os.close(out)
        assert events.get(timeout=30) == Signal(signal.SIGHUP if last == "out" else signal.SIGPIPE)
    for fd in (ours, too, *([err] if last == "err" else [])):
        os.close(fd)


@pytest.mark.parametrize("ends", [True, False])
def test_a_connection_that_ends_under_nohup(monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    """The job goes on, as nohup wants it. A reader that goes alone is something else."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    (out, ours), (err, too) = os.pipe(), os.pipe()
    monkeypatch.setattr(Signals, "OUTPUTS", (ours, too))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals(events):
            os.close(out)
            if ends:
                os.close(err)
                with pytest.raises(queue.Empty):
                    events.get(timeout=1.5)
            else:
                assert events.get(timeout=30) == Signal(signal.SIGPIPE)
    finally:
        signal.signal(signal.SIGHUP, before)
        for fd in (ours, too, *([] if ends else [err])):
            os.close(fd)


def test_a_handler_in_c_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library has set it before Python's start. Python cannot set it again."""
    before, getsignal = signal.getsignal(signal.SIGUSR1), signal.getsignal
    monkeypatch.setattr(signal, "getsignal", lambda signum: None)
    with Signals(queue.SimpleQueue()):
        assert getsignal(signal.SIGUSR1) is before


@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_while_nobody_listens(world: World, signum: signal.Signals) -> None:
    cleaned = False
    with pytest.raises(SystemExit) as ended, cleaning_up(), world.allowed():
        try:
            signal.raise_signal(signum)
        finally:
            signal.raise_signal(signal.SIGHUP)
            cleaned = True
    assert cleaned and ended.value.code == 128 + signum
    assert signal.getsignal(signum) is signal.SIG_DFL


@pytest.mark.parametrize("signum", Signals.ALL)
def test_a_signal_during_a_removal(world: World, signum: signal.Signals) -> None:
    removed = False
    with pytest.raises((SystemExit, KeyboardInterrupt)), cleaning_up(), world.allowed(), held():
        signal.raise_signal(signum)
        removed = True
    assert removed
