"""Write the pods of a job: labels, resources, volumes, rights and places, each value with its origin. Pure.

`explained` returns them with `Said` in the place of values that have an origin, and `plain` what a server takes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Union

from mnrun import formats
from mnrun.errors import Impossible, UsageError
from mnrun.jobspec import CLAIM, ImageKind, JobSpec, Mount, gpu_count
from mnrun.model import Fault, Layout, job_name
from mnrun.record import Record
from mnrun.schedulers import writing
from mnrun.schedulers.kubernetes import TITLE, answers
from mnrun.schedulers.kubernetes.keys import NAME

MAIN = "main"  # the name of the container with the program, which is the first
HOSTNAME = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"  # the usual resource for GPUs
NUMBER = r"\d+([KMGT]i?)?"  # of a resource
SIGNS = {"In": "nodelist", "NotIn": "exclude"}
# What a launcher takes, which has no rank. With no CPU for sure, it has room beside pods that take whole nodes.
_SMALL = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0", "memory": "128Mi"}}
_PULL = {"missing": "IfNotPresent", "never": "Never", "always": "Always"}
_REFUSED = {
    "array": "submit each task: for i in 0 1 2; do mnrun submit -x I=$i …; done",
    "dependency": "use mnrun wait ID && mnrun submit …",
    **dict.fromkeys(("mail_type", "mail_user"), "use mnrun wait ID, and send a mail after it"),
    "reservation": "name labels of nodes with --constraint, and taints with --kubernetes tolerations=…",
    "exclusive": "ask for all CPUs or GPUs of a node",
    **dict.fromkeys(("licenses", "signal", "requeue", "export"), "leave it out"),
}


class Said(Record):
    """A value, and its origin."""

    value: Any
    why: str


Own = Mapping[str, Said]
Tree = dict[str, Any]
Path = tuple[Union[str, int], ...]  # of a value in a tree


def plain(tree: Any) -> Any:
    """Return a tree without the origins in it."""
    if isinstance(tree, Said):
        return plain(tree.value)
    if isinstance(tree, dict):
        return {key: plain(value) for key, value in tree.items()}
    return [plain(value) for value in tree] if isinstance(tree, list) else tree


def leaves(tree: Any, why: str = "built-in", path: Path = ()) -> Iterator[tuple[Path, Said]]:
    """Yield (path, value) of each value in a tree that is no table and no list."""
    if isinstance(tree, Said):
        yield from leaves(tree.value, tree.why, path)
    elif isinstance(tree, (dict, list)):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from leaves(value, why, (*path, key))
    else:
        yield path, Said(tree, why)


def setting(own: Own, key: str, default: str = "") -> tuple[str, str]:
    """Return the text of a key, and its origin."""
    found = own.get(key, Said(default, "built-in"))
    return str(found.value), found.why


def in_host(own: Own) -> bool:
    """Return whether pods are in the network of their nodes."""
    return setting(own, "network")[0] == "host"


def host_paths(spec: JobSpec) -> list[str]:
    return [mount.source for mount in spec.container.binds if not mount.source.startswith(CLAIM)]


def refuse_files(spec: JobSpec) -> None:
    """Raise Impossible for a file of the output."""
    for option in ("output", "error"):
        if spec.batch.text(option):
            problem = f"--{option} ({spec.origins[option]}): {TITLE} keeps the output itself"
            raise Impossible(problem, "see it with mnrun logs")


def settings(spec: JobSpec, caller: str = "") -> dict[str, Said]:
    """Return key -> value of the table [kubernetes]: the site's, and those of the job above them. `caller` has the
    ids UID:GID of the user who starts the job."""
    site = spec.batch.site.get(NAME, {})
    found = {key: Said(str(value), f"{key} (settings of the site)") for key, value in site.items()}
    for word in spec.batch.own.get(NAME, ()):
        key, equals, value = word.partition("=")
        if key != "volume":
            found[key] = Said(value if equals else "on", f"{key} ({spec.word_origins[NAME, word]})")
    return {**found, "caller": Said(caller, "the ids of the user who starts the job")} if caller else found


def volumes(spec: JobSpec) -> list[Said]:
    """Return the tables [[kubernetes.volume]]. Raises UsageError."""
    found = []
    for word in spec.batch.own.get(NAME, ()):
        key, _, text = word.partition("=")
        if key == "volume":
            origin = str(spec.word_origins[NAME, word])
            table = json.loads(text) if text.startswith("{") else None
            if not isinstance(table, dict) or not table.get("name") or not table.get("size"):
                problem = f"volume {text} has no name or no size ({origin})"
                raise UsageError(problem, 'write [[kubernetes.volume]] with name = "data" and size = "10Gi"')
            found.append(Said(table, origin))
    return found


def name(spec: JobSpec, own: Own, suffix: str = "") -> str:
    """Return the name of the job's objects: `own` has it, or else it is the job's, as a label of DNS-1035 with room for
    a suffix. Raises UsageError."""
    if "name" in own:
        return str(own["name"].value)
    origin = spec.origins.get("job_name", "the name of the program")
    text = job_name(spec)
    right = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    right = right if right[:1].isalpha() else f"job-{right}".strip("-")
    if spec.batch.text("job_name") and right != text:
        problem = f"--job-name {text} ({origin}): {TITLE} wants small letters, digits and -, and a letter first"
        raise UsageError(problem, f"write {right}")
    if len(right + suffix) > 63:
        raise UsageError(f"the name {right}{suffix} ({origin}) has more than 63 characters", "use a shorter --job-name")
    return right


def queue(spec: JobSpec, own: Own) -> tuple[str, Said]:
    """Return the kind of the job's queue, kueue, volcano or "", and its name. Raises UsageError or Impossible."""
    text, why = setting(own, "queue")
    kind, _, queue_name = text.partition(":")
    asked = spec.batch.text("partition")
    if kind not in ("", "kueue", "volcano"):
        raise UsageError(f"queue {text!r} is neither kueue:NAME nor volcano:NAME: {why}")
    if asked and not kind:
        problem = f"--partition {asked} ({spec.origins['partition']}): {TITLE} itself has no queues"
        raise Impossible(problem, "name Kueue or Volcano with --kubernetes queue=kueue, or a namespace")
    return kind, _of(spec, "partition", asked) if asked else Said(queue_name or "default", why)


