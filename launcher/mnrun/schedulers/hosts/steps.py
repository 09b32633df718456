"""Hosts without a scheduler as an allocation, and the command of each step on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mnrun.jobspec import HostRequest, Variable
from mnrun.model import Allocation, Command, Node, Phase, Plan, Site, Step, Where, Words
from mnrun.schedulers.hosts.facts import HostFacts
from mnrun.schedulers.model import Beside

CLIENT = SIGNALS = LIMITS = NUMBERS = False

SITE = Site("hosts", "hosts")


def allocation(hosts: Sequence[HostRequest], facts: Mapping[str, HostFacts]) -> Allocation:
    """Return the hosts as an allocation."""
    nodes = (Node(host.name, facts[host.name].cpus, facts[host.name].gpus, host.slots) for host in hosts)
    return Allocation(SITE.scheduler, SITE.job, tuple(nodes))


def command(step: Step, plan: Plan, site: Site) -> Command:
    nodes = plan.layout.nodes[:1] if step.where is Where.HEAD else plan.layout.nodes
    # boot.sh and sweep.sh remove the directory by this name.
    return Command(step.argv, nodes, f"{plan.node_dir}.lease" if step.phase is Phase.SERVE else "")


def beside(place: Beside, words: Words) -> list[Command]:
    return [_on_host(place, name, words) for name in place.nodes]


def _on_host(place: Beside, name: str, words: Words) -> Command:
    from mnrun.schedulers.hosts import login_shell, pdsh, remote  # imported here, since few verbs need them

    if remote.is_here(remote.place(name, place.user, place.port or None)):
        return Command(words)
    # On a terminal, both streams are one, and a person reads it.
    mark = "" if place.terminal else login_shell.mark()
    options = ("-tt", "-o", "LogLevel=ERROR") if place.terminal else ("-T",)
    user = ("-l", place.user) if place.user else ()
    port = ("-p", str(place.port)) if place.port else ()
    ssh = ("ssh", *options, *pdsh.OPTIONS, *port, *user, "--", name, login_shell.line(words, mark))
    return Command(ssh, mark=mark)


def launch_environment(plan: Plan, site: Site) -> tuple[Variable, ...]:
    return ()


def client_environment(environ: Mapping[str, str], plan: Plan) -> Mapping[str, str]:
    return environ
