"""What the commands print: tables, attributes, JSON."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from .wire import VERSION

Attributes = Mapping[str, Any]
# The order of attributes; the rest follows.
ORDER = (
    "Job_Name", "Job_Owner", "resources_used", "job_state", "queue", "server", "Account_Name", "Checkpoint", "ctime",
    "depend", "Error_Path", "exec_host", "exec_vnode", "Execution_Time", "Hold_Types", "Join_Path", "Keep_Files",
    "Mail_Points", "Mail_Users", "mtime", "Output_Path", "Priority", "qtime", "Rerunable", "Resource_List", "stime",
    "obittime", "session_id", "jobdir", "substate", "Variable_List", "comment", "etime", "interactive", "block",
    "run_count", "Stageout_status", "Exit_status", "Submit_arguments", "executable", "argument_list",
    "history_timestamp", "array", "array_id", "array_index", "array_state_count", "array_indices_submitted",
    "array_indices_remaining", "project", "Submit_Host", "max_run_subjobs",
)  # fmt: skip
# What stays text in JSON, whatever it looks like.
TEXT = ("Job_Name", "Account_Name", "project", "Submit_arguments", "comment")
NUMBER = re.compile(r" *-?\d+(\.\d*)?([eE][-+]?\d+)?")
WIDTH = 79


def ordered(attributes: Attributes) -> dict[str, Any]:
    known = [name for name in ORDER if name in attributes]
    return {name: attributes[name] for name in (*known, *(name for name in attributes if name not in ORDER))}


def guessed(value: Any, name: str = "") -> Any:
    """Return what PBS's JSON makes of a value: it guesses types."""
    if isinstance(value, Mapping):
        return {key: guessed(each, key) for key, each in value.items()}
    if not isinstance(value, str) or name in TEXT:
        return value
    if value in ("true", "false"):
        return value == "true"
    if not NUMBER.fullmatch(value):
        return value
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 1e15 else number


def document(name: str, things: Mapping[str, Attributes], server: str) -> str:
    """Return JSON as PBS writes it; without things there is no word of them either."""
    top: dict[str, Any] = {"timestamp": int(time.time()), "pbs_version": VERSION, "pbs_server": server}
    if things:
        top[name] = {key: guessed(ordered(each)) for key, each in things.items()}
    text = json.dumps(top, indent="\t", separators=(",", ":\t"), ensure_ascii=False)
    # lists stand in one line
    return re.sub(r"\[[^]{}[]*\]", lambda found: re.sub(r"\s*\n\s*", "", found[0]).replace('","', '", "'), text) \
        if name == "nodes" else text  # fmt: skip


def flat(attributes: Attributes) -> Iterator[tuple[str, str]]:
    for name, value in ordered(attributes).items():
        if name == "Variable_List":
            yield name, ",".join(f"{key}={each}" for key, each in value.items())
        elif isinstance(value, Mapping):
            yield from ((f"{name}.{key}", str(each)) for key, each in value.items())
        else:
            yield name, str(value)


def wrapped(name: str, value: str) -> str:
    """Return a line of `qstat -f`: broken at commas, and in a long word anywhere."""
    text = f"    {name} = "
    width = len(text)
    for number, word in enumerate(re.findall(r"[^,]*,|[^,]+$", value)):
        if number and width + len(word) > WIDTH:
            text, width = f"{text}\n\t", 9
        for letter in word:
            if width >= WIDTH:
                text, width = f"{text}\n\t", 9
            text, width = text + letter, width + 1
    return text


def full(job: str, attributes: Attributes) -> str:
    lines = [wrapped(name, value) for name, value in flat(attributes)]
    return "\n".join([f"Job Id: {job}", *lines, ""])


def table(jobs: Mapping[str, Attributes]) -> str:
    """Return what a plain qstat prints."""
    lines = [
        "Job id            Name             User              Time Use S Queue",
        "----------------  ---------------- ----------------  -------- - -----",
    ]
    for job, has in jobs.items():
        name = has["Job_Name"] if len(has["Job_Name"]) <= 16 else has["Job_Name"][:15] + "*"
        used = has.get("resources_used", {}).get("cput") or ("00:00:00" if "session_id" in has else "0")
        user = has["Job_Owner"].split("@")[0]
        lines.append(f"{job:<17} {name:<16} {user:<16} {used:>9} {has['job_state']} {has['queue']:<16}")
    return "\n".join(lines) if jobs else ""
