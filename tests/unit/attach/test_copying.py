"""Copies into a container and out of it, played by a shell of this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnrun.attach import copying
from mnrun.attach.copying import IN, OUT, Place
from mnrun.attach.target import Entry
from mnrun.errors import LaunchError, NodeError, UsageError
from mnrun.model import Command, Words
from mnrun.schedulers.vocabulary import ClientLines
from unit.texts import Refused
from unit.world import World

pytestmark = pytest.mark.usefixtures("allowed")


@pytest.fixture
def allowed(world: World) -> Iterator[None]:
    """Let tar and sh run."""
    with world.allowed():
        yield


def enter(words: Words) -> Entry:
    return Entry("n1", Command(words), dict(os.environ), ClientLines())


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with files of several modes and a link."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    made = tmp_path / "far" / "tree"
    (made / "sub").mkdir(parents=True)
    (made / "a").write_bytes(os.urandom(1 << 20))
    (made / "a").chmod(0o640)
    (made / "sub" / "-x").write_text("x")
    (made / "sub" / "-x").chmod(0o751)
    (made / "link").symlink_to("a")
    return made


def alike(one: Path, other: Path) -> None:
    def seen(top: Path) -> dict[str, tuple[int, bytes]]:
        found = {path.relative_to(top): path for path in sorted(top.rglob("*")) if not path.is_dir()}
        return {str(name): (path.lstat().st_mode, path.read_bytes()) for name, path in found.items()}

    assert seen(one) == seen(other) != {}


def test_which_side_is_in_a_job() -> None:
    assert copying.place("271:/tmp/x") == Place("271", "", "/tmp/x")
    assert copying.place("271_4:node02:/tmp/x:y") == Place("271_4", "node02", "/tmp/x:y")
    assert copying.place("train:node02:x") == Place("train", "node02", "x")
    assert copying.place(":out") == Place("", "", "out")
    assert copying.place("12-abcdef:a") == Place("12-abcdef", "", "a")
    assert [copying.place(text) for text in ("./271:x", "x", "a/b:c")] == [None] * 3


def test_there_and_back(tree: Path, tmp_path: Path) -> None:
    near, back = tmp_path / "near", tmp_path / "back"
    near.mkdir()
    back.mkdir()
    assert copying.fetch(enter, str(tree), near) == "n1"
    alike(tree, near / "tree")
    copying.send(enter, near / "tree", f"{back}/")
    alike(tree, back / "tree")
    copying.send(enter, near / "tree" / "a", f"{back}/renamed")
    copying.fetch(enter, str(tree / "a"), near / "other")
    assert (back / "renamed").read_bytes() == (near / "other").read_bytes() == (tree / "a").read_bytes()
    copying.send(enter, near / "tree" / "sub" / "-x", f"{back}/renamed")
    assert (back / "renamed").read_text() == "x", "a file takes the place of a file"
    assert sorted(os.listdir(back)) == ["renamed", "tree"]
    assert sorted(os.listdir(near)) == ["other", "tree"]


def test_no_setuid_bit_comes_out_of_an_image(tree: Path, tmp_path: Path) -> None:
    (tree / "a").chmod(0o6755)
    copying.fetch(enter, str(tree / "a"), tmp_path / "mine")
    assert (tmp_path / "mine").stat().st_mode & 0o7777 == 0o755


def test_what_cannot_be_copied_is_one_line(tree: Path, tmp_path: Path, refused: Refused) -> None:
    near = tmp_path / "near"
    near.mkdir()
    for path in (f"{tree}/none", f"{tree}/none/x", "/"):
        with refused(UsageError):
            copying.fetch(enter, path, near)
    (near / "tree").mkdir()
    for target in (near, near / "nowhere" / "x"):
        with refused(UsageError):
            copying.fetch(enter, str(tree), target)
    for source, path in ((near / "none", "/tmp"), (tree, f"{near}/nowhere/"), (tree, str(near))):
        with refused(UsageError):
            copying.send(enter, source, path)
    assert (os.listdir(near), os.listdir(near / "tree")) == (["tree"], [])


@pytest.mark.parametrize("cut", [0, 1000, 10240, 1 << 19])
def test_half_a_copy_leaves_nothing(tree: Path, tmp_path: Path, cut: int) -> None:
    near = tmp_path / "near"
    near.mkdir()
    with pytest.raises(LaunchError):
        copying.fetch(
            lambda words: enter(("sh", "-c", f"sh -c '{OUT}' \"$@\" | head -c {cut}; exit 1", *words[3:])),
            str(tree),
            near,
        )
    whole = subprocess.run(("tar", "-cf", "-", "-C", tree.parent, "./tree"), stdout=subprocess.PIPE, check=True).stdout
    ended = subprocess.run(("sh", "-c", IN, "sh", near, "tree"), input=whole[:cut], stderr=subprocess.PIPE, check=False)
    assert ended.returncode
    ended = subprocess.run(("sh", "-c", IN, "sh", near, "tree"), input=whole, stderr=subprocess.PIPE, check=False)
    assert ended.returncode, "the sender's last file is missing"
    assert os.listdir(near) == []


def test_a_node_that_is_lost_meanwhile(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(NodeError):
        copying.fetch(lambda words: enter(("sh", "-c", "kill -9 $$")), str(tree), tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["far", "tmp"]
