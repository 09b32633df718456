"""What a command says of nodes and ranks is compared with the launch, before anything starts."""

from __future__ import annotations

from mnrun.errors import UsageError
from unit.cases import Cases
from unit.samples import build, make
from unit.texts import Refused

TORCH = ("torchrun", "python3 -m torch.distributed.run")


def test_numbers_of_torchrun(cases: Cases) -> None:
    """(F11) With other numbers, torchrun waits 10 minutes for nodes that never come."""

    def made(words: str, ranks: str) -> str:
        counts = tuple(map(int, ranks.split()))
        make(build(*words.split(), force=True), *counts)
        plan = make(build(*words.split()), *counts)
        assert words in " ".join(plan.step(plan.steps[1].phase).argv)
        return f"it fits {plan.starter}"

    cases(made)


def test_ranks_of_torchrun_that_were_asked_for_otherwise(refused: Refused) -> None:
    """One on each node is what Slurm's users ask for, which starts torchrun."""
    words = ("torchrun", "--nproc_per_node", "8", "train.py")
    with refused(UsageError):
        make(build(*words, ntasks_per_node=4), 4, 4)
    make(build(*words, ntasks_per_node=1), 1, 1)


def test_numbers_of_other_starters(cases: Cases) -> None:
    def made(words: str, ranks: str) -> str:
        make(build(*words.split(), force=True), *map(int, ranks.split()))
        make(build(*words.split()), *map(int, ranks.split()))
        return "it fits"

    cases(made)
