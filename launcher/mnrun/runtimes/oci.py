"""What docker and podman have in common: their words for a container of a job's.

What only the node knows (user, groups, limits, devices, GPUs, the variables of this very rank)
is added there by wrappers/container/engine.sh, and what they start is ended there by its label.
"""

from __future__ import annotations

import re

from mnrun.errors import LaunchError, UsageError
from mnrun.images.reference import for_stores
from mnrun.model import Box, Mount, Words

_NAME = re.compile(r"[a-z0-9][\w.-]*(:\d+)?(/[\w.-]+)*(:[\w.-]+)?(@sha256:[0-9a-f]{64})?")


def run(binary: str, box: Box, *flags: str) -> Words:
    """In the foreground, its standard input open: at its end worker.sh ends, and the container with it."""
    mounts = [word for mount in _mounts(box) for word in ("--mount", _mount(mount))]
    return (
        *(binary, "run", "--rm", "--interactive", f"--label=mnrun.job={box.job}", *flags),
        *("--network=host", "--ipc=host", "--uts=host"),
        "--log-driver=none",  # else all output is written to the node's disk as well
        "--entrypoint=",  # as apptainer exec and pyxis: the image's variables hold, its start script does not run
        *_rights(box),
        *mounts,
        *("--workdir", box.chdir, *box.args, box.image),
    )


def refuse(binary: str, reference: str) -> LaunchError | None:
    if _NAME.fullmatch(for_stores(reference, binary)):
        return None
    return UsageError(
        f"--image {reference} is no name of an image that {binary} has",
        f"name one of `{binary} images`, or use --runtime apptainer for a file",
    )


def _rights(box: Box) -> Words:
    if box.privileged:
        return ("--privileged",)
    if box.hardened:
        return ("--cap-drop=ALL", "--security-opt=no-new-privileges")
    return ("--cap-add=IPC_LOCK",)


def _mounts(box: Box) -> tuple[Mount, ...]:
    return (Mount(box.home), *box.binds) if box.home else box.binds


def _mount(mount: Mount) -> str:
    """--mount, since --volume makes what is not there, and as root; its value is a line of CSV."""
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target or mount.source}"]
    if mount.options == "ro":
        fields.append("readonly")
    return ",".join('"' + field.replace('"', '""') + '"' if '"' in field else field for field in fields)
