"""Hosts without a scheduler: reach all of them, ask for their facts, and check that they have the same image."""

from __future__ import annotations

import getpass
import importlib.util
import itertools
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from mnrun import nodeset
from mnrun.errors import DeadlineError, Impossible, NodeError
from mnrun.facts import parse
from mnrun.files import BASH, spoken, wrapper
from mnrun.images import staged
from mnrun.jobspec import Image, ImageKind, JobSpec
from mnrun.model import Allocation, Box, Site
from mnrun.nodes import kit
from mnrun.runtimes import RUNTIMES
from mnrun.schedulers.hosts import pdsh, remote, steps, unreachable
from mnrun.schedulers.hosts.channel import Answer
from mnrun.schedulers.hosts.facts import HostFacts, host_facts
from mnrun.schedulers.hosts.pdsh import PdshTransport
from mnrun.schedulers.hosts.transport import Transport, each, room
from mnrun.system import process
from mnrun.system.screen import Screen

COPY = "copy one to all hosts: --stage"


@dataclass(frozen=True)
class HostSession:
    """The hosts as an allocation, the transport to them, and the job as it runs there."""

    allocation: Allocation
    site: Site
    transport: Transport
    spec: JobSpec


@contextmanager
def connected(spec: JobSpec, environ: Mapping[str, str], screen: Screen, look: bool = False) -> Iterator[HostSession]:
    """Reach the hosts of `spec`, and keep the connections until the context ends. `look` changes nothing on them.

    Raises NodeError with the names of the hosts that cannot take part.
    """
    screen.phase(f"reaching {nodeset.counted(len(spec.hosts.names), 'host')}")
    room(len(spec.hosts.names))
    spec = _by_pdsh(spec, environ)
    with _transport(spec, environ) as transport:
        facts = _facts(transport, spec)
        _warn_of_busy(facts, screen)
        image_cache = Path(spec.container.image_cache)  # on this machine
        spec = _at_home(spec, facts)
        if spec.container.image_file and spec.container.stage:
            spec = _stage(transport, spec, image_cache, screen, look)
        elif spec.container.image_file:
            _one_image(transport, facts, spec, screen)
        screen.done()
        yield HostSession(steps.allocation(spec.hosts.names, facts), steps.SITE, transport, spec)


def _transport(spec: JobSpec, environ: Mapping[str, str]) -> AbstractContextManager[Transport]:
    return nullcontext(PdshTransport(spec, environ)) if spec.hosts.rsh == "pdsh" else remote.connected(spec)


def _by_pdsh(spec: JobSpec, environ: Mapping[str, str]) -> JobSpec:
    """Return the job with the transport to its hosts. pdsh suits only if no container needs its standard input."""
    if spec.hosts.rsh == "pdsh":
        if spec.start.connect == "pipe":
            raise Impossible("pdsh closes standard input, which --connect pipe needs", "use --rsh paramiko")
        missing = [name for name in ("pdsh", "ssh") if not process.has(name)]
        if missing:
            raise Impossible(f"{missing[0]} is not installed here", "install it, or use --rsh paramiko")
        return replace(spec, start=replace(spec.start, connect="ssh"))
    suits = spec.hosts.rsh == "auto" and pdsh.installed() and spec.start.connect != "pipe"
    # This machine needs no ssh server. By default, a jump host's sshd drops some logins beyond ten at a time
    # (sshd_config(5), MaxStartups), and one login through it is enough.
    if suits:
        suits = not any(where.jump or remote.is_here(where) for where in remote.places(spec))
    if suits and (spec.start.mode == "outside-in" or spec.start.connect == "ssh" or _has_sshd(spec, environ)):
        return replace(spec, hosts=replace(spec.hosts, rsh="pdsh"), start=replace(spec.start, connect="ssh"))
    if importlib.util.find_spec("paramiko") is None:
        remedy = "add it to mnrun's environment: pip install paramiko, or pipx inject mnrun paramiko; or use --rsh pdsh"
        raise Impossible("--hosts needs paramiko, which is not installed here", remedy)
    return replace(spec, hosts=replace(spec.hosts, rsh="paramiko"))


def _has_sshd(spec: JobSpec, environ: Mapping[str, str]) -> bool:
    """Return whether the image has an sshd, as its first host answers. An image that is no file counts as without."""
    runtime = RUNTIMES[spec.container.runtime]
    if runtime.CONTAINED and not spec.container.image_file:
        return False
    box = runtime.ask(Box(spec.container.image_file, (), "", "/", spec.container.args))
    first = replace(spec, hosts=replace(spec.hosts, names=spec.hosts.names[:1]))
    answers = PdshTransport(first, environ).ask((*box, "sh", "-c", spoken("image_sshd.sh")))
    return answers[first.hosts.names[0].name].code == 0


def _facts(transport: Transport, spec: JobSpec) -> dict[str, HostFacts]:
    answers = transport.ask((*BASH, "-s", "--", spec.container.image_name), kit.asking_of_host().encode())
    if spec.hosts.rsh == "pdsh":  # pdsh reaches the hosts here for the first time

        def explained(host: str) -> Answer:
            where = remote.place(host, spec.hosts.ssh_user, spec.hosts.ssh_port)
            return replace(answers[host], err=remote.why_refused(where, answers[host].err))

        answers.update(each([host for host, answer in answers.items() if answer.code != 0], explained))
    refuse_silent(answers)
    return {node: host_facts(parse(answer.out)) for node, answer in answers.items()}


