"""Connect without a network of mnrun's own: the lease carries commands, their input and their output.

wrappers/pipe/pipe_frames.sh has the format. The image needs sh, and coreutils or busybox.
"""

from __future__ import annotations

from collections.abc import Sequence

from mnrun.model import Worker

KEYED = False


def files(place: str, workers: Sequence[Worker]) -> dict[str, str]:
    """Return the file `nodes`: a line for each worker, with its possible names, the scheduler's name first."""
    names = (dict.fromkeys(filter(None, (worker.name, worker.host, worker.address))) for worker in workers)
    return {"nodes": "".join(f"{' '.join(line)}\n" for line in names)}
