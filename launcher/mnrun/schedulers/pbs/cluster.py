"""Ask PBS about the job that mnrun is in, reach its nodes, and hand in batch scripts."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mnrun import formats, nodeset
from mnrun.environment import for_another_job
from mnrun.errors import NotYours, SchedulerError, UsageError
from mnrun.files import lean
from mnrun.jobspec import JobSpec, Variable, Way
from mnrun.model import Allocation, Command, Layout, Plan, Site, Unwell, Words
from mnrun.schedulers import arrays, common, parts, writing
from mnrun.schedulers.pbs import ANCESTORS, OPTION, SUBMIT, TITLE, VARIABLES, answers, is_here, job, options
from mnrun.schedulers.vocabulary import ACTIVE, BatchStart, JobId, JobState, StepPlace, Trace, number, numbers
from mnrun.system import commands

if TYPE_CHECKING:
    from mnrun.reach.transport import Transport
    from mnrun.schedulers.cache import CachedQueue
    from mnrun.schedulers.queue import Job, PartitionNode

# PBS sends TERM to the session of the script alone, in which mnrun is, and none of its guards (seen, 23.06).
WARNINGS: tuple[str, ...] = ()
REACHES = ("ssh", "call")
GROUP = "{job}"  # of the hook pbs_cgroups: …/jobid/57.login
LIMITS = "an admin raises Limit{name} of the service that starts pbs_mom, from which jobs have their limits"
ON_NODE = "[ -z \"${PBS_JOBID-}\" ] || mnrun_address=''\n"  # with qsub -V, SSH_CONNECTION is the login node's
PROBE: str = lean(Path(__file__).with_name("probe.sh").read_text(encoding="utf-8"))
COMMENTS = False  # qsub would read it as options (make_argv of qsub.c)
LOOKS = 5  # at a job that was handed in
FLATUID = "an admin lets nodes do it: qmgr -c 'set server flatuid=True'"
_FORGOTTEN = re.compile("Unknown Job|has finished|not configured to maintain job history")
_DEPENDS = re.compile("^#PBS -W '?depend=.*", re.MULTILINE)
_INTERACTIVE = "-[lqPANvW]$"  # the options of qsub that a shell has, too
run = partial(commands.run, instead="put PBS's commands on PATH, or use --local", daemon="pbs_server")


def records(*words: str, environ: Mapping[str, str] | None = None, kind: str = "Jobs") -> Mapping[str, answers.Record]:
    """Return the records that qstat or pbsnodes prints. Those of unknown jobs are left out. Raises SchedulerError."""
    done = run((words[0], "-F", "json", *words[1:]), parts.ASK, environ)
    if "{" not in done.stdout and "cannot connect" not in done.stderr:  # Torque has no JSON
        done = run(words, parts.ASK, environ)
    if done.returncode and not _FORGOTTEN.search(done.stderr):
        raise SchedulerError(commands.complaint(done))
    return answers.records(done.stdout, kind)


def dialect(spec: JobSpec, environ: Mapping[str, str] = {}) -> str:
    """Return the dialect of this site, as the profile names it or qsub tells."""
    named, said = str(spec.batch.site.get(OPTION.name, {}).get("dialect", "")), ""
    if named and named not in options.DIALECTS:
        raise UsageError(f'the profile has [pbs] dialect = "{named}"', f"write {' or '.join(options.DIALECTS)}")
    with suppress(SchedulerError):
        if not named and is_here(environ):
            done = run((SUBMIT, "--version"), parts.ASK, environ or None)
            said = (done.stdout + done.stderr).strip().lower()
    return named or ("torque" if re.match(r"version: *\d", said) else "openpbs")


def output(spec: JobSpec) -> str:
    return options.output(spec, dialect(spec))


def start(environ: Mapping[str, str]) -> BatchStart:
    """Return this start of the job. Its variables do not tell of earlier ones (seen, 23.06): qstat does."""
    places = _places(environ)
    script = parts.script_below(ANCESTORS) if environ.get("PBS_ENVIRONMENT") == "PBS_BATCH" else ""
    number, _, task = answers.parts(environ.get("PBS_JOBID", ""))
    identity = arrays.identity(number, task, environ.get(arrays.VARIABLE, "")) if number else ""
    restart, called = answers.restarts(_own(environ)) if script else 0, environ.get("PBS_JOBNAME", "")
    nodes, head = nodeset.fold(places) if places else "", next(iter(places), "")
    return BatchStart(identity, restart, script, called, name(environ), len(places), nodes, head, script != "")


def _places(environ: Mapping[str, str]) -> dict[str, int]:
    """Return host -> its lines in the node file: one for each rank that was asked for, and of Torque for each CPU."""
    return parts.node_file("PBS_NODEFILE", environ) or ({os.uname().nodename: 1} if job(environ) else {})


_known: dict[str, answers.Record] = {}  # PBS's id of the job around -> its record, for this process


def _own(environ: Mapping[str, str]) -> answers.Record:
    """Return the record of the job around, or {} without an answer."""
    identity = environ.get("PBS_JOBID", "")
    if identity not in _known:
        with suppress(SchedulerError):
            _known.update(records("qstat", "-f", identity, environ=environ))
    return _known.get(identity, {})


def current(environ: Mapping[str, str]) -> tuple[Allocation, Site]:
    """Return the job that mnrun is in, with the ranks that it asked for."""
    places, record = _places(environ), _own(environ)
    nodes = answers.nodes(record, places, number(environ.get("NCPUS", "")))
    lines, each = sum(places.values()), number(environ.get(common.CPUS, "")) or 1
    of_torque = "exec_vnode" not in record and lines > len(places)
    ranks = lines if "Resource_List.mpiprocs" in record else lines // each if of_torque else None
    return parts.held(start(environ), nodes, ranks, Site("pbs", job(environ)), "")


partition, site = partial(parts.variable, "PBS_QUEUE"), partial(parts.site, "pbs")


def name(environ: Mapping[str, str]) -> str:
    """Return the name of the server, by the job's id, the variable, or the file that each machine has."""
    if known := environ.get("PBS_JOBID", "").partition(".")[2] or environ.get("PBS_SERVER", ""):
        return known
    with suppress(OSError):
        text = Path(environ.get("PBS_CONF_FILE") or "/etc/pbs.conf").read_text(encoding="utf-8")
        return next(iter(re.findall(r"^PBS_SERVER=(\S+)", text, re.MULTILINE)), "")
    return ""


