"""label.sh run for real, with GNU sed and without: whose line it is, and nothing lost of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from unit.conftest import Shell
from unit.wrappers.node import WHO, Node, path_of

NEEDED = ("sh", "dash", "bash", "mkfifo", "cat", "sleep", "seq", "sed", "env")


@pytest.fixture(params=["sed", "read"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sed":
        return os.environ["PATH"]
    return path_of(tmp_path / "few", NEEDED)


@pytest.fixture
def node(sh: Shell, tmp_path: Path) -> Node:
    made = Node(sh, tmp_path / "mnrun.7-abcdef")
    made.fill(1, label=True)
    return made


@pytest.mark.parametrize(
    ("script", "said", "code"),
    [
        ("echo a; echo; echo ' b '", b"3: a\n3: \n3:  b \n", 0),
        ("echo a; printf b; exit 7", b"3: a\n3: b\n", 7),  # the last line is whole
        (":", b"", 0),
        (r"printf '\\\377\n%s' '\1 & \'", b"3: \\\xff\n3: \\1 & \\\n", 0),
        ("echo a; kill -KILL $$", b"3: a\n", 137),
        ("kill -TERM $PPID; echo a", b"3: a\n", 0),  # signals are for the program
        ("sleep 40 & echo a", b"3: a\n", 0),  # what it leaves does not hold the job: a run has 30 s
        pytest.param("seq 20000", b"".join(b"3: %d\n" % n for n in range(1, 20001)), 0, id="many"),
        ("exec 2>&1; no-such-word || exit 5", None, 5),
    ],
)
def test_every_line_says_whose_it_is(
    node: Node, path: str, shell: str, script: str, said: bytes | None, code: int
) -> None:
    environ = {"PATH": path}
    found = node.run("label.sh", "3", "sh", "-c", script, shell=shell, environ=environ, code=code)
    assert said is None or found == said
    assert all(line.startswith(b"3: ") for line in found.splitlines())


def test_errors_stay_errors(node: Node, path: str) -> None:
    script = "echo out; echo err >&2"
    before = f"exec 2>{node.path}/errors\n"
    assert node.run("label.sh", "3", "sh", "-c", script, before=before, environ={"PATH": path}) == b"3: out\n"
    assert (node.path / "errors").read_bytes() == b"3: err\n"


def test_the_guard_knows_the_program_and_not_its_reader(node: Node, path: str) -> None:
    script = f"{WHO}; cat"
    said = node.run("label.sh", "3", "sh", "-c", script, stdin=b"in\n", environ={"PATH": path}).decode()
    pid, start, names = node.processes["pid.3"].split()
    assert (said, names) == (f"3: {pid} {start}\n3: in\n", os.readlink("/proc/self/ns/pid"))


def test_a_reader_that_goes_away_ends_the_program(node: Node, path: str) -> None:
    script = "while echo a; do :; done"
    before = f"sh {node.path}/label.sh 3 sh -c '{script}' 2>/dev/null | {shutil.which('head')} -n 1; exit\n"
    assert node.run("label.sh", before=before, environ={"PATH": path}) == b"3: a\n"


@pytest.mark.parametrize(("split", "said"), [("", "5: hi\n"), ("apart", "")])
def test_a_rank_with_labels(sh: Shell, tmp_path: Path, split: str, said: str) -> None:
    node = Node(sh, tmp_path / "mnrun.8-abcdef")
    given = {"split_output": str(tmp_path)} if split else {}
    node.fill(1, mode="outside-in", launcher="srun", force=True, label=True, chdir=str(tmp_path), **given)
    environ = {"PMIX_RANK": "5", "SLURM_NTASKS": "8"}
    assert node.run("rank.sh", "sh", "-c", "echo hi; exit 9", environ=environ, code=9).decode() == said
    assert node.said == "rank 5 8\nended 5 9\n"
    assert not split or (tmp_path / "rank.5.out").read_text() == "hi\n"
