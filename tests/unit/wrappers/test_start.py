"""start.sh, start_node.sh and rank.sh run for real, every node being this one: what ranks say, in whole lines."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from mnrun.files import wrappers
from unit.conftest import Shell
from unit.wrappers.node import Node, path_of

HERE = '#!/bin/sh\nshift\nexec sh -c "$*"\n'  # `ssh NODE COMMAND`, of a node that is this one
NEEDED = ("sh", "cat", "cksum", "cut", "env", "grep", "mkfifo", "readlink", "rm", "sed", "seq", "sleep", "tr", "uname")
SHARED = "readlink /proc/self/fd/1"  # a rank's output, as it is


def start(
    sh: Shell,
    tmp_path: Path,
    script: str,
    *more: str,
    nodes: int = 3,
    ranks: int = 1,
    shell: str = "sh",
    code: int = 0,
    path: str = "",
    variables: Mapping[str, str] = {},  # read only
) -> str:
    """What the ranks say, each of which runs the script; at the end there is the file `over`. Errors go to `errors`."""
    node = Node(sh, tmp_path / "mnrun.7-abcdef")
    node.fill(*[ranks] * nodes, launcher="env")
    (node.path / "tmp").mkdir()
    (node.path / "bin/ssh").write_text(HERE)
    (node.path / "stdin").touch()
    for name in ("ended", *(f"ended.{number}" for number in range(nodes))):
        os.mkfifo(node.path / name)
    words = (str(node.path / "start.sh"), "sh", str(node.path / "rank.sh"), "sh", "-c", script, *more)
    run = f'{shell} "$@" >said 2>errors; code=$?; : >over; cat said; exit $code'
    return sh(run, *words, code=code, environ={**variables, **({"PATH": path} if path else {})}).decode()


def test_lines_of_several_nodes_stay_whole(sh: Shell, tmp_path: Path, shell: str) -> None:
    pieces = 'for n in $(seq 300); do printf "%s says" $RANK; printf " %s\\n" $n; done'
    said = start(sh, tmp_path, f"{pieces}; [ $RANK != 2 ] || printf end", shell=shell)
    assert said.count("end") == 1
    assert Counter(said.replace("end", "").splitlines()) == Counter(
        f"{rank} says {n}" for rank in range(3) for n in range(1, 301)
    )


def test_the_users_variables_stay_as_they_are(sh: Shell, tmp_path: Path, shell: str) -> None:
    files = wrappers()
    texts = "".join(files[f"{name}.sh"].read_text() for name in ("start", "start_node", "rank", "ports", "mpis", "pid"))
    words = re.findall(r"[a-z]\w*(?==)|(?<=[$])[a-z]\w*|(?<=[{])[a-z]\w*", texts)
    names = {word.removeprefix("mnrun_") for word in words} | {"name", "size", "rank", "port"}
    assert len(names) > 40
    variables = {name: f"my {name}" for name in sorted(names)}
    said = start(sh, tmp_path, "env | grep '=my ' | sort", nodes=1, shell=shell, variables=variables)
    assert said.splitlines() == [f"{name}=my {name}" for name in sorted(names)]


def test_a_users_time_limit_for_prompts(sh: Shell, tmp_path: Path, shell: str) -> None:
    """TMOUT, which many sites set: bash would end each `read` of the wrappers by it."""
    script = "sleep 1.5; echo ended"
    assert start(sh, tmp_path, script, nodes=2, shell=shell, variables={"TMOUT": "1"}) == "ended\n" * 2


def test_an_error_is_seen_at_once(sh: Shell, tmp_path: Path) -> None:
    waits = f"until grep -q half {tmp_path}/errors; do sleep 0.05; done; echo seen"
    assert start(sh, tmp_path, f"[ $RANK != 1 ] || {{ printf half >&2; {waits}; }}") == "seen\n"


def test_what_a_rank_says_as_it_fails_is_said(sh: Shell, tmp_path: Path, shell: str) -> None:
    said = start(sh, tmp_path, "[ $RANK = 1 ] || exit 0; seq 20000; exit 7", shell=shell, code=7)
    assert said.split() == [str(n) for n in range(1, 20001)]


@pytest.mark.parametrize(("shell", "code"), [("dash", 0), ("bash", 7)])
def test_who_holds_a_ranks_output_does_not_hold_the_job(sh: Shell, tmp_path: Path, shell: str, code: int) -> None:
    holds = f"env -i sh -c ': >{tmp_path}/held; until [ -e {tmp_path}/over ]; do sleep 0.1; done' &"
    holds += f" until [ -e {tmp_path}/held ]; do sleep 0.1; done;"
    assert (
        start(sh, tmp_path, f"[ $RANK = 0 ] || exit 0; {holds} echo done; exit {code}", shell=shell, code=code)
        == "done\n"
    )


def test_a_rank_may_remove_its_tmpdir(sh: Shell, tmp_path: Path) -> None:
    tmp = f"{tmp_path}/mnrun.7-abcdef/tmp"
    script = f"echo done; : >$0.$RANK; [ $RANK = 1 ] || {{ until [ -e $0.1 ]; do sleep 0.1; done; rm -rf {tmp}; }}"
    assert start(sh, tmp_path, script, nodes=2) == "done\ndone\n"


def test_ranks_of_one_node_have_the_jobs_output(sh: Shell, tmp_path: Path) -> None:
    assert start(sh, tmp_path, SHARED, nodes=1) == f"{tmp_path}/said\n"


def test_an_image_that_cannot_keep_lines_whole(sh: Shell, tmp_path: Path) -> None:
    assert start(sh, tmp_path, SHARED, path=path_of(tmp_path / "few", NEEDED)) == f"{tmp_path}/said\n" * 3


@pytest.mark.parametrize("ends", ["exit 0", "exit 3"])
def test_an_image_that_has_only_a_shell_and_cat(sh: Shell, tmp_path: Path, shell: str, ends: str) -> None:
    """(R1) Its ranks run, and a failed one ends the other. No line names a program that is not there."""
    os.mkfifo(tmp_path / "never")
    waits = f"exec cat {tmp_path}/never" if ends == "exit 3" else "exit 0"
    script = f"echo $RANK; : >{tmp_path}/$RANK; [ $RANK = 0 ] || {waits}; until [ -e {tmp_path}/1 ]; do :; done; {ends}"
    path = path_of(tmp_path / "few", {"sh", "cat", shell})
    said = start(sh, tmp_path, script, nodes=1, ranks=2, shell=shell, path=path, code=int(ends[-1]))
    assert sorted(said.split()) == ["0", "1"]
    assert (tmp_path / "errors").read_text() == ""


@pytest.mark.parametrize("lacks", sorted({*NEEDED, "od", "stdbuf"} - {"sh", "cat"}))
def test_an_image_that_lacks_one_program(sh: Shell, tmp_path: Path, lacks: str) -> None:
    """(R1) Two nodes, which need some of them for the pipe alone."""
    path = path_of(tmp_path / "few", {*NEEDED, "od", "stdbuf"} - {lacks})
    nodes = 1 if lacks == "grep" else 2  # without grep, each node ends the ranks of its directory, which is one here
    assert start(sh, tmp_path, "echo done", nodes=nodes, path=path) == "done\n" * nodes
    assert (tmp_path / "errors").read_text() == ""


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_command_of_very_many_words_begins_at_once(sh: Shell, tmp_path: Path, shell: str, nodes: int) -> None:
    """B11: what a glob gives, more than fits one word of ssh's; none of it is lost, and quoting takes no process."""
    words = (*WORDS, *(f"/data/run/{number:06}.root" for number in range(25000)))
    begun = time.monotonic()
    start(sh, tmp_path, f'printf "%s\\0" "$@" >{tmp_path}/words.$RANK', "sh", *words, shell=shell, nodes=nodes)
    assert time.monotonic() - begun < 60  # on a busy machine; it was minutes
    for rank in range(nodes):
        assert tuple((tmp_path / f"words.{rank}").read_text().split("\0")[:-1]) == words


WORDS = (
    *("it's", "'", "''", "a'b'", "", "back\\slash", "\\", "two\nlines", "end\n", "%s\\n", "$HOME", '"', "-n", "a b"),
    "ü",
)
