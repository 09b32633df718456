"""Values that Slurm cannot read are refused with the format, and all others pass."""

from __future__ import annotations

import pytest

from mnrun import formats
from mnrun.config import layers
from mnrun.config.options import BY_NAME
from unit.cases import Cases


def test_values_of_options(cases: Cases) -> None:
    """sbatch has the last word on what passes."""

    def passes(option: str, value: str) -> str:
        assert layers.parse(BY_NAME[option], value, "job.toml line 3") == value
        return "right"

    cases(passes)


@pytest.mark.parametrize("option", formats.FORMATS)
def test_the_samples_are_right(option: str) -> None:
    for value in (formats.FORMATS[option].sample, ""):
        assert layers.parse(BY_NAME[option], value, "here") == value


@pytest.mark.parametrize(
    ("text", "slurms"),
    [("2h", "2:00:00"), ("90m", "1:30:00"), ("1d12h", "36:00:00"), ("1H30M5s", "1:30:05"), ("45s", "0:00:45")],
)
def test_a_time_limit_with_units(text: str, slurms: str) -> None:
    assert layers.parse(BY_NAME["time"], text, "here") == slurms


def test_slurms_long_options(cases: Cases) -> None:
    """Without their dashes."""
    cases(lambda word: layers.parse(BY_NAME["slurm"], [word], "here"))


def test_what_values_mean(cases: Cases) -> None:
    cases(lambda kind, text: getattr(formats, kind)(text))


@pytest.mark.parametrize(
    ("text", "tasks", "at_once"),
    [
        ("0-3%2", [0, 1, 2, 3], 2),
        ("1, 3-5,8", [1, 3, 4, 5, 8], 0),
        ("[0-15:5]", [0, 5, 10, 15], 0),
        ("[1-2%1]", [1, 2], 1),
    ],
)
def test_arrays(text: str, tasks: list[int], at_once: int) -> None:
    found = formats.array(text)
    assert ([number for span in found.tasks for number in span], found.at_once) == (tasks, at_once)


def test_dependencies() -> None:
    found = formats.dependencies("afterok:1:2,afterany:12_*?singleton,123")
    assert found == [("afterok", ("1", "2")), ("afterany", ("12_*",)), ("singleton", ()), ("", ("123",))]
