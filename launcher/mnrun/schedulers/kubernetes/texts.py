"""Write a job as objects of Kubernetes, each value with its origin: texts for an operator or for controllers. Pure."""

from __future__ import annotations

import os.path
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mnrun.errors import Impossible, UsageError
from mnrun.files import BASH, lean
from mnrun.schedulers.kubernetes import detached, pods
from mnrun.schedulers.kubernetes.objects import ONCE, Asked, job_spec, made, service
from mnrun.schedulers.kubernetes.pods import Said, Tree

HOSTFILE = "/etc/mpi/hostfile"  # of mpi-operator and trainer
PORT = 29500  # where ranks without an MPI meet, as torchrun's default
# --mpi -> the operator's word
_OPERATORS = {"auto": "OpenMPI", "openmpi": "OpenMPI", "mpich": "MPICH", "mvapich2": "MPICH", "intelmpi": "Intel"}
_LAST = {"mpijob": "-worker-{}", "jobset": "-node-0-{}", "job": "-{}"}  # the ends of the longest names
_VOLUME = {"name", "size", "mode", "class", "labels", "server", "path", "driver", "handle"}


def script(name: str, *words: str) -> list[str]:
    """Return the words that run one of the scripts beside this module with these words."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    shell = BASH if "bash" in text.partition("\n")[0] else ("sh",)
    return [*shell, "-c", lean(text).strip() + "\n", name, *words]


def write(form: str, asked: Asked) -> list[Tree]:
    """Return the objects of a form. Raises UsageError or Impossible for what the form cannot say."""
    if form in _LAST:
        pods.name(asked.spec, asked.own, _LAST[form].format(asked.nodes - 1))
    if asked.spec.start.launcher == "ray" and form in FORMS and (form != "job" or asked.nodes == 1):
        raise Impossible(f"a cluster of Ray cannot be a {form} of {asked.nodes}", "use --format job -N 2, or mnrun run")
    if asked.spec.service.ready and form in FORMS and form != "job":
        raise Impossible(
            f"a service cannot be a {form}, since nobody asks it there", "use --format job, or mnrun serve"
        )
    wanted = FORMS[form](asked)
    claims = [] if form in ("pv", "rbac") else [_claim(asked, *volume) for volume in pods.volumes(asked.spec)]
    return claims + wanted


def _claim(asked: Asked, table: Mapping[str, Any], why: str) -> Tree:
    """Return the claim of a [[kubernetes.volume]]: by labels of a volume, or of a class that makes one."""
    if strange := set(table) - _VOLUME:
        raise UsageError(f"volume.{min(strange)} is unknown ({why})", f"use {', '.join(sorted(_VOLUME))}")
    spec = {
        "accessModes": [Said(table.get("mode", "ReadWriteMany"), why)],
        "resources": {"requests": {"storage": Said(table["size"], why)}},
        # Without a class, the cluster's default one would make a volume.
        "storageClassName": Said(table.get("class", ""), why) if "class" in table or "labels" in table else None,
        "selector": {"matchLabels": Said(table["labels"], why)} if "labels" in table else None,
    }
    return made(asked, "v1", "PersistentVolumeClaim", table["name"], spec=spec)


def _volumes(asked: Asked) -> list[Tree]:
    """Return the static volumes, for an admin."""
    static = [(table, why) for table, why in pods.volumes(asked.spec) if "labels" in table]
    if not static:
        remedy = "a claim with a class needs no volume of an admin's"
        raise Impossible("no [[kubernetes.volume]] of the job has labels", remedy)
    return [_volume(asked, table, why) for table, why in static]


def _volume(asked: Asked, table: Mapping[str, Any], why: str) -> Tree:
    source: Tree = {"nfs": {"server": table.get("server"), "path": table.get("path")}}
    if "driver" in table:
        source = {"csi": {"driver": table["driver"], "volumeHandle": table.get("handle", table["name"])}}
    elif not {"server", "path"} <= set(table):
        remedy = "add server and path of an NFS export, or driver and handle of a CSI driver"
        raise Impossible(f"volume {table['name']} has no place ({why})", remedy)
    spec = {
        "capacity": {"storage": Said(table["size"], why)},
        "accessModes": [Said(table.get("mode", "ReadWriteMany"), why)],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": Said(table.get("class", ""), why),
        **{kind: Said(value, why) for kind, value in source.items()},
    }
    volume = made(asked, "v1", "PersistentVolume", table["name"], spec=spec)
    volume["metadata"]["labels"].update(table["labels"])
    return volume


def _program(asked: Asked) -> list[str]:
    """Return the words of the program. Raises Impossible for a file that no pod has."""
    path = asked.spec.program.script
    places = tuple(f"{mount.target or mount.source}/" for mount in asked.spec.container.binds)
    if path and not path.startswith(places):
        remedy = "mount its directory with --bind, or put it into the image"
        raise Impossible(f"--script {path}: no pod has this file", remedy)
    return ["bash", path, *asked.spec.program.command] if path else list(asked.spec.program.command)


def _checked(asked: Asked, many: bool) -> list[str]:
    """Return the words of mpirun, by which each rank checks the size of the world. Open MPI takes all slots of the
    hostfile: with a number of ranks, a single node would have all of them."""
    spec, hydra = asked.spec, _OPERATORS.get(asked.spec.start.mpi, "") != "OpenMPI"
    if spec.program.once:
        return _program(asked)
    names = ("PATH", "LD_LIBRARY_PATH", *(variable.name for variable in pods.variables(spec)))
    passed = [word for name in names for word in ("-x", name)] if many and not hydra else []
    number = ["-n", str(asked.layout.ntasks)] if hydra or not many else []
    bound = ["--bind-to", spec.start.bind_to] if spec.start.bind_to else []
    rank = script("pod_rank.sh", str(asked.layout.ntasks), str(asked.each))
    return ["mpirun", *number, *bound, *passed, *spec.start.mpi_args, *rank, *_program(asked)]


def _without_mpi(asked: Asked, address: str) -> list[str]:
    """Return the words that start the ranks of a pod without an MPI, which meet at the first pod."""
    if asked.layout.ntasks == 1 and asked.spec.start.launcher != "torchrun":
        return _program(asked)
    start = "torchrun" if asked.spec.start.launcher == "torchrun" else "env"
    where = (address, str(_port(asked, PORT)), start)
    return script("pod_ranks.sh", str(asked.nodes), str(asked.each), *where, *_program(asked))


def _port(asked: Asked, usual: int) -> int:
    """Return the usual port, or, in the network of a node, one of the job's own among --ports."""
    if not pods.in_host(asked.own):
        return usual
    first, last = map(int, asked.spec.start.ports.split("-"))
    return first + zlib.crc32(asked.name.encode()) % (last - first + 1)


