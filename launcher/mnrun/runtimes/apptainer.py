"""Apptainer: always `exec` in the foreground, never `instance start`, so that the end of the step ends the container.

`--nv` is absent here: wrappers/container/gpus.sh sets APPTAINER_NV, its equal, on nodes with an NVIDIA driver.
"""

from __future__ import annotations

import re
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
    return (*_begin(box), "--pwd", box.chdir, *box.args, "instance://sharens_instance_MNRUN_HOLDER")


def ask(box: Box) -> Words:
    # --contain keeps the home, /tmp and the working directory out.
    return _exec(replace(box, home="", chdir="/"), "--pid", "--contain")


def refuse(reference: str) -> LaunchError | None:
    return None


def address(reference: str) -> str:
    return names.for_files(reference)


def _exec(box: Box, *flags: str) -> Words:
    # A site (apptainer.conf), a variable (APPTAINER_CONTAIN) or an argument (--fakeroot) may turn off what Apptainer
    # mounts by default.
    mounts = box.binds if _has_own_home(box) else box.mounts
    binds = [word for mount in mounts for word in ("--bind", str(mount))]
    return (*_begin(box, *flags), *binds, "--pwd", box.chdir, *box.args, box.image)


def _begin(box: Box, *flags: str) -> Words:
    return (BINARY, "-q", "exec", *flags, *(() if box.home else ("--no-home",)))


def _has_own_home(box: Box) -> bool:
    """Return whether the arguments of the user choose the home directory, which a mount would hide."""
    return any(re.match(r"--(no-)?home\b|-H", word) for word in box.args)
