"""No network of our own: the lease carries commands, their input and their output (wrappers/pipe/pipe_frames.sh).

The image needs sh, and coreutils or busybox.
"""

from __future__ import annotations

from collections.abc import Sequence

from mnrun.model import Worker

KEYED = False


def files(node_dir: str, workers: Sequence[Worker]) -> dict[str, str]:
    """nodes: the names by which each worker may be called, the scheduler's first."""
    names = (dict.fromkeys(filter(None, (worker.name, worker.host, worker.address))) for worker in workers)
    return {"nodes": "".join(f"{' '.join(line)}\n" for line in names)}
