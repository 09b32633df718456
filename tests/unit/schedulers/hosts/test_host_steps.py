"""Hosts as an allocation, and the steps on them."""

from __future__ import annotations

from mnrun.model import Command, Phase
from mnrun.planning.layout import lay_out
from mnrun.schedulers.hosts import names, steps
from mnrun.schedulers.hosts.facts import HostFacts
from unit.samples import job_spec, make


def test_ranks_as_was_said_of_each_host() -> None:
    """Their slots, whatever CPUs they have; fewer ranks than slots go round in turn; more are refused by layout."""
    asked = names.parse("ws1:3,ws2:1")
    held = steps.allocation(asked, {"ws1": HostFacts(1), "ws2": HostFacts(64)})
    assert lay_out(job_spec(hosts=asked), held).ranks == (3, 1)
    assert lay_out(job_spec(hosts=asked, ntasks=2, origins={"ntasks": "x"}), held).ranks == (1, 1)
    free = steps.allocation(names.parse("a,b"), {"a": HostFacts(4, 2), "b": HostFacts(4, 2)})
    assert lay_out(job_spec(), free).ranks == (2, 2)  # one per GPU


def test_a_step_goes_to_its_hosts() -> None:
    """On all or on the first; only the serving step has a lease that lasts."""
    plan = make(job_spec(command=("./app",), hosts=names.parse("node01,node02")), 2, 1)
    serve, run, stop = (plan.step(phase) for phase in (Phase.SERVE, Phase.RUN, Phase.STOP))
    both = ("node01", "node02")
    assert steps.command(serve, plan, steps.SITE) == Command(serve.argv, both, "/tmp/mnrun.7-abcdef.lease")
    assert steps.command(run, plan, steps.SITE) == Command(run.argv, ("node01",))
    assert steps.command(stop, plan, steps.SITE) == Command(stop.argv, both)