def _filled(asked: Asked, role: str, command: list[str], env: Mapping[str, Any] = {}, **fields: Any) -> Tree:
    """Return the template of a pod whose container runs a command."""
    template = pods.explained(asked.spec, asked.layout, asked.own, role)
    container = template["spec"]["containers"][0]
    more = [{"name": name, "value": value} for name, value in env.items()]
    container.update(command=Said(command, "written by mnrun"), env=[*container.get("env", []), *more], **fields)
    return template


def _of_user(asked: Asked) -> dict[str, Said]:
    """Return the variables that Open MPI needs for root, or for a user whom the image may not know."""
    if any(pods.identity(asked.spec, asked.own)[0][:1]):
        return {"SHELL": Said("/bin/sh", "Open MPI warns without it where the image has no such user")}
    names = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
    prte = (name.replace("OMPI", "PRTE") for name in names)
    return {name: Said("1", "Open MPI does not run as root without it") for name in (*names, *prte)}


def _by_ssh(asked: Asked) -> tuple[str, Tree, Tree]:
    """Return the place of the keys, and the launcher's and the nodes' templates of an MPI job with an operator. Its
    user must be in the image: by default, it is root."""
    own, timeout = dict(asked.own), str(asked.spec.start.timeout)
    if pods.setting(own, "security", "caller")[0] == "caller":
        if asked.spec.container.hardened:
            problem = "--hardened excludes root, who runs the sshd of an MPI job by default"
            raise Impossible(problem, "name a user of the image: --kubernetes security=UID:GID")
        own["security"] = Said("root", "sshd needs a user of the image: --kubernetes security=UID:GID names one")
    asked = asked._replace(own=own)
    root = pods.identity(asked.spec, own)[0][:1] == [0]
    keys = "/root/.ssh" if root else pods.setting(own, "ssh_dir", "/home/mpiuser/.ssh")[0]
    port = _port(asked, 22 if root else 2222)
    why = "Open MPI 5 does not read the operator's variables, and would use one node"
    env = {
        "PRTE_MCA_prte_default_hostfile": Said(HOSTFILE, why),
        "PRTE_MCA_plm_ssh_args": Said(f"-o ConnectionAttempts=10 -p {port}", why),
        **_of_user(asked),
    }
    launching = script("pod_launch.sh", str(asked.layout.ntasks), timeout, HOSTFILE, keys)
    limit = "unlimited" if "rdma" in own else "any"
    probe = {"tcpSocket": {"port": port}, "periodSeconds": 2}
    node = _filled(
        asked, "node", script("pod_sshd.sh", keys, str(port), limit),
        readinessProbe=Said(probe, "a pod without it counts as ready before its sshd is"),
    )  # fmt: skip
    return keys, _filled(asked, "launcher", [*launching, *_checked(asked, True)], env), node


