#!/usr/bin/env python3
"""Play kubectl over ssh between the hosts of $KUBE_HOSTS, without a server: each pod has processes of its own there.

It is called by the name kubectl. Its objects are files of $HOME/.kube-standin, which the hosts share. `kubectl kubelet
POD` on a host is what runs a pod: a namespace of processes, whose first one is the pod's command. The files of an image
are those of the host. The tag of an image tells what goes wrong: `:missing`, `:config`, `:nobash`, `:big`.
The file `faults` has lines `WORD POD`, which the next kubectl exec in POD obeys: drop, zero (it ends with 0), outlive
(it stays after its pod), deaf (no end of input). It prints what kubectl 1.20 and its server print, as recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

PLACE = Path.home() / ".kube-standin"
LOOK = 0.1  # seconds
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "LogLevel=ERROR")
TIED = ("setpriv", "--pdeathsig", "KILL")
PLURALS = {"pods": "Pod", "configmaps": "ConfigMap", "secrets": "Secret", "jobs": "Job", "events": "Event"}
Object = dict[str, Any]


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def file_of(kind: str, name: str) -> Path:
    return PLACE / f"{kind}.{name}"


def read(kind: str, name: str) -> Object | None:
    with suppress(OSError, ValueError):
        return dict(json.loads(file_of(kind, name).read_text(encoding="utf-8")))
    return None


def write(entry: Object) -> None:
    PLACE.mkdir(exist_ok=True)
    target = file_of(entry["kind"], entry["metadata"]["name"])
    fresh = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}")
    fresh.write_text(json.dumps(entry), encoding="utf-8")
    fresh.rename(target)


def found(kinds: str, selector: str) -> list[Object]:
    wanted = dict(part.split("=", 1) for part in selector.split(",") if part)
    names = [(PLURALS.get(kind, kind), path) for kind in kinds.split(",") for path in sorted(PLACE.glob("*"))]
    entries = [read(kind, path.name.partition(".")[2]) for kind, path in names if path.name.startswith(f"{kind}.")]
    return [
        entry
        for entry in entries
        if entry and all(entry["metadata"].get("labels", {}).get(key) == value for key, value in wanted.items())
    ]


def fail(text: str, code: int = 1) -> int:
    print(text, file=sys.stderr)
    return code


# Objects


def create() -> int:
    whole = json.loads(sys.stdin.read())
    for entry in whole.get("items", [whole]):
        name, kind = entry["metadata"]["name"], entry["kind"]
        if read(kind, name):
            return fail(
                f'Error from server (AlreadyExists): error when creating "STDIN": {kind} "{name}" already exists'
            )
        if refused := (PLACE / "refused").exists() and (PLACE / "refused").read_text(encoding="utf-8").strip():
            kinds, _, words = refused.partition(" ")
            if kind in kinds.split(","):
                text = f'Error from server (Forbidden): error when creating "STDIN": {words}'
                return fail(text.replace("NAME", name))
        entry["metadata"].update(uid=f"uid-{name}", creationTimestamp=now())
        if kind == "Pod":
            entry["status"] = {"phase": "Pending"}
            host = place(entry)
            if host:
                entry["spec"]["nodeName"] = host
                condition(entry, "PodScheduled", "True")
        write(entry)
        print(json.dumps(entry, indent=4))
        if kind == "Pod" and entry["spec"].get("nodeName"):
            begin(entry)
    return 0


def condition(entry: Object, kind: str, status: str, **more: str) -> None:
    rest = [each for each in entry["status"].get("conditions", []) if each["type"] != kind]
    entry["status"]["conditions"] = [*rest, {"type": kind, "status": status, **more}]


def place(entry: Object) -> str:
    """Return a host for a pod, on which no other pod is, or "" with the reason in its status."""
    taken = {pod["spec"].get("nodeName") for pod in found("pods", "")}
    hosts = os.environ["KUBE_HOSTS"].split()
    free = [host for host in hosts if host not in taken]
    if free and not image(entry).endswith(":big"):
        return free[0]
    message = f"0/{len(hosts)} nodes are available: {len(hosts)} Insufficient nvidia.com/gpu."
    condition(entry, "PodScheduled", "False", reason="Unschedulable", message=message)
    return ""


def image(entry: Object) -> str:
    return str(entry["spec"]["containers"][0]["image"])


WRONG = {
    "missing": ("ImagePullBackOff", 'Back-off pulling image "{}"'),
    "config": ("CreateContainerConfigError", 'configmap "settings" not found'),
    "nobash": (
        "RunContainerError",
        'failed to start container "main": OCI runtime create failed: exec: "sh": executable file not found in $PATH',
    ),
}


def begin(entry: Object) -> None:
    """Start a pod on its host."""
    wrong = WRONG.get(image(entry).rpartition(":")[2])
    status = {"name": "main", "ready": False, "restartCount": 0, "image": image(entry)}
    if wrong:
        state = {"waiting": {"reason": wrong[0], "message": wrong[1].format(image(entry))}}
        entry["status"]["containerStatuses"] = [{**status, "state": state}]
        write(entry)
        return
    line = f"env HOME={shlex.quote(str(Path.home()))} python3 {shlex.quote(os.path.realpath(__file__))} kubelet"
    words = (*SSH, "-f", entry["spec"]["nodeName"], f"{line} {entry['metadata']['name']} </dev/null >/dev/null 2>&1")
    subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def kubelet(name: str) -> int:
    """Run a pod on this host until its first process ends, or until it is deleted."""
    entry = read("Pod", name) or sys.exit(1)
    container = entry["spec"]["containers"][0]
    alone = ("unshare", "-U", "--map-current-user", "-m", "-p", "-f", "--mount-proc", "--kill-child")
    null, words = subprocess.DEVNULL, (*alone, *container["command"], *container.get("args", ()))
    around = {**os.environ, **{one["name"]: one["value"] for one in container.get("env", ()) if "value" in one}}
    with open(PLACE / f"log.{name}", "wb") as log:
        own = subprocess.Popen(words, cwd="/", env=around, stdin=null, stdout=log, stderr=log, start_new_session=True)
    first = ""
    while not first and own.poll() is None:
        first = Path(f"/proc/{own.pid}/task/{own.pid}/children").read_text(encoding="utf-8").strip()
        time.sleep(0.01)
    state: Object = {"running": {"startedAt": now()}}
    entry["status"].update(phase="Running", startTime=now(), standinPid=first)
    entry["status"]["containerStatuses"] = [{"name": "main", "ready": True, "state": state}]
    limit = entry["spec"].get("activeDeadlineSeconds")
    write(entry)
    deadline = time.monotonic() + limit if limit else float("inf")
    until = float("inf")
    while own.poll() is None:
        time.sleep(LOOK)
        current = read("Pod", name)
        gone = current is None or "deletionTimestamp" in current["metadata"] or time.monotonic() > deadline
        if gone and until == float("inf"):
            if current and time.monotonic() > deadline:
                message = "Pod was active on the node longer than the specified deadline"
                current["status"].update(phase="Failed", reason="DeadlineExceeded", message=message)
                write(current)
            with suppress(ProcessLookupError):
                os.kill(int(first), signal.SIGTERM)
            until = time.monotonic() + entry["spec"].get("terminationGracePeriodSeconds", 30)
        if time.monotonic() > until or (current and current["metadata"].get("killed")):
            with suppress(ProcessLookupError):
                os.kill(int(first), signal.SIGKILL)
    for left in (left for place in ("/tmp", "/dev/shm") for left in Path(place).glob(f"mnrun.{name[:-2]}-*")):
        shutil.rmtree(left, ignore_errors=True)  # as the files of a container go with it
    current = read("Pod", name)
    if current is None or "deletionTimestamp" in current["metadata"]:
        file_of("Pod", name).unlink(missing_ok=True)
        return 0
    code = own.returncode if own.returncode >= 0 else 128 - own.returncode
    oom = current["metadata"].get("killed") == "oom"
    ended = {"exitCode": 137 if oom else code, "reason": "OOMKilled" if oom else "Completed" if code == 0 else "Error"}
    current["status"]["phase"] = "Succeeded" if code == 0 else "Failed"
    current["status"]["containerStatuses"] = [{"name": "main", "ready": False, "state": {"terminated": ended}}]
    write(current)
    return 0


def delete(options: argparse.Namespace) -> int:
    named = (read(PLURALS[options.words[0]], name) for name in options.words[1:])
    entries = [each for each in named if each] or (found(options.words[0], options.l) if options.l else [])
    if not entries and not options.l:
        return fail(f'Error from server (NotFound): {options.words[0]} "{options.words[-1]}" not found')
    owners = {entry["metadata"]["uid"] for entry in entries}
    for entry in found("pods", ""):
        if any(owner["uid"] in owners for owner in entry["metadata"].get("ownerReferences", ())):
            entries.append(entry)
    for entry in entries:
        if entry["kind"] == "Pod" and "standinPid" in entry.get("status", {}) and entry["status"]["phase"] == "Running":
            entry["metadata"]["deletionTimestamp"] = now()
            write(entry)
        else:
            file_of(entry["kind"], entry["metadata"]["name"]).unlink(missing_ok=True)
        print(f'{entry["kind"].lower()} "{entry["metadata"]["name"]}" deleted')
    return 0


def get(options: argparse.Namespace) -> int:
    if options.watch:
        return watch(options)
    entries = found(options.words[0], options.l)
    if len(options.words) > 1:
        entries = [entry for entry in entries if entry["metadata"]["name"] in options.words[1:]]
    print(json.dumps({"apiVersion": "v1", "kind": "List", "items": entries}, indent=4))
    return 0


def watch(options: argparse.Namespace) -> int:
    known: dict[str, Object] = {}
    while True:
        fresh = {entry["metadata"]["name"]: entry for entry in found(options.words[0], options.l)}
        for name in (*fresh, *(set(known) - set(fresh))):
            if fresh.get(name) != known.get(name):
                kind = "ADDED" if name not in known else "MODIFIED" if name in fresh else "DELETED"
                print(json.dumps({"type": kind, "object": fresh.get(name, known.get(name))}, indent=4), flush=True)
        known = fresh
        time.sleep(LOOK)


# Commands in pods


def fault(pod: str) -> str:
    with suppress(OSError):
        for line in (PLACE / "faults").read_text(encoding="utf-8").splitlines():
            word, name = line.split()
            if name in (pod, "*"):
                return word
    return ""


def execute(pod: str, words: list[str], terminal: bool) -> int:
    entry = read("Pod", pod)
    if not entry or entry["status"]["phase"] != "Running":
        if not entry:
            return fail(f'Error from server (NotFound): pods "{pod}" not found')
        return fail(
            f"error: cannot exec into a container in a completed pod; current phase is {entry['status']['phase']}"
        )
    enter = ("nsenter", "-t", entry["status"]["standinPid"], "-U", "-m", "-p", "--preserve-credentials", "--")
    line = shlex.join(["cd", "/"]) + " && exec " + shlex.join([*enter, *words])
    tty = ("-tt",) if terminal else ()
    deaf = fault(pod) == "deaf"
    child = subprocess.Popen(
        (*TIED, *SSH, *tty, entry["spec"]["nodeName"], line), stdin=subprocess.PIPE if deaf else None
    )
    if deaf:
        threading.Thread(target=feed, args=(child,), daemon=True).start()
    while child.poll() is None:
        time.sleep(LOOK / 4)
        word = fault(pod)
        if word in ("drop", "zero"):
            child.kill()
            return 0 if word == "zero" else fail("error: error reading from error stream: unexpected EOF")
    while fault(pod) == "outlive":
        time.sleep(1)
    code = child.returncode
    gone = code in (255, -9) or not read("Pod", pod)
    if code and not gone:
        print(f"command terminated with exit code {code}", file=sys.stderr)
    return code if code >= 0 else 137


def feed(child: subprocess.Popen[bytes]) -> None:
    """Copy the input, and never its end."""
    assert child.stdin is not None
    while data := os.read(0, 65536):
        child.stdin.write(data)
        child.stdin.flush()
    threading.Event().wait()


def config(options: argparse.Namespace) -> int:
    name = options.context or "rehearsal"
    if name != "rehearsal":
        return fail(f'error: context "{name}" does not exist')
    entry = {"name": name, "context": {"cluster": name, "user": "alice"}}
    print(json.dumps({"kind": "Config", "contexts": [entry], "current-context": name}))
    return 0


def logs(options: argparse.Namespace) -> int:
    pods = [entry["metadata"]["name"] for entry in found("pods", options.l)] if options.l else options.words
    shown = dict.fromkeys(pods, 0)
    while True:
        live = [pod for pod in pods if (entry := read("Pod", pod)) and entry["status"]["phase"] == "Running"]
        for pod in pods:
            with suppress(OSError):
                text = (PLACE / f"log.{pod}").read_text(encoding="utf-8")
                sys.stdout.write(text[shown[pod] :])
                shown[pod] = len(text)
        sys.stdout.flush()
        if not live or not options.follow:
            return 0
        time.sleep(LOOK)


def main(words: list[str]) -> int:
    before, dashes, rest = ([*words, "--"][: [*words, "--"].index("--")], "--" in words, words)
    parser = argparse.ArgumentParser("kubectl", allow_abbrev=False)
    if "logs" in before:
        before = ["--follow" if word == "-f" else word for word in before]
    parser.add_argument("--follow", action="store_true")
    for option in ("--tail", "--max-log-requests", "--pod-running-timeout"):
        parser.add_argument(option)
    for option in ("--context", "--namespace", "-l", "-c", "-f", "-o", "--sort-by", "--wait", "--field-selector"):
        parser.add_argument(option, default="", nargs="?" if option == "-f" else None)
    for option in ("-i", "-t", "-it", "--minify", "--output-watch-events", "-w"):
        parser.add_argument(option, action="store_true", dest="watch" if option == "-w" else None)
    parser.add_argument("verb")
    parser.add_argument("words", nargs="*")
    options = parser.parse_intermixed_args(before)
    verbs: dict[str, Callable[[], int]] = {
        "create": create,
        "get": lambda: get(options),
        "delete": lambda: delete(options),
        "config": lambda: config(options),
        "logs": lambda: logs(options),
        "kubelet": lambda: kubelet(options.words[0]),
        "exec": lambda: execute(options.words[0], rest[len(before) + 1 :] if dashes else [], options.it),
    }
    return verbs[options.verb]()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:]))
