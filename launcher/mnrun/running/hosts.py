"""Hosts without a scheduler: reach all of them, ask for their facts, and check that they have the same image."""

from __future__ import annotations

import getpass
import hashlib
import importlib.util
import io
import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mnrun import nodeset
from mnrun.errors import Impossible, NodeError, UsageError
from mnrun.files import spoken, wrapper
from mnrun.model import Allocation, Box, JobSpec, Site
from mnrun.runtimes import RUNTIMES
from mnrun.schedulers.hosts import names, pdsh, remote
from mnrun.schedulers.hosts.names import Facts
from mnrun.schedulers.hosts.wires import Answer, Way, each, room
from mnrun.system import process
from mnrun.system.screen import Screen

COPY = "copy one to all hosts: --stage"
CHUNK = 1 << 20


@dataclass(frozen=True)
class Held:
    """The hosts as held nodes, the connection to them, and the job as it runs there."""

    allocation: Allocation
    site: Site
    way: Way
    job: JobSpec


@contextmanager
def held(job: JobSpec, environ: Mapping[str, str], screen: Screen, look: bool = False) -> Iterator[Held]:
    """Reach the hosts of `job`, and keep the connections until the context ends. `look` changes nothing on them.

    Raises NodeError with the names of the hosts that cannot take part.
    """
    screen.phase(f"reaching {len(job.hosts)} hosts")
    room(len(job.hosts))
    job = _by_pdsh(job, environ)
    with pdsh.connected(job, environ) if job.rsh == "pdsh" else remote.connected(job, environ) as way:
        found = _facts(way, job)
        _warn_of_busy(found, screen)
        job = _at_home(job, found)
        if job.image.startswith("/") and job.stage:
            job = _stage(way, job, screen, look)
        elif job.image.startswith("/"):
            _one_image(way, found, job)
        screen.done()
        yield Held(names.allocation(job.hosts, found), names.site(job.hosts), way, job)


def _by_pdsh(job: JobSpec, environ: Mapping[str, str]) -> JobSpec:
    """Return the job with the way to reach its hosts. pdsh suits only if no container needs its standard input."""
    if job.rsh == "pdsh":
        if job.connect == "pipe":
            raise Impossible("pdsh closes standard input, which --connect pipe needs", "use --rsh paramiko")
        missing = [name for name in ("pdsh", "ssh") if not process.has(name)]
        if missing:
            raise Impossible(f"{missing[0]} is not installed here", "install it, or use --rsh paramiko")
        return replace(job, connect="ssh")
    suits = job.rsh == "auto" and pdsh.installed() and job.connect != "pipe"
    # This machine needs no ssh server. By default, a jump host's sshd drops some logins beyond ten at a time
    # (sshd_config(5), MaxStartups), and one login through it is enough.
    if suits:
        suits = not any(where.jump or remote.is_here(where) for where in remote.places(job))
    if suits and (job.mode == "outside-in" or job.connect == "ssh" or _has_sshd(job, environ)):
        return replace(job, rsh="pdsh", connect="ssh")
    if importlib.util.find_spec("paramiko") is None:
        remedy = "pip install 'mnrun[hosts]', or use --rsh pdsh"
        raise Impossible("--hosts needs paramiko, which is not installed here", remedy)
    return replace(job, rsh="paramiko")


def _has_sshd(job: JobSpec, environ: Mapping[str, str]) -> bool:
    """Return whether the image has an sshd, as its first host answers. An image that is no file counts as without."""
    runtime = RUNTIMES[job.runtime]
    if runtime.CONTAINED and not job.image.startswith("/"):
        return False
    box = runtime.node(Box(job.image, (), "", "/", job.container_args))
    first = replace(job, hosts=job.hosts[:1])
    with pdsh.connected(first, environ) as way:
        return way.ask((*box, "sh", "-c", spoken("image_sshd.sh")))[first.hosts[0].name].code == 0


def _facts(way: Way, job: JobSpec) -> dict[str, Facts]:
    answers = way.ask(("bash", "-p", "-s", "--", job.image), wrapper("host_facts.sh").encode())
    if job.rsh == "pdsh":  # pdsh reaches the hosts here for the first time

        def explained(host: str) -> Answer:
            where = remote.place(host, job.ssh_user, job.ssh_port)
            return replace(answers[host], err=remote.why_refused(where, answers[host].err))

        answers.update(each([host for host, answer in answers.items() if answer.code != 0], explained))
    refuse_silent(answers)
    return {node: names.facts(answer.out) for node, answer in answers.items()}


