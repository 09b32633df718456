"""Ask Slurm about jobs and nodes, by pyslurm if it works here, else by Slurm's commands.

One question serves every process of this user on this machine for `poll` seconds. The last answers lie in
~/.mnrun/slurm.json (0600), refusals too. answers.py parses them.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import platform
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, TypeVar

from mnrun.errors import SchedulerError, UsageError
from mnrun.schedulers.slurm import answers
from mnrun.schedulers.slurm import pyslurm as answers_pyslurm
from mnrun.schedulers.slurm import steps as slurm
from mnrun.schedulers.slurm.answers import Job, Place
from mnrun.system import commands

SECONDS = 20  # seconds for one question: squeue alone would try for minutes
DAYS = 7
CACHE = "slurm.json"
# Variables of Slurm's commands that would change the question.
_SHAPERS = ("SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_")

T = TypeVar("T", Job, Place)


@dataclass(frozen=True)
class Answer:
    """Jobs, as Slurm knew them at `time`."""

    jobs: tuple[Job, ...]
    time: float


class Queue:
    """Slurm, as this user may ask it. `poll` is the least time between two questions of a kind, in seconds."""

    def __init__(self, environ: Mapping[str, str], home: Path, poll: float) -> None:
        self.poll = poll
        self._uid = os.getuid()
        self._cache = home / ".mnrun" / CACHE
        # One home may serve several clusters.
        self._site = "|".join([platform.node(), environ.get("SLURM_CONF", ""), environ.get("SLURM_CLUSTERS", "")])
        kept = {name: value for name, value in environ.items() if not name.startswith(_SHAPERS)}
        # Without the last two variables, times are local ones and Slurm cuts long arrays.
        self._environ = {**kept, "LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}

    def jobs(self) -> Answer:
        """Return all jobs of this user that slurmctld knows, recently ended ones too. Raises SchedulerError."""
        found, when = self._shared("jobs", self._ask_jobs, Job)
        return Answer(tuple(found), when)

    def history(self, ids: Sequence[str] = ()) -> tuple[Job, ...]:
        """Return the accounting's word on these jobs, or () without accounting.

        If `ids` is empty, the jobs are all of this user's in seven days.
        """
        words = ["-j", ",".join(sorted(ids))] if ids else ["-S", f"now-{DAYS}days"]
        found, _ = self._shared(f"history {words[1]}", lambda: self._ask_history(words), Job)
        return tuple(found)

    def places(self) -> tuple[Place, ...]:
        """Return every node, once for each of its partitions. Raises SchedulerError."""
        found, _ = self._shared("places", self._ask_places, Place)
        return tuple(found)

    def cancel(self, ids: Sequence[str], signal: str = "", scripts: Collection[str] = ()) -> list[str]:
        """End jobs, or send them a signal. Return a note for each job that had ended already.

        `scripts` are jobs whose script passes a signal on to every rank, once: of these, the script alone gets it. A
        plain scancel signals all processes, and so would end the one that keeps an image mounted. Raises SchedulerError
        if Slurm refuses.
        """
        told = [identity for identity in ids if identity in scripts]
        rest = [identity for identity in ids if identity not in scripts]
        how = ["-s", signal] if signal else []
        notes = self._scancel(["--batch", *how], told, signal) if told else []
        return notes + (self._scancel(how, rest, signal) if rest else [])

    def _scancel(self, how: Sequence[str], ids: Sequence[str], signal: str) -> list[str]:
        words = ["scancel", "-v", *how, *ids]
        done = self._start(words)
        self.forget()
        said = done.stderr.strip()
        if "Unknown job signal" in said:
            raise UsageError(f"--signal {signal} is not a signal", "write USR1, TERM or 15")
        failures = re.findall(r"error on job id (\S+): (.*)", said)
        ended = [job for job, why in failures if "already completing or completed" in why]
        wrong = [f"job {job}: {why}" for job, why in failures if job not in ended]
        if wrong or (done.returncode and not ended):
            raise SchedulerError("; ".join(wrong) or f"scancel: {said or done.returncode}")
        return [f"job {job} has ended already" for job in ended]

    def forget(self) -> None:
        """Drop the last answers: this process has just changed something."""
        with self._book() as book:
            book.pop(self._site, None)

    # Asking

    def _ask_jobs(self) -> list[Job]:
        told = _by_pyslurm(lambda slurm: answers_pyslurm.jobs(slurm.Jobs.load().values(), self._uid))
        if told is not None:
            return told
        words = ("squeue", "-t", "all", "-u", str(self._uid))
        if slurm.version(self._run("squeue", "--version")) >= answers.JSON_SINCE:
            said = self._start([*words, "--json"])
            commands.refuse_silence(said)
            with suppress(ValueError, KeyError, TypeError, AttributeError):  # built without JSON, or another shape
                return answers.squeue_json(said.stdout, self._uid)
        return answers.squeue_columns(self._run(*words, "-h", "-O", answers.widths(answers.SQUEUE)))

    def _ask_places(self) -> list[Place]:
        told = _by_pyslurm(
            lambda slurm: answers_pyslurm.places(slurm.Partitions.load().values(), slurm.Nodes.load().values())
        )
        if told is not None:
            return told
        # These columns are the same in all versions.
        return answers.sinfo_columns(self._run("sinfo", "-h", "-N", "-O", answers.widths(answers.SINFO)))

    def _ask_history(self, words: Sequence[str]) -> list[Job]:
        try:
            return answers.sacct_lines(
                self._run("sacct", "-X", "-n", "-P", "-u", str(self._uid), "-o", answers.SACCT, *words)
            )
        except SchedulerError:
            return []  # without accounting, or its database, slurmctld and the job directories must do

    def _run(self, *words: str) -> str:
        done = self._start(words)
        commands.refuse_silence(done)
        if done.returncode:
            raise SchedulerError(f"{words[0]}: {commands.last_line(done.stderr) or done.returncode}")
        return done.stdout

    def _start(self, words: Sequence[str]) -> CompletedProcess[str]:
        return commands.run(words, SECONDS, self._environ, instead="go to a login node")

    # The last answers

    def _shared(self, question: str, ask: Callable[[], list[T]], noun: type[T]) -> tuple[list[T], float]:
        """Return an answer that is younger than `poll`, else a new one. Processes that ask at the same time wait for
        it."""
        with self._book() as book:
            mine = book.setdefault(self._site, {})
            last = mine.get(question)
            if not _fresh(last, self.poll):
                last = {"time": time.time(), "failure": None, "found": []}
                try:
                    last["found"] = [asdict(found) for found in ask()]
                except SchedulerError as error:
                    last["failure"] = [error.message, error.remedy]
                mine[question] = last
        if last["failure"]:
            age = int(time.time() - last["time"])
            again = f" (asked {age} s ago; asked again {int(self.poll)} s after that)" if age > SECONDS else ""
            raise SchedulerError(last["failure"][0] + again, last["failure"][1])
        return [noun(**found) for found in last["found"]], last["time"]

    @contextmanager
    def _book(self) -> Iterator[dict[str, Any]]:
        """Yield the content of the file of last answers, under a lock. It is empty if the file cannot be opened."""
        try:
            self._cache.parent.mkdir(mode=0o700, exist_ok=True)
            handle = os.open(self._cache, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            yield {}
            return
        with os.fdopen(handle, "r+", encoding="utf-8", errors="surrogateescape") as file:
            _lock(handle)
            book = _read(file.read())
            try:
                yield book
            finally:
                young = {site: said for site, said in book.items() if any(_fresh(a, 3600) for a in said.values())}
                with suppress(OSError):
                    os.fchmod(handle, 0o600)
                    file.seek(0)
                    file.truncate()
                    json.dump(young, file)


def _by_pyslurm(ask: Callable[[Any], list[T]]) -> list[T] | None:
    """Return pyslurm's answer, or None without pyslurm or with one of another Slurm or API. The commands know as
    much."""
    if importlib.util.find_spec("pyslurm") is None:
        return None

    def imported() -> list[T]:
        # In a process of its own: pyslurm's library may hang, or end its process, where it finds no slurmctld.
        import pyslurm

        return ask(pyslurm)

    return commands.call("pyslurm", imported, SECONDS)


def _lock(handle: int) -> None:
    """Lock a file, but give up after some seconds: a filesystem may have no locks, or hang."""
    deadline = time.monotonic() + SECONDS + 5
    while time.monotonic() < deadline:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        except OSError:
            return
        else:
            return


def _read(text: str) -> dict[str, Any]:
    """Return the content of the file. The file of an earlier version, or half a file, counts as nothing."""
    try:
        book = json.loads(text)
        shaped = all({"time", "failure", "found"} <= set(said) for site in book.values() for said in site.values())
    except (ValueError, AttributeError, TypeError):
        return {}
    return book if shaped else {}


def _fresh(said: Mapping[str, Any] | None, seconds: float) -> bool:
    return said is not None and 0 <= time.time() - float(said["time"]) < seconds
