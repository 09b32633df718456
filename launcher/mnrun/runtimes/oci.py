"""Build the words for a container of a job: the common part of docker and podman.

wrappers/container/engine.sh adds the part that only the node knows: user, groups, limits, devices, GPUs, and the
variables of each rank. wrappers/lib/engines.sh finds a job's containers by their label, and ends them.
"""

from __future__ import annotations

import re
from dataclasses import replace

from mnrun.errors import LaunchError, UsageError
from mnrun.images.reference import for_stores
from mnrun.jobspec import Mount
from mnrun.model import Box, Words

_NAME = re.compile(r"[a-z0-9][\w.-]*(:\d+)?(/[\w.-]+)*(:[\w.-]+)?(@sha256:[0-9a-f]{64})?")


def run(binary: str, box: Box, *flags: str) -> Words:
    """Return the words of a container in the foreground with an open standard input.

    At the end of its input, worker.sh ends, and the container with it.
    """
    mounts = [word for mount in box.mounts for word in ("--mount", _mount(mount))]
    return (
        *(binary, "run", "--rm", "--interactive", f"--label=mnrun.job={box.job}", *flags),
        *("--network=host", "--ipc=host", "--uts=host"),
        "--log-driver=none",  # by default, the engine also writes all output to the node's disk
        # As in apptainer exec and pyxis, the image's variables are set, but its start script does not run.
        "--entrypoint=",
        *_rights(box),
        *mounts,
        *("--workdir", box.chdir, *box.args, box.image),
    )


def asked(box: Box) -> Box:
    """Return the container for a question about an image that is in the store."""
    return replace(box, home="", chdir="/", hardened=True, args=("--pull=never", *box.args))


def refuse(binary: str, reference: str) -> LaunchError | None:
    if _NAME.fullmatch(for_stores(reference, binary)):
        return None
    return UsageError(
        f"--image {reference} is not an image name for {binary}",
        f"name one of `{binary} images`, or use --runtime apptainer for a file",
    )


def _rights(box: Box) -> Words:
    """Return the rights of the container.

    Without no-new-privileges, a setuid file of the image makes root of the user. Under Docker that root is the node's.
    """
    if box.privileged:
        return ("--privileged",)
    return (*(("--cap-drop=ALL",) if box.hardened else ()), "--security-opt=no-new-privileges")


def tracing(box: Box) -> Words:
    """Return the capability by which the ranks in a container of their own pid namespace copy messages once.

    Open MPI 5 asks kcmp(2) first (open-mpi/ompi#10694), which an engine's filter of system calls allows with this
    capability alone. It reaches no process outside of that namespace.
    """
    return () if box.privileged or box.hardened else ("--cap-add=SYS_PTRACE",)


def _mount(mount: Mount) -> str:
    """Return the value of --mount, a line of CSV. --volume would make a missing source, as root."""
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target or mount.source}"]
    if mount.options == "ro":
        fields.append("readonly")
    return ",".join('"' + field.replace('"', '""') + '"' if '"' in field else field for field in fields)
