"""Parse the answers of squeue, sacct and sinfo into jobs and nodes. Runs no command.

Times are seconds since the epoch, or 0 where there is none: squeue and sacct run under SLURM_TIME_FORMAT=%s.
"""

from __future__ import annotations

import re
from typing import Any

from mnrun.schedulers.queue import Job, PartitionNode
from mnrun.schedulers.slurm.states import job_state, node_state
from mnrun.schedulers.vocabulary import ACTIVE, JobState, number


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


# Columns as -O takes them, with widths: Slurm 20.11 has no separator that a value could not hold. A job's name may hold
# anything.
SQUEUE = (
    "JobArrayID:1000,State:20,Reason:120,NumNodes:12,NodeList:1000,exit_code:12,StartTime:24,EndTime:24,SubmitTime:24,"
    "RestartCnt:12,tres-alloc:200,tres-per-node:120,tres-per-job:120,Partition:120,Dependency:200,TimeLimit:24,Name:256"
)
SINFO = (
    "Partition:120,NodeList:120,StateLong:40,Gres:400,GresUsed:400,CPUsState:40,Available:12,Time:24,Reason:400,"
    "Memory:20,Features:400"
)


def widths(columns: str) -> list[tuple[str, int]]:
    return [(name, int(width)) for name, width in (column.split(":") for column in columns.split(","))]


def rows(text: str, columns: str) -> list[dict[str, str]]:
    """Return the values of each line, by the names of their columns."""
    table = []
    for line in filter(str.strip, text.splitlines()):
        row, start = {}, 0
        for name, width in widths(columns):
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
        nodes, state = number(row["NumNodes"]), job_state(row["State"])
        endless = row["TimeLimit"] == "UNLIMITED" and state in ACTIVE
        gpus = gpus_in(row["tres-alloc"]) or gpus_in(row["tres-per-node"]) * max(nodes, 1)
        jobs.append(
            Job(
                id=_typed(row["JobArrayID"]),
                name=row["Name"],
                state=state,
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
                why=unopened(state, signal, row["NodeList"]),
                depends=word(row["Dependency"]),
            )
        )
    return jobs


UNOPENED = 53  # the signal that slurmstepd names where it cannot open a file of the script (SIG_FILE, 0:53)


def unopened(state: JobState, signal: int, nodes: str) -> str:
    """Return why a script could not start, or "" if it did, as far as Slurm tells."""
    if state != JobState.FAILED or signal != UNOPENED:
        return ""
    return f"Slurm could not open the file of --output or --error on {nodes}: can you write there?"


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
    counts. A request that Slurm refused has no code here, as in squeue's answer: sacct (24.11) tells 1:0 of it."""
    jobs = {}
    for line in text.splitlines():
        parts = line.split("|", 11)
        if len(parts) < 12:
            continue
        identity, state, status, nodes, names, granted, request, *times, partition, name = parts
        had_nodes = names != "None assigned"
        code, _, signal = status.partition(":")
        jobs[identity] = Job(
            id=_typed(identity),
            name=name,
            state=job_state(state.split(" ")[0]),  # CANCELLED by 1500
            partition=partition,
            nodes=number(nodes),
            nodelist=names if had_nodes else "",
            gpus=gpus_in(granted) or gpus_in(request),
            submitted=number(times[0]),
            start=number(times[1]),
            end=number(times[2]),
            code=number(code) if had_nodes else 0,
            signal=number(signal),
            why=unopened(job_state(state.split(" ")[0]), number(signal), names),
        )
    return list(jobs.values())


def sinfo_columns(text: str) -> list[PartitionNode]:
    """Return the nodes in the output of `sinfo -N -O` with the columns of SINFO, once for each partition."""
    nodes = []
    for row in rows(text, SINFO):
        word_and_mark = re.fullmatch(r"([a-z_]+)(.*)", row["StateLong"].lower())
        code, mark = word_and_mark.groups() if word_and_mark else (row["StateLong"], "")
        state, why = node_state(code, mark, "" if row["Reason"] == "none" else row["Reason"])
        cpus = [number(part) for part in row["CPUsState"].split("/")]
        nodes.append(
            PartitionNode(
                partition=row["Partition"].rstrip("*"),
                default=row["Partition"].endswith("*"),
                node=row["NodeList"],
                state=state,
                gpus=gpus_in(row["Gres"]) if row["Gres"] != "(null)" else 0,
                gpus_used=gpus_in(row["GresUsed"]) if row["GresUsed"] != "(null)" else 0,
                cpus=cpus[3] if len(cpus) == 4 else 0,
                cpus_idle=cpus[1] if len(cpus) == 4 else 0,
                up=row["Available"] == "up",
                limit=row["Time"],
                why=why,
                memory=number(row["Memory"]),
                gpu_types=gpu_types(row["Gres"]),
                features=word(row["Features"]),
            )
        )
    return nodes