def request(spec: JobSpec, layout: Layout) -> writing.Request:
    """Return what the job asks of each node. Raises Impossible if they differ."""
    return writing.Request(spec, layout, writing.shape(layout, spec.resources.cpus_per_task or 1, TITLE), NAME)


def explained(spec: JobSpec, layout: Layout, own: Own, role: str = "node") -> Tree:
    """Return the template of a pod, with origins. Raises UsageError or Impossible for what a pod cannot be."""
    writing.refuse_options(spec, TITLE, _REFUSED, "write --kubernetes resources=NAME:NUMBER")
    wanted, mounts = request(spec, layout), _mounts(spec, own)
    container = {
        "name": MAIN,
        "image": image(spec),
        "imagePullPolicy": _of(spec, "pull", _PULL[spec.container.pull]),
        "workingDir": _asked(spec, "chdir") if "chdir" in spec.origins else None,
        "env": [{"name": v.name, "value": Said(v.value, v.why or "-x")} for v in variables(spec)],
        "resources": resources(wanted, own) if role == "node" else Said(_SMALL, "it starts no rank"),
        "securityContext": _rights(spec, own),
        "volumeMounts": [mount for _, mount in mounts],
    }
    metadata = {"labels": _labels(spec, layout, own, role), "annotations": _annotations(spec, own)}
    pod = {**_pod(wanted, own, role), "containers": [container], "volumes": [volume for volume, _ in mounts]}
    return cut({"metadata": metadata, "spec": pod})


def _labels(spec: JobSpec, layout: Layout, own: Own, role: str) -> Tree:
    off = own.get("sidecars", Said("off", "a sidecar would break MPI, and would never end"))
    return {
        answers.MANAGED: "mnrun",
        answers.LABEL: name(spec, own),
        answers.ROLE: role,
        answers.EACH: Said(str(layout.ranks[0]), layout.why_ranks),
        answers.USER: own.get("user"),
        "mnrun/account": _asked(spec, "account"),
        "sidecar.istio.io/inject": Said("false", off.why) if off.value != "on" else None,
    }


def queue_labels(spec: JobSpec, own: Own) -> Tree:
    """Return the labels of the object that Kueue admits: a job, or a pod without one."""
    kind, queue_name = queue(spec, own)
    found = {"kueue.x-k8s.io/queue-name": queue_name, "kueue.x-k8s.io/priority-class": _priority(spec, own)}
    return found if kind == "kueue" else {}


