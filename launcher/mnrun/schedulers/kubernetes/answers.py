"""Read what kubectl prints: pods, jobs, events and refusals become mnrun's states, codes and words. Pure.

The words are those of Kubernetes 1.20 to 1.37 (its API types, and `seen` on servers of 1.20).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from mnrun import nodeset
from mnrun.record import Record
from mnrun.schedulers.vocabulary import JobState

if TYPE_CHECKING:
    from mnrun.schedulers.queue import Job

Object = Mapping[str, Any]
LABEL, MANAGED, USER = "mnrun/job", "app.kubernetes.io/managed-by", "mnrun/user"  # labels of all that is mnrun's
ROLE, EACH = "mnrun/role", "mnrun/ranks-per-node"  # labels of a submitted job's pods
RIGHTS = "ask for the rights that mnrun plan --format rbac prints"


def refusal(errors: str, program: str, namespace: str) -> tuple[str, str]:
    """Return the reason and the remedy in what kubectl says at its end with a code."""
    lines = [line.strip() for line in errors.splitlines() if line.strip() and not line.startswith("Warning:")]
    line = next((line for line in lines if line.startswith(("Error", "error", "The connection"))), (lines or [""])[-1])
    right = re.search(r'User "([^"]*)" cannot (\S+) resource "([^"]*)"', line)
    if right:
        user, verb, resource = right.groups()
        return f"{user} may not {verb} {resource} in namespace {namespace or 'default'}", RIGHTS
    if quota := re.search(r"exceeded quota: ([^,]+), requested: (.*), used: (.*), limited: (.*)", line):
        name, asked, used, limit = quota.groups()
        return f"the quota {name} allows {limit}, of which {used} is used; the job asks for {asked}", "ask for less"
    if quota := re.search(r"failed quota: ([^:]+): must specify (.*)", line):
        return f"the quota {quota[1]} wants every pod to name {quota[2]}", "name them with --mem and -c"
    if policy := re.search(r'violates PodSecurity "([^":]*)[^"]*": (.*)', line):
        remedy = "leave out what it names, add --hardened, or use another namespace"
        return f"namespace {namespace} has the Pod Security level {policy[1]}, which forbids: {policy[2]}", remedy
    if 'unknown field "completionMode"' in line:
        return "this server gives the pods of a Job no index: it is older than Kubernetes 1.24", "use mnrun run"
    if "unable to validate against any security context constraint" in line:
        why = line.partition("constraint: ")[2]
        return f"no security context constraint of {namespace} allows this pod: {why}", RIGHTS
    if re.search(r"Unauthorized|must be logged in|provide credentials", line):
        return f"{program} is not logged in to the cluster", f"log in, and try {program} get pods"
    if re.search(r"connection to the server|[Uu]nable to connect|no configuration has been provided", line):
        return f"{program} reaches no cluster: {line}", f"see {program} config get-contexts, or use --local"
    return f"{program}: {line or 'ended without a message'}", ""


def container(pod: Object) -> Object:
    """Return the status of the container with the job, which is the first one of the pod's list."""
    name = next((entry["name"] for entry in pod.get("spec", {}).get("containers", ())), "main")
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return next((entry for entry in statuses if entry["name"] == name), {})


def condition(entry: Object, kind: str) -> Object:
    """Return a condition of an object, or {} if it is not there or not true."""
    conditions = entry.get("status", {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind and each["status"] == "True"), {})


def name_of(entry: Object) -> str:
    return str(entry["metadata"]["name"])


def phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def label(entry: Object, key: str) -> str:
    return str(entry["metadata"].get("labels", {}).get(key, ""))


def owns_a_run(entry: Object) -> bool:
    """Return whether this is the owner of a live run's pods. That of a submitted job has an owner itself."""
    return bool(entry["kind"] == "ConfigMap" and not entry["metadata"].get("ownerReferences"))


def nodes(pods: Iterable[Object]) -> list[Object]:
    """Return the pods of a submitted job that have its ranks, in the order of their indexes."""
    return sorted((pod for pod in pods if label(pod, ROLE) != "launcher"), key=_index)


