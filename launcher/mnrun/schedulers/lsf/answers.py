"""Read the answers of bjobs -o -json, and the hosts of a job. Pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from mnrun import nodeset
from mnrun.errors import SchedulerError
from mnrun.schedulers import arrays
from mnrun.schedulers.vocabulary import JobId, JobState, number, seconds, shell_code

if TYPE_CHECKING:
    from mnrun.schedulers.queue import Job

# Of bjobs(1), -o. Its moments have neither seconds nor a year, so only the times of a job that runs are of use.
FIELDS = "jobid jobindex job_name job_description stat queue exec_host run_time runtimelimit exit_code exit_reason"
FIELDS += " pend_reason"

_HELD = "held, until bresume releases it"
_STATES = {
    **dict.fromkeys(("PEND", "PSUSP", "WAIT"), JobState.PENDING),
    "PROV": JobState.CONFIGURING,
    **dict.fromkeys(("RUN", "UNKWN"), JobState.RUNNING),  # UNKWN: its first host does not answer
    **dict.fromkeys(("USUSP", "SSUSP"), JobState.SUSPENDED),
    "DONE": JobState.COMPLETED,
    "ZOMBI": JobState.NODE_FAIL,
}
# The end of a job ("Termination reasons displayed by bacct, bhist, and bjobs"), or its exit code where there is none.
_ENDS = {
    "TERM_(RUNLIMIT|DEADLINE|CPULIMIT)": JobState.TIMEOUT,
    "TERM_(MEMLIMIT|SWAP)": JobState.OUT_OF_MEMORY,
    "TERM_(FORCE_)?(OWNER|ADMIN)|TERM_BUCKET_KILL|143": JobState.CANCELLED,
    "TERM_(PREEMPT|LOAD|WINDOW)": JobState.PREEMPTED,
    "TERM_(REQUEUE|ZOMBI)": JobState.NODE_FAIL,
}


def hosts(text: str) -> dict[str, int]:
    """Return host -> slots of LSB_MCPU_HOSTS, a 2 b 2, in its order."""
    words = text.split()
    return {host: number(slots) for host, slots in zip(words[::2], words[1::2])}


def records(text: str) -> list[dict[str, str]]:
    """Return the records of -json, all of whose values are strings. There is no JSON where nothing is found."""
    try:
        return list(json.loads(text)["RECORDS"]) if text.strip() else []
    except (ValueError, TypeError, KeyError):
        raise SchedulerError(
            "LSF's answer is no JSON", "mnrun needs LSF 10.1 with Fix Pack 2, or a later one"
        ) from None


def _ids(record: dict[str, str]) -> tuple[str, str]:
    """Return mnrun's id of a job, and LSF's own. The description of a job has the request of its array."""
    job, index = record["JOBID"].partition("[")[0], record["JOBINDEX"].strip(" ").lstrip("0")
    variable, _, array = record["JOB_DESCRIPTION"].partition("=")
    identity = arrays.identity(job, index, array if variable == arrays.VARIABLE else "")
    return identity, f"{job}[{index}]" if index else job


def alive(text: str, job: JobId) -> dict[str, str]:
    """Return LSF's own id -> state of a job, or of the tasks of an array, by bjobs without -a."""
    known = {_ids(record): record["STAT"] for record in records(text)}
    return {own: stat for (one, own), stat in known.items() if job in (JobId.of(one), JobId(JobId.of(one).number))}


def jobs(text: str, now: float) -> list[Job]:
    """Return the jobs of bjobs -hms -json."""
    from mnrun.schedulers.queue import Job

    found = []
    for record in records(text):
        stat, code = record["STAT"], number(record["EXIT_CODE"])
        state = _STATES.get(stat) or _ended(record["EXIT_REASON"] or str(code))
        why = _HELD if stat == "PSUSP" else record["PEND_REASON"].strip(" ;") if stat == "PEND" else ""
        # a:a:b, or 2*a:b where LSB_SHORT_HOSTLIST is set
        nodes = tuple(dict.fromkeys(host.rpartition("*")[2] for host in record["EXEC_HOST"].split(":") if host))
        run, limit = seconds(record["RUN_TIME"]), seconds(record["RUNTIMELIMIT"])
        start, end = (now - run, now - run + limit if limit else 0) if state is JobState.RUNNING else (0, 0)
        name, folded = record["JOB_NAME"].partition("[")[0], nodeset.fold(nodes) if nodes else ""
        about = (_ids(record)[0], name, state, why, record["QUEUE"], len(nodes), folded)
        found.append(Job(*about, 0, 0, 0, start, end, *shell_code(code)))
    return found


def _ended(reason: str) -> JobState:
    return next((state for pattern, state in _ENDS.items() if re.match(pattern, reason)), JobState.FAILED)