def cut(tree: Tree) -> Tree:
    """Return a tree without empty values. A value with an origin stays."""

    def full(inner: Any) -> Any:
        return cut(inner) if isinstance(inner, dict) else [*map(full, inner)] if isinstance(inner, list) else inner

    return {key: value for key, inner in tree.items() if (value := full(inner)) not in (None, {}, [], "")}


def _of(spec: JobSpec, option: str, value: Any) -> Said:
    return Said(value, f"--{option.replace('_', '-')} ({spec.origins.get(option, 'built-in')})")


def _asked(spec: JobSpec, option: str, value: Any = None) -> Said | None:
    """Return what an option gives, by default its own value, or None if the job does not have it."""
    given = spec.value(option)
    return _of(spec, option, given if value is None else value) if given else None


def image(spec: JobSpec) -> Said:
    """Return the image as a registry names it. Raises Impossible for a file."""
    found = spec.container.image
    name = re.sub("^docker://", "", found.name) if found else ""
    if found is None or found.kind is ImageKind.FILE or re.match(r"[/.~]|\w+://|.*\.(sif|sqsh|img)$", name):
        problem = f"--image {name or '(none)'}: {TITLE} takes images from registries alone"
        raise Impossible(problem, "push it to one, and write HOST/NAME:TAG")
    return _of(spec, "image", name)


def variables(spec: JobSpec) -> list[Any]:
    """Return the variables that -x and --env-file give to the job."""
    names = set(spec.program.forwarded)
    return [variable for variable in spec.program.env if variable.name in names and variable.value is not None]


def resources(request: writing.Request, own: Own) -> Tree:
    """Return the resources of a pod. Limits and requests are the same, so that a pod gets what it asks for."""
    spec, gpus = request.spec, request.gpus
    cpus = "--cpus-per-task" if "cpus_per_task" in spec.origins else "1 CPU for each rank"
    found = {"cpu": Said(str(request.shape.slots), f"{request.layout.why_ranks}, {cpus}"), "memory": _memory(request)}
    kind = request.text("gpus_per_node").rpartition(":")[0]
    if kind and "gpu_label" not in own:
        problem = f"--gpus-per-node {kind}: {TITLE} knows types of GPUs by labels of nodes"
        raise Impossible(
            problem, "name a number alone, and the label with --constraint or --kubernetes gpu_label=LABEL"
        )
    option = next((one for one in ("gpus_per_task", "gpus_per_node", "gpus", "gres") if request.text(one)), "")
    if gpus and not spec.resources.no_gpu:
        found[setting(own, "gpu", GPU)[0]] = _of(spec, option, str(gpus))
    for key in ("rdma", "resources"):
        text, why = setting(own, key)
        for item in filter(None, text.split(",")):
            resource, _, number = item.partition(":")
            if not re.fullmatch(f"{NUMBER}|", number):
                raise UsageError(f"{key} {item!r} is not NAME:NUMBER, with a whole number: {why}")
            found[resource] = Said(number or "1", why)
    return {"limits": dict(found), "requests": dict(found)}


def _memory(request: writing.Request) -> Said | None:
    spec, shape = request.spec, request.shape
    each = {"mem": 1, "mem_per_cpu": shape.slots, "mem_per_gpu": request.gpus}
    option = next((one for one in each if request.text(one)), "")
    size = formats.megabytes(request.text(option)) * each[option] if option else 0
    return _of(spec, option, f"{size}Mi") if size else None


def _mounts(spec: JobSpec, own: Own) -> list[tuple[Tree, Tree]]:
    """Return (volume, its mount in the container) of each volume."""
    shm = own.get("shm", Said("", "the 64 MB that a pod has are few for MPI and NCCL; counts as memory"))
    tmp = own.get("tmp", Said("", "--hardened: the image cannot be written to") if spec.container.hardened else None)
    found: list[tuple[str, str, Any, Tree]] = []
    if shm.value != "off":
        memory = cut({"medium": "Memory", "sizeLimit": shm.value})
        found.append(("shm", "emptyDir", Said(memory, shm.why), {"mountPath": "/dev/shm"}))
    if tmp:
        found.append(("tmp", "emptyDir", Said(cut({"sizeLimit": tmp.value}), tmp.why), {"mountPath": "/tmp"}))
    reasons = [origin for (option, _), origin in spec.word_origins.items() if option == "bind"]
    for place, (mount, origin) in enumerate(zip(spec.container.binds, reasons)):
        if mount.source != mount.target or mount.source != "/dev/shm":
            found.append((f"bind-{place}", *_bound(mount, str(origin))))
    return [({"name": key, kind: value}, {"name": key, **mount}) for key, kind, value, mount in found]


