"""Recipes of images: the whole texts that HPCCM makes of them, and what is refused.

`pytest tests/unit/images/test_recipes.py --accept` takes what HPCCM makes now. GPU variants and whatever downloads are
nowhere built by a test, so these texts are all that is known of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mnrun.errors import Impossible, UsageError
from mnrun.images import FORMATS, recipes
from unit.texts import Expected, Refused

TEXTS = Path(__file__).parent / "texts"

VARIANTS = {
    "base-openmpi cuda": {"cuda": "12.6.3"},
    "base-openmpi source": {"openmpi": "5.0.8"},
    "base-mpich source": {"mpich": "4.2.3"},
    "mpi-bandwidth ofed": {"ofed": "24.10-0.7.0.0"},
    "netpipe mpich": {"mpi": "mpich"},
    "pytorch ngc": {"ngc": "25.01-py3"},
    "lammps ngc": {"ngc": "patch_15Jun2023"},
    "gromacs ngc": {"ngc": "2023.2"},
    "hpcc ngc": {"ngc": "24.09"},
}
CASES = {**{recipe.name: {} for recipe in recipes.recipes()}, **VARIANTS}


def named(name: str) -> recipes.Recipe:
    recipe = recipes.find(name)
    assert recipe is not None
    return recipe


@pytest.mark.parametrize("case", CASES)
def test_the_texts_of_every_recipe(case: str, expected: Expected) -> None:
    recipe = named(case.split()[0])
    texts = [f"## {form}\n\n{recipes.render(recipe, CASES[case], form)}" for form in FORMATS]
    expected(TEXTS / f"{case.replace(' ', '.')}.txt", "\n".join(texts))


def test_no_golden_text_is_left_of_a_recipe_that_is_gone() -> None:
    found = {path.name for path in TEXTS.iterdir()}
    assert found == {f"{case.replace(' ', '.')}.txt" for case in CASES}


def test_every_recipe_says_what_it_is_for_and_explains_its_arguments() -> None:
    for recipe in recipes.recipes():
        assert recipe.purpose.endswith("."), recipe.name
        assert recipe.arguments, recipe.name
        assert "base" in recipe.arguments or "nvcr.io" in recipes.render(recipe, {}, "docker"), recipe.name


@pytest.mark.parametrize(
    ("text", "form", "found"),
    [
        ("ubuntu:24.04", "docker", ("docker", "ubuntu:24.04")),
        ("docker://ubuntu:24.04", "docker", ("docker", "ubuntu:24.04")),
        ("docker://ubuntu:24.04", "singularity", ("docker", "ubuntu:24.04")),
        ("oras://host.name/base:1", "singularity", ("oras", "host.name/base:1")),
        ("localhost/base", "docker", ("docker", "localhost/base")),
    ],
)
def test_a_base_of_a_registry(text: str, form: str, found: tuple[str, str]) -> None:
    assert recipes.base_image(text, form) == found


def test_a_base_is_a_file_or_a_root_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "base.sif").touch()
    (tmp_path / "tree").mkdir()
    for text in ("base.sif", "./base.sif", "~/base.sif", str(tmp_path / "base.sif")):
        assert recipes.base_image(text, "singularity") == ("localimage", str(tmp_path / "base.sif"))
    assert recipes.base_image("tree", "singularity") == ("localimage", str(tmp_path / "tree"))
    text = recipes.render(named("bare"), {"base": "tree"}, "singularity")
    assert text.startswith(f"BootStrap: localimage\nFrom: {tmp_path}/tree\n")


SOURCES = {
    "sources.list": "# of an installer\ndeb-src http://src.example.org/debian trixie main\n"
    "deb [signed-by=/k arch=amd64] http://deb.example.org/debian trixie main\ndeb http://other.example.org/x y z\n",
    "sources.list.d/debian.sources": "Types: deb\nURIs: http://deb.example.org/debian http://other.example.org\n",
}


@pytest.mark.parametrize("file", SOURCES)
def test_a_base_by_debootstrap(refused: Refused, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "_APT", tmp_path)
    with refused(UsageError):
        recipes.render(named("bare"), {"base": "debootstrap:trixie"}, "singularity")
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / file).write_text(SOURCES[file])
    text = recipes.render(named("bare"), {"base": "debootstrap:trixie"}, "singularity")
    begin = "BootStrap: debootstrap\nMirrorURL: http://deb.example.org/debian\nOSVersion: trixie\n"
    assert text.startswith(begin), text


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("debootstrap:trixie", "docker"),
        ("debootstrap:", "singularity"),
        ("./none.sif", "singularity"),
        ("none", "singularity"),
        (".", "docker"),
        ("oras://host.name/base:1", "docker"),
    ],
)
def test_a_base_that_cannot_be(refused: Refused, text: str, form: str) -> None:
    with refused(UsageError):
        recipes.base_image(text, form)


@pytest.mark.parametrize("given", [{"mpich": "1"}, {"mpi": "none"}])
def test_a_wrong_argument(refused: Refused, given: dict[str, str]) -> None:
    with refused(UsageError):
        recipes.render(named("netpipe"), given, "docker")


def test_a_recipe_of_ones_own(refused: Refused, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text("Stage0 += baseimage(image=USERARG['from'], _distro='ubuntu24')\n")
    recipe = recipes.read(own)
    assert (recipe.name, recipe.purpose, recipe.arguments) == ("own", "", {})
    assert recipes.render(recipe, {"from": "debian:13"}, "docker") == "FROM debian:13\n"
    own.write_text("Stage0 += nothing\n")
    with refused(UsageError):
        recipes.render(recipe, {}, "docker")
    with refused(UsageError):
        recipes.read(tmp_path / "none.py")


def test_without_hpccm_the_remedy_is_one_line(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hpccm", None)
    with refused(Impossible):
        recipes.render(named("bare"), {}, "docker")
