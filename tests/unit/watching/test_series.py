"""The course of each metric, and what is said of it: by hand-made samples of two nodes."""

from __future__ import annotations

import pytest

from mnrun.watching import kept, series
from mnrun.watching.series import METRICS, courses, read_all

GIB = 1 << 30


def lines(ticks: int, *things: str, node: str = "n1", every: int = 10) -> str:
    """Return lines of so many ticks. {t} is the tick."""
    text = "\t".join(things)
    return "".join(f"sample {node} {every * t}.00 {text.format(t=t)}\n" for t in range(ticks))


def course(text: str, title: str) -> dict[str, list[tuple[float, float]]]:
    (metric,) = (metric for metric in METRICS if metric.title == title)
    return courses(read_all(text)).get(metric, {})


def test_a_counter_becomes_a_rate() -> None:
    text = lines(3, "cpu {t}0.00 4", "net eth0 {t}000 0", "rank 3 77 {t}5.00 1024")
    assert course(text, "CPU use") == {"n1": [(10.0, 0.25), (20.0, 0.25)]}
    assert course(text, "Network in") == {"n1 eth0": [(10.0, 100.0), (20.0, 100.0)]}
    assert course(text, "CPUs of a rank") == {"n1 rank 3": [(10.0, 1.0), (20.0, 1.0)]}


def test_a_counter_that_begins_anew_gives_no_rate() -> None:
    text = "sample n1 1.00 net eth0 900 0\nsample n1 2.00 net eth0 5 0\nsample n1 3.00 net eth0 15 0\n"
    assert course(text, "Network in") == {"n1 eth0": [(3.0, 10.0)]}


def test_unknown_values_and_their_metrics_are_left_out() -> None:
    found = courses(read_all(lines(2, "gpu 0 50 - - - - -")))
    assert [metric.title for metric in found] == ["GPU use"]


def test_the_rows_name_the_least_and_the_most() -> None:
    text = lines(2, f"gpu 0 90 {GIB} {8 * GIB} 60 300 0") + lines(
        2, f"gpu 0 10 {GIB} {8 * GIB} 40 100 {{t}}00", node="n2"
    )
    rows = {row[0]: row[1:] for row in series.rows(read_all(text))}
    assert rows["GPU use"] == ("50 %", "10 % n2 GPU 0", "90 % n1 GPU 0")
    assert rows["GPU power"] == ("200 W", "100 W n2 GPU 0", "300 W n1 GPU 0")
    assert rows["GPU energy"] == ("50 J", "0 J n1 GPU 0", "100 J n2 GPU 0")
    assert list(rows)[:5] == ["GPU use", "GPU memory", "GPU temperature", "GPU power", "GPU energy"]
    assert rows["GPU memory"][0] == "1.07 GB"


def test_the_energy_of_each_gpu() -> None:
    text = lines(3, "gpu 0 9 1 1 1 1 {t}00", "gpu 1 9 1 1 1 1 {t}7") + lines(2, "gpu 0 9 1 1 1 - -", node="n2")
    assert series.energies(read_all(text)) == {"n1 GPU 0": 200, "n1 GPU 1": 20}
    found = series.used(read_all(text))
    assert found is not None and found.joules == 200 + 20


def test_the_last_line_of_a_run() -> None:
    text = lines(2, "gpu 0 90 1 1 1 1 {t}0000", "gpu 1 2 1 1 1 1 1", "cpu {t}0.00 4", "memory {t}000000000 8000000000")
    text += lines(3, "gpu 0 40 1 1 1 1 1", "cpu 1{t}0.00 8", "memory 5000000000 8000000000", node="n2")
    said = "used: CPU 17 % of 12, memory 6 GB of 16 GB, GPUs 44 %, 2.78 Wh, idle: n1 GPU 1"
    assert str(series.used(read_all(text))) == said
    assert series.used([]) is None


def test_many_idle_gpus_are_counted() -> None:
    found = series.used(read_all(lines(2, *(f"gpu {index} 1 - - - - -" for index in range(8)))))
    assert str(found) == "used: GPUs 1 %, idle: n1 GPU 0, n1 GPU 1, n1 GPU 2, n1 GPU 3 and 4 more"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (lines(31, "gpu 0 97 1 1 1 1 1", "gpu 1 1 1 1 1 1 1"), "1 of 2 GPUs idle: n1 GPU 1"),
        (lines(31, "gpu 0 97 1 1 1 1 1"), ""),
        (lines(30, "gpu 0 1 1 1 1 1 1"), ""),  # for less than 300 seconds
        (lines(1, "gpu 0 97 1 1 1 1 1") + lines(62, "gpu 0 1 1 1 1 1 1"), "1 of 1 GPU idle: n1 GPU 0"),
        (lines(62, "gpu 0 1 1 1 1 1 1") + "sample n1 620.00 gpu 0 97 1 1 1 1 1\n", ""),
        (lines(62, "cpu 0.00 4"), ""),
        ("", ""),
    ],
)
def test_gpus_that_idle(text: str, said: str) -> None:
    assert series.idle(text) == said


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (0.971, "%", "97 %"),
        (61.2e9, "B", "61.2 GB"),
        (999, "B/s", "999 B/s"),
        (0, "B/s", "0 B/s"),
        (1.5e15, "B", "1.5e+03 TB"),
        (412.35, "W", "412 W"),
        (1234.5, "W", "1234 W"),
        (1.5, "", "1.5"),
    ],
)
def test_values_as_a_person_writes_them(value: float, unit: str, said: str) -> None:
    assert series.text(value, unit) == said


def test_a_full_file_keeps_every_second_tick_of_each_node() -> None:
    text = lines(5, "cpu {t}.00 4") + lines(1, "memory 1 2", node="n2")
    whole = text.replace("sample n1 20.00 cpu", "sample n1 20.00 memory 1 2\nsample n1 20.00 cpu")
    times = [(one.node, one.time) for one in read_all(kept.thinned(whole))]
    assert times == [("n1", 0.0), ("n1", 20.0), ("n1", 20.0), ("n1", 40.0), ("n2", 0.0)]


def test_what_comes_later_is_as_sparse() -> None:
    thinner = kept.Thinner()
    first = [line for line in lines(4, "cpu {t}.00 4").splitlines() if thinner.takes(line)]
    assert len(first) == 4
    thinner.stride *= 2
    later = [line for line in lines(9, "cpu {t}.00 4").splitlines()[4:] if thinner.takes(line)]
    assert [one.time for line in later for one in read_all(line)] == [40.0, 60.0, 80.0]
