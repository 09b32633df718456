"""Hosts as an allocation, and the steps on them."""

from __future__ import annotations

from mnrun.planning.layout import lay_out
from mnrun.schedulers.hosts import names, steps
from mnrun.schedulers.hosts.steps import HostFacts
from unit.samples import job_spec


def test_ranks_as_was_said_of_each_host() -> None:
    asked = names.parse("ws1:3,ws2:1")
    held = steps.allocation(asked, {"ws1": HostFacts(1), "ws2": HostFacts(64)})
    assert lay_out(job_spec(hosts=asked), held).ranks == (3, 1)
    assert lay_out(job_spec(hosts=asked, ntasks=2, origins={"ntasks": "x"}), held).ranks == (1, 1)
    free = steps.allocation(names.parse("a,b"), {"a": HostFacts(4, 2), "b": HostFacts(4, 2)})
    assert lay_out(job_spec(), free).ranks == (2, 2)  # one per GPU
