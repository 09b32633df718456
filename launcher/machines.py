"""Hosts that no scheduler gives: reach all of them, ask them what they have, and see that they have one image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from . import kit, nodeset, remote
from .errors import NodeError
from .model import Allocation, JobSpec, Site
from .progress import Screen
from .resources import folder
from .schedulers import hosts
from .schedulers.hosts import Facts
from .wires import Answer, Way


@dataclass(frozen=True)
class Held:
    """The hosts as nodes that we hold, and the way to them; the job as it runs there."""

    allocation: Allocation
    site: Site
    way: Way
    job: JobSpec


@contextmanager
def held(job: JobSpec, screen: Screen) -> Iterator[Held]:
    """The hosts of `job`, until the end. Raises NodeError with the names of those that cannot take part."""
    screen.phase(f"reaching {len(job.hosts)} hosts")
    with remote.connected(job) as way:
        found = _facts(way, job)
        _warn_of_busy(found, screen)
        _one_image(way, found, job)
        screen.done()
        yield Held(hosts.allocation(job.hosts, found), hosts.site(job.hosts), way, job)


def _facts(way: Way, job: JobSpec) -> dict[str, Facts]:
    script = (folder("wrappers") / kit.FACTS).read_text(encoding="utf-8")
    answers = way.ask(("bash", "-p", "-s", "--", job.image), script.encode())
    refuse_silent(answers)
    return {node: hosts.facts(answer.out) for node, answer in answers.items()}


def refuse_silent(answers: Mapping[str, Answer]) -> None:
    """Raises NodeError where a host did not answer a question."""
    silent = {n: a.err.strip().rpartition("\n")[2] or "it ended without a word" for n, a in answers.items() if a.code}
    silent.update({node: "the connection to it broke" for node, answer in answers.items() if answer.code is None})
    if silent:
        raise hosts.unreachable(silent, len(answers))


def _warn_of_busy(found: Mapping[str, Facts], screen: Screen) -> None:
    for node, facts in found.items():
        if facts.busy:
            screen.warn(f"{node}: not free: {', '.join(facts.busy)}")


def _one_image(way: Way, found: Mapping[str, Facts], job: JobSpec) -> None:
    """Raises where the hosts' images are not the same: ranks of two images are no job."""
    have = {node: facts for node, facts in found.items() if facts.image not in ("", "directory")}
    if len({facts.image for facts in have.values()}) < 2:
        return
    sums = {node: str(facts.size) for node, facts in have.items()}
    if len(set(sums.values())) == 1:
        answers = way.ask(("sha256sum", "--", job.image), only=tuple(have))
        refuse_silent(answers)
        sums = {node: answer.out.split()[0][:12] for node, answer in answers.items()}
    if len(set(sums.values())) > 1:
        alike: dict[str, list[str]] = {}
        for node, value in sums.items():
            alike.setdefault(value, []).append(node)
        what = "sizes" if all(value.isdecimal() for value in alike) else "digests"
        said = "; ".join(f"{nodeset.fold(nodes)}: {value}" for value, nodes in alike.items())
        raise NodeError(f"{job.image} is not the same everywhere ({what} {said})", "copy one to all: --stage")
