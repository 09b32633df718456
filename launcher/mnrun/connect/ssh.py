"""The image's own sshd and ssh, with keys and a configuration that belong to one job.

Every rule of the configuration has its reason in sbatch_templates/ssh_config.
"""

from __future__ import annotations

from collections.abc import Sequence

from mnrun.files import render
from mnrun.model import Worker

KEYED = True


def files(node_dir: str, workers: Sequence[Worker]) -> dict[str, str]:
    """ssh_config with a Host block for each worker: its own address, its own port."""
    hosts: tuple[dict[str, object], ...] = tuple(
        {
            "names": " ".join(dict.fromkeys((w.name, w.host))),
            "address": w.address or w.host,
            "port": w.port,
            "user": w.user.replace(":", " "),  # as a fact, which is one word, and no name has a colon
        }
        for w in workers
    )
    return {"ssh_config": render("ssh_config", dir=node_dir, hosts=hosts)}
