#!/usr/bin/env python3
"""Play the commands of Flux that mnrun uses, over ssh between the hosts of $FLUX_HOSTS, without a daemon.

It is called by the name flux, also on the other hosts: `flux broker SCRIPT` runs a job, and `flux rank` what flux exec
starts there. Its state lies in $HOME/.flux on the file system that the hosts share. It answers as flux-core 0.88 was
recorded, and a job starts at once. It has no dependencies, no urgency and no flux alloc.
It is no kinder than Flux: what a killed flux exec has started gets a KILL at once, and output loses what follows a NUL.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shlex
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

PLACE = Path.home() / ".flux"
CORES = 8  # of each host
GRACE = 5.0  # seconds from the signal to KILL
DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
NO_HOST = 68
HEAD = struct.Struct(">cI")  # what a flux exec sends to its rank: a letter and the length of what follows
START, INPUT, END, TERM = b"S", b"I", b"E", b"T"
SSH = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=3", "-o", "ServerAliveInterval=1")
Job = dict[str, Any]


@contextmanager
def jobs() -> Iterator[dict[str, Job]]:
    """Yield the jobs, by the integer of each, under a lock. What the caller changes is kept."""
    PLACE.mkdir(exist_ok=True)
    with open(PLACE / "jobs", "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = json.loads(file.read() or "{}")
        yield known
        file.seek(0)
        file.truncate()
        file.write(json.dumps(known))


def shown(number: int, mark: str = "ƒ") -> str:
    """Return an id in base 58 (RFC 19)."""
    text = ""
    while number:
        number, digit = divmod(number, 58)
        text = DIGITS[digit] + text
    return mark + (text or "1")


def integer(word: str) -> str:
    """Return the integer of an id, as the key of a job."""
    if word[:1] not in ("ƒ", "f"):
        return word
    number = 0
    for letter in word[1:]:
        number = number * 58 + DIGITS.index(letter)
    return str(number)


def on(host: str, *words: str) -> list[str]:
    """Return the words that run this program on a host."""
    line = shlex.join(["env", f"HOME={Path.home()}", "python3", os.path.realpath(__file__), *words])
    return ["ssh", *SSH, host, line]


def instance() -> str:
    """Return the job whose instance is meant, or "" for the one with the queue."""
    return os.environ.get("FLUX_URI", "").removeprefix(f"local://{PLACE}/").partition("/")[0]


def hosts_of(job: str) -> list[str]:
    if not job:
        return os.environ["FLUX_HOSTS"].split()
    with jobs() as known:
        return list(known[job]["hosts"])


def ids(numbers: range) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"


def hostlist(hosts: list[str]) -> str:
    """Return hosts as Flux does: node[01-02] (RFC 29). They are of one name, with numbers one after the other."""
    numbers = [re.sub(r"^.*?(?=\d*$)", "", host) for host in hosts]
    return hosts[0] if len(hosts) == 1 else f"{hosts[0].removesuffix(numbers[0])}[{numbers[0]}-{numbers[-1]}]"


def wanted(words: list[str], script: str) -> argparse.Namespace:
    """Return the options of flux batch, of its script and of its command line."""
    parser = argparse.ArgumentParser("flux-batch", allow_abbrev=False)
    parser.add_argument("-N", "--nodes", type=int, default=1)
    parser.add_argument("-n", "--nslots", type=int)
    parser.add_argument("-c", "--cores-per-slot", type=int, default=1)
    parser.add_argument("-t", "--time-limit", default="0")
    parser.add_argument("--env", action="append", default=[])
    for name, default in (("job-name", ""), ("output", "flux-{{id}}.out"), ("error", ""), ("queue", "")):
        parser.add_argument(f"--{name}", default=default)
    for name in ("bank", "setattr"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--exclusive", action="store_true")
    parser.add_argument("script", nargs="?")
    own = [part for line in re.findall(r"^# ?flux: (.*)$", script, re.M) for part in shlex.split(line, comments=True)]
    return parser.parse_args([*own, *words])


def accept(words: list[str], script: str, now: float) -> Job:
    """Return a new job. Raises ValueError for a queue that is not there."""
    asked = wanted(words, script)
    if asked.queue:
        raise ValueError(f"[Errno 22] '{asked.queue}' is not a valid queue")
    slots = asked.nslots or asked.nodes
    number, unit = re.fullmatch(r"([\d.]+)([smhd]?)", asked.time_limit).groups()  # type: ignore[union-attr]
    seconds = float(number) * {"s": 1, "m": 60, "h": 3600, "d": 86400, "": 60}[unit]
    outer: Job = {"type": "slot", "count": slots // asked.nodes, "label": "task"}
    outer["with"] = [{"type": "core", "count": asked.cores_per_slot}]
    name = asked.job_name or os.path.basename(asked.script or "") or "batch"
    system = {"duration": seconds, "cwd": os.getcwd(), "job": {"name": name}}
    there = os.environ["FLUX_HOSTS"].split()
    job: Job = {
        "spec": {
            "resources": [{"type": "node", "count": asked.nodes, "with": [outer]}],
            "tasks": [{"command": ["flux", "broker", "{{tmpdir}}/script"], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {"system": system},
            "version": 1,
        },
        **{"hosts": there[: asked.nodes], "cores": slots * asked.cores_per_slot, "signals": [], "env": asked.env},
        **{"output": asked.output, "error": asked.error, "events": []},
    }
    job["shown"] = {
        **{"t_depend": now, "t_priority": now, "t_sched": now, "duration": seconds, "name": name, "cwd": os.getcwd()},
        **{"ntasks": slots, "nnodes": asked.nodes, "priority": 16, "id": int(now * 1000000), "t_submit": now},
        **{"state": "SCHED", "username": os.environ.get("USER", "alice"), "userid": os.getuid(), "urgency": 16},
        **{"status": "SCHED", "dependencies": [], "jobid": shown(int(now * 1000000)), "annotations": {}},
        "exception": {"occurred": False},
    }
    happened(job, f"submit userid={os.getuid()} urgency=16 flags=0 version=1", now)
    for event in ("validate", "depend", "priority priority=16"):
        happened(job, event, now)
    if asked.nodes > len(there):
        why = f"unsatisfiable request: need {asked.nodes} exclusive node(s), only {len(there)} eligible"
        happened(job, f'exception type="alloc" severity=0 note="{why}" userid={os.getuid()}', now)
        job["shown"]["t_cleanup"] = now
        job["cause"] = ("alloc", why)
        finish(job, None, now)
    return job


def happened(job: Job, event: str, now: float) -> None:
    job["events"].append(f"{now:.6f} {event}")


def begin(job: Job, now: float) -> None:
    """Note that a job runs."""
    entry, ranks = job["shown"], ids(range(len(job["hosts"])))
    uri = f"ssh://{job['hosts'][0]}{PLACE}/{entry['id']}/local-0"
    where = {"sched": {"resource_summary": f"rank{ranks}/core[0-{CORES - 1}]"}}
    happened(job, f"alloc annotations={json.dumps(where, separators=(',', ':'))}", now)
    happened(job, "start", now)
    happened(job, f'memo uri="{uri}"', now)
    entry.update(t_run=now, state="RUN", status="RUN", ncores=job["cores"], ranks=ranks, annotations=where, uri=uri)
    entry.update(nodelist=hostlist(job["hosts"]), runtime=0.0)
    if entry["duration"]:
        entry.update(expiration=now + entry["duration"], t_remaining=entry["duration"])


def stop(job: Job, cause: str, now: float) -> None:
    """Note the exception that ends a job. The list of jobs has it once the job has ended."""
    note = "resource allocation expired" if cause == "timeout" else ""
    rest = f'userid={os.getuid()} note="{note}"' if note else f'note="" userid={os.getuid()}'
    happened(job, f'exception type="{cause}" severity=0 {rest}', now)
    job["shown"].update(state="CLEANUP", status="CLEANUP", t_cleanup=now)
    job["cause"] = (cause, note)


def finish(job: Job, code: int | None, now: float) -> None:
    """Note the end of a job with this code, or None for one that never ran."""
    entry, cause = job["shown"], job.get("cause")
    if code is not None:
        happened(job, f"finish status={code << 8}", now)
        happened(job, 'release ranks="all" final=true', now)
        happened(job, "free", now)
        entry.update(waitstatus=code << 8, runtime=now - entry["t_run"])
        entry.setdefault("t_cleanup", now)
    happened(job, "clean", now)
    entry.pop("t_remaining", None)
    result = {"cancel": "CANCELED", "timeout": "TIMEOUT"}.get(
        cause[0] if cause else "", "FAILED" if code else "COMPLETED"
    )
    result = "FAILED" if code is None and result == "COMPLETED" else result
    entry.update(t_inactive=now, state="INACTIVE", status=result, result=result, success=result == "COMPLETED")
    entry["returncode"] = 1 if code is None else code
    if cause:
        entry["exception"] = {"occurred": True, "severity": 0, "type": cause[0], "note": cause[1]}


def batch(words: list[str]) -> int:
    file = next((word for word in words if os.path.isfile(word)), "")
    script = Path(file).read_text(encoding="utf-8") if file else sys.stdin.read()
    try:
        job = accept(words, script, time.time())
    except ValueError as problem:
        print(problem, file=sys.stderr)
        return 1
    own = str(job["shown"]["id"])
    with jobs() as known:
        known[own] = job
    if job["shown"]["state"] == "SCHED":
        place = PLACE / own
        place.mkdir()
        (place / "script").write_text(script, encoding="utf-8")
        (place / "script").chmod(0o700)
        environ = dict(os.environ)
        for word in job["env"]:
            environ.update([word.split("=", 1)] if "=" in word else [])
        environ.update(FLUX_URI=f"local://{place}/local-0", FLUX_ENCLOSING_ID=shown(job["shown"]["id"]))
        (place / "environ").touch(mode=0o600)
        (place / "environ").write_text(json.dumps(environ), encoding="utf-8")
        null = subprocess.DEVNULL
        words = on(job["hosts"][0], "broker", str(place / "script"))
        subprocess.Popen(words, stdin=null, stdout=null, stderr=null, start_new_session=True)
    locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    sys.stdout.buffer.write(f"{shown(int(own), 'ƒ' if 'UTF' in locale.upper() else 'f')}\n".encode())
    return 0


def named() -> None:
    """Take the name of Flux's broker, by which mnrun knows what is above a job."""
    Path("/proc/self/comm").write_text("flux-broker", encoding="ascii")


