"""Hand jobs in as objects that controllers run, and show their output. A submitted job needs no mnrun while it runs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mnrun.errors import UsageError
from mnrun.jobspec import JobSpec
from mnrun.model import Layout, Words, job_name
from mnrun.schedulers.kubernetes import answers, detached, kubectl, pods
from mnrun.schedulers.kubernetes.kubectl import KINDS, Place

FORMS = ("pod", "job", "jobset", "mpijob", "trainjob")  # of mnrun submit
# The name of each kind that a server may lack.
LACKED = {
    "JobSet": "jobsets.jobset.x-k8s.io",
    "MPIJob": "mpijobs.kubeflow.org",
    "TrainJob": "trainjobs.trainer.kubeflow.org",
    "TrainingRuntime": "trainingruntimes.trainer.kubeflow.org",
}
LOOK = 1.0  # seconds between two looks at a job that has not begun
INDEXED = (1, 24)  # the first Kubernetes that surely gives the pods of a Job an index


def output(spec: JobSpec) -> str:
    """Return no file: Kubernetes keeps the output of pods."""
    return ""


def objects(spec: JobSpec, layout: Layout, line: str, words: Words) -> tuple[JobSpec, str]:
    """Return the job under a name of its own, and its objects as JSON. A secret among them has no value yet."""
    from mnrun.schedulers.kubernetes import texts

    pods.refuse_files(spec)
    own = kubectl.started(spec, "-worker-1234")
    single = layout.nnodes == 1 and not spec.service.ready
    form = str(own["format"].value) if "format" in own else "pod" if single else "job"
    if form not in FORMS:
        problem = f"format {form!r} is not a form of mnrun submit ({own['format'].why})"
        raise UsageError(problem, f"use one of {', '.join(FORMS)}")
    asked = texts.Asked(spec, layout, own, line, words)
    made = [pods.plain(tree) for tree in texts.write(form, asked)]
    options = {**spec.batch.options, "job_name": asked.name}
    named = spec._replace(batch=spec.batch._replace(options=options))
    return named, json.dumps({"apiVersion": "v1", "kind": "List", "items": made}, indent=2)


def submit(script: str, spec: JobSpec, environ: Mapping[str, str]) -> tuple[str, str]:
    """Make the objects of a job. Return its name. Raises SchedulerError, and then nothing of the job is left."""
    place, job = kubectl.here(pods.settings(spec), environ), job_name(spec)
    items = json.loads(script)["items"]
    lacked = [LACKED[one["kind"]] for one in items if one["kind"] in LACKED]
    kubectl.remember(job, place, ",".join(lacked))
    try:
        _create(place, items, environ)
    except BaseException:
        kinds = ",".join((KINDS, "services", *lacked))  # what they own goes with them
        kubectl.run(place, ("delete", kinds, "-l", f"{answers.LABEL}={job}", "--wait=false"), environ)
        kubectl.forget(job)
        raise
    return job, ""


def _create(place: Place, items: list[dict[str, Any]], environ: Mapping[str, str]) -> None:
    """Make objects. A launcher's Job comes first, and owns the others but for claims."""
    launcher = next((one for one in items if one["metadata"]["name"].endswith("-launcher")), None)
    if launcher:
        made = kubectl.create(place, environ, launcher)
        claims, rest = items[: items.index(launcher)], items[items.index(launcher) + 1 :]
        if kubectl.version(place, environ) < INDEXED:
            rest[-1:] = detached.apart(rest[-1])
        secret = {"stringData": {"secret": os.urandom(detached.DIGITS // 2).hex()}}
        rest = [{**one, **secret} if one["kind"] == "Secret" else one for one in rest]
        items = [*claims, *(detached.owned(one, made) for one in rest)]
    kubectl.create(place, environ, *items)


def _begins(found: Sequence[answers.Object]) -> bool:
    """Return whether the pods whose output is the job's are still to come, or to start."""
    own = [entry for entry in found if entry["kind"] == "Pod"]
    first = [pod for pod in own if answers.label(pod, answers.ROLE) == "launcher"] or own
    return any(answers.phase(pod) == "Pending" for pod in first) or bool(found and not own)


def logs(job: str, following: bool, lines: int | None, environ: Mapping[str, str]) -> Words:
    """Return the kubectl logs of a job: of its launcher, or of all its pods. Raises UsageError for a live run."""
    place = kubectl.place_of(job, environ)
    found = kubectl.of_job(place, KINDS, job, environ)
    while following and _begins(found):
        time.sleep(LOOK)
        found = kubectl.of_job(place, KINDS, job, environ)
    own = [entry for entry in found if entry["kind"] == "Pod"]
    if any(map(answers.owns_a_run, found)):
        raise UsageError(f"job {job} is a live run", "its output is on the terminal of mnrun")
    if not own:
        raise UsageError(f"job {job} has no pods", f"see mnrun status {job}")
    by_launcher = any(answers.label(entry, answers.ROLE) == "launcher" for entry in own)
    selector = f"{answers.LABEL}={job}" + (f",{answers.ROLE}=launcher" if by_launcher else "")
    follow = ("-f", "--pod-running-timeout=1h") if following else ()
    last = f"--tail={-1 if lines is None else lines}"
    return place.words("logs", "-l", selector, last, f"--max-log-requests={len(own) + 8}", *follow)


def recorded(job: str, file: str, environ: Mapping[str, str]) -> str:
    """Return a record that mnrun in a job's launcher keeps of its launch, or "". Its home is in its pod."""
    words = ("sh", "-c", 'cat "$HOME"/.mnrun/jobs/"$0"/*/"$1"', job, file)
    launcher = ("exec", f"job/{job}-launcher", "--pod-running-timeout=1s", "--", *words)
    return kubectl.run(kubectl.place_of(job, environ), launcher, environ).stdout


__all__ = ["logs", "objects", "output", "recorded", "submit"]
