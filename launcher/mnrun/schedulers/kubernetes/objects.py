"""A job that is asked for as objects of Kubernetes, and the parts that several of its forms have. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mnrun import __version__
from mnrun.jobspec import JobSpec
from mnrun.model import Layout, Words
from mnrun.record import Record
from mnrun.schedulers.kubernetes import answers, pods
from mnrun.schedulers.kubernetes.pods import Own, Said, Tree

_OF_CLUSTER = ("PersistentVolume", "SecurityContextConstraints")
_OF_MANY = (*_OF_CLUSTER, "ServiceAccount", "Role", "RoleBinding")  # of no single job
ONCE = Said(0, "a job that has failed is not run again")


class Asked(Record):
    """A job, its shape, the settings of [kubernetes], the line that asked for it, and what a launcher in the cluster
    needs: mnrun's options and the program, and a secret."""

    spec: JobSpec
    layout: Layout
    own: Own
    line: str = ""
    words: Words = ()
    secret: str = ""

    @property
    def nodes(self) -> int:
        return self.layout.nnodes

    @property
    def each(self) -> int:
        return self.layout.ranks[0]

    @property
    def name(self) -> str:
        return pods.name(self.spec, self.own)

    @property
    def by_mpi(self) -> bool:
        """Return whether an MPI starts the ranks. A single rank needs none, unless the job names one."""
        start = self.spec.start
        open_ = bool({"mpi", "launcher"} <= set(start.undecided))
        return start.launcher not in ("env", "torchrun") and not (self.layout.ntasks == 1 and open_)

    @property
    def size(self) -> Said:
        return Said(self.nodes, self.layout.why_nodes)

    @property
    def times(self) -> dict[str, Said | None]:
        """Return when a job must have ended, and when the cluster removes it after that."""
        return {"activeDeadlineSeconds": pods.deadline(self.spec), "ttlSecondsAfterFinished": pods.ttl(self.own)}


def made(asked: Asked, api: str, kind: str, name: str = "", admitted: bool = False, **fields: Any) -> Tree:
    """Return an object of the job. One that is `admitted` waits in the job's queue. Rights and volumes are of many."""
    labels: Tree = {answers.MANAGED: "mnrun"}
    if kind not in _OF_MANY:
        labels |= {answers.LABEL: asked.name, answers.USER: asked.own.get("user")}
    metadata = {
        "name": name or asked.name,
        "namespace": asked.own.get("namespace") if kind not in _OF_CLUSTER else None,
        "labels": {**labels, **(pods.queue_labels(asked.spec, asked.own) if admitted else {})},
        "annotations": {"mnrun/version": __version__, "mnrun/as-given": asked.line} if admitted else {},
    }
    return pods.cut({"apiVersion": api, "kind": kind, "metadata": metadata, **fields})


def service(asked: Asked) -> Tree:
    """Return the Service without an address by which the pods of a job have names."""
    spec = {
        "clusterIP": Said("None", "each pod has an address of its own"),
        "publishNotReadyAddresses": Said(True, "pods look for others before these are ready"),
        "selector": {answers.LABEL: asked.name},
    }
    return made(asked, "v1", "Service", spec=spec)


def job_spec(template: Tree, size: Said | None = None, **fields: Any) -> Tree:
    """Return the spec of a Job of one pod, or with a pod for each of `size` indexes."""
    indexed = {"completionMode": "Indexed", "parallelism": size, "completions": size} if size else {}
    return {**indexed, "backoffLimit": ONCE, **fields, "template": template}
