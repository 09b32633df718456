"""Files and references: told apart by how they are written, and where that does not tell, not guessed."""

from __future__ import annotations

import pytest

from mnrun.errors import Impossible, UsageError
from mnrun.images import reference

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    "text",
    [
        "./app",
        "../app",
        "/images/app",
        "~/app",
        "app.sif",
        "images/app.sif",
        "odd:name.sif",
        "a.b/app.squashfs",
        "./a:1",
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_paths(text: str, there: bool) -> None:
    """A path is one wherever it is read, since the nodes' files are not those of this machine."""
    assert not reference.is_reference(text, there)
    assert not reference.clearly(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "docker://ubuntu",
            "docker://host:5000/a/b:1",
            f"docker://a@{DIGEST}",
            "oras://host/a:1",
            "library://a/b/c:1",
        ),
        *("ubuntu:24.04", "org/app:1.2", f"app@{DIGEST}", f"org/app:1@{DIGEST}", "nvcr.io/nvidia/pytorch:24.10-py3"),
        *("nvcr.io/nvidia/pytorch", "localhost/app", "login:5000/small:1", "login:5000/small", "a__b/c--d.e:x_Y-1."),
    ],
)
def test_references(text: str) -> None:
    """By a scheme, a tag, a digest or a registry's name."""
    assert reference.is_reference(text, False)
    assert reference.clearly(text)


@pytest.mark.parametrize("text", ["ubuntu", "org/app", "images/app"])
def test_what_could_be_both(text: str) -> None:
    """It is the file that is here; else nobody is to guess."""
    assert not reference.is_reference(text, True)
    assert not reference.clearly(text)
    with pytest.raises(UsageError) as wrong:
        reference.is_reference(text, False)
    assert str(wrong.value) == (
        f"--image {text} is not a file here, and names no registry; write ./{text} or docker://{text}"
    )


def test_a_file_with_a_colon_that_is_here() -> None:
    """What is there is meant."""
    assert not reference.is_reference("app:1", True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://x/y", "--image http://x/y: http:// is not a known scheme; use one of docker, oras, library"),
        ("docker://", "--image docker:// names no image; write docker://NAME:TAG"),
        ("docker://a b", "--image docker://a b names no image; write docker://NAME:TAG"),
        ("App:1", "--image App:1 has capitals in its name; write it in lower case"),
        ("app@sha256:12", "--image app@sha256:12 has an incomplete digest; write @sha256: and 64 digits of 0-9a-f"),
        ("app:", "--image app: is not an image name; write [HOST/]NAME[:TAG][@sha256:…], or a path with ./"),
        (
            "docker://a//b",
            "--image docker://a//b is not an image name; write [HOST/]NAME[:TAG][@sha256:…], or a path with ./",
        ),
    ],
)
def test_wrong_references(text: str, said: str) -> None:
    """Each with what is wrong in it."""
    with pytest.raises(UsageError) as wrong:
        reference.is_reference(text, False)
    assert str(wrong.value) == said


def test_as_stores_have_it() -> None:
    """Without a scheme; others than docker's are another runtime's."""
    assert reference.for_stores("docker://a:1", "docker") == reference.for_stores("a:1", "docker") == "a:1"
    with pytest.raises(Impossible) as wrong:
        reference.for_stores("oras://a:1", "docker")
    assert str(wrong.value) == "docker cannot pull oras://a:1; use an image of docker://, or --runtime apptainer"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("docker://reg.example.org:5000/team/app:1", "reg.example.org:5000/team/app"),
        ("team/app", "team/app"),
        (f"localhost/app:1@sha256:{'0' * 64}", "localhost/app"),
    ],
)
def test_the_image_of_a_digest(text: str, name: str) -> None:
    """Its name has the digest in place of the tag."""
    assert reference.by_digest(text, "sha256:a") == f"{name}@sha256:a"


def test_a_single_file_of_a_registry() -> None:
    assert reference.by_digest("oras://reg:5000/app:1", "sha256:a") == ""
