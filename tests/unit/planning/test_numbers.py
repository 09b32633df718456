"""What a command says of nodes and ranks is compared with the launch, before anything starts."""

from __future__ import annotations

import pytest

from mnrun.errors import UsageError
from unit.samples import build, make

TORCH = ("torchrun", "python3 -m torch.distributed.run")


@pytest.mark.parametrize("program", TORCH)
@pytest.mark.parametrize(
    ("words", "ranks", "said"),
    [
        ("--nnodes 2", (1,), "torchrun --nnodes 2, but this run has 1 node; add -N 2, or leave the option out"),
        ("--nnodes=2:4", (1,), "--nnodes 2:4, but this run has 1 node; add -N 2"),
        ("--nnodes=1", (1, 1), "--nnodes 1, but this run has 2 nodes; add -N 1"),
        ("--standalone", (1, 1), "--standalone is for one node, and this run has 2 nodes"),
        ("--nproc-per-node=2 --node_rank=0", (2, 2), "--node_rank 0 would be the same on all 2 nodes"),
        ("--node-rank=", (1, 1), "--node_rank '' would be the same on all 2 nodes"),
    ],
)
def test_numbers_of_torchrun_that_differ(program: str, words: str, ranks: tuple[int, ...], said: str) -> None:
    """(F11) With other numbers, torchrun waits 10 minutes for nodes that never come."""
    job = build(*program.split(), *words.split(), "train.py")
    with pytest.raises(UsageError) as refused:
        make(job, *ranks)
    assert said in str(refused.value) and refused.value.code == 2
    make(build(*program.split(), *words.split(), "train.py", force=True), *ranks)


def test_ranks_of_torchrun_that_were_asked_for_otherwise() -> None:
    """One on each node is what Slurm's users ask for, which starts torchrun."""
    words = ("torchrun", "--nproc_per_node", "8", "train.py")
    with pytest.raises(UsageError, match="but this run has 4 ranks on each node"):
        make(build(*words, ntasks_per_node=4), 4, 4)
    make(build(*words, ntasks_per_node=1), 1, 1)


@pytest.mark.parametrize("program", TORCH)
@pytest.mark.parametrize(
    ("words", "ranks"),
    [
        ("--nnodes 2 --nproc_per_node 4", (1, 1)),
        ("--nnodes=1:4 --nproc-per-node gpu", (4, 4)),
        ("--standalone --nproc_per_node=4", (1,)),
        ("--rdzv-backend c10d --rdzv_endpoint node01:29500 --node_rank 0", (1, 1)),
        ("train.py --nnodes 7 --standalone", (1, 1)),
        ("--nnodes $N", (1, 1)),
    ],
)
def test_numbers_of_torchrun_that_fit(program: str, words: str, ranks: tuple[int, ...]) -> None:
    plan = make(build(*program.split(), *words.split(), "train.py"), *ranks)
    assert plan.starter == "torchrun"
    assert " ".join((*program.split(), *words.split())) in " ".join(plan.step(plan.steps[1].phase).argv)


@pytest.mark.parametrize(
    ("words", "ranks", "said"),
    [
        ("accelerate launch --num_machines 2 --num_processes 8 train.py", (1,), "--num_machines 2, but this run has 1"),
        ("accelerate launch --mixed_precision bf16 --num_machines=2 train.py", (1, 1), ""),
        ("mpirun -np 8 ./app", (2, 2), "mpirun starts 8 ranks, but this run has 4 slots"),
        ("mpirun -n 3 ./a : -n 3 ./b", (2, 2), "mpirun starts 6 ranks, but this run has 4 slots"),
        ("mpirun -np 4 ./app", (2, 2), ""),
        ("mpirun --oversubscribe -np 8 ./app", (2, 2), ""),
        ("mpirun --map-by slot:OVERSUBSCRIBE -np 8 ./app", (2, 2), ""),
        ("mpirun --host node01:8 -np 8 ./app", (2, 2), ""),
    ],
)
def test_numbers_of_other_starters(words: str, ranks: tuple[int, ...], said: str) -> None:
    job = build(*words.split())
    if not said:
        make(job, *ranks)
        return
    with pytest.raises(UsageError) as refused:
        make(job, *ranks)
    assert said in str(refused.value)
    make(build(*words.split(), force=True), *ranks)
