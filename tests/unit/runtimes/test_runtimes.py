"""One table over all runtimes: a maximal and a minimal box, and every way to say "in a container"."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from mnrun.jobspec import Mount
from mnrun.model import Container
from mnrun.runtimes import RUNTIMES, SHARING
from unit.cases import Cases

MINIMAL = Container(image="/app.sif", binds=(), home="/home/alice", chdir="/home/alice/run", job="7-abc")
MAXIMAL = Container(
    image="/images/a b.sif",
    binds=(Mount("/tmp/mnrun.7-abc"), Mount("/x", "/etc/passwd"), Mount("/data dir", "/in", "ro")),
    home="",
    chdir="/it's here",
    args=("--writable-tmpfs", "--no-mount", "hostfs"),
    job="7-abc",
    hardened=True,
)
BOXES = {
    "minimal": MINIMAL,
    "maximal": MAXIMAL,
    "without options": MAXIMAL._replace(
        image="/images/a b", binds=tuple(m._replace(options="") for m in MAXIMAL.binds)
    ),
}
KINDS: dict[str, Any] = {**RUNTIMES, **SHARING}


def test_words_in_front_of_a_command(cases: Cases) -> None:
    cases(lambda runtime, way, box: shlex.join(getattr(KINDS[runtime], way)(BOXES[box])))


def test_what_a_runtime_calls_an_image_of_a_registry(cases: Cases) -> None:
    cases(lambda runtime, image: RUNTIMES[runtime].address(image))


def test_what_a_node_needs_of_a_runtime() -> None:
    assert {name: (module.BINARY, module.CONTAINED) for name, module in RUNTIMES.items()} == {
        "apptainer": ("apptainer", True),
        "singularity": ("singularity", True),
        "docker": ("docker", True),
        "podman": ("podman", True),
        "charliecloud": ("ch-run", True),
        "host": ("", False),
    }


@pytest.mark.parametrize("word", ["--home=/scratch:/home/alice", "-H", "--no-home"])
def test_the_users_own_home_is_not_hidden(word: str) -> None:
    """F9: home is mounted whatever the site says of it, but not where the user's arguments choose another, or none."""
    words = RUNTIMES["apptainer"].node(MINIMAL._replace(args=(word,)))
    assert "/home/alice:/home/alice" not in words
    assert word in words
