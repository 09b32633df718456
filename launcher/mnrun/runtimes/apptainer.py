"""Apptainer: always `exec` in the foreground, never `instance start`, so that the end of the step ends the container.

`--nv` is absent here: wrappers/container/gpus.sh sets APPTAINER_NV, its equal, on nodes with an NVIDIA driver.
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
USERS = False  # apptainer makes them itself, but not in the form that sshd needs
TRIED = False


def node(box: Box) -> Words:
    # A pid namespace of its own: when its first process ends, the kernel ends all others (pid_namespaces(7)), even
    # after setsid (prted, ranks).
    return _exec(box, "--pid")


def rank(box: Box) -> Words:
    # No --pid: CMA and CUDA IPC need one pid namespace for all ranks of a node.
    return _exec(box)


def hold(box: Box) -> Words:
    # --sharens gives the container a name, by which other commands join it. The first command of --sharens waits at its
    # end for all others. A rank must not be the first, since its mpirun would then miss its death.
    return _exec(box, "--sharens")


def join(box: Box) -> Words:
    return _exec(replace(box, binds=(), image="instance://sharens_instance_MNRUN_HOLDER"))


def ask(box: Box) -> Words:
    # --contain keeps the home, /tmp and the working directory out.
    return _exec(replace(box, home="", chdir="/"), "--pid", "--contain")


def refuse(reference: str) -> LaunchError | None:
    return None


def address(reference: str) -> str:
    return names.for_files(reference)


def _exec(box: Box, *flags: str) -> Words:
    binds = [word for mount in box.binds for word in ("--bind", str(mount))]
    home = () if box.home else ("--no-home",)
    return (BINARY, "-q", "exec", *flags, *home, *binds, "--pwd", box.chdir, *box.args, box.image)