def _mpijob(asked: Asked) -> list[Tree]:
    spec = asked.spec
    if not asked.by_mpi:
        raise Impossible(f"an MPIJob starts ranks by mpirun, and not by {spec.start.launcher}", "use --format job")
    if spec.start.mpi not in _OPERATORS:
        raise Impossible(f"an MPIJob has no --mpi {spec.start.mpi}", f"use one of {', '.join(_OPERATORS)}")
    keys, launcher, worker = _by_ssh(asked)
    kind, queue_name = pods.queue(spec, asked.own)
    scheduling = {"minAvailable": asked.nodes + 1, "queue": queue_name} if kind == "volcano" else None
    policy = {"cleanPodPolicy": "Running", "backoffLimit": ONCE, **asked.times, "schedulingPolicy": scheduling}
    replicas = {
        "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
        "Worker": {"replicas": asked.size, "restartPolicy": "Never", "template": worker},
    }
    fields = {
        "slotsPerWorker": Said(asked.each, asked.layout.why_ranks),
        "mpiImplementation": Said(_OPERATORS[spec.start.mpi], f"--mpi ({spec.origins.get('mpi', 'built-in')})"),
        "sshAuthMountPath": keys,
        "launcherCreationPolicy": Said("WaitForWorkersReady", "else mpirun asks for names before there are any"),
        "runPolicy": policy,
        "mpiReplicaSpecs": replicas,
    }
    return [made(asked, "kubeflow.org/v2beta1", "MPIJob", admitted=True, spec=fields)]


