"""Read what Flux's commands print: jobs, requests and resources as JSON. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mnrun import nodeset
from mnrun.errors import Impossible
from mnrun.record import Record
from mnrun.schedulers.vocabulary import JobState, NodeState, numbers, shell_code

if TYPE_CHECKING:
    from mnrun.schedulers.queue import Job, PartitionNode

Entry = Mapping[str, Any]

DOWN = "its broker does not answer, or it is drained"
_STATES = {"RUN": JobState.RUNNING, "CLEANUP": JobState.COMPLETING}
_RESULTS = {"COMPLETED": JobState.COMPLETED, "CANCELED": JobState.CANCELLED, "TIMEOUT": JobState.TIMEOUT}
# The type of the exception that ended a job. A job that is in CLEANUP has one, and no result yet.
_EXCEPTIONS = {"cancel": JobState.CANCELLED, "timeout": JobState.TIMEOUT, "node-failure": JobState.NODE_FAIL}


def entries(text: str) -> list[Entry]:
    """Return the jobs of `flux jobs --json`, which shows one job alone without the list around it."""
    found = json.loads(text or '{"jobs": []}')
    return list(found.get("jobs", [found]))


def ending(events: str) -> JobState:
    """Return the state in which a job ends, by the first fatal exception of `flux job eventlog` (RFC 21)."""
    cause = re.search(r' exception type="?([\w-]+)"? severity=0', events)
    return _EXCEPTIONS.get(cause[1], JobState.FAILED) if cause else JobState.RUNNING


def job(entry: Entry) -> Job:
    from mnrun.schedulers.queue import Job

    state, cause = _STATES.get(entry["state"], JobState.PENDING), entry["exception"]
    if entry["state"] == "INACTIVE":
        state = _EXCEPTIONS.get(cause.get("type", "")) or _RESULTS.get(entry["result"], JobState.FAILED)
    waits = "held" if entry["urgency"] == 0 else "waits for another job" if entry["dependencies"] else ""
    why = waits if state == JobState.PENDING else cause.get("note", "")
    # Without a waitstatus, the code stands for an exception before the job began.
    code, signal = shell_code(entry.get("returncode", 0) if "waitstatus" in entry else 0)
    where = (entry.get("queue", ""), entry.get("nnodes", 0), entry.get("nodelist", ""))
    times = (entry["t_submit"], entry.get("t_run", 0.0), entry.get("t_inactive", entry.get("expiration", 0.0)))
    return Job(str(entry["id"]), entry["name"], state, why, *where, 0, 0, *times, code, signal)


def request(text: str) -> tuple[str, int, int]:
    """Return what `flux job info ID jobspec` tells: the name, slots on each node, or without nodes (RFC 25), and the
    time limit in seconds, or 0."""
    spec = json.loads(text)
    outer, system = spec["resources"][0], spec["attributes"]["system"]
    slot = outer["with"][0] if outer["type"] == "node" else outer
    slots = slot["count"] * (1 if outer is slot else outer["count"])
    slots = spec["tasks"][0]["count"].get("total", slots)  # where they differ between nodes
    return system.get("job", {}).get("name", ""), slots, int(system["duration"])


class Host(Record):
    """The resources of a host."""

    name: str
    cores: int = 0
    gpus: tuple[int, ...] = ()


def hosts(text: str) -> list[Host]:
    """Return the hosts of resources, in the order of their brokers' ranks (RFC 20). Raises Impossible for several
    brokers on a host, as `flux start --test-size` starts them."""
    execution = json.loads(text)["execution"]
    parts = {rank: part["children"] for part in execution["R_lite"] for rank in numbers(part["rank"])}
    names = [name for part in execution["nodelist"] if part for name in nodeset.expand(part)]
    if len(names) != len(parts):
        raise Impossible(f"Flux has {len(parts)} brokers on {', '.join(names)}", "start one broker on each host")
    children = (parts[rank] for rank in sorted(parts))
    return [
        Host(name, len(numbers(has["core"])), tuple(numbers(has.get("gpu", "")))) for name, has in zip(names, children)
    ]


def nodes(whole: str, free: str, down: str) -> list[PartitionNode]:
    """Return the nodes of all resources, of those that are free, and of those that are down."""
    from mnrun.schedulers.queue import PartitionNode

    idle, gone, found = {host.name: host for host in hosts(free)}, {host.name for host in hosts(down)}, []
    for host in hosts(whole):
        left, why = idle.get(host.name, Host(host.name)), DOWN if host.name in gone else ""
        state = NodeState.FREE if left == host else NodeState.PARTLY if left.cores else NodeState.BUSY
        sizes = (len(host.gpus), len(host.gpus) - len(left.gpus), host.cores, left.cores)
        where = ("", True, host.name, NodeState.OUT if why else state)
        found.append(PartitionNode(*where, *sizes, not why, "infinite", why))
    return found
