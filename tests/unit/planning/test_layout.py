"""How many ranks go where: one table of requests and jobs, and the whole text of every refusal."""

from __future__ import annotations

import pytest

from mnrun.errors import Impossible, UsageError
from mnrun.jobspec import JobSpec
from mnrun.model import Allocation, Layout, Node
from mnrun.planning.layout import lay_out, share_gpus, size
from unit.samples import build, held, job_spec, recorded


def ask(**wanted: object) -> JobSpec:
    return job_spec(**wanted, origins=dict.fromkeys(wanted, "command line"))


FOUR = ("node01", "node02", "node03", "node04")
PLAIN = held(*FOUR)
GPUS = held(*FOUR, gpus=2)
UNEVEN = Allocation("slurm", "7", (Node("node01", 8, 4), Node("node02", 8, 2), Node("node03", 8, 1)))
MIXED = Allocation("slurm", "7", (Node("node01", 8, 4), Node("node02", 2, 1), Node("node03", 2, 1)))


@pytest.mark.parametrize(
    ("wanted", "allocation", "ranks", "why"),
    [
        pytest.param({}, PLAIN, (1, 1, 1, 1), "one per node", id="nothing asked"),
        pytest.param({"ntasks": 8}, PLAIN, (2, 2, 2, 2), "--ntasks (command line)", id="even"),
        pytest.param({"ntasks": 7}, PLAIN, (2, 2, 2, 1), "--ntasks (command line)", id="uneven"),
        pytest.param({"ntasks": 5}, PLAIN, (2, 1, 1, 1), "--ntasks (command line)", id="one over"),
        pytest.param({"ntasks": 32}, PLAIN, (8, 8, 8, 8), "--ntasks (command line)", id="full"),
        pytest.param({"ntasks_per_node": 3}, PLAIN, (3, 3, 3, 3), "--ntasks-per-node (command line)", id="each"),
        pytest.param(
            {"ntasks_per_node": 4, "ntasks": 14}, PLAIN, (4, 4, 3, 3), "--ntasks (command line)", id="at most"
        ),
        pytest.param({"ntasks": 8, "cpus_per_task": 4}, PLAIN, (2, 2, 2, 2), "--ntasks (command line)", id="threads"),
        pytest.param({}, held(*FOUR, ntasks=7), (2, 2, 2, 1), "job 7 asked for 7 tasks", id="the job's tasks"),
        pytest.param({}, held(*FOUR, each=3), (3, 3, 3, 3), "job 7 asked for 3 on each node", id="the job's each"),
        pytest.param(
            {},
            held(*FOUR, ntasks=10, each=3),
            (3, 3, 2, 2),
            "job 7 asked for 10 tasks",
            id="at most the job's each",
        ),
        pytest.param(
            {"nodes": 2},
            held(*FOUR, ntasks=10, each=3),
            (3, 3),
            "job 7 asked for 3 on each node",
            id="a subset's each",
        ),
        pytest.param({"ntasks": 4}, held(*FOUR, ntasks=7), (1, 1, 1, 1), "--ntasks (command line)", id="asked wins"),
        pytest.param({}, GPUS, (2, 2, 2, 2), "one per GPU (2 on each node)", id="GPUs held"),
        pytest.param({}, MIXED, (4, 1, 1), "one per GPU (1, 4 on each node)", id="GPUs mixed"),
        pytest.param({}, UNEVEN, (4, 2, 1), "one per GPU (1, 2, 4 on each node)", id="GPUs uneven"),
        pytest.param({"mode": "outside-in"}, MIXED, (4, 1, 1), "one per GPU (1, 4 on each node)", id="daemons' even"),
        pytest.param(
            {"mode": "outside-in", "launcher": "srun"},
            UNEVEN,
            (4, 2, 1),
            "one per GPU (1, 2, 4 on each node)",
            id="srun",
        ),
        pytest.param(
            {}, held(*FOUR, gpus=2, ntasks=4), (1, 1, 1, 1), "job 7 asked for 4 tasks", id="tasks before GPUs"
        ),
        pytest.param({"gpus_per_node": "a100:1"}, GPUS, (1, 1, 1, 1), "one per GPU (1 on each node)", id="GPUs asked"),
        pytest.param({"gres": "tmp:1,gpu:2"}, GPUS, (2, 2, 2, 2), "one per GPU (2 on each node)", id="gres"),
        pytest.param({}, held("node01", cpus=2, gpus=4), (4,), "one per GPU (4 on each node)", id="GPUs above CPUs"),
        pytest.param({"ntasks": 8}, MIXED, (4, 2, 2), "--ntasks (command line)", id="room of each node"),
        pytest.param({"ntasks": 12}, MIXED, (8, 2, 2), "--ntasks (command line)", id="one node takes the rest"),
        pytest.param({"ntasks": 64, "force": True}, PLAIN, (16, 16, 16, 16), "--ntasks (command line)", id="forced"),
        pytest.param(
            {"ntasks_per_node": 9, "force": True},
            PLAIN,
            (9, 9, 9, 9),
            "--ntasks-per-node (command line)",
            id="forced each",
        ),
    ],
)
def test_ranks(wanted: dict[str, object], allocation: Allocation, ranks: tuple[int, ...], why: str) -> None:
    """As asked; else the job's tasks; else one per GPU; else one per node. The first nodes take what is over."""
    layout = lay_out(ask(**wanted), allocation)
    assert (layout.ranks, layout.why_ranks) == (ranks, why)
    assert len(layout.nodes) == len(ranks)
    assert layout.ntasks == sum(ranks)


