"""Hosts without a scheduler: reach all of them, ask for their facts, and check that they have the same image."""

from __future__ import annotations

import getpass
import hashlib
import importlib.util
import itertools
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mnrun import nodeset
from mnrun.environment import assignments
from mnrun.errors import DeadlineError, Impossible, NodeError
from mnrun.facts import parse
from mnrun.files import BASH, wrapper
from mnrun.images import staged
from mnrun.jobspec import Image, ImageKind, JobSpec
from mnrun.nodes import kit
from mnrun.reach.channel import Answer
from mnrun.reach.transport import Transport, allow_files, each
from mnrun.running.nodes import Held
from mnrun.runtimes import RUNTIMES
from mnrun.schedulers.hosts import remote, ssh, steps, unreachable
from mnrun.schedulers.hosts.pdsh import PdshTransport
from mnrun.schedulers.hosts.steps import HostFacts, host_facts
from mnrun.system import process
from mnrun.system.screen import Screen

if TYPE_CHECKING:
    from mnrun.running.beside import Beside

COPY = "copy one to all hosts: --stage"


@contextmanager
def connected(
    spec: JobSpec, environ: Mapping[str, str], screen: Screen, look: bool = False, beside: Beside | None = None
) -> Iterator[Held]:
    """Reach the hosts of `spec`, or the node of the job that they are `beside`. Keep the connections until the context
    ends. `look` changes nothing on them. Raises NodeError with the names of the hosts that cannot take part."""
    screen.phase(f"reaching {nodeset.counted(len(spec.hosts.names), 'host')}")
    allow_files(len(spec.hosts.names))
    with beside.reached(environ) if beside else _transport(spec, environ) as transport:
        facts = _facts(transport, spec)
        image_cache = Path(spec.container.image_cache)  # on this machine
        spec = _at_home(spec, facts)
        if spec.container.image_file and spec.container.stage:
            spec = _stage(transport, spec, image_cache, screen, look)
        elif spec.container.image_file:
            _one_image(transport, facts, spec, screen)
        elif spec.container.stage and RUNTIMES[spec.container.runtime].HAS_STORE and not look:
            _load(transport, spec, screen)
        screen.done()
        found = Held(spec, steps.allocation(spec.hosts.names, facts), steps.SITE, environ, transport)
        yield beside.around(found, facts[beside.node].folder) if beside else found


def _transport(spec: JobSpec, environ: Mapping[str, str]) -> AbstractContextManager[Transport]:
    """Return a context with the transport to the hosts, by the program that --rsh names. ssh is the first choice."""
    rsh, paramiko = spec.hosts.rsh, importlib.util.find_spec("paramiko") is not None
    if rsh == "auto":
        rsh = "paramiko" if paramiko and not process.has("ssh") else "ssh"
    if rsh == "paramiko":
        if not paramiko:
            problem = "--rsh paramiko needs paramiko, which is not installed here"
            raise Impossible(problem, "use --rsh ssh, or add it: pip install paramiko, or pipx inject mnrun paramiko")
        return remote.connected(spec)
    for program in ("pdsh", "ssh") if rsh == "pdsh" else ("ssh",):
        if not process.has(program):
            raise Impossible(f"{program} is not installed here", "install it, or use --rsh paramiko")
    if rsh == "ssh":
        return ssh.connected(spec)
    return ssh.connected(spec, partial(PdshTransport, environ, ssh.login(spec.hosts.ssh_user, spec.hosts.ssh_port)))


def _facts(transport: Transport, spec: JobSpec) -> dict[str, HostFacts]:
    answers = transport.ask((*BASH, "-c", kit.probe("host_facts.sh"), "host_facts.sh", spec.container.image_name))

    def explained(host: str) -> Answer:
        where = ssh.target(host, spec.hosts.ssh_user, spec.hosts.ssh_port)
        return answers[host]._replace(err=ssh.why_refused(where, answers[host].err))

    answers.update(each([host for host, answer in answers.items() if answer.code is None], explained))
    refuse_silent(answers)
    return {node: host_facts(parse(answer.out)) for node, answer in answers.items()}


def refuse_silent(answers: Mapping[str, Answer]) -> None:
    broken = {node: answer for node, answer in answers.items() if answer.code != 0}
    gone = {node: _words(answer) for node, answer in broken.items() if answer.code is None and not answer.late}
    if gone:
        raise unreachable.error(gone, len(answers))
    if broken:
        raise unreachable.failed({node: _words(answer) for node, answer in broken.items()}, len(answers))


def _words(answer: Answer) -> str:
    instead = "the command did not end in time" if answer.late else "the command ended without a message"
    failed = re.search(r"^fail \S+ (.*)", answer.out, re.MULTILINE)
    return failed[1] if failed else " ".join(answer.err.split()) or instead


