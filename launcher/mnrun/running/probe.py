"""Ask a node of the job about its MPI and the image's MPI, once, and remember the answer.

planning/compatibility.py judges the answer. IMAGE_CACHE/facts/KEY holds it for one mounted image and one cluster with
these modules. The image counts by its digest, or by its path, inode, size and times. The answer is valid for a day, and
never a reason to refuse a job.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from mnrun.errors import LaunchError
from mnrun.images import cache
from mnrun.model import Allocation, Box, JobSpec, Site, Words
from mnrun.network import choose
from mnrun.nodes import kit
from mnrun.planning import compatibility, layout
from mnrun.planning.compatibility import Facts, Verdict
from mnrun.runtimes import RUNTIMES
from mnrun.schedulers import SCHEDULERS, WATCHES
from mnrun.schedulers.hosts.wires import Way

DAY = 86400.0
UNASKED = "there are no nodes yet: `mnrun plan` in the job asks one, and remembers the answer"


class Asker:
    """The node to ask about one job: its first node, if it has one. Earlier answers of such nodes count too."""

    def __init__(
        self, job: JobSpec, allocation: Allocation | None, site: Site, environ: Mapping[str, str], way: Way | None
    ):
        self.job = job
        self.allocation = allocation
        self.site = site
        self.environ = environ
        self.way = way  # to hosts without a scheduler
        self.origin = ""  # source of the last answer, in words

    def remembered(self) -> Facts | None:
        """Return the earlier answer about this image on such nodes."""
        place = self._place()
        with suppress(OSError):
            if place and place.stat().st_uid == os.getuid() and place.stat().st_mtime > time.time() - DAY:
                found = compatibility.facts(place.read_text(encoding="utf-8", errors="replace"))
                at = time.strftime("%Y-%m-%d %H:%M", time.localtime(place.stat().st_mtime))
                self.origin = f"as a node reported at {at}"
                return found
        return None

    def ask(self) -> Facts | None:
        """Return the facts that the job's first node reports now, or None without a node or an answer."""
        if self.allocation is None:
            self.origin = UNASKED
            return None
        names = layout.lay_out(self.job, self.allocation).nodes[:1]
        try:
            said = self._said(names, self._of_mpi())
        except LaunchError as error:
            self.origin = f"{names[0]} could not be asked: {error.message}"
            return None
        found = compatibility.facts(said)
        self.origin = f"asked on {names[0]}" if found else f"{names[0]} did not answer"
        place = self._place()
        if found and not found.silent and place:
            with suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                beside = place.with_name(f"{place.name}.{os.getpid()}")
                beside.write_text(said, encoding="utf-8", errors="surrogateescape")
                os.replace(beside, place)
        return found

    def judge(self, found: Facts) -> Verdict:
        """Return the verdict on the job, for its real number of nodes."""
        held = self.allocation
        nodes = len(layout.lay_out(self.job, held).nodes) if held else self.job.nodes
        return compatibility.judge(replace(self.job, nodes=nodes), found)

    def networks(self) -> list[str]:
        """Return lines about the ranks' networks and adapters, with reasons, and warnings of low limits.

        The list is empty if the nodes do not answer.
        """
        if self.allocation is None:
            return []
        names = layout.lay_out(self.job, self.allocation).nodes
        try:
            said, addresses = choose.asked(self._said(names, ("bash", "-p", "-c", kit.asking())))
        except LaunchError:
            return []
        small = choose.warnings(self.job, said, SCHEDULERS[self.site.scheduler].LIMITS)
        return [*choose.told(choose.of_job(self.job, said, addresses)), *(f"warning: {line}" for line in small)]

    def _of_mpi(self) -> Words:
        job = self.job
        return ("bash", "-p", "-c", kit.asking_of_mpi(), kit.NODE, job.runtime, job.podman_root, *self._container())

    def _said(self, names: tuple[str, ...], words: Words) -> str:
        if self.way is not None:
            return "".join(answer.out for answer in self.way.ask(words, only=names).values())
        assert self.allocation is not None
        return WATCHES[self.site.scheduler].on_each(self.allocation, names, words, self.environ)

    def _container(self) -> Words:
        """Return the words that start a container like the job's, or () if no image is there yet."""
        job, runtime = self.job, RUNTIMES[self.job.runtime]
        if not runtime.CONTAINED:
            return ("env",)
        image = self._image()
        if not image:
            return ()
        never = ("--pull=never",) if runtime.NAMED else ()
        box = Box(image, job.binds, "", "/", (*never, *job.container_args), "facts")
        path = [f"PATH={v.value}" for v in job.env if v.name == "PATH" and v.value]
        words = runtime.node(box)
        return (*words, "env", *path) if path else words

    def _image(self) -> str:
        """Return the image. For one of a registry, return its file in the cache, or "" if there is none."""
        if not self.job.by_reference or RUNTIMES[self.job.runtime].NAMED:
            return self.job.image
        found = cache.known(Path(self.job.image_cache), self.job.image)
        return str(found) if found else ""

    def _place(self) -> Path | None:
        """Return the file for this question, or None if this machine cannot tell whether the image has changed."""
        job, image = self.job, self._image()
        state: list[object] = []
        if re.search(r"/sha256-[0-9a-f]{64}\.sif$", image):
            state = [image]
        elif image.startswith("/"):
            for below in ("", "bin", "usr/bin", "usr/local/bin"):
                with suppress(OSError):
                    found = os.stat(os.path.join(image, below) if below else image)
                    state += [below, found.st_ino, found.st_size, found.st_mtime_ns]
        if not state and RUNTIMES[job.runtime].CONTAINED:
            return None
        path = [v.value for v in job.env if v.name == "PATH"]
        where = ",".join(map(str, job.hosts)) or self._cluster()
        asked = (kit.asking_of_mpi(), job.runtime, image, *job.binds, *job.container_args, path)
        words = (*asked, *state, where, self.environ.get("PATH", ""))
        key = hashlib.sha256("\0".join(map(str, words)).encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return Path(job.image_cache) / cache.FACTS / key

    def _cluster(self) -> str:
        with suppress(LaunchError):
            return WATCHES[self.site.scheduler].name(self.environ)
        return ""


def judged(asker: Asker, look: bool = False) -> tuple[JobSpec, Verdict | None]:
    """Return the job as it will run, and the verdict if one is known. `look` is for a plan, which refuses nothing.

    An inside-out job asks nothing, since it needs nothing of the node. Raises Impossible.
    """
    job = asker.job
    direct = not (job.once or job.script or job.shell)
    found = asker.remembered() if direct or look else None
    asks = look or (direct and job.mode == "outside-in")
    fresh = False
    if asks and (look or found is None or not asker.judge(found).chosen.works):
        said = asker.ask()
        fresh = said is not None
        found = said or (asker.remembered() if found else None)  # called again because it sets `origin`
    if found is None:
        return job, None
    made = asker.judge(found)
    if not made.chosen.works and not fresh:
        return job, made  # a remembered answer refuses nothing
    if look and not made.chosen.works:
        return job, made
    return (compatibility.decided(job, made) if direct else job), made