def _trainjob(asked: Asked) -> list[Tree]:
    """Return a runtime of kubeflow/trainer for this job alone, and the job."""
    spec, name, api = asked.spec, asked.name, "trainer.kubeflow.org/v1alpha1"
    step: Tree = {"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}}
    if asked.by_mpi:
        if _OPERATORS.get(spec.start.mpi) != "OpenMPI":
            problem = f"a TrainJob knows Open MPI alone, and not --mpi {spec.start.mpi}"
            raise Impossible(problem, "use --format mpijob")
        keys, launcher, node = _by_ssh(asked)
        shape = {"numProcPerNode": asked.each, "mpiImplementation": "OpenMPI"}
        policy: Tree = {"mpi": {**shape, "sshAuthMountPath": keys, "runLauncherAsNode": False}}
        waits = {"dependsOn": [{"name": "node", "status": "Ready"}]}
        jobs: list[Tree] = [
            {"name": "node", "template": {"spec": job_spec(node, asked.size)}},
            {"name": "launcher", **waits, "template": {**step, "spec": job_spec(launcher)}},
        ]
        ends: Tree = {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]}}
    else:
        node = _filled(asked, "node", _without_mpi(asked, f"{name}-node-0-0.{name}"))
        jobs = [{"name": "node", "template": {**step, "spec": job_spec(node, asked.size)}}]
        policy = {"torch": {"numProcPerNode": asked.each}} if spec.start.launcher == "torchrun" else {}
        ends = {}
    for job in jobs:  # the trainer knows the container by this name
        job["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = "node"
    inner = {"network": {"publishNotReadyAddresses": True}, **ends, "replicatedJobs": jobs}
    runtime = {"mlPolicy": {"numNodes": asked.size, **policy}, "template": {"spec": inner}}
    job = {
        "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": name},
        "activeDeadlineSeconds": pods.deadline(spec),
        "trainer": {"numNodes": asked.size, "numProcPerNode": Said(asked.each, asked.layout.why_ranks)},
    }
    return [
        made(asked, api, "TrainingRuntime", spec=runtime),
        made(asked, api, "TrainJob", admitted=True, spec=job),
    ]


def _jobset(asked: Asked) -> list[Tree]:
    if asked.by_mpi and asked.nodes > 1:
        problem = "a JobSet has no way by which mpirun reaches other pods"
        raise Impossible(problem, "use --format job, whose nodes call a launcher, or mpijob")
    template = _single(asked, f"{asked.name}-node-0-0.{asked.name}")
    inner = job_spec(template, asked.size, activeDeadlineSeconds=pods.deadline(asked.spec))
    spec = {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "failurePolicy": {"maxRestarts": 0},
        "ttlSecondsAfterFinished": pods.ttl(asked.own),
        "replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": inner}}],
    }
    return [made(asked, "jobset.x-k8s.io/v1alpha2", "JobSet", admitted=True, spec=spec)]


def _single(asked: Asked, address: str) -> Tree:
    """Return the template of a pod whose ranks need no other way to those of other pods than a name."""
    if asked.by_mpi:
        return _filled(asked, "node", _checked(asked, False), _of_user(asked))
    return _filled(asked, "node", _without_mpi(asked, address))


def _job(asked: Asked) -> list[Tree]:
    """Return a Job with an index for each pod, and the Service without an address that gives the pods names. Several
    nodes with an MPI call a launcher, and so does each node of a service, which the launcher follows."""
    if asked.spec.service.ready or (asked.by_mpi and asked.nodes > 1):
        return detached.objects(asked)
    template = _single(asked, f"{asked.name}-0.{asked.name}")
    template["spec"]["subdomain"] = asked.name
    spec = job_spec(template, asked.size, **asked.times)
    return [service(asked), made(asked, "batch/v1", "Job", admitted=True, spec=spec)]


def _pod(asked: Asked) -> list[Tree]:
    if asked.nodes > 1:
        raise Impossible(
            f"a pod is one node, and the job has {asked.nodes}", "use --format job or mpijob, or mnrun run"
        )
    template = _single(asked, "localhost")
    spec = {**template["spec"], "activeDeadlineSeconds": pods.deadline(asked.spec)}
    found = made(asked, "v1", "Pod", admitted=True, spec=spec)
    for kind, of_pods in template["metadata"].items():
        found["metadata"][kind] = {**of_pods, **found["metadata"][kind]}
    return [found]


