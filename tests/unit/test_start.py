"""start.sh, ranks.sh and rank.sh run for real, every node being this one: what ranks say at once, in whole lines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from .conftest import Shell
from .test_wrappers import SHELLS, Node

NODES = 3
HERE = '#!/bin/sh\nshift\nexec sh -c "$*"\n'  # `ssh NODE COMMAND`, of a node that is this one
PIECES = 'n=0; while [ $n -lt 300 ]; do n=$((n + 1)); printf "%s says" $RANK; printf " %s\\n" $n; done'
LINES = Counter(f"{rank} says {n}" for rank in range(NODES) for n in range(1, 301))


def start(sh: Shell, tmp_path: Path, script: str, shell: str = "sh", code: int = 0, label: bool = False) -> str:
    """What the ranks say; their errors go to the file `errors`."""
    node = Node(sh, tmp_path / "mnrun.7-abcdef")
    node.fill(*[1] * NODES, launcher="env", label=label)
    (node.path / "tmp").mkdir()
    (node.path / "own.address").write_text("127.0.0.1\n")
    (node.path / "bin/ssh").write_text(HERE)
    (node.path / "stdin").touch()
    words = ("sh", str(node.path / "rank.sh"), "sh", "-c", script)
    return node.run("start.sh", *words, shell=shell, code=code, before="exec 2>errors\n").decode()


@pytest.mark.parametrize("shell", SHELLS)
def test_lines_of_several_nodes_stay_whole(sh: Shell, tmp_path: Path, shell: str) -> None:
    """However many pieces each of them comes in; the last one as it is."""
    said = start(sh, tmp_path, f"{PIECES}; [ $RANK != 2 ] || printf end", shell)
    assert Counter(said.replace("end", "").splitlines()) == LINES
    assert said.count("end") == 1


def test_an_error_is_seen_at_once(sh: Shell, tmp_path: Path) -> None:
    """A progress bar may have no line's end."""
    waits = f"until grep -q half {tmp_path}/errors; do sleep 0.05; done; echo seen"
    assert start(sh, tmp_path, f"[ $RANK != 1 ] || {{ printf half >&2; {waits}; }}") == "seen\n"


def test_errors_with_labels_are_whole_lines(sh: Shell, tmp_path: Path) -> None:
    assert start(sh, tmp_path, f"{{ {PIECES}; }} >&2", label=True) == ""
    said = (tmp_path / "errors").read_text().splitlines()
    assert Counter(said) == Counter({f"{line[0]}: {line}": 1 for line in LINES})


def test_what_a_rank_says_as_it_fails_is_said(sh: Shell, tmp_path: Path) -> None:
    """All of it, before its code ends the job."""
    said = start(sh, tmp_path, "[ $RANK = 1 ] || exit 0; seq 20000; exit 7", code=7)
    assert said.split() == [str(n) for n in range(1, 20001)]
