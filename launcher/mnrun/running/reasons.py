"""Why a launch failed: by what its nodes said, and by what the scheduler says when it is asked. It is asked once
everything has ended, since nothing comes before the lease's end."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from mnrun import nodeset
from mnrun.errors import DeadlineError, LaunchError, NodeError, OutOfMemory, RuntimeFailed, job_over
from mnrun.model import Plan, Site
from mnrun.nodes.status import LESS, Roster

OOM = re.compile(r"\boom[-_ ]kill|\bOut Of Memory\b", re.IGNORECASE)  # slurmstepd's and srun's words


class Broken(Exception):
    """The launch cannot go on. `why` makes the error of it once everything has ended: it may ask the scheduler, and
    nothing comes before the lease's end."""

    def __init__(self, why: Callable[[], LaunchError]) -> None:
        super().__init__(why)
        self.why = why


class Reasons:
    """Those of one launch. `asked` is who knows of its job: the scheduler, or its Nobody."""

    def __init__(self, plan: Plan, site: Site, asked: Any) -> None:
        self._plan, self._job, self._site, self._asked = plan, site.job, site, asked

    def not_ready(self, roster: Roster, said: Sequence[str], late: bool) -> LaunchError:
        """Who has not become ready, by what was known then, and what the scheduler thinks of them."""
        missing = roster.missing
        refused = roster.failed or roster.gone or roster.lost
        thoughts = self._asked.why_down(missing)
        reasons = nodeset.folded({node: roster.why(node, thoughts) for node in missing})
        words = [line for line in said if any(node in line for node in missing)] or said
        noise = f" ({' | '.join(words[-3:])})" if words else ""
        count = f"{len(missing)} of {len(roster.nodes)} nodes not ready"
        if late and not refused:
            seconds = self._plan.spec.start_timeout
            return DeadlineError(f"{count} after {seconds} s: {reasons}{noise}", "--start-timeout gives them longer")
        return NodeError(f"{count}: {reasons}" + ("" if roster.failed else noise))

    def cut_off(self, said: Sequence[str]) -> LaunchError:
        """The serving step ended, and not because of us: the job did, or its srun was killed."""
        starved = [line for line in said if OOM.search(line)]
        if starved:  # Slurm ends a step of which the kernel has killed a process, if the site says so
            return OutOfMemory(f"out of memory: {' | '.join(starved)}", LESS)
        state = self._asked.ending(self._site)
        over = job_over(self._job, state)
        if over is not None:
            return over
        lost = self._asked.why_down(self._plan.layout.nodes)
        if lost:
            told = nodeset.folded({node: f"Slurm says {thought}" for node, thought in lost.items()})
            return NodeError(f"lost while the program ran: {told}")
        if state == "NODE_FAIL":
            return NodeError(f"a node of job {self._job} failed")
        words = " | ".join(said[-3:]) or "without a word"
        return NodeError(f"the serving step ended while the program ran ({words})")


def failure(roster: Roster) -> LaunchError:
    """What a node said of its failure."""
    if roster.failed:
        return RuntimeFailed(nodeset.folded(roster.failed))
    return NodeError(nodeset.folded({node: roster.why(node, {}) for node in (*roster.gone, *roster.lost)}))
