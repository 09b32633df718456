"""Read what Grid Engine's commands print: qstat -xml, qacct, qconf, and the file of a job's hosts. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mnrun.model import Unwell
from mnrun.record import Record
from mnrun.schedulers import arrays
from mnrun.schedulers.vocabulary import JobState, NodeState, moment, number, shell_code, span

if TYPE_CHECKING:
    from mnrun.schedulers.queue import Job, PartitionNode

# Of a job's resources, those that may be GPUs: no name is Grid Engine's own.
GPUS = ("gpu", "gpus", "ngpus", "ngpu", "num_gpu", "cuda")


def hosts(text: str) -> dict[str, int]:
    """Return host -> slots of PE_HOSTFILE, in its order. A host with slots in several queues has several lines."""
    found: dict[str, int] = {}
    for words in (line.split() for line in text.splitlines() if len(line.split()) > 1):
        found[words[0]] = found.get(words[0], 0) + number(words[1])
    return found


# The states of a job by the letters of qstat(1): the first that it has. A job in error waits for somebody to clear it.
_STATES = {
    "d": JobState.COMPLETING,
    **dict.fromkeys("sST", JobState.SUSPENDED),
    "w": JobState.PENDING,
    "t": JobState.CONFIGURING,
    "r": JobState.RUNNING,
}
_WHY = {"E": "in error: qstat -j tells why, and qmod -cj clears it", "h": "held, or waits for another job"}


def job_state(letters: str) -> JobState:
    return next((state for letter, state in _STATES.items() if letter in letters), JobState.UNKNOWN)


def queue(text: str, asked: Mapping[str, str] = {}) -> list[Job]:
    """Return the jobs of `qstat -r -xml`. `asked` has the requests of arrays, by their jobs."""
    from mnrun.schedulers.queue import Job

    found = []
    for entry in _entries(text, "job_list"):
        job, letters = _text(entry, "JB_job_number"), _text(entry, "state")
        queue, _, host = _text(entry, "queue_name").partition("@")
        why = next((why for letter, why in _WHY.items() if letter in letters and "w" in letters), "")
        submitted, start = (moment(_text(entry, name)) for name in ("JB_submission_time", "JAT_start_time"))
        limit = number(_resources(entry, "hard_request").get("h_rt", ""))
        end = start + limit if start and limit else 0
        identity, name = arrays.identity(job, _text(entry, "tasks"), asked.get(job, "")), _text(entry, "JB_name")
        found.append(Job(identity, name, job_state(letters), why, queue, 0, host, 0, 0, submitted, start, end))
    return found


class Details(Record):
    """A job as `qstat -j` tells of it. Grid Engine forgets a job at its end."""

    owner: str = ""
    pe: str = ""
    notify: bool = True
    gpus: float = 0  # for each slot
    array: str = ""  # the request of its array, by its variable
    output: str = ""
    error: str = ""


def details(text: str) -> dict[str, Details]:
    """Return job -> details of `qstat -j JOBS -xml`."""
    found = {}
    for entry in re.split("(?=<JB_job_number>)", text)[1:]:
        asked = {_text(one, "CE_name"): _text(one, "CE_stringval") for one in _entries(entry, "qstat_l_requests")}
        environ = {_text(one, "VA_variable"): _text(one, "VA_value") for one in _entries(entry, "job_sublist")}
        found[_text(entry, "JB_job_number")] = Details(
            owner=_text(entry, "JB_owner"),
            pe=_text(entry, "JB_pe"),
            notify=_text(entry, "JB_notify") == "true",
            gpus=next((float(value) for name, value in asked.items() if name in GPUS), 0.0),
            array=environ.get(arrays.VARIABLE, ""),
            output=_text(_text(entry, "JB_stdout_path_list"), "PN_path"),
            error=_text(_text(entry, "JB_stderr_path_list"), "PN_path"),
        )
    return found


_UNWELL = {"u": "its sge_execd does not answer", "E": "its queue is in error", "d": "its queue is disabled"}


def nodes(text: str) -> list[PartitionNode]:
    """Return each host of each queue of `qstat -f -F -xml`."""
    from mnrun.schedulers.queue import PartitionNode

    found = []
    for entry in _entries(text, "Queue-List"):
        queue, _, host = _text(entry, "name").partition("@")
        has, limit = _resources(entry, "resource"), _resources(entry, "resource").get("h_rt", "")
        total, used = number(_text(entry, "slots_total")), number(_text(entry, "slots_used"))
        why = next((words for mark, words in _UNWELL.items() if mark in _text(entry, "state")), "")
        state = NodeState.FREE if not used else NodeState.PARTLY if used < total else NodeState.BUSY
        gpus = next((int(float(has[name])) for name in GPUS if name in has), 0)
        time = span(int(float(limit))) if re.fullmatch(r"[\d.]+", limit) else "infinite"
        state = NodeState.OUT if why else state
        found.append(PartitionNode(queue, False, host, state, gpus, 0, total, total - used, not why, time, why))
    return found


def unwell(text: str) -> dict[str, Unwell]:
    """Return the hosts none of whose queues is well. Only one whose sge_execd is silent can run nothing."""
    whys: dict[str, list[str]] = {}
    for entry in nodes(text):
        whys.setdefault(entry.node, []).append(entry.why)
    return {host: Unwell(why[0], why[0] == _UNWELL["u"]) for host, why in whys.items() if all(why)}


# The end of a job by qacct's `failed` (sge_status(5)), and by `failed` and the code. A job that was killed has 100,
# whoever did it, and one that mnrun has ended in time after a warning has mnrun's own code.
_FAILED = {"37": JobState.TIMEOUT, "22": JobState.NODE_FAIL, "25": JobState.REQUEUED}
_ENDS = {("100", 137): JobState.CANCELLED, ("0", 143): JobState.CANCELLED, ("0", 0): JobState.COMPLETED}


def history(text: str, asked: Mapping[str, str] = {}) -> list[Job]:
    """Return the jobs of `qacct -j`. Each task of a parallel job has a record, too: the script's began first."""
    from mnrun.schedulers.queue import Job

    found: dict[str, Job] = {}
    for record in map(table, re.split(r"^=+$", text, flags=re.MULTILINE)):
        job = record.get("jobnumber", "")  # "" for the sum of all, at the end
        if not job or (record["taskid"] != "undefined" and job not in asked):
            continue  # only the request of the array tells which task it was
        failed, code = record["failed"].split()[0], number(record["exit_status"].split()[0])
        state = _ENDS.get((failed, code)) or _FAILED.get(failed, JobState.FAILED)
        code, signal = shell_code(code)
        submitted, start, end = (moment(record[f"{time}_time"]) for time in ("qsub", "start", "end"))
        identity, name = arrays.identity(job, record["taskid"], asked.get(job, "")), record["jobname"]
        queue, host = record["qname"], record["hostname"]
        entry = Job(identity, name, state, "", queue, 0, host, 0, 0, submitted, start, end, code, signal)
        before = found.get(entry.id)
        # A start that was followed by another is an earlier one; a task of the job began after the job.
        if before is None or entry.submitted <= before.submitted:
            found[entry.id] = entry
    return list(found.values())


