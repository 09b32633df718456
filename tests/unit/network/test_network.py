"""Facts of machines as their nodes say them -> what is chosen for a job on two of them, and why.

recorded/fabric/*.txt are lines of wrappers/network/network_facts.sh, with the node's own number as {n} (in a GID as
{h}), written after the documented PCI and network layout of these machines; *.choices what comes of them.
`pytest tests/unit/network --accept` takes what there is now.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mnrun.facts import parse
from mnrun.files import wrappers
from mnrun.jobspec import Variable
from mnrun.network import choose, facts
from mnrun.network.choose import Choice
from mnrun.network.facts import NetworkFacts
from mnrun.schedulers.slurm import wording
from unit.cases import Cases
from unit.conftest import Shell
from unit.samples import RECORDED, job_spec
from unit.texts import Expected, Says

TREES = RECORDED / "fabric"
# where a node's name leads
NAMED = {
    "dgx1": "10.149.0.{n}",
    "dgxa100": "10.130.122.{n}",
    "roce": "10.20.100.{n}",
    "laptop": "192.168.178.{n}",
    "p4d": "10.0.48.{n}",
    "slingshot": "10.249.0.{n}",
}
PLAIN = ("nic lo kind=loopback state=unknown", "nic eth0 kind=physical state=up", "address lo 127.0.0.1/8")
DECOYS = ("docker0 172.17.0.1", "virbr0 192.168.122.1")


def lines(name: str, number: int) -> list[str]:
    text = (TREES / f"{name}.txt").read_text()
    return text.replace("{n}", str(number)).replace("{h}", f"{number:02x}").splitlines()


def network(lines: Iterable[str]) -> NetworkFacts:
    return facts.network_facts(parse("".join(f"fact n1 {line}\n" for line in lines)))


def machine(name: str, number: int = 11) -> NetworkFacts:
    return network(lines(name, number))


def node(number: int, nic: str = "eth0", net: str = "10.77.0", *more: str) -> NetworkFacts:
    address = f"{net}.{number}"
    own = (f"address {nic} {address}/24", f"route {net}.0/24 dev {nic} proto kernel scope link src {address}")
    return network([*(line.replace("eth0", nic) for line in PLAIN), *own, *more])


def decoys(state: str = "up") -> list[str]:
    said = []
    for decoy in DECOYS:
        name, address = decoy.split()
        said += [f"nic {name} kind=bridge state={state}", f"address {name} {address}/24"]
    return said


def two(one: NetworkFacts, other: NetworkFacts, *addresses: str) -> dict[str, Choice]:
    given = addresses or ("10.77.0.1", "10.77.0.2")
    return {c.name: c for c in choose.choose({"n1": one, "n2": other}, dict(zip(("n1", "n2"), given)))}


@pytest.mark.parametrize("name", NAMED)
def test_machines(name: str, expected: Expected) -> None:
    nodes = {f"node{number}": machine(name, number) for number in (11, 12)}
    chosen = choose.choose(nodes, {f"node{number}": NAMED[name].replace("{n}", str(number)) for number in (11, 12)})
    said = [f"{one.name}={one.value}\n    {one.why}\n" for one in chosen]
    warned = [f"warning: {line}\n" for line in facts.too_small(nodes["node11"], 2, wording.LIMITS)]
    expected(TREES / f"{name}.choices", f"fast: {facts.fast(nodes['node11'])}\n" + "".join([*said, *warned]))


OWN_NAME = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "HYDRA_IFACE")


@pytest.mark.parametrize("name", NAMED)
def test_one_node_needs_no_network(name: str) -> None:
    assert choose.choose({"node11": machine(name)}, {"node11": "10.0.0.1"}) == ()


def test_the_facts_of_nodes_make_room_for_their_networks() -> None:
    reports = {name: parse("".join(f"fact {name} {line}\n" for line in lines("roce", 11))) for name in ("a", "b")}
    assert facts.of_nodes(reports) == dict.fromkeys(("a", "b"), machine("roce"))
    assert reports == {}


def test_one_network_is_named_to_what_looks_up_its_own_name(says: Says) -> None:
    """(F5, F10) Debian writes 127.0.1.1 for it, and other nodes may not know it. All else is left as it is."""
    found = two(node(1), node(2))
    assert {name: one.value for name, one in found.items()} == dict.fromkeys(OWN_NAME, "eth0")
    (why,) = {one.why for one in found.values()}
    says(why)
    assert list(two(node(1), node(2, "eth1"))) == list(OWN_NAME[:2])  # Hydra takes one name for all nodes


@pytest.mark.parametrize("addresses", [("10.77.0.1", "10.77.0.2"), ("", ""), ("10.77.0.1", "10.77.0.1")])
def test_decoys(addresses: tuple[str, str], says: Says) -> None:
    found = two(node(1, "eth0", "10.77.0", *decoys()), node(2, "eth0", "10.77.0", *decoys("down")), *addresses)
    assert {name: one.value for name, one in found.items()} == dict.fromkeys(
        (
            *("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "FI_TCP_IFACE", "UCX_NET_DEVICES"),
            *("HYDRA_IFACE", "OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_prte_if_include"),
        ),
        "eth0",
    )
    says(found["NCCL_SOCKET_IFNAME"].why)


def test_names_that_differ_between_nodes() -> None:
    """Open MPI takes the network for a name; the others are told each node's own."""
    found = two(node(1, "eno1", "10.77.0", *decoys()), node(2, "enp3s0", "10.77.0", *decoys()))
    assert found["OMPI_MCA_btl_tcp_if_include"].value == "10.77.0.0/24"
    assert (found["GLOO_SOCKET_IFNAME"].value, found["GLOO_SOCKET_IFNAME"].by_node) == ("eno1", {"n2": "enp3s0"})
    assert "HYDRA_IFACE" not in found