# On a node, the command becomes a task of the job, which ends with the job at the latest (seen, 23.06). The file of the
# job's nodes has the job's whole id as its name, and ID.env has the GPUs there (the hook pbs_cgroups).
_ATTACH = (
    "[ ! -r /etc/pbs.conf ] || . /etc/pbs.conf; j=$0 p=${PBS_HOME:-/var/spool/pbs}/aux; "
    'for f in "$p/$0".*; do case $f in *.env | *\\*) ;; *) j=${f##*/} ;; esac; done; '
    '[ ! -r "$p/$j.env" ] || while read -r l || [ -n "$l" ]; do '
    'case $l in CUDA_*=*) export "$l" ;; esac; done <"$p/$j.env"; '
    'a=${PBS_EXEC:-/opt/pbs}/bin/pbs_attach; [ ! -x "$a" ] || set -- "$a" -j "$j" "$@"; exec "$@"'
)
# PBS sets these for the script and pbs_tmrsh, to a node's CPUs for all ranks together, and ssh has none (seen, 23.06).
# So no rank gets them. Those of a job with --cpus-per-task have that number.
_NO_THREADS = '[ "$OMP_NUM_THREADS" != "$NCPUS" ] || unset OMP_NUM_THREADS; unset NCPUS ENVIRONMENT; '


def _client(identity: str, node: str, line: str, terminal: bool) -> Words:
    """Return the words of an ssh to a node of a job, whose line becomes a task of it."""
    from mnrun.reach import ssh  # imported here, as below, since few verbs need it

    attached = f"exec sh -c '{_ATTACH}' {shlex.quote(answers.theirs(identity))} {line[len('exec ') :]}"
    return ssh.words(node, attached, terminal=terminal)


def reach(allocation: Allocation, way: Way) -> Transport:
    """Return a transport by an ssh, or a pbs_tmrsh, for each command on another node. The first is this machine."""
    from mnrun.reach.ssh import FAILED

    found = parts.transport(allocation, way, partial(_client, allocation.job), _starter, FAILED)
    found.before = _NO_THREADS
    return found


on_each = partial(parts.on_each, reach, "see whether ssh reaches it without a password")


def _starter(node: str, line: str) -> Words:
    return ("pbs_tmrsh", node, "sh", "-c", _NO_THREADS + line)


launch_environment = partial(parts.hidden, ("PBS_ENVIRONMENT", "PBS_NODEFILE", "PBS_JOBID"))


def beside(place: StepPlace, words: Words) -> list[Command]:
    return parts.by_ssh(place, words, partial(_client, place.job))


