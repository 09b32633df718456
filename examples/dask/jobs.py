"""A Dask cluster whose workers are batch jobs of mnrun: each job has one worker on each of its nodes, in an image."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

from distributed import Scheduler, SpecCluster
from distributed.deploy.spec import ProcessInterface

from mnrun import Job

WORKER = 'exec dask worker "$0" --name "$1-$RANK" --nthreads 1 --no-nanny --no-dashboard'


class JobOfWorkers(ProcessInterface):
    """One job. Its workers are called NAME-0, NAME-1 and so on, after their ranks."""

    def __init__(self, scheduler: str, name: int, **options: Any) -> None:
        super().__init__(scheduler=scheduler, name=name)
        self._job = Job(["sh", "-c", WORKER, scheduler, str(name)], launcher="env", ntasks_per_node=1, **options)

    async def start(self) -> None:
        """Submit the job. Its workers come when it starts."""
        self._handle = await asyncio.to_thread(self._job.submit)
        await super().start()

    async def close(self) -> None:
        """End the job, whether its workers have come or not."""
        await asyncio.to_thread(self._handle.cancel)
        await super().close()


def cluster_of_jobs(jobs: int, nodes: int, **options: Any) -> SpecCluster:
    """Return a cluster of so many jobs of so many nodes, with the options of mnrun.Job. Its scheduler runs here."""
    spec = {"cls": JobOfWorkers, "options": {"nodes": nodes, **options}, "group": [f"-{n}" for n in range(nodes)]}
    scheduler = {"cls": Scheduler, "options": {"host": socket.gethostname(), "dashboard_address": ":0"}}
    logging.getLogger("distributed").setLevel(logging.WARNING)  # silence_logs would end before the connections close
    return SpecCluster(dict.fromkeys(range(jobs), spec), scheduler=scheduler, silence_logs=False)
