"""The nouns, and the codes of every failure."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

import pytest

from mnrun import errors, model
from mnrun.jobspec import Mount
from mnrun.model import Phase
from unit.samples import job_spec, make

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.LaunchError)]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "exit-codes.md"


def test_the_page_has_every_reason_and_its_code() -> None:
    """Scripts tell them apart. 120 stays for what nobody foresaw, 126 and 127 for the shell."""
    rows = re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted((kind.reason, str(kind.code)) for kind in KINDS)
    assert errors.BUG == 120


@pytest.mark.parametrize("kind", KINDS[1:])
def test_the_docstring_draws_every_failure(kind: type[errors.LaunchError]) -> None:
    drawn = [line.split() for line in (errors.__doc__ or "").splitlines()]
    assert any(kind.__name__ in words and str(kind.code) in words for words in drawn)


def test_a_failure_turns_no_text_around() -> None:
    """(F7) What a container says of itself is quoted: neither ESC nor a change of direction changes what follows."""
    said = str(errors.LaunchError("node01: \x1b]0;x\x07 \u202ellew dedne\u2066 \u2028 ü \U0001f680", "do\u200f it"))
    assert said == "node01: ?]0;x? ?llew dedne? ? ü \U0001f680; do? it"


def test_a_failure_is_one_line() -> None:
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
    assert str(mount) == text


def test_a_step_is_found_by_its_phase() -> None:
    spec = job_spec(command=("./app",), image="docker://app:1", mode="outside-in", launcher="srun")
    plan = make(spec, 1)
    assert [plan.step(phase).phase for phase in Phase] == list(Phase)


def test_all_nouns_are_frozen() -> None:
    ours = [noun for noun in vars(model).values() if isinstance(noun, type) and noun.__module__ == model.__name__]
    nouns = [noun for noun in ours if not issubclass(noun, (str, Enum, tuple))]  # a NamedTuple is frozen, too
    assert len(ours) > len(nouns) > 2
    assert all(noun.__dataclass_params__.frozen for noun in nouns)  # type: ignore[attr-defined]
