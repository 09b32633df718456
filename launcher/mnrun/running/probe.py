"""Ask a node of the job about its MPI and the image's MPI, once, and remember the answer.

planning/compatibility.py judges the answer. IMAGE_CACHE/facts/KEY holds it for one mounted image and one cluster with
these modules. The image counts by its digest, or by its path, inode, size and times. The answer is valid for a day, and
never a reason to refuse a job.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mnrun.errors import LaunchError
from mnrun.facts import by_node, parse, values
from mnrun.files import BASH
from mnrun.images import cache
from mnrun.jobspec import BUILT_IN, JobSpec, Layer
from mnrun.model import Allocation, Box, Site, Words
from mnrun.mpi.facts import MpiFacts, mpi_facts
from mnrun.network import choose
from mnrun.network.facts import network_facts
from mnrun.nodes import kit
from mnrun.planning import compatibility, layout
from mnrun.planning.compatibility import Verdict
from mnrun.runtimes import RUNTIMES
from mnrun.schedulers import SCHEDULERS
from mnrun.system.process import PROBE

if TYPE_CHECKING:
    from mnrun.schedulers.hosts.transport import Transport

DAY = 86400.0


class Probe:
    """A question about one job to its first node, if it has one. Earlier answers of such nodes count too."""

    def __init__(
        self,
        spec: JobSpec,
        allocation: Allocation | None,
        site: Site,
        environ: Mapping[str, str],
        transport: Transport | None,
    ):
        self.spec = spec
        self.allocation = allocation
        self.site = site
        self.environ = environ
        self.transport = transport  # to hosts without a scheduler
        self.origin = ""  # source of the last answer, in words

    def remembered(self) -> MpiFacts | None:
        """Return the earlier answer about this image on such nodes."""
        place = self._place()
        answer, at = cache.recalled(place) if place else ("", 0.0)
        if not answer or at < time.time() - DAY:
            return None
        self.origin = f"as a node reported at {time.strftime('%Y-%m-%d %H:%M', time.localtime(at))}"
        return mpi_facts(parse(answer))

    def ask(self) -> MpiFacts | None:
        """Return the facts that the job's first node reports now, or None without a node or an answer."""
        if self.allocation is None:
            self.origin = f"no node was asked; this asks one: {_asking(self.spec)}"
            return None
        names = layout.lay_out(self.spec, self.allocation).nodes[:1]
        try:
            answer = self._answer(names, self._of_mpi())
        except LaunchError as error:
            self.origin = f"{names[0]} could not be asked: {error.message}"
            return None
        facts = mpi_facts(parse(answer))
        self.origin = f"asked on {names[0]}" if facts else f"{names[0]} did not answer"
        place = self._place()
        if facts and not facts.silent and place:
            cache.remember(place, answer)
        return facts

    def judge(self, facts: MpiFacts) -> Verdict:
        """Return the verdict on the job, for its real number of nodes."""
        held = layout.lay_out(self.spec, self.allocation).nodes if self.allocation else ()
        size = len(held) or self.spec.resources.nodes
        return compatibility.judge(replace(self.spec, resources=replace(self.spec.resources, nodes=size)), facts)

    def networks(self) -> list[str]:
        """Return lines about the ranks' networks and adapters, with reasons, and warnings of low limits.

        The list is empty if the nodes do not answer.
        """
        if self.allocation is None:
            return []
        names = layout.lay_out(self.spec, self.allocation).nodes
        try:
            answers = by_node(parse(self._answer(names, (*BASH, "-c", kit.asking()))))
        except LaunchError:
            return []
        networks = {node: network_facts(facts) for node, facts in answers.items()}
        addresses = {node: values(facts, "node").get("address", "") for node, facts in answers.items()}
        warnings = choose.warnings(self.spec, networks, SCHEDULERS[self.site.scheduler].LIMITS)
        choices = choose.of_job(self.spec, networks, addresses)
        return [*choose.reasons(choices), *(f"warning: {line}" for line in warnings)]

    def _of_mpi(self) -> Words:
        spec = self.spec
        return (
            *BASH,
            "-c",
            kit.asking_of_mpi(),
            kit.NODE,
            spec.container.runtime,
            spec.container.podman_root,
            self.cache,
            *self._container(),
        )

    def _answer(self, names: tuple[str, ...], words: Words) -> str:
        if self.transport is not None:
            return "".join(answer.out for answer in self.transport.ask(words, only=names, seconds=PROBE).values())
        assert self.allocation is not None
        return SCHEDULERS[self.site.scheduler].on_each(self.allocation, names, words, self.environ)

    def _container(self) -> Words:
        """Return the words that start a container like the job's, or () if no image is there yet."""
        spec, runtime = self.spec, RUNTIMES[self.spec.container.runtime]
        if not runtime.CONTAINED:
            return ("env",)
        image = self.image
        if not image:
            return ()
        box = Box(image, spec.container.binds, "", "/", spec.container.args, "facts")
        path = [f"PATH={v.value}" for v in spec.program.env if v.name == "PATH" and v.value]
        words = runtime.ask(box)
        return (*words, "env", *path) if path else words

    @property
    def image(self) -> str:
        """Return the image. For one of a registry, return its file in the cache, or "" if there is none."""
        if not self.cache:
            return self.spec.container.image_name
        file = cache.find(Path(self.cache), self.spec.container.image_name)
        return str(file) if file else ""

    @property
    def cache(self) -> str:
        """Return the directory of the cache that has the image, or "" for an image that no cache of ours has."""
        container = self.spec.container
        return container.image_cache if container.by_reference and not RUNTIMES[container.runtime].NAMED else ""

    def _place(self) -> Path | None:
        """Return the file for this question, or None if this machine cannot tell whether the image has changed."""
        spec, image = self.spec, self.image
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
        where = ",".join(map(str, spec.hosts.names)) or self._cluster()
        box = spec.container
        question = (kit.asking_of_mpi(), box.runtime, image, *box.binds, *box.args, path)
        words = (*question, *state, where, self.environ.get("PATH", ""))
        return cache.fact(Path(spec.container.image_cache), words)

    def _cluster(self) -> str:
        with suppress(LaunchError):
            return SCHEDULERS[self.site.scheduler].name(self.environ)
        return ""


