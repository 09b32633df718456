#!/usr/bin/env python3
"""Play the commands of LSF that mnrun uses, over ssh between the hosts: bsub, bjobs, bkill, blaunch.

It is called by one of these names, and by `lsf.py serve|task|reap` on a host. Its state lies in $HOME/.lsf on the
file system that the hosts share. Its answers have the shape of public logs of LSF 10.1, and no real LSF was asked.
It is no kinder than LSF: bkill sends a KILL alone, a task has no input, and what has a session of its own lives on.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PLACE = Path.home() / ".lsf"
FLAGS = ("-x", "-B", "-N", "-r", "-rn", "-I", "-Is")  # the options of bsub without a value
GRACE = 5.0  # seconds from USR2 at the time limit to KILL, which are ten minutes of LSF's (bsub(1), -W)
MINUTE = int(os.environ.get("LSF_MINUTE", "60"))  # seconds
RUNLIMIT = "TERM_RUNLIMIT: job killed after reaching LSF run time limit"
OWNER = "TERM_OWNER: job killed by owner"
Job = dict[str, Any]


@contextmanager
def jobs() -> Iterator[dict[str, Job]]:
    """Yield the jobs, by LSF's id of each, under a lock. What the caller changes is kept."""
    PLACE.mkdir(exist_ok=True)
    with open(PLACE / "jobs", "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = json.loads(file.read() or "{}")
        yield known
        file.seek(0)
        file.truncate()
        file.write(json.dumps(known))


def on(host: str, *words: str) -> list[str]:
    """Return the words that run this program on a host."""
    line = shlex.join(["env", f"HOME={Path.home()}", "python3", os.path.realpath(__file__), *words])
    # A node that is switched off says nothing.
    return ["ssh", "-n", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=3", host, line]


def named() -> None:
    """Take the name of LSF's daemon, by which mnrun knows what is above a job."""
    Path("/proc/self/comm").write_text("res", encoding="ascii")


def bsub(words: list[str]) -> int:
    script = sys.stdin.read()
    for line in re.findall(r"^#BSUB (.*)$", script, re.MULTILINE):
        words += shlex.split(line, comments=True)
    given: dict[str, list[str]] = {}
    while words:
        flag = words.pop(0)
        given.setdefault(flag, []).append("" if flag in FLAGS else words.pop(0))
    slots, wanted = int(given.get("-n", ["1"])[0]), " ".join(given.get("-R", []))
    each = int(found[1]) if (found := re.search(r"span\[ptile=(\d+)\]", wanted)) else slots
    hosts = (given.get("-m") or [os.environ["LSF_HOSTS"]])[0].split()[: slots // each]
    if given.get("-q", ["normal"])[0] != "normal":
        print(f"{given['-q'][0]}: No such queue. Job not submitted.", file=sys.stderr)
        return 255
    name, indices = re.match(r"([^[]*)(?:\[1-(\d+)\])?", given.get("-J", ["NONAME"])[0]).groups()  # type: ignore[union-attr]
    hour, _, minute = given.get("-W", ["0:0"])[0].rpartition(":")
    variables = dict(part.split("=", 1) for part in given.get("-env", ["all"])[0].split(", ") if "=" in part)
    with jobs() as known:
        number = str(1 + max((int(one["JOBID"]) for one in known.values()), default=100))
        ids = [f"{number}[{index}]" for index in range(1, int(indices) + 1)] if indices else [number]
        for own in ids:
            known[own] = {
                **dict.fromkeys(("EXEC_HOST", "EXIT_CODE", "EXIT_REASON"), ""),
                "PEND_REASON": "New job is waiting for scheduling;",
                **{"JOBID": number, "JOBINDEX": own.partition("[")[2].rstrip("]") or "0", "QUEUE": "normal"},
                **{"JOB_NAME": own.replace(number, name), "JOB_DESCRIPTION": given.get("-Jd", [""])[0], "STAT": "PEND"},
                **{
                    "hosts": hosts,
                    "each": each,
                    "limit": MINUTE * (60 * int(hour or 0) + int(minute)),
                    "script": script,
                },
                **{"cwd": os.getcwd(), "env": {**os.environ, **variables}, "began": 0, "ended": 0, "signals": []},
                "file": given.get("-o", ["/dev/null"])[0].replace("%J", number),
            }
    for own in ids:
        null = subprocess.DEVNULL
        subprocess.Popen(on(hosts[0], "serve", own), stdin=null, stdout=null, stderr=null, start_new_session=True)
    print(f"Job <{number}> is submitted to default queue <normal>.")
    return 0


def serve(own: str) -> int:
    """Run a job on its first host, and all that LSF does to it."""
    named()
    with jobs() as known:
        job = known[own]
        if job["STAT"] != "PEND":
            return 0
        job.update(
            STAT="RUN", PEND_REASON="", EXEC_HOST=":".join(host for host in job["hosts"] for _ in range(job["each"]))
        )
        job["began"] = time.time()
    environ = {**job["env"], "LSB_JOBID": job["JOBID"], "LSB_JOBINDEX": job["JOBINDEX"], "LSB_QUEUE": "normal"}
    environ["LSB_MCPU_HOSTS"] = " ".join(f"{host} {job['each']}" for host in job["hosts"])
    environ["LSB_JOBNAME"] = job["JOB_NAME"]
    script, log = PLACE / f"{own}.shell", PLACE / f"{own}.out"
    script.write_text(job["script"], encoding="utf-8")
    script.chmod(0o700)
    with open(log, "wb") as out:
        # The job file is a script of sh, which starts that of the user ("LSF Job File", IBM Support). It outlives
        # signals, by LSB_TRAPSIGS='trap # 15 10 12 2 1' of a job's environment.
        words = ["/bin/sh", "-c", 'trap : 15 10 12 2 1; "$1"; exit $?', "sh", str(script)]
        process = subprocess.Popen(
            words, cwd=job["cwd"], env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
        reason = watch(own, process, job["limit"])
        kill(process.pid, "KILL")
    for host in job["hosts"]:
        subprocess.run(on(host, "reap", own), check=False)
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    with open(os.path.join(job["cwd"], job["file"].replace("%I", job["JOBINDEX"])), "a", encoding="utf-8") as file:
        file.write(log.read_text(encoding="utf-8", errors="replace") + (f"{reason}.\n" if reason else ""))
    with jobs() as known:
        known[own].update(STAT="EXIT" if code else "DONE", EXIT_CODE=str(code or ""), EXIT_REASON=reason)
        known[own]["ended"] = time.time()
    return 0


def watch(own: str, process: subprocess.Popen[bytes], limit: int) -> str:
    """Send signals to the session of a job until it has ended. Return the reason for its end."""
    began, reason = time.monotonic(), ""
    while process.poll() is None:
        time.sleep(0.1)
        with jobs() as known:
            sent, known[own]["signals"] = known[own]["signals"], []
        late = time.monotonic() - began - limit if limit else -1
        if late > 0 and not reason:
            sent, reason = [*sent, "USR2"], RUNLIMIT
        if "KILL" in sent or (reason == RUNLIMIT and late > GRACE):
            sent, reason = ["KILL"], reason or OWNER
        for name in sent:
            kill(process.pid, name)
    return reason


def kill(session: int, name: str) -> None:
    with suppress(ProcessLookupError):
        os.killpg(session, signal.Signals[f"SIG{name}"])


def blaunch(words: list[str]) -> int:
    """Start a line on a host of the job, by its environment and without input."""
    host, *line = [word for word in words if word != "-n"]
    if host not in os.environ.get("LSB_MCPU_HOSTS", "").split()[::2]:
        print(f"blaunch: {host} is no host of this job", file=sys.stderr)
        return 255
    index = os.environ["LSB_JOBINDEX"]
    own = os.environ["LSB_JOBID"] + (f"[{index}]" if index != "0" else "")
    file = PLACE / f"{own}.{host}.{os.getpid()}.task"
    file.touch(mode=0o600)
    file.write_text(json.dumps([dict(os.environ), os.getcwd(), " ".join(line)]), encoding="utf-8")
    return subprocess.run(on(host, "task", str(file)), check=False).returncode


def task(file: str) -> int:
    named()
    environ, cwd, line = json.loads(Path(file).read_text(encoding="utf-8"))
    null = subprocess.DEVNULL
    process = subprocess.Popen(["/bin/sh", "-c", line], cwd=cwd, env=environ, stdin=null, start_new_session=True)
    Path(f"{file}.{process.pid}").touch()
    return process.wait() % 256


def reap(own: str) -> int:
    """End the sessions of a job's tasks on this host."""
    for file in PLACE.glob(f"{glob_of(own)}.{os.uname().nodename}.*.task.*"):
        kill(int(file.suffix[1:]), "KILL")
    return 0


def glob_of(own: str) -> str:
    return own.replace("[", "[[]")


def bjobs(words: list[str]) -> int:
    fields = words[words.index("-o") + 1].upper().split()
    asked = [word for word in words[words.index("-o") + 2 :] if not word.startswith("-")]
    with jobs() as known:
        found = [one for own, one in known.items() if not asked or {own, one["JOBID"]} & {*asked}]
    if "-a" not in words and not asked:
        found = [one for one in found if not one["ended"]]
    if not found:
        print("\n".join(f"Job <{own}> is not found" for own in asked) or "No unfinished job found", file=sys.stderr)
        return 255
    for one in found:
        one["RUN_TIME"] = hms((one["ended"] or time.time()) - one["began"] if one["began"] else 0)
        one["RUNTIMELIMIT"] = hms(one["limit"]) if one["limit"] else ""
    records = [{field: one[field] for field in fields} for one in found]
    print(json.dumps({"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}, indent=2))
    return 0


def hms(seconds: float) -> str:
    return f"{int(seconds) // 3600:02}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"


def bkill(words: list[str]) -> int:
    name = words[1] if words[0] == "-s" else "KILL"
    code = 0
    for identity in words[2 * (words[0] == "-s") :]:
        with jobs() as known:
            mine = [one for own, one in known.items() if identity in (own, one["JOBID"])]
            alive = [one for one in mine if not one["ended"]]
            for one in alive:
                if one["STAT"] == "PEND":
                    one.update(STAT="EXIT", EXIT_REASON=OWNER, ended=time.time())
                one["signals"].append(name)
        ended = "Job has already finished" if mine else "No matching job found"
        print(
            f"Job <{identity}> is being {'terminated' if name == 'KILL' else 'signaled'}"
            if alive
            else f"Job <{identity}>: {ended}",
            file=sys.stdout if alive else sys.stderr,
        )
        code = code or 255 * (not alive)
    return code


if __name__ == "__main__":
    called = Path(sys.argv[0]).name
    if called == "lsf.py":
        called, *sys.argv[1:] = sys.argv[1:]
        raise SystemExit({"serve": serve, "task": task, "reap": reap}[called](*sys.argv[1:]))
    raise SystemExit({"bsub": bsub, "bjobs": bjobs, "bkill": bkill, "blaunch": blaunch}[called](sys.argv[1:]))
