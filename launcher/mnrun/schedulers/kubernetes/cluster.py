"""The job on pods that mnrun has made, its nodes by kubectl exec, and the queue of the user's jobs in the cluster."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mnrun import nodeset
from mnrun.errors import NotYours, SchedulerError, UsageError
from mnrun.jobspec import Image, ImageKind, JobSpec, Way
from mnrun.model import Allocation, Command, Layout, Node, Site, Unwell, Words
from mnrun.schedulers import parts
from mnrun.schedulers.kubernetes import TITLE, answers, detached, job, kubectl, pods
from mnrun.schedulers.kubernetes.allocate import Known, remove
from mnrun.schedulers.kubernetes.kubectl import KINDS, Place
from mnrun.schedulers.vocabulary import BatchStart, JobId, JobState, StepPlace, is_job_name

if TYPE_CHECKING:
    from mnrun.reach.transport import Transport
    from mnrun.schedulers.cache import CachedQueue
    from mnrun.schedulers.queue import Job

CLIENT = "kubectl exec -i"
GROUP = "."  # the control group of a process in a pod is that of its container
WARNINGS: tuple[str, ...] = ("TERM",)  # of hold.sh
ENDS = "its pod ends by itself, within half a minute after its guard"
ENDED = "had ended already, and now its objects are removed"
YOUNG = 60.0  # seconds in which a job may have no pods yet
LAST = "removed"  # the file of a job's record with its end, once its objects are removed
SOON, LOOK = 3.0, 0.3  # seconds for kubelet to tell of a change or for a server to answer, and between two questions


def pod(environ: Mapping[str, str]) -> str | None:
    """Return the working directory in the pods, or "" before there are any."""
    return Known.of(environ).folder if job(environ) else ""


def start(environ: Mapping[str, str]) -> BatchStart:
    if not (identity := job(environ)):
        return parts.started("", "", "", "", ())
    return parts.started(identity, "", identity, name(environ), (node[0] for node in Known.of(environ).nodes))


def current(environ: Mapping[str, str]) -> tuple[Allocation, Site]:
    """Return the job whose pods this mnrun has."""
    known = Known.of(environ)
    nodes = tuple(Node(*one) for one in known.nodes)
    gpus = {node.name: node.gpus for node in nodes}
    detached.expect(known.job, tuple(gpus), environ)
    script = known.job if detached.CALLS in environ else ""
    site = Site("kubernetes", known.job, details=known.place, gpus=gpus, binds=False, channels=True, script=script)
    return Allocation("kubernetes", known.job, nodes, ntasks=known.ranks), site


site = partial(parts.site, "kubernetes")


def name(environ: Mapping[str, str]) -> str:
    """Return the context of kubectl, which names the cluster."""
    return Known.of(environ).place.context if job(environ) else kubectl.here({}, environ).context


def reach(allocation: Allocation, way: Way) -> Transport:
    """Return a transport with a kubectl exec for each command in a pod, or, in a launcher, by the calls of its pods."""
    from mnrun.schedulers.kubernetes.channel import Pods

    if called := detached.reach(allocation.job):
        return called
    names = tuple(node.name for node in allocation.nodes)
    return Pods(names, kubectl.place_of(allocation.job, {}))


def beside(place: StepPlace, words: Words) -> list[Command]:
    """Return a kubectl exec for each of these pods."""
    from mnrun.schedulers.kubernetes.channel import within

    at = kubectl.place_of(place.job, {})

    def near(node: str, line: str, terminal: bool = False) -> Words:
        return within(at, node, ("sh", "-c", line), terminal)

    return parts.by_ssh(place, words, near) if place.terminal else parts.beside(place, words, near)


def tunnels(place: StepPlace, port: int, login: tuple[str, str], entrance: Callable[[], str]) -> dict[str, str]:
    """Return the kubectl of a machine that has the user's login to the cluster, and that of the machine here."""
    line = shlex.join(kubectl.place_of(place.job, {}).words("port-forward", *place.nodes, str(port)))
    return {"tunnel": line, "or": f"ssh -L {port}:127.0.0.1:{port} {'@'.join(login)} {line}"}