def _index(pod: Object) -> int:
    """Return the place of a pod among those of its job: an Indexed Job or an operator tells it, or else the name."""
    told = {**pod["metadata"].get("annotations", {}), **pod["metadata"].get("labels", {})}
    last = re.search(r"-(\d+)$", name_of(pod))
    found = (told[key] for key in _INDEXES if key in told)
    return int(next(found, last[1] if last else 0))


_INDEXES = ("batch.kubernetes.io/job-completion-index", "training.kubeflow.org/replica-index")


def leaving(pod: Object) -> bool:
    """Return whether somebody has deleted the pod."""
    return "deletionTimestamp" in pod["metadata"]


def limits(pod: Object) -> Mapping[str, str]:
    containers: Sequence[Object] = pod.get("spec", {}).get("containers") or ({},)
    found: Mapping[str, str] = containers[0].get("resources", {}).get("limits", {})
    return found


class Wait(Record):
    """Why a pod does not run yet. `final` tells that it never will."""

    why: str
    final: bool = False


_NEVER = ("InvalidImageName", "ErrImageNeverPull", "ImagePullBackOff", "CreateContainerConfigError", "CrashLoopBackOff")
_NO_PROGRAM = r"exec: \"?([^\s\"]+)\"?: (?:stat \S+: no such file|executable file not found)"


def wait(pod: Object, events: Iterable[Object] = ()) -> Wait:
    """Return why a pod does not run. `events` are those of its namespace, the oldest first."""
    state = container(pod).get("state", {})
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    unscheduled = [each for each in pod.get("status", {}).get("conditions") or () if each["type"] == "PodScheduled"]
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    if reason in ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"):
        failed = (each["message"] for each in _of(pod, events) if each["reason"] == "Failed")
        pulled = [message for message in failed if "pull" in message]
        told = message if reason == "ErrImagePull" or not pulled else pulled[-1]
        image = pod["spec"]["containers"][0].get("image", "")
        return Wait(f"its image {image} cannot be pulled: {_short(told) or reason}", reason in _NEVER)
    if ended or phase(pod) in ("Failed", "Succeeded"):
        return Wait(lacking(ended.get("message", "")) or end(pod)[1], True)
    if missing := lacking(message):
        return Wait(missing, True)
    if reason and reason not in ("ContainerCreating", "PodInitializing"):
        what = "its container cannot be made" if "Config" in reason else "its container cannot start"
        return Wait(f"{what}: {_short(message) or reason}", reason in _NEVER)
    if unscheduled and unscheduled[0]["status"] == "False":
        return Wait(_unscheduled(str(unscheduled[0].get("message", ""))))
    for event in reversed(_of(pod, events)):
        if event.get("type") == "Warning":
            return Wait(f"{event['reason']}: {_short(event['message'])}")
    return Wait("its container is being made" if reason else "no node has been chosen for it yet")


def lacking(text: str) -> str:
    """Return the program that an image lacks, by what was said about a command that did not start, or ""."""
    missing = re.search(_NO_PROGRAM, text)
    return f"its image has no {missing[1]}" if missing else ""


def _of(pod: Object, events: Iterable[Object]) -> list[Object]:
    return [event for event in events if event["involvedObject"].get("name") == name_of(pod)]


def _short(text: str) -> str:
    """Return the last part of a message of several layers, which has the cause: `rpc error: … desc = CAUSE`."""
    text = re.sub(r"^.*\bdesc = ", "", " ".join(text.split()))
    return text if len(text) < 200 else f"{text[:120]} … {text[-70:]}"


def _unscheduled(message: str) -> str:
    """Return what is lacking: `0/5 nodes are available: 3 Insufficient nvidia.com/gpu, 2 node(s) had taint {…}`."""
    match = re.match(r"0/(\d+) nodes are available: (.*)", " ".join(message.split()))
    if not match:
        return f"no node takes it: {message or 'its scheduler has not said why'}"
    whole, rest = match[1], re.sub(r"(?<=[.,]) preemption: .*", "", match[2]).rstrip(". ")
    parts = [re.sub(r"^(\d+) Insufficient (.*)", r"\1 have too little \2 free", part) for part in rest.split(", ")]
    return f"none of {whole} nodes takes it: {', '.join(part.replace('node(s) ', '') for part in parts)}"


