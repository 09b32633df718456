"""Parse the answers of squeue, sacct and sinfo into jobs and nodes. Runs no command.

Times are seconds since the epoch, or 0 where there is none: squeue and sacct run under SLURM_TIME_FORMAT=%s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mnrun.schedulers.model import ACTIVE, number
from mnrun.schedulers.queue import Job, PartitionNode

# The errors that mean another shape of JSON. The last one is a text of ten thousand brackets.
SHAPES = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
# Slurm 21.08 and 22.05 have squeue --json too, but it dumps every job of the cluster.
JSON_SINCE = (23, 2)


def squeue_json(text: str, uid: int) -> list[Job]:
    """Return the user's jobs in the output of `squeue --json`. Raises one of SHAPES if it has another shape."""
    answer = json.loads(text)
    if not isinstance(answer, dict) or not isinstance(answer.get("jobs"), list):
        raise ValueError("no jobs in it")
    return [_from_json(job) for job in answer["jobs"] if job.get("user_id", uid) == uid]


def _from_json(job: Mapping[str, Any]) -> Job:
    array, task, tasks = _int(job.get("array_job_id")), job.get("array_task_id"), job.get("array_task_string")
    identity = str(job["job_id"])
    if array and tasks:
        identity = f"{array}_[{tasks}]"
    elif array:
        identity = f"{array}_{_int(task)}"
    states = job.get("job_state") or "UNKNOWN"
    flags = [states] if isinstance(states, str) else list(map(str, states))
    # As squeue without JSON prints it. Until a job's nodes are clean, mnrun may not have written its outcome.
    state = "COMPLETING" if "COMPLETING" in flags else flags[0]
    code, signal = _json_exit(job.get("exit_code"))
    nodes = _int(job.get("node_count"))
    start, end = _int(job.get("start_time")), _int(job.get("end_time"))
    return Job(
        id=identity,
        name=str(job.get("name") or ""),
        state=state,
        reason=word(job.get("state_reason")),
        partition=str(job.get("partition") or ""),
        nodes=nodes,
        nodelist=str(job.get("nodes") or ""),
        gpus=_json_gpus(job, nodes),
        restarts=_int(job.get("restart_cnt")),
        submitted=_int(job.get("submit_time")),
        start=start,
        end=0 if _endless(job.get("time_limit")) and state in ACTIVE else end,
        code=code,
        signal=signal,
        depends=word(job.get("dependency")),
    )


def _int(value: Any) -> int:
    """Return a number of Slurm's JSON, which is plain or in an object that says whether it is set."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) and not value.get("infinite") else 0
    return value if isinstance(value, int) else 0


def _endless(limit: Any) -> bool:
    return isinstance(limit, dict) and bool(limit.get("infinite"))


def _json_exit(value: Any) -> tuple[int, int]:
    """Return (exit code, signal). Older versions of Slurm give the number of wait(2)."""
    if isinstance(value, dict):
        signal = value.get("signal") or {}
        number = signal.get("id", signal.get("signal_id")) if isinstance(signal, dict) else 0
        return _int(value.get("return_code")), _int(number)
    number = _int(value)
    return number >> 8 & 255, number & 127


def _json_gpus(job: Mapping[str, Any], nodes: int) -> int:
    """Return the GPUs of a job, granted or asked for. Without accounting, the trackable resources do not count GPUs."""
    granted = gpus_in(",".join(map(str, job.get("gres_detail") or [])))
    request = gpus_in(str(job.get("tres_per_node") or "")) * max(nodes, 1)
    request = request or gpus_in(str(job.get("tres_per_job") or ""))
    request = request or gpus_in(str(job.get("tres_per_task") or "")) * max(_int(job.get("tasks")), 1)
    return gpus_in(str(job.get("tres_alloc_str") or "")) or granted or request


def gpus_in(text: str) -> int:
    """Return the GPUs in `gpu:2(IDX:0-1)`, `gres/gpu=2`, `gres:gpu:a100:4` or `gpu`. A total counts alone, without
    its types. In sinfo's GresUsed, the type of GPUs without one is `(null)`."""
    total = re.search(r"(?:^|,)gres/gpu=(\d+)", text)
    if total:
        return number(total[1])
    counts = re.findall(r"(?:^|,)(?:gres[:/])?gpu(?:[:=](?!\d+(?:\(|,|$))(?:\(null\)|[^:=(,]+))?(?:[:=](\d+))?", text)
    return sum(number(count or "1") for count in counts)


def gpu_types(text: str) -> str:
    """Return the types in `gpu:a100:4(S:0-1),gpu:h100:2`."""
    return ",".join(dict.fromkeys(re.findall(r"(?:^|,)gpu:(?!\d+(?:\(|,|$))([^:(,]+)", text)))


def word(value: Any) -> str:
    """Return a word of Slurm's, or "" for each of its ways to say that there is none."""
    text = str(value or "")
    return "" if text in ("None", "(null)", "N/A", "n/a") else text


