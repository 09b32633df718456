"""Ask Slurm about the job that mnrun is in. steps.py parses the answers."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence

from mnrun import environment
from mnrun.errors import Impossible, NoAnswerError, SchedulerError
from mnrun.model import Allocation, JobSpec, Site
from mnrun.schedulers.slurm import steps
from mnrun.system import commands

# The paths of Slurm's configuration: in packages, in older Debians, and for "configless" slurmd and sackd.
CONFIGURATIONS = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf")
ENDS = "Slurm ends what is left there once it can"
ENDING_WAITS = (1, 2, 3, 4)  # seconds between two questions: there is one question more
SBATCH = 60  # seconds for sbatch to answer
_ID = re.compile(r"^([1-9]\d*)(;\S*)?$", re.MULTILINE | re.ASCII)  # the output of --parsable, with the cluster's name
# sbatch's errors after which slurmctld may have taken the job all the same.
_UNSURE = re.compile("timed out|zero bytes|receive failure", re.IGNORECASE)


def has_slurm() -> bool:
    """Return whether this machine is part of a Slurm site."""
    return shutil.which("sbatch") is not None


def current(environ: Mapping[str, str]) -> tuple[Allocation, Site]:
    """Return the Slurm job that mnrun is in. Raises SchedulerError if Slurm does not know it."""
    job = environ["SLURM_JOB_ID"]
    allocation = steps.allocation(steps.of_job(job, _ask("scontrol", "-d", "-o", "show", "job", job)), environ)
    gpus = {node.name: node.gpus for node in allocation.nodes}
    release = version()
    extra = environ.get("PRTE_MCA_plm_slurm_args", "")
    restart = int(environ.get("SLURM_RESTART_COUNT") or 0)
    binds = _binds(release, environ)
    inside = "SLURM_TASK_PID" in environ
    return allocation, Site("slurm", allocation.job, release, extra, gpus, binds, restart=restart, inside=inside)


def on_paper(environ: Mapping[str, str], job: str = "JOB") -> Site:
    """Return this Slurm site, for a plan that is made before there is a job."""
    release = version()
    return Site("slurm", job, release, binds=_binds(release, environ))


def name(environ: Mapping[str, str]) -> str:
    """Return Slurm's ClusterName, or "" without Slurm.

    scontrol runs only if the configuration file does not tell. Raises SchedulerError if Slurm does not answer.
    """
    if environ.get("SLURM_CLUSTER_NAME"):
        return environ["SLURM_CLUSTER_NAME"]
    if not has_slurm():
        return ""
    return _setting("ClusterName", environ).lower()  # Slurm takes the name in lower case


def _setting(name: str, environ: Mapping[str, str]) -> str:
    """Return the word after `name =` in Slurm's configuration, or "". Raises SchedulerError if Slurm does not
    answer."""
    line = re.compile(rf"^\s*{name}\s*=\s*(\S+)", re.MULTILINE | re.IGNORECASE)
    for path in filter(None, (environ.get("SLURM_CONF"), *CONFIGURATIONS)):
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            if found := line.search(file.read()):
                return found[1]
    said = line.search(_ask("scontrol", "show", "config"))
    return said[1] if said else ""


def _binds(release: tuple[int, int], environ: Mapping[str, str]) -> bool:
    """Return whether this Slurm binds tasks to CPUs. From 24.05 on, the answer does not matter, and nobody asks."""
    return release >= (24, 5) or "affinity" in _setting("TaskPlugin", environ)


def version() -> tuple[int, int]:
    """Return the version of this Slurm, as (24, 11)."""
    return steps.version(_ask("srun", "--version"))


def refuse_gpus(job: JobSpec, release: tuple[int, int], held: Iterable[int] = ()) -> None:
    """Raise Impossible if the job has GPUs that its steps could not share.

    `held` are the GPUs on each of its nodes. Up to 21.08, --overlap shares CPUs alone, and the second step of a launch
    would wait for ever.
    """
    asked = f"{job.gpus}{job.gpus_per_node}{job.gpus_per_task}" or re.search(r"\bgpu\b", job.gres)
    words = any(re.match(r"gpus\b|(gres|tres-per-\w+)=.*\bgpu\b", word) for word in job.slurm)
    if release < (22, 5) and not job.no_gpu and (asked or words or any(held)):
        what = f"Slurm {release[0]}.{release[1]:02} does not let a job's steps share its GPUs"
        raise Impossible(what, "use --no-gpu, or Slurm 22.05 or newer")


def submit(script: str, spec: JobSpec, environ: Mapping[str, str]) -> tuple[str, str]:
    """Hand in the text of a batch script. Return the job's id, and the words that sbatch printed beside it.

    All options are in the script: none comes from SBATCH_*, and a surrounding job hands nothing on.

    Raises SchedulerError with sbatch's own words and the option of ours that they are about. Raises NoAnswerError if
    Slurm may have taken the job.
    """
    kept = ("SLURM_CONF", "SLURM_CLUSTER")
    clean = {n: v for n, v in environ.items() if not n.startswith(("SBATCH_", "SLURM_")) or n.startswith(kept)}
    # The surrounding job's mark would end the new job with it. Its temporary directory goes with it, too.
    for mark in ("MNRUN_JOB_ID", "MNRUN_JOB_START"):
        clean.pop(mark, None)
    if clean.get("TMPDIR", "").startswith("/tmp/mnrun."):
        del clean["TMPDIR"]
    perhaps = "the job may have been submitted: look at mnrun status before you try again"
    words, code = ("sbatch", "--parsable"), 0
    try:
        done = commands.run(words, SBATCH, clean, instead="submit from a login node", said=script)
        code, out, said = done.returncode, done.stdout, done.stderr.strip()
    except NoAnswerError as error:
        out, said = error.heard, error.message
        if not _ID.search(out):
            raise NoAnswerError(error.message, perhaps) from None
    found = _ID.search(out)
    if found:  # an id means a job, whatever else sbatch says
        return found[1], said
    if code and _UNSURE.search(said):
        raise NoAnswerError(" | ".join(said.splitlines()), perhaps)
    commands.refuse_silence(done)
    raise steps.refusal(f"{' '.join(words)}: {said or out.strip() or code}", spec)


def on_each(allocation: Allocation, names: Sequence[str], words: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the output of `words`, run once on each of these nodes of the job. Raises SchedulerError if srun fails."""
    gpus = {node.gpus for node in allocation.nodes if node.name in names}
    srun = steps.once_each(names, gpus.pop() if len(gpus) == 1 else 0)
    return _ask(*srun, *words, environ=environment.for_srun(environ))


