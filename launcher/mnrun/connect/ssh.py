"""Connect by the image's own sshd and ssh, with keys and a configuration that belong to one job.

sbatch_templates/ssh_config has the reason for every rule of the configuration.
"""

from __future__ import annotations

from collections.abc import Sequence

from mnrun.files import render
from mnrun.model import Worker

KEYED = True


def files(place: str, workers: Sequence[Worker]) -> dict[str, str]:
    """Return ssh_config with a Host block for each worker: its address and its port."""
    hosts: tuple[dict[str, object], ...] = tuple(
        {
            "names": " ".join(dict.fromkeys((w.name, w.host))),
            "address": w.address or w.host,
            "port": w.port,
            # A fact is one word. No user name has a colon (passwd(5)), so that a colon stands for a blank.
            "user": w.user.replace(":", " "),
        }
        for w in workers
    )
    return {"ssh_config": render("ssh_config", dir=place, hosts=hosts)}
