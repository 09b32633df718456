"""Ask Grid Engine about the job that mnrun is in, reach its nodes, and hand in batch scripts."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mnrun.environment import for_another_job
from mnrun.errors import NotYours, SchedulerError
from mnrun.files import lean
from mnrun.jobspec import JobSpec, Variable, Way
from mnrun.model import Allocation, Command, Layout, Node, Phase, Plan, Site, Step, Unwell, Where, Words
from mnrun.schedulers import arrays, common, parts, writing
from mnrun.schedulers.sge import ANCESTORS, SUBMIT, TITLE, VARIABLES, answers, is_here, job, options
from mnrun.schedulers.vocabulary import BatchStart, ClientLines, JobId, StepPlace, Trace, number
from mnrun.system import commands
from mnrun.system.client import Own

if TYPE_CHECKING:
    from mnrun.reach.transport import Transport
    from mnrun.schedulers.cache import CachedQueue
    from mnrun.schedulers.queue import Job, PartitionNode

# With -notify, each process of the job gets USR2 before it is killed, and USR1 before it is stopped (qsub(1)).
WARNINGS: tuple[str, ...] = ("USR2", "USR1")
JOB_VARIABLE, CLIENT = "JOB_ID", "qrsh -inherit"
REACHES = ("qrsh", "call")
ON_NODE = "mnrun_address=''\n"  # with -V, SSH_CONNECTION is the login node's
PROBE: str = lean(Path(__file__).with_name("probe.sh").read_text(encoding="utf-8"))
# By these, a script asks to be started again, or to be kept in error (qsub(1)). mnrun's record has the program's own.
CODES: Mapping[int, int] = {99: 98, 100: 101}
ENDS = "Grid Engine ends what is left there"
ROOT = "/var/lib/gridengine"  # where Debian has it, whose logins have no SGE_ROOT
DAYS = "7"  # of history
UNWARNED = "Grid Engine kills this job without a warning, and leaves more behind: write #$ -notify into its script"

# At the end of a program, sge_shepherd sends 120 more messages, drops what is left, and qrsh ends with 0
# (close_parent_loop, RESPONSE_MSG_TIMEOUT). So the end waits until its connection to qrsh is empty.
_ALONE = """trap : USR1 USR2; setsid -w "$@"; code=$?; port=$(printf :%04X "${QRSH_PORT##*:}"); """
_ALONE += """while grep -q "$port 01 0*[1-9A-F]" /proc/net/tcp; do sleep 0.05; done; exit $code"""
_INTERACTIVE = "-(pe|l|q|P|A|notify|v)$"  # the options of qsub that a shell has, too
# Grid Engine lets only as many commands into a node at once as the job has slots there.
CLIENT_LINES = ClientLines(
    client="qrsh",
    own=Own(
        (b"error: executing task of job ", b"error: commlib error: got "),
        rb"error: executing task of job (\S+) failed: execution daemon on host \"([^\"]+)\" didn't accept task",
        rb"mnrun: \2 takes no further command of job \1: wait for the end of one, or submit it with -c 2, "
        rb"in a PE with control_slaves TRUE (mnrun check shows them)",
        # qrsh may write to its end of a node that has just closed it
        rb"error: commlib error: got \w+ error \(closing \"[^\"]+/shepherd_ijs/\d+\"\)",
    ),
)


def run(
    words: Words,
    seconds: float,
    environ: Mapping[str, str] | None = None,
    *,
    instead: str = "load Grid Engine's settings.sh, or use --local",
    text: str = "",
) -> subprocess.CompletedProcess[str]:
    """Return an ended command of Grid Engine, as commands.run does.

    In Debian, each name on PATH is a script. It starts 40 programs to find out what a job knows: SGE_ROOT and SGE_ARCH.
    And its shell, dash, unblocks the signals that mnrun blocks (commands.deaf_to), so that USR2 would end it.
    """
    known = environ or {}
    file = Path(known.get("SGE_ROOT", ""), "bin", known.get("SGE_ARCH", ""), words[0])
    executable = str(file) if file.is_absolute() and os.access(file, os.X_OK) else None
    return commands.run(words, seconds, environ, instead=instead, daemon="qmaster", text=text, executable=executable)


ask = partial(parts.ask, run)


def start(environ: Mapping[str, str]) -> BatchStart:
    """Return this start of the job, by the variables of its script (qsub(1), ENVIRONMENTAL VARIABLES)."""
    script = "" if environ.get("JOB_SCRIPT") == "QRSH" else parts.script_below(ANCESTORS)
    identity = arrays.identity(*_parts(job(environ)), environ.get(arrays.VARIABLE, ""))
    restart, cluster = number(environ.get("RESTARTED", "")), name(environ) if job(environ) else ""
    return parts.started(identity, script, environ.get("JOB_NAME", ""), cluster, _hosts(environ), restart)


def _parts(job: str) -> tuple[str, str]:
    """Return the number of a job, and the position of its task in its array."""
    number, _, task = job.partition(".")
    return number, task


def _hosts(environ: Mapping[str, str]) -> dict[str, int]:
    """Return host -> slots of the job. A process that qrsh has started knows its own host alone."""
    if not job(environ):
        return {}
    with suppress(OSError):
        if found := answers.hosts(Path(environ.get("PE_HOSTFILE", "")).read_text(encoding="utf-8")):
            return found
    return {os.uname().nodename: number(environ.get("NSLOTS", "")) or 1}


def current(environ: Mapping[str, str]) -> tuple[Allocation, Site]:
    """Return the job that mnrun is in. Raises SchedulerError, or Impossible if it can't reach its nodes."""
    identity, hosts, here = job(environ), _hosts(environ), start(environ)
    known = details(identity, environ) or answers.Details()
    if len(hosts) > 1 and known.pe:
        options.refuse_closed(known.pe, answers.table(ask("qconf", "-sp", known.pe, environ=environ)))
    nodes = tuple(Node(name, slots, round(known.gpus * slots)) for name, slots in hosts.items())
    tasks = sum(hosts.values()) // (number(environ.get(common.CPUS, "")) or 1) if known.pe else None
    note = "" if known.notify or not here.scripted else UNWARNED
    return parts.held(here, nodes, tasks, Site("sge", identity, foretold=known.notify), note)