def why_down(names: Sequence[str]) -> dict[str, str]:
    """Return node -> Slurm's state for the nodes that are down, failing, draining or silent."""
    try:
        text = _ask("sinfo", "-h", "-N", "-o", "%N %T", "-n", ",".join(names))
    except SchedulerError:
        return {}
    states = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    return {n: s for n, s in states.items() if s.endswith("*") or s.startswith(("down", "fail", "drain"))}


def _shown(job: str) -> str:
    """Return the line that Slurm shows of a job, or "" if it does not answer."""
    words = ("scontrol", "-o", "show", "job", job)
    try:
        done = commands.run(words, 60)
        if done.returncode < 0:  # Slurm sends the signals of a batch job to every process of its script
            done = commands.run(words, 60)
    except SchedulerError:
        return ""
    return steps.of_job(job, done.stdout) if done.returncode == 0 else ""


def runs(job: str) -> bool:
    """Return whether a job goes on, or Slurm does not answer. Otherwise it is cancelled or out of time …"""
    found = re.search(r"JobState=(\w+)", _shown(job))
    return found is None or found[1] in steps.RUNNING


def preempted(job: str) -> bool:
    """Return whether another job takes this one's nodes. The job has a time of grace, and then Slurm ends it."""
    return re.search(r"\bPreemptTime=\d", _shown(job)) is not None


def ending(site: Site) -> str:
    """Return the state in which the job ends: CANCELLED, TIMEOUT, NODE_FAIL … or "" if Slurm does not say.

    REQUEUED means that Slurm will start the job again. COMPLETING hides the state for as long as the nodes clean up, so
    mnrun asks again for some seconds. If the job itself waits for mnrun to end, its reason tells.
    """
    for pause in (*ENDING_WAITS, None):
        said = _shown(site.job)
        found = re.search(r"JobState=(\w+)", said)
        again = re.search(r"\bRestarts=(\d+)", said)
        if again and int(again[1]) > site.restart:
            return "REQUEUED"
        if re.search(r"\bPreemptTime=\d", said):
            # The time of grace is over, though the job may count as running for a moment more.
            return "PREEMPTED"
        if found is None or found[1] != "COMPLETING":
            return found[1] if found else ""
        if site.inside:
            reason = re.search(r"\bReason=(\w+)", said)
            return {"TimeLimit": "TIMEOUT", "NodeDown": "NODE_FAIL"}.get(reason[1] if reason else "", "CANCELLED")
        if pause:
            time.sleep(pause)
    return ""


def end(job: str) -> None:
    """Have Slurm end a job or a step. A node that does not answer now follows later. A job that has ended is fine."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(["scancel", job], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=20)


def _ask(*argv: str, environ: Mapping[str, str] | None = None) -> str:
    return _run(*argv, environ=environ).stdout


def _run(*argv: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    done = commands.run(argv, 60, environ)
    commands.refuse_silence(done)
    if done.returncode:
        raise SchedulerError(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")
    return done