def broker(script: str) -> int:
    """Run a job on its first host, and all that Flux does to it."""
    named()
    place = Path(script).parent
    own = place.name
    with jobs() as known:
        job = known[own]
        if job["shown"]["state"] != "SCHED":
            return 0
        begin(job, time.time())
    paths = []
    for pattern in (job["output"], job["error"]):
        words = {"id": job["shown"]["jobid"], "id.dec": own, "name": job["shown"]["name"], "node.name": job["hosts"][0]}
        told = re.sub(r"\{\{(.*?)\}\}", lambda found: words[found[1]], pattern)  # noqa: B023  # called at once
        paths.append(os.path.join(job["shown"]["cwd"], told))
    with open(paths[0], "wb") as out, open(paths[1] if job["error"] else os.devnull, "wb") as err:
        process = subprocess.Popen(
            [script],
            cwd=job["shown"]["cwd"],
            env=json.loads((place / "environ").read_text(encoding="utf-8")),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err if job["error"] else out,
            start_new_session=True,
        )
        watch(own, process)
    take_away(own, job["hosts"])
    with jobs() as known:
        code = process.returncode
        finish(known[own], code if code >= 0 else 128 - code, time.time())
    return 0


def watch(own: str, process: subprocess.Popen[bytes]) -> None:
    """End the process group of a script by a cancel or at its time limit, and take the other nodes away."""
    stopped = 0.0
    while process.poll() is None:
        time.sleep(0.1)
        with jobs() as known:
            job = known[own]
            if not stopped and "t_cleanup" not in job["shown"] and time.time() > job["shown"].get("expiration", 1e12):
                stop(job, "timeout", time.time())
        if not stopped and "cause" in job:
            stopped = time.monotonic()
            for name in ("ALRM",) if job["cause"][0] == "timeout" else ("HUP", "TERM"):
                kill(process.pid, name)
            take_away(own, job["hosts"][1:])
        if stopped and time.monotonic() > stopped + GRACE:
            kill(process.pid, "KILL")