def refuse_silent(answers: Mapping[str, Answer]) -> None:
    """Raise NodeError if a host did not answer a question."""
    silent = {n: " ".join(a.err.split()) or "it ended without a message" for n, a in answers.items() if a.code != 0}
    if silent:
        raise names.unreachable(silent, len(answers))


def _warn_of_busy(found: Mapping[str, Facts], screen: Screen) -> None:
    for node, facts in found.items():
        if facts.busy:
            screen.warn(f"{node}: not free: {', '.join(facts.busy)}")


def _one_image(way: Way, found: Mapping[str, Facts], job: JobSpec) -> None:
    """Raise NodeError unless all hosts have the same image: ranks of two images cannot form a job."""
    lacking = [node for node, facts in found.items() if not facts.image]
    if lacking:
        raise NodeError(f"{job.image} is not there, or cannot be read, on {nodeset.fold(lacking)}", COPY)
    kinds = {node: "a directory" if facts.image == "directory" else "a file" for node, facts in found.items()}
    if len(set(kinds.values())) > 1:
        raise NodeError(f"{job.image} is not the same on all hosts: {nodeset.folded(kinds)}", COPY)
    files = {node: facts for node, facts in found.items() if facts.image != "directory"}
    if len({facts.image for facts in files.values()}) < 2:
        return
    sums = {node: f"{facts.size} bytes" for node, facts in files.items()}
    if len(set(sums.values())) == 1:
        answers = way.ask(("sha256sum", "--", job.image), only=tuple(files))
        refuse_silent(answers)
        sums = {node: f"sha256 {answer.out[:12]}…" for node, answer in answers.items()}
    if len(set(sums.values())) > 1:
        raise NodeError(f"{job.image} is not the same on all hosts: {nodeset.folded(sums)}", COPY)


def _at_home(job: JobSpec, found: Mapping[str, Facts]) -> JobSpec:
    """Return the job with the home directory that its user has on the hosts, and with the cache in it."""
    homes = {node: facts.home for node, facts in found.items() if facts.home}
    if len(set(homes.values())) > 1 and job.home and RUNTIMES[job.runtime].USERS:  # such runtimes get its path
        what = f"the home directory is not the same on all hosts: {nodeset.folded(homes)}"
        raise Impossible(what, "leave it out with --no-home, or use --runtime apptainer")
    here, there = str(Path.home()), next(iter(homes.values()), job.home)
    cache = job.image_cache
    if cache.startswith(f"{here}/"):
        cache = f"{there}{cache[len(here) :]}"
    return replace(job, home=job.home and there, image_cache=cache)


def _stage(way: Way, job: JobSpec, screen: Screen, look: bool = False) -> JobSpec:
    """Copy this machine's image into the cache of every host that lacks it. Return the job with the path there.

    Each host has a cache of its own, which belongs to the user alone. A copied image stays in it.
    """
    if not Path(job.image).is_file():
        raise UsageError(
            f"--stage copies only an image file of this machine, and {job.image} is not one", "name an image file"
        )
    screen.phase(f"reading {job.image}")
    digest = hashlib.sha256()
    for chunk in _chunks(job.image):
        digest.update(chunk)
    path = f"/var/tmp/mnrun.{job.ssh_user or getpass.getuser()}/images/{digest.hexdigest()}.sif"
    if look:
        return replace(job, image=path)
    script = ("bash", "-p", "-c", wrapper("store_image.sh"), "store_image.sh")
    answers = way.ask((*script, "look", path, digest.hexdigest(), job.image))
    refuse_silent(answers)
    wanting = [node for node, answer in answers.items() if "want" in answer.out.split()]
    if wanting:
        whole, done = os.path.getsize(job.image) * len(wanting), itertools.count()
        where = nodeset.fold(wanting)

        def counted() -> Iterator[bytes]:
            for chunk in _chunks(job.image):
                yield chunk
                screen.phase(f"copying the image to {where}: {100 * CHUNK * next(done) // (whole or 1)} %")

        refuse_silent(way.give((*script, "take", path, digest.hexdigest()), counted, wanting))
        screen.say(f"copied {job.image} to {where}, where it is {path}")
    return replace(job, image=path)


def _chunks(path: str) -> Iterator[bytes]:
    with io.FileIO(path) as file:
        yield from iter(lambda: file.read(CHUNK), b"")
