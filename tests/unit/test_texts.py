"""The texts that tests expect, and their file."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit import texts

KNOWN = f"""{texts.HEAD}
## test_x.py::test_a[1]
one

## test_x.py::test_a[2]
two

## test_x.py::test_b
three
"""


@pytest.mark.parametrize(
    ("heard", "narrowed", "written"),
    [
        pytest.param(["a[1]"], True, KNOWN, id="a part of a test is refused"),
        pytest.param(["a[1]"], False, KNOWN.replace("one", "new").replace("## test_x.py::test_a[2]\ntwo\n\n", ""),
                     id="a case that is no more is dropped"),
        pytest.param(["b"], True, KNOWN.replace("three", "new"), id="a whole test is written"),
        pytest.param(["a[1]", "a[2]"], True, KNOWN.replace("one", "new").replace("two", "new"), id="all cases are"),
    ],
)  # fmt: skip
def test_what_a_run_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: list[str], narrowed: bool, written: str
) -> None:
    file = tmp_path / "messages.md"
    file.write_text(KNOWN)
    (tmp_path / "test_x.py").write_text("def test_a(): ...\ndef test_b(): ...\n")
    monkeypatch.setattr(texts, "MESSAGES", file)
    messages, names = texts.Messages(accept=True), {f"test_x.py::test_{name}" for name in heard}
    for name in names:
        messages.hear(name, "new", "nowhere")
    assert ("test_x.py::test_a[2]" in messages.write(names, narrowed)) is (written == KNOWN)
    assert file.read_text() == written