def _bound(mount: Mount, why: str) -> tuple[str, Tree, Tree]:
    """Return the kind of the volume of a mount, the volume, and its place."""
    place = {"mountPath": mount.target or mount.source, "readOnly": True if mount.options == "ro" else None}
    if mount.source.startswith(CLAIM):
        claim, _, below = mount.source[len(CLAIM) :].partition("/")
        return "persistentVolumeClaim", {"claimName": Said(claim, why)}, {**place, "subPath": below}
    # Without a type, the runtime would make a missing source, as an empty directory of root's.
    kind = "File" if re.search(r"\.[A-Za-z]\w*(\.\d+)*$", mount.source) else "Directory"
    return "hostPath", {"path": Said(mount.source, why), "type": kind}, place


def identity(spec: JobSpec, own: Own) -> tuple[list[int], str]:
    """Return the ids of the user, the group and the group of volumes, or [] for those of image or platform."""
    text, why = setting(own, "security", "caller")
    if text == "caller":
        text, why = setting(own, "caller", "image")
    if text in ("image", "openshift"):
        return [], why
    if not re.fullmatch(r"root|\d+(:\d+){0,2}", text):
        raise UsageError(f"security {text!r} is no user: {why}", "write caller, root, image, openshift or UID:GID")
    ids = [int(number) for number in text.replace("root", "0").split(":")]
    if spec.container.hardened and ids[0] == 0:
        raise Impossible(f"--hardened excludes root: {why}", "name another user: --kubernetes security=UID:GID")
    return [*ids, *[ids[-1]] * (3 - len(ids))], why


def _rights(spec: JobSpec, own: Own) -> Tree:
    lock = Said(["IPC_LOCK"], f"RDMA locks memory: {own['rdma'].why}") if "rdma" in own else None
    return {
        "privileged": _asked(spec, "privileged"),
        "allowPrivilegeEscalation": _asked(spec, "hardened", False),
        "readOnlyRootFilesystem": _asked(spec, "hardened"),
        "capabilities": {"drop": _asked(spec, "hardened", ["ALL"]), "add": lock},
    }


def _pod(request: writing.Request, own: Own, role: str) -> Tree:
    """Return what pods of a job have beside containers and volumes."""
    spec, (ids, why) = request.spec, identity(request.spec, own)
    user = {key: Said(value, why) for key, value in zip(("runAsUser", "runAsGroup", "fsGroup"), ids)}
    secure = {
        **user,
        "runAsNonRoot": _asked(spec, "hardened"),
        "seccompProfile": _asked(spec, "hardened", {"type": "RuntimeDefault"}),
    }
    host, (kind, _) = in_host(own), queue(spec, own)
    return {
        "restartPolicy": "Never",
        "serviceAccountName": own.get("service_account"),
        "automountServiceAccountToken": False,
        "securityContext": secure,
        "hostNetwork": Said(True, own["network"].why) if host else None,
        "dnsPolicy": "ClusterFirstWithHostNet" if host else None,
        "schedulerName": Said("volcano", own["queue"].why) if kind == "volcano" else None,
        "priorityClassName": _priority(spec, own) if kind != "kueue" else None,
        "imagePullSecrets": [{"name": Said(one, own["registry_login"].why)} for one in _listed(own, "registry_login")],
        "nodeSelector": _selector(request, own),
        "affinity": _affinity(request, own, role),
        "tolerations": [Said(toleration(item), own["tolerations"].why) for item in _listed(own, "tolerations")],
    }


def _listed(own: Own, key: str) -> list[str]:
    return [item for item in setting(own, key)[0].split(",") if item]


def _priority(spec: JobSpec, own: Own) -> Said | None:
    return _asked(spec, "qos") or own.get("priority")


def _features(spec: JobSpec) -> dict[str, Said]:
    """Return label -> value of each word in --constraint. Raises Impossible."""
    text, found = spec.batch.text("constraint"), {}
    for item in filter(None, re.split("[&,]", text)):
        label, equals, value = item.partition("=")
        if not equals or not re.fullmatch(r"[\w./-]+", label) or not re.fullmatch(r"[\w.-]*", value):
            raise Impossible(f"--constraint {text}: {TITLE} knows labels of nodes", "write LABEL=VALUE,LABEL=VALUE")
        found[label] = _of(spec, "constraint", value)
    return found