def inside(
    job: str, rank: int | None, node: str, words: Words, environ: Mapping[str, str], terminal: bool
) -> Command | None:
    """Return the kubectl exec of a command in a pod of a submitted job, with the variables of the pod. Raises
    UsageError, and returns None for a live run, whose records tell more."""
    until = time.monotonic() + SOON
    while True:
        found = kubectl.of_job(kubectl.place_of(job, environ), KINDS, job, environ)
        if not found or any(map(answers.owns_a_run, found)):
            return None
        pod = _chosen(job, answers.nodes(entry for entry in found if entry["kind"] == "Pod"), rank, node)
        # kubelet tells the server a moment later that a container runs.
        if answers.phase(pod) != "Pending" or time.monotonic() > until:
            break
        time.sleep(LOOK)
    name = answers.name_of(pod)
    if answers.phase(pod) != "Running":
        raise UsageError(f"{name} of job {job} does not run", f"see mnrun status {job}")
    return beside(StepPlace(job, (name,), terminal=terminal), words or ("sh",))[0]


def _chosen(job: str, own: Sequence[answers.Object], rank: int | None, node: str) -> answers.Object:
    """Return the pod of a rank or of a node, or the first. Raises UsageError."""
    names, number, asked = [answers.name_of(pod) for pod in own], 0, "pods"
    if rank is not None and own:
        number, asked = rank // int(answers.label(own[0], answers.EACH) or 1), f"rank {rank}"
    elif node:
        number, asked = names.index(node) if node in names else len(own), f"node {node}"
    if number >= len(own):
        remedy = f"its nodes are {nodeset.fold(names)}" if own else f"see mnrun status {job}"
        raise UsageError(f"job {job} has no {asked}", remedy)
    return own[number]


def _pods(job: str, environ: Mapping[str, str]) -> tuple[list[answers.Object], bool]:
    """Return the pods of a job, and whether the object that owns them is there. A busy server may refuse once: without
    an answer, ranks that end with their pod would count as a program that has ended. Raises SchedulerError."""
    until = time.monotonic() + SOON
    while True:
        try:
            found = kubectl.of_job(kubectl.place_of(job, environ), KINDS, job, environ)
            break
        except SchedulerError:
            if time.monotonic() > until:
                raise
            time.sleep(LOOK)
    own: list[answers.Object] = [entry for entry in found if entry["kind"] == "Pod"]
    return own, any(entry["kind"] != "Pod" and not answers.leaving(entry) for entry in found)


def ending(site: Site, environ: Mapping[str, str]) -> JobState:
    with suppress(SchedulerError):
        found, owned = _pods(site.job, environ)
        state = answers.ending(found, owned)[0]
        ours = Known.of(environ).nodes if job(environ) == site.job else ()
        one_gone = state == JobState.RUNNING and len(found) < len(ours)  # deleted by force
        return JobState.FAILED if one_gone else state
    return JobState.UNKNOWN


def runs(job: str, environ: Mapping[str, str]) -> bool:
    return ending(Site("kubernetes", job), environ) in (JobState.RUNNING, JobState.UNKNOWN)


def time_limit(job: str, environ: Mapping[str, str]) -> str:
    with suppress(SchedulerError):
        seconds = [pod["spec"].get("activeDeadlineSeconds") for pod in _pods(job, environ)[0]]
        return f"{seconds[0]} s" if seconds and seconds[0] else ""
    return ""


def lost(names: Sequence[str], environ: Mapping[str, str], since: float | None = None) -> dict[str, Unwell]:
    """Return the pods that have ended, or whose nodes have gone. With `since`, a connection has just ended, and kubelet
    tells of an end a moment later."""
    deadline = time.monotonic() + (SOON if since else 0)
    found: dict[str, Unwell] = {}
    with suppress(SchedulerError):
        while names and not found:
            there, _ = _pods(names[0].rpartition("-")[0], environ)
            ends = {answers.name_of(pod): answers.end(pod) for pod in there}
            ended = {name: ends.get(name, (JobState.CANCELLED, "its pod was deleted")) for name in names}
            found = {
                name: Unwell(why, starved=state == JobState.OUT_OF_MEMORY, named=False)
                for name, (state, why) in ended.items()
                if state not in (JobState.RUNNING, JobState.PENDING)
            }
            if time.monotonic() > deadline:
                break
            time.sleep(LOOK)
    return found


def request(spec: JobSpec, options: Sequence[str]) -> Words:
    """Return the call that makes the pods of a job."""
    return ("kubectl", "create", "-f", "-")


