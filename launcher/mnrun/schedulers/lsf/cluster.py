"""Ask LSF about the job that mnrun is in, reach its nodes by blaunch, and hand in batch scripts."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mnrun.environment import for_another_job
from mnrun.errors import Impossible, SchedulerError
from mnrun.jobspec import JobSpec, Way
from mnrun.model import Allocation, Command, Node, Site, Words
from mnrun.schedulers import arrays, common, parts
from mnrun.schedulers.lsf import ANCESTORS, SUBMIT, TITLE, VARIABLES, answers, job
from mnrun.schedulers.vocabulary import BatchStart, JobId, StepPlace, number
from mnrun.system import commands

if TYPE_CHECKING:
    from mnrun.reach.transport import Transport
    from mnrun.schedulers.cache import CachedQueue
    from mnrun.schedulers.queue import Job, PartitionNode

REACHES: tuple[str, ...] = ("call",)
CLIENT, ENDS = "blaunch", "LSF ends what is left there"
GRACE = 10  # seconds
run = partial(commands.run, instead="load LSF's profile.lsf, or use --local", daemon="mbatchd")


def ask(environ: Mapping[str, str], *which: str) -> str:
    """Return what bjobs tells of jobs, which is nothing where it finds none. Raises SchedulerError."""
    done = run(("bjobs", "-hms", "-json", "-o", answers.FIELDS, *which), parts.ASK, environ)
    if done.returncode and not done.stdout.strip() and not re.search(r"not found|No \w+ job", done.stderr):
        raise SchedulerError(commands.complaint(done))
    return done.stdout


def start(environ: Mapping[str, str]) -> BatchStart:
    """Return this start of the job ("Environment variables set for job execution", LSF 10.1)."""
    number, _, index = job(environ).partition(".")
    script = "" if "LSB_INTERACTIVE" in environ else parts.script_below(ANCESTORS)
    identity = arrays.identity(number, index, environ.get(arrays.VARIABLE, ""))
    called, cluster = environ.get("LSB_JOBNAME", "").partition("[")[0], name(environ) if number else ""
    return parts.started(identity, script, called, cluster, _hosts(environ), int("LSB_RESTART" in environ))


def _hosts(environ: Mapping[str, str]) -> dict[str, int]:
    """Return host -> slots of the job. LSB_DJOB_HOSTFILE has a line for each slot."""
    found = parts.node_file("LSB_DJOB_HOSTFILE", environ) or answers.hosts(environ.get("LSB_MCPU_HOSTS", ""))
    return found or ({os.uname().nodename: 1} if job(environ) else {})


def current(environ: Mapping[str, str]) -> tuple[Allocation, Site]:
    """Return the job that mnrun is in. With -gpu, each host has as many GPUs as this one."""
    hosts, gpus = _hosts(environ), re.findall("[^,]+", environ.get("CUDA_VISIBLE_DEVICES", ""))
    nodes = tuple(Node(name, slots, len(gpus)) for name, slots in hosts.items())
    ranks = sum(hosts.values()) // (number(environ.get(common.CPUS, "")) or 1)
    return parts.held(start(environ), nodes, ranks, Site("lsf", job(environ)), "")


partition, site = partial(parts.variable, "LSB_QUEUE"), partial(parts.site, "lsf")


def name(environ: Mapping[str, str]) -> str:
    """Return the name of the cluster, by its file lsf.cluster.NAME."""
    files = Path(environ.get("LSF_ENVDIR") or "/etc").glob("lsf.cluster.*")
    return next((file.name.split(".", 2)[2] for file in sorted(files)), "")


def reach(allocation: Allocation, way: Way) -> Transport:
    """Return a transport whose nodes call back: no input goes through blaunch. The first node is this machine."""
    from mnrun.reach.calling import Calls  # imported here, since few verbs need it

    names = tuple(node.name for node in allocation.nodes)
    return Calls(names, lambda node, line: (CLIENT, "-n", node, line), names[:1], way)


on_each = partial(parts.on_each, reach, "see whether blaunch reaches it")


def beside(place: StepPlace, words: Words) -> list[Command]:
    """Return an ssh for each node. Outside of the job, there is no blaunch (blaunch(1))."""
    from mnrun.reach import ssh

    return parts.by_ssh(place, words, lambda node, line, terminal: ssh.words(node, line, terminal=terminal))


def _jobs(environ: Mapping[str, str], *which: str) -> list[Job]:
    """Return jobs of this user, with those that ended not long ago (lsb.params(5), CLEAN_PERIOD)."""
    return answers.jobs(ask(environ, "-a", *which), time.time())


def _queued(job: str, environ: Mapping[str, str]) -> Job | None:
    return next(iter(_jobs(environ, re.sub(r"\.(\d+)", r"[\1]", job))), None)


_state = parts.Queued(_queued)
runs, ending, time_limit = _state.runs, _state.ending, _state.time_limit


def submit(script: str, spec: JobSpec, environ: Mapping[str, str]) -> tuple[str, str]:
    """Hand in the text of a batch script. Return the job's number, and further messages. Raises SchedulerError."""
    done = parts.hand_in(run, (SUBMIT,), script, for_another_job(environ, [VARIABLES]))
    if found := re.search(r"Job <(\d+)> is submitted to", done.stdout):
        return found[1], done.stderr.strip()
    said = (done.stderr or done.stdout or str(done.returncode)).splitlines()
    raise SchedulerError(f"bsub: {'; '.join(filter(None, said))}", "see mnrun plan, or bqueues -l")


def user_queue(environ: Mapping[str, str], home: Path, poll: float) -> CachedQueue:
    """Return the queue, as this user may read it."""
    from mnrun.schedulers.cache import Answers, CachedQueue

    kept, jobs = Answers(home / ".mnrun" / "lsf.json", poll, environ, ("LSF_ENVDIR",)), partial(_jobs, environ)
    return CachedQueue(TITLE, kept, jobs, lambda ids: jobs(), _nodes, partial(_delete, environ))


def _nodes() -> list[PartitionNode]:
    raise Impossible("mnrun does not ask LSF about its nodes", "type bhosts")


def _delete(environ: Mapping[str, str], job: JobId) -> bool:
    """End a job. A parallel one gets no warning from bkill, but a KILL (lsf.conf(5), LSB_USE_SEQUENTIAL_SIGNAL), which
    leaves more behind. So one that runs gets a TERM first, and time to end."""
    alive = answers.alive(ask(environ, job.number), job)
    which = [*alive] if job.task else [job.number] * bool(alive)
    if "RUN" in alive.values():
        _kill(environ, job, "-s", "TERM", *which)
        until = time.monotonic() + GRACE
        while "RUN" in answers.alive(ask(environ, job.number), job).values() and time.monotonic() < until:
            time.sleep(0.5)
    if which:
        _kill(environ, job, *which)
    return bool(which)


def _kill(environ: Mapping[str, str], job: JobId, *words: str) -> None:
    parts.ended(job, run(("bkill", *words), parts.ASK, environ), "permission", "finished|No matching")
