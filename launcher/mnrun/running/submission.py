"""Write a job as a batch script, and hand it to the scheduler."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from mnrun import environment, nodeset
from mnrun.config import jobfile, layers
from mnrun.config.options import FORMS
from mnrun.errors import Impossible, SchedulerError, UsageError
from mnrun.jobs import job_dir, patterns
from mnrun.jobs.records import Requested, Submitted
from mnrun.jobspec import JobSpec
from mnrun.model import Layout, job_name
from mnrun.planning import layout, plan, script
from mnrun.planning.spec import build
from mnrun.planning.values import Surroundings
from mnrun.running import outputs, session
from mnrun.running.request import Request
from mnrun.schedulers import TEXTS
from mnrun.schedulers.queue import Queue
from mnrun.schedulers.vocabulary import JobId, array_size
from mnrun.system.screen import Screen

NAME = 255  # bytes of a file's name (limits.h, NAME_MAX)
# `python -m` would look for modules in the job's working directory first, where another user may be able to write.
# Python has -P since 3.11. PYTHONPATH stays, since mnrun may be found by it.
_ENTRY = "import sys; sys.path[:] = filter(None, sys.path); from mnrun.__main__ import entry; entry()"


@dataclass(frozen=True)
class Submission:
    """A job that is asked for, and the text of its batch script."""

    request: Request
    script: str

    @property
    def spec(self) -> JobSpec:
        return self.request.spec


def make(request: Request) -> Submission:
    """Return the batch script of a job. Change and ask nothing. Raises LaunchError."""
    spec, scheduler = layout.share_gpus(request.spec), request.scheduler
    if spec.hosts.names:
        if scheduler.is_here(request.environ):
            remedy = f"-w {nodeset.fold(host.name for host in spec.hosts.names)} asks it for these nodes"
            raise Impossible(f"--hosts starts a job by ssh, without {scheduler.TITLE}", remedy)
        words = [word for word in _typed() if word not in ("submit", "--wait", "--dry-run", "--detach")]
        raise Impossible(
            "a job with --hosts cannot be submitted, since there is no scheduler",
            f"run it in tmux: tmux new -d {shlex.quote(shlex.join(['mnrun', *words]))}",
        )
    if spec.hosts.local:
        raise Impossible("a job with --local cannot be submitted", "leave out --local, or use mnrun run")
    files = {f"--{option}": spec.batch.text(option) for option in ("output", "error")}
    outputs.refuse_parts(files, "tn")  # %N is one file, named after the first node
    ranks = layout.lay_out(spec, None)
    if instead := scheduler.objects(spec, ranks, _caller(), script.call(spec, ranks)):
        return Submission(request._replace(spec=instead[0]), instead[1])
    paper = plan.make(spec, script.on_paper(ranks), "JOB")
    source = f" on {time.strftime('%Y-%m-%d')} by: {_caller()}"
    call = (spec.batch.mnrun,) if spec.batch.mnrun else own_call()
    gpus = str(layout.gpus(spec.resources, ranks) or "")
    text = script.write(paper, scheduler, call, source, request.environ)
    resources = spec.resources._replace(nodes=None if ranks.open else ranks.nnodes, gpus=gpus)
    return Submission(request._replace(spec=spec._replace(resources=resources)), text)


def text(request: Request, form: str) -> str:
    """Return the text of a job for others to run. Ask no server. Raises UsageError or Impossible."""
    spec = layout.share_gpus(request.spec)
    ranks = layout.lay_out(spec, None)
    return TEXTS[FORMS[form]].text(form, spec, ranks, _caller(), script.call(spec, ranks))


def imported(text: str, source: str) -> tuple[str, list[str]]:
    """Return the job file of such a text, and the fields of the text that it lacks. Raises UsageError."""
    return TEXTS[FORMS["mpijob"]].job_file(text, source, of_page)


def of_page(page: str) -> tuple[JobSpec, Layout]:
    """Return the job of the text of a job file, and its layout. Raises UsageError or Impossible."""
    file = jobfile.read(jobfile.TomlFile("the job file", page, "/", {}))
    scheduler = layers.from_command_line({"scheduler": FORMS["mpijob"]})
    settings = layers.merge(layers.builtin(), file.settings, scheduler)
    made = build(settings, file.command or ("app",), Surroundings("/", "/", {}, {}, pod=""))
    return made, layout.lay_out(made, None)


def _caller() -> str:
    program = os.path.basename(sys.argv[0])
    return shlex.join(["mnrun", *_typed()]) if program in ("mnrun", "__main__.py") else f"mnrun.Job in {program}"


def _typed() -> list[str]:
    return environment.masked(sys.argv[1:])


def own_call() -> tuple[str, ...]:
    """Return the words that start this mnrun again: its program, or Python for `python -m mnrun` and mnrun.Job."""
    typed = shutil.which(sys.argv[0]) or sys.argv[0]
    if os.path.basename(typed) != "mnrun":
        return (sys.executable, "-c", _ENTRY)
    return (os.path.abspath(typed),)


def hand_in(submission: Submission) -> tuple[str, str]:
    """Hand the script to the scheduler. Return the job's number, and further messages. Raises LaunchError."""
    scheduler = submission.request.scheduler
    if not scheduler.is_here(submission.request.environ):
        remedy = f"submit where {scheduler.TITLE} is, or run here with mnrun run --local"
        raise UsageError(f"the commands of {scheduler.TITLE} are not on PATH", remedy)
    if submission.spec.sets("notify"):
        from mnrun.jobs import notices

        notices.refuse_missing(submission.spec.notify, mail=False)
    job_dir.writable(submission.spec.job_dir)
    _make_places(submission)
    session.warn_of_files(submission.spec)
    environ, spec = submission.request.environ, submission.spec
    try:
        return scheduler.submit(submission.script, spec, environ)
    except SchedulerError as error:
        from mnrun.schedulers import offers

        queue = scheduler.user_queue(environ, Path.home(), float(spec.poll))
        raise offers.explained(error, spec, queue) from None