def _asking(spec: JobSpec) -> str:
    """Return the line that asks a node about the job's image, in the partition of the job."""
    named = [name for name in ("partition", "account", "qos", "constraint", "reservation") if spec.batch.text(name)]
    where = [word for name in named for word in (f"--{name}", spec.batch.text(name))]
    if not RUNTIMES[spec.container.runtime].CONTAINED or _is_more(spec):
        return shlex.join(["salloc", "-N", "1", *where, "mnrun", "plan"]) + " …"
    runtime = ["--runtime", spec.container.runtime] if spec.origins["runtime"] != BUILT_IN else []
    return shlex.join(["mnrun", "check", "-N", "1", *where, *runtime, "--image", spec.container.image_name])


# Options that change the question, and that `mnrun check` has not, or that its line lacks.
_UNTOLD = ("bind", "container_args", "module", "image_cache", "profile")


def _is_more(spec: JobSpec) -> bool:
    """Return whether the job's own options, or its PATH, change the question. `mnrun check` would ask another one."""
    layers = [spec.origins[name].layers for name in _UNTOLD if name in spec.origins]
    own = any(found & {Layer.COMMAND_LINE, Layer.JOB_FILE} for found in layers)
    return own or any(variable.name == "PATH" for variable in spec.program.env)


def resolve(probe: Probe, look: bool = False) -> tuple[JobSpec, Verdict | None]:
    """Return the job as it will run, and the verdict if one is known. `look` is for a plan, which refuses nothing.

    Raises Impossible.
    """
    spec, direct = probe.spec, probe.spec.program.direct
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