def _queued(job: str, environ: Mapping[str, str]) -> Job | None:
    """Return a job, as the queue has it, or None if it has ended. Raises SchedulerError."""
    found = records("qstat", "-f", answers.theirs(job), environ=environ)
    return next(iter(answers.queue(found, parts.user())), None)


def _standing(job: str, environ: Mapping[str, str]) -> Job | None:
    """Return the same with the state that this process knows of its own job.

    For 20 seconds after qdel, and at the limit, qstat shows the job as running (seen, 23.06). But TERM ends the login
    shell around the script, which leads the session of this process, at once. A job goes on after its limit, until PBS
    notices, and the times are those of the server's zone.
    """
    found, ours = _queued(job, environ), environ.get("PBS_JOBID", "").partition(".")[0] == answers.theirs(job)
    if found is None or not ours:
        return found and replace(found, end=0)
    return replace(found, state=JobState.COMPLETING) if parts.leaderless() else found


_state = parts.Queued(_standing)
runs, ending, time_limit = _state.runs, _state.ending, parts.Queued(_queued).time_limit


def _unwell(environ: Mapping[str, str]) -> Mapping[str, Unwell]:
    return answers.unwell(records("pbsnodes", "-a", environ=environ, kind="nodes"))


lost = partial(parts.lost, _unwell)


def end(job: str, environ: Mapping[str, str]) -> None:
    with suppress(SchedulerError):
        run(("qdel", answers.theirs(job)), parts.ASK, environ)


def trace(job: str) -> Trace | None:
    """Return what PBS still knows of a job, which is nothing after its end where it keeps no history: `qstat -x` has
    no answer there, not even for a job that runs (req_stat_job of req_stat.c)."""
    names = (answers.theirs(job), f"{JobId.of(job).number}[]")
    with suppress(SchedulerError):
        found = records("qstat", "-f", *names) or records("qstat", "-x", "-f", *names) if is_here({}) else {}
        for one in found.values():
            output, error = (one.get(name, "").partition(":")[2] for name in ("Output_Path", "Error_Path"))
            owner = answers.owner(one)
            return Trace(answers.state(one) in ACTIVE, output, error, owner if owner != parts.user() else "")
    return None