def _silent(pod: Object) -> bool:
    """Return whether the node of a pod does not answer. Nothing in its status says so, but that it is not ready, though
    its containers are (seen on 1.20)."""
    unready = condition(pod, "ContainersReady") and not condition(pod, "Ready")
    return phase(pod) == "Unknown" or bool(unready and phase(pod) == "Running")


def end(pod: Object) -> tuple[JobState, str]:
    """Return how a pod has ended or ends, and why in words. RUNNING and PENDING have no reason."""
    status, ended = pod.get("status", {}), container(pod).get("state", {}).get("terminated") or {}
    reason, message = status.get("reason", ""), status.get("message", "")
    if reason == "DeadlineExceeded":
        return JobState.TIMEOUT, f"its time limit of {pod['spec'].get('activeDeadlineSeconds', '?')} s"
    if ended.get("reason") == "OOMKilled":
        return JobState.OUT_OF_MEMORY, f"out of memory: its limit is {limits(pod).get('memory', 'that of its node')}"
    if reason == "Evicted" and "low on resource: memory" in message:
        return JobState.OUT_OF_MEMORY, f"{_DISRUPTED[reason]}: {_short(message)}"
    if reason == "NodeLost":
        return JobState.NODE_FAIL, f"Kubernetes has lost its node {pod['spec'].get('nodeName', '')}"
    if disrupted := condition(pod, "DisruptionTarget"):
        kind = disrupted.get("reason", "")
        state = JobState.NODE_FAIL if kind == "DeletionByTaintManager" else JobState.PREEMPTED
        return state, f"{_DISRUPTED.get(kind, kind)}: {_short(disrupted.get('message', ''))}"
    if reason in ("Evicted", "Preempting", "Shutdown", "NodeShutdown", "Terminated"):
        return JobState.PREEMPTED, f"{_DISRUPTED.get(reason, 'its node is shut down')}: {_short(message)}"
    if _silent(pod):
        return JobState.NODE_FAIL, f"its node {pod['spec'].get('nodeName', '')} does not answer"
    if leaving(pod):
        return JobState.CANCELLED, "its pod was deleted"
    if phase(pod) == "Succeeded":
        return JobState.COMPLETED, ""
    if phase(pod) == "Failed" or ended:
        code = ended.get("exitCode", 0)
        message = message or ended.get("message", "")
        return JobState.FAILED, _short(message) or f"its container ended with {code} ({ended.get('reason', reason)})"
    return (JobState.RUNNING if phase(pod) == "Running" else JobState.PENDING), ""


_DISRUPTED = {
    "PreemptionByScheduler": "a pod of higher priority takes its place",
    "PreemptionByKubeScheduler": "a pod of higher priority takes its place",
    "Preempting": "a pod of higher priority takes its place",
    "DeletionByTaintManager": "its node does not answer, or is closed",
    "DeletionByPodGC": "its node has gone",
    "EvictionByEvictionAPI": "it was evicted",
    "TerminationByKubelet": "its node ended it",
    "Evicted": "its node has evicted it",
}
# The worst of these is the state of a job. A pod whose job has ended is deleted too, so that says least.
_WORST = (
    *(JobState.TIMEOUT, JobState.OUT_OF_MEMORY, JobState.PREEMPTED, JobState.NODE_FAIL, JobState.FAILED),
    *(JobState.CANCELLED, JobState.PENDING, JobState.RUNNING, JobState.COMPLETED),
)


def _worst(ends: Iterable[tuple[JobState, str]]) -> tuple[JobState, str]:
    """Return the worst of several ends, if possible one with a reason."""
    return min(ends, key=lambda one: (_WORST.index(one[0]), not one[1]))


def ending(pods: Sequence[Object], owned: bool) -> tuple[JobState, str]:
    """Return the state of a job on pods, and the reason of its end. `owned`: the object that owns its pods is there."""
    if not pods:
        return JobState.CANCELLED, ""  # nothing is left of it
    ends = [(state, f"{name_of(pod)}: {why}" if why else "") for pod in pods for state, why in (end(pod),)]
    state, why = _worst(ends)
    deleted = state == JobState.CANCELLED and owned and any(one != state for one, _ in ends)  # one of its pods
    return (JobState.FAILED if deleted else state), why


