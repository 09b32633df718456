"""Get pods for one job, keep them while it runs, and remove all of them at its end.

A ConfigMap of the job's name owns the pods, so that one removal takes all. Each pod waits (hold.sh) for guards, which
come by kubectl exec.
"""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from signal import SIGINT
from signal import Signals as signal_name
from typing import Any

from mnrun import nodeset
from mnrun.errors import (
    DeadlineError,
    JobEnded,
    NoAnswerError,
    NodeError,
    OutOfMemory,
    RuntimeFailed,
    SchedulerError,
    TimeLimit,
)
from mnrun.files import spoken
from mnrun.jobspec import JobSpec, gpu_count
from mnrun.model import Layout
from mnrun.reach.transport import allow_files
from mnrun.schedulers import writing
from mnrun.schedulers.kubernetes import JOB, PODS, answers, kubectl, pods
from mnrun.schedulers.kubernetes.channel import Pods
from mnrun.schedulers.kubernetes.kubectl import Place
from mnrun.schedulers.vocabulary import Granted, JobState
from mnrun.system.events import Event, Signal
from mnrun.system.screen import Screen
from mnrun.system.signals import Signals, held

SILENCE = 30  # seconds without a guard after which a pod ends
LONGER = 60  # seconds more that a pod waits for its first guard than mnrun waits for its pods
LOOK = 2.0  # seconds between two looks at events while a pod does not start, and at most between two at the pods
SHORT, PART = 0.1, 0.1  # seconds at least between two looks at the pods, and the part of the time that they have taken
QUESTION = 20.0  # seconds for a pod to answer the first question
KINDS = "configmaps,pods"
GRACE = 30  # seconds for the guards at the end of a pod

# Answers only after the end of its input, of which a gateway may not tell.
_FACTS = 'cat >/dev/null; printf "%s\\n" "$PWD"; nproc'


@dataclass(frozen=True)
class Known:
    """What mnrun keeps of its pods while they run."""

    job: str
    place: Place
    folder: str  # the working directory in the pods
    nodes: tuple[tuple[str, int, int], ...]  # name, CPUs and GPUs of each pod
    ranks: int

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Known:
        """Return what the variable of this environment tells."""
        values = json.loads(environ[PODS])
        nodes = tuple((str(name), int(cpus), int(gpus)) for name, cpus, gpus in values["nodes"])
        return cls(values["job"], Place(**values["place"]), values["folder"], nodes, values["ranks"])


@contextmanager
def allocated(spec: JobSpec, options: Sequence[str], environ: Mapping[str, str], screen: Screen) -> Iterator[Granted]:
    """Yield the variables of a job on pods that run, and remove them at the end. Raises LaunchError if they do not
    start. A signal raises SystemExit(128+n)."""
    own, layout = kubectl.started(spec, "-1234"), writing.evenly(spec)
    place, job = kubectl.here(own, environ), str(own["name"].value)
    template = pods.plain(pods.explained(spec, layout, own))
    for fault in pods.doubts(spec, own):
        screen.detail(fault.text)
    names = tuple(f"{job}-{number}" for number in range(layout.nnodes))
    allow_files(len(names))
    screen.phase(f"making {nodeset.counted(len(names), 'pod')} in namespace {place.namespace}")
    kubectl.remember(job, place)
    try:
        _create(place, names, _held(template, spec, own, job), environ)
        _await(Waiting(place, job, names, spec.start.timeout, screen), environ)
        known = _asked(place, spec, layout, job, names)
        screen.done()
        yield Granted({JOB: job, PODS: json.dumps(asdict(known))})
    finally:
        screen.done()
        with held():
            if job in kubectl.kept():
                remove(job, place, environ, screen)


def remove(job: str, place: Place, environ: Mapping[str, str], screen: Screen) -> None:
    """Remove all that is of a job, or tell what remains. The owner takes along what is not named here."""
    try:
        kubectl.delete(place, KINDS, job, environ)
    except SchedulerError as error:
        screen.warn(f"{error}; the pods of {job} remain, and end by themselves: mnrun cancel {job} removes them")


