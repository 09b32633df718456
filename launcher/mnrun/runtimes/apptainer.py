"""Apptainer: always `exec` in the foreground, never `instance start`, so that what ends the step ends it.

`--nv` is not here: whether a node has an NVIDIA driver is asked there (wrappers/container/gpus.sh).
"""

from __future__ import annotations

from dataclasses import replace

from mnrun.errors import LaunchError
from mnrun.images import reference as names
from mnrun.model import Box, Words

BINARY = "apptainer"
CONTAINED = True
NAMED = False
ADVERB = "gpus.sh"
APART = True
FILES = True
USERS = False  # it makes them itself, but not as sshd wants them


def node(box: Box) -> Words:
    # A pid namespace of its own: when its first process ends the kernel ends all others,
    # also those that called setsid (prted, ranks).
    return _exec(box, "--pid")


def rank(box: Box) -> Words:
    # No --pid: CMA and CUDA IPC want one pid namespace for all ranks of a node.
    return _exec(box)


def hold(box: Box) -> Words:
    # By --sharens it has a name that others can join. It is none of the ranks': the first of those that come by
    # --sharens waits, once it has ended, for all others, so that their mpirun would not hear of a death.
    return _exec(box, "--sharens")


def join(box: Box) -> Words:
    return _exec(replace(box, binds=(), image="instance://sharens_instance_MNRUN_HOLDER"))


def refuse(reference: str) -> LaunchError | None:
    return None


def address(reference: str) -> str:
    return names.for_files(reference)


def _exec(box: Box, *flags: str) -> Words:
    binds = [word for mount in box.binds for word in ("--bind", str(mount))]
    home = () if box.home else ("--no-home",)
    return (BINARY, "-q", "exec", *flags, *home, *binds, "--pwd", box.chdir, *box.args, box.image)
