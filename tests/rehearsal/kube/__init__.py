"""Kubernetes 1.20 for the rehearsal cluster: etcd and the control plane on the login node, a kubelet on each other.

Its programs are built by build/kube-programs.sh, and inside/kube.sh starts them. Pods have addresses of their own: each
node has a bridge, and each host a route to the bridges of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..ground import etc
from ..model import LOGIN, Options

PORTS = ("443", "10250")  # of the API server, and of a kubelet
TAKES_JOBS = "Ready"
# What the tests may leave in a namespace, and how the names of what is in each of them begin.
KINDS = "pods,jobs,mpijobs,configmaps,secrets,services,persistentvolumeclaims,serviceaccounts,roles,rolebindings"
ALWAYS = (
    "configmap/kube-root-ca.crt", "secret/default-token-", "serviceaccount/default",
    "rolebinding.rbac.authorization.k8s.io/alice", "rolebinding.rbac.authorization.k8s.io/carol",
)  # fmt: skip
# Says nothing before all of the login node is up.
NODES = ("sh", "-c", "[ ! -e /run/kube ] || kubectl --kubeconfig=/root/.kube/config get nodes --no-headers")
# Those that each node has, as localhost/NAME:1. The last has neither sshd nor mnrun.
IMAGES = ("ompi5", "ompi4", "nosshd")
DAEMONS = ("api.py", "dns.py", "mpi_operator.py")
# A user of the API and the groups of it. alice may change what is in the namespace `lab`, carol may look at it, and
# bob has no rights. What each of them has is in etc/lab.yaml.
USERS = {"root": "system:masters", "alice": "", "bob": "", "carol": ""}
# After how many seconds a silent node is given up, and its pods are ended: Kubernetes' own, and with --impatient.
SILENT = {False: (40, 300), True: (10, 5)}


def token(user: str) -> str:
    return f"token-of-{user}"


def pods(options: Options) -> Mapping[str, str]:
    """Node → the network of its pods."""
    return {node: f"10.98.{number}.0/24" for number, node in enumerate(options.compute, 1)}


def files(cluster: str, options: Options) -> dict[str, str]:
    """Path in the node → its text; what begins with #! is a program."""
    here, top = Path(__file__).parent, "/etc/rehearsal/kube"
    grace, eviction = SILENT[options.impatient]
    rows = [f'{token(user)},{user},{user},"{groups}"\n' for user, groups in USERS.items()]
    routes = [f"{node} {net} {options.address(node)}\n" for node, net in pods(options).items()]
    settings = {
        "server": options.address(LOGIN), "cluster": cluster, "token": token("root"), "images": f"'{' '.join(IMAGES)}'",
        "users": f"'{' '.join(USERS)}'", "grace": grace, "eviction": eviction,
    }  # fmt: skip
    return {
        f"{top}/tokens": "".join(rows),
        f"{top}/pods": "".join(routes),
        f"{top}/settings": "".join(f"{name}={value}\n" for name, value in settings.items()),
        f"{top}/lab.yaml": etc("lab.yaml"),
        f"{top}/kubelet.yaml": etc("kubelet.yaml"),
        **{f"{top}/lib/kube/{name}": (here / name).read_text() for name in DAEMONS},
        "/usr/local/sbin/runc-plain": etc("runc-plain"),
    }


def states(text: str) -> dict[str, str]:
    """Node → its state, of what NODES says; {} where it says nothing."""
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: row[1] for row in rows if len(row) == 5}
