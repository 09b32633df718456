"""`mnrun image` as it is typed: what it prints without a builder, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.typed import Terminal, complaint


def test_recipes_are_listed(mnrun: Terminal) -> None:
    answer = mnrun("image", "recipes")
    assert answer.code == 0 and answer.err == ""
    names = [line.split()[0] for line in answer.out.splitlines()[1:] if not line.startswith(" ")]
    assert {"bare", "base-openmpi", "lammps-mpich", "nccl-tests"} <= set(names)
    assert "base=debian:trixie" in answer.out


def test_a_text_is_printed(mnrun: Terminal, tmp_path: Path) -> None:
    """Of a recipe, of a file as it is, and of a file in the other format."""
    recipe = mnrun("image", "build", "bare", "--format", "docker", "--arg", "base=debian:12")
    assert recipe.code == 0 and recipe.out.startswith("FROM debian:12\n")
    (tmp_path / "Dockerfile").write_text("FROM debian:12\nRUN true\n")
    assert mnrun("image", "build", "Dockerfile", "--format", "docker").out == "FROM debian:12\nRUN true\n"
    assert "From: debian:12\n" in mnrun("image", "build", "Dockerfile", "--format", "singularity").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("build", "bare"), "an image needs one place; write -o FILE.sif, or --tag NAME, or --format"),
        (("build", "bare", "-o", "a.sif", "--tag", "a"), "an image needs one place"),
        (("build", "nosuch", "-o", "a.sif"), "nosuch is neither a file here nor a recipe; the recipes are bare, "),
        (("build", "bare", "-o", "a.sif", "--arg", "base"), "--arg base has no value; write --arg NAME=VALUE"),
        (
            ("build", "bare", "--tag", "a", "--arg", "base=./tree"),
            "is a file or directory, and a Dockerfile begins with",
        ),
        (
            ("build", "own.def", "--tag", "a", "--arg", "A=b"),
            "--arg has no effect on own.def, which is converted first",
        ),
        (("pull", "./a.sif"), "./a.sif is a file or directory, and needs no pull"),
        (("inspect", "team/app:1"), "mnrun image pull team/app:1"),
        (("verify", "own.sif"), "own.sif does not exist"),
        (("convert", "a"), "an image needs one place"),
        (("convert", "a", "--tag", "b"), "a does not exist; name a file"),
        (("gc", "--older", "soon"), "--older 'soon' is not a time"),
    ],
)
def test_what_is_refused(mnrun: Terminal, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "own.def").write_text("Bootstrap: docker\nFrom: debian:12\n")
    assert said in complaint(mnrun("image", *words))


def test_an_empty_cache(mnrun: Terminal, tmp_path: Path) -> None:
    answer = mnrun("image", "ls")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == f"mnrun: no images in {tmp_path}/.mnrun/cache\n"


def test_images_of_the_cache(mnrun: Terminal, tmp_path: Path) -> None:
    """The references to an image, or a dash."""
    cache = tmp_path / "cache"
    (cache / "refs").mkdir(parents=True)
    for digit in "ab":
        (cache / f"sha256-{digit}.sif").write_bytes(b"0" * 2_000_000)
    (cache / "refs/one").write_text("sha256:a key 7 docker://app:1\n")
    lines = mnrun("image", "ls", "--image-cache", str(cache)).out.splitlines()
    assert sorted(" ".join(line.split()[:3]) for line in lines[1:]) == ["- 2 MB", "docker://app:1 2 MB"]
