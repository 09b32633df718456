"""Read objects of Kubernetes as a job file of mnrun: what `mnrun import` writes. Pure.

mnrun writes the found job anew: a field that its own text does not have is one that a job file cannot say. These are
listed, and so none is lost. In a path, / is between the names of fields, and | stands for the / of a name.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mnrun.errors import UsageError
from mnrun.jobspec import CLAIM, JobSpec
from mnrun.model import Layout
from mnrun.schedulers.kubernetes import pods, texts
from mnrun.schedulers.vocabulary import span

Fields = dict[str, Any]
# A kind of job -> its form, and the paths of what says when it ends, of its pods' template, and of its launcher's.
_JOBS = {
    "MPIJob": ("mpijob", "spec/runPolicy", "spec/mpiReplicaSpecs/Worker/template"),
    "Job": ("job", "spec", "spec/template"),
    "Pod": ("pod", "spec", ""),
}
_LAUNCHER, _MAIN = "spec/mpiReplicaSpecs/Launcher/template", "spec/containers/0"
# The path of a field -> its key in the job file. Those of [kubernetes] have a dot in front.
_OF_JOB = {
    "metadata/name": "name",
    "metadata/namespace": ".namespace",
    "metadata/labels/kueue.x-k8s.io|queue-name": ".kueue",
    "metadata/labels/kueue.x-k8s.io|priority-class": ".priority",
    "spec/mpiImplementation": "mpi",
    "spec/sshAuthMountPath": ".ssh_dir",
}
_OF_END = {
    "schedulingPolicy/queue": ".volcano",
    "ttlSecondsAfterFinished": ".ttl",
    "activeDeadlineSeconds": "time",
}
_OF_POD = {
    f"{_MAIN}/image": "image",
    f"{_MAIN}/workingDir": "chdir",
    f"{_MAIN}/imagePullPolicy": "pull",
    f"{_MAIN}/securityContext/privileged": "privileged",
    "metadata/annotations/scheduling.volcano.sh|queue-name": ".volcano",
    "spec/serviceAccountName": ".service_account",
    "spec/priorityClassName": ".priority",
    "spec/hostNetwork": ".network",
    "spec/imagePullSecrets": ".registry_login",
}
_OF_CLAIM = {
    "metadata/name": "name",
    "spec/resources/requests/storage": "size",
    "spec/accessModes": "mode",
    "spec/selector/matchLabels": "labels",
    "spec/storageClassName": "class",
}
_MPIS = {"OpenMPI": "openmpi", "MPICH": "mpich", "Intel": "intelmpi"}
# How a key says the value of its field. None leaves it out.
_SAY: dict[str, Callable[[Any], Any]] = {
    "time": lambda seconds: span(seconds) if seconds >= 3600 else f"0:{span(seconds)}",
    "mpi": lambda word: _MPIS.get(word, word),
    "pull": {"Always": "always", "Never": "never"}.get,
    "privileged": {True: True}.get,
    "mode": lambda modes: None if modes == ["ReadWriteMany"] else modes[0],
    ".ssh_dir": lambda path: None if path in ("/root/.ssh", "/home/mpiuser/.ssh") else path,
    ".network": {True: "host"}.get,
    ".registry_login": lambda secrets: ",".join(one["name"] for one in secrets),
}
_IDS = ("runAsUser", "runAsGroup", "fsGroup")
_OF_USER = r"(PRTE|OMPI)_ALLOW_RUN_AS_ROOT(_CONFIRM)?|SHELL"  # variables of texts.py


def read(objects: list[Any], build: Callable[[str], tuple[JobSpec, Layout]]) -> tuple[Fields, list[str]]:
    """Return the tables of a job file, and the fields that it cannot say. `build` makes the job of the file's text.
    Raises UsageError if there is no job, or it is none that mnrun could run."""
    tables = copy.deepcopy([each for each in objects if isinstance(each, dict)])
    jobs = [one for one in tables if one.get("kind") in _JOBS]
    if len(jobs) != 1:
        raise UsageError(f"the file has {len(jobs)} jobs", f"name a file with one {', '.join(_JOBS)}")
    (one,) = jobs
    form, _, path = _JOBS[one["kind"]]
    job = _job(one)
    if volumes := [_moved(each, _OF_CLAIM) for each in tables if each.get("kind") == "PersistentVolumeClaim"]:
        job["kubernetes"]["volume"] = volumes
    if form == "job" and job["nodes"] > 1:
        job.setdefault("launcher", "env")  # no MPI of its own gets from one pod to another
    spec, layout = build(toml(job))
    own = {**pods.settings(spec), "name": pods.Said(job.get("name", "job"), "")}
    *others, ours = map(pods.plain, texts.write(form, texts.Asked(spec, layout, own)))
    for place in {path, _LAUNCHER}:
        _name_as(_at(ours, place, {}), _at(one, place, {}))
    left = []
    for table in tables:
        kind, name = table.pop("kind", "object"), _at(table, "metadata/name")
        same = (each for each in others if (each["kind"], each["metadata"]["name"]) == (kind, name))
        table.pop("apiVersion", None)
        if kind != "Service":  # mnrun writes its own
            left += [f"{kind}: {field}" for field in _left(table, ours if table is one else next(same, {}))]
    return job, left


def toml(job: Mapping[str, Any], left: Sequence[str] = (), source: str = "") -> str:
    """Return the job file. What it cannot say stands in comments at its end."""
    top, own, lines = dict(job), dict(job["kubernetes"]), [f"# From {source}, by mnrun import"]
    del top["env"], top["kubernetes"]
    volumes = [("[[kubernetes.volume]]", table) for table in own.pop("volume", [])]
    for head, table in (("", top), ("[env]", job["env"]), ("[kubernetes]", own), *volumes):
        rows = [f"{key} = {_value(value)}" for key, value in table.items()]
        lines += ["", head, *rows] if head and rows else rows
    return "\n".join([*lines, *(["", "# Not in this file:"] if left else []), *(f"#   {path}" for path in left), ""])


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {json.dumps(inner)}" for key, inner in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


def _left(tree: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of the values that our text does not have, with short values."""
    if not isinstance(tree, (dict, list)):
        if _amount(tree) != _amount(ours) and (tree or ours):
            yield path if len(str(tree)) > 60 else f"{path} = {tree}"
        return
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if not str(key).startswith("mnrun/"):
            yield from _left(value, _partner(ours, key, value), f"{path}.{key}" if path else str(key))


