"""Run a property on cases that hypothesis makes, count them, and end one that hangs."""

from __future__ import annotations

import functools
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from hypothesis import Phase, given, settings
from hypothesis.strategies import SearchStrategy

from mnrun.errors import LaunchError

T = TypeVar("T")
PATIENCE = 20  # seconds for a case, on a busy machine
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
TALLY: Counter[str] = Counter()  # the cases of this process


def cases(
    cost: int = 1, **strategies: SearchStrategy[Any]
) -> Callable[[Callable[..., int | None]], Callable[..., None]]:
    """Return a decorator that runs a property on many cases. One of a higher `cost` runs on so many times fewer.

    A property that tries several cases at once returns their number.
    """

    def decorate(holds: Callable[..., int | None]) -> Callable[..., None]:
        @functools.wraps(holds)
        def counted(*words: Any, **named: Any) -> None:
            with patience():
                number = holds(*words, **named)
            TALLY["cases"] += 1 if number is None else number

        assert settings.default is not None
        number = max(settings.default.max_examples // cost, 1)
        # A failure is made smaller, but not where each case starts processes, which would take minutes.
        phases = (Phase.generate, Phase.shrink) if cost == 1 else (Phase.generate,)
        return settings(max_examples=number, phases=phases)(given(**strategies)(counted))

    return decorate


@contextmanager
def patience() -> Iterator[None]:
    """Fail where the code inside takes too long."""

    def ring(*_: object) -> None:
        raise AssertionError(f"took longer than {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def answer(action: Callable[[], T], *codes: int) -> T | None:
    """Return the answer of `action`, or None for one clear line with one of these exit codes. Any other error is a
    bug."""
    try:
        return action()
    except LaunchError as error:
        line = str(error)
        assert line.strip(), "an empty message"
        assert not CONTROL.search(line), f"more than one line: {line!r}"
        assert error.code in codes, f"code {error.code}: {line}"
        return None
