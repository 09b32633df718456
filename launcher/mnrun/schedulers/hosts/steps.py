"""Hosts without a scheduler as an allocation, by the facts that they report, and commands on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mnrun.facts import Fact, values
from mnrun.jobspec import HostRequest
from mnrun.model import Allocation, Command, Node, Site, Words
from mnrun.record import Record
from mnrun.schedulers.vocabulary import StepPlace

SITE = Site("hosts", "hosts", channels=True)


class HostFacts(Record):
    """The facts of a host (wrappers/probe/host_facts.sh)."""

    cpus: int = 1
    gpus: int = 0
    # A text that tells the image's file from a copy, "" without a file, "directory" for a tree.
    image: str = ""
    size: int = 0
    home: str = ""
    folder: str = ""  # in which a command begins


def host_facts(facts: Sequence[Fact]) -> HostFacts:
    """Return the facts of the host that reported them."""
    texts = values(facts, "node")
    numbers = {name: int(text) for name, text in texts.items() if text.isdecimal()}
    return HostFacts(
        numbers.get("cpus", 1),
        numbers.get("gpus", 0),
        texts.get("image", ""),
        numbers.get("size", 0),
        texts.get("home", ""),
        texts.get("folder", ""),
    )


def allocation(hosts: Sequence[HostRequest], facts: Mapping[str, HostFacts]) -> Allocation:
    nodes = (Node(host.name, facts[host.name].cpus, facts[host.name].gpus, host.slots) for host in hosts)
    return Allocation(SITE.scheduler, SITE.job, tuple(nodes))


def beside(place: StepPlace, words: Words) -> list[Command]:
    return [_on_host(place, name, words) for name in place.nodes]


def _on_host(place: StepPlace, name: str, words: Words) -> Command:
    from mnrun.reach import login_shell
    from mnrun.reach import ssh as client
    from mnrun.schedulers.hosts import ssh  # imported here, since few verbs need them

    if ssh.is_here(ssh.target(name, place.user, place.port or None)):
        return Command(words)
    # On a terminal, both streams are one, and a person reads it.
    mark = "" if place.terminal else login_shell.mark()
    line, options = login_shell.line(words, mark), ssh.login(place.user, place.port or None)
    return Command(client.words(name, line, *options, terminal=place.terminal), mark=mark)
