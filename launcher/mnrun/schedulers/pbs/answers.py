"""Read what the commands of PBS print: JSON of OpenPBS, and the text of Torque, which has none. Pure.

JSON guesses types: the text 007 is a number there, and true a truth value (seen, 23.06). So all values are texts here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mnrun import nodeset
from mnrun.errors import SchedulerError
from mnrun.model import Node, Unwell
from mnrun.schedulers import arrays
from mnrun.schedulers.vocabulary import JobId, JobState, NodeState, moment, number, seconds, span

if TYPE_CHECKING:
    from mnrun.schedulers.queue import Job, PartitionNode

Record = Mapping[str, str]  # attribute -> value. A resource is an attribute of its own: Resource_List.walltime
# The resources that may be GPUs: no name is PBS's own.
GPUS = ("ngpus", "gpus", "ngpu", "gpu", "num_gpus", "naccelerators")


def records(text: str, kind: str) -> Mapping[str, Record]:
    """Return name -> record of all jobs, nodes, queues or servers in an answer. `kind` is their name in JSON: Jobs.
    Raises SchedulerError."""
    if not text.startswith("{"):
        return _of_text(text)
    try:
        return {name: dict(_flat(record)) for name, record in json.loads(text).get(kind, {}).items()}
    except (ValueError, AttributeError) as error:
        raise SchedulerError(f"an answer of PBS cannot be read: {error}", "ask the cluster's admins") from None


def _flat(record: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield above + key, ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _of_text(text: str) -> dict[str, dict[str, str]]:
    """Return the records of a text. Each begins with its name, and a tab continues the line before."""
    found: dict[str, dict[str, str]] = {}
    record: dict[str, str] = {}
    for line in text.replace("\n\t", "").splitlines():
        key, equals, value = line.strip().partition(" = ")
        if line[:1].strip():
            record = found.setdefault(re.sub("^(Job Id|Queue|Server): ?", "", line), {})
        elif equals:
            record[key] = value
            if key == "Variable_List":
                record.update({f"{key}.{name}": one for name, one in re.findall(r"(\w+)=([^,]*)", value)})
    return found


def parts(job: str) -> tuple[str, str, str]:
    """Return (number, [ if it is an array or a task of one, the task) of PBS's id of a job: 58[3].login."""
    number, bracket, rest = job.partition(".")[0].partition("[")
    return number, bracket, rest.rstrip("]")


def theirs(job: str, array: str = "") -> str:
    """Return PBS's id of a job of mnrun's: 58[3] for 58_3. `array` is the request of one that runs by position."""
    number, task = JobId.of(job)
    return f"{number}[{arrays.position(array, task)}]" if task else number


def positions(record: Record) -> str:
    """Return the request of an array that runs by position, or ""."""
    return record.get(f"Variable_List.{arrays.VARIABLE}", "")


# The states of a job by the letters of qstat(1B). `B` is an array of which a task has begun.
_STATES = {
    **dict.fromkeys("QHWT", JobState.PENDING),
    **dict.fromkeys("RB", JobState.RUNNING),
    **dict.fromkeys("SU", JobState.SUSPENDED),
    "E": JobState.COMPLETING,
}
_ENDED = ("F", "X", "C")  # X is a task of an array, and C is Torque's F
_SENT, _DELETED = "41", "91"  # substates: on its way to its nodes, and deleted
# An Exit_status below 0 is PBS's own (job.h).
_OWN_ENDS = {
    **dict.fromkeys((-3, -11), JobState.REQUEUED),
    **dict.fromkeys((-26, -27), JobState.OUT_OF_MEMORY),
    **dict.fromkeys((-28, -29), JobState.TIMEOUT),
    -20: JobState.NODE_FAIL,
}


def end(record: Record) -> tuple[JobState, int, int]:
    """Return (state, exit code, signal) of a job that has ended. One that never ran has no code. A deleted one has 271
    whatever its script returned, since the login shell around that dies of TERM."""
    status = record.get("Exit_status", record.get("exit_status", ""))
    if not re.fullmatch(r"-?\d+", status):
        return JobState.CANCELLED, 0, 0
    code = int(status)
    signal = code - 256 if code > 256 else code - 128 if 128 < code <= 192 else 0  # of 64
    state = JobState.FAILED if code else JobState.COMPLETED
    state = JobState.CANCELLED if record.get("substate") == _DELETED else _OWN_ENDS.get(code, state)
    return state, 0 if signal or code < 0 else code, signal


def state(record: Record) -> JobState:
    letter = record.get("job_state", "")
    if letter in _ENDED:
        return end(record)[0]
    sent = letter == "R" and record.get("substate") == _SENT
    return JobState.CONFIGURING if sent else _STATES.get(letter, JobState.UNKNOWN)


_HELD = {"u": "held by its owner: qrls releases it", "o": "held by an operator", "s": "held by PBS"}
NEVER = "Can Never Run: "


def why(record: Record) -> str:
    """Return the reason that a job waits, in words."""
    letter, comment = record.get("job_state", ""), record.get("comment", "")
    if comment.startswith(NEVER):
        return f"can never run: {comment[len(NEVER) :]}"
    if letter == "W":
        return f"waits until {record.get('Execution_Time', 'its time')}"
    if letter == "H" and "depend" in record:
        return f"waits for another job: {re.sub(r'(@|[.])[^:,]*', '', record['depend'])}"
    return re.sub("^Not Running: (Job is )?", "", comment) or _HELD.get(record.get("Hold_Types", "")[:1], "")


def queue(found: Mapping[str, Record], user: str) -> list[Job]:
    """Return the jobs of a user. The tasks of an array stand for it, where the answer has them."""
    from mnrun.schedulers.queue import Job

    own = {parts(name): one for name, one in found.items() if owner(one) == user}
    lists = {number: positions(one) for (number, bracket, task), one in own.items() if bracket and not task}
    with_tasks = {number for number, _, task in own if task}
    jobs = []
    for (number_of, bracket, task), one in own.items():
        if bracket and not task and number_of in with_tasks:
            continue
        told = task or one.get("array_indices_remaining", "")
        identity = arrays.identity(number_of, told, lists.get(number_of) or positions(one))
        over, known = one.get("job_state", "") in _ENDED, state(one)
        start, limit = moment(one.get("stime", "")), seconds(one.get("Resource_List.walltime", ""))
        ended = moment(one.get("obittime") or one.get("mtime", "")) if over else start + limit if start and limit else 0
        reason = why(one) if known == JobState.PENDING else ""
        hosts = dict.fromkeys(_hosts(one))
        gpus = sum(number(one.get(f"Resource_List.{name}", "")) for name in GPUS)
        where = (one.get("queue", ""), len(hosts) or number(one.get("Resource_List.nodect", "")))
        nodes = nodeset.fold(hosts) if hosts else ""
        times = (moment(one.get("qtime") or one.get("ctime", "")), start, ended)
        code, signal = end(one)[1:] if over else (0, 0)
        name, depends = one.get("Job_Name", ""), one.get("depend", "")
        entry = Job(identity, name, known, reason, *where, nodes, gpus, restarts(one), *times, code, signal, depends)
        jobs.append(entry)
    return jobs


def owner(record: Record) -> str:
    return record.get("Job_Owner", "").partition("@")[0]


def restarts(record: Record) -> int:
    return max(number(record.get("run_count", record.get("start_count", ""))) - 1, 0)


def _hosts(record: Record) -> list[str]:
    """Return the host of each chunk: node03/0*4+node01/0*4, or node01/0-3 of Torque."""
    return re.findall(r"([^/+]+)/", record.get("exec_host", ""))


def nodes(record: Record, places: Mapping[str, int], cpus: int) -> list[Node]:
    """Return the nodes of a job in the order of its node file, which has each as often as in `places`. The job's record
    has their CPUs and GPUs: (node03:ncpus=4:ngpus=2)+(…). Without it, each has `cpus`. Where a job asked for different
    numbers of ranks (mpiprocs), each node has its own."""
    held: dict[str, list[str]] = {}
    for host, chunk in zip(_hosts(record), re.findall(r"\(([^)]*)\)", record.get("exec_vnode", ""))):
        held.setdefault(host.partition(".")[0], []).extend(re.split("[:+]", chunk))
    of_torque = re.findall(r"([^+]+?)-gpu/", record.get("exec_gpus", ""))
    uneven = "Resource_List.mpiprocs" in record and len(set(places.values())) > 1
    found = []
    for name, count in places.items():
        has = held.get(name.partition(".")[0], ())
        gpus = _amount(has, GPUS) + of_torque.count(name)
        found.append(Node(name, _amount(has, ("ncpus",)) or cpus or count, gpus, count if uneven else None))
    return found


def _amount(words: Sequence[str], resources: Sequence[str]) -> int:
    pairs = (word.partition("=") for word in words)
    return sum(number(value) for name, _, value in pairs if name in resources)


def partitions(found: Mapping[str, Record], queues: Mapping[str, Record], default: str) -> list[PartitionNode]:
    """Return each node in each queue that may use it. A queue that routes jobs to others has none."""
    from mnrun.schedulers.queue import PartitionNode

    entries = []
    for queue, of_queue in queues.items():
        up = of_queue.get("enabled") == of_queue.get("started") == "True"
        limit = seconds(of_queue.get("resources_max.walltime", ""))
        of_it = {name: one for name, one in found.items() if one.get("queue", queue) == queue}
        for name, one in of_it.items() if of_queue.get("queue_type", "")[:1] != "R" else ():
            all_cpus, used, gpus, gpus_used = (
                sum(number(one.get(f"resources_{kind}.{resource}", "")) for resource in names)
                for names in (("ncpus",), GPUS)
                for kind in ("available", "assigned")
            )
            cpus, bad = all_cpus or number(one.get("np", "")), unwell({name: one}).get(name)
            busy = used >= cpus or "exclusive" in one.get("state", "")
            state = NodeState.BUSY if busy else NodeState.PARTLY if used else NodeState.FREE
            state, words = (NodeState.OUT, bad.words) if bad else (state, "")
            memory = number(one.get("resources_available.mem", "").replace("kb", "")) // 1024
            size, time = (gpus, gpus_used, cpus, cpus - used), span(limit) if limit else "infinite"
            entries.append(PartitionNode(queue, queue == default, name, state, *size, up, time, words, memory))
    return entries


_BAD = ("down", "offline", "stale", "state-unknown", "unknown", "unresolvable")


def unwell(found: Mapping[str, Record]) -> dict[str, Unwell]:
    """Return the nodes that are not well. Nothing can start where pbs_mom does not answer."""
    whys = {}
    for name, one in found.items():
        comment = f" ({one['comment']})" if one.get("comment") else ""
        if bad := [word for word in one.get("state", "").split(",") if word in _BAD]:
            whys[name] = Unwell(f"PBS says {', '.join(bad)}{comment}", bad != ["offline"])
    return whys
