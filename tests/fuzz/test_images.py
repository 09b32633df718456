"""Names of images, and the first bytes of their files."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from mnrun.images import reference
from mnrun.system import paths
from unit.conftest import Shell
from unit.wrappers.test_guard import function

from .cases import answer, cases
from .texts import texts

NAMES = (
    "docker://ubuntu:24.04",
    "nvcr.io/nvidia/pytorch:24.01-py3",
    "app.sif",
    "./a b.sif",
    "ubuntu",
    "localhost/x:1",
    "library://a/b:1",
    "oras://h:5000/x",
    "x@sha256:" + "a" * 64,
    "nvcr.io#nvidia/x:1",
    "Ubuntu:1",
    "dir/app",
)
SIF = b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\0"
SQUASH = b"hsqs" + bytes(92)
NOISE = st.binary(max_size=700)
HEADERS = st.one_of(
    NOISE,
    st.builds(lambda head, cut, rest: head[:cut] + rest, st.sampled_from([SIF, SQUASH]), st.integers(0, 60), NOISE),
    st.builds(lambda before, head, rest: before + head + rest, NOISE, st.sampled_from([SIF, SQUASH]), NOISE),
    st.builds(lambda number, head: bytes(number) + head, st.integers(0, 600), st.sampled_from([SIF, SQUASH])),
)


@cases(text=texts(*NAMES), exists=st.booleans())
def test_any_text_is_an_image_or_refused(text: str, exists: bool) -> None:
    found = answer(lambda: reference.is_reference(text, exists), 2)
    if found:
        answer(lambda: reference.for_stores(text, "docker"), 122)
        assert reference.for_files(text)


@cases(cost=4, headers=st.lists(HEADERS, min_size=1, max_size=40))
def test_a_node_takes_the_same_files_for_images(sh: Shell, tmp_path: Path, headers: list[bytes]) -> int:
    for number, header in enumerate(headers):
        (tmp_path / f"{number}.sif").write_bytes(header)
    script = f"""{function("header")}\n{function("magic")}\n{function("is_image")}
for ((n = 0; n < $1; n++)); do if is_image "$PWD/$n.sif"; then echo 1; else echo 0; fi; done"""
    said = sh(script, str(len(headers)), shell="bash").decode().split()
    here = [not paths.fault("image", str(tmp_path / f"{number}.sif")) for number in range(len(headers))]
    assert [word == "1" for word in said] == here
    return len(headers)
