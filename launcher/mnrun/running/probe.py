"""Ask a node of the job about its MPI and the image's MPI, once, and remember the answer.

planning/compatibility.py judges the answer. IMAGE_CACHE/facts/KEY holds it for one mounted image and one cluster with
these modules. The image counts by its digest, or by its path, inode, size and times. The answer is valid for a day, and
never a reason to refuse a job.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mnrun.environment import assignments, masked
from mnrun.errors import LaunchError
from mnrun.facts import lines, parse, values
from mnrun.files import BASH
from mnrun.images import cache
from mnrun.jobspec import BUILT_IN, JobSpec, Layer
from mnrun.model import Container, Words
from mnrun.mpi.facts import MpiFacts, mpi_facts
from mnrun.nodes import kit
from mnrun.planning import compatibility
from mnrun.planning.compatibility import Verdict
from mnrun.running.nodes import OF_ALLOCATIONS, Held
from mnrun.runtimes import RUNTIMES
from mnrun.schedulers import BATCH, SCHEDULERS

DAY = 86400.0


@dataclass
class Probe:
    """A question about one job to its first node, if it has one. Earlier answers of such nodes count too."""

    held: Held
    names: Words  # of the nodes, if there are any
    origin: str = ""  # source of the last answer, in words

    def remembered(self) -> MpiFacts | None:
        """Return the earlier answer about this image on such nodes."""
        file = self._file()
        answer, at = cache.recalled(file) if file else ("", 0.0)
        if not answer or at < time.time() - DAY:
            return None
        self.origin = f"as a node reported at {time.strftime('%Y-%m-%d %H:%M', time.localtime(at))}"
        return mpi_facts(parse(answer))

    def ask(self, stored: bool = False) -> MpiFacts | None:
        """Return the facts that the job's first node reports now, or None without a node or an answer. `stored` asks
        the engine for the size and the digest of an image in its store, too."""
        if self.held.allocation is None:
            self.origin = f"no node was asked; {_asking(self.held)}"
            return None
        names = self.names[:1]
        try:
            answer = [fact for facts in self.held.ask(names, self._mpi_question(stored)).values() for fact in facts]
        except LaunchError as error:
            self.origin = f"{names[0]} could not be asked: {error.message}"
            return None
        facts = mpi_facts(answer)
        self.origin = f"asked on {names[0]}" if facts else f"{names[0]} did not answer"
        file = self._file()
        if facts and not facts.silent and file:
            cache.remember(file, lines(answer))
        return facts

    def judge(self, facts: MpiFacts) -> Verdict:
        """Return the verdict on the job, for its real number of nodes."""
        size = len(self.names) or self.held.spec.resources.nodes
        return compatibility.judge(
            self.held.spec._replace(resources=self.held.spec.resources._replace(nodes=size)), facts
        )

    def networks(self) -> list[str]:
        """Return lines about the ranks' networks with reasons, and warnings of low limits, or [] if the nodes do not
        answer."""
        if self.held.allocation is None:
            return []
        from mnrun.network import choose
        from mnrun.network.facts import network_facts

        try:
            answers = self.held.ask(self.names, (*BASH, "-c", self._script("network_ask.sh")))
        except LaunchError:
            return []
        networks = {node: network_facts(facts) for node, facts in answers.items()}
        addresses = {node: values(facts, "node").get("address", "") for node, facts in answers.items()}
        warnings = choose.warnings(self.held.spec, networks, SCHEDULERS[self.held.site.scheduler].LIMITS)
        choices = choose.of_job(self.held.spec, networks, addresses)
        return [*choose.reasons(choices), *(f"warning: {line}" for line in warnings)]

    def _mpi_question(self, stored: bool) -> Words:
        container = self.held.spec.container
        more = assignments({"mnrun_stored": self.image}) if stored else ""
        script = (*BASH, "-c", more + self._script(kit.MPI_NODE), kit.MPI_NODE)
        return (*script, container.runtime, container.podman_root, self.cache, *self._container())

    def _script(self, name: str) -> str:
        scheduler = SCHEDULERS[self.held.site.scheduler]
        return kit.probe(name, scheduler.ON_NODE + scheduler.PROBE)

    def _container(self) -> Words:
        """Return the words that start a container like the job's, or () if no image is there yet."""
        spec, runtime = self.held.spec, RUNTIMES[self.held.spec.container.runtime]
        if not runtime.CONTAINED:
            return ("env",)
        image = self.image
        if not image:
            return ()
        container = Container(image, spec.container.binds, "", "/", spec.container.args, "facts")
        path = [f"PATH={v.value}" for v in spec.program.env if v.name == "PATH" and v.value]
        words = runtime.ask(container)
        return (*words, "env", *path) if path else words

    @property
    def image(self) -> str:
        """Return the image. For one of a registry, return its file in the cache, or "" if there is none."""
        if not self.cache:
            return self.held.spec.container.image_name
        file = cache.find(Path(self.cache), self.held.spec.container.image_name)
        return str(file) if file else ""

    @property
    def cache(self) -> str:
        """Return the directory of the cache that has the image, or "" for an image that no cache of ours has."""
        container = self.held.spec.container
        return container.image_cache if container.by_reference and not RUNTIMES[container.runtime].HAS_STORE else ""

    def _file(self) -> Path | None:
        """Return the file for the answer, or None if this machine cannot tell whether the image has changed."""
        spec, image = self.held.spec, self.image
        state: list[object] = []
        if re.search(r"/sha256-[0-9a-f]{64}\.(sif|sqfs)$", image):
            state = [image]
        elif image.startswith("/"):
            for below in ("", "bin", "usr/bin", "usr/local/bin"):
                with suppress(OSError):
                    status = os.stat(os.path.join(image, below) if below else image)
                    state += [below, status.st_ino, status.st_size, status.st_mtime_ns]
        if not state and RUNTIMES[spec.container.runtime].CONTAINED:
            return None
        path = [v.value for v in spec.program.env if v.name == "PATH"]
        where = ",".join(map(str, spec.hosts.names))
        if not where:
            with suppress(LaunchError):
                where = SCHEDULERS[self.held.site.scheduler].name(self.held.environ)
        container = spec.container
        question = (self._script(kit.MPI_NODE), container.runtime, image, *container.binds, *container.args, path)
        return cache.fact(Path(container.image_cache), (*question, *state, where, self.held.environ.get("PATH", "")))