def _annotations(spec: JobSpec, own: Own) -> Tree:
    """Return how Kueue puts all pods into one domain, such as a rack, and the queue of the pods for Volcano."""
    kind, queue_name = queue(spec, own)
    return {
        "kueue.x-k8s.io/podset-required-topology": _features(spec).get("topology"),
        "scheduling.volcano.sh/queue-name": queue_name if kind == "volcano" else None,
    }


def _selector(request: writing.Request, own: Own) -> Tree:
    found, kind = _features(request.spec), request.text("gpus_per_node").rpartition(":")[0]
    found.pop("topology", None)
    return {**found, own["gpu_label"].value: _of(request.spec, "gpus_per_node", kind)} if kind else found


def _affinity(request: writing.Request, own: Own, role: str) -> Tree:
    """Return the nodes that the job names, and the rule that no two of its pods share a node."""
    spec, spread = request.spec, own.get("spread", Said("required", "a pod for each node"))
    rules = [
        {"key": HOSTNAME, "operator": sign, "values": _of(spec, option, list(request.nodes(option)))}
        for sign, option in SIGNS.items()
        if request.text(option)
    ]
    places = {during("required"): {"nodeSelectorTerms": [{"matchExpressions": rules}]}}
    if spread.value not in ("required", "preferred", "off"):
        raise UsageError(f"spread {spread.value!r} is not required, preferred or off: {spread.why}")
    spreads = request.layout.nnodes > 1 and role == "node" and spread.value != "off"
    rule = Said(apart(name(spec, own), role, spread.value), spread.why)
    return {
        "nodeAffinity": places if rules else None,
        "podAntiAffinity": {during(spread.value): rule} if spreads else None,
    }


def during(mode: str) -> str:
    """Return the name of a rule that is required or preferred."""
    return f"{mode}DuringSchedulingIgnoredDuringExecution"


def apart(job: str, role: str, mode: str) -> list[Tree]:
    """Return the rule by which no two pods of a job share a node."""
    labels = {"matchLabels": {answers.LABEL: job, answers.ROLE: role}}
    term = {"topologyKey": HOSTNAME, "labelSelector": labels}
    return [{"weight": 100, "podAffinityTerm": term} if mode == "preferred" else term]


def toleration(item: str) -> dict[str, str]:
    """Return a toleration for a taint as kubectl writes it: key=value:Effect, key:Effect, or the key alone."""
    taint, _, effect = item.partition(":")
    key, equals, value = taint.partition("=")
    operator = {"operator": "Equal", "value": value} if equals else {"operator": "Exists"}
    return {"key": key, **operator, **({"effect": effect} if effect else {})}


def deadline(spec: JobSpec) -> Said | None:
    """Return the time limit in seconds, or None."""
    limit = formats.seconds(spec.batch.text("time")) if spec.batch.text("time") else float("inf")
    return _of(spec, "time", int(limit)) if limit != float("inf") else None


def ttl(own: Own) -> Said | None:
    """Return the seconds after which the cluster removes a job that has ended, or None. Raises UsageError."""
    text, why = setting(own, "ttl")
    if text and not text.isdecimal():
        raise UsageError(f"ttl {text!r} is not a number of seconds: {why}")
    return Said(int(text), why) if text else None


def doubts(spec: JobSpec, own: Own) -> list[Fault]:
    """Return what may go wrong with the pods of a job."""
    found = []
    if not any(spec.batch.text(one) for one in ("mem", "mem_per_cpu", "mem_per_gpu")):
        found.append(("memory", "the pods ask for no memory, so that they are not Guaranteed; name it with --mem"))
    ids, _ = identity(spec, own)
    if "rdma" in own and ids and ids[0]:
        text = "IPC_LOCK has no effect for a user that is not root: memlock must be unlimited in the container runtime"
        found.append(("rdma", text))
    if spec.start.require == "ib" and "rdma" not in own:
        found.append(("rdma", "--require ib, but the pods ask for no RDMA; name it with --kubernetes rdma=RESOURCE"))
    hosts = host_paths(spec)
    baseline = {
        f"hostPath ({', '.join(hosts)})": bool(hosts),
        "IPC_LOCK": "rdma" in own,
        "hostNetwork": in_host(own),
        "privileged": spec.container.privileged,
    }
    if forbidden := ", ".join(field for field, used in baseline.items() if used):
        found.append(("pod-security", f"namespaces with Pod Security baseline or restricted refuse {forbidden}"))
    elif not spec.container.hardened:
        found.append(("pod-security", "namespaces with Pod Security restricted refuse the pods without --hardened"))
    return [Fault(code, text) for code, text in found]
