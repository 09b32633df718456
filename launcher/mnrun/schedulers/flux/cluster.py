"""Ask Flux about the job that mnrun is in, reach its nodes, and hand in batch scripts.

The script of a batch job runs below an instance of its own (flux-batch(1)). That instance has the nodes of the job, and
the one around it, `flux --parent`, has the job and the queue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mnrun import nodeset
from mnrun.environment import for_another_job
from mnrun.errors import SchedulerError
from mnrun.jobspec import JobSpec, Way
from mnrun.model import Allocation, Command, Node, Site, Unwell, Words
from mnrun.schedulers import common, parts, writing
from mnrun.schedulers.flux import ANCESTORS, RANKS, TITLE, VARIABLES, answers, job, typed
from mnrun.schedulers.flux.options import directives
from mnrun.schedulers.vocabulary import BatchStart, JobId, JobState, StepPlace, number, span
from mnrun.system import commands

if TYPE_CHECKING:
    from mnrun.reach.transport import Transport
    from mnrun.schedulers.cache import CachedQueue
    from mnrun.schedulers.queue import Job, PartitionNode

# At its end, the script gets HUP and TERM, or ALRM at its time limit, and KILL 5 seconds later (seen with 0.88).
ENDINGS: tuple[str, ...] = ("TERM", "HUP", "ALRM")
CLIENT, ENDS = "flux exec -r RANK", "Flux ends what is left there"
BINARY = False  # flux exec loses what follows a NUL in a line (seen with 0.88)
ON_NODE = "mnrun_address=''\n"  # SSH_CONNECTION is that of the login node
RECENT = ("-a", "--since=-7d", "-c", "0")  # all jobs of this user's
GONE = 68  # the exit code of flux exec for a broker that is not there (EX_NOHOST)

# flux exec hands on its environment, and buffers its output (seen with 0.88).
_EXEC = ("stdbuf", "-o0", "flux", "exec", "-q")
_UNBUFFERED = ("env", "-u", "LD_PRELOAD", "-u", "_STDBUF_O")
# A broker kills the process group of its command if flux exec dies. The guard cleans up, in a session of its own.
_ALONE = ("setsid", "-w", "setpriv", "--pdeathsig", "HUP")
run = partial(commands.run, instead="load Flux's module, or use --local", daemon="flux-broker")
ask = partial(parts.ask, run)


def tunnels(place: StepPlace, port: int, login: tuple[str, str], entrance: Callable[[], str]) -> dict[str, str]:
    """Return those of ssh to the node: none goes through flux exec."""
    return common.tunnels(place, port, login, str)


def _flux(environ: Mapping[str, str]) -> Words:
    """Return `flux`, as it speaks of the queue that has the job around mnrun."""
    return ("flux", "--parent") if job(environ) else ("flux",)


def start(environ: Mapping[str, str]) -> BatchStart:
    """Return this start of the job. The broker's words tell a script from a command of flux alloc."""
    if not (identity := job(environ)):
        return parts.started("", "", "", "", ())
    script, called = parts.script_below(ANCESTORS, b"/script\0"), _request(identity, environ)[0]
    return parts.started(identity, script, called, name(environ), (host.name for host in _hosts(environ)))


def _hosts(environ: Mapping[str, str] | None = None) -> list[answers.Host]:
    """Return the hosts of the instance around mnrun. Raises Impossible if one has several brokers."""
    return answers.hosts(ask("flux", "kvs", "get", "resource.R", environ=environ))


def _request(identity: str, environ: Mapping[str, str]) -> tuple[str, int, int]:
    return answers.request(ask(*_flux(environ), "job", "info", identity, "jobspec", environ=environ))


def current(environ: Mapping[str, str]) -> tuple[Allocation, Site]:
    """Return the job that mnrun is in. Raises SchedulerError."""
    identity = job(environ)
    nodes = tuple(Node(host.name, host.cores, len(host.gpus)) for host in _hosts(environ))
    ranks = number(environ.get(RANKS, "")) or _request(identity, environ)[1]
    return parts.held(start(environ), nodes, ranks, Site("flux", identity), "")


site = partial(parts.site, "flux")


def name(environ: Mapping[str, str]) -> str:
    """Return the first host of the instance that has the queue."""
    with suppress(SchedulerError):
        return nodeset.expand(ask(*_flux(environ), "getattr", "hostlist", environ=environ).strip())[0]
    return ""