def test_data_goes_by_the_faster_network(says: Says) -> None:
    def with_ib(number: int, speed: str) -> NetworkFacts:
        ib = ("nic ib0 kind=ipoib state=up speed=100000", f"address ib0 10.1.0.{number}/16")
        return node(number, "eth0", "10.77.0", *ib, f"nic eth0 kind=physical state=up{speed}")

    found = two(with_ib(1, " speed=1000"), with_ib(2, " speed=1000"))
    assert found["NCCL_SOCKET_IFNAME"].value == found["OMPI_MCA_btl_tcp_if_include"].value == "ib0"
    says(found["NCCL_SOCKET_IFNAME"].why)
    assert found["PRTE_MCA_prte_if_include"].value == found["HYDRA_IFACE"].value == "eth0"
    assert two(with_ib(1, ""), with_ib(2, ""))["NCCL_SOCKET_IFNAME"].value == "eth0"


def test_a_name_that_begins_another() -> None:
    """NCCL takes names for beginnings, unless told."""
    vlan = ("nic eth0.7 kind=vlan state=up", "address eth0.7 10.7.0.1/24")
    found = two(node(1, "eth0", "10.77.0", *vlan), node(2, "eth0", "10.77.0", *vlan))
    assert found["NCCL_SOCKET_IFNAME"].value == "=eth0"
    assert found["GLOO_SOCKET_IFNAME"].value == "eth0"


def test_nodes_of_several_subnets(says: Says) -> None:
    way = ("route default via 10.77.0.254 dev eth0", *decoys())
    found = two(node(1, "eth0", "10.77.0", *way), node(2, "eth0", "10.78.0", *way), "10.77.0.1", "10.78.0.2")
    assert found["OMPI_MCA_btl_tcp_if_include"].value == "eth0"
    says(found["OMPI_MCA_btl_tcp_if_include"].why)


def test_no_common_network() -> None:
    assert two(node(1), node(2, "eth0", "10.78.0"), "", "") == {}


HCA = "hca mlx5_0 port=1 state=ACTIVE rate=100 link=InfiniBand driver=mlx5_core"
VERBS = "feature verbs"


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ((HCA.replace("ACTIVE", "DOWN"), VERBS), "n2 has no active InfiniBand or RoCE port"),
        ((HCA,), "n2 has no active InfiniBand or RoCE port"),  # /dev/infiniband is not there
        ((HCA.replace("InfiniBand", "Ethernet"), VERBS), "InfiniBand on some nodes and RoCE on others"),
    ],
)
def test_nodes_of_different_adapters(other: tuple[str, ...], why: str) -> None:
    """NCCL would mix them, and hang."""
    found = two(node(1, "eth0", "10.77.0", HCA, VERBS), node(2, "eth0", "10.77.0", *other))
    assert list(found) == [*OWN_NAME, "NCCL_IB_DISABLE"]
    assert found["NCCL_IB_DISABLE"].why.startswith(why)