def _partner(ours: Any, key: Any, value: Any) -> Any:
    """Return what our text has for an entry. In a list, that is the entry of the same name, the same one, or the only
    one without a name."""
    if isinstance(ours, dict):
        return ours.get(key)
    name, others = _name(value), ours if isinstance(ours, list) else []
    same = (one for one in others if one == value or (name and _name(one) == name))
    return next(same, others[0] if not name and len(others) == 1 else None)


def _name(value: Any) -> Any:
    return value.get("mountPath", value.get("name")) if isinstance(value, dict) else None


def _amount(value: Any) -> str:
    """Return an amount of memory in Mi, and any other value as text."""
    match = re.fullmatch(r"(\d+)([GT])i", text := str(value))
    return f"{int(match[1]) * {'G': 1024, 'T': 1024**2}[match[2]]}Mi" if match else text


def _name_as(ours: Fields, template: Fields) -> None:
    """Name the volumes of a template as ours, and leave out the name and the words of its container."""
    container, spec, names = _at(template, _MAIN, {}), template.get("spec") or {}, {}
    places = {mount["mountPath"]: mount["name"] for mount in _at(ours, f"{_MAIN}/volumeMounts", [])}
    for mount in container.get("volumeMounts") or []:
        if place := places.get(mount.get("mountPath")):
            names[mount.get("name")] = mount["name"] = place
    for volume in spec.get("volumes") or []:
        volume["name"] = names.get(volume["name"], volume["name"])
    for key in ("name", "command", "args"):
        container.pop(key, None)


