"""A minimal and a maximal job in the words of each scheduler. schedulers.md has them side by side.

A new scheduler of the table appears there by itself: `pytest tests/unit/schedulers/test_schedulers.py --accept`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mnrun.errors import Impossible
from mnrun.model import Command, Plan, Site, Step, Where
from mnrun.planning.layout import lay_out
from mnrun.schedulers import BATCH, SCHEDULERS
from unit.samples import SITE, build, make
from unit.texts import Expected

DOCUMENT = Path(__file__).with_name("schedulers.md")
HEAD = "# Steps and scripts of each scheduler\n\nThe step's own words come after these, and `@` is before its nodes.\n"
SITES = {"slurm": SITE}  # a scheduler whose steps depend on facts of the site has them here
JOBS: dict[str, dict[str, Any]] = {
    "A minimal job": {"nodes": "2", "ntasks": "3"},
    "A maximal job": {
        **{"nodes": "2", "ntasks": "3", "cpus_per_task": "2", "gpus_per_node": "a100:2", "bind_to": "core"},
        **{"partition": "gpu", "account": "physics", "qos": "high", "time": "1:00:00", "mem": "4G", "job_name": "name"},
        **{"array": "0-3%2", "dependency": "afterok:7", "output": "%x-%A_%a.out", "error": "%j.err", "exclusive": True},
        **{"constraint": "ib", "reservation": "beam", "licenses": "a:1", "requeue": True},
        **{"signal": "B:USR1@60", "gres": "tmp:1", "mode": "outside-in"},
    },
}


def words(command: Command, step: Step) -> str:
    """Return what a scheduler puts around the step's own words."""
    assert command.argv[len(command.argv) - len(step.argv) :] == step.argv
    own = shlex.join(command.argv[: len(command.argv) - len(step.argv)])
    return " ".join(filter(None, (own, f"@ {','.join(command.nodes)}" if command.nodes else "")))


def rows(plan: Plan) -> Iterator[str]:
    """Yield a row for each step and each scheduler, and for each batch script."""
    for step in (step for step in plan.steps if step.where is not Where.HERE):
        yield f"\n### {step.phase.value}\n\n"
        for name, scheduler in SCHEDULERS.items():
            reached = plan._replace(channels=name in ("sge", "hosts"))
            command = scheduler.command(step, reached, SITES.get(name, Site(name, "7")))
            yield f"- {name}: `{words(command, step)}`\n"
    yield "\n### batch script\n\n"
    for name, batch in BATCH.items():
        try:
            for line, _ in batch.directives(plan.spec, lay_out(plan.spec, None), {}):
                yield f"- {name}: `{line}`\n"
        except Impossible as error:  # said, and never left out
            yield f"- {name}: refuses: {error}\n"


def test_each_scheduler_has_its_words(expected: Expected) -> None:
    texts = [HEAD]
    for title, given in JOBS.items():
        texts += [f"\n## {title}\n", *rows(make(build("./app", **given), 2, 1))]
    expected(DOCUMENT, "".join(texts))