def test_adapters_of_different_names() -> None:
    second = HCA.replace("mlx5_0", "mlx5_2")
    found = two(node(1, "eth0", "10.77.0", HCA, VERBS), node(2, "eth0", "10.77.0", second, VERBS))
    assert (found["NCCL_IB_HCA"].value, found["NCCL_IB_HCA"].by_node) == ("=mlx5_0:1", {"n2": "=mlx5_2:1"})


def test_what_is_not_understood_says_nothing() -> None:
    said = ["", "nic", "welcome to node01", "address eth0 fe80::1/64", "route unreachable dev", "gid x", "hca m id=?"]
    assert network([*said, "address eth0", "route 10.0.0.0/8 dev", "limit shm"]) == NetworkFacts()
    assert list(facts.too_small(network([HCA, VERBS, "limit memory ?", "limit memlock 1"]), 2)) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [("dgx1", "InfiniBand"), ("roce", "RoCE"), ("p4d", "EFA"), ("slingshot", "Slingshot"), ("laptop", "")],
)
def test_the_fast_transport(name: str, expected: str) -> None:
    assert facts.fast(machine(name)) == expected


def test_limits_matter_where_there_is_something_to_limit(says: Says) -> None:
    small = ["limit memlock 65536", "limit memory 64000000000", "limit nofile 1024", "limit shm 67108864"]
    assert list(facts.too_small(network(small), 2)) == []
    gpus = [*small, "gpu 0000:01:00.0", "gpu 0000:02:00.0"]
    for line in facts.too_small(network(gpus), 1):
        says(line)
    (locked, *_) = facts.too_small(network([*small, HCA, VERBS]), 2, wording.LIMITS)
    says(locked)
    (locked, *_) = facts.too_small(network([*small, HCA, VERBS]), 2)
    says(locked)
    assert list(facts.too_small(network([*small, HCA, VERBS]), 1)) == []


# Of a job

ADDRESSES = {"n1": "10.77.0.1", "n2": "10.77.0.2"}
SAID = {
    name: network([*PLAIN, f"address eth0 10.77.0.{number}/24", "route 10.77.0.0/24 dev eth0", *decoys()])
    for number, name in ((1, "n1"), (2, "n2"))
}


@pytest.mark.parametrize(
    ("given", "without"),
    [
        ({}, set()),
        (
            {"env": (Variable("HYDRA_IFACE", "ib0"), Variable("NCCL_SOCKET_IFNAME", None))},
            {"HYDRA_IFACE", "NCCL_SOCKET_IFNAME"},
        ),
        ({"env": (Variable("OMPI_MCA_btl_tcp_if_exclude", "lo"),)}, {"OMPI_MCA_btl_tcp_if_include"}),
        ({"mpi_args": ("--mca", "btl_tcp_if_exclude", "lo")}, {*choose._OPENMPI_DATA, *choose._OPENMPI_CONTROL}),
    ],
)
def test_what_a_job_says_itself_is_not_chosen(given: Any, without: set[str]) -> None:
    every = {one.name for one in choose.of_job(job_spec(), SAID, ADDRESSES)}
    assert len(every) == 9
    assert {one.name for one in choose.of_job(job_spec(**given), SAID, ADDRESSES)} == every - without


def test_a_name_that_a_node_lacks(cases: Cases) -> None:
    said = {"n1": network([*PLAIN, HCA, VERBS]), "n2": network(PLAIN)}

    def warnings(variable: str) -> str:
        name, _, value = variable.partition("=")
        found = choose.warnings(job_spec(env=(Variable(name, value, why="profile c"),)), said, wording.LIMITS)
        return "; ".join(line for line in found if name in line)

    cases(warnings)


def test_nothing_is_chosen_where_it_is_off_or_a_node_is_silent() -> None:
    assert choose.of_job(job_spec(fabric="off"), SAID, ADDRESSES) == ()
    assert choose.of_job(job_spec(), {"n1": SAID["n1"]}, ADDRESSES) == ()


def test_a_line_for_each_reason() -> None:
    one, other = Choice("A", "1", "so"), Choice("B", "1", "so")
    assert choose.reasons([one, other, Choice("C", "1", "for", {"n2": "2"})]) == ["A, B = 1: so", "C = 1, 2 on n2: for"]


def test_warnings_of_all_nodes(says: Says) -> None:
    said = {name: network(["limit shm 1024", "gpu 0000:01:00.0", "gpu 0000:02:00.0"]) for name in ("n1", "n2")}
    (line,) = choose.warnings(job_spec(), said, wording.LIMITS)
    says(line)


# The wrapper


