"""Find the files that ship with mnrun: inside the package once installed, beside it in a checkout."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def folder(name: str) -> Path:
    """The folder `name` ("wrappers", "sbatch_templates"), wherever this mnrun was installed."""
    inside = Path(str(files("launcher"))) / name
    return inside if inside.is_dir() else Path(__file__).resolve().parent.parent / name
