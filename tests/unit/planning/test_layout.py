"""How many ranks go where: one table of requests and jobs, and the whole text of every refusal."""

from __future__ import annotations

import pytest

from mnrun.errors import Impossible, UsageError
from mnrun.jobspec import JobSpec
from mnrun.model import Allocation, Layout, Node
from mnrun.planning import plan
from mnrun.planning.layout import lay_out, share_gpus, size
from mnrun.schedulers.hosts import names
from unit.cases import Cases, given
from unit.samples import build, held, job_spec
from unit.texts import Refused


def ask(**wanted: object) -> JobSpec:
    return job_spec(**wanted, origins=dict.fromkeys(wanted, "command line"))


def inside(hosts: str, **wanted: object) -> JobSpec:
    spec = ask(**wanted)
    return spec._replace(hosts=spec.hosts._replace(named=names.parse(hosts), in_job=True))


FOUR = ("node01", "node02", "node03", "node04")
PLAIN = held(*FOUR)
GPUS = held(*FOUR, gpus=2)
UNEVEN = Allocation("slurm", "7", (Node("node01", 8, 4), Node("node02", 8, 2), Node("node03", 8, 1)))
MIXED = Allocation("slurm", "7", (Node("node01", 8, 4), Node("node02", 2, 1), Node("node03", 2, 1)))


def allocation(text: str) -> Allocation:
    """Return the job of `CPUS:GPUS` of each node, with its own request: `8:0 8:0 ntasks=7 each=3 cpus=2`."""
    asked = {name: int(value) for name, equals, value in (word.partition("=") for word in text.split()) if equals}
    sizes = [tuple(map(int, word.split(":"))) for word in text.split() if ":" in word]
    nodes = tuple(Node(f"node{number:02}", *size) for number, size in enumerate(sizes, 1))
    where = ("local", "local") if "local" in text else ("slurm", "7")
    return Allocation(*where, nodes, asked.get("ntasks"), asked.get("each"), asked.get("cpus"))


def test_layouts(cases: Cases) -> None:
    """What is asked for, and the job: `CPUS:GPUS` of each node, and its own request. On paper there are no nodes."""

    def laid(wanted: str, job: str) -> tuple[object, ...]:
        spec = build("./app", **given(wanted))
        found = lay_out(spec, allocation(job) if job else None)
        if job:
            assert (len(found.nodes), found.ntasks) == (len(found.ranks), sum(found.ranks))
            plan.make(spec, found, "7-abcdef")
        nodes = f"{','.join(found.nodes)} ({found.why_nodes})"
        return (*([nodes] if job else []), f"{' '.join(map(str, found.ranks))} ({found.why_ranks})")

    cases(laid)


@pytest.mark.parametrize(
    ("hosts", "wanted", "nodes", "ranks"),
    [
        ("node03:3,node01:1", {}, ("node03", "node01"), (3, 1)),
        ("node03,node01", {}, ("node03", "node01"), (1, 1)),
        ("node03:3,node01:1", {"ntasks": 3}, ("node03", "node01"), (2, 1)),
        ("node[01-02].site", {"ntasks_per_node": 2}, ("node01", "node02"), (2, 2)),
        ("node01:9", {"force": True}, ("node01",), (9,)),
    ],
)
def test_nodes_of_the_job_by_hosts(
    hosts: str, wanted: dict[str, int], nodes: tuple[str, ...], ranks: tuple[int, ...]
) -> None:
    layout = lay_out(inside(hosts, **wanted), PLAIN)
    assert (layout.nodes, layout.ranks, layout.why_nodes) == (nodes, ranks, "as named")


@pytest.mark.parametrize(("hosts", "wanted"), [("node05", {}), ("node01:9", {}), ("node01:5", {"cpus_per_task": 2})])
def test_nodes_that_the_job_does_not_have(hosts: str, wanted: dict[str, int], refused: Refused) -> None:
    with refused(Impossible):
        lay_out(inside(hosts, **wanted), PLAIN)


def test_this_machine() -> None:
    layout = lay_out(ask(ntasks=2), Allocation("local", "local", (Node("here", 4, 0),)))
    assert layout == Layout(("here",), (2,), "--ntasks (command line)", "this machine", gpus=(0,), cpus=(4,))


