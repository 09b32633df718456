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
from mnrun.model import Words

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


@pytest.mark.parametrize(
    ("names", "wanted", "there", "chosen"),
    [
        (FILES, "", ("apptainer", "docker"), "apptainer"),
        (FILES, "", ("singularity",), "singularity"),
        (FILES, "singularity", ("apptainer", "singularity"), "singularity"),
        (TAGGERS, "", ("apptainer", "docker", "podman"), "podman"),
        (TAGGERS, "", ("apptainer", "buildah"), "buildah"),
        (TAGGERS, "docker", ("docker", "podman"), "docker"),
    ],
)
def test_the_builder(names: Words, wanted: str, there: tuple[str, ...], chosen: str) -> None:
    assert builders.choose(names, wanted, there.__contains__) == chosen


def test_no_builder() -> None:
    """Each is named, with what can be done here."""
    with pytest.raises(Impossible, match=r"^apptainer, singularity: not on PATH; with --tag NAME, others build$"):
        builders.choose(FILES, "", lambda _: False)
    with pytest.raises(Impossible, match=r"^docker: not on PATH; build on a machine that has it$"):
        builders.choose(TAGGERS, "docker", lambda _: False)
    with pytest.raises(UsageError, match=r"^--builder docker does not make a file; use --tag NAME$"):
        builders.choose(FILES, "docker", lambda _: True)
    with pytest.raises(UsageError, match=r"^--builder apptainer does not make an image of a store; use -o FILE\.sif$"):
        builders.choose(TAGGERS, "apptainer", lambda _: True)


def test_the_words_of_builders() -> None:
    place, arguments = Path("/here/.app.sif.building"), {"A": "two words"}
    assert builders.to_file("apptainer", place / "image.sif", place / "image.def", arguments) == (
        *("apptainer", "build", "--fakeroot", "--build-arg", "A=two words"),
        *(f"{place}/image.sif", f"{place}/image.def"),
    )
    words = builders.to_store("podman", "app:1", Path("/here"), {}, "/scratch")
    assert words[:4] == ("bash", "--norc", "-p", "-c")
    assert words[5:8] == ("build_image.sh", "podman", "/scratch")
    assert builders.typed(words) == "podman build --force-rm --tag app:1 --file - /here"


FAILURES = {
    "apptainer: a package": (
        """\
INFO:    User not listed in /etc/subuid, trying root-mapped namespace
INFO:    Running post scriptlet
+ apt-get update -y
Reading package lists...
+ apt-get install -y nosuch
Reading package lists...
E: Unable to locate package nosuch
FATAL:   While performing build: while running engine: exit status 100
""",
        "`apt-get install -y nosuch`: E: Unable to locate package nosuch",
        "",
    ),
    "apptainer: a base": (
        "FATAL:   While performing build: conveyor failed to get: while fetching library image: no such host\n",
        "conveyor failed to get: while fetching library image: no such host",
        "build where that is in reach",
    ),
    "podman": (
        """\
STEP 1/2: FROM localhost/base
STEP 2/2: RUN apt-get install -y nosuch
E: Unable to locate package nosuch
Error: building at STEP "RUN apt-get install -y nosuch": while running runtime: exit status 100
""",
        "`RUN apt-get install -y nosuch`: E: Unable to locate package nosuch",
        "",
    ),
    "docker": (
        """\
Step 1/2 : FROM base
 ---> 0123456789ab
Step 2/2 : RUN cp /none /there
 ---> Running in 0123456789ab
cp: cannot stat '/none': No such file or directory
The command '/bin/sh -c cp /none /there' returned a non-zero code: 1
""",
        "`RUN cp /none /there`: cp: cannot stat '/none': No such file or directory",
        "",
    ),
    "a full disk": (
        "+ dd\ndd: error writing '/x': No space left on device\nFATAL:   While performing build: exit status 1\n",
        "`dd`: dd: error writing '/x': No space left on device",
        "APPTAINER_TMPDIR",
    ),
    "silence": ("", "it said nothing", ""),
}


@pytest.mark.parametrize("case", FAILURES)
def test_why_a_build_failed(case: str) -> None:
    output, reason, remedy = FAILURES[case]
    found = builders.why(output.splitlines())
    assert found[0] == reason
    assert remedy in found[1] and bool(remedy) == bool(found[1])


