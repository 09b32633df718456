"""Build the commands that enter nodes of a running launch."""

from __future__ import annotations

from collections.abc import Sequence

from mnrun.jobs.launches import LaunchRecord
from mnrun.model import Command, Words
from mnrun.nodes import kit
from mnrun.schedulers import SCHEDULERS
from mnrun.schedulers.model import Beside


def command(target: LaunchRecord, node: str, rank: int | None, words: Sequence[str], terminal: bool) -> Command:
    """Return the command that runs `words` in the container of a rank, or of the first rank on `node`."""
    inner = kit.enter(target.node_dir, "" if rank is None else str(rank), tuple(words))
    return on_nodes(target, [node], inner, terminal)[0]


def on_nodes(target: LaunchRecord, nodes: Sequence[str], words: Words, terminal: bool = False) -> list[Command]:
    """Return the commands that run `words` on these nodes of a launch.

    They carry the job's mark from their first process on, by which the guard ends them with the job.
    """
    gpus = {target.gpus.get(name, 0) for name in nodes}
    place = Beside(
        job=target.number,
        nodes=tuple(nodes),
        gpus=gpus.pop() if len(gpus) == 1 else 0,
        binds=target.binds,
        user=target.ssh_user,
        port=target.ssh_port,
        terminal=terminal,
    )
    return SCHEDULERS[target.scheduler].beside(place, ("env", f"MNRUN_JOB_ID={target.job}", *words))