def test_the_wrapper_on_a_tree(sh: Shell, tmp_path: Path) -> None:
    way = "sys/devices/pci0000:00/0000:00:02.0"
    texts = {
        "sys/class/net/ib0/uevent": "INTERFACE=ib0",
        "sys/class/net/ib0/type": "32",
        "sys/class/net/ib0/operstate": "up",
        "sys/class/net/ib0/speed": "100000",
        "sys/class/net/br0/uevent": "DEVTYPE=bridge",
        "sys/class/net/br0/operstate": "up",
        "sys/class/net/br0/lower_ib0/x": "",
        f"{way}/0000:05:00.0/numa_node": "0",
        f"{way}/0000:05:00.0/device": "0x1013",
        f"{way}/0000:05:00.0/net/ib0/x": "",
        f"{way}/0000:06:00.0/numa_node": "0",
        "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE",
        "sys/class/infiniband/mlx5_0/ports/1/rate": "100 Gb/sec (4X EDR)",
        "sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand",
        "sys/class/infiniband/mlx5_1/ports/1/state": "1: DOWN",
        "sys/class/infiniband/mlx5_1/ports/1/link_layer": "Ethernet",
        "sys/class/infiniband/cxgb4_0/ports/1/state": "4: ACTIVE",
        "sys/class/infiniband/cxgb4_0/ports/1/link_layer": "Ethernet",
        "sys/class/infiniband/cxgb4_0/node_type": "4: RNIC",
        "sys/class/infiniband/mlx5_1/ports/1/gids/0": "0000:0000:0000:0000:0000:0000:0000:0000",
        "sys/class/infiniband/mlx5_1/ports/1/gids/3": "0000:0000:0000:0000:0000:ffff:0a4d:0001",
        "sys/class/infiniband/mlx5_1/ports/1/gid_attrs/types/3": "RoCE v2",
        "sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/3": "bond0",
        "proc/driver/nvidia/gpus/0000:06:00.0/information": "",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.1",
        "sys/module/nvidia_peermem/refcnt": "0",
        "dev/infiniband/uverbs0": "",
        "dev/gdrdrv": "",
        "proc/self/mountinfo": "25 1 0:23 / /dev/shm rw - tmpfs a rw,size=64k\n30 1 0:9 / /run rw - tmpfs b rw,size=8k",
        "proc/sys/kernel/osrelease": "6.1.0",
        "proc/self/limits": "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         8192 unlimited bytes\n",
        "proc/meminfo": "MemTotal: 4 kB",
    }
    for name, text in texts.items():
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{text}\n")
    for link, target in {
        "sys/class/net/ib0/device": f"{way}/0000:05:00.0",
        "sys/class/infiniband/mlx5_0/device": f"{way}/0000:05:00.0",
        "sys/bus/pci/devices/0000:06:00.0": f"{way}/0000:06:00.0",
    }.items():
        (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / link).symlink_to(tmp_path / target)
    wrapper = str(wrappers()["network_facts.sh"])
    said = sh('exec bash -p "$@" 2>&1', wrapper, str(tmp_path)).decode().splitlines()
    slot = "numa=0 pci=pci0000:00/0000:00:02.0"
    ours = [line for line in said if not line.startswith(("address", "route"))]
    assert ours == [
        "nic br0 kind=bridge state=up lower=ib0",
        f"nic ib0 kind=ipoib state=up speed=100000 {slot}/0000:05:00.0",
        "hca cxgb4_0 port=1 state=ACTIVE link=iWARP",
        f"hca mlx5_0 port=1 state=ACTIVE rate=100 link=InfiniBand id=0x1013 nics=ib0 {slot}/0000:05:00.0",
        "hca mlx5_1 port=1 state=DOWN link=Ethernet",
        "gid mlx5_1 port=1 index=3 gid=0000:0000:0000:0000:0000:ffff:0a4d:0001 type=v2 ndev=bond0",
        f"gpu 0000:06:00.0 {slot}/0000:06:00.0",
        "feature verbs",
        "feature gdrcopy",
        "feature peermem",
        "feature dmabuf",
        "kernel release 6.1.0",
        "limit memlock unlimited",
        "limit memory 4096",
        "limit shm 65536",
    ]
    (tmp_path / "proc/self/mountinfo").write_text("25 1 0:23 / /dev/shm rw,nosuid - tmpfs tmpfs rw,inode64\n")
    said = sh('exec bash -p "$@" 2>&1', wrapper, str(tmp_path)).decode().splitlines()
    assert said[-1] == "limit shm 2048", "without a size, half of the memory"
