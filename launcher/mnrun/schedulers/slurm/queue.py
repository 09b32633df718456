"""Ask Slurm about jobs and nodes, by pyslurm if it works here, else by Slurm's commands.

One question serves every process of this user on this machine for `poll` seconds. The last answers lie in
~/.mnrun/slurm.json (0600), refusals too. answers.py parses them.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import math
import os
import platform
import pwd
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, TypeVar

from mnrun.errors import NotYours, SchedulerError, UsageError
from mnrun.schedulers.queue import Job, PartitionNode, Snapshot
from mnrun.schedulers.slurm import answers, pyslurm, reasons, scontrol
from mnrun.system import commands

SECONDS = 20  # seconds for one question: squeue alone would try for minutes
DAYS = 7
CACHE = "slurm.json"
# Variables of Slurm's commands that would change the question.
_SHAPERS = ("SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_")

T = TypeVar("T", Job, PartitionNode)


class UserQueue:
    """Slurm, as this user may ask it. `poll` is the least time between two questions of a kind, in seconds."""

    def __init__(self, environ: Mapping[str, str], home: Path, poll: float) -> None:
        self.poll = poll
        self._uid = os.getuid()
        self._cache = home / ".mnrun" / CACHE
        # One home may serve several clusters.
        self._site = "|".join([platform.node(), environ.get("SLURM_CONF", ""), environ.get("SLURM_CLUSTERS", "")])
        clean = {name: value for name, value in environ.items() if not name.startswith(_SHAPERS)}
        # SLURM_TIME_FORMAT: seconds, not local times. SLURM_BITSTR_LEN=0: long arrays uncut.
        self._environ = {**clean, "LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}

    def jobs(self, age: float = math.inf) -> Snapshot:
        """Return all jobs of this user that slurmctld knows, recently ended ones too. Raises SchedulerError.

        The answer is younger than `poll`, and than `age` seconds.
        """
        jobs, when = self._shared("jobs", self._ask_jobs, Job, age)
        now = time.time()
        return Snapshot(tuple(replace(job, reason=reasons.sentence(job, now)) for job in jobs), when)

    def history(self, ids: Sequence[str] = ()) -> tuple[Job, ...]:
        """Return the accounting's word on these jobs, or () without accounting.

        If `ids` is empty, the jobs are all of this user's in seven days.
        """
        words = ["-j", ",".join(sorted(ids))] if ids else ["-S", f"now-{DAYS}days"]
        jobs, _ = self._shared(f"history {words[1]}", lambda: self._ask_history(words), Job)
        return tuple(jobs)

    def nodes(self) -> tuple[PartitionNode, ...]:
        """Return every node, once for each of its partitions. Raises SchedulerError."""
        nodes, _ = self._shared("nodes", self._ask_nodes, PartitionNode)
        return tuple(nodes)

    def names(self, option: str) -> tuple[str, ...]:
        """Return the values of an option that this user has: account, qos or reservation. Raises SchedulerError."""
        if option == "reservation":
            text = self._run("scontrol", "-o", "show", "reservation")
            return tuple(re.findall(r"^ReservationName=(\S+)", text, re.MULTILINE))
        user = pwd.getpwuid(self._uid).pw_name
        text = self._run("sacctmgr", "-n", "-P", "show", "associations", f"user={user}", f"format={option}")
        return tuple(sorted(set(re.split(r"[,\s]+", text)) - {""}))

    def cancel(self, ids: Sequence[str], signal: str = "", scripts: Collection[str] = ()) -> list[str]:
        """End jobs, or send them a signal. Return the jobs that had ended already.

        `scripts` are jobs whose script passes a signal on to every rank, once: of these, the script alone gets it. A
        plain scancel signals all processes, and so would end the one that keeps an image mounted. Raises SchedulerError
        if Slurm refuses.
        """
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
        """Drop the last answers: this process has just changed something."""
        if not os.path.lexists(self._cache):
            return
        with self._book() as book:
            book.pop(self._site, None)

    # Asking

    def _ask_jobs(self) -> list[Job]:
        jobs = _by_pyslurm(lambda library: pyslurm.jobs(library.Jobs.load().values(), self._uid))
        if jobs is not None:
            return jobs
        words = ("squeue", "-a", "-t", "all", "-u", str(self._uid))
        if scontrol.version(self._run("squeue", "--version"), "squeue") >= answers.JSON_SINCE:
            done = self._start([*words, "--json"])
            commands.refuse_silence(done)
            with suppress(*answers.SHAPES):  # built without JSON, or another shape
                return answers.squeue_json(done.stdout, self._uid)
        return answers.squeue_columns(self._run(*words, "-h", "-O", answers.widths(answers.SQUEUE)))

    def _ask_nodes(self) -> list[PartitionNode]:
        nodes = _by_pyslurm(
            lambda library: pyslurm.nodes(library.Partitions.load().values(), library.Nodes.load().values())
        )
        if nodes is not None:
            return nodes
        # These columns are the same in all versions.
        return answers.sinfo_columns(self._run("sinfo", "-a", "-h", "-N", "-O", answers.widths(answers.SINFO)))

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

    def _shared(
        self, question: str, ask: Callable[[], list[T]], kind: type[T], age: float = math.inf
    ) -> tuple[list[T], float]:
        """Return an answer that is younger than `poll` and `age`, else a new one. Processes that ask at the same time
        wait for it."""
        with self._book() as book:
            page = book.setdefault(self._site, {})
            last = page.get(question)
            if not (_fresh(last, min(self.poll, age)) and _fits(last, kind)):
                last = {"time": time.time(), "failure": None, "entries": []}
                try:
                    last["entries"] = [asdict(entry) for entry in ask()]
                except SchedulerError as error:
                    last["failure"] = [error.message, error.remedy]
                page[question] = last
        if last["failure"]:
            age = int(time.time() - last["time"])
            again = f" (asked {age} s ago; asked again {int(self.poll)} s after that)" if age > SECONDS else ""
            raise SchedulerError(last["failure"][0] + again, last["failure"][1])
        return [kind(**entry) for entry in last["entries"]], last["time"]

    @contextmanager
    def _book(self) -> Iterator[dict[str, Any]]:
        """Yield the content of the file of last answers, under a lock. It is empty if the file cannot be opened."""
        try:
            self._cache.parent.mkdir(mode=0o700, exist_ok=True)
            handle = os.open(self._cache, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            yield {}
            return
        file = os.fdopen(handle, "r+", encoding="utf-8", errors="surrogateescape")
        _lock(handle)
        book = _read(file.read())
        try:
            yield book
        finally:
            young = {site: page for site, page in book.items() if any(_fresh(last, 3600) for last in page.values())}
            with suppress(OSError):
                os.fchmod(handle, 0o600)
                file.seek(0)
                file.truncate()
                json.dump(young, file)
            with suppress(OSError):  # a full disk is found as the text is written out, which close() does
                file.close()


def _by_pyslurm(ask: Callable[[Any], list[T]]) -> list[T] | None:
    """Return pyslurm's answer, or None without pyslurm or with one of another Slurm or API. The commands know as
    much."""
    if importlib.util.find_spec("pyslurm") is None:
        return None

    def imported() -> list[T]:
        # In a process of its own: pyslurm's library may hang, or end its process, where it finds no slurmctld.
        import pyslurm as library

        return ask(library)

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
        shaped = all(_is_answer(last) for page in book.values() for last in page.values())
    except answers.SHAPES:
        return {}
    return book if shaped else {}


def _is_answer(last: Any) -> bool:
    """Return whether this is an answer with its time, or a failure with its message and remedy."""
    if not isinstance(last, dict) or not isinstance(last.get("time"), float):
        return False
    failure, entries = last.get("failure"), last.get("entries")
    refused = isinstance(failure, list) and len(failure) == 2 and all(isinstance(word, str) for word in failure)
    return isinstance(entries, list) and (failure is None or refused)


def _fits(last: Mapping[str, Any], kind: type[T]) -> bool:
    """Return whether the entries have the fields of `kind`. Those of another version of mnrun may have others."""
    names = {field.name for field in fields(kind)}
    return all(isinstance(entry, dict) and set(entry) == names for entry in last["entries"])


def _fresh(last: Mapping[str, Any] | None, seconds: float) -> bool:
    return last is not None and 0 <= time.time() - float(last["time"]) < seconds