def table(text: str) -> dict[str, str]:
    """Return attribute -> value of what `qconf -sp` or a record of qacct has."""
    lines = (line.split(None, 1) for line in text.replace("\\\n", " ").splitlines())
    return {words[0]: words[1].strip() for words in lines if len(words) == 2}


def pes(text: str) -> list[str]:
    """Return the PEs of the queues of `qconf -sq`: mpi-2 smp,[@some_hosts=mpi-4]."""
    lists = re.findall(r"^pe_list\s+(.*)", text.replace("\\\n", " "), re.MULTILINE)
    return sorted({*re.sub(r"\[[^=]*=|[],]", " ", " ".join(lists)).split()} - {"NONE"})


def _entries(text: str, tag: str) -> list[str]:
    """Return the contents of all elements of this name in qstat's XML, which is flat there."""
    return re.findall(rf"<{tag}(?:\s[^>]*)?>(.*?)</{tag}>", text, re.DOTALL)


def _text(entry: str, tag: str) -> str:
    import html  # imported here, since its table of names costs each start a millisecond

    return html.unescape(next(iter(_entries(entry, tag)), "").strip())


def _resources(entry: str, tag: str) -> dict[str, str]:
    return dict(re.findall(rf'<{tag} name="([^"]*)"[^>]*>([^<]*)</{tag}>', entry))