# The rights by which mnrun run, submit and the verbs work: API group, resources, verbs, and the reason.
_ALL = ("create", "get", "list", "delete")
RIGHTS = (
    ("", ("pods", "configmaps"), _ALL, "mnrun run, status and cancel"),
    ("", ("pods/exec",), ("create", "get"), "mnrun run, shell and exec; get since WebSockets carry it (KEP-4006)"),
    ("", ("pods/portforward",), ("create", "get"), "the tunnel to mnrun serve; get as for exec"),
    ("", ("pods/log", "events"), ("get", "list"), "mnrun logs, and the reasons for which pods wait"),
    ("batch", ("jobs",), _ALL, "mnrun submit"),
    ("", ("services",), _ALL, "mnrun submit on several nodes"),
    ("", ("secrets",), ("create",), "mnrun submit of an MPI on several nodes, with an owner that takes it along"),
    ("networking.k8s.io", ("networkpolicies",), ("create",), "the same"),
    ("", ("persistentvolumeclaims",), _ALL, "[[kubernetes.volume]]"),
    ("kubeflow.org", ("mpijobs",), _ALL, "mnrun submit with format=mpijob"),
    ("trainer.kubeflow.org", ("trainjobs", "trainingruntimes"), _ALL, "mnrun submit with format=trainjob"),
    ("jobset.x-k8s.io", ("jobsets",), _ALL, "mnrun submit with format=jobset"),
)


def _rbac(asked: Asked) -> list[Tree]:
    """Return the account of people or services who use mnrun, and its rights. On OpenShift, also the constraint that
    the job's pods need, and the right to use it."""
    name = pods.setting(asked.own, "service_account", "mnrun")[0]
    rules = [
        {"apiGroups": [group], "resources": Said([*what], why), "verbs": [*verbs]} for group, what, verbs, why in RIGHTS
    ]
    constraints = []
    if pods.setting(asked.own, "security")[0] == "openshift":
        constraints.append(_constraint(asked, name))
        use = {"resources": ["securitycontextconstraints"], "resourceNames": [name], "verbs": ["use"]}
        rules.append({"apiGroups": ["security.openshift.io"], **use})
    api = "rbac.authorization.k8s.io"
    space = asked.own.get("namespace", Said("default", "--kubernetes namespace=NAME names another"))
    subject = {"kind": "ServiceAccount", "name": name, "namespace": space}  # a server refuses one without
    role = {"apiGroup": api, "kind": "Role", "name": name}
    return [
        *constraints,
        made(asked, "v1", "ServiceAccount", name),
        made(asked, f"{api}/v1", "Role", name, rules=rules),
        made(asked, f"{api}/v1", "RoleBinding", name, roleRef=role, subjects=[subject]),
    ]


def _constraint(asked: Asked, name: str) -> Tree:
    """Return OpenShift's constraint with what this job needs, and no more."""
    rdma, hosts = "rdma" in asked.own, bool(pods.host_paths(asked.spec))
    volumes = ["configMap", "downwardAPI", "emptyDir", "persistentVolumeClaim", "projected", "secret"]
    return made(
        asked, "security.openshift.io/v1", "SecurityContextConstraints", name,
        allowHostDirVolumePlugin=hosts, allowHostIPC=False, allowHostPID=False, allowHostPorts=False,
        allowHostNetwork=pods.in_host(asked.own),
        allowPrivilegedContainer=asked.spec.container.privileged, readOnlyRootFilesystem=False,
        allowedCapabilities=Said(["IPC_LOCK"], asked.own["rdma"].why) if rdma else None,
        runAsUser={"type": "MustRunAsRange"}, seLinuxContext={"type": "MustRunAs"},
        fsGroup={"type": "MustRunAs"}, supplementalGroups={"type": "RunAsAny"},
        volumes=sorted([*volumes, *(["hostPath"] if hosts else [])]),
    )  # fmt: skip


def _stateful(asked: Asked) -> list[Tree]:
    raise Impossible("the pods of a StatefulSet start again for ever, so that it never ends", "use --format job")


FORMS: dict[str, Callable[[Asked], list[Tree]]] = {
    "mpijob": _mpijob,
    "trainjob": _trainjob,
    "jobset": _jobset,
    "job": _job,
    "pod": _pod,
    "rbac": _rbac,
    "pv": _volumes,
    "statefulset": _stateful,
}
