"""What tells an image from others without reading it whole."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from mnrun.images import identity
from mnrun.jobspec import Image, ImageKind
from mnrun.model import UNKNOWN_IMAGE, ImageIdentity
from unit.samples import build

SUM = "0123456789abcdef" * 4
OWN = uuid.UUID("6e8f0f80-cfd8-411e-925e-ef885afaee52")


def of(kind: ImageKind, name: str, *sizes: str) -> ImageIdentity:
    return identity.of(build("./app").container._replace(image=Image(kind, name)), sizes)


@pytest.mark.parametrize(
    ("kind", "name", "known"),
    [
        (ImageKind.FILE, f"/cache/sha256-{SUM}.sif", True),
        (ImageKind.FILE, f"/tmp/mnrun.alice/images/sha256-{SUM}.sif", True),
        (ImageKind.FILE, f"/cache/sha256-{SUM}.sqfs", True),
        (ImageKind.STORED, f"sha256:{SUM}", True),
        (ImageKind.STORED, SUM, True),
        (ImageKind.STORED, f"host.name/app@sha256:{SUM}", True),
        (ImageKind.STORED, "app:latest", False),
    ],
)
def test_a_digest_that_is_known(kind: ImageKind, name: str, known: bool) -> None:
    assert of(kind, name) == (ImageIdentity(digest=f"sha256:{SUM}") if known else UNKNOWN_IMAGE)


def test_files_tell_of_themselves(tmp_path: Path) -> None:
    sif = tmp_path / "app.sif"
    sif.write_bytes(b"#!/usr/bin/env run-singularity\n\0" + b"SIF_MAGIC\0" + b"01\x0002\x00" + OWN.bytes + bytes(64))
    os.utime(sif, (7, 7))
    assert of(ImageKind.FILE, str(sif)) == ImageIdentity(sif=str(OWN), size=128, written=7)
    sif.write_bytes(b"hsqs" + bytes(20))
    assert (of(ImageKind.FILE, str(sif)).sif, of(ImageKind.FILE, str(sif)).size) == ("", 24)
    assert of(ImageKind.FILE, str(tmp_path)).size == 0
    os.mkfifo(tmp_path / "pipe")
    assert of(ImageKind.FILE, str(tmp_path / "pipe")).size == 0


def test_nodes_tell_the_size_of_a_file_that_is_not_here() -> None:
    assert of(ImageKind.FILE, "/scratch/app.sif", "9000", "9000") == ImageIdentity(size=9000)
    assert of(ImageKind.FILE, "/scratch/app", "directory") == UNKNOWN_IMAGE
    assert identity.of(build("./app").container._replace(image=None)) == UNKNOWN_IMAGE