@pytest.mark.parametrize(
    ("wanted", "nodes", "why"),
    [
        ({}, FOUR, "all of slurm job 7"),
        ({"nodes": 4}, FOUR, "all of slurm job 7"),
        ({"nodes": 2}, FOUR[:2], "--nodes 2: the first of 4"),
        ({"nodes": 1}, FOUR[:1], "--nodes 1: the first of 4"),
        ({"nodelist": "node[03-04]"}, ("node03", "node04"), "--nodelist"),
        ({"nodelist": "node04,node02"}, ("node04", "node02"), "--nodelist"),
        ({"nodelist": "node[02-04]", "nodes": 2}, ("node02", "node03"), "--nodes 2: the first of 3"),
        ({"exclude": "node01"}, FOUR[1:], "all of slurm job 7, less --exclude"),
        ({"exclude": "node99"}, FOUR, "all of slurm job 7, less --exclude"),
        ({"nodelist": "node03", "nodes": 2}, ("node03", "node01"), "--nodelist"),
        (
            {"nodelist": "node03", "nodes": 3, "exclude": "node01"},
            ("node03", "node02", "node04"),
            "--nodelist, less --exclude",
        ),
        ({"nodelist": "node[01-03]", "exclude": "node02"}, ("node01", "node03"), "--nodelist, less --exclude"),
        ({"ntasks": 3}, FOUR[:3], "all of slurm job 7, as many as there are ranks"),
        ({"ntasks": 1}, FOUR[:1], "all of slurm job 7, as many as there are ranks"),
    ],
)
def test_nodes(wanted: dict[str, object], nodes: tuple[str, ...], why: str) -> None:
    """All that are held, in the scheduler's order, unless fewer or others are asked for."""
    layout = lay_out(ask(**wanted), PLAIN)
    assert (layout.nodes, layout.why_nodes) == (nodes, why)


@pytest.mark.parametrize(
    ("cpus", "gpus", "tasks", "each", "wanted", "ranks"),
    [
        ((10, 6), (5, 3), 8, 2, {}, (5, 3)),
        ((128, 72), (0, 0), 100, 2, {}, (64, 36)),
        ((10, 6), (0, 0), 8, None, {}, (4, 4)),
        ((10, 6), (0, 0), 8, 2, {"ntasks": 16}, (10, 6)),
        ((10, 6), (0, 0), 8, 2, {"ntasks_per_node": 4}, (4, 4)),
    ],
)
def test_the_jobs_tasks_are_where_their_cpus_are(
    cpus: tuple[int, int], gpus: tuple[int, int], tasks: int, each: int, wanted: dict[str, int], ranks: tuple[int, int]
) -> None:
    """`salloc -n 8 -c 2`: Slurm has granted ten CPUs on one node and six on the other, and the GPUs likewise."""
    nodes = tuple(Node(f"node0{n + 1}", cpus[n], gpus[n]) for n in range(2))
    assert lay_out(ask(**wanted), Allocation("slurm", "7", nodes, tasks, None, each)).ranks == ranks


