"""Name what jobs use as Prometheus does: base units, and `_total` after counters. Touches no file.

`hpc_job` is the job's id. dcgm-exporter has the same label, and Prometheus's own `job` is the name of a target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mnrun.record import Record
from mnrun.watching.samples import Cpu, Gpu, InfiniBand, Memory, Network, Rank, Sample, Thing

Labels = tuple[tuple[str, str], ...]


class Family(Record):
    """A metric with its values by labels."""

    name: str
    help: str
    rows: list[tuple[Labels, float]]

    @property
    def counts(self) -> bool:
        return self.name.endswith("_total")


class _Row(Record):
    kind: type[Thing]
    field: str
    name: str
    help: str


INFO, SEEN = "mnrun_job_info", "mnrun_node_last_sample_timestamp_seconds"
_KEYS = {
    Gpu: ("gpu", "number"),
    Network: ("device", "device"),
    InfiniBand: ("device", "device"),
    Rank: ("rank", "rank"),
}
_ROWS = (
    _Row(Cpu, "seconds", "mnrun_node_cpu_seconds_total", "CPU time that the job has used on the node"),
    _Row(Cpu, "cpus", "mnrun_node_cpus", "CPUs that the job may use on the node"),
    _Row(Memory, "used", "mnrun_node_memory_used_bytes", "Memory that the job uses on the node"),
    _Row(Memory, "limit", "mnrun_node_memory_limit_bytes", "Memory that the job may use on the node"),
    _Row(Network, "received", "mnrun_network_receive_bytes_total", "Data that the node's network device has received"),
    _Row(Network, "sent", "mnrun_network_transmit_bytes_total", "Data that the node's network device has sent"),
    _Row(InfiniBand, "received", "mnrun_ib_receive_bytes_total", "Data that the InfiniBand or RoCE port has received"),
    _Row(InfiniBand, "sent", "mnrun_ib_transmit_bytes_total", "Data that the InfiniBand or RoCE port has sent"),
    _Row(Gpu, "use", "mnrun_gpu_utilization_ratio", "Part of the time in which the GPU works"),
    _Row(Gpu, "used", "mnrun_gpu_memory_used_bytes", "Memory of the GPU in use"),
    _Row(Gpu, "total", "mnrun_gpu_memory_size_bytes", "Memory of the GPU"),
    _Row(Gpu, "celsius", "mnrun_gpu_temperature_celsius", "Temperature of the GPU"),
    _Row(Gpu, "watts", "mnrun_gpu_power_watts", "Power of the GPU"),
    _Row(Gpu, "joules", "mnrun_gpu_energy_joules_total", "Energy of the GPU since mnrun looks at it"),
    _Row(Rank, "seconds", "mnrun_rank_cpu_seconds_total", "CPU time of the rank's processes"),
    _Row(Rank, "memory", "mnrun_rank_memory_bytes", "Memory of the rank's processes"),
)


class Job(Record):
    """A job that runs, by the labels that its metrics get."""

    id: str
    user: str
    name: str
    nodes: tuple[str, ...]


def jobs(running: Iterable[Job]) -> Family:
    """Return the metric by which those of other exporters are joined with jobs."""
    each = {(job.id, node): (*_labels(job, node), ("name", job.name)) for job in running for node in job.nodes}
    return Family(INFO, "A job that runs on the node", [(labels, 1.0) for labels in each.values()])


def used(job: Job, samples: Iterable[Sample]) -> list[Family]:
    """Return the metrics of a job by the last sample of each thing. What a thing does not tell is left out."""
    last: dict[tuple[str, type[Thing], str], Sample] = {}
    times: dict[str, float] = {}
    for sample in samples:
        last[sample.node, type(sample.thing), _key(sample.thing)] = sample
        times[sample.node] = max(sample.time, times.get(sample.node, 0.0))
    found = [
        jobs([job]),
        Family(SEEN, "Time of the node's last sample", [(_labels(job, n), t) for n, t in times.items()]),
    ]
    found += (Family(row.name, row.help, list(_rows(job, row, last.values()))) for row in _ROWS)
    return [family for family in found if family.rows]


def _rows(job: Job, row: _Row, samples: Iterable[Sample]) -> Iterator[tuple[Labels, float]]:
    for sample in samples:
        value = getattr(sample.thing, row.field) if isinstance(sample.thing, row.kind) else None
        if value is not None:
            key = ((_KEYS[row.kind][0], _key(sample.thing)),) if row.kind in _KEYS else ()
            yield _labels(job, sample.node) + key, float(value)


def _labels(job: Job, node: str) -> Labels:
    return (("hpc_job", job.id), ("node", node), ("user", job.user))


def _key(thing: Thing) -> str:
    return str(getattr(thing, _KEYS[type(thing)][1])) if type(thing) in _KEYS else ""
