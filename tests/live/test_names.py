"""Names of nodes and what they resolve to, as sites have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from .cells import HELLO, INSIDE, MPICH, OMPI4, OMPI5
from .reports import check
from .stage import LOGIN, Cluster
from .test_hostile_user import in_home

SAY = ("--launcher", "env", "--", "sh", "-c", 'echo "$GLOO_SOCKET_IFNAME $TP_SOCKET_IFNAME ${MASTER_ADDR%.*}"')


@contextmanager
def resolving(cluster: Cluster, changes: Mapping[str, tuple[str, str]]) -> Iterator[None]:
    for node, (drop, more) in changes.items():
        change = f"cp /etc/hosts /etc/hosts.before; sed -i '/{drop}/d' /etc/hosts; printf '{more}' >>/etc/hosts"
        cluster.root(node, "sh", "-c", change)
    try:
        yield
    finally:
        for node in changes:
            cluster.root(node, "mv", "/etc/hosts.before", "/etc/hosts")


def test_names_that_are_alike_before_their_first_dot(cluster: Cluster) -> None:
    """(F3) Open MPI compares such names up to the dot. Each node has its ranks."""
    names = {"w.1": cluster.nodes[0], "w.2": cluster.nodes[1]}
    known = cluster.root(LOGIN, "cat", "/etc/ssh/ssh_known_hosts").split()[1:3]
    with ExitStack() as stack:
        addresses = {name: cluster.root(LOGIN, "getent", "hosts", node).split()[0] for name, node in names.items()}
        more = "".join(f"{address} {name}\\n" for name, address in addresses.items())
        stack.enter_context(resolving(cluster, dict.fromkeys((LOGIN, *names.values()), ("^$", more))))
        stack.enter_context(in_home(cluster, {".ssh/known_hosts": f"w.1,w.2 {' '.join(known)}\n"}))
        for name, node in names.items():
            stack.callback(cluster.root, node, "hostname", node)
            cluster.root(node, "hostname", name)
        outside = ("--mode", "outside-in")
        ways = (["--image", OMPI5], ["--image", OMPI4], ["--image", MPICH], [*outside, "--image", OMPI5])
        for way in (*ways, [*outside, "--mpi", "mpich", "--image", MPICH]):
            check(cluster.alice(["mnrun", "-Q", "--hosts", "w.1:2,w.2:2", *way, "--", HELLO]), *names)


def test_names_that_do_not_resolve(cluster: Cluster) -> None:
    """(F10) Slurm knows the addresses of the nodes, and the nodes do not."""
    nodes = cluster.nodes[:2]
    with resolving(cluster, dict.fromkeys(nodes, ("node[0-9]*$", ""))):
        for way in (["--image", MPICH], ["--connect", "ssh", "--image", MPICH], ["--connect", "ssh", *INSIDE.words]):
            check(cluster.mnrun(*way, "--", HELLO, nodes=2), *nodes)
        said = cluster.mnrun("-Q", "--runtime", "host", *SAY, nodes=2, tasks=1)
    assert (said.code, said.out) == (0, "eth0 eth0 10.77.0\n" * 2), said


def test_a_name_that_is_the_loopback_address(cluster: Cluster) -> None:
    """(F5) Debian writes 127.0.1.1 for its own name, which Gloo and TensorPipe look up. The user's words hold."""
    nodes = cluster.nodes[:2]
    with resolving(cluster, {node: (f"{node}$", f"127.0.1.1 {node}\\n") for node in nodes}):
        said = cluster.mnrun("-Q", "--runtime", "host", *SAY, nodes=2, tasks=1)
        own = cluster.mnrun("-x", "TP_SOCKET_IFNAME=mine", "--runtime", "host", *SAY, nodes=2, tasks=1)
    assert (said.code, said.out) == (0, "eth0 eth0 10.77.0\n" * 2), said
    assert own.out == "eth0 mine 10.77.0\n" * 2, own