def _asking(held: Held) -> str:
    """Return what would ask a node."""
    spec, scheduler = held.spec, BATCH[held.site.scheduler]
    if scheduler.pod(held.environ) is not None:
        return "mnrun run asks its pods"
    named = [name for name in ("partition", "account", "qos", "constraint", "reservation") if spec.batch.text(name)]
    where = [word for name in named for word in (f"--{name}", spec.batch.text(name))]
    if not RUNTIMES[spec.container.runtime].CONTAINED or _is_more(spec):
        client = scheduler.request(spec, OF_ALLOCATIONS)  # of the whole job, which the plan is of
        typed = masked(sys.argv[1:]) if os.path.basename(sys.argv[0]) in ("mnrun", "__main__.py") else ["plan"]
        return f"this asks one{'' if client else ' in a job'}: {shlex.join([*client, 'mnrun', *typed])}"
    runtime = ["--runtime", spec.container.runtime] if spec.origins["runtime"] != BUILT_IN else []
    words = ["mnrun", "check", "-N", "1", *where, *runtime, "--image", spec.container.image_name]
    return f"this asks one: {shlex.join(words)}"


# Options that change the question, and that `mnrun check` has not, or that its line lacks.
_UNTOLD = ("bind", "container_args", "module", "image_cache", "profile")


def _is_more(spec: JobSpec) -> bool:
    """Return whether the job's own options, or its PATH, change the question. `mnrun check` would ask another one."""
    layers = [spec.origins[name].layers for name in _UNTOLD if name in spec.origins]
    own = any(found & {Layer.COMMAND_LINE, Layer.JOB_FILE} for found in layers)
    return own or any(variable.name == "PATH" for variable in spec.program.env)


def resolve(probe: Probe, look: bool = False) -> tuple[JobSpec, Verdict | None]:
    """Return the job as it will run, and the verdict if one is known. With `look`, nothing is refused. Raises
    Impossible."""
    spec, direct = probe.held.spec, probe.held.spec.program.direct
    facts = probe.remembered()
    fresh = False
    if look or facts is None or not probe.judge(facts).chosen.works:
        answer = probe.ask()
        fresh = answer is not None
        facts = answer or (probe.remembered() if facts else None)  # called again because it sets `origin`
    if facts is None:
        return spec, None
    verdict = probe.judge(facts)
    if not verdict.chosen.works and (look or not fresh):
        return spec, verdict  # a plan refuses nothing, and neither does a remembered answer
    return (compatibility.decide(spec, verdict) if direct else spec), verdict