def _brought(answers: Mapping[str, Answer], spec: JobSpec) -> Mapping[str, Answer]:
    """Return the answers to a question that takes as long as reading the image. Raises DeadlineError or NodeError."""
    late = [node for node, answer in answers.items() if answer.late and answer.code != 0]
    if late:
        seconds = spec.container.pull_timeout
        problem = f"{spec.container.image} is not ready after {seconds} s on {nodeset.fold(late)}"
        raise DeadlineError(problem, "--pull-timeout allows more time")
    refuse_silent(answers)
    return answers


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
    if len(set(homes.values())) > 1 and spec.container.home and RUNTIMES[spec.container.runtime].NEEDS_PASSWD:
        problem = f"the home directory is not the same on all hosts: {nodeset.folded(homes)}"
        raise Impossible(problem, "leave it out with --no-home, or use --runtime apptainer")
    local_home, remote_home = str(Path.home()), next(iter(homes.values()), spec.container.home)
    cache = spec.container.image_cache
    if cache.startswith(f"{local_home}/"):
        cache = f"{remote_home}{cache[len(local_home) :]}"
    return spec._replace(container=spec.container._replace(home=spec.container.home and remote_home, image_cache=cache))


def _stage(transport: Transport, spec: JobSpec, image_cache: Path, screen: Screen, look: bool = False) -> JobSpec:
    """Copy this machine's image into the cache of every host that lacks it, where it stays. Return the job with the
    path there."""
    screen.phase(f"reading {spec.container.image_file}")
    source = staged.source(spec.container.image_file, image_cache)
    path = source.copy(spec.container.stage_dir, spec.hosts.ssh_user or getpass.getuser())
    if look:
        return spec.with_image(Image(ImageKind.FILE, path))
    script = kit.probe(kit.STAGE, assignments({"mnrun_copy": path, "mnrun_size": source.size}))
    name = f"{os.uname().nodename}.{os.getpid()}"
    words = (*BASH, "-c", script, kit.STAGE, spec.container.stage_limit, name)
    seconds = spec.container.pull_timeout
    answers = _brought(transport.ask((*words, "look", source.path), seconds=seconds), spec)
    wanting = [node for node, answer in answers.items() if answer.out.startswith("lacks ")]
    if wanting:
        whole, done = source.size * len(wanting), itertools.count()
        where = nodeset.fold(wanting)

        def counted() -> Iterator[bytes]:
            for chunk in staged.chunks(source.path):
                yield chunk
                screen.phase(f"copying the image to {where}: {100 * staged.CHUNK * next(done) // (whole or 1)} %")

        _brought(transport.give((*words, "take"), counted, wanting, seconds), spec)
        screen.say(f"copied {source.path} to {where}, where it is {path}")
    return spec.with_image(Image(ImageKind.FILE, path))


def _load(transport: Transport, spec: JobSpec, screen: Screen) -> None:
    """Give the image of this machine's own store to the store of every host that lacks it. No registry is asked."""
    container, runtime = spec.container, RUNTIMES[spec.container.runtime]
    name, seconds = container.image_name, container.pull_timeout
    content = _content()
    try:
        there = process.ask((runtime.BINARY, "image", "inspect", "--format", content, name))
    except NodeError as error:
        problem = f"--stage: {runtime.BINARY} has no image {name} on this machine ({error.message})"
        raise NodeError(problem, "build or load it here, or leave out --stage") from None
    wanted = hashlib.sha256(there.encode("utf-8", "surrogateescape")).hexdigest()
    job = f"{os.uname().nodename}.{os.getpid()}"
    given = (name, container.podman_root, job, runtime.BINARY, content)
    words = (*BASH, "-c", kit.probe("load_store.sh"), "load_store.sh", *given)
    answers = _brought(transport.ask((*words, "look", wanted), seconds=seconds), spec)
    lacking = [node for node, answer in answers.items() if " lacks " in f" {answer.out}"]
    if not lacking:
        return
    where = nodeset.fold(lacking)
    screen.phase(f"copying {name} to {where}")

    def saved() -> Iterator[bytes]:
        null = subprocess.DEVNULL
        with subprocess.Popen((runtime.BINARY, "save", name), stdin=null, stdout=subprocess.PIPE, stderr=null) as save:
            assert save.stdout is not None
            yield from iter(partial(save.stdout.read, staged.CHUNK), b"")

    _brought(transport.give((*words, "take", wanted), saved, lacking, seconds), spec)
    screen.say(f"copied {name} from this machine's {runtime.BINARY} to {where}")


def _content() -> str:
    """Return the template by which a store tells the parts of an image that a job sees."""
    found = re.search(r"^CONTENT='([^']*)'$", wrapper("pull_store.sh"), re.MULTILINE)
    assert found is not None
    return found[1]
