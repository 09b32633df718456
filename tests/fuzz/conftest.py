"""For every property: the world is forbidden as for unit tests, and its cases are counted.

A plain run takes the same cases each time, so that a change that breaks nothing cannot fail by chance. With
`--cases N`, each property takes N new cases. So a long run finds new bugs, and prints how each failure is made again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir

from unit import conftest as unit
from unit.conftest import _no_world as _no_world
from unit.conftest import decoys as decoys
from unit.conftest import sh as sh
from unit.conftest import world as world

from .cases import TALLY

PLAIN = 170  # cases of each property that starts no process
SLOW = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=int, default=0, metavar="N", help="take N new cases of each property")


def pytest_configure(config: pytest.Config) -> None:
    if unit.DECOYS not in config.stash:  # the unit tests are not part of this run
        unit.pytest_configure(config)
    number = config.getoption("--cases")
    settings.register_profile(
        "fuzz",
        max_examples=number or PLAIN,
        derandomize=not number,
        database=None,  # a failure is made again by the blob that it prints
        print_blob=True,
        deadline=None,  # cases.py ends one that hangs
        suppress_health_check=SLOW,
    )
    settings.load_profile("fuzz")


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> None:
    set_hypothesis_home_dir(tmp_path_factory.mktemp("hypothesis"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    before = TALLY["cases"]
    try:
        return (yield)
    finally:
        item.user_properties.append(("cases", TALLY["cases"] - before))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, ())]
    counts = [value for report in reports for name, value in report.user_properties if name == "cases"]
    terminalreporter.write_line(f"{sum(counts)} cases of {len(counts)} properties")
