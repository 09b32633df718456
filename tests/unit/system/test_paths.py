"""Faults of files on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    """As the guard knows it."""
    (tmp_path / "image").write_bytes(content)
    assert paths.fault("image", str(tmp_path / "image")) == fault
    assert paths.fault("path", str(tmp_path / "image")) == ""


def test_a_directory_is_an_image_if_it_has_a_shell(tmp_path: Path) -> None:
    """The shell may be a link that leads nowhere here."""
    assert paths.fault("image", str(tmp_path)) == NO_IMAGE
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sh").symlink_to("/nowhere/busybox")
    assert paths.fault("image", str(tmp_path)) == ""


def test_a_program_must_be_executable(tmp_path: Path) -> None:
    """A missing one is called missing."""
    program = tmp_path / "app"
    assert paths.fault("program", str(program)) == "is not on this machine"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o600)
    assert paths.fault("program", str(program)) == "cannot be executed on this machine (chmod +x)"
    program.chmod(0o700)
    assert paths.fault("program", str(program)) == ""
