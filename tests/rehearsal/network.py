"""The wires: a bridge in a network namespace of its own, and a veth to each node."""

from __future__ import annotations

import json
from pathlib import Path

from .model import RUN, Cluster, Options
from .shell import locked, run

NETNS = Path("/run/netns")
HUB = "hub"
# Rules in the place of earlier ones (nft(8)).
LOSSY = """\
add table bridge {port}
delete table bridge {port}
table bridge {port} {{
  chain lost {{
    type filter hook forward priority 0
    iifname {port} numgen random mod 10 < {tenths} drop
    oifname {port} numgen random mod 10 < {tenths} drop
  }}
}}
"""


def lay(cluster: Cluster, options: Options) -> None:
    """Make all networks of the cluster; the nodes' own ends are named eth0."""
    names = [HUB, *options.everyone]
    with locked(RUN / ".netns.lock"):
        _batch([f"netns add {cluster.netns(name)}" for name in names])
    hub = cluster.netns(HUB)
    _batch(["link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0", "link set br0 up"], hub)
    _batch([
        f"link add {port(options, node)} netns {hub} type veth peer name eth0 netns {cluster.netns(node)}"
        for node in options.everyone
    ])  # fmt: skip
    _batch([f"link set {port(options, node)} master br0 up" for node in options.everyone], hub)


def port(options: Options, node: str) -> str:
    """The bridge's end of a node's wire."""
    return f"port{options.everyone.index(node)}"


def plug(cluster: Cluster, node: str, up: bool) -> None:
    """Put a node's wire in, or pull it out."""
    state = "up" if up else "down"
    _batch([f"link set {port(cluster.options(), node)} {state}"], cluster.netns(HUB))


def renew(cluster: Cluster, node: str) -> None:
    """Give a node that was switched off a new network, its wire not yet in: what the kernel still holds of the old one
    would say goodbye to the node's peers, and srun then takes a node that was lost for one that has closed its streams.
    """
    hub, own, wire = cluster.netns(HUB), cluster.netns(node), port(cluster.options(), node)
    (card,) = json.loads(run(["ip", "-n", own, "-json", "link", "show", "eth0"]))
    with locked(RUN / ".netns.lock"):
        _batch([f"link delete {wire}"], hub)
        _batch([f"netns delete {own}", f"netns add {own}"])
    _batch([f"link add {wire} netns {hub} type veth peer name eth0 address {card['address']} netns {own}"])
    _batch([f"link set {wire} master br0"], hub)


def lose(cluster: Cluster, node: str, tenths: int) -> None:
    """Lose so many tenths of the packets to a node, and of those from it."""
    text = LOSSY.format(port=port(cluster.options(), node), tenths=tenths)
    run(["ip", "netns", "exec", cluster.netns(HUB), "nft", "-f", "-"], text=text)


def plugged(cluster: Cluster, node: str) -> bool:
    argv = ["ip", "-n", cluster.netns(HUB), "link", "show", port(cluster.options(), node)]
    return ",UP" in run(argv, check=False)


def existing(cluster: Cluster) -> list[Path]:
    """The networks that a cluster of this name has, or left behind."""
    return sorted(NETNS.glob(f"{cluster.netns('*')}"))


def remove(cluster: Cluster) -> None:
    """Take them away; the wires and the bridge go with them."""
    with locked(RUN / ".netns.lock"):
        found = existing(cluster)
        if found:
            _batch([f"netns delete {file.name}" for file in found])
        # iproute2 mounts this folder on itself for its first name, and never takes it away.
        mounted = NETNS.is_dir() and f" {NETNS} " in Path("/proc/self/mounts").read_text()
        if mounted and not any(NETNS.iterdir()):
            run(["umount", NETNS], check=False)


def _batch(lines: list[str], netns: str = "") -> None:
    within = ["-n", netns] if netns else []
    run(["ip", *within, "-batch", "-"], text="\n".join(lines) + "\n")
