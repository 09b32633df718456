"""Run kubectl or oc: the users' own login, plugins and proxies hold. No other module starts it.

Each call names its context and its namespace, so that a job stays where it began. A file of the user's has the place of
each job, for verbs that know its name alone.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import which
from typing import Any, cast

from mnrun.errors import SchedulerError
from mnrun.jobspec import JobSpec
from mnrun.model import Words
from mnrun.schedulers import parts
from mnrun.schedulers.kubernetes import PROGRAMS, answers, pods
from mnrun.schedulers.vocabulary import LETTERS
from mnrun.system import commands
from mnrun.system.paths import private

ASK = 30.0  # seconds
KINDS = "jobs,pods,configmaps"  # that jobs on pods have
KEPT = Path(".mnrun", "kubernetes")  # of the user's home: a file for each job


@dataclass(frozen=True)
class Place:
    """Where a job is: the program that reaches the cluster, and its context and namespace. "" is the program's own."""

    program: str = ""
    context: str = ""
    namespace: str = ""

    def words(self, *words: str) -> Words:
        """Return the words of a call."""
        options = (("--context", self.context), ("--namespace", self.namespace))
        named = (f"{option}={value}" for option, value in options if value)
        return (self.program or PROGRAMS[0], *named, *words)


def here(own: pods.Own, environ: Mapping[str, str]) -> Place:
    """Return the place that the settings of a job name, or else that of the user's own configuration. Raises
    SchedulerError if there is no such program or context."""
    named = {key: str(said.value) for key, said in own.items()}
    program = next((program for program in PROGRAMS if which(program, path=environ.get("PATH"))), PROGRAMS[0])
    place = Place(program, named.get("context", ""), named.get("namespace", ""))
    done = run(replace(place, namespace=""), ("config", "view", "--minify", "-o", "json"), environ)
    if done.returncode:
        if not place.context and "current-context" in done.stderr:  # in a pod, its service account is the login
            return place
        raise wrong(place, done)
    view = json.loads(done.stdout)
    found = (entry["context"].get("namespace") for entry in view.get("contexts") or ())
    return replace(place, context=view["current-context"], namespace=place.namespace or next(found, "") or "default")


def started(spec: JobSpec, room: str) -> dict[str, pods.Said]:
    """Return the settings of a job that begins now, under a name of its own with `room` for a suffix."""
    own = pods.settings(spec, f"{os.getuid()}:{os.getgid()}")
    name = f"{pods.name(spec, own, f'-12345{room}')}-{''.join(random.SystemRandom().choices(LETTERS, k=5))}"
    return {**own, "name": pods.Said(name, "mnrun"), "user": pods.Said(parts.user(), "the user who starts the job")}


def run(
    place: Place, words: Sequence[str], environ: Mapping[str, str], text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Return the ended call, with `text` on its input. Raises SchedulerError if it cannot start or does not end."""
    instead = "install kubectl, or use --local"
    return commands.run(place.words(*words), ASK, environ, instead=instead, daemon="its API server", text=text)


def ask(place: Place, words: Sequence[str], environ: Mapping[str, str], text: str = "") -> dict[str, Any]:
    """Return the answer to a call as JSON. Raises SchedulerError with the reason of a refusal."""
    done = run(place, (*words, "-o", "json"), environ, text)
    if done.returncode:
        raise wrong(place, done)
    try:
        first, _ = json.JSONDecoder().raw_decode(done.stdout.strip() or "{}")  # others may be behind it
    except ValueError:
        raise SchedulerError(f"{done.args[0]}: its answer ends too early", "try again") from None
    return cast("dict[str, Any]", first)


def create(place: Place, environ: Mapping[str, str], *objects: answers.Object) -> dict[str, Any]:
    """Make objects, and return a single one as the server has made it. Raises SchedulerError."""
    whole = objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": objects}
    return ask(place, ("create", "-f", "-"), environ, json.dumps(whole))


def of_job(place: Place, kinds: str, job: str, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the objects of a job. Raises SchedulerError."""
    return items(place, ("get", kinds, "-l", f"{answers.LABEL}={job}"), environ)


def delete(place: Place, kinds: str, job: str, environ: Mapping[str, str]) -> None:
    """Remove the objects of a job, and its file before: one that has neither was removed. Raises SchedulerError."""
    known = kept().get(job)
    forget(job)
    done = run(place, ("delete", kinds, "-l", f"{answers.LABEL}={job}", "--wait=false"), environ)
    if done.returncode:
        if known:
            remember(job, *known)
        raise wrong(place, done)


def items(place: Place, words: Sequence[str], environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the entries of a list. Raises SchedulerError."""
    return list(ask(place, words, environ).get("items") or ())


def version(place: Place, environ: Mapping[str, str]) -> tuple[int, int]:
    """Return the version of a server: (1, 20). Raises SchedulerError."""
    told = ask(place, ("version",), environ)["serverVersion"]
    return int(told["major"]), int(re.sub(r"\D.*", "", told["minor"]))  # some write 20+


def wrong(place: Place, done: subprocess.CompletedProcess[str]) -> SchedulerError:
    return SchedulerError(*answers.refusal(done.stderr, done.args[0], place.namespace))


def remember(job: str, place: Place, kind: str = "") -> None:
    """Keep the place of a job for later verbs, and the kind of its object if a server may lack it."""
    private(Path.home() / KEPT)
    (Path.home() / KEPT / job).write_text(json.dumps({**asdict(place), "kind": kind}), encoding="utf-8")


def forget(job: str) -> None:
    with suppress(OSError):
        (Path.home() / KEPT / job).unlink()


def kept() -> dict[str, tuple[Place, str]]:
    """Return (place, kind) of each job that is kept."""
    found = {}
    with suppress(OSError):
        for file in sorted((Path.home() / KEPT).iterdir()):
            with suppress(OSError, ValueError, TypeError):
                values = json.loads(file.read_text(encoding="utf-8"))
                kind = str(values.pop("kind", ""))
                found[file.name] = Place(**values), kind
    return found


def place_of(job: str, environ: Mapping[str, str]) -> Place:
    """Return the place of a job, or where this user's jobs are by default. Raises SchedulerError."""
    return kept()[job][0] if job in kept() else here({}, environ)
