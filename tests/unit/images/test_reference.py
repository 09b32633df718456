"""Files and references: told apart by how they are written, and where that does not tell, not guessed."""

from __future__ import annotations

import pytest

from mnrun.errors import Impossible
from mnrun.images import reference
from unit.cases import Cases
from unit.texts import Refused

DIGEST = "sha256:" + "0a" * 32


def test_images(cases: Cases) -> None:
    """A path is one wherever it is read, since the nodes' files are not those of this machine."""

    def told(text: str) -> str:
        clear, here = reference.clearly(text), reference.is_reference(text, True)
        assert clear or not here
        return f"{'clearly' if clear else 'perhaps'}, here {here}, elsewhere {reference.is_reference(text, False)}"

    cases(told)


def test_a_file_with_a_colon_that_is_here() -> None:
    assert not reference.is_reference("app:1", True)


def test_as_stores_have_it(refused: Refused) -> None:
    assert reference.for_stores("docker://a:1", "docker") == reference.for_stores("a:1", "docker") == "a:1"
    with refused(Impossible):
        reference.for_stores("oras://a:1", "docker")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("docker://reg.example.org:5000/team/app:1", "reg.example.org:5000/team/app"),
        ("team/app", "team/app"),
        (f"localhost/app:1@sha256:{'0' * 64}", "localhost/app"),
    ],
)
def test_the_image_of_a_digest(text: str, name: str) -> None:
    assert reference.by_digest(text, "sha256:a") == f"{name}@sha256:a"


def test_a_single_file_of_a_registry() -> None:
    assert reference.by_digest("oras://reg:5000/app:1", "sha256:a") == ""
