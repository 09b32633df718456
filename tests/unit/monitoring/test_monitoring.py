"""The dashboards and the rules of contrib/monitoring/: their shape, and that each name in them exists.

`scripts/test --full monitoring` asks each query of a real Prometheus.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnrun.watching import metrics

PLACE = Path(__file__).parents[3] / "contrib/monitoring"
OTHERS = {  # of dcgm-exporter 4 and node_exporter 1.5, as their documentation lists them
    *("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"),
    *("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE"),
    *("node_memory_MemTotal_bytes", "node_memory_MemAvailable_bytes"),
}
OURS = {metrics.INFO, metrics.SEEN, *(row.name for row in metrics._ROWS)}
BOARDS = {path.stem: json.loads(path.read_text()) for path in sorted((PLACE / "dashboards").glob("*.json"))}


def exprs(board: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def names(expr: str) -> set[str]:
    return set(re.findall(r"\b(?:mnrun|node|DCGM)_\w+\b(?!=)", re.sub(r'"[^"]*"|\{[^}]*\}', "", expr)))


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_as_grafana_reads_it(name: str) -> None:
    board = BOARDS[name]
    assert board["uid"] == f"mnrun-{name}" and board["schemaVersion"] >= 36
    known = {variable["name"] for variable in board["templating"]["list"]} | {"__rate_interval"}
    places = []
    for panel in board["panels"]:
        assert panel["type"] == "timeseries" and panel["datasource"]["uid"] == "${datasource}"
        assert [target["refId"] for target in panel["targets"]] == list("ABCD"[: len(panel["targets"])])
        assert set(re.findall(r"\$\{?(\w+)", json.dumps(panel["targets"]).replace('\\"$1\\"', ""))) <= known
        places.append((panel["gridPos"]["x"], panel["gridPos"]["y"]))
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids) and len(set(places)) == len(places)


@pytest.mark.parametrize("name", BOARDS)
def test_a_query_uses_names_that_exist(name: str) -> None:
    for title, expr in exprs(BOARDS[name]):
        assert names(expr) and names(expr) <= OURS | OTHERS, title


def test_the_dashboards_show_all_that_there_is() -> None:
    shown = set().union(*(names(expr) for board in BOARDS.values() for _, expr in exprs(board)))
    assert shown == OURS | OTHERS


def test_the_rules_use_names_that_exist() -> None:
    """They are read as text: mnrun needs no YAML. promtool reads them in the live test."""
    text = (PLACE / "rules.yml").read_text()
    found = re.findall(r"alert: (\w+)\n +expr: (.*)", text)
    assert [alert for alert, _ in found] == ["GpuHot", "GpuIdle", "RankStuck", "NodeSilent", "MemoryNearLimit"]
    assert all(names(expr) and names(expr) <= OURS | OTHERS for _, expr in found)
    cases = re.findall(r"alertname: (\w+)", (PLACE / "rules_test.yml").read_text())
    assert sorted(cases) == sorted([alert for alert, _ in found] * 2)