def kill(group: int, name: str) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.Signals[f"SIG{name}"])


def take_away(own: str, hosts: list[str]) -> None:
    """End what a job's instance has started on these hosts."""
    for process in [subprocess.Popen(on(host, "gone", own), stdin=subprocess.DEVNULL) for host in hosts]:
        process.wait()


def gone(own: str) -> int:
    """End the ranks of a job on this host, and what plays its broker."""
    for file in (PLACE / own).glob(f"{os.uname().nodename}.*"):
        group, player = map(int, file.name.split(".")[1:])
        file.unlink(missing_ok=True)
        with suppress(ProcessLookupError):
            os.kill(player, signal.SIGKILL)
        kill(group, "KILL")
    return 0


def execute(words: list[str]) -> int:
    """Run words on a host of the instance, or of a job of it, with this environment and this input."""
    own, job, rank = instance(), "", -1
    while words[0].startswith("-"):
        flag = words.pop(0)
        if flag == "-j":
            job = integer(words.pop(0))
        elif flag == "-r":
            rank = int(words.pop(0))
    hosts = hosts_of(job or own)
    if rank >= len(hosts):
        print(f"flux-exec: Error: rank {rank}: No route to host", file=sys.stderr)
        return NO_HOST
    process = subprocess.Popen(on(hosts[rank], "rank"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    lock, to = threading.Lock(), process.stdin

    def send(letter: bytes, data: bytes = b"") -> None:
        with lock, suppress(BrokenPipeError):
            to.write(HEAD.pack(letter, len(data)) + data)
            to.flush()

    send(START, json.dumps([own, dict(os.environ), os.getcwd(), words]).encode())
    for caught in (signal.SIGTERM, signal.SIGINT):
        signal.signal(caught, lambda *_: threading.Thread(target=send, args=(TERM,)).start())
    threading.Thread(target=hand_on, args=(send,), daemon=True).start()
    # Its output waits in a buffer of the C library's, unless stdbuf is around it.
    at_once = os.environ.get("_STDBUF_O") == "0"
    with open(1, "wb", buffering=0 if at_once else 4096, closefd=False) as out:
        while chunk := os.read(process.stdout.fileno(), 65536):
            out.write(re.sub(rb"\0[^\n]*", b"", chunk))
    code = process.wait()
    os.close(1)
    # ssh returns 255 where it reaches no host, and where what plays the broker there has gone.
    os._exit(NO_HOST if code == 255 else code)


def hand_on(send: Any) -> None:
    while data := os.read(0, 65536):
        send(INPUT, data)
    send(END)


def frames(source: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield what a flux exec sends, until it is gone."""
    while len(head := source.read(HEAD.size)) == HEAD.size:
        letter, size = HEAD.unpack(head)
        yield letter, source.read(size)


def rank() -> int:
    """Run what a flux exec asks for. It gets a KILL if that is gone, without an end of its input."""
    named()
    told = frames(sys.stdin.buffer)
    own, environ, cwd, words = json.loads(next(told)[1])
    try:
        process = subprocess.Popen(words, cwd=cwd, env=environ, stdin=subprocess.PIPE, start_new_session=True)
    except OSError as problem:
        print(f"flux-exec: Error: {problem}", file=sys.stderr)
        return 127
    file = PLACE / own / f"{os.uname().nodename}.{process.pid}.{os.getpid()}"
    if own:
        file.touch()

    def ended() -> None:
        code = process.wait()
        file.unlink(missing_ok=True)
        os._exit(code if code >= 0 else 128 - code)

    threading.Thread(target=ended).start()
    assert process.stdin
    for letter, data in told:
        with suppress(OSError, ValueError):
            if letter == INPUT:
                process.stdin.write(data)
                process.stdin.flush()
            elif letter == TERM:
                kill(process.pid, "TERM")
            if letter != INPUT:
                process.stdin.close()
    kill(process.pid, "KILL")
    return 137


def list_jobs(words: list[str]) -> int:
    asked = [integer(word) for word in words if word.isdecimal() or word.startswith("ƒ")]
    asked = [] if "-c" in words else asked
    with jobs() as known:
        found = [known[own]["shown"] for own in asked or list(known)[::-1] if own in known]
    if not asked and "-a" not in words:
        found = [entry for entry in found if entry["state"] != "INACTIVE"]
    for own in asked:
        if own not in known:
            print(f"flux-jobs: ERROR: JobID {shown(int(own))} unknown", file=sys.stderr)
    if found or not asked:
        print(json.dumps(found[0] if len(asked) == 1 else {"jobs": found}))
    return int(len(found) < len(asked))


def cancel(words: list[str]) -> int:
    code = 0
    for own in map(integer, words):
        with jobs() as known:
            job = known.get(own)
            state = job["shown"]["state"] if job else ""
            if job and state == "SCHED":
                job["shown"]["t_cleanup"] = time.time()
                stop(job, "cancel", time.time())
                finish(job, None, time.time())
            elif job and state == "RUN":
                stop(job, "cancel", time.time())
        if state in ("", "INACTIVE"):
            why = "job is inactive" if state else "unknown job id"
            print(f"flux-cancel: ERROR: {shown(int(own))}: {why}", file=sys.stderr)
            code = 1
    return code


def about(words: list[str]) -> int:
    """Print the events of a job, or what it asked for."""
    with jobs() as known:
        job = known.get(integer(words[1]))
    if job is None:
        print(f"flux-job: ERROR: {words[1]}: No such file or directory", file=sys.stderr)
        return 1
    print("\n".join(job["events"]) if words[0] == "eventlog" else json.dumps(job["spec"]))
    return 0


def resources(hosts: list[str], ranks: list[int], used: dict[str, int]) -> Job:
    """Return the set of resources (RFC 20) of these ranks, less what is used."""
    left = [(rank, used.get(hosts[rank], 0)) for rank in ranks]
    parts = [
        {"rank": str(rank), "children": {"core": ids(range(first, CORES))}} for rank, first in left if first < CORES
    ]
    names = [hosts[rank] for rank, first in left if first < CORES]
    listed = [hostlist(names) if names else ""]
    execution = {"R_lite": parts, "starttime": 0.0, "expiration": 0.0, "nodelist": listed}
    return {"version": 1, "execution": execution}


def resource(words: list[str]) -> int:
    hosts, states, used = hosts_of(instance()), words[words.index("-s") + 1].split(","), dict[str, int]()
    with jobs() as known:
        for job in known.values() if not instance() else ():
            for host in job["hosts"] if job["shown"]["state"] in ("RUN", "CLEANUP") else ():
                used[host] = used.get(host, 0) + job["cores"] // len(job["hosts"])
    ranks = list(range(len(hosts)))
    if "allocated" not in states:
        probes = [subprocess.Popen([*on(host, "true")], stdin=subprocess.DEVNULL, stderr=-3) for host in hosts]
        up = [probe.wait() == 0 for probe in probes]
        ranks = [number for number in ranks if up[number] is (states == ["free"])]
    print(json.dumps(resources(hosts, ranks, used if states == ["free"] else {})))
    return 0


def main(words: list[str]) -> int:
    if words[0] == "--parent":
        os.environ["FLUX_URI"] = ""
        words = words[1:]
    name, *rest = words
    if name in ("kvs", "getattr"):
        hosts = hosts_of(instance())
        whole = json.dumps(resources(hosts, list(range(len(hosts))), {}), separators=(",", ":"))
        print(whole if name == "kvs" else hostlist(hosts))
        return 0
    if name in ("rank", "true"):
        return rank() if name == "rank" else 0
    if name in ("broker", "gone"):
        return {"broker": broker, "gone": gone}[name](rest[0])
    verbs = {"batch": batch, "cancel": cancel, "exec": execute, "job": about, "jobs": list_jobs, "resource": resource}
    if name not in verbs:
        print(f"flux: `{name}' is not a flux command.  See 'flux --help'", file=sys.stderr)
        return 1
    return verbs[name](rest)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