def directives(spec: JobSpec, layout: Layout, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (line of the script, origin) for each option of the job."""
    text = spec.batch.text("dependency")
    jobs = {one: answers.theirs(one) for _, of in formats.dependencies(text) for one in of}
    if jobs and is_here(environ):
        either = [name for identity in jobs.values() for name in (identity, f"{identity}[]")]  # that of an array
        with suppress(SchedulerError):
            known = {name.partition(".")[0] for name in records("qstat", "-f", *either, environ=environ)}
            jobs = {one: name for one, it in jobs.items() for name in (it, f"{it}[]") if name in known}
    return options.lines(spec, layout, dialect(spec, environ), jobs)


def interactive(spec: JobSpec, options: Sequence[str], words: Words, environ: Mapping[str, str]) -> Words:
    """Return the qsub that runs `words` on this terminal in a job of its own, or () without a terminal. qsub's own code
    is 0 (seen, 23.06)."""
    asked = parts.of_shell(directives(spec, writing.evenly(spec), environ), _INTERACTIVE)
    if not (os.isatty(0) and os.isatty(1)):
        return ()
    from mnrun.system import far_terminal

    return far_terminal.keeping_code((SUBMIT, "-I", *asked, "--"), words, 'cd -- "$PBS_O_WORKDIR"')


def submit(script: str, spec: JobSpec, environ: Mapping[str, str]) -> tuple[str, str]:
    """Hand in the text of a batch script. Return the job's number, and further messages: a job that can never run is
    accepted (seen, 23.06), and its comment says so. Raises SchedulerError with PBS's own words.

    `qsub -V` would show the variables to everybody (qstat -f), and the login shell around the script would change some.
    """
    parts.refuse_folders(spec, "PBS would try to start the job again and again, and hold it")
    clean = for_another_job(environ, [VARIABLES])
    text = writing.carrying(script, spec, clean, ("PBS_*",))
    identity, said = _taken(text, spec, clean)
    return answers.parts(identity)[0], "\n".join(filter(None, (said, _never(identity, clean))))


def _handed_in(script: str, environ: Mapping[str, str], *words: str) -> tuple[str, str]:
    """Return PBS's id of a new job, and what qsub says beside that."""
    done = parts.hand_in(run, (SUBMIT, *words, "-"), script, environ)
    if done.returncode == 0 and done.stdout[:1].isdecimal():
        return done.stdout.strip(), done.stderr.strip()
    if "Bad UID" in done.stderr:
        raise SchedulerError("qsub: PBS takes no jobs of yours here", f"submit from a login node, or {FLATUID}")
    said = (done.stderr or done.stdout).partition("usage:")[0].split("\n")
    raise SchedulerError("; ".join(map(str.strip, filter(None, said))), "see mnrun plan, or qstat -Q")


def _taken(script: str, spec: JobSpec, environ: Mapping[str, str]) -> tuple[str, str]:
    """Hand in a job, and return the same. If one that it waits for ends before qsub does, PBS deletes the new job
    without a word. So that is held until PBS has taken it, has not begun, and is handed in again to wait for the rest.
    """
    while waits := _DEPENDS.search(script):
        identity, said = _handed_in(script, environ, "-h")
        # The user's own hold stays.
        done = run(("qhold" if "\n#PBS -h" in script else "qrls", identity), parts.ASK, environ)
        if done.returncode and not _FORGOTTEN.search(done.stderr):
            raise SchedulerError(f"job {identity} is held: {commands.complaint(done)}", f"type qrls {identity}")
        lines = (line for line, _ in directives(spec, writing.evenly(spec), environ))
        if not done.returncode or (now := next(filter(_DEPENDS.match, lines), "")) == waits[0]:
            return identity, said  # or somebody else has deleted it
        script = script.replace(waits[0], now)
    return _handed_in(script, environ)


def _never(identity: str, environ: Mapping[str, str]) -> str:
    """Return a line about a new job that can never run, as soon as PBS's scheduler has looked at it."""
    with suppress(SchedulerError):
        for _ in range(LOOKS):
            one = next(iter(records("qstat", "-f", identity, environ=environ).values()), {})
            if one.get("comment") or one.get("job_state") != "Q":
                line = f"job {answers.parts(identity)[0]} {answers.why(one)}: cancel it, and ask for less"
                return line if one.get("comment", "").startswith(answers.NEVER) else ""
            time.sleep(0.2)
    return ""


def user_queue(environ: Mapping[str, str], home: Path, poll: float) -> CachedQueue:
    """Return the queue, as this user may read it."""
    from mnrun.schedulers.cache import Answers, CachedQueue

    def jobs(ids: Sequence[str] = (), past: bool = False) -> list[Job]:
        words = ("qselect", "-u", parts.user(), *(("-x", "-s", "F") if past else ()))
        which = [name for one in ids for name in (one, f"{one}[]")] or parts.ask(run, *words, environ=environ).split()
        asked = ("qstat", *(["-x"] if past else []), "-f", "-t", *which)
        return answers.queue(records(*asked, environ=environ), parts.user()) if which else []

    def history(ids: Sequence[str]) -> list[Job]:
        with suppress(SchedulerError):  # most sites keep none
            return jobs(sorted({JobId.of(identity).number for identity in ids}), past=True)
        return []

    def nodes() -> list[PartitionNode]:
        queues = records("qstat", "-Q", "-f", environ=environ, kind="Queue")
        server = records("qstat", "-B", "-f", environ=environ, kind="Server")
        default = next((one.get("default_queue", "") for one in server.values()), "")
        return answers.partitions(records("pbsnodes", "-a", environ=environ, kind="nodes"), queues, default)

    kept = Answers(home / ".mnrun" / "pbs.json", poll, environ, ("PBS_SERVER", "PBS_CONF_FILE", "PBS_DEFAULT"))
    return CachedQueue(TITLE, kept, jobs, history, nodes, partial(_delete, environ))


def _delete(environ: Mapping[str, str], job: JobId) -> bool:
    """End a job or tasks of an array, whose own id has brackets."""
    whole = (job.number, f"{job.number}[]")
    known = records("qstat", "-f", *whole, environ=environ)
    listed = next((answers.positions(one) for one in known.values()), "")
    tasks = [answers.theirs(f"{job.number}_{task}", listed) for task in numbers(job.task)]
    done = run(("qdel", *(tasks or [name.partition(".")[0] for name in known] or whole[:1])), parts.ASK, environ)
    if "Unauthorized" in done.stderr and parts.user() in map(answers.owner, known.values()):
        raise SchedulerError(f"job {job}: PBS ends no job of yours here", f"cancel it on a login node, or {FLATUID}")
    return parts.ended(job, done, "Unauthorized", "Unknown Job|has finished|invalid for state")
