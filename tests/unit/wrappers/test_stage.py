"""stage_image.sh: the copy of an image file on a node, and the room for it."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from mnrun.environment import assignments
from mnrun.nodes import kit
from mnrun.schedulers.slurm import scheduler as slurm
from unit.conftest import Shell
from unit.texts import Says
from unit.wrappers.node import executable

CONTENT = b"image"
SUM = hashlib.sha256(CONTENT).hexdigest()
DIGEST = f"sha256:{SUM}"
HOUR, DAY = 3600, 86400
LACKS = ["lacks node01 7.3"]


class Node:
    """Where stage_image.sh runs, with a directory for copies."""

    def __init__(self, sh: Shell, place: Path) -> None:
        self.sh, self.base = sh, place / "disk"
        self.base.mkdir()
        self.folder = self.base / "mnrun.alice" / "images"

    @property
    def copy(self) -> Path:
        return self.folder / f"sha256-{SUM}.sif"

    def stage(self, *, sent: bytes = b"", size: int = len(CONTENT), limit: str = "1G", code: int = 0) -> list[str]:
        script = kit.probe(
            kit.STAGE, slurm.ON_NODE + assignments({"mnrun_copy": self.copy, "mnrun_size": size, "mnrun_silence": ""})
        )
        path = f"{self.base}/bin:{os.environ['PATH']}"
        given = {"SLURMD_NODENAME": "node01", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "3", "PATH": path}
        said = self.sh(script, limit, "7-abc", shell="bash", stdin=sent, environ=given, code=code)
        return said.decode().splitlines()

    def kept(self, name: str, size: int = 10, unused: float = 0) -> Path:
        """Put an image there that was last used so many seconds ago."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.parent.chmod(0o700)
        path = self.folder / name
        path.write_bytes(b"x" * size)
        os.utime(path, times=(time.time() - unused,) * 2)
        return path

    def names(self) -> Sequence[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def node(sh: Shell, tmp_path: Path) -> Node:
    return Node(sh, tmp_path)


def test_a_copy_that_comes(node: Node) -> None:
    assert node.stage() == LACKS
    assert [path.stat().st_mode & 0o777 for path in (node.folder.parent, node.folder)] == [0o700] * 2
    node.kept("7-abc.part").write_bytes(CONTENT)
    assert node.stage(sent=b"pulse\ntake\n") == [
        *LACKS,
        "pulling node01 reads its copy",
        f"image node01 {DIGEST} {node.copy}",
    ]
    assert node.names() == [node.copy.name]


def test_a_copy_that_comes_by_the_lease(node: Node) -> None:
    size = b"%d" % len(CONTENT)
    words = [*LACKS, "alive node01", "pulling node01 reads its copy", f"image node01 {DIGEST} {node.copy}"]
    assert [line.rstrip() for line in node.stage(sent=b"alive\ncopy " + size + b"\n" + CONTENT + b"alive\n")] == words
    assert node.copy.read_bytes() == CONTENT
    assert node.names() == [node.copy.name]


def test_a_copy_of_which_a_part_comes(node: Node) -> None:
    assert node.stage(sent=b"copy 5\nima", code=143)[:1] == LACKS
    assert node.names() == []


def test_a_copy_in_a_directory_that_nodes_share(node: Node) -> None:
    executable(node.base / "bin/sha256sum", f"mv ./7-abc.part {node.copy}; exec /usr/bin/sha256sum {node.copy}")
    node.kept("7-abc.part").write_bytes(CONTENT)
    assert node.stage(sent=b"take\ntake\n") == [
        *LACKS,
        "pulling node01 reads its copy",
        f"image node01 {DIGEST} {node.copy}",
    ]


def test_a_copy_that_is_there(node: Node) -> None:
    node.kept(node.copy.name, len(CONTENT), unused=DAY)
    assert node.stage(sent=b"take\n") == [f"image node01 {DIGEST} {node.copy}"]
    assert node.copy.stat().st_mtime > time.time() - HOUR


def test_a_copy_of_another_size(node: Node) -> None:
    node.kept(node.copy.name, len(CONTENT) - 1)
    assert node.stage() == LACKS


def test_a_copy_that_is_a_link(node: Node) -> None:
    """`--hosts` makes one to a file of the host's own, which may change."""
    elsewhere = node.kept("elsewhere", len(CONTENT))
    node.copy.symlink_to(elsewhere)
    assert node.stage() == LACKS


def test_a_copy_that_differs(node: Node, says: Says) -> None:
    node.kept("7-abc.part")
    *_, last = node.stage(sent=b"take\n", code=1)
    says(last)
    assert node.names() == []


def test_a_signal_for_the_program_takes_no_copy_for_damaged(node: Node) -> None:
    """Slurm sends it to all processes of the step, and so to the one that reads the copy."""
    executable(node.base / "bin/sha256sum", "kill -USR1 $$; exec /usr/bin/sha256sum")
    node.kept("7-abc.part").write_bytes(CONTENT)
    assert node.stage(sent=b"take\n")[-1] == f"image node01 {DIGEST} {node.copy}"


def test_a_lease_that_ends_before_the_copy_is_there(node: Node) -> None:
    node.kept("7-abc.part")
    assert node.stage() == LACKS
    assert node.names() == []


@pytest.mark.parametrize("which", ["mnrun.alice", "mnrun.alice/images"])
@pytest.mark.parametrize("kind", ["open", "link", "file"])
def test_a_directory_that_others_could_change(node: Node, kind: str, which: str) -> None:
    node.kept(node.copy.name, len(CONTENT))
    place = node.base / which
    if kind == "open":
        place.chmod(0o755)
    else:
        place.rename(node.base / "moved")
        place.symlink_to(node.base / "moved") if kind == "link" else place.write_text("")
    (last,) = node.stage(code=1)
    assert last.startswith("fail node01 ") and "--stage-dir" in last


def test_a_place_that_others_could_change(node: Node) -> None:
    node.base.chmod(0o777)
    (last,) = node.stage(code=1)
    assert last.startswith(f"fail node01 other users may write to {node.base}")
    node.base.chmod(0o1777)
    assert node.stage() == LACKS


def test_a_place_that_is_not_there(node: Node, says: Says) -> None:
    node.base.rename(node.base.with_name("moved"))
    (last,) = node.stage(code=1)
    says(last)


def test_no_room(node: Node) -> None:
    (last,) = node.stage(size=1 << 60, code=1)
    assert last.startswith(f"fail node01 no space left: {node.folder} has ")
    assert f"for an image of {(1 << 60) // 1000000} MB" in last


def test_images_go_by_size_the_least_used_first(node: Node) -> None:
    for name, unused in (("a", 3 * DAY), ("b", 2 * DAY), ("c", 1 * DAY), ("d", 0)):
        node.kept(f"sha256-{name}.sif", 600 << 10, unused)
    assert node.stage(limit="2M") == LACKS
    assert node.names() == ["sha256-b.sif", "sha256-c.sif", "sha256-d.sif"]
    assert node.stage(limit="1M") == LACKS
    assert node.names() == ["sha256-d.sif"]
    assert node.stage(limit="1M", size=2 << 20) == LACKS
    assert node.names() == ["sha256-d.sif"]


def test_images_go_by_age(node: Node) -> None:
    for name, unused in (
        ("sha256-a.sif", 31 * DAY),
        ("sha256-b.sif", 29 * DAY),
        ("6-x.part", 2 * HOUR),
        ("6-y.part", 1),
    ):
        node.kept(name, 10, unused)
    assert node.stage() == LACKS
    assert node.names() == ["6-y.part", "sha256-b.sif"]


def test_an_open_image_stays(node: Node) -> None:
    """A program that runs may start more containers of it. Its name is this test's alone, since an open file counts
    by its name."""
    with node.kept("sha256-open.sif", 10, 31 * DAY).open("rb"):
        assert node.stage() == LACKS
        assert node.names() == ["sha256-open.sif"]
    assert node.stage() == LACKS
    assert node.names() == []