def test_an_image_is_made_beside_its_place(tmp_path: Path) -> None:
    """Remains of a killed build go, a whole image gets its name, and nothing else is left."""
    target = tmp_path / "app.sif"
    dead = tmp_path / ".app.sif.building"
    dead.mkdir(mode=0o700)
    (dead / "image.sif").write_text("half")
    with build.workshop(target, force=False) as place:
        assert [path.name for path in place.iterdir()] == ["lock"]
        (place / "image.sif").write_text("whole")
        build.keep(place / "image.sif", target)
    assert [path.name for path in tmp_path.iterdir()] == ["app.sif"] and target.read_text() == "whole"


def test_an_image_that_cannot_be_made(tmp_path: Path) -> None:
    target = tmp_path / "app.sif"
    target.touch()
    said = r"app\.sif exists; name another, or replace a file with --force"
    with pytest.raises(UsageError, match=said), build.workshop(target, force=False):
        pass
    with pytest.raises(UsageError, match="exists"), build.workshop(tmp_path, force=True):
        pass
    with (
        pytest.raises(UsageError, match="cannot write beside"),
        build.workshop(tmp_path / "none" / "a.sif", force=False),
    ):
        pass
    with build.workshop(target, force=True) as place, open(place / "lock") as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(UsageError, match="another process builds"), build.workshop(target, force=True):
            pass
        assert place.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["app.sif"]


@pytest.mark.parametrize("kind", ["a link", "open to others", "a file"])
def test_a_workshop_of_others(tmp_path: Path, kind: str) -> None:
    """Another user of the folder has made it: nothing in it is run or removed."""
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
    said = r"\.app\.sif\.building is not your directory|cannot write beside"
    with pytest.raises(UsageError, match=said), build.workshop(tmp_path / "app.sif", force=False):
        pass
    assert (home / "thesis").exists() and place.exists()


def test_an_image_where_others_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mocker: MockerFixture
) -> None:
    """The work is done in a temporary directory, which no other user can rename; the image comes as a whole."""
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
    said = f"other users may write to {shared}, .*; name another directory with TMPDIR"
    with pytest.raises(UsageError, match=said), build.workshop(target, force=True):
        pass
    assert list(shared.iterdir()) == [target]


def test_a_file_system_without_locks(tmp_path: Path, mocker: MockerFixture) -> None:
    """Lustre without its option `flock`, or NFS without lockd."""
    mocker.patch.object(fcntl, "flock", side_effect=OSError(errno.ENOSYS, "Function not implemented"))
    target = tmp_path / "app.sif"
    with build.workshop(target, force=False) as place:
        (place / "image.sif").touch()
        with pytest.raises(UsageError, match="another process builds in "), build.workshop(target, force=False):
            pass
        assert (place / "image.sif").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_modes(tmp_path: Path, mocker: MockerFixture) -> None:
    """CIFS may show every directory as open to all. Nothing stays of the attempt."""
    made = Path.mkdir
    mocker.patch.object(Path, "mkdir", lambda path, mode: (made(path, mode), path.chmod(0o777)))
    said = "cannot hold a directory that is yours alone"
    with pytest.raises(UsageError, match=said), build.workshop(tmp_path / "app.sif", force=False):
        pass
    assert list(tmp_path.iterdir()) == []


def test_root_builds_no_file() -> None:
    """Docker's and Podman's builds do not make their steps root of this machine."""
    with pytest.raises(Impossible, match="apptainer build is not run as root"):
        build.refuse_root("apptainer", 0)
    build.refuse_root("apptainer", 1500)
    build.refuse_root("podman", 0)


def test_dockerfiles_and_definitions(tmp_path: Path) -> None:
    """spython turns one into the other."""
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


def test_files_that_are_neither(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("# nothing\n\nhello\n")
    with pytest.raises(UsageError, match="neither a Dockerfile nor a definition: it begins with 'hello'"):
        definitions.form_of(other)
    with pytest.raises(UsageError, match="cannot read"):
        definitions.form_of(tmp_path / "none")
    other.write_text("Bootstrap: localimage\nFrom: base.sif\n")
    with pytest.raises(UsageError, match="begins with Bootstrap: localimage"):
        definitions.converted(other, "docker")
