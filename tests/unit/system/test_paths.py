"""Faults of files on this machine."""

from __future__ import annotations

import grp
import os
import pwd
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from pytest_mock import MockerFixture

from mnrun.system import paths

NO_IMAGE = "is not a container image (SIF, squashfs or directory) on this machine"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\0", ""),
        (b"hsqs and more", ""),
        (b"root:x:0:0", NO_IMAGE),
        (b"", NO_IMAGE),
        (b"x" * 600 + b"SIF_MAGIC", NO_IMAGE),
    ],
)
def test_an_image_is_known_by_its_first_bytes(tmp_path: Path, content: bytes, fault: str) -> None:
    (tmp_path / "image").write_bytes(content)
    assert paths.fault("image", str(tmp_path / "image")) == fault
    assert paths.fault("path", str(tmp_path / "image")) == ""


def test_a_directory_is_an_image_if_it_has_a_shell(tmp_path: Path) -> None:
    assert paths.fault("image", str(tmp_path)) == NO_IMAGE
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sh").symlink_to("/nowhere/busybox")
    assert paths.fault("image", str(tmp_path)) == ""


def test_a_program_must_be_executable(tmp_path: Path) -> None:
    program = tmp_path / "app"
    assert paths.fault("program", str(program)) == "is not on this machine"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o600)
    assert paths.fault("program", str(program)) == "cannot be executed on this machine (chmod +x)"
    program.chmod(0o700)
    assert paths.fault("program", str(program)) == ""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of the user's. The user is called alice, and is alone in the group 1500."""
    uid = os.getuid()
    groups = {1500: ("alice", ["alice"]), 1600: ("proj", ["alice", "carol"]), 1500 + 7: ("alice", [])}
    monkeypatch.setattr(pwd, "getpwuid", {uid: SimpleNamespace(pw_name="alice", pw_gid=1500)}.__getitem__)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_name=groups[gid][0], gr_mem=groups[gid][1]))
    monkeypatch.setattr(paths, "exposed", lambda path: "")
    place = tmp_path / "cache"
    place.mkdir(mode=0o700)
    return place


def state(mode: int, gid: int) -> os.stat_result:
    return os.stat_result((0o040000 | mode, 1, 1, 1, os.getuid(), gid, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("mode", "gid", "others"),
    [
        *((0o700, 1600, False), (0o755, 1600, False), (0o777, 1500, True), (0o702, 1500, True), (0o770, 1500, False)),
        *((0o770, 1600, True), (0o2775, 1600, True), (0o770, 1507, True), (0o770, 4711, True)),
    ],
)
def test_a_group_is_others_unless_it_is_the_users_own(mine: Path, mode: int, gid: int, others: bool) -> None:
    """(S5) Its members can rename what lies in a directory that the group may write to."""
    assert paths.others_write(mine, state(mode, gid)) is others


def test_an_access_list_stands_for_others(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(S5) The bits of the group are then those of every user that the list names."""
    monkeypatch.setattr(os, "listxattr", lambda path: ["system.posix_acl_access"])
    assert paths.others_write(mine, state(0o770, 1500))


def test_a_directory_is_foreign_by_owner_mode_and_kind(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert paths.foreign(mine) == ""
    mine.chmod(0o707)
    assert "written by other users" in paths.foreign(mine)
    (mine / "file").touch()
    assert paths.foreign(mine / "file") == "is not a directory"
    mine.chmod(0o700)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert paths.foreign(mine) == "does not belong to you"


def test_every_directory_above_counts(tmp_path: Path) -> None:
    """(S5) Those of the name, and those that its links lead to. The sticky bit keeps others from renaming."""
    for name in ("open", "sticky", "closed"):
        (tmp_path / name / "mine/cache").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "sticky").chmod(0o1777)
    (tmp_path / "closed/link").symlink_to(tmp_path / "open/mine")
    above = paths.exposed(tmp_path / "closed/mine")  # where the tests run
    assert paths.exposed(tmp_path / "sticky/mine/cache") == above
    assert paths.exposed(tmp_path / "open/mine/cache") == str(tmp_path / "open")
    assert paths.exposed(tmp_path / "closed/link/cache") == str(tmp_path / "open")
    assert paths.exposed(tmp_path / "closed/link") == str(tmp_path / "open")
    (tmp_path / "open/second").symlink_to("../closed/mine")
    (tmp_path / "closed/first").symlink_to(tmp_path / "open/second")  # whoever may write to `open` chooses its end
    (tmp_path / "closed/ring").symlink_to(tmp_path / "closed/ring")
    for name in ("closed/first", "closed/first/cache", "closed/mine/../first"):
        assert paths.exposed(tmp_path / name) == str(tmp_path / "open"), name
    with pytest.raises(OSError, match="Too many levels"):
        paths.exposed(tmp_path / "closed/ring")


def test_a_directory_of_somebody_else_keeps_its_mode(tmp_path: Path, mocker: MockerFixture) -> None:
    """(S6) It came after the look, such as a link to a directory of the user's own."""
    (tmp_path / "own").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    mocker.patch.object(Path, "exists", lambda path: path != tmp_path / "link")
    paths.private(tmp_path / "link")
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o755


def test_a_pipe_is_read_once() -> None:
    """A launch that gets its own nodes reads its settings a second time: `--env-file <(…)`."""
    reader, writer = os.pipe()
    os.write(writer, b"A=one\r\n")
    os.close(writer)
    try:
        assert [paths.text(f"/dev/fd/{reader}") for _ in range(2)] == ["A=one\r\n"] * 2
    finally:
        os.close(reader)


def test_a_pipe_that_nobody_writes_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(L4) It is no image, and a file that a person names is waited for only for a moment."""
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    assert paths.fault("image", pipe) == NO_IMAGE
    monkeypatch.setattr(paths, "MOMENT", 0.01)
    with pytest.raises(OSError, match="nobody writes to this pipe"):
        paths.text(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY)
    os.write(writer, b"words")
    os.close(reader)
    monkeypatch.setattr(paths, "MOMENT", 10)
    feeder = threading.Timer(0.1, lambda: os.close(writer))
    feeder.start()
    assert paths.text(pipe) == "words"
    feeder.join()


def test_a_device_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """(L4) It is not read to the last byte of the memory."""
    monkeypatch.setattr(paths, "LARGEST", 1000)
    assert paths.fault("image", "/dev/zero") == NO_IMAGE
    assert paths.text("/dev/null") == ""
    with pytest.raises(OSError, match="File too large"):
        paths.text("/dev/zero")