def code_of(pods: Iterable[Object]) -> int:
    """Return the largest exit code of the containers of pods."""
    ended = ((container(pod).get("state", {}).get("terminated") or {}) for pod in pods)
    return max((int(each.get("exitCode", 0)) for each in ended), default=0)


_GOOD = ("Complete", "Completed", "Succeeded", "SuccessCriteriaMet")  # conditions


def state_of(entry: Object, pods: Sequence[Object]) -> tuple[JobState, str]:
    """Return the state of a Job, an MPIJob, a TrainJob or a JobSet, and why it waits or has ended. `pods` are its."""
    if leaving(entry):
        return JobState.CANCELLED, ""
    if any(condition(entry, kind) for kind in _GOOD):
        return JobState.COMPLETED, ""
    if failed := condition(entry, "Failed"):
        state = JobState.TIMEOUT if failed.get("reason", "") == "DeadlineExceeded" else JobState.FAILED
        worst, why = _worst([(state, ""), *map(end, pods)])
        return worst, why or _short(failed.get("message", ""))
    if condition(entry, "Suspended"):
        return JobState.PENDING, "it is suspended, as a queue does until it has room"
    waiting = [(name_of(pod), wait(pod).why) for pod in pods if end(pod)[0] == JobState.PENDING]
    if waiting or not pods:
        return JobState.PENDING, ": ".join(waiting[0]) if waiting else "it has no pods yet"
    return JobState.RUNNING, ""


def jobs(found: Sequence[Object]) -> list[Job]:
    """Return the jobs in a list of labelled objects: those with a controller, and live runs, which a ConfigMap owns."""
    from mnrun.schedulers.queue import Job

    by_job: dict[str, list[Object]] = {}
    for entry in found:
        by_job.setdefault(label(entry, LABEL), []).append(entry)
    told = []
    for name, entries in by_job.items():
        pods = sorted((one for one in entries if one["kind"] == "Pod"), key=lambda pod: label(pod, ROLE) != "launcher")
        launchers = [pod for pod in pods if label(pod, ROLE) == "launcher"]
        owners = [entry for entry in entries if entry["kind"] in CONTROLLERS]
        # Of a launcher's Job and that of its nodes, the first one's end is that of the job.
        owner = next((one for one in owners if name_of(one) == f"{name}-launcher"), next(iter(owners), None))
        if not name:
            continue
        state, why = state_of(owner, pods) if owner else ending(pods, True)
        if not owner and state == JobState.PENDING:
            why = next((wait(pod).why for pod in pods if end(pod)[0] == JobState.PENDING), "")
        starts = [_time(pod.get("status", {}).get("startTime", "")) for pod in pods]
        told.append(
            Job(
                id=name,
                name=name.rpartition("-")[0],
                state=state,
                reason=why,
                nodes=len(pods) - len(launchers),
                nodelist=nodeset.fold({pod["spec"].get("nodeName", "") for pod in pods} - {""}),
                gpus=sum(int(number) for pod in pods for kind, number in limits(pod).items() if "gpu" in kind),
                submitted=min(_time(entry["metadata"].get("creationTimestamp", "")) for entry in entries),
                start=min(starts, default=0.0),
                code=code_of(launchers or pods),
            )
        )
    return told


CONTROLLERS = ("Job", "MPIJob", "TrainJob", "JobSet")


def stranded(found: Sequence[Object]) -> list[str]:
    """Return the pods that wait in vain, such as for an image: the launcher of their job has ended. No controller ends
    them then, and the launcher has no right to."""
    launchers = (one for one in found if one["kind"] == "Job" and name_of(one) == f"{label(one, LABEL)}-launcher")
    over = {label(entry, LABEL) for entry in launchers if condition(entry, "Complete") or condition(entry, "Failed")}
    pods = (entry for entry in found if entry["kind"] == "Pod" and label(entry, LABEL) in over)
    return [name_of(pod) for pod in pods if phase(pod) == "Pending" and not leaving(pod)]


def _time(text: str) -> float:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return 0.0
