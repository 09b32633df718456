"""`mnrun exec`: run a command in the container of a running job."""

from __future__ import annotations

import os
import sys

from mnrun import environment
from mnrun.attach import enter, target
from mnrun.cli.work.jobs import bases_of
from mnrun.errors import Impossible, UsageError
from mnrun.jobs import archive, records
from mnrun.system import client
from mnrun.system.copied import Copied, is_file
from mnrun.system.screen import Screen


def exec(  # the verb's name
    identity: str, words: tuple[str, ...], rank: int | None, node: str, terminal: bool, job_dir: str | None
) -> None:
    """Run CMD in the container of a running job, and exit with CMD's code."""
    if rank is not None and node:
        raise UsageError("--rank and --node together", "choose one")
    if terminal and not os.isatty(0):
        raise UsageError("-t needs a terminal, and standard input is none", "leave out -t")
    bases = bases_of(job_dir)
    if records.is_id(identity):  # Slurm may give a task of an array the array's own number
        target.no_array(identity, archive.read(bases, [identity]))
    launch = target.launch(identity, bases)
    place = target.node(launch, rank, node)
    command = enter.command(launch, place, rank, words, terminal or (not words and os.isatty(0)))
    copied = Copied(1) if is_file(1) else None
    code = client.run(command, environment.for_srun(os.environ), client.EXITED, copied.end if copied else None)
    if copied is not None:
        copied.drain()
        if lost := copied.lost():
            Screen().error(lost)
            code = code or Impossible.code
    sys.exit(code)
