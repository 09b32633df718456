"""Ask Slurm about the job that mnrun is in, and hand in batch scripts. scontrol.py parses the answers."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mnrun import environment, formats, nodeset
from mnrun.errors import NoAnswerError, SchedulerError, UsageError
from mnrun.jobspec import JobSpec
from mnrun.model import Allocation, Site, Unwell, Words
from mnrun.schedulers.slurm import ANCESTORS, SUBMIT, client, is_here, job, options, scontrol, steps
from mnrun.schedulers.slurm.details import Details
from mnrun.schedulers.slurm.states import job_state
from mnrun.schedulers.slurm.variables import VARIABLES, for_srun
from mnrun.schedulers.vocabulary import RUNNING, BatchStart, JobState, StepTask, Trace, number
from mnrun.system import process

# The paths of Slurm's configuration: in packages, in older Debians, and for "configless" slurmd and sackd.
CONFIGURATIONS = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf")
ENDS = "Slurm ends what is left there once it can"
# Slurm sends the signals of a batch job to every process of its script, and so to a client that was just asking.
# scancel sends several within a moment: to the steps, and to the script (scancel(1), NOTES).
AGAIN = 4
_ENDS = {"TimeLimit": JobState.TIMEOUT, "NodeDown": JobState.NODE_FAIL}  # by the reason of a job that is COMPLETING
# Seconds between two questions about the end: there is one question more. Only a batch job may be requeued
# (scontrol(1)), and is asked about for longer: no reason tells of that.
ENDING_WAITS = (0.2, 0.3, 0.5, 0.8)
REQUEUE_WAITS = (2, 3, 4)
VERSION = ("srun", "--version")
SBATCH = 60  # seconds for sbatch to answer
ENDING = 20  # seconds for scancel
ASK = 60  # seconds for other commands
_ID = re.compile(r"^([1-9]\d*)(;\S*)?$", re.MULTILINE | re.ASCII)  # the output of --parsable, with the cluster's name
# sbatch's errors after which slurmctld may have taken the job all the same.
_UNSURE = re.compile("timed out|zero bytes|receive failure", re.IGNORECASE)


def start(environ: Mapping[str, str]) -> BatchStart:
    """Return this start of the job, by the variables of its script (sbatch(1), OUTPUT ENVIRONMENT VARIABLES)."""
    array, task = environ.get("SLURM_ARRAY_JOB_ID", ""), environ.get("SLURM_ARRAY_TASK_ID", "")
    return BatchStart(
        id=f"{array}_{task}" if array and task else job(environ),
        restart=_number(environ, "SLURM_RESTART_COUNT"),
        script=environ.get("SLURM_TASK_PID", ""),
        name=environ.get("SLURM_JOB_NAME", ""),
        cluster=environ.get("SLURM_CLUSTER_NAME", ""),
        nodes=_number(environ, "SLURM_JOB_NUM_NODES"),
        nodelist=environ.get("SLURM_JOB_NODELIST", ""),
        head=environ.get("SLURMD_NODENAME", ""),
        scripted=_in_script(environ),
    )


def step(environ: Mapping[str, str]) -> StepTask:
    """Return the task of a step of srun that this process is, by the step's variables (srun(1), OUTPUT ENVIRONMENT
    VARIABLES). The shell of salloc and a batch script are no such task."""
    tasks, nodes = _number(environ, "SLURM_STEP_NUM_TASKS"), _number(environ, "SLURM_STEP_NUM_NODES")
    if not scontrol.in_step(environ) or tasks < 2 or _in_script(environ):
        return StepTask()
    return StepTask(_number(environ, "SLURM_PROCID"), tasks, max(nodes, 1), "SLURM_PTY_PORT" in environ)


def _in_script(environ: Mapping[str, str]) -> bool:
    """Return whether this process is in a batch script. A script that was handed in from a step has the variables of
    that step, too (seen with Slurm 24.11). Its parent is called `slurmstepd: [271.batch]`."""
    with contextlib.suppress(OSError, IndexError):
        status = Path("/proc", environ.get("SLURM_TASK_PID", "none"), "status").read_text(encoding="utf-8")
        parent = status.split("PPid:")[1].split()[0]
        return ".batch]" in Path("/proc", parent, "cmdline").read_text(encoding="utf-8", errors="replace")
    return False


def settings(environ: Mapping[str, str]) -> dict[str, tuple[int, str]]:
    """Return the job's CPUs for each rank. Slurm tells of them if the script's #SBATCH lines ask for them."""
    cpus = _number(scontrol.first_component(environ), "SLURM_CPUS_PER_TASK")
    return {"cpus_per_task": (cpus, "SLURM_CPUS_PER_TASK")} if cpus else {}


def partition(environ: Mapping[str, str]) -> str:
    return environ.get("SLURM_JOB_PARTITION", "")


def _number(environ: Mapping[str, str], name: str) -> int:
    return number(environ.get(name, ""))


def questions(environ: Mapping[str, str]) -> tuple[Words, ...]:
    return ("scontrol", "-d", "-o", "show", "job", job(environ)), VERSION


