"""Samples as Prometheus has them: judged by prometheus_client's own parser."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from mnrun.errors import UsageError
from mnrun.watching import exporter, metrics
from mnrun.watching.samples import read
from unit.texts import Refused

JOB = metrics.Job("271", "alice", 'a "name"\n\\', ("n1", "n2"))
LINES = (
    "sample n1 99.5 cpu 1.5 8\tmemory 5 10\tgpu 0 50 1 2 30 - -",
    "sample n1 100.25 cpu 2.5 8\tnet eth0 7 8\tib mlx5_0:1 9 10\tgpu 0 97 1 2 40 300.5 -\tgpu 1 - - - - - -",
    "sample n2 101 rank 3 4711 12.25 4096",
)
Values = dict[str, dict[tuple[tuple[str, str], ...], float]]


def values(text: str) -> Values:
    found: Values = {}
    for family in parsed(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def labels(node: str, **more: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({"hpc_job": "271", "node": node, "user": "alice", **more}.items()))


def written(path: Path) -> Values:
    samples = [sample for line in LINES for sample in read(line)]
    with exporter.given(f"{path}/m.prom", stays=True) as give:
        give(metrics.used(JOB, samples))
    return values((path / "m.prom").read_text())


def test_the_last_sample_of_each_thing(tmp_path: Path) -> None:
    found = written(tmp_path)
    assert found == {
        "mnrun_job_info": {labels("n1", name=JOB.name): 1, labels("n2", name=JOB.name): 1},
        "mnrun_node_last_sample_timestamp_seconds": {labels("n1"): 100.25, labels("n2"): 101},
        "mnrun_node_cpu_seconds_total": {labels("n1"): 2.5},
        "mnrun_node_cpus": {labels("n1"): 8},
        "mnrun_node_memory_used_bytes": {labels("n1"): 5},
        "mnrun_node_memory_limit_bytes": {labels("n1"): 10},
        "mnrun_network_receive_bytes_total": {labels("n1", device="eth0"): 7},
        "mnrun_network_transmit_bytes_total": {labels("n1", device="eth0"): 8},
        "mnrun_ib_receive_bytes_total": {labels("n1", device="mlx5_0:1"): 9},
        "mnrun_ib_transmit_bytes_total": {labels("n1", device="mlx5_0:1"): 10},
        "mnrun_gpu_utilization_ratio": {labels("n1", gpu="0"): 0.97},
        "mnrun_gpu_memory_used_bytes": {labels("n1", gpu="0"): 1},
        "mnrun_gpu_memory_size_bytes": {labels("n1", gpu="0"): 2},
        "mnrun_gpu_temperature_celsius": {labels("n1", gpu="0"): 40},
        "mnrun_gpu_power_watts": {labels("n1", gpu="0"): 300.5},
        "mnrun_rank_cpu_seconds_total": {labels("n2", rank="3"): 12.25},
        "mnrun_rank_memory_bytes": {labels("n2", rank="3"): 4096},
    }
    assert [path.name for path in tmp_path.iterdir()] == ["m.prom"]


def test_a_job_is_on_a_node_once(tmp_path: Path) -> None:
    """A queue has the job, and its live run is known by another name. node_exporter refuses a line that comes twice."""
    found = metrics.jobs([JOB, JOB._replace(name="live"), JOB._replace(id="272", nodes=("n2",))])
    assert [dict(row)["node"] + dict(row)["hpc_job"] for row, _ in found.rows] == ["n1271", "n2271", "n2272"]
    with exporter.given(f"{tmp_path}/m.prom", stays=True) as give:
        give([metrics.jobs([])])
    assert values((tmp_path / "m.prom").read_text()) == {}


def test_a_file_goes_with_its_job(tmp_path: Path) -> None:
    with exporter.given(f"{tmp_path}/m.prom") as give:
        give([metrics.jobs([JOB])])
        assert (tmp_path / "m.prom").exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("where", "stays"),
    [("m.txt", False), (":9400", True), ("nowhere/m.prom", False), ("m.prom:1", True)],
)
def test_what_is_no_place_for_metrics(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str, stays: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    with refused(UsageError), exporter.given(where, stays=stays) as give:
        give([])