def _create(place: Place, names: Sequence[str], template: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Make the owner and the pods. Raises SchedulerError."""
    labels, of = template["metadata"]["labels"], {"apiVersion": "v1", "kind": "ConfigMap"}
    job = labels[answers.LABEL]
    try:
        made = kubectl.create(place, environ, {**of, "metadata": {"name": job, "labels": labels}})
    except NoAnswerError:  # it may be there
        raise
    except SchedulerError:
        kubectl.forget(job)
        raise
    metadata = {**template["metadata"], "ownerReferences": [{**of, "name": job, "uid": made["metadata"]["uid"]}]}
    pod = {"apiVersion": "v1", "kind": "Pod"}
    each = ({"metadata": {**metadata, "name": name}, "spec": {**template["spec"], "hostname": name}} for name in names)
    kubectl.create(place, environ, *({**pod, **one} for one in each))


def _held(template: dict[str, Any], spec: JobSpec, own: pods.Own, job: str) -> dict[str, Any]:
    """Return the template of a pod that waits for guards."""
    template["metadata"]["labels"].update(pods.plain(pods.queue_labels(spec, own)))
    first = str(spec.start.timeout + LONGER)
    template["spec"]["containers"][0]["command"] = ["sh", "-c", spoken("hold.sh"), job, first, str(SILENCE)]
    template["spec"]["terminationGracePeriodSeconds"] = GRACE
    if limit := pods.deadline(spec):
        template["spec"]["activeDeadlineSeconds"] = limit.value
    return template


@dataclass
class Waiting:
    """The time until all pods of a job run."""

    place: Place
    job: str
    names: Sequence[str]
    seconds: int
    screen: Screen
    pods: dict[str, answers.Object] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)  # pod -> why it waits, as it was shown

    @property
    def waits(self) -> list[str]:
        """The pods that do not run."""
        running = {name for name, pod in self.pods.items() if answers.phase(pod) == "Running"}
        return [name for name in self.names if name not in running]

    def see(self, found: Sequence[answers.Object]) -> None:
        """Take the pods that are there. Raises JobEnded or NodeError if somebody has deleted some."""
        self.pods = {answers.name_of(pod): pod for pod in found}
        gone = [name for name in self.names if name not in self.pods or answers.leaving(self.pods[name])]
        if len(gone) == len(self.names):
            raise JobEnded(f"job {self.job} was cancelled")
        if gone:
            raise NodeError(nodeset.folded(dict.fromkeys(gone, "its pod was deleted")))

    def why(self, events: Sequence[answers.Object]) -> dict[str, answers.Wait]:
        """Return pod -> why it does not run."""
        unknown = answers.Wait("Kubernetes has not told of it")
        return {name: answers.wait(self.pods[name], events) if name in self.pods else unknown for name in self.waits}

    def show(self, waits: Mapping[str, answers.Wait]) -> None:
        """Show each new reason once. Raises LaunchError if a pod never starts, or has ended already."""
        if final := {name: wait.why for name, wait in waits.items() if wait.final}:
            states, problem = [answers.end(self.pods[name])[0] for name in final], nodeset.folded(final)
            if JobState.TIMEOUT in states:
                raise TimeLimit(problem, "ask for more with --time")
            if JobState.OUT_OF_MEMORY in states:
                raise OutOfMemory(problem, "ask for more with --mem")
            raise RuntimeFailed(problem, "see kubectl describe pod, or mnrun plan")
        for why in dict.fromkeys(wait.why for name, wait in waits.items() if self.said.get(name) != wait.why):
            if why not in self.said.values() and "being made" not in why and "Kubernetes has not" not in why:
                some = nodeset.fold(name for name, wait in waits.items() if wait.why == why)
                self.screen.say(f"{some} waits: {why}")
        self.said.update({name: wait.why for name, wait in waits.items()})


def _await(waiting: Waiting, environ: Mapping[str, str]) -> None:
    """Wait until all pods run. Raises LaunchError with the reasons why they do not, or if they are deleted, and
    SystemExit at a signal."""
    signals: queue.SimpleQueue[Event] = queue.SimpleQueue()
    begin = look = time.monotonic()
    whole = len(waiting.names)
    with Signals(signals):
        while True:
            with suppress(SchedulerError):  # the next answer may be better
                found = kubectl.of_job(waiting.place, "pods", waiting.job, environ)
                waiting.see(found)
            if not waiting.waits:
                return
            now = time.monotonic()
            late = now - begin > waiting.seconds
            if late or now - look > LOOK:
                look = now
                waits = waiting.why(_events(waiting.place, environ))
                waiting.show(waits)
                if late:
                    raise _late(waiting, waits)
            waiting.screen.phase(f"waiting for the pods: {whole - len(waiting.waits)}/{whole} run")
            with suppress(queue.Empty):
                event = signals.get(timeout=min(max((now - begin) * PART, SHORT), LOOK))
                if isinstance(event, Signal):
                    why = "interrupted" if event.signum == SIGINT else f"ended by {signal_name(event.signum).name}"
                    waiting.screen.say(f"{why} before the program began")
                    raise SystemExit(128 + event.signum)


def _late(waiting: Waiting, waits: Mapping[str, answers.Wait]) -> DeadlineError:
    whole = nodeset.counted(len(waiting.names), "pod")
    reasons = nodeset.folded({name: wait.why for name, wait in waits.items()})
    problem = f"{len(waits)} of {whole} do not run after {waiting.seconds} s: {reasons}"
    return DeadlineError(problem, "--start-timeout allows more time")


def _events(place: Place, environ: Mapping[str, str]) -> list[answers.Object]:
    """Return the events of pods, the oldest first, or [] if the user may not see them."""
    with suppress(SchedulerError):
        return [*kubectl.items(place, ("get", "events", "--sort-by=.lastTimestamp"), environ)]
    return []


def _asked(place: Place, spec: JobSpec, layout: Layout, job: str, names: tuple[str, ...]) -> Known:
    """Return what the pods say of themselves. Raises LaunchError if one of them cannot be reached."""
    answered = Pods(names, place).ask(("sh", "-c", _FACTS), only=names, seconds=QUESTION)
    late = [name for name, answer in answered.items() if answer.late]
    if late:
        problem = f"{nodeset.fold(late)}: no answer within {QUESTION:.0f} s to a question that ends its input"
        remedy = "the gateway to the cluster may not pass on the end of input: try another version of kubectl"
        raise DeadlineError(problem, remedy)
    failed = {name: answer for name, answer in answered.items() if answer.code != 0}
    # kubectl 1.20 tells of a program that is not there on the output.
    if lacks := {name: why for name, answer in failed.items() if (why := answers.lacking(answer.err + answer.out))}:
        raise RuntimeFailed(nodeset.folded(lacks), "mnrun needs bash 4.4 or newer in the image")
    if failed:
        broken = {name: " ".join(answer.err.split()) or "no answer" for name, answer in failed.items()}
        raise NodeError(f"kubectl exec fails: {nodeset.folded(broken)}")
    gpus = gpu_count(spec.resources.gpus_per_node) or gpu_count(spec.resources.gres)
    facts = {name: answer.out.split("\n") for name, answer in answered.items()}
    nodes = tuple((name, int(fact[1]), gpus) for name, fact in facts.items())
    return Known(job, place, facts[names[0]][0], nodes, layout.ntasks)