def _at(tree: Any, path: str, default: Any = None) -> Any:
    """Return the value at a path. Only the first entry of a list has one."""
    for name in filter(None, path.split("/")):
        tree = tree[0] if isinstance(tree, list) and tree else (tree or {}).get(name.replace("|", "/"))
    return default if tree is None else tree


def _moved(tree: Fields, paths: Mapping[str, str]) -> Fields:
    """Return key -> value of the fields that are there."""
    found = ((key, _at(tree, path)) for path, key in paths.items())
    said = {key: _SAY[key](value) if key in _SAY else value for key, value in found if value is not None}
    return {key: value for key, value in said.items() if value is not None}


def _job(one: Fields) -> Fields:
    """Return the tables of the job file of a job."""
    _, end, path = _JOBS[one["kind"]]
    template, launcher = _at(one, path, {}), _at(one, _LAUNCHER, {})
    replicas = _at(one, "spec/mpiReplicaSpecs/Worker/replicas")
    job = _moved(one, _OF_JOB)
    job.setdefault("mpi", "openmpi" if one["kind"] == "MPIJob" else None)
    job["nodes"] = replicas or _at(one, "spec/completions") or 1
    job["ntasks_per_node"] = _at(one, "spec/slotsPerWorker") or 1
    job |= _moved(_at(one, end, {}), _OF_END)
    words = [word for key in ("command", "args") for word in _at(launcher or template, f"{_MAIN}/{key}", [])]
    if _at(template, "spec/schedulerName") == "volcano":
        job.setdefault(".volcano", "default")
    job |= {**_program(words), **_moved(template, _OF_POD)}
    for part in (_resources, _rights, _volumes, _places):
        job |= part(template, job)
    variables = [each for each in _at(template, f"{_MAIN}/env", []) if set(each) <= {"name", "value"}]
    env = {each["name"]: each.get("value", "") for each in variables if not re.fullmatch(_OF_USER, each["name"])}
    for kind in ("kueue", "volcano"):
        if queue := job.pop(f".{kind}", None):
            job[".queue"] = f"{kind}:{queue}"
    job = {key: value for key, value in job.items() if value is not None}
    own = {key[1:]: job.pop(key) for key in list(job) if key[0] == "."}
    return {**job, "env": env, "kubernetes": own}


def _program(words: list[str]) -> Fields:
    """Return the command, and the way in which mnrun's own texts start it."""
    if "pod_ranks.sh" in words:
        _, _, each, _, _, starter, *command = words[words.index("pod_ranks.sh") :]
        return {"ntasks_per_node": int(each), "launcher": starter, "command": command}
    if "pod_rank.sh" not in words:
        return {"command": words or None}
    place = words.index("pod_rank.sh")
    options = iter(words[words.index("mpirun") + 1 : place - 3])
    rest = [word for word in options if not (word in ("-x", "-n") and next(options))]
    found: Fields = {"ntasks_per_node": int(words[place + 2])}
    if rest[:1] == ["--bind-to"]:
        found["bind_to"], rest = rest[1], rest[2:]
    return {**found, "mpi_args": rest or None, "command": words[place + 3 :]}


def _resources(template: Fields, job: Fields) -> Fields:
    """Read limits, but those that no option can say, and those from which a request differs."""
    both = _at(template, f"{_MAIN}/resources", {})
    asked, each, more = both.get("requests") or {}, job["ntasks_per_node"], []
    found: Fields = {}
    for name, amount in (both.get("limits") or {}).items():
        number = str(amount)
        if str(asked.get(name, number)) != number or not re.fullmatch(pods.NUMBER, number):
            continue
        if name == "cpu" and number.isdecimal() and int(number) % each == 0:
            found["cpus_per_task"] = int(number) // each if int(number) != each else None
        elif name == "memory" and number.endswith("i") and number[-2] in "MGT":
            found["mem"] = number[:-1]
        elif re.fullmatch(r".*/(gpu|xe|i915)", name):
            found["gpus_per_node"], found[".gpu"] = number, name if name != pods.GPU else None
        elif name.startswith("rdma/"):
            found[".rdma"] = f"{name}:{number}".removesuffix(":1")
        elif name not in ("cpu", "memory"):
            more.append(f"{name}:{number}")
    return {**found, ".resources": ",".join(more) or None}


