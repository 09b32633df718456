"""The nouns, and the codes of every failure."""

from __future__ import annotations

import dataclasses

import pytest

from mnrun import errors, model
from mnrun.jobspec import Mount
from mnrun.model import Layout, Phase
from unit.samples import job_spec, make

CODES = {
    "UsageError": 2,
    "NoImageError": 2,
    "NodeError": 121,
    "Impossible": 122,
    "SchedulerError": 123,
    "NoAnswerError": 123,
    "NotYours": 123,
    "DeadlineError": 124,
    "RuntimeFailed": 125,
    "OutOfMemory": 137,
    "JobEnded": 143,
    "Requeued": 143,
}


def test_every_kind_of_failure_has_its_own_code() -> None:
    """Scripts tell them apart; 120 stays for what we did not foresee, 126 and 127 for the shell."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.LaunchError)]
    assert {kind.__name__: kind.code for kind in kinds} == {**CODES, "LaunchError": errors.BUG}
    assert errors.BUG == 120


@pytest.mark.parametrize("name", CODES)
def test_the_docstring_draws_every_failure(name: str) -> None:
    """The tree at the top of the module is the one place where a person looks codes up."""
    drawn = [line.split() for line in (errors.__doc__ or "").splitlines()]
    assert any(name in words and str(CODES[name]) in words for words in drawn)


def test_a_failure_is_one_line() -> None:
    """What is wrong; and what to do, where there is something to do."""
    assert str(errors.NodeError("node01 is gone")) == "node01 is gone"
    assert str(errors.UsageError("no image", "name one")) == "no image; name one"


@pytest.mark.parametrize(
    ("mount", "text"),
    [
        (Mount("/a"), "/a:/a"),
        (Mount("/a", "/b"), "/a:/b"),
        (Mount("/a", "/b", "ro"), "/a:/b:ro"),
        (Mount("/a", "", "ro"), "/a:/a:ro"),
    ],
)
def test_a_mount_as_the_runtimes_spell_it(mount: Mount, text: str) -> None:
    """Source, target and options; without a target it is the source again."""
    assert str(mount) == text


def test_a_layout_counts() -> None:
    """Ranks in all, and nodes."""
    layout = Layout(("a", "b"), (3, 2))
    assert (layout.ntasks, layout.nnodes) == (5, 2)


def test_a_step_is_found_by_its_phase() -> None:
    """There is one for each, in a plan whose nodes nobody holds yet and whose image is a registry's."""
    spec = job_spec(command=("./app",), image="docker://app:1", mode="outside-in", launcher="srun")
    plan = make(spec, 1)
    assert [plan.step(phase).phase for phase in Phase] == list(Phase)


def test_all_nouns_are_frozen() -> None:
    """Nothing that was decided changes on the way."""
    nouns = [noun for noun in vars(model).values() if dataclasses.is_dataclass(noun)]
    assert len(nouns) > 10
    assert all(noun.__dataclass_params__.frozen for noun in nouns)  # type: ignore[union-attr]