def refuse_silent(answers: Mapping[str, Answer]) -> None:
    """Raise NodeError if a host cannot be reached, or did not answer a question."""
    broken = {node: answer for node, answer in answers.items() if answer.code != 0}
    gone = {node: _words(answer) for node, answer in broken.items() if answer.code is None and not answer.late}
    if gone:
        raise unreachable.error(gone, len(answers))
    if broken:
        raise unreachable.failed({node: _words(answer) for node, answer in broken.items()}, len(answers))


def _words(answer: Answer) -> str:
    """Return the reason that a host did not answer."""
    instead = "the command did not end in time" if answer.late else "the command ended without a message"
    return " ".join(answer.err.split()) or instead


def _brought(answers: Mapping[str, Answer], spec: JobSpec) -> Mapping[str, Answer]:
    """Return the answers to a question that takes as long as reading the image. Raises DeadlineError or NodeError."""
    late = [node for node, answer in answers.items() if answer.late and answer.code != 0]
    if late:
        seconds = spec.container.pull_timeout
        problem = f"{spec.container.image} is not ready after {seconds} s on {nodeset.fold(late)}"
        raise DeadlineError(problem, "--pull-timeout allows more time")
    refuse_silent(answers)
    return answers


def _warn_of_busy(facts: Mapping[str, HostFacts], screen: Screen) -> None:
    for node, host in facts.items():
        if host.busy:
            screen.warn(f"{node}: not free: {', '.join(host.busy)}")


def _one_image(transport: Transport, facts: Mapping[str, HostFacts], spec: JobSpec, screen: Screen) -> None:
    """Raise NodeError unless all hosts have the same image: ranks of two images cannot form a job."""
    lacking = [node for node, host in facts.items() if not host.image]
    if lacking:
        raise NodeError(f"{spec.container.image} is not there, or cannot be read, on {nodeset.fold(lacking)}", COPY)
    kinds = {node: "a directory" if host.image == "directory" else "a file" for node, host in facts.items()}
    if len(set(kinds.values())) > 1:
        raise NodeError(f"{spec.container.image} is not the same on all hosts: {nodeset.folded(kinds)}", COPY)
    files = {node: host for node, host in facts.items() if host.image != "directory"}
    if len({file.image for file in files.values()}) < 2:
        return
    sums = {node: f"{file.size} bytes" for node, file in files.items()}
    if len(set(sums.values())) == 1:
        screen.phase(f"comparing {spec.container.image} on {nodeset.fold(files)}")
        words = ("sha256sum", "--", spec.container.image_name)
        answers = _brought(transport.ask(words, only=tuple(files), seconds=spec.container.pull_timeout), spec)
        sums = {node: f"sha256 {answer.out[:12]}…" for node, answer in answers.items()}
    if len(set(sums.values())) > 1:
        raise NodeError(f"{spec.container.image} is not the same on all hosts: {nodeset.folded(sums)}", COPY)


def _at_home(spec: JobSpec, facts: Mapping[str, HostFacts]) -> JobSpec:
    """Return the job with the home directory that its user has on the hosts, and with the cache in it."""
    homes = {node: host.home for node, host in facts.items() if host.home}
    # A runtime with users of its own gets the path of the home directory.
    if len(set(homes.values())) > 1 and spec.container.home and RUNTIMES[spec.container.runtime].USERS:
        problem = f"the home directory is not the same on all hosts: {nodeset.folded(homes)}"
        raise Impossible(problem, "leave it out with --no-home, or use --runtime apptainer")
    local_home, remote_home = str(Path.home()), next(iter(homes.values()), spec.container.home)
    cache = spec.container.image_cache
    if cache.startswith(f"{local_home}/"):
        cache = f"{remote_home}{cache[len(local_home) :]}"
    return replace(spec, container=replace(spec.container, home=spec.container.home and remote_home, image_cache=cache))


def _stage(transport: Transport, spec: JobSpec, image_cache: Path, screen: Screen, look: bool = False) -> JobSpec:
    """Copy this machine's image into the cache of every host that lacks it. Return the job with the path there.

    Each host has a cache of its own, which belongs to the user alone. A copied image stays in it.
    """
    screen.phase(f"reading {spec.container.image_file}")
    source = staged.source(spec.container.image_file, image_cache)
    path = source.copy(spec.container.stage_dir, spec.hosts.ssh_user or getpass.getuser())
    if look:
        return spec.with_image(Image(ImageKind.FILE, path))
    script = (*BASH, "-c", wrapper(kit.EXPOSED) + wrapper("store_image.sh"), "store_image.sh")
    seconds = spec.container.pull_timeout
    answers = _brought(transport.ask((*script, "look", path, source.digest, source.path), seconds=seconds), spec)
    wanting = [node for node, answer in answers.items() if "want" in answer.out.split()]
    if wanting:
        whole, done = source.size * len(wanting), itertools.count()
        where = nodeset.fold(wanting)

        def counted() -> Iterator[bytes]:
            for chunk in staged.chunks(source.path):
                yield chunk
                screen.phase(f"copying the image to {where}: {100 * staged.CHUNK * next(done) // (whole or 1)} %")

        _brought(transport.give((*script, "take", path, source.digest), counted, wanting, seconds), spec)
        screen.say(f"copied {source.path} to {where}, where it is {path}")
    return spec.with_image(Image(ImageKind.FILE, path))