def current(environ: Mapping[str, str]) -> tuple[Allocation, Site]:
    number = job(environ)
    answer = _ask(*questions(environ)[0], environ=environ, about=f"job {number}: ")
    scripted = _in_script(environ)
    allocation = scontrol.allocation(scontrol.of_job(number, answer), environ, scripted=scripted)
    gpus = {node.name: node.gpus for node in allocation.nodes}
    release = version(environ)
    extra = environ.get("PRTE_MCA_plm_slurm_args", "")
    binds, here = _binds(release, environ), start(environ)
    inside, step = here.script != "", not scripted and scontrol.in_step(environ)
    of_slurm = Details(release, extra)
    found = Site("slurm", allocation.job, of_slurm, gpus, binds, restart=here.restart, inside=inside, step=step)
    called = here.id if here.id != number else ""
    return allocation._replace(called=called), found._replace(script=here.id if scripted else "", called=called)


def site(environ: Mapping[str, str]) -> Site:
    release = version(environ)
    return Site("slurm", "JOB", Details(release), binds=_binds(release, environ))


def name(environ: Mapping[str, str]) -> str:
    """Return Slurm's ClusterName, or "" without Slurm. scontrol runs only if the configuration file does not tell.
    Raises SchedulerError if Slurm does not answer."""
    if environ.get("SLURM_CLUSTER_NAME"):
        return environ["SLURM_CLUSTER_NAME"]
    if not is_here(environ):
        return ""
    return _setting("ClusterName", environ).lower()  # Slurm takes the name in lower case


def _setting(name: str, environ: Mapping[str, str]) -> str:
    """Return the word after `name =` in Slurm's configuration, or "". Raises SchedulerError if Slurm does not
    answer."""
    line = re.compile(rf"^\s*{name}\s*=\s*(\S+)", re.MULTILINE | re.IGNORECASE)
    for path in filter(None, (environ.get("SLURM_CONF"), *CONFIGURATIONS)):
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            if match := line.search(file.read()):
                return match[1]
    match = line.search(_ask("scontrol", "show", "config", environ=environ))
    return match[1] if match else ""


def _binds(release: tuple[int, int], environ: Mapping[str, str]) -> bool:
    """Return whether this Slurm binds tasks to CPUs. From 24.05 on, the answer does not matter, and nobody asks."""
    return release >= (24, 5) or "affinity" in _setting("TaskPlugin", environ)


def version(environ: Mapping[str, str]) -> tuple[int, int]:
    """Return the version of this Slurm, as (24, 11)."""
    return scontrol.version(_ask(*VERSION, environ=environ))


def submit(script: str, spec: JobSpec, environ: Mapping[str, str]) -> tuple[str, str]:
    """Hand in the text of a batch script. Return the job's id, and the words that sbatch printed beside it.

    Raises UsageError or Impossible for a job that cannot be handed in. Raises SchedulerError with sbatch's own words
    and the option of ours that they are about. Raises NoAnswerError if Slurm may have taken the job.
    """
    if "wait" in options.words(spec):
        raise UsageError("--slurm wait would keep the job's id back until the job ends", "write mnrun submit --wait")
    options.refuse(spec, Site("slurm", "", Details(version(environ))))
    words, code = ("sbatch", "--parsable"), 0
    perhaps = "the job may have been submitted: look at mnrun status before you try again"
    try:
        done = client.run(words, SBATCH, _outside(environ), instead="submit from a login node", text=script)
        code, output, errors = done.returncode, done.stdout, done.stderr.strip()
    except NoAnswerError as error:
        output, errors = error.heard, error.message
        if not _ID.search(output):
            raise NoAnswerError(error.message, perhaps) from None
    number = _ID.search(output)
    if number:  # an id means a job, whatever else sbatch says
        return number[1], errors
    if code and _UNSURE.search(errors):
        raise NoAnswerError(" | ".join(errors.splitlines()), perhaps)
    client.refuse_silence(done)
    lines = (errors or output.strip() or str(code)).splitlines()
    said = "; ".join(line.replace("sbatch: ", "", 1).replace("error: ", "", 1) for line in lines)
    if "dependency problem" in said.lower():
        _refuse_unknown(spec)
    raise options.refusal(f"sbatch: {said}", spec)


def _refuse_unknown(spec: JobSpec) -> None:
    """Raise SchedulerError for jobs of --dependency that Slurm does not know."""
    named = [job for _, jobs in formats.dependencies(spec.batch.text("dependency")) for job in jobs]
    if unknown := [job for job in dict.fromkeys(named) if trace(job.partition("_")[0]) is None]:
        which = f"no job {' or '.join(unknown)} to wait for (--dependency: {spec.origins['dependency']})"
        raise SchedulerError(
            f"Slurm knows {which}", "leave it out if it has ended: Slurm forgets jobs after some minutes"
        )