partition, site = partial(parts.variable, "QUEUE"), partial(parts.site, "sge")


def name(environ: Mapping[str, str]) -> str:
    """Return the name of the cluster, or that of its first host."""
    common = Path(environ.get("SGE_ROOT") or ROOT, environ.get("SGE_CELL") or "default", "common")
    for file in ("cluster_name", "act_qmaster"):
        with suppress(OSError):
            return (common / file).read_text(encoding="utf-8").split()[0]
    return ""


def reach(allocation: Allocation, way: Way) -> Transport:
    """Return a transport with a qrsh for each command on another node. The first one is this machine."""
    return parts.transport(allocation, way, _client, _starter)


on_each = partial(parts.on_each, reach, "see whether qrsh -inherit reaches it")


# As `run` finds a command
_QRSH = 'qrsh=$SGE_ROOT/bin/$SGE_ARCH/qrsh; [ -x "$qrsh" ] || qrsh=qrsh; exec "$qrsh" -inherit "$@"'


def _client(node: str, line: str, terminal: bool) -> Words:
    # The words become one line for a login shell. Its process group is killed as soon as qrsh ends, so the guard has a
    # session of its own, to clean up. If a warning ended the shell, Grid Engine would delete the job.
    alone = line if terminal else f"exec sh -c '{_ALONE}' sh {line[len('exec ') :]}"
    return ("sh", "-c", _QRSH, "qrsh", node, alone)


def _starter(node: str, line: str) -> Words:
    return ("sh", "-c", _QRSH, "qrsh", "-nostdin", node, line)


launch_environment = partial(parts.hidden, ("PE_HOSTFILE",))


def beside(place: StepPlace, words: Words) -> list[Command]:
    """Return a qrsh for each node. It needs the job's number and task, and works from any host of the cluster."""
    identity, task = _parts(place.job)
    around = ("env", f"JOB_ID={identity}", f"SGE_TASK_ID={task or 'undefined'}")
    return parts.beside(place, words, lambda node, line: (*around, *_client(node, line, place.terminal)))


def _queued(job: str, environ: Mapping[str, str]) -> Job | None:
    """Return a job of this user, as the queue has it, or None if it has ended. Raises SchedulerError."""
    queue = answers.queue(ask("qstat", "-r", "-xml", "-u", parts.user(), environ=environ))
    return next((one for one in queue if one.id == arrays.identity(*_parts(job))), None)


_state = parts.Queued(_queued)
runs, ending, time_limit = _state.runs, _state.ending, _state.time_limit


def _unwell(environ: Mapping[str, str]) -> Mapping[str, Unwell]:
    """Return the nodes whose daemon is silent, or all of whose queues are in error."""
    return answers.unwell(ask("qstat", "-f", "-xml", environ=environ))


lost = partial(parts.lost, _unwell)


def end(job: str, environ: Mapping[str, str]) -> None:
    with suppress(SchedulerError):
        run(("qdel", job), parts.ASK, environ)


def trace(job: str) -> Trace | None:
    """Return what Grid Engine still knows of a job, which is nothing after its end."""
    with suppress(SchedulerError):
        if is_here({}) and (known := details(job.partition("_")[0])):
            return Trace(True, known.output, known.error, known.owner if known.owner != parts.user() else "")
    return None


def details(job: str, environ: Mapping[str, str] | None = None) -> answers.Details | None:
    """Return what Grid Engine knows of a job, or None if it has ended. Raises SchedulerError."""
    return answers.details(ask("qstat", "-j", _parts(job)[0], "-xml", environ=environ)).get(_parts(job)[0])