def reach(allocation: Allocation, way: Way) -> Transport:
    """Return a transport with a flux exec for each command on another node. The first one is this machine.

    flux exec hands on the environment of this machine, so each node gets its own GPUs by name.
    """
    from mnrun.reach.transport import Transport  # imported here, since few verbs need it

    names = tuple(node.name for node in allocation.nodes)
    gpus = {host.name: host.gpus for host in (_hosts() if any(node.gpus for node in allocation.nodes) else ())}

    def client(node: str, line: str, terminal: bool) -> Words:
        own = (f"CUDA_VISIBLE_DEVICES={','.join(map(str, gpus[node]))}",) if gpus.get(node) else ()
        return (*_EXEC, "-r", str(names.index(node)), *_UNBUFFERED, *own, *_ALONE, "sh", "-c", line)

    return Transport(names, client, names[:1], GONE)


on_each = partial(parts.on_each, reach, "see whether flux exec reaches it")


def beside(place: StepPlace, words: Words) -> list[Command]:
    """Return a flux exec for each node. By the job's number, it works from the instance that has the queue."""
    # In the job itself, the shell that starts flux knows that the queue is that of the instance around.
    flux = ("sh", "-c", 'exec stdbuf -o0 flux ${FLUX_ENCLOSING_ID:+--parent} "$@"', "flux")
    (found,) = answers.entries(ask(*flux, "jobs", "--json", place.job))
    names = nodeset.expand(found["nodelist"])

    def client(node: str, line: str) -> Words:
        return (*flux, "exec", "-q", "-j", place.job, "-r", str(names.index(node)), *_UNBUFFERED, "sh", "-c", line)

    return parts.beside(place, words, client)


def runs(job: str, environ: Mapping[str, str]) -> bool:
    return ending(Site("flux", job), environ) in (JobState.RUNNING, JobState.UNKNOWN)


def ending(site: Site, environ: Mapping[str, str]) -> JobState:
    """Return the state in which the job ends. As long as it cleans up, the list of jobs does not tell."""
    with suppress(SchedulerError):
        return answers.ending(ask(*_flux(environ), "job", "eventlog", site.job, environ=environ))
    return JobState.UNKNOWN


def time_limit(job: str, environ: Mapping[str, str]) -> str:
    with suppress(SchedulerError):
        return span(seconds) if (seconds := _request(job, environ)[2]) else ""
    return ""


def _down(environ: Mapping[str, str]) -> Mapping[str, Unwell]:
    """Return the nodes whose broker has gone."""
    down = answers.hosts(ask("flux", "resource", "R", "-s", "down", environ=environ))
    return {host.name: Unwell(answers.DOWN, True) for host in down}


lost = partial(parts.lost, _down)


def end(job: str, environ: Mapping[str, str]) -> None:
    with suppress(SchedulerError):
        run((*_flux(environ), "cancel", job), parts.ASK, environ)


def interactive(spec: JobSpec, options: Sequence[str], words: Words, environ: Mapping[str, str]) -> Words:
    """Return the flux alloc that runs `words` in a job of its own, on this terminal."""
    asked = parts.of_shell(directives(spec, writing.evenly(spec)), "--(?!output|error)")
    return (*_flux(environ), "alloc", *asked, *words)


def submit(script: str, spec: JobSpec, environ: Mapping[str, str]) -> tuple[str, str]:
    """Hand in the text of a batch script. Return the job's number, and further messages. Raises SchedulerError."""
    clean = for_another_job(environ, [VARIABLES])
    done = parts.hand_in(run, (*_flux(environ), "batch"), script, clean)
    identity = typed(re.sub("^f", "ƒ", done.stdout.strip()))  # f where the locale has no ƒ
    if done.returncode == 0 and identity.isdecimal():
        return identity, done.stderr.strip()
    raise SchedulerError(commands.complaint(done), "see mnrun plan, or flux resource list")


def user_queue(environ: Mapping[str, str], home: Path, poll: float) -> CachedQueue:
    """Return the queue, as this user may read it."""
    from mnrun.schedulers.cache import Answers, CachedQueue

    flux = _flux(environ)

    def jobs(ids: Sequence[str] = ()) -> list[Job]:
        which = sorted({JobId.of(one).number for one in ids}) or RECENT
        done = run((*flux, "jobs", "--json", *which), parts.ASK, environ)
        if done.returncode and not ids:  # it complains of ids that it does not know, beside its answer
            raise SchedulerError(commands.complaint(done))
        return [answers.job(entry) for entry in answers.entries(done.stdout)]

    def nodes() -> list[PartitionNode]:
        states = ("free,allocated,down", "free", "down")
        return answers.nodes(*(ask(*flux, "resource", "R", "-s", state, environ=environ) for state in states))

    def delete(job: JobId) -> bool:
        done = run((*flux, "cancel", str(job)), parts.ASK, environ)
        return parts.ended(job, done, "unknown job id|not permitted", "inactive")

    kept = Answers(home / ".mnrun" / "flux.json", poll, environ, ("FLUX_URI",))
    return CachedQueue(TITLE, kept, jobs, jobs, nodes, delete)
