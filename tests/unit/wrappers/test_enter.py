"""enter.sh and why.sh on a node without containers, run for real: whose environment a command gets, and the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnrun.nodes import kit
from unit.conftest import Shell, own
from unit.samples import build, make

# Two ranks that sleep, the second one below a shell. All end with the script.
RANKS = """trap 'kill -KILL $(jobs -p) "$below" 2>/dev/null' EXIT
cd mnrun.7
note() { # PID RANK PROGRAM: the process has its environment once it is PROGRAM
  until read -r now <"/proc/$1/comm" && [[ $now == "$3" ]]; do :; done
  read -ra stat <"/proc/$1/stat"
  echo "$1 ${stat[21]} " >"pid.$2"
}
env A="it's" B=$'two\\nlines' C= MNRUN_JOB_ID=7-abcdef RANK=0 sleep 60 >/dev/null 2>&1 & note $! 0 sleep
env MNRUN_JOB_ID=7-abcdef RANK=1 sh -c 'sleep 60; :' >/dev/null 2>&1 & note $! 1 sh
below=''
until [[ -n $below ]]; do read -r below _ <"/proc/$!/task/$!/children"; done
echo "1 0" >pid.2
sleep 60 >/dev/null 2>&1 & note $! 4 sleep
: >pid.3
cd ..
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Make the job's directory of a node without containers, in which only the ranks have environments."""
    folder = own(tmp_path / "mnrun.7")
    plan = make(build("./app", runtime="host", mode="outside-in", chdir=str(tmp_path)), 3)
    own(folder / "box")
    for name, text in kit.files(plan, {}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    for side in (folder, folder / "box"):
        (side / "self").write_text("node01\n")
    return folder


def entered(place: Path, rank: str, *words: str) -> tuple[str, ...]:
    return (str(place), *kit.enter(str(place), rank, words))


def test_a_command_has_the_environment_of_its_rank(sh: Shell, place: Path) -> None:
    shown = '"$A" "$B" "${C-unset}" "${D-unset}" "$RANK" "$MNRUN_JOB_ID" "${MNRUN_RANK_PID:+pid}"'
    script = f'printf "<%s>" {shown}; pwd; umask; cat'
    words = entered(place, "0", "sh", "-c", script)
    said = sh(f'{RANKS}shift; D="of ours" "$@"', *words, shell="bash", stdin=b"given")
    assert said.decode() == f"<it's><two\nlines><><unset><0><7-abcdef><pid>{place.parent}\n0022\ngiven"
    assert list(place.rglob("enter.[0-9]*")) == []


def test_without_a_rank_it_is_the_first_one_that_lives(sh: Shell, place: Path) -> None:
    said = sh(f'{RANKS}rm mnrun.7/pid.0; shift; "$@"', *entered(place, "", "printenv", "RANK"), shell="bash")
    assert said == b"1\n"


@pytest.mark.parametrize(
    ("rank", "words", "code", "line"),
    [
        ("4", ("true",), 121, "mnrun: rank 4 does not run on node01: it has ended, or has not started"),
        ("2", ("true",), 121, "mnrun: rank 2 does not run on node01: it has ended, or has not started"),
        ("0", ("nothing-of-that-name",), 127, "mnrun: node01 has no nothing-of-that-name: install it there, or "),
        ("0", ("sh", "-c", "echo out; exit 7"), 7, "out"),
    ],
)
def test_how_it_ends(sh: Shell, place: Path, rank: str, words: tuple[str, ...], code: int, line: str) -> None:
    said = sh(f'{RANKS}shift; "$@" 2>&1', *entered(place, rank, *words), shell="bash", code=code).decode()
    assert said.startswith(line), said
    assert said.count("\n") == 1


def test_the_report_of_a_node(sh: Shell, place: Path) -> None:
    """A shell stands for its program. The number of a process that is another one now is nobody's.

    S7: a container could name any process of the user's as its rank, here 4. Only the job's own count.
    """
    words = kit.node(str(place), "why.sh")
    said = sh(f'{RANKS}shift; "$@"', str(place), *words, shell="bash").decode()
    rows = [line.split("\t") for line in said.splitlines() if not line.startswith("stack\t")]
    assert [(row[0], row[1], row[2], row[-1].strip()) for row in rows] == [
        ("gone", "node01", "2", "2"),
        ("gone", "node01", "4", "4"),
        ("rank", "node01", "0", "sleep 60"),
        ("rank", "node01", "1", "sleep 60"),
    ]
    assert [(row[4], row[5]) for row in rows[2:]] == [("S", "0"), ("S", "0")]
