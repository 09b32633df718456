"""`mnrun image` as it is typed: what it prints without a builder, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import Impossible
from mnrun.jobs import launches
from mnrun.jobs.launches import LaunchRecord
from mnrun.running import prepare
from mnrun.system import modules
from published import checked
from unit.typed import Complaint, Terminal


def test_recipes_are_listed(mnrun: Terminal) -> None:
    answer = mnrun("image", "recipes")
    assert answer.code == 0 and answer.err == ""
    names = [line.split()[0] for line in answer.out.splitlines()[1:] if not line.startswith(" ")]
    assert {"bare", "base-openmpi", "lammps-mpich", "nccl-tests"} <= set(names)
    assert "base=debian:trixie" in answer.out


def test_a_text_is_printed(mnrun: Terminal, tmp_path: Path) -> None:
    recipe = mnrun("image", "build", "bare", "--format", "docker", "--arg", "base=debian:12")
    assert recipe.code == 0 and recipe.out.startswith("FROM debian:12\n")
    (tmp_path / "Dockerfile").write_text("FROM debian:12\nRUN true\n")
    assert mnrun("image", "build", "Dockerfile", "--format", "docker").out == "FROM debian:12\nRUN true\n"
    assert "From: debian:12\n" in mnrun("image", "build", "Dockerfile", "--format", "singularity").out


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
    complaint: Complaint,
) -> None:
    _profile(tmp_path, lines)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    mocker.patch.object(prepare, "prepare", side_effect=lambda plan, *_: plan)
    pulled = mnrun("image", "pull", "docker://app:1")
    assert (pulled.code, pulled.out) == (0, "docker://app:1\n"), pulled
    complaint(mnrun("image", "inspect", "team/app:1"))


def test_settings_of_images_have_an_effect(mnrun: Terminal, tmp_path: Path, complaint: Complaint) -> None:
    _profile(tmp_path, 'image_cache = "/images"\n[policy]\nruntime = "Apptainer alone is there"')
    complaint(mnrun("image", "inspect", "team/app:1"))
    complaint(mnrun("image", "inspect", "team/app:1", "--runtime", "docker"), 122)


@pytest.mark.parametrize("verb", ["pull", "inspect", "verify"])
def test_modules_are_loaded(mnrun: Terminal, tmp_path: Path, mocker: MockerFixture, verb: str) -> None:
    _profile(tmp_path, 'modules = ["apptainer/1.3"]')
    mocker.patch.object(prepare, "prepare", side_effect=lambda plan, *_: plan)
    load = mocker.patch.object(modules, "load", side_effect=Impossible("module load apptainer/1.3 failed"))
    assert "mnrun: warning: module load apptainer/1.3 failed\n" in mnrun("image", verb, "team/app:1").err
    assert load.call_args.args[0] == ("apptainer/1.3",)


@pytest.mark.parametrize("verb", ["inspect", "verify"])
def test_another_cache(mnrun: Terminal, verb: str, complaint: Complaint) -> None:
    complaint(mnrun("image", verb, "team/app:1", "--image-cache", "/images"))


def test_a_pull_has_the_options_that_its_messages_name(mnrun: Terminal, mocker: MockerFixture) -> None:
    prepared = mocker.patch.object(prepare, "prepare", side_effect=lambda plan, *_: plan)
    mnrun("image", "pull", "docker://app:1", "--pull-timeout", "1h", "--image-cache", "/images")
    container = prepared.call_args.args[0].spec.container
    assert (container.pull_timeout, container.image_cache) == (3600, "/images")


def _profile(home: Path, lines: str) -> None:
    place = home / ".config/mnrun/profiles"
    place.mkdir(parents=True)
    (place / "here.toml").write_text(f'match.hostname = "*"\n{lines}\n')


def test_the_images_of_a_directory(mnrun: Terminal, tmp_path: Path, complaint: Complaint) -> None:
    """They are no images of the cache, and `image rm` says so."""
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "app.sqfs").write_bytes(b"hsqs" + bytes(100))
    (folder / "notes.txt").write_text("no image")
    assert "app.sqfs" in mnrun("image", "ls", str(folder)).out
    (one,) = checked("image ls", mnrun("image", "ls", "--json", str(folder)).out)["images"]
    assert (one["file"], one["digest"], one["size"]) == (str(folder / "app.sqfs"), "", 104)
    complaint(mnrun("image", "ls", "none"))
    complaint(mnrun("image", "rm", str(folder / "app.sqfs")))
    assert (folder / "app.sqfs").exists()


def test_an_empty_cache(mnrun: Terminal, tmp_path: Path, complaint: Complaint) -> None:
    complaint(mnrun("image", "ls"), 0)


def test_images_of_the_cache(mnrun: Terminal, tmp_path: Path) -> None:
    """The references to an image, or a dash."""
    cache = tmp_path / "cache"
    (cache / "refs").mkdir(parents=True)
    for digit in "ab":
        (cache / f"sha256-{digit}.sif").write_bytes(b"0" * 2_000_000)
    (cache / "refs/one").write_text("sha256:a key 7 docker://app:1\n")
    lines = mnrun("image", "ls", "--image-cache", str(cache)).out.splitlines()
    assert sorted(" ".join(line.split()[:3]) for line in lines[1:]) == ["- 2 MB", "docker://app:1 2 MB"]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache of two images. The first has two names."""
    place = tmp_path / "cache"
    (place / "refs").mkdir(parents=True)
    for digit, names in {"a": ("docker://app:1", "docker://app:one"), "b": ("oras://host/tool:2",)}.items():
        (place / f"sha256-{digit}.sif").write_bytes(b"0" * 2_000_000)
        for name in names:
            (place / "refs" / name.replace("/", "_")).write_text(f"sha256:{digit} key 7 {name}\n")
    return place