def test_a_subset_does_not_inherit_the_jobs_tasks() -> None:
    """`salloc -N4 -n8` and `mnrun -N2`: eight ranks were meant for four nodes."""
    layout = lay_out(ask(nodes=2), held(*FOUR, ntasks=8))
    assert (layout.ranks, layout.why_ranks) == ((1, 1), "one per node")


def test_a_subset_keeps_what_the_job_asked_for_on_each_node() -> None:
    """`salloc -N4 --ntasks-per-node=2` and `mnrun -N2`: two on each of the two."""
    assert lay_out(ask(nodes=2), held(*FOUR, each=2)).ranks == (2, 2)


def test_this_machine() -> None:
    """Without a scheduler the layout says so."""
    layout = lay_out(ask(ntasks=2), Allocation("local", "local", (Node("here", 4, 0),)))
    assert layout == Layout(("here",), (2,), "--ntasks (command line)", "this machine")


@pytest.mark.parametrize(
    ("wanted", "allocation", "kind", "said"),
    [
        (
            {"ntasks": 33},
            PLAIN,
            Impossible,
            "33 ranks do not fit into 32 slots (4 nodes x 8 CPUs); "
            "ask for fewer ranks, more CPUs or more nodes, or oversubscribe with --force",
        ),
        (
            {"ntasks": 13},
            MIXED,
            Impossible,
            "13 ranks do not fit into 12 slots (3 nodes x 2-8 CPUs); "
            "ask for fewer ranks, more CPUs or more nodes, or oversubscribe with --force",
        ),
        (
            {"ntasks": 33, "cpus_per_task": 1},
            PLAIN,
            Impossible,
            "33 ranks do not fit into 32 slots (4 nodes x 8 CPUs, 1 CPU a rank); "
            "ask for fewer ranks, more CPUs or more nodes, or oversubscribe with --force",
        ),
        (
            {"ntasks": 9, "cpus_per_task": 4},
            PLAIN,
            Impossible,
            "9 ranks do not fit into 8 slots (4 nodes x 8 CPUs, 4 CPUs a rank); "
            "ask for fewer ranks, more CPUs or more nodes, or oversubscribe with --force",
        ),
        (
            {"ntasks": 9, "ntasks_per_node": 2},
            PLAIN,
            Impossible,
            "9 ranks do not fit into 8 slots (4 nodes x 8 CPUs); "
            "ask for fewer ranks, more CPUs or more nodes, or oversubscribe with --force",
        ),
        (
            {"nodes": 8},
            PLAIN,
            Impossible,
            "--nodes 8, but there are 4 (node[01-04]); "
            "write --nodes 4, or for 8 ranks on each node --ntasks-per-node 8",
        ),
        (
            {"nodes": 2},
            Allocation("local", "local", (Node("here", 4, 0),)),
            Impossible,
            "--nodes 2, but without a scheduler this machine is the only node; "
            "go to a login node, or name machines with --hosts; for 2 ranks here write -n 2",
        ),
        (
            {"nodes": 4, "ntasks": 3},
            PLAIN,
            UsageError,
            "3 ranks cannot run on 4 nodes; ask for --nodes 3 or for more ranks",
        ),
        (
            {"nodelist": "node[04-06]"},
            PLAIN,
            Impossible,
            "--nodelist names node[05-06], which this job does not have; its nodes are node[01-04]",
        ),
        (
            {"exclude": "node[01-04]", "nodes": 2},
            PLAIN,
            Impossible,
            "--exclude leaves no node; the job has node[01-04]",
        ),
        (
            {"mode": "outside-in", "launcher": "mpirun"},
            UNEVEN,
            Impossible,
            "the host's mpirun cannot have different numbers of GPUs on its nodes (node01: 4, node02: 2, node03: 1); "
            "use --launcher srun, --mode inside-out, or the same number on each node: --gpus-per-node",
        ),
        (
            {"nodelist": "node[1"},
            PLAIN,
            UsageError,
            "'node[1' is not a list of nodes (missing bracket: \"node[1\"); write node[01-04,7] or a,b,c",
        ),
    ],
)
def test_what_does_not_fit(wanted: dict[str, object], allocation: Allocation, kind: type[Exception], said: str) -> None:
    """The line has the numbers that were asked for, those that are there, and a way out."""
    with pytest.raises(kind) as wrong:
        lay_out(ask(**wanted), allocation)
    assert str(wrong.value) == said


