"""The charts of a page: one for each metric, with numbers, from as many samples as a long job leaves."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from mnrun.watching import charts
from mnrun.watching.series import METRICS
from unit.watching.test_series import lines

ALL = (
    *("cpu {t}.00 4", "memory {t}00 9000", "net eth0 {t}000 {t}0", "ib mlx5_0:1 {t}000 {t}0", "rank 0 7 {t}.00 5"),
    "gpu 0 97 {t}000 9000 60 300.5 {t}00",
)


def shown(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<page>{charts.html(text)}</page>")  # our own text


def test_each_metric_has_a_chart_with_numbers() -> None:
    page = shown(lines(20, *ALL) + lines(20, *ALL, node="n2"))
    assert [head.text for head in page.iter("h3")] == [metric.title for metric in METRICS]
    for chart in page.iter("svg"):
        lines_of_it = [path.get("d", "") for path in chart.iter("path") if path.get("stroke-width") == "2"]
        assert len(lines_of_it) == 2
        assert all(len(re.findall(r"[\d.]+ [\d.]+", line)) >= 19 for line in lines_of_it)
        assert len([text for text in chart.iter("text") if re.search(r"\d", text.text or "")]) >= 8
    assert "The GPUs used 3.8 kJ, which is 1.06 Wh; least 1.9 kJ (n1 GPU 0), most 1.9 kJ (n1 GPU 0)." in "".join(
        page.itertext()
    )


def test_of_many_things_the_least_the_middle_and_the_most_are_drawn() -> None:
    page = shown("".join(lines(5, f"gpu 0 {number} - - - - -", node=f"n{number}") for number in range(64)))
    (chart,) = page.iter("svg")
    assert [path.findtext("title") for path in chart.iter("path") if path.get("stroke-width") == "2"] == [
        "least",
        "the middle of 64",
        "most",
    ]


def test_a_page_of_a_long_job_is_small() -> None:
    text = lines(20_000, "gpu 0 50 - - - - -")
    assert len(charts.html(text)) < 20_000


def test_names_of_a_node_are_no_markup() -> None:
    page = shown(lines(2, "net <b> {t}0 {t}0"))
    assert "n1 <b>" in "".join(page.itertext())


def test_a_single_sample_is_a_point() -> None:
    (chart,) = shown(lines(1, "gpu 0 50 - - - - -")).iter("svg")
    assert any(path.get("d") == "M150.0 70.0L150.0 70.0" for path in chart.iter("path"))


def test_without_samples_there_is_nothing() -> None:
    assert charts.html("") == ""