def _outside(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of sbatch. All options are in the script: none comes from SBATCH_*, and a surrounding job
    hands nothing on."""
    ours = ("SLURM_CONF", "SLURM_CLUSTER")
    clean = environment.for_another_job(environ, [VARIABLES])
    return {n: v for n, v in clean.items() if not n.startswith(("SBATCH_", "SLURM_")) or n.startswith(ours)}


def on_each(allocation: Allocation, names: Sequence[str], words: Sequence[str], environ: Mapping[str, str]) -> str:
    asked = set(names)
    gpus = {node.gpus for node in allocation.nodes if node.name in asked}
    srun = steps.once_each(names, gpus.pop() if len(gpus) == 1 else 0)
    return _ask(*srun, *words, environ=for_srun(environ), seconds=process.PROBE)


def lost(names: Sequence[str], environ: Mapping[str, str], since: float | None = None) -> dict[str, Unwell]:
    found: dict[str, Unwell] = {}
    nodes = nodeset.fold_ends(names)
    with contextlib.suppress(SchedulerError):
        found = scontrol.unwell(_ask("sinfo", "-a", "-h", "-N", "-o", "%N %T", "-n", nodes, environ=environ))
    if since is not None:
        seconds = {**environ, "SLURM_TIME_FORMAT": "%s"}  # not local times
        with contextlib.suppress(SchedulerError):
            text = _ask("scontrol", "-o", "show", "node", nodes, environ=seconds)
            found.update(scontrol.started_anew(text, since))
    return found


def _shown(job: str, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return what Slurm shows of a job, and its errors. Both are "" if it does not answer."""
    with contextlib.suppress(SchedulerError):
        done = _run(("scontrol", "-o", "show", "job", job), environ)
        return ("" if done.returncode else done.stdout), done.stderr
    return "", ""


def _line(job: str, environ: Mapping[str, str]) -> str:
    """Return the line that Slurm shows of a job, or "" if it does not answer."""
    return scontrol.of_job(job, _shown(job, environ)[0])


def runs(job: str, environ: Mapping[str, str]) -> bool:
    """Return False only if Slurm says that the job has ended, or no longer knows it. No answer counts as running."""
    shown, errors = _shown(job, environ)
    state = re.search(r"JobState=(\w+)", scontrol.of_job(job, shown))
    return job_state(state[1]) in RUNNING if state else "Invalid job id" not in errors


def preempted(job: str, environ: Mapping[str, str]) -> bool:
    """Return whether another job takes this one's nodes. The job has a time of grace, and then Slurm ends it."""
    return re.search(r"\bPreemptTime=\d", _line(job, environ)) is not None


def ending(site: Site, environ: Mapping[str, str]) -> JobState:
    """Return the state in which the job ends, or UNKNOWN if Slurm does not say.

    REQUEUED means that Slurm will start the job again. COMPLETING hides the state for as long as the nodes clean up, so
    mnrun asks again for a while. After that, and if the job itself waits for mnrun to end, its reason tells.
    """
    pauses = iter((*ENDING_WAITS, *REQUEUE_WAITS))
    while True:
        line = _line(site.job, environ)
        state = re.search(r"JobState=(\w+)", line)
        restarts = re.search(r"\bRestarts=(\d+)", line)
        if restarts and int(restarts[1]) > site.restart:
            return JobState.REQUEUED
        if re.search(r"\bPreemptTime=\d", line):
            # The time of grace is over, though the job may count as running for a moment more.
            return JobState.PREEMPTED
        if state is None or state[1] != "COMPLETING":
            return job_state(state[1]) if state else JobState.UNKNOWN
        pause = None if site.inside else next(pauses, None)
        if pause is None or (pause in REQUEUE_WAITS and "BatchFlag=0" in line):
            reason = re.search(r"\bReason=(\w+)", line)
            return _ENDS.get(reason[1] if reason else "", JobState.CANCELLED)
        time.sleep(pause)


def trace(job: str) -> Trace | None:
    """Return what slurmctld still knows of a job. It forgets a job some minutes after its end."""
    return scontrol.trace(job, _shown(job)[0], os.getuid())


def time_limit(job: str, environ: Mapping[str, str]) -> str:
    """Return the job's time limit as Slurm writes it, or "" if Slurm does not say."""
    limit = re.search(r"\bTimeLimit=(\S+)", _line(job, environ))
    return limit[1] if limit else ""


def end(job: str, environ: Mapping[str, str]) -> None:
    """Have Slurm end a job or a step. A node that does not answer now follows later. A job that has ended is fine."""
    with contextlib.suppress(SchedulerError):
        client.run(("scancel", job), ENDING, environ)


def _ask(*argv: str, environ: Mapping[str, str], about: str = "", seconds: float = ASK) -> str:
    return client.output(_run(argv, environ, seconds), about)


def _run(
    words: Sequence[str], environ: Mapping[str, str] | None = None, seconds: float = ASK
) -> subprocess.CompletedProcess[str]:
    """Run a command of Slurm's: again where a signal ended it, and once more where it did not reach slurmctld."""
    done = client.run(words, seconds, environ)
    for again in range(AGAIN):
        if done.returncode >= 0 and (again or not client.unreached(done)):
            break
        done = client.run(words, seconds, environ)
    return done
