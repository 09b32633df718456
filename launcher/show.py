"""A plan as text for people, and as JSON for programs."""

from __future__ import annotations

import json
import shlex

from .carry import carry
from .model import Plan, Site, Where, Words
from .schedulers.slurm import MARK


def as_steps(plan: Plan, site: Site) -> str:
    """Each step with the words that start it, then every value with its origin."""
    lines: list[str] = []
    carried = {command.step: command.argv for command in carry(plan, site)}
    for number, step in enumerate(plan.steps, 1):
        where = "" if step.where is Where.HERE else f" on {step.where.value}"
        lines.append(f"{number}. {step.phase.value}{where}: {step.why}")
        if step in carried:
            lines.append("   " + shlex.join(_shown(carried[step])) + (" &" if step.background else ""))
    lines.append("")
    lines.append(f"ranks: {plan.layout.ntasks} ({plan.layout.why_ranks})")
    lines.append(f"nodes: {plan.layout.nnodes} ({plan.layout.why_nodes})")
    for node, ranks in zip(plan.layout.nodes, plan.layout.ranks):
        lines.append(f"  {node}: {ranks}")
    lines += [f"note: {note}" for note in plan.notes]
    lines += [f"in a batch job: {v.name} = {v.value}    # {v.why}" for v in plan.spec.learned.env]
    lines.append("")
    lines += [f"{name} = {value}    # {origin}" for name, (value, origin) in _values(plan).items()]
    return "\n".join(lines) + "\n"


def as_json(plan: Plan, site: Site) -> str:
    carried = {command.step: command.argv for command in carry(plan, site)}
    return (
        json.dumps(
            {
                "job": plan.job,
                "mode": plan.spec.mode,
                "layout": {
                    "ranks": list(plan.layout.ranks),
                    "nodes": list(plan.layout.nodes),
                    "why_ranks": plan.layout.why_ranks,
                    "why_nodes": plan.layout.why_nodes,
                },
                "steps": [
                    {
                        "phase": step.phase.value,
                        "where": step.where.value,
                        "why": step.why,
                        "argv": list(_shown(carried.get(step, ()))),
                    }
                    for step in plan.steps
                ],
                "values": {n: {"value": v, "origin": o} for n, (v, o) in _values(plan).items()},
                "notes": list(plan.notes),
            },
            indent=2,
        )
        + "\n"
    )


def _shown(argv: Words) -> Words:
    """Names of ours for what only the job knows, as a terminal can show them."""
    return tuple(word.replace(MARK, MARK[1:]) for word in argv)


def _values(plan: Plan) -> dict[str, tuple[str, str]]:
    """option -> (its value as text, where it came from). Values of -x stay out: they may be secrets."""
    spec = plan.spec
    found = {}
    for name, origin in spec.origins.items():
        if name in ("env", "env_file"):
            text = " ".join(spec.passed)
        elif name == "hosts":
            text = ",".join(map(str, spec.hosts))
        elif name == "no_home":
            text = str(not spec.home).lower()
        else:
            value = getattr(spec, {"bind": "binds"}.get(name, name))
            text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            text = text.lower() if isinstance(value, bool) else text
        found[name] = (text, origin)
    return found