def directives(spec: JobSpec, layout: Layout, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (field of the pods: value, origin). The image stays out. Raises Impossible for what pods lack."""
    pods.refuse_files(spec)
    named = spec.with_image(Image(ImageKind.REFERENCE, "IMAGE"))
    tree = pods.explained(named, layout, pods.settings(spec))
    tree["pods"], tree["spec"]["activeDeadlineSeconds"] = (
        pods.Said(layout.nnodes, layout.why_nodes),
        pods.deadline(spec),
    )
    del tree["spec"]["containers"][0]["image"]
    again = [("# its pods start once", str(spec.origins["requeue"]))] if "requeue" in spec.origins else []
    return again + [
        (f"{'.'.join(str(part) for part in path if part not in ('metadata', 'spec'))}: {value}", why)
        for path, (value, why) in pods.leaves(pods.cut(tree))
    ]


def user_queue(environ: Mapping[str, str], home: Path, poll: float) -> CachedQueue:
    """Return the user's jobs in the cluster."""
    from mnrun.schedulers.cache import Answers, CachedQueue
    from mnrun.schedulers.queue import Job

    def jobs() -> list[Job]:
        found = [(place, _listed(place, environ)) for place in _places(environ)]
        for place, objects in found:
            if idle := answers.stranded(objects):
                kubectl.run(place, ("delete", "pods", *idle, "--ignore-not-found", "--wait=false"), environ)
        told = [one for _, objects in found for one in answers.jobs(objects)]
        return [_last(records / one.id) if (records / one.id / LAST).is_file() else one for one in told]

    def removed(ids: Sequence[str]) -> list[Job]:
        """Return the jobs that were submitted, and that mnrun cancel has removed. Kubernetes keeps no word of them."""
        kept, names = kubectl.kept(), ids or [one.name for one in records.glob("*-*") if is_job_name(one.name)]
        return [_last(records / one) for one in names if one not in kept and (records / one).is_dir()]

    records = home / ".mnrun" / "jobs"
    kept = Answers(home / ".mnrun" / "kubernetes.json", min(poll, 2.0), environ, ("KUBECONFIG",))
    return CachedQueue(TITLE, kept, jobs, removed, list, partial(_delete, environ, records))


def _last(record: Path) -> Job:
    """Return a removed job: as it was then, or cancelled."""
    from mnrun.schedulers.queue import Job

    with suppress(OSError, ValueError, TypeError, KeyError):
        told = json.loads((record / LAST).read_text(encoding="utf-8"))
        return Job(**{**told, "state": JobState(told["state"])})
    return Job(record.name, "", JobState.CANCELLED)


def _places(environ: Mapping[str, str]) -> list[Place]:
    """Return where this user's jobs are, and where they would be by default."""
    return [*dict.fromkeys((kubectl.here({}, environ), *(place for place, _ in kubectl.kept().values())))]


def _kinds(place: Place) -> str:
    """Return the kinds of the objects that this user's jobs in a place have."""
    return ",".join(dict.fromkeys((KINDS, *(kind for one, kind in kubectl.kept().values() if one == place and kind))))


def _listed(place: Place, environ: Mapping[str, str]) -> list[answers.Object]:
    """Return the objects of all jobs of this user in a place."""
    found = kubectl.items(place, ("get", _kinds(place), "-l", f"{answers.MANAGED}=mnrun"), environ)
    own = {answers.label(entry, answers.LABEL) for entry in found if answers.label(entry, answers.USER) == parts.user()}
    return [entry for entry in found if answers.label(entry, answers.LABEL) in own]


def sweep(environ: Mapping[str, str], dry_run: bool) -> list[str]:
    """Remove the pods of live runs that have ended, and all else of these runs. Return their names."""
    from mnrun.system.screen import Screen

    gone = []
    for place in _places(environ):
        found = _listed(place, environ)
        live = {answers.name_of(entry) for entry in found if answers.owns_a_run(entry)}
        young = time.time() - YOUNG  # another mnrun may be about to make the pods
        jobs = (one for one in answers.jobs(found) if one.nodes or one.submitted < young)
        over = [one.id for one in jobs if not one.active and one.id in live]
        for one in over if not dry_run else ():
            remove(one, place, environ, Screen())
        gone += over
    return gone


def _delete(environ: Mapping[str, str], records: Path, identity: JobId) -> bool:
    """End a job, and return False if it had ended already. Raises NotYours if there is none."""
    job, place = str(identity), kubectl.place_of(str(identity), environ)
    kinds = _kinds(place)
    found = kubectl.of_job(place, kinds, job, environ)
    if not found:
        kubectl.forget(job)
        raise NotYours(f"no job {job} of yours", [job])
    told = answers.jobs(found)
    active = any(one.active for one in told)
    kubectl.delete(place, f"{kinds},services", job, environ)
    if told and (records / job).is_dir():
        last = replace(told[0], state=JobState.CANCELLED, end=time.time()) if active else told[0]
        (records / job / LAST).write_text(json.dumps(asdict(last)), encoding="utf-8")
    return active
