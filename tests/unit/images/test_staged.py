"""An image file that is not here: whether nodes may have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnrun.errors import UsageError
from mnrun.images import staged
from unit.texts import Refused


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("images/ompi6.sif", "did you mean {}/images/ompi5.sif? --force"),
        ("images/other-name.sif", "has ompi5.sif; --force"),
        ("home/run/ap.sif", "no image {}/home/run/ap.sif; --force"),
        ("home/app", "no image {}/home/app; --force"),
        ("tmp/app.sif", ""),
        ("nowhere/ompi5.sif", ""),
        ("home/nowhere/ompi5.sif", ""),
        ("images/ompi5.sif", ""),
    ],
)
def test_a_name_with_a_mistake(refused: Refused, tmp_path: Path, path: str, meant: str) -> None:
    for name in ("images", "home/run", "tmp"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "images/ompi5.sif").touch()
    (tmp_path / "tmp/app.txt").touch()
    if not meant:
        staged.refuse_mistyped(str(tmp_path / path), tmp_path / "home")
        return
    with refused(UsageError):
        staged.refuse_mistyped(str(tmp_path / path), tmp_path / "home")
