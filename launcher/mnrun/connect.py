"""Write the files by which the master container reaches the containers of other nodes.

Inside, one command does so: `ssh NODE COMMAND`, first on PATH. It is the image's own ssh, or comes by the pipe.
"""

from __future__ import annotations

from collections.abc import Sequence

from mnrun.files import render
from mnrun.model import Worker

KEYED = ("ssh",)  # needs keys made for the job


def files(connect: str, place: str, workers: Sequence[Worker]) -> dict[str, str]:
    """Return name -> text of the files that every node gets in the directory `place` once all are ready."""
    return {"ssh_config": _ssh_config(place, workers)} if connect == "ssh" else {"nodes": _nodes(workers)}


def _nodes(workers: Sequence[Worker]) -> str:
    """Return a line for each worker, with its possible names, the scheduler's name first (pipe_ssh.sh)."""
    names = (dict.fromkeys(filter(None, (worker.name, worker.host, worker.address))) for worker in workers)
    return "".join(f"{' '.join(line)}\n" for line in names)


def _ssh_config(place: str, workers: Sequence[Worker]) -> str:
    """Return the configuration with a Host block for each worker. Its template has the reason for every rule."""
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
    return render("ssh_config", dir=place, hosts=hosts)
