"""Tell a plan, and whether it will work, in one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mnrun import nodeset
from mnrun.model import Plan
from mnrun.planning.layout import size

if TYPE_CHECKING:
    from mnrun.planning.compatibility import Verdict


def of_verdict(verdict: Verdict | None, origin: str) -> str:
    """Return the verdict in one line."""
    if verdict is None:
        return f"verdict: none, {origin or 'inside-out needs nothing of the node; `mnrun plan` asks the image'}"
    return f"verdict: {verdict.chosen}; {verdict.notes[0]}; {origin}"


def of_plan(plan: Plan) -> str:
    """Return the layout with its reasons, and how the ranks start, in one line."""
    layout, program = plan.layout, plan.spec.program
    nodes = nodeset.fold(layout.nodes) if layout.nodes else "no nodes yet"
    start = f"ranks by {'mpirun, or by mnrun without one' if plan.starter == 'auto' else plan.starter}"
    if program.once:
        start = f"{program.command[0]} starts its own ranks"
    elif not program.direct:
        start = "a shell in the master container" if program.prompt else "the script in the master container"
    how = f"{plan.spec.start.mode}, {plan.spec.container.runtime}, {start}"
    return f"{size(layout)} ({layout.why_ranks}) on {nodes} ({layout.why_nodes}); {how}"
