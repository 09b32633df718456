"""Give metrics to Prometheus: by a file that node_exporter reads, or at a port. The only user of prometheus_client."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnrun.errors import Impossible, UsageError
from mnrun.watching.metrics import Family

if TYPE_CHECKING:
    from prometheus_client import Metric

WHERE = "FILE.prom|[ADDRESS]:PORT"
Give = Callable[[Sequence[Family]], None]


@contextmanager
def given(where: str, stays: bool = False) -> Iterator[Give]:
    """Return a context with the function that gives metrics, each time all of them. At its end, a file is removed
    unless it `stays`, since node_exporter would tell old values for ever."""
    try:
        import prometheus_client as client
    except ImportError:
        problem = "--metrics needs prometheus_client, which is not installed here"
        raise Impossible(
            problem, "add it: pip install prometheus-client, or pipx inject mnrun prometheus-client"
        ) from None
    registry, held = client.CollectorRegistry(auto_describe=False), _Held()
    registry.register(held)
    port = re.fullmatch(r"(.*):(\d{1,5})", where)
    if port and "/" not in where and not stays:
        try:
            start = partial(client.start_http_server, int(port[2]), registry=registry)
            _ = start(addr=port[1].strip("[]")) if port[1] else start()  # without one, at all of this machine's
        except (OSError, OverflowError) as error:
            raise UsageError(f"--metrics {where}: {error}", "name another port") from None
        yield held.take
        return
    if not where.endswith(".prom"):
        raise UsageError(
            f"--metrics {where} is no file that node_exporter reads", f"write {'FILE.prom' if stays else WHERE}"
        )

    def write(families: Sequence[Family]) -> None:
        held.take(families)
        try:
            client.write_to_textfile(where, registry)  # beside it, and renamed
        except OSError as error:
            raise UsageError(f"--metrics {where} cannot be written: {error.strerror}", "name another file") from None

    try:
        yield write
    finally:
        if not stays:
            with suppress(OSError):
                Path(where).unlink()


class _Held:
    """The last metrics. The server has a thread of its own."""

    def __init__(self) -> None:
        self._families: Sequence[Family] = ()

    def take(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return map(_metric, self._families)


def _metric(family: Family) -> Any:
    from prometheus_client import core

    kind = core.CounterMetricFamily if family.counts else core.GaugeMetricFamily
    metric = kind(family.name, family.help, labels=[name for name, _ in (family.rows[0][0] if family.rows else ())])
    for labels, value in family.rows:
        metric.add_metric([text for _, text in labels], value)
    return metric