# squeue -O takes widths, since Slurm 20.11 has no separator that a value could not hold. A job's name may hold
# anything.
SQUEUE = (
    ("JobArrayID", 1000),
    ("State", 20),
    ("Reason", 120),
    ("NumNodes", 12),
    ("NodeList", 1000),
    ("exit_code", 12),
    ("StartTime", 24),
    ("EndTime", 24),
    ("SubmitTime", 24),
    ("RestartCnt", 12),
    ("tres-alloc", 200),
    ("tres-per-node", 120),
    ("tres-per-job", 120),
    ("Partition", 120),
    ("Dependency", 200),
    ("TimeLimit", 24),
    ("Name", 256),
)
SINFO = (
    ("Partition", 120),
    ("NodeList", 120),
    ("StateLong", 40),
    ("Gres", 400),
    ("GresUsed", 400),
    ("CPUsState", 40),
    ("Available", 12),
    ("Time", 24),
    ("Reason", 400),
    ("Memory", 20),
    ("Features", 400),
)


def widths(columns: Sequence[tuple[str, int]]) -> str:
    """Return the columns as -O takes them."""
    return ",".join(f"{name}:{width}" for name, width in columns)


def rows(text: str, columns: Sequence[tuple[str, int]]) -> list[dict[str, str]]:
    """Return the values of each line, by the names of their columns."""
    table = []
    for line in filter(str.strip, text.splitlines()):
        row, start = {}, 0
        for name, width in columns:
            row[name] = line[start : start + width].strip()
            start += width
        table.append(row)
    return table


def _typed(identity: str) -> str:
    """Return an id as people type it. The first component of a heterogeneous job is `100+0` in Slurm's tables."""
    return identity.removesuffix("+0")


def squeue_columns(text: str) -> list[Job]:
    """Return the jobs in squeue's output, which has the columns of SQUEUE."""
    jobs = []
    for row in rows(text, SQUEUE):
        code, signal = _exit(row["exit_code"])
        nodes = number(row["NumNodes"])
        endless = row["TimeLimit"] == "UNLIMITED" and row["State"] in ACTIVE
        gpus = gpus_in(row["tres-alloc"]) or gpus_in(row["tres-per-node"]) * max(nodes, 1)
        jobs.append(
            Job(
                id=_typed(row["JobArrayID"]),
                name=row["Name"],
                state=row["State"],
                reason=word(row["Reason"]),
                partition=row["Partition"],
                nodes=nodes,
                nodelist=row["NodeList"],
                gpus=gpus or gpus_in(row["tres-per-job"]),
                restarts=number(row["RestartCnt"]),
                submitted=number(row["SubmitTime"]),
                start=number(row["StartTime"]),
                end=0 if endless else number(row["EndTime"]),
                code=code,
                signal=signal,
                depends=word(row["Dependency"]),
            )
        )
    return jobs


def _exit(text: str) -> tuple[int, int]:
    """Return (exit code, signal) from `7:0`. Up to 23.02, squeue shows the status of wait(2) itself, which is 1792
    for that."""
    code, colon, signal = text.partition(":")
    if colon:
        return number(code), number(signal)
    return number(code) >> 8, number(code) & 0x7F


SACCT = "JobID,State,ExitCode,NNodes,NodeList,AllocTRES,ReqTRES,Submit,Start,End,Partition,JobName"


def sacct_lines(text: str) -> list[Job]:
    """Return the jobs in the output of `sacct -X -n -P` with the columns of SACCT. Of a requeued job, the last start
    counts."""
    jobs = {}
    for line in text.splitlines():
        parts = line.split("|", 11)
        if len(parts) < 12:
            continue
        identity, state, status, nodes, names, granted, request, *times, partition, name = parts
        code, _, signal = status.partition(":")
        jobs[identity] = Job(
            id=_typed(identity),
            name=name,
            state=state.split(" ")[0],  # CANCELLED by 1500
            partition=partition,
            nodes=number(nodes),
            nodelist="" if names == "None assigned" else names,
            gpus=gpus_in(granted) or gpus_in(request),
            submitted=number(times[0]),
            start=number(times[1]),
            end=number(times[2]),
            code=number(code),
            signal=number(signal),
        )
    return list(jobs.values())


def sinfo_columns(text: str) -> list[PartitionNode]:
    """Return the nodes in the output of `sinfo -N -O` with the columns of SINFO, once for each partition."""
    nodes = []
    for row in rows(text, SINFO):
        state = re.fullmatch(r"([a-z_]+)(.*)", row["StateLong"].lower())
        cpus = [number(part) for part in row["CPUsState"].split("/")]
        nodes.append(
            PartitionNode(
                partition=row["Partition"].rstrip("*"),
                default=row["Partition"].endswith("*"),
                node=row["NodeList"],
                state=state[1] if state else row["StateLong"],
                mark=state[2] if state else "",
                gpus=gpus_in(row["Gres"]) if row["Gres"] != "(null)" else 0,
                gpus_used=gpus_in(row["GresUsed"]) if row["GresUsed"] != "(null)" else 0,
                cpus=cpus[3] if len(cpus) == 4 else 0,
                cpus_idle=cpus[1] if len(cpus) == 4 else 0,
                up=row["Available"] == "up",
                limit=row["Time"],
                reason="" if row["Reason"] == "none" else row["Reason"],
                memory=number(row["Memory"]),
                gpu_types=gpu_types(row["Gres"]),
                features=word(row["Features"]),
            )
        )
    return nodes
