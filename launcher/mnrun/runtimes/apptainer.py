"""Apptainer: always `exec` in the foreground, never `instance start`, so that the end of the step ends the container.

`--nv` is absent here: wrappers/container/gpus.sh sets APPTAINER_NV, its equal, on nodes with an NVIDIA driver.
"""

from __future__ import annotations

import re

from mnrun.images import reference as names
from mnrun.model import Container, Words

BINARY = "apptainer"
CONTAINED = True
HAS_STORE = False
ADVERB = "gpus.sh"
OWN_USER_NAMESPACE = True
PASSES_OPEN_FILES = True
NEEDS_PASSWD = False  # apptainer makes them itself, but not in the form that sshd needs
NEEDS_TRIAL = False


def node(container: Container) -> Words:
    # A pid namespace of its own: when its first process ends, the kernel ends all others (pid_namespaces(7)), even
    # after setsid (prted, ranks).
    return _exec(container, "--pid")


def rank(container: Container) -> Words:
    # No --pid: CMA and CUDA IPC need one pid namespace for all ranks of a node.
    return _exec(container)


def hold(container: Container) -> Words:
    # --sharens gives the container a name, by which other commands join it. The first command of --sharens waits at its
    # end for all others. A rank must not be the first, since its mpirun would then miss its death.
    return _exec(container, "--sharens")


def join(container: Container) -> Words:
    return (*_begin(container), "--pwd", container.chdir, *container.args, "instance://sharens_instance_MNRUN_HOLDER")


def ask(container: Container) -> Words:
    # --contain keeps the home, /tmp and the working directory out.
    return _exec(container._replace(home="", chdir="/"), "--pid", "--contain")


def address(reference: str) -> str:
    return names.for_files(reference)


def _exec(container: Container, *flags: str) -> Words:
    # A site (apptainer.conf), a variable (APPTAINER_CONTAIN) or an argument (--fakeroot) may turn off what Apptainer
    # mounts by default.
    mounts = container.binds if _has_own_home(container) else container.mounts
    binds = [word for mount in mounts for word in ("--bind", str(mount))]
    return (*_begin(container, *flags), *binds, "--pwd", container.chdir, *container.args, container.image)


def _begin(container: Container, *flags: str) -> Words:
    return (BINARY, "-q", "exec", *flags, *(() if container.home else ("--no-home",)))


def _has_own_home(container: Container) -> bool:
    """Return whether the arguments of the user choose the home directory, which a mount would hide."""
    return any(re.match(r"--(no-)?home\b|-H", word) for word in container.args)