@pytest.mark.parametrize(
    ("wanted", "ranks", "why"),
    [
        ({}, (1,), "one per node"),
        ({"nodes": 3}, (1, 1, 1), "one per node"),
        ({"nodes": 2, "ntasks": 3}, (2, 1), "--ntasks (command line)"),
        ({"ntasks": 8}, (8,), "--ntasks (command line)"),
        ({"ntasks": 7, "ntasks_per_node": 4}, (4, 3), "--ntasks (command line)"),
        ({"nodes": 2, "ntasks_per_node": 4}, (4, 4), "--ntasks-per-node (command line)"),
        ({"nodes": 2, "gpus_per_node": "4"}, (4, 4), "one per GPU asked for"),
        ({"nodes": 2, "gpus_per_node": "a100:3,h100:1"}, (4, 4), "one per GPU asked for"),
        ({"nodes": 2, "gres": "gpu:a100:3,nvme:2,gpu:h100"}, (4, 4), "one per GPU asked for"),
        ({"nodes": 2, "gres": "gpu:a100:2"}, (2, 2), "one per GPU asked for"),
        ({"nodes": 2, "gres": "gpu"}, (1, 1), "one per GPU asked for"),
        ({"ntasks": 6, "gpus_per_node": "4"}, (3, 3), "--ntasks (command line)"),
    ],
)
def test_on_paper(wanted: dict[str, object], ranks: tuple[int, ...], why: str) -> None:
    """A plan can be made before anyone holds nodes: no names, the same rules."""
    layout = lay_out(ask(**wanted), None)
    assert (layout.nodes, layout.ranks, layout.why_ranks) == ((), ranks, why)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"nodes": 4, "ntasks": 3}, "3 ranks cannot run on 4 nodes; ask for --nodes 3 or for more ranks"),
        (
            {"nodes": 2, "ntasks": 9, "ntasks_per_node": 4},
            "9 ranks do not fit on 2 nodes with --ntasks-per-node 4",
        ),
    ],
)
def test_on_paper_what_contradicts_itself(wanted: dict[str, object], said: str) -> None:
    """A contradiction needs no cluster to be one."""
    with pytest.raises(UsageError) as wrong:
        lay_out(ask(**wanted), None)
    assert str(wrong.value) == said


@pytest.mark.parametrize(
    ("job", "ranks", "why"),
    [
        ("plain", (1, 1, 1, 1), "one per node"),
        ("tasks", (4, 1, 1, 1), "job 83 asked for 7 tasks"),
        ("tasks_per_node", (3, 3), "job 84 asked for 3 on each node"),
        ("gpus_per_node", (2, 2, 2, 2), "one per GPU (2 on each node)"),
        ("gpus_per_task", (4, 1), "job 86 asked for 5 tasks"),
        ("gpus_total", (3, 1, 1), "one per GPU (1, 3 on each node)"),
        ("exclusive", (4, 4), "one per GPU (4 on each node)"),
        ("sbatch", (2, 1), "job 96 asked for 3 tasks"),
        ("interactive", (3, 1), "job 97 asked for 4 tasks"),
    ],
)
def test_in_real_jobs(job: str, ranks: tuple[int, ...], why: str) -> None:
    """The jobs recorded on a real cluster, asked for nothing more: what salloc was told is what runs."""
    from mnrun.schedulers.slurm import scontrol

    layout = lay_out(job_spec(), scontrol.allocation(*recorded(job)))
    assert (layout.ranks, layout.why_ranks) == (ranks, why)


