"""Jobs for the tests of Kubernetes' texts, and the schemas that a server would hold against them."""

from __future__ import annotations

import functools
import importlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from mnrun.jobspec import COMMAND_LINE, JobSpec
from mnrun.planning.layout import lay_out
from mnrun.schedulers.kubernetes import pods, texts
from mnrun.schedulers.kubernetes.keys import NAME, word
from unit.samples import build

SERVER = "v1.32.*-local-strict"
CRDS = os.environ.get("MNRUN_CRDS", "")  # at the import of this module, since tests have no MNRUN_*
CLAIMS = (
    'volume={"name":"data","size":"10Gi","labels":{"vol":"data"},"server":"nfs","path":"/data"}',
    'volume={"name":"scratch","size":"1Ti","class":"fast"}',
)
JOBS: dict[str, dict[str, Any]] = {
    "root": {"kubernetes": "security=root", "time": "1:00:00", "mem": "64G"},
    "non-root": {"kubernetes": ("security=1000:1000", "tmp=1Gi"), "hardened": True},
    "rdma": {"kubernetes": ("rdma=rdma/hca_shared_devices_a", "resources=hugepages-2Mi:512Mi"), "gpus_per_node": "4"},
    "claims": {"kubernetes": CLAIMS, "bind": ("pvc:data:/data:ro", "pvc:scratch/mine:/scratch")},
    "hostpath": {"bind": ("/lustre:/data:ro", "/etc/site.conf"), "kubernetes": "network=host"},
    "kueue": {"kubernetes": ("queue=kueue:q", "priority=high", "namespace=team"), "constraint": "topology=rack"},
    "volcano": {"kubernetes": ("queue=volcano:q", "ttl=60"), "qos": "high", "exclude": "node3"},
    "openshift": {"kubernetes": ("security=openshift", "service_account=runner"), "env": ("A=1",)},
}


def job(*command: str, kubernetes: tuple[str, ...] | str = (), **options: object) -> JobSpec:
    """Return a job with words of --kubernetes."""
    shape: dict[str, Any] = {"image": "docker://ghcr.io/lab/app:1", "runtime": "docker", "ntasks_per_node": "4"}
    given = (kubernetes,) if isinstance(kubernetes, str) else kubernetes
    words = tuple(word(one, "command line") for one in given)
    spec = build(*(command or ("./app",)), **{"scheduler": NAME, "nodes": "2", **shape, **options})
    origins = {**spec.word_origins, **{(NAME, one): COMMAND_LINE for one in words}}
    return spec._replace(batch=spec.batch._replace(own={NAME: words}), word_origins=origins)


def asked(spec: JobSpec) -> texts.Asked:
    return texts.Asked(spec, lay_out(spec, None), pods.settings(spec, "1500:1500"), "mnrun plan")


def written(form: str, spec: JobSpec) -> list[dict[str, Any]]:
    """Return the objects of a form as a server gets them."""
    return [pods.plain(one) for one in texts.write(form, asked(spec))]


def of(form: str) -> dict[str, Any]:
    """Return the options of a job that this form can say."""
    return {"pod": {"nodes": "1"}, "job": {"launcher": "env"}, "jobset": {"launcher": "torchrun"}}.get(form, {})


def templates(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield each template of a pod in an object."""
    if isinstance(tree, dict):
        if "containers" in tree.get("spec", {}):
            yield tree
        tree = list(tree.values())
    for inner in tree if isinstance(tree, list) else ():
        yield from templates(inner)


@functools.cache
def _of_core(kind: str, api: str) -> Draft202012Validator:
    (folder,) = (Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema").glob(SERVER)
    group, _, version = api.rpartition("/")
    name = f"{kind.lower()}-{group.partition('.')[0]}-{version}" if group else f"{kind.lower()}-{version}"
    schema, definitions = (json.loads((folder / f"{one}.json").read_text()) for one in (name, "_definitions"))
    resources = [Resource.from_contents(one) for one in (schema, definitions)]
    return Draft202012Validator(schema, registry=resources @ Registry())


@functools.cache
def _of_crd(kind: str) -> Draft202012Validator:
    yaml: Any = importlib.import_module("yaml")
    text = (Path(CRDS) / f"{kind.lower()}s.yaml").read_text()
    crd = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    _make_strict(schema)
    schema["properties"]["metadata"] = {"type": "object"}
    return Draft202012Validator(schema)


def _make_strict(schema: Any) -> None:
    """Forbid fields that a schema does not name, as a server does with fieldValidation=Strict."""
    if isinstance(schema, dict):
        if schema.pop("x-kubernetes-int-or-string", False):
            schema.pop("type", None)
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
        schema = list(schema.values())
    for inner in schema if isinstance(schema, list) else ():
        _make_strict(inner)


def wrong(one: dict[str, Any]) -> list[str]:
    """Return what a server would say against an object, and against each template in it as a pod."""
    core = re.fullmatch(r"v1|batch/v1|(networking|rbac\.authorization)\.k8s\.io/v1", one["apiVersion"])
    checks = [(_of_core(one["kind"], one["apiVersion"]), one)] if core else []
    if not core and CRDS and one["kind"] != "SecurityContextConstraints":
        checks.append((_of_crd(one["kind"]), one))
    for template in templates(one):
        metadata = {"name": "app", **template.get("metadata", {})}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        checks.append((_of_core("Pod", "v1"), pod))
    return [f"{'/'.join(map(str, e.path))}: {e.message[:90]}" for schema, it in checks for e in schema.iter_errors(it)]
