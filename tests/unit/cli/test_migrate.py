"""`mnrun migrate`: what it prints, where it writes, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.typed import Terminal

SCRIPT = "#!/bin/bash\n#SBATCH -N 2\n# caf\xe9\n#\n#\nexport MASTER_PORT=1\nsrun apptainer exec app.sif ./app\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "job.sh"
    file.write_bytes(SCRIPT.encode("latin-1"))
    file.chmod(0o750)
    return file


def test_it_writes_a_new_file_with_the_same_rights(mnrun: Terminal, script: Path, tmp_path: Path) -> None:
    answer = mnrun("migrate", "job.sh", "-o", "new.sh")
    new = tmp_path / "new.sh"
    assert (answer.code, answer.out, new.stat().st_mode & 0o777) == (0, "new.sh\n", 0o750)
    assert b"caf\xe9" in new.read_bytes() and b"MASTER_PORT" not in new.read_bytes()
    assert script.read_bytes() == SCRIPT.encode("latin-1")


def test_each_line_that_goes_is_named(mnrun: Terminal, script: Path) -> None:
    answer = mnrun("migrate", "--diff", "job.sh")
    assert "job.sh:6: " in answer.err
    assert [line for line in answer.out.splitlines() if line.startswith("-export")] == ["-export MASTER_PORT=1"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("none.sh",), 2),
        (("folder",), 2),
        (("binary",), 2),
        (("program.py",), 2),
        (("plain.sh",), 2),
        (("stays.sh",), 122),
        (("job.sh", "--diff", "--toml"), 2),
        (("job.sh", "-o", "job.sh"), 2),
        (("job.sh", "-o", "none/new.sh"), 2),
        (("two.sh", "--toml"), 122),
    ],
    ids=lambda words: "-".join(words) if isinstance(words, tuple) else "",
)
def test_bad_input(mnrun: Terminal, script: Path, tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    (tmp_path / "folder").mkdir()
    files = {
        "binary": b"\x7fELF\0\1\2",
        "program.py": b"#!/usr/bin/env python3\n",
        "plain.sh": b"srun ./app\n",
        "stays.sh": b"srun ./wrap apptainer exec app.sif ./app\n",
        "two.sh": b"srun apptainer exec app.sif ./a\nsrun apptainer exec app.sif ./b\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    answer = mnrun("migrate", *words)
    assert (answer.code, answer.out) == (code, ""), answer
    assert answer.err.startswith("mnrun: ") and "Traceback" not in answer.err
