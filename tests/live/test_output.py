"""Output with labels or in one file, and GPUs that are hidden or shared out."""

from __future__ import annotations

import re

import pytest

from .batch import forget
from .cells import HELLO, INSIDE, MAIN, MPIRUN, OMPI5, SRUN, Way, one, turn
from .reports import check, mine, refusal
from .stage import Cluster, Desk

SAYS = 'echo a; printf "b c"; echo oops >&2'
ALONE = [f"{rank}: {line}" for rank in range(4) for line in ("a", "b c")]


def by_rank(text: str) -> list[str]:
    return sorted((line for line in text.splitlines() if re.match(r"\d: ", line)), key=lambda line: line[0])


@pytest.mark.parametrize("way", turn(1, [*MAIN, Way("inside", "mpich")], [Way("inside", "mpich")], MAIN), ids=str)
def test_labels(cluster: Cluster, way: Way) -> None:
    line = f"{'' if way.image == 'mpich' else 'sleep 600 & '}{SAYS}"
    result = cluster.mnrun("-l", *way.words, "--", "sh", "-c", line, nodes=2)
    assert result.code == 0, result
    assert (by_rank(result.out), by_rank(result.err)) == (ALONE, [f"{rank}: oops" for rank in range(4)]), result


def test_labels_of_a_batch_job(cluster: Cluster, desk: Desk) -> None:
    words = ["mnrun", "submit", "-o", "out", "-N2", "--ntasks-per-node=2", "--image", OMPI5, "--wait", "--label"]
    assert cluster.alice([*words, "--", "sh", "-c", SAYS], cwd=desk.path).code == 0
    said = by_rank(desk.read("out").decode())
    assert sorted(said) == sorted([*ALONE, *(f"{rank}: oops" for rank in range(4))])
    forget(cluster)


STARTS = {
    "inside": INSIDE.words,
    "mpirun": MPIRUN.words,
    "srun": SRUN.words,
    "label": [*INSIDE.words, "--label"],
    "hosts": ["--hosts", "node01,node02", *INSIDE.words],
    "local": ["--local", "--runtime", "host"],
}


@pytest.mark.parametrize("start", STARTS)
def test_nobody_reads_the_output_any_more(cluster: Cluster, start: str) -> None:
    """(W4) The program would never end."""
    words = [*STARTS[start], "--", "sh", "-c", "while echo tick; do sleep 0.2; done"]
    alone = start in ("hosts", "local")
    line = ["mnrun", *words] if alone else cluster.launch(*words, nodes=2)
    result = cluster.alice(["sh", "-c", '{ "$@"; echo "code $?" >&2; } | head -n 1', "sh", *line])
    assert (result.code, "tick" in result.out) == (0, True), result
    assert "code 141" in result.err.splitlines(), result


@pytest.mark.parametrize("way", one(0, (INSIDE, SRUN)), ids=str)
def test_one_file_of_all_ranks(cluster: Cluster, desk: Desk, way: Way) -> None:
    words = ["-l", "-o", "%u-%j.out", "-e", "err", *way.words, "--", "sh", "-c", "echo a; echo oops >&2; exit 4"]
    result = cluster.mnrun(*words, nodes=2, cwd=desk.path)
    assert (result.code, result.out) == (4, ""), result
    assert mine(result), result
    assert "oops" not in result.err
    (name,) = (path.name for path in cluster.path(desk.path).glob("alice-*.out"))
    assert set(desk.read(name).splitlines()) <= {b"%d: a" % rank for rank in range(4)} != set()
    assert re.search(rb"^\d: oops$", desk.read("err"), re.M)


def test_a_file_of_each_rank_is_refused_with_what_works(cluster: Cluster) -> None:
    result = cluster.mnrun("-o", "%t.out", "--image", OMPI5, "--", HELLO, nodes=1)
    refusal(result, 122, "--output %t.out: a file for each rank", "--split-output DIR")


def test_gpus_that_are_hidden(cluster: Cluster) -> None:
    words = ["--no-gpu", *INSIDE.words, "--", HELLO, "-g"]
    found = check(cluster.mnrun(*words, nodes=2, tasks=0, salloc=("--gres=gpu:2",)), *cluster.nodes[:2], tasks=1)
    assert {rank.gpus for rank in found} == {"-1"}


@pytest.mark.parametrize("way", one(1, (INSIDE, SRUN)), ids=str)
def test_a_gpu_for_each_rank(cluster: Cluster, way: Way) -> None:
    """--gpu-bind: by srun where it starts the ranks, elsewhere by us."""
    words = ["--gpu-bind", "per_task:1", "--nv", *way.words, "--", HELLO, "-g"]
    result = cluster.mnrun(*words, nodes=2, salloc=("--gres=gpu:2",))
    found = check(result, *cluster.nodes[:2], tasks=2)
    assert {host: sorted(rank.gpus for rank in found if rank.host == host) for host in cluster.nodes[:2]} == {
        host: ["0", "1"] for host in cluster.nodes[:2]
    }, result
    assert any("--nv: not needed" in line for line in mine(result)), result


@pytest.mark.parametrize("way", [("--launcher", "env"), ("--mode", "outside-in", "--launcher", "srun")], ids=" ".join)
def test_lines_of_python_are_whole(cluster: Cluster, way: tuple[str, ...]) -> None:
    """Two ranks of a node share its output. A part of a line comes with its flush."""
    code = "import os\nfor n in range(200): print('rank', os.environ['SLURM_PROCID'], 'of', n)"
    done = cluster.mnrun("-Q", "--image", OMPI5, *way, "--", "python3", "-c", code, nodes=2, tasks=2)
    assert sorted(done.out.splitlines()) == sorted(f"rank {rank} of {n}" for rank in range(4) for n in range(200)), done
