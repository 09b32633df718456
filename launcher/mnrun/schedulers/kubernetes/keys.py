"""The keys of the table [kubernetes], which are also those of --kubernetes KEY=VALUE."""

from __future__ import annotations

import re

from mnrun.errors import UsageError
from mnrun.schedulers.vocabulary import OwnOption

NAME = "kubernetes"
KEYS = {
    "namespace": "the namespace of jobs, by default that of the context",
    "context": "the context of kubectl's configuration",
    "queue": '"kueue:NAME", "volcano:NAME", or one of both words with the queue in --partition',
    "priority": "the priority class of jobs without --qos",
    "service_account": "the account of pods",
    "security": 'the user of processes: "caller" (by default), "root", "image", "openshift" or "UID:GID:FSGROUP"',
    "network": '"host" for the network of the node',
    "rdma": 'the resource for RDMA, such as "rdma/hca_shared_devices_a", with :NUMBER for several',
    "gpu": "the resource for GPUs, by default that of the usual device plugin",
    "gpu_label": "the label of nodes with the type of their GPUs",
    "resources": 'further resources of each pod: "hugepages-2Mi:512Mi,ephemeral-storage:10Gi"',
    "shm": 'the size of the shared memory, by default up to the memory of the pod, or "off" for 64 MB',
    "tmp": "the size of a temporary directory of each pod",
    "tolerations": 'taints of nodes to accept: "gpu=yes:NoSchedule,spot:NoExecute"',
    "registry_login": "secrets for the registry of the image: NAME,NAME",
    "spread": '"required" (by default), "preferred" or "off": one pod on each node',
    "sidecars": '"on" if a service mesh may put its containers beside a program',
    "ssh_dir": "the directory with the keys of an MPIJob whose user is not root",
    "format": 'the objects of mnrun submit: "pod" for one, "job" for several, "jobset", "mpijob", "trainjob"',
    "ttl": "the seconds after which the cluster removes a job that has ended",
    "launcher_image": "the image with mnrun, for mnrun submit",
    "volume": "a table for each claim: name, and size, mode, class, labels or server and path",
}


def word(text: str, origin: str) -> str:
    """Return a word KEY=VALUE as it is kept. Raises UsageError."""
    match = re.match(r"!?([a-z-_]+)(=|$)", text)
    key = match[1].replace("-", "_") if match else ""
    if key not in KEYS:
        problem = f"--{NAME} {text!r} is not KEY=VALUE ({origin})"
        raise UsageError(problem, f"KEY is one of {', '.join(KEYS)}")
    assert match
    return text.replace(match[1], key, 1)


def entry(key: str, value: str | None) -> str:
    return key.replace("-", "_") + ("" if value is None else f"={value}")


OPTION = OwnOption(
    NAME, word, entry, site={key: meaning for key, meaning in KEYS.items() if key != "volume"}, tables=("volume",)
)