@pytest.mark.parametrize(("cpus", "overcommits"), [(8, False), (1, True)])
def test_more_ranks_than_cpus(cpus: int, overcommits: bool) -> None:
    """srun must be told, or it refuses the step."""
    assert lay_out(ask(ntasks=3, force=True), held("node01", "node02", cpus=cpus)).overcommit == overcommits


@pytest.mark.parametrize(("allocation", "binding"), [(PLAIN, ""), (GPUS, "none")])
def test_ranks_with_gpus_are_bound_to_no_core(allocation: Allocation, binding: str) -> None:
    spec = build("./app")
    assert plan.make(spec, lay_out(spec, allocation), "7-abcdef").spec.start.bind_to == binding


# Ranks of each node that `srun --nodes=N --ntasks=K --relative=0 hostname` gave for each K, by the CPUs of the nodes.
SRUN = {
    (8, 3, 1): "111 211 221 321 331 431 531 631 731 831",
    (8, 8, 3, 1): "1111 2111 2211 2221 3221 3321 3331 4331 4431 5431 5531 6531 6631 7631 7731 8731 8831",
}


@pytest.mark.parametrize("cpus", SRUN, ids=str)
def test_ranks_are_spread_as_srun_spreads_them(cpus: tuple[int, ...]) -> None:
    """Round by round, one for each node that still has room, so that no node has two more than another with room."""
    allocation = Allocation("slurm", "7", tuple(Node(f"node{place}", count) for place, count in enumerate(cpus)))
    for expected in SRUN[cpus].split():
        ranks = tuple(map(int, expected))
        assert lay_out(ask(ntasks=sum(ranks)), allocation).ranks == ranks


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ((1,), "1 node x 1 rank"),
        ((2, 2), "2 nodes x 2 ranks"),
        ((3, 1), "2 nodes x 3 + 1 ranks"),
        ((3, 3, 3, 2, 2), "5 nodes x 2-3 ranks"),
    ],
)
def test_a_layout_in_words(ranks: tuple[int, ...], words: str) -> None:
    assert size(Layout((), ranks, "", "")) == words


def test_nodes_by_name_are_as_many_as_they_are() -> None:
    assert lay_out(ask(nodelist="node[01-04]"), None).nnodes == 4
    assert lay_out(ask(nodelist="node[01-04]", nodes=2), None).nnodes == 2


@pytest.mark.parametrize("wanted", [{"nodes": 10**9}, {"ntasks": 10**9}, {"nodes": 10**6, "ntasks_per_node": 10**6}])
@pytest.mark.parametrize("where", [None, held("node01", "node02")])
def test_more_than_anyone_has(wanted: dict[str, int], where: Allocation | None) -> None:
    with pytest.raises((UsageError, Impossible)):
        lay_out(ask(**wanted, force=True), where)


def test_gpus_in_all_are_shared_by_the_nodes_that_the_ranks_need() -> None:
    shared = share_gpus(ask(gpus="8", ntasks=8, ntasks_per_node=4))
    assert (shared.resources.gpus_per_node, lay_out(shared, None).nnodes) == ("4", 2)


def test_gpus_in_all_are_so_many_on_each_node(refused: Refused) -> None:
    """Steps say how many there are on a node, before Slurm has spread them; what was asked for is not lost."""
    job = share_gpus(build("./app", nodes="2", gpus="a100:8"))
    assert (job.resources.gpus, job.resources.gpus_per_node) == ("", "a100:4")
    assert job.origins["gpus_per_node"].text == "--gpus a100:8 (command line) on 2 nodes"
    assert lay_out(job, None).ranks == (4, 4)
    assert share_gpus(build("./app", gpus="2")).resources.gpus_per_node == "2"
    plain = build("./app", nodes="2")
    assert share_gpus(plain) is plain
    for nodes, gpus in (("2", "3"), ("4", "2")):
        with refused(Impossible):
            share_gpus(build("./app", nodes=nodes, gpus=gpus))


def test_gpus_that_are_hidden_make_no_ranks() -> None:
    laid = lay_out(build("./app", no_gpu=True), held("node01", "node02", gpus=4))
    assert (laid.ranks, laid.why_ranks) == ((1, 1), "one per node")