def files(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.glob("sha256-*"))


def test_a_list_for_programs(mnrun: Terminal, cache: Path) -> None:
    answer = mnrun("image", "ls", "--json", "--image-cache", str(cache))
    listed = {image["digest"]: image for image in checked("image ls", answer.out)["images"]}
    assert listed["sha256:a"]["names"] == ["docker://app:1", "docker://app:one"]
    assert listed["sha256:b"]["size"] == 2_000_000
    assert json.loads(mnrun("image", "ls", "--json", "--image-cache", "/none").out)["images"] == []


def test_images_are_removed(mnrun: Terminal, cache: Path) -> None:
    def removed(*names: str) -> list[str]:
        answer = mnrun("image", "rm", "--image-cache", str(cache), *names)
        assert answer.code == 0, answer
        return files(cache)

    assert removed("app:1") == ["sha256-a.sif", "sha256-b.sif"]
    assert removed("docker://app:one") == ["sha256-b.sif"]
    assert removed("sha256:b") == [] and not list((cache / "refs").iterdir())


@pytest.mark.parametrize("names", [["app:1", "oras://host/tool:3"], ["/images/a.sif"]])
def test_unknown_images_are_not_removed(mnrun: Terminal, cache: Path, names: list[str], complaint: Complaint) -> None:
    complaint(mnrun("image", "rm", "--image-cache", str(cache), *names))
    assert len(files(cache)) == 2


@pytest.mark.parametrize("near", [True, False])
def test_images_of_running_jobs_stay(
    mnrun: Terminal, cache: Path, mocker: MockerFixture, complaint: Complaint, near: bool
) -> None:
    image = str(cache / "sha256-b.sif")
    launch = LaunchRecord("7-abcdef", "slurm", "7", "/tmp", ("n1",), title="train", image=image, near=near)
    mocker.patch.object(launches, "running", return_value=[launch])
    runs = mocker.patch("mnrun.schedulers.slurm.scheduler.runs", return_value=True)
    complaint(mnrun("image", "rm", "--image-cache", str(cache), "oras://host/tool:2"), 122)
    assert len(files(cache)) == 2
    runs.return_value = False
    gone = mnrun("image", "rm", "--image-cache", str(cache), "oras://host/tool:2")
    assert (gone.code == 0) is not near


BUILT_OF = [
    (["Dockerfile", "app.def", "other.py"], "docker", "Dockerfile"),
    (["Dockerfile", "app.def", "other.py"], "singularity", "app.def"),
    (["recipe.py", "Dockerfile", "other.py"], "singularity", "recipe.py"),
    (["Containerfile", "other.py"], "singularity", "Containerfile"),
]
TEXTS = {
    "Dockerfile": "FROM debian:12\n",
    "Containerfile": "FROM debian:12\n",
    "app.def": "Bootstrap: docker\nFrom: debian:12\n",
    "one.def": "Bootstrap: docker\nFrom: debian:12\n",
    "recipe.py": 'Stage0 += baseimage(image="debian:12")\n',
    "other.py": "print()\n",
}


@pytest.mark.parametrize(("names", "form", "taken"), BUILT_OF)
def test_a_directory_is_built(mnrun: Terminal, tmp_path: Path, names: list[str], form: str, taken: str) -> None:
    for name in names:
        (tmp_path / name).write_text(TEXTS[name])
    answer = mnrun("image", "build", ".", "--format", form)
    assert answer.code == 0 and answer.out.lower().startswith(("from", "bootstrap")), answer
    assert taken in answer.err


@pytest.mark.parametrize("names", [["other.py"], ["app.def", "one.def"]])
def test_a_directory_that_is_not_built(mnrun: Terminal, tmp_path: Path, names: list[str], complaint: Complaint) -> None:
    for name in names:
        (tmp_path / name).write_text(TEXTS[name])
    complaint(mnrun("image", "build", ".", "-o", "x.sif"))
