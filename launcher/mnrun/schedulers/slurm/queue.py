"""Ask Slurm about jobs and nodes, by pyslurm if it works here, else by Slurm's commands.

cache.py keeps the answers in ~/.mnrun/slurm.json, and answers.py parses them.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from mnrun.errors import NotYours, SchedulerError, UsageError
from mnrun.schedulers import parts
from mnrun.schedulers.cache import SECONDS, Answers, T  # squeue alone would try for minutes
from mnrun.schedulers.queue import Job, PartitionNode, Snapshot
from mnrun.schedulers.slurm import answers, client, pyslurm, reasons, scontrol
from mnrun.system import commands

DAYS = 7
CACHE = "slurm.json"
# Variables of Slurm's commands that would change the question.
_SHAPERS = ("SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_")


class UserQueue:
    """Slurm, as this user may ask it. `poll` is the least time between two questions of a kind, in seconds."""

    def __init__(self, environ: Mapping[str, str], home: Path, poll: float) -> None:
        self.poll = poll
        self._uid = os.getuid()
        self._answers = Answers(home / ".mnrun" / CACHE, poll, environ, ("SLURM_CONF", "SLURM_CLUSTERS"))
        clean = {name: value for name, value in environ.items() if not name.startswith(_SHAPERS)}
        # SLURM_TIME_FORMAT: seconds, not local times. SLURM_BITSTR_LEN=0: long arrays uncut.
        self._environ = {**clean, "LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}

    def jobs(self, age: float = math.inf) -> Snapshot:
        jobs, when = self._answers.shared("jobs", self._ask_jobs, Job, age)
        now = time.time()
        return Snapshot(tuple(replace(job, reason=reasons.sentence(job, now)) for job in jobs), when)

    def history(self, ids: Sequence[str] = ()) -> tuple[Job, ...]:
        words = ["-j", ",".join(sorted(ids))] if ids else ["-S", f"now-{DAYS}days"]
        jobs, _ = self._answers.shared(f"history {words[1]}", lambda: self._ask_history(words), Job)
        return tuple(jobs)

    def nodes(self) -> tuple[PartitionNode, ...]:
        nodes, _ = self._answers.shared("nodes", self._ask_nodes, PartitionNode)
        return tuple(nodes)

    def names(self, option: str) -> tuple[str, ...]:
        if option == "reservation":
            text = self._run("scontrol", "-o", "show", "reservation")
            return tuple(re.findall(r"^ReservationName=(\S+)", text, re.MULTILINE))
        user = f"user={parts.user()}"
        text = self._run("sacctmgr", "-n", "-P", "show", "associations", user, f"format={option}")
        return tuple(sorted(set(re.split(r"[,\s]+", text)) - {""}))

    def cancel(self, ids: Sequence[str], signal: str = "", scripts: Collection[str] = ()) -> list[str]:
        # A plain scancel signals all processes, and so would end the one that keeps an image mounted.
        batch = [identity for identity in ids if identity in scripts]
        rest = [identity for identity in ids if identity not in scripts]
        options = ["-s", signal] if signal else []
        ended = self._scancel(["--batch", *options], batch, signal) if batch else []
        return ended + (self._scancel(options, rest, signal) if rest else [])

    def _scancel(self, options: Sequence[str], ids: Sequence[str], signal: str) -> list[str]:
        done = self._start(["scancel", "-v", *options, *ids])
        self.forget()
        errors = done.stderr.strip()
        if "Unknown job signal" in errors:
            raise UsageError(f"--signal {signal} is not a signal", "write USR1, TERM or 15")
        failures = re.findall(r"error on job id (\S+): (.*)", errors)
        ended = [job for job, why in failures if "already completing or completed" in why]
        foreign = [job for job, why in failures if re.search("Invalid job id|Access/permission denied", why)]
        if foreign:
            raise NotYours(f"no job {', '.join(foreign)} of yours", foreign)
        wrong = [f"job {job}: {why}" for job, why in failures if job not in ended]
        if wrong or (done.returncode and not ended):
            raise SchedulerError("; ".join(wrong) or f"scancel: {errors or done.returncode}")
        return ended

    def forget(self) -> None:
        self._answers.forget()

    # Asking

    def _ask_jobs(self) -> list[Job]:
        jobs = _by_pyslurm(lambda library: pyslurm.jobs(library.Jobs.load().values(), self._uid))
        if jobs is not None:
            return jobs
        words = ("squeue", "-a", "-t", "all", "-u", str(self._uid))
        # These columns are the same in all versions.
        return answers.squeue_columns(self._run(*words, "-h", "-O", answers.SQUEUE))

    def _ask_nodes(self) -> list[PartitionNode]:
        nodes = _by_pyslurm(
            lambda library: pyslurm.nodes(library.Partitions.load().values(), library.Nodes.load().values())
        )
        if nodes is not None:
            return nodes
        return answers.sinfo_columns(self._run("sinfo", "-a", "-h", "-N", "-O", answers.SINFO))

    def _ask_history(self, words: Sequence[str]) -> list[Job]:
        try:
            return answers.sacct_lines(
                self._run("sacct", "-X", "-n", "-P", "-u", str(self._uid), "-o", answers.SACCT, *words)
            )
        except SchedulerError:
            return []  # without accounting, or its database, slurmctld and the job directories must do

    def _run(self, *words: str) -> str:
        return client.output(self._start(words))

    def _start(self, words: Sequence[str]) -> CompletedProcess[str]:
        return client.run(words, SECONDS, self._environ, instead="go to a login node")


def _by_pyslurm(ask: Callable[[Any], list[T]]) -> list[T] | None:
    """Return pyslurm's answer, or None without pyslurm or with one of another Slurm or API. The commands know as
    much."""
    if importlib.util.find_spec("pyslurm") is None:
        return None

    def imported() -> list[T]:
        # In a process of its own: pyslurm's library may hang, or end its process, where it finds no slurmctld.
        import pyslurm as library

        return ask(library)

    return commands.call("pyslurm", imported, SECONDS, "slurmctld")
