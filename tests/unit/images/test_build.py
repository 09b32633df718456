"""Builders: which one is chosen, its words, why it failed, and the directory in which it works."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import Impossible, UsageError
from mnrun.images import FILES, TAGGERS, build, builders, definitions
from unit.cases import Cases
from unit.samples import RECORDED
from unit.texts import Refused

DOCKERFILE = """\
# an application
FROM debian:13 AS build
RUN apt-get update && \\
    apt-get install -y gcc
COPY app.c /src/app.c
FROM debian:13
COPY --from=build /src/app /usr/local/bin/app
ENV PLACE=/data
"""


def test_the_builder(cases: Cases) -> None:
    """Of those that make a file or a tag: which was asked for, and which are there."""
    kinds = {"files": FILES, "tags": TAGGERS}
    cases(lambda kind, wanted, there: builders.choose(kinds[kind], wanted, there.split().__contains__))


def test_why_a_build_failed(cases: Cases) -> None:
    """The reason, and what to do. A case is the name of an output in recorded/builds."""
    cases(lambda name: builders.why((RECORDED / f"builds/{name}.txt").read_text().splitlines(), build.local("bare")))


def test_a_remedy_is_one_that_the_source_takes(refused: Refused, tmp_path: Path) -> None:
    """--arg has no effect on a Dockerfile that is converted first."""
    file = tmp_path / "Dockerfile"
    file.write_text("FROM app\n")
    with refused(UsageError):
        build.text_of(str(file), {"base": "x.sif"}, "singularity")
    assert "--arg" in build.local("bare") and "--arg" not in build.local(str(file))


def test_the_words_of_builders() -> None:
    place, arguments = Path("/here/.app.sif.building"), {"A": "two words"}
    assert builders.to_file("apptainer", place / "image.sif", place / "image.def", arguments) == (
        *("apptainer", "build", "--fakeroot", "--build-arg", "A=two words"),
        *(f"{place}/image.sif", f"{place}/image.def"),
    )
    words = builders.to_store("podman", "app:1", Path("/here"), {}, "/scratch")
    assert words[:4] == ("bash", "--norc", "-p", "-c")
    assert words[5:9] == ("make_image.sh", "podman", "/scratch", "build")
    assert builders.typed(words) == "podman build --force-rm --tag app:1 --file - /here"


def test_an_image_is_made_beside_its_place(tmp_path: Path) -> None:
    target = tmp_path / "app.sif"
    dead = tmp_path / ".app.sif.building"
    dead.mkdir(mode=0o700)
    (dead / "image.sif").write_text("half")
    with build.workshop(target, force=False) as place:
        assert [path.name for path in place.iterdir()] == ["lock"]
        (place / "image.sif").write_text("whole")
        build.keep(place / "image.sif", target)
    assert [path.name for path in tmp_path.iterdir()] == ["app.sif"] and target.read_text() == "whole"


def test_an_image_that_cannot_be_made(refused: Refused, tmp_path: Path) -> None:
    target = tmp_path / "app.sif"
    target.touch()
    with refused(UsageError), build.workshop(target, force=False):
        pass
    with refused(UsageError), build.workshop(tmp_path, force=True):
        pass
    with refused(UsageError), build.workshop(tmp_path / "none" / "a.sif", force=False):
        pass
    with build.workshop(target, force=True) as place, open(place / "lock") as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with refused(UsageError), build.workshop(target, force=True):
            pass
        assert place.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["app.sif"]


@pytest.mark.parametrize("kind", ["a link", "open to others", "a file"])
def test_a_workshop_of_others(refused: Refused, tmp_path: Path, kind: str) -> None:
    home, place = tmp_path / "home", tmp_path / ".app.sif.building"
    home.mkdir(mode=0o700)
    (home / "thesis").touch()
    if kind == "a link":
        place.symlink_to(home)
    elif kind == "a file":
        place.touch()
    else:
        place.mkdir()
        place.chmod(0o777)
    with refused(UsageError), build.workshop(tmp_path / "app.sif", force=False):
        pass
    assert (home / "thesis").exists() and place.exists()


def test_an_image_where_others_may_write(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mocker: MockerFixture
) -> None:
    shared, own = tmp_path / "shared", tmp_path / "own"
    for place in (shared, own):
        place.mkdir()
    shared.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    target, renamed = shared / "app.sif", os.replace

    def replace(old: Path, new: Path) -> None:
        if old.parent != new.parent:  # another file system
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        renamed(old, new)

    mocker.patch.object(os, "replace", replace)
    with build.workshop(target, force=False) as place:
        assert (place.parent, list(shared.iterdir())) == (own, [])
        (place / "image.sif").write_text("whole")
        (place / "image.sif").chmod(0o755)
        build.keep(place / "image.sif", target)
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("whole", 0o755)
    assert [*shared.iterdir(), *own.iterdir()] == [target]
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    with refused(UsageError), build.workshop(target, force=True):
        pass
    assert list(shared.iterdir()) == [target]


def test_a_file_system_without_locks(refused: Refused, tmp_path: Path, mocker: MockerFixture) -> None:
    """Lustre without its option `flock`, or NFS without lockd."""
    mocker.patch.object(fcntl, "flock", side_effect=OSError(errno.ENOSYS, "Function not implemented"))
    target = tmp_path / "app.sif"
    with build.workshop(target, force=False) as place:
        (place / "image.sif").touch()
        with refused(UsageError), build.workshop(target, force=False):
            pass
        assert (place / "image.sif").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_modes(refused: Refused, tmp_path: Path, mocker: MockerFixture) -> None:
    """CIFS may show every directory as open to all. Nothing stays of the attempt."""
    made = Path.mkdir
    mocker.patch.object(Path, "mkdir", lambda path, mode: (made(path, mode), path.chmod(0o777)))
    with refused(UsageError), build.workshop(tmp_path / "app.sif", force=False):
        pass
    assert list(tmp_path.iterdir()) == []


def test_root_builds_no_file(refused: Refused) -> None:
    """Docker's and Podman's builds do not make their steps root of this machine."""
    with refused(Impossible):
        build.refuse_root("apptainer", 0)
    build.refuse_root("apptainer", 1500)
    build.refuse_root("podman", 0)


def test_dockerfiles_and_definitions(tmp_path: Path) -> None:
    file, definition = tmp_path / "Dockerfile", tmp_path / "app.def"
    file.write_text(DOCKERFILE)
    assert definitions.form_of(file) == "docker"
    definition.write_text(definitions.converted(file, "singularity"))
    assert definitions.form_of(definition) == "singularity"
    lines = definition.read_text().splitlines()
    assert lines[:3] == ["Bootstrap: docker", "From: debian:13", "Stage: build"]
    for line in ("apt-get install -y gcc", "%files from build", "/src/app /usr/local/bin/app", "export PLACE=/data"):
        assert line in lines, lines
    back = definitions.converted(definition, "docker")
    assert "FROM debian:13 AS build" in back and "COPY --from=build /src/app /usr/local/bin/app" in back


def test_files_that_are_neither(refused: Refused, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("# nothing\n\nhello\n")
    with refused(UsageError):
        definitions.form_of(other)
    with refused(UsageError):
        definitions.form_of(tmp_path / "none")
    other.write_text("Bootstrap: localimage\nFrom: base.sif\n")
    with refused(UsageError):
        definitions.converted(other, "docker")
