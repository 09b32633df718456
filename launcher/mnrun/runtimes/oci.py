"""Build the words for a container of a job: the common part of docker and podman.

wrappers/container/engine.sh adds the part that only the node knows: user, groups, limits, devices, GPUs, and the
variables of each rank. wrappers/lib/engines.sh finds a job's containers by their label, and ends them.
"""

from __future__ import annotations

import re

from mnrun.errors import UsageError
from mnrun.images.reference import for_stores
from mnrun.jobspec import Mount
from mnrun.model import Container, Words

_NAME = re.compile(r"[a-z0-9][\w.-]*(:\d+)?(/[\w.-]+)*(:[\w.-]+)?(@sha256:[0-9a-f]{64})?")


def run(binary: str, container: Container, *flags: str) -> Words:
    """Return the words of a container in the foreground. It ends with worker.sh, at the end of its standard input."""
    mounts = [word for mount in container.mounts for word in ("--mount", _mount(mount))]
    return (
        *(binary, "run", "--rm", "--interactive", f"--label=mnrun.job={container.job}", *flags),
        *("--network=host", "--ipc=host", "--uts=host"),
        "--log-driver=none",  # by default, the engine also writes all output to the node's disk
        # As in apptainer exec and pyxis, the image's variables are set, but its start script does not run.
        "--entrypoint=",
        *_rights(container),
        *mounts,
        *("--workdir", container.chdir, *container.args, container.image),
    )


def asked(container: Container) -> Container:
    """Return the container for a question about an image that is in the store."""
    return container._replace(home="", chdir="/", hardened=True, args=("--pull=never", *container.args))


def address(binary: str, reference: str) -> str:
    """Return the name of an image in the store. Raises UsageError if it is none, and Impossible for its scheme."""
    name = for_stores(reference, binary)
    if not _NAME.fullmatch(name):
        problem = f"--image {reference} is not an image name for {binary}"
        raise UsageError(problem, f"name one of `{binary} images`, or use --runtime apptainer for a file")
    return name


def _rights(container: Container) -> Words:
    """Return the rights of the container. Without no-new-privileges, a setuid file of the image makes root of the user.
    Under Docker that root is the node's."""
    if container.privileged:
        return ("--privileged",)
    return (*(("--cap-drop=ALL",) if container.hardened else ()), "--security-opt=no-new-privileges")


def tracing(container: Container) -> Words:
    """Return the capability by which the ranks in a container of their own pid namespace copy messages once.

    Open MPI 5 asks kcmp(2) first (open-mpi/ompi#10694), which an engine's filter of system calls allows with this
    capability alone. It reaches no process outside of that namespace.
    """
    return () if container.privileged or container.hardened else ("--cap-add=SYS_PTRACE",)


def _mount(mount: Mount) -> str:
    """Return the value of --mount, a line of CSV. --volume would make a missing source, as root."""
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target or mount.source}"]
    if mount.options == "ro":
        fields.append("readonly")
    return ",".join('"' + field.replace('"', '""') + '"' if '"' in field else field for field in fields)
