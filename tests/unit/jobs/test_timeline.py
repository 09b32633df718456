"""Where the time of a launch went: phases that add up, percentiles, a trace, a page."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from mnrun import versioned
from mnrun.jobs import page, timeline
from mnrun.jobs.timeline import Moments, NodeMoments, Timeline

MOMENTS = {"held": 0.5, "serve": 1.0, "go": 3.0, "ended": 8.0, "over": 9.0}
FAST = {"here": 1.25, "ready": 2.0, "rank": 3.5, "bye": 8.5}
SLOW = {"here": 1.5, "ready": 3.0, "rank": 4.0, "bye": 8.75}


def launched(moments: dict[str, float], **nodes: dict[str, float]) -> Timeline:
    by_node = {node: NodeMoments(**moments) for node, moments in nodes.items()}
    return Timeline("271-abc", Moments(**moments), by_node)


LAUNCH = launched(MOMENTS, node01=FAST, node02=SLOW)


def without(moments: dict[str, float], *names: str) -> dict[str, float]:
    return {name: moment for name, moment in moments.items() if name not in names}


def test_phases_follow_each_other() -> None:
    assert timeline.phases(LAUNCH, "node01") == {
        "allocate": 0.5,
        "prepare": 0.5,
        "reach": 0.25,
        "container": 0.75,
        "others": 1.0,
        "ranks": 0.5,
        "run": 4.5,
        "sweep": 0.5,
        "finish": 0.5,
    }


@pytest.mark.parametrize("lacking", [(), ("here",), ("ready", "rank"), ("rank",), ("here", "ready", "rank", "bye")])
def test_phases_add_up_to_the_whole(lacking: tuple[str, ...]) -> None:
    launch = launched(MOMENTS, node01=without(FAST, *lacking), node02=SLOW)
    assert sum(timeline.phases(launch, "node01").values()) == pytest.approx(launch.whole)


def test_a_node_that_never_was_ready_spent_its_time_in_that() -> None:
    launch = launched(without(MOMENTS, "go", "ended"), node01=without(SLOW, "ready", "rank"))
    seconds = timeline.phases(launch, "node01")
    assert seconds["container"] == 8.75 - 1.5
    assert seconds["finish"] == 0.25
    assert "ranks" not in seconds


def test_a_script_has_no_phase_of_ranks() -> None:
    launch = launched(MOMENTS, node01=without(FAST, "rank"))
    assert timeline.phases(launch, "node01")["run"] == 5.0


def test_a_word_that_comes_late_makes_no_negative_phase() -> None:
    launch = launched(MOMENTS, node01={**FAST, "rank": 8.2})
    assert timeline.phases(launch, "node01")["run"] == 0
    assert sum(timeline.phases(launch, "node01").values()) == pytest.approx(9.0)


def test_percentiles() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [timeline.percentile(values, level) for level in (50, 90, 99, 100)] == [50, 90, 99, 100]
    assert timeline.percentile([3.0], 50) == 3.0
    assert timeline.percentile([], 50) == 0


def test_rows_name_the_slowest_nodes() -> None:
    rows = {row[0]: row[1:] for row in timeline.rows(LAUNCH)}
    assert rows["container"] == ("0.750", "1.500", "1.500", "1.500", "node02 1.500, node01 0.750")
    assert rows["others"] == ("0.000", "1.000", "1.000", "1.000", "")
    assert rows["prepare"] == ("0.500", "0.500", "0.500", "0.500", "")


def test_the_record_is_read_as_it_was_written() -> None:
    half = launched(without(MOMENTS, "go"), node01=without(FAST, "rank"), node02={})
    assert timeline.parse(versioned.text(half)) == half
    assert timeline.parse(versioned.text(timeline.trace(LAUNCH))) == LAUNCH


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"job": "1", "moments": {"go": "x"}, "nodes": {}}', '{"version": 1, "job":']
)
def test_half_a_record_is_none(text: str) -> None:
    assert timeline.parse(text) is None


def test_the_trace_has_a_row_for_each_node() -> None:
    events = timeline.trace(LAUNCH).traceEvents
    assert [event.args["name"] for event in events if event.ph == "M"] == ["node01", "node02"]
    spans = [event for event in events if event.ph == "X" and event.tid == 1]
    assert all(before.ts + before.dur == after.ts for before, after in zip(spans, spans[1:]))
    assert sum(span.dur for span in spans) == 9_000_000


class Elements(HTMLParser):
    """The elements of a page, and the attributes by which a page takes in other files."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [name for name, _ in attrs if name in ("src", "href", "xlink:href")]

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_page_needs_nothing_else() -> None:
    found = Elements(page.html(Timeline("<271>", LAUNCH.moments, {"a&b": LAUNCH.nodes["node02"]})))
    assert found.links == []
    assert not {"script", "link", "img", "iframe"} & set(found.tags)
    assert "Launch <271>" in found.words
    assert "a&b: container 1.500 s" in found.words


def test_the_page_shows_the_slowest_of_many_nodes() -> None:
    nodes = {f"node{number:04}": {**FAST, "ready": 2 + number / 1e4} for number in range(1000)}
    found = Elements(page.html(launched(MOMENTS, **nodes)))
    assert "The 100 slowest of 1000 nodes." in found.words
    assert "node0999" in found.words
    assert "node0100: container" not in found.words
