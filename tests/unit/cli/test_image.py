"""`mnrun image` as it is typed: what it prints without a builder, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import Impossible
from mnrun.running import prepare
from mnrun.system import modules
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


# Settings of a site for its jobs: a profile's lines, and variables.
OF_JOBS = [
    ('[resources]\npartition = "gpu"\n[partition.gpu]\ngpus_per_node = 8', {}),
    ('launcher = "srun"', {}),
    ('mode = "outside-in"\n[env]\nNO_SUCH_VARIABLE = true', {}),
    ('hosts = "a,b"', {}),
    ("hardened = true", {}),
    ('[policy]\nlocal = "ask Slurm"', {}),
    ("", {"MNRUN_NODES": "2"}),
    ("", {"MNRUN_NTASKS_PER_NODE": "800000"}),
    ("", {"MNRUN_NODELIST": "n1"}),
]


@pytest.mark.parametrize(("lines", "variables"), OF_JOBS)
def test_settings_of_jobs_have_no_effect(
    mnrun: Terminal,
    tmp_path: Path,
    mocker: MockerFixture,
    monkeypatch: pytest.MonkeyPatch,
    lines: str,
    variables: dict[str, str],
) -> None:
    """An image is pulled and looked at on this machine, without ranks."""
    _profile(tmp_path, lines)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    mocker.patch.object(prepare, "prepare", side_effect=lambda plan, *_: plan)
    pulled = mnrun("image", "pull", "docker://app:1")
    assert (pulled.code, pulled.out) == (0, "docker://app:1\n"), pulled
    assert "mnrun image pull team/app:1" in complaint(mnrun("image", "inspect", "team/app:1"))


def test_settings_of_images_have_an_effect(mnrun: Terminal, tmp_path: Path) -> None:
    """Those of a profile, and a policy for what is typed."""
    _profile(tmp_path, 'image_cache = "/images"\n[policy]\nruntime = "Apptainer alone is there"')
    assert "team/app:1 is not in /images" in complaint(mnrun("image", "inspect", "team/app:1"))
    refused = mnrun("image", "inspect", "team/app:1", "--runtime", "docker")
    assert refused.code == 122 and "Apptainer alone is there" in refused.err


@pytest.mark.parametrize("verb", ["pull", "inspect", "verify"])
def test_modules_are_loaded(mnrun: Terminal, tmp_path: Path, mocker: MockerFixture, verb: str) -> None:
    """The runtime may come from one. A module that is not there is a warning."""
    _profile(tmp_path, 'modules = ["apptainer/1.3"]')
    mocker.patch.object(prepare, "prepare", side_effect=lambda plan, *_: plan)
    load = mocker.patch.object(modules, "load", side_effect=Impossible("module load apptainer/1.3 failed"))
    assert "mnrun: warning: module load apptainer/1.3 failed\n" in mnrun("image", verb, "team/app:1").err
    assert load.call_args.args[0] == ("apptainer/1.3",)


@pytest.mark.parametrize("verb", ["inspect", "verify"])
def test_another_cache(mnrun: Terminal, verb: str) -> None:
    """For one call."""
    assert "team/app:1 is not in /images" in complaint(mnrun("image", verb, "team/app:1", "--image-cache", "/images"))


def test_a_pull_has_the_options_that_its_messages_name(mnrun: Terminal, mocker: MockerFixture) -> None:
    """A time limit, and a cache."""
    prepared = mocker.patch.object(prepare, "prepare", side_effect=lambda plan, *_: plan)
    mnrun("image", "pull", "docker://app:1", "--pull-timeout", "1h", "--image-cache", "/images")
    container = prepared.call_args.args[0].spec.container
    assert (container.pull_timeout, container.image_cache) == (3600, "/images")


def _profile(home: Path, lines: str) -> None:
    place = home / ".config/mnrun/profiles"
    place.mkdir(parents=True)
    (place / "here.toml").write_text(f'match.hostname = "*"\n{lines}\n')


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