# What `srun --nodes=N --ntasks=K --relative=0 hostname` gave in jobs with so many CPUs on their nodes.
SRUN: dict[tuple[int, ...], dict[int, tuple[int, ...]]] = {
    (8, 3, 1): {
        3: (1, 1, 1),
        4: (2, 1, 1),
        5: (2, 2, 1),
        6: (3, 2, 1),
        7: (3, 3, 1),
        8: (4, 3, 1),
        9: (5, 3, 1),
        10: (6, 3, 1),
        11: (7, 3, 1),
        12: (8, 3, 1),
    },
    (8, 8, 3, 1): {
        4: (1, 1, 1, 1),
        5: (2, 1, 1, 1),
        6: (2, 2, 1, 1),
        7: (2, 2, 2, 1),
        8: (3, 2, 2, 1),
        9: (3, 3, 2, 1),
        10: (3, 3, 3, 1),
        11: (4, 3, 3, 1),
        12: (4, 4, 3, 1),
        13: (5, 4, 3, 1),
        14: (5, 5, 3, 1),
        15: (6, 5, 3, 1),
        16: (6, 6, 3, 1),
        17: (7, 6, 3, 1),
        18: (7, 7, 3, 1),
        19: (8, 7, 3, 1),
        20: (8, 8, 3, 1),
    },
}


@pytest.mark.parametrize("cpus", SRUN, ids=str)
def test_ranks_are_spread_as_srun_spreads_them(cpus: tuple[int, ...]) -> None:
    """Round by round, one for each node that still has room, so that no node has two more than another with room."""
    allocation = Allocation("slurm", "7", tuple(Node(f"node{place}", count) for place, count in enumerate(cpus)))
    spread = {ntasks: lay_out(ask(ntasks=ntasks), allocation).ranks for ntasks in SRUN[cpus]}
    assert spread == SRUN[cpus]


@pytest.mark.parametrize("ntasks", [4, 5, 11, 14, 29, 30, 39, 40])
def test_no_rank_is_lost_and_no_node_is_empty(ntasks: int) -> None:
    """Whatever the room of the nodes: all ranks, at least one on each, none above its room."""
    cpus = (16, 3, 9, 12)
    nodes = tuple(Node(f"node{place}", count) for place, count in enumerate(cpus))
    ranks = lay_out(ask(ntasks=ntasks), Allocation("slurm", "7", nodes)).ranks
    assert sum(ranks) == ntasks
    assert all(1 <= count <= room for count, room in zip(ranks, cpus))


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
    """On paper as in a job."""
    assert lay_out(ask(nodelist="node[01-04]"), None).nnodes == 4
    assert lay_out(ask(nodelist="node[01-04]", nodes=2), None).nnodes == 2


@pytest.mark.parametrize("wanted", [{"nodes": 10**9}, {"ntasks": 10**9}, {"nodes": 10**6, "ntasks_per_node": 10**6}])
@pytest.mark.parametrize("where", [None, held("node01", "node02")])
def test_more_than_anyone_has(wanted: dict[str, int], where: Allocation | None) -> None:
    """Is refused before it is counted out."""
    with pytest.raises((UsageError, Impossible)):
        lay_out(ask(**wanted, force=True), where)


def test_gpus_in_all_are_shared_by_the_nodes_that_the_ranks_need() -> None:
    """8 ranks, 4 on each node: two nodes, and so 4 GPUs on each."""
    shared = share_gpus(ask(gpus="8", ntasks=8, ntasks_per_node=4))
    assert (shared.resources.gpus_per_node, lay_out(shared, None).nnodes) == ("4", 2)


def test_gpus_in_all_are_so_many_on_each_node() -> None:
    """Steps say how many there are on a node, before Slurm has spread them; what was asked for is not lost."""
    job = share_gpus(build("./app", nodes="2", gpus="a100:8"))
    assert (job.resources.gpus, job.resources.gpus_per_node) == ("", "a100:4")
    assert job.origins["gpus_per_node"].text == "--gpus a100:8 (command line) on 2 nodes"
    assert lay_out(job, None).ranks == (4, 4)
    assert share_gpus(build("./app", gpus="2")).resources.gpus_per_node == "2"
    plain = build("./app", nodes="2")
    assert share_gpus(plain) is plain
    for nodes, gpus in (("2", "3"), ("4", "2")):
        with pytest.raises(Impossible, match="cannot be divided evenly"):
            share_gpus(build("./app", nodes=nodes, gpus=gpus))


def test_gpus_that_are_hidden_make_no_ranks() -> None:
    """One rank per node, as where there are none."""
    laid = lay_out(build("./app", no_gpu=True), held("node01", "node02", gpus=4))
    assert (laid.ranks, laid.why_ranks) == ((1, 1), "one per node")