def _rights(template: Fields, job: Fields) -> Fields:
    """Read the user, whom a container may name, and what --hardened takes away."""
    user, own = _at(template, "spec/securityContext", {}), _at(template, f"{_MAIN}/securityContext", {})
    for key in [key for key in _IDS if key in own]:
        user[key] = own.pop(key)
    if user:
        template["spec"]["securityContext"] = user
    first = user.get("runAsUser", "image")
    ids = [str(user.get(key, first)) for key in _IDS]
    hardened = _at(own, "readOnlyRootFilesystem") is True and _at(own, "capabilities/drop") == ["ALL"]
    who = "image" if first == "image" else "root" if set(ids) == {"0"} else ":".join(ids)
    return {".security": who, "hardened": hardened or None}


def _volumes(template: Fields, job: Fields) -> Fields:
    found: Fields = {".shm": "off"}
    binds = []
    volumes = {volume["name"]: volume for volume in _at(template, "spec/volumes", [])}
    for mount in _at(template, f"{_MAIN}/volumeMounts", []):
        volume, place, below = volumes.get(mount.get("name"), {}), mount.get("mountPath"), mount.get("subPath")
        end = f":{place}:ro" if mount.get("readOnly") else f":{place}"
        if claim := _at(volume, "persistentVolumeClaim/claimName"):
            binds.append(f"{CLAIM}{'/'.join(filter(None, (claim, below)))}{end}")
        elif "hostPath" in volume and not below:
            binds.append(f"{volume['hostPath']['path']}{end}")
        elif "emptyDir" in volume and place in ("/dev/shm", "/tmp"):
            found[f".{place.rpartition('/')[2]}"] = _at(volume, "emptyDir/sizeLimit", "")
    tmp = found.get(".tmp")
    return {
        ".shm": found[".shm"] or None,
        ".tmp": None if job["hardened"] and not tmp else tmp,
        "bind": binds or None,
    }


def _places(template: Fields, job: Fields) -> Fields:
    """Read the nodes of the job, its taints, and whether its pods share nodes."""
    affinity, labels = _at(template, "spec/affinity", {}), dict(_at(template, "spec/nodeSelector", {}))
    if level := _at(template, "metadata/annotations/kueue.x-k8s.io|podset-required-topology"):
        labels["topology"] = level
    found = {"constraint": ",".join(map("=".join, labels.items())) or None}
    taints = [word for one in _at(template, "spec/tolerations", []) if pods.toleration(word := _taint(one)) == one]
    found[".tolerations"] = ",".join(taints) or None
    terms = _at(affinity, f"nodeAffinity/{pods.during('required')}/nodeSelectorTerms", [])
    for rule in (terms[0].get("matchExpressions") or []) if len(terms) == 1 else []:
        if rule.get("key") == pods.HOSTNAME and rule.get("operator") in pods.SIGNS:
            found[pods.SIGNS[rule["operator"]]] = ",".join(rule["values"])
    rules = {mode: pods.apart(str(job.get("name")), "node", mode) for mode in ("required", "preferred")}
    apart = affinity.get("podAntiAffinity") or {}
    mode = next((mode for mode, rule in rules.items() if apart.get(pods.during(mode)) == rule), "off")
    return {**found, ".spread": mode if job["nodes"] > 1 and mode != "required" else None}


def _taint(one: Fields) -> str:
    """Return a toleration as kubectl writes its taint."""
    value = f"={one['value']}" if "value" in one else ""
    return f"{one.get('key', '')}{value}" + (f":{one['effect']}" if "effect" in one else "")
