"""Run Slurm's commands, and know the lines of srun and slurmstepd about the end of a step."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence

from mnrun.errors import NoAnswerError, SchedulerError
from mnrun.schedulers.vocabulary import ClientLines
from mnrun.system import commands
from mnrun.system.client import Own

CLIENT_LINES = ClientLines(
    client="srun",
    # Tasks that failed, or that srun or mnrun has ended, and the end of a step. prterun may leave a blank or a NUL.
    own=Own(
        (b"srun: ", b"slurmstepd-"),
        rb"[ \0]*srun: (error: \S+: tasks? [\d,-]+: (Exited with exit code \d+|Terminated|Killed)|Terminating .*"
        rb"|got SIGCONT|forcing job termination|Job step aborted: Waiting .*)"
        rb"|\0?slurmstepd-\S+: error: \*\*\* STEP \S+ ON \S+ CANCELLED AT .*",
    ),
    ends=Own(
        (b"srun: ", b"slurmstepd-"),
        rb"slurmstepd-\S+: error: Detected \d+ oom[_-]kill events? in .*\n"
        rb"|srun: error: \S+: tasks? [\d,-]+: Out Of Memory\n",
    ),
    out_of_memory=r"(?i)\boom[-_ ]kill|\bOut Of Memory\b",
    node_failed=r"srun: error: Node failure on (\S+)",
    killed=r"srun: error: (\S+): tasks? [\d,-]+: Killed",
    # PRRTE 3's daemons often exit with 255 after a job that went well, and srun then ends the others with TERM.
    died=r"srun: error: (\S+): tasks? [\d,-]+: (?!Exited with exit code|Terminated)(.+)",
    # srun could not start a task, and ends all others itself, or Slurm has ended the step.
    ends_all=r"srun: error: Task launch for .* failed|.*error: \*\*\* STEP \S+ ON \S+ CANCELLED AT ",
)


def run(
    words: Sequence[str],
    seconds: float,
    environ: Mapping[str, str] | None = None,
    instead: str = "use --local",
    text: str = "",
) -> subprocess.CompletedProcess[str]:
    """Return the ended command of Slurm's, as commands.run does."""
    instead = f"load Slurm's module, or {instead}"
    return commands.run(words, seconds, environ, instead=instead, daemon="slurmctld", text=text)


def unreached(done: subprocess.CompletedProcess[str]) -> bool:
    """Return whether a command could not reach slurmctld."""
    words = r"nable to contact|onnection refused|onnection failure"
    return done.returncode != 0 and re.search(words, done.stderr) is not None


def refuse_silence(done: subprocess.CompletedProcess[str]) -> None:
    """Raise SchedulerError if a command could not reach slurmctld: another command would not reach it either."""
    late = done.returncode != 0 and "timed out" in done.stderr
    if late or unreached(done):
        kind = NoAnswerError if late else SchedulerError
        raise kind(commands.complaint(done), "slurmctld does not answer: ask the cluster's admins")


def output(done: subprocess.CompletedProcess[str], about: str = "") -> str:
    """Return the output of a command. `about` begins the message if the command failed. Raises SchedulerError."""
    refuse_silence(done)
    if done.returncode:
        raise SchedulerError(about + commands.complaint(done))
    return done.stdout
