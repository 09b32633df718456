"""One table over all runtimes: a maximal and a minimal box, and every way to say "in a container"."""

from __future__ import annotations

import pytest

from launcher.model import Box, Mount, Words
from launcher.runtimes import RUNTIMES

MINIMAL = Box(image="/app.sif", binds=(), home="/home/alice", chdir="/home/alice/run")
MAXIMAL = Box(
    image="/images/a b.sif",
    binds=(Mount("/tmp/mnrun.7-abc"), Mount("/x", "/etc/passwd"), Mount("/data dir", "/in", "ro")),
    home="",
    chdir="/it's here",
    args=("--writable-tmpfs", "--no-mount", "hostfs"),
)
BOXES = {"minimal": MINIMAL, "maximal": MAXIMAL}
WAYS = ("node", "rank", "shared")

BINDS = ("--bind", "/tmp/mnrun.7-abc:/tmp/mnrun.7-abc", "--bind", "/x:/etc/passwd", "--bind", "/data dir:/in:ro")
REST = ("--pwd", "/it's here", "--writable-tmpfs", "--no-mount", "hostfs", "/images/a b.sif")
EXPECTED: dict[tuple[str, str, str], Words] = {
    ("apptainer", "node", "minimal"): ("apptainer", "-q", "exec", "--pid", "--pwd", "/home/alice/run", "/app.sif"),
    ("apptainer", "rank", "minimal"): ("apptainer", "-q", "exec", "--pwd", "/home/alice/run", "/app.sif"),
    ("apptainer", "shared", "minimal"): (
        *("apptainer", "-q", "exec", "--sharens", "--pwd", "/home/alice/run", "/app.sif"),
    ),
    ("apptainer", "node", "maximal"): ("apptainer", "-q", "exec", "--pid", "--no-home", *BINDS, *REST),
    ("apptainer", "rank", "maximal"): ("apptainer", "-q", "exec", "--no-home", *BINDS, *REST),
    ("apptainer", "shared", "maximal"): ("apptainer", "-q", "exec", "--sharens", "--no-home", *BINDS, *REST),
    ("host", "node", "minimal"): (),
    ("host", "rank", "minimal"): (),
    ("host", "shared", "minimal"): (),
    ("host", "node", "maximal"): (),
    ("host", "rank", "maximal"): (),
    ("host", "shared", "maximal"): (),
}


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("box", BOXES)
def test_words_in_front_of_a_command(runtime: str, way: str, box: str) -> None:
    """The whole argv; a runtime that is added adds its lines to the table."""
    module = RUNTIMES[runtime]
    words = module.node(BOXES[box]) if way == "node" else module.rank(BOXES[box], way == "shared")
    assert words == EXPECTED[runtime, way, box]


@pytest.mark.parametrize(
    ("runtime", "reference", "said"),
    [
        ("apptainer", "app.sif", None),
        ("apptainer", "/images/tree/", None),
        ("apptainer", "odd:name.sif", None),
        (
            "apptainer",
            "docker://site/team/app:1.2",
            "mnrun does not pull images yet: docker://site/team/app:1.2; "
            "run `apptainer pull app_1.2.sif docker://site/team/app:1.2` first",
        ),
        (
            "apptainer",
            "oras://site/app",
            "mnrun does not pull images yet: oras://site/app; run `apptainer pull app.sif oras://site/app` first",
        ),
        (
            "apptainer",
            "registry.example:5000/team/app:1.2",
            "mnrun does not pull images yet: registry.example:5000/team/app:1.2; "
            "run `apptainer pull app_1.2.sif docker://registry.example:5000/team/app:1.2` first",
        ),
        ("apptainer", "images.d/app.sif", None),
        ("apptainer", "./registry.example/app:1.2", None),
        ("apptainer", "/registry.example/app:1.2", None),
        ("host", "docker://anything", None),
    ],
)
def test_what_cannot_be_an_image(runtime: str, reference: str, said: str | None) -> None:
    """With the exact command that makes one of it."""
    refusal = RUNTIMES[runtime].refuse(reference)
    assert (str(refusal) if refusal else None) == said


def test_what_a_node_needs_of_a_runtime() -> None:
    """The program that is looked for there, and whether there is a container at all."""
    assert {name: (module.BINARY, module.CONTAINED) for name, module in RUNTIMES.items()} == {
        "apptainer": ("apptainer", True),
        "host": ("", False),
    }