def _make_places(submission: Submission) -> None:
    """Make the directories of the job's output, as far as they are known. Raises UsageError for a file that cannot be
    opened: the scheduler does that before mnrun lives, and a job without output cannot tell why it fails."""
    spec = submission.spec
    given = {"--output": submission.request.scheduler.output(spec), "--error": spec.batch.text("error")}
    for option, pattern in given.items():
        path = patterns.filled(pattern, {"x": job_name(spec), "u": getpass.getuser()})
        folder, name = os.path.split(path)
        if not path or "%" in folder:
            continue
        if not name or os.path.isdir(path):
            raise UsageError(
                f"{option} {pattern} names a directory", f"name a file in it: {option} {pattern.rstrip('/')}/%x-%j.out"
            )
        if len(os.fsencode(patterns.filled(name, dict.fromkeys("jAa", "12345678")))) > NAME:
            problem = f"the file of {option} would have a name of more than {NAME} bytes: {name[:20]}…"
            raise UsageError(problem, "choose a shorter --output or --job-name")
        place, rights = (path, os.W_OK) if os.path.exists(path) else (folder or ".", os.W_OK | os.X_OK)
        if os.path.exists(place):
            if not os.access(place, rights) and not spec.force:
                remedy = "name another file, or hand it in with --force if its nodes can write there"
                raise UsageError(f"{option}: you cannot write to {place}", remedy)
            continue
        try:
            os.makedirs(folder)
        except OSError as error:
            Screen().warn(f"{option}: {folder} is not there ({error.strerror}); the job fails unless its nodes have it")


def output(number: str, submission: Submission) -> str:
    """Return the file of the job's output, with the names that are known before the job starts."""
    spec = submission.spec
    pattern = submission.request.scheduler.output(spec)
    known = patterns.values(JobId(number), job_name(spec), getpass.getuser())
    if spec.batch.text("array"):  # each task has a name of its own
        known = {letter: value for letter, value in known.items() if letter not in "aj"}
    return patterns.filled(pattern, known)


def followed(number: str, submission: Submission) -> str:
    """Return the id by which `mnrun logs` knows the job. Of an array, it is that of the first task."""
    first = re.search(r"\d+", submission.spec.batch.text("array"))
    return f"{number}_{first[0]}" if first else number


def record(number: str, submission: Submission) -> Queue:
    """Record the submitted job for the other verbs, and return the queue. Raises UsageError, and cancels the job, if
    another user has made the directory of its records."""

    def absolute(path: str) -> str:
        return os.path.abspath(path) if path else ""

    spec, scheduler, environ = submission.spec, submission.request.scheduler, submission.request.environ
    request = Submitted(
        id=number,
        name=job_name(spec),
        cluster=scheduler.start(environ).cluster,
        nodes=spec.resources.nodes or 0,
        output=absolute(scheduler.output(spec)),
        error=absolute(spec.batch.text("error")),
        split_output=spec.program.split_output,
        tasks=array_size(spec.batch.text("array")),
    )
    queue = scheduler.user_queue(environ, Path.home(), float(spec.poll))
    try:
        asked = submission.request
        made = Requested(asked.cwd, spec.program.command, layers.recorded(asked.settings))
        job_dir.submitted(spec, request, submission.script, made)
    except UsageError as error:  # the job itself would refuse to run
        queue.cancel([number], "", [])
        raise UsageError(f"job {number} was cancelled: {error.message}", error.remedy) from None
    queue.forget()
    return queue
