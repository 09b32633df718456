"""Scripts for images on this machine: make_image.sh with stand-ins for its programs, and build_group.sh."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mnrun.files import wrappers
from mnrun.nodes import kit
from unit.conftest import Shell
from unit.wrappers.node import executable

DOCKER = """case $1 in info) echo '{"ServerVersion":"26.1.5"}' ;; import) cat >/dev/null; printf '<%s>' "$@" ;; esac"""


def imported(sh: Shell, place: Path, printed: str, code: int = 0) -> str:
    """Return the words of `docker import`, where the image's `env -0` prints this and ends so."""
    executable(place / "bin/docker", DOCKER)
    executable(place / "bin/apptainer", f"case $1 in build) mkdir $3 ;; exec) printf '{printed}'; exit {code} ;; esac")
    (place / "place").mkdir()
    words = ("docker", "", "store", "apptainer", str(place / "place"), "app.sif", "app:1")
    path = f"{place}/bin:{os.environ['PATH']}"
    said = sh(kit.bundle("make_image.sh"), *words, shell="bash", environ={"PATH": path}, code=code)
    return said.decode()


@pytest.mark.parametrize(
    ("printed", "change"),
    [
        ("LD_LIBRARY_PATH=/nv:/lib:/.singularity.d/libs", '<--change><ENV LD_LIBRARY_PATH="/nv:/lib">'),
        ("LD_LIBRARY_PATH=/.singularity.d/libs", ""),
        ("DIR=/.singularity.d/libs", '<--change><ENV DIR="/.singularity.d/libs">'),
        (r'A="a\\b" $c', r'<--change><ENV A="\"a\\b\" \$c">'),
    ],
)
def test_an_image_keeps_its_variables(sh: Shell, tmp_path: Path, printed: str, change: str) -> None:
    assert imported(sh, tmp_path, rf"{printed}\0A=1\0") == f'<import>{change}<--change><ENV A="1"><-><app:1>'


def test_no_image_without_its_variables(sh: Shell, tmp_path: Path) -> None:
    assert imported(sh, tmp_path, "", code=255) == ""


def test_the_code_of_a_builder_that_ends_at_once(sh: Shell, tmp_path: Path) -> None:
    late = 'kill() { sleep 0.1; builtin kill "$@"; }; . "$0" "$@"'
    sh(f"exec bash -c '{late}' \"$@\"", str(wrappers()["build_group.sh"]), str(tmp_path), "sh", "-c", "exit 7", code=7)
