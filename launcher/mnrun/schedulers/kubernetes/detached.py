"""A job that needs no mnrun outside of the cluster: a launcher in a pod of mnrun's own image, and nodes that call it.

`objects` writes the job. Pure. In the launcher, `reach` waits for the nodes. It needs neither kubectl nor a right.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mnrun.errors import UsageError
from mnrun.files import BASH, lean, wrapper
from mnrun.model import Words
from mnrun.schedulers.kubernetes import JOB, PODS, answers, pods
from mnrun.schedulers.kubernetes.keys import NAME
from mnrun.schedulers.kubernetes.objects import Asked, job_spec, made, service
from mnrun.schedulers.kubernetes.pods import Said, Tree

if TYPE_CHECKING:
    from mnrun.reach.gathering import Gathered

CALLS, SECRET = "MNRUN_CALLS", "mnrun_secret"  # variables: the port and the patience of the launcher; of call.sh
PORT, DIGITS = 29999, 64
TEXT = "/etc/mnrun"  # where pods have call.sh
INDEX = "$(JOB_COMPLETION_INDEX)"  # of a pod of an Indexed Job
LIMIT = "activeDeadlineSeconds"
LONGER = 60  # seconds more that a node tries to call than the launcher waits for it


def objects(asked: Asked) -> list[Tree]:
    """Return the objects of a job, with origins. The secret has 64 digits, or is "" in a text that others may read.

    The launcher's Job is the first: with its uid as an owner of the others (`owned`), its end takes them along. Its
    exit code is that of the job. The Job of the nodes is the last. Raises UsageError or Impossible.
    """
    job = pods.name(asked.spec, asked.own, f"-node-{asked.nodes - 1}")
    node = pods.explained(asked.spec, asked.layout, asked.own)
    node["spec"]["subdomain"] = job
    node["spec"].setdefault("volumes", []).append({"configMap": {"name": job}, "name": "mnrun"})
    main = node["spec"]["containers"][0]
    main.setdefault("workingDir", "/")
    main["env"] = [*main.get("env", []), _secret(job)]
    main.setdefault("volumeMounts", []).append({"name": "mnrun", "mountPath": TEXT, "readOnly": True})
    at = (f"{job}-node-{INDEX}", str(PORT), f"{job}-launcher.{job}", str(asked.spec.start.timeout + LONGER))
    main["command"] = Said([*BASH, "-c", f". {TEXT}/call.sh", "", *at], "calls mnrun")
    first = job_spec(_launcher(asked, job), **asked.times)
    many = job_spec(node, asked.size, activeDeadlineSeconds=pods.deadline(asked.spec))
    return [
        made(asked, "batch/v1", "Job", f"{job}-launcher", admitted=True, spec=first),
        made(asked, "v1", "Secret", stringData={"secret": asked.secret}),
        made(asked, "v1", "ConfigMap", data={"call.sh": lean(wrapper("call.sh"))}),
        service(asked),
        made(asked, "networking.k8s.io/v1", "NetworkPolicy", spec=_closed(job)),
        made(asked, "batch/v1", "Job", f"{job}-node", admitted=True, spec=many),
    ]


def apart(node: Tree) -> list[Tree]:
    """Return the pods of the nodes' Job, for a server that gives none an index: Kubernetes before 1.24. Without
    origins."""
    metadata, job = node["metadata"], node["spec"]
    made = []
    for index in range(job["completions"]):
        template = json.loads(json.dumps(job["template"]).replace(INDEX, str(index)))
        name = f"{metadata['name']}-{index}"
        spec = {**template["spec"], "hostname": name, **({LIMIT: job[LIMIT]} if LIMIT in job else {})}
        labels = {**metadata["labels"], **template["metadata"]["labels"]}
        own = {**metadata, **template["metadata"], "name": name, "labels": labels}
        made.append({"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": spec})
    return made


def owned(tree: Tree, launcher: Mapping[str, Any]) -> Tree:
    """Return an object that goes with the launcher's Job, as the server has made it."""
    of = {"apiVersion": "batch/v1", "kind": "Job", **{key: launcher["metadata"][key] for key in ("name", "uid")}}
    return {**tree, "metadata": {**tree["metadata"], "ownerReferences": [of]}}


def _launcher(asked: Asked, job: str) -> Tree:
    """Return the template of the launcher's pod."""
    spec, layout, own = asked.spec, asked.layout, asked.own
    image, why = pods.setting(own, "launcher_image")
    if not image:
        serves = spec.service.ready
        problem = (
            f"{'a service with --detach' if serves else 'an MPI on several nodes'} needs a launcher in the cluster"
        )
        remedy = "build containers/mnrun, push it, and name it: --kubernetes launcher_image=IMAGE, or launcher_image in"
        other = "leave out --detach" if serves else "use format=mpijob, or mnrun run"
        raise UsageError(
            f"{problem}, and no image for it is named", f"{remedy} the table [kubernetes] of a profile; or {other}"
        )
    request = pods.request(spec, layout)
    template = pods.explained(spec, layout, own, "launcher")
    main = template["spec"]["containers"][0]
    known = {
        "job": job,
        "place": {"namespace": pods.setting(own, "namespace")[0]},
        "folder": spec.program.chdir if "chdir" in spec.origins else "/",
        "nodes": [(f"{job}-node-{index}", request.shape.slots, request.gpus) for index in range(asked.nodes)],
        "ranks": layout.ntasks,
    }
    env = {JOB: job, PODS: json.dumps(known), CALLS: f"{PORT} {spec.start.timeout}"}
    main.update(
        image=Said(image, why),
        command=["mnrun", "run", "--as-given", "--scheduler", NAME, *asked.words],
        env=[*main.get("env", []), *({"name": key, "value": value} for key, value in env.items()), _secret(job)],
    )
    template["spec"].update(hostname=f"{job}-launcher", subdomain=job)
    return template


def _secret(job: str) -> Tree:
    return {"name": SECRET, "valueFrom": {"secretKeyRef": {"name": job, "key": "secret"}}}


def _closed(job: str) -> Tree:
    """Return the rule by which pods of the job alone get to its pods. MPI takes any port."""
    mine = {"podSelector": {"matchLabels": {answers.LABEL: job}}}
    return {**mine, "policyTypes": ["Ingress"], "ingress": [{"from": [mine]}]}


_launched: dict[str, tuple[Gathered, int]] = {}  # job -> the transport of this process, and its patience


def expect(job: str, names: Words, environ: Mapping[str, str]) -> None:
    """Let the nodes call, if this process is the launcher of a job. Raises UsageError or NodeError."""
    if CALLS not in environ or job in _launched:
        return
    from mnrun.reach.gathering import Gathered

    if len(environ.get(SECRET, "")) < DIGITS:
        raise UsageError(f"the variable {SECRET} has no {DIGITS} digits", "see kubectl get secret")
    port, seconds = map(int, environ[CALLS].split())
    _launched[job] = Gathered(names, environ[SECRET], port), seconds


def reach(job: str) -> Gathered | None:
    """Return a transport to the nodes, once they have called, or None if this is no launcher. Raises NodeError."""
    if job not in _launched:
        return None
    transport, seconds = _launched[job]
    transport.gather(seconds, "see kubectl describe pod NAME, or give it more time with --start-timeout")
    return transport