def directives(spec: JobSpec, layout: Layout, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (line of the script, origin) for each option of the job."""
    pes, queues = None, spec.batch.text("partition") or "*"
    if is_here(environ):
        with suppress(SchedulerError):
            names = answers.pes(ask("qconf", "-sq", queues, environ=environ))
            pes = {name: answers.table(ask("qconf", "-sp", name, environ=environ)) for name in names}
    return options.lines(spec, layout, pes)


def interactive(spec: JobSpec, options: Sequence[str], words: Words, environ: Mapping[str, str]) -> Words:
    """Return the qrsh that runs `words` in a job of its own."""
    asked = parts.of_shell(directives(spec, writing.evenly(spec), environ), _INTERACTIVE)
    client = ("qrsh", "-now", "n", "-cwd", *asked)
    if spec.program.prompt != "terminal":
        return (*client, *words)
    # With -pty, all tasks of the job on other nodes get terminals, too: none of them could be a channel.
    return parts.at_terminal((*client, "-v", f"TERM,{common.SERVED}=1", *words))


def submit(script: str, spec: JobSpec, environ: Mapping[str, str]) -> tuple[str, str]:
    """Hand in the text of a batch script. Return the job's number, and further messages.

    Raises SchedulerError with Grid Engine's own words. A job that can never run is refused, too.
    """
    clean = for_another_job(environ, [VARIABLES])
    done = parts.hand_in(run, (SUBMIT, "-terse", "-w", "e"), script, clean)
    first = done.stdout.split(".")[0].strip()
    if done.returncode == 0 and first.isdecimal():
        return first, done.stderr.strip()
    why = done.stderr or done.stdout or str(done.returncode)
    if "no suitable queues" in why:  # `-w v` tells why, and submits nothing
        said = run((SUBMIT, "-w", "v"), parts.SUBMISSION, clean, text=script)
        why += said.stderr or said.stdout
        if less := options.less_memory(why, spec):
            raise SchedulerError(less, "ask for less, or for fewer ranks on a node")
    lines = (line.removeprefix("Unable to run job: ") for line in why.splitlines())
    # What one of many alike hosts lacks is enough, without the request.
    kinds = {
        re.sub(r'Job \d+( \(.*?\))?|(queue|host) ".*?"', "", line): re.sub(r" \(-l .*?\)", "", line) for line in lines
    }
    kept = [line for kind, line in kinds.items() if kind not in ("", "Exiting.", "verification: no suitable queues")]
    raise SchedulerError(f"qsub: {'; '.join(kept)}", "see mnrun plan, or qstat -g c")


def user_queue(environ: Mapping[str, str], home: Path, poll: float) -> CachedQueue:
    """Return the queue, as this user may read it."""
    from mnrun.schedulers.cache import Answers, CachedQueue

    def jobs() -> list[Job]:
        text = ask("qstat", "-r", "-xml", "-u", parts.user(), environ=environ)
        return answers.queue(text, _arrays(environ, (one.array for one in answers.queue(text) if "_" in one.id)))

    def history(ids: Sequence[str]) -> list[Job]:
        found: list[Job] = []
        for one in sorted({JobId.of(identity).number for identity in ids}) or [""]:
            words = ("qacct", "-o", parts.user(), "-d", DAYS, "-j", *filter(None, [one]))
            with suppress(SchedulerError):  # the accounting is a file, which a site may close
                found += answers.history(ask(*words, environ=environ))
        return found

    def nodes() -> list[PartitionNode]:
        return answers.nodes(ask("qstat", "-f", "-F", ",".join(("h_rt", *answers.GPUS)), "-xml", environ=environ))

    kept = Answers(home / ".mnrun" / "sge.json", poll, environ, ("SGE_ROOT", "SGE_CELL"))
    return CachedQueue(TITLE, kept, jobs, history, nodes, partial(_delete, environ))


def _arrays(environ: Mapping[str, str], numbers: Iterable[str]) -> dict[str, str]:
    """Return the requests of these arrays, by their numbers. `qstat -j` alone tells them."""
    named = ",".join(sorted(set(numbers)))
    found = answers.details(ask("qstat", "-j", named, "-xml", environ=environ)) if named else {}
    return {number: known.array for number, known in found.items()}


def _delete(environ: Mapping[str, str], job: JobId) -> bool:
    array = _arrays(environ, [job.number]).get(job.number, "") if job.task else ""
    words = f"{job.number}.{arrays.position(array, job.task)}" if job.task else job.number
    done = run(("qdel", words), parts.ASK, environ)
    said = (done.stdout + done.stderr).strip()
    if "privileges" in said:
        raise NotYours(f"no job {job} of yours", [str(job)])
    if not re.search("does not exist|has (registered|deleted)|already", said):
        raise SchedulerError(f"job {job}: qdel: {said}")
    return "does not exist" not in said
