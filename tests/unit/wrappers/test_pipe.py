"""The pipe between commands of nodes, run for real on one node that asks itself.

These are pipe_ssh.sh, worker.sh, pipe_serve.sh and pipe_demux.sh, without the guards and the launcher between them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Protocol

import pytest

from mnrun.files import wrapper, wrappers
from mnrun.nodes import kit
from unit.conftest import Shell, own

WRAPPERS = ("pipe_ssh.sh", "pipe_serve.sh", "pipe_demux.sh", "pipe_frames.sh", "worker.sh", "pid.sh", "session.sh")

# What goes down to a node, less the lines that are LOST. `quiet` returns once all that was asked for has ended here.
NODE = r"""echo n1 >self; echo n1 >nodes; mkfifo across idle; exec 8<>idle 9<>across
exec 7> >(8>&- 9>&-; grep --line-buffered -vE -- "$LOST" |
  tee >(grep --line-buffered -E '^(answer|ask n1 n1 [^ ]+ (in\+?|eof|took)) ' |
    dd ibs=65536 obs=1023 cbs=1023 conv=block 2>/dev/null | bash ./pipe_demux.sh) |
  sed -unE 's/^ask n1 (n1 [^ ]+ (words\+?|run|signal) )/\1/p' | sh -c "$INTO" "$PWD" worker.sh)
grep --line-buffered . <&9 >&7 & crossing=$!
quiet() { while compgen -G 'run.*' || compgen -G 'ask.??????*'; do read -rt 0.02 -u 8; done >/dev/null; }
end() { exec 7>&-; kill "$crossing"; wait; }
trap end EXIT
"""


class Asking(Protocol):
    def __call__(self, script: str, *, lost: str = ..., bash: bool = ...) -> list[str]: ...


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A node's directory with all that the pipe wants there."""
    own(tmp_path)
    for name in WRAPPERS:
        (tmp_path / name).write_text(wrapper(name))
    job = f"mnrun_connect=pipe mnrun_umask=0022 mnrun_chdir='{tmp_path}' mnrun_nodes=n1\n"
    (tmp_path / "job.sh").write_text(job)
    (tmp_path / "user.env").touch()
    (tmp_path / "bin").mkdir()
    return tmp_path


@pytest.fixture
def asking(sh: Shell, home: Path) -> Asking:
    """Runs a script on this node, and gives the lines that it has said."""

    def run(script: str, *, lost: str = "^$", bash: bool = False) -> list[str]:
        plain = shutil.which("bash" if bash else "dash")
        assert plain
        (home / "bin/sh").symlink_to(plain)
        environ = {"PATH": f"{home}/bin:{os.environ['PATH']}", "LOST": lost, "INTO": kit.spoken(kit.INTO)}
        words = ("timeout", "-s", "KILL", "25", "bash", "-c", NODE + script)  # with all that it has started
        return sh('exec "$@"', *words, environ=environ).decode().splitlines()

    return run


@pytest.mark.parametrize("bash", [False, True], ids=["dash", "bash"])
def test_a_commands_streams_and_code(asking: Asking, bash: bool) -> None:
    """More than the windows hold, both ways; its errors apart; and nothing of it stays."""
    script = """seq 30000 | tee in | sh ./pipe_ssh.sh n1 'cat; echo err >&2; exit 3' >out 2>err; echo $?
sh ./pipe_ssh.sh -n n1 true; echo $?; quiet; cmp in out; cat err"""
    assert asking(script, bash=bash) == ["3", "0", "err"]


@pytest.mark.parametrize(
    ("lost", "command", "arrived"),
    [
        ("out 1", "echo 1; echo err >&2", ["err"]),
        ("err 1", "echo 1; echo err >&2", ["1"]),
        ("out 2", "echo 1; until [ -s out ]; do :; done; echo 2", ["1"]),
        (r"out\+? 2", "head -c 700 /dev/zero; echo 1", []),
        (r"out\+? 40", "yes", ["y"]),
    ],
)
def test_a_line_of_an_output_is_lost(asking: Asking, lost: str, command: str, arrived: list[str]) -> None:
    """Where no later one of its stream tells of it, their number in `code` does; what has not ended is ended."""
    script = f"sh ./pipe_ssh.sh -n n1 '{command}' >out 2>err; echo $?; quiet; sort -u out err"
    assert asking(script, lost=f"n1 [^ ]+ {lost} ") == [
        "255",
        *sorted([*arrived, "ssh: n1: a part of what came was lost on the way"]),
    ]


@pytest.mark.parametrize("lost", ["in 1", r"in\+ 7", "in 30"])
def test_a_part_of_an_input_is_lost(asking: Asking, lost: str) -> None:
    """The command ends with an error; what it does at the end of its input, it does not do."""
    size = 5 if lost == "in 1" else 18000
    script = f"""head -c {size} /dev/zero | sh ./pipe_ssh.sh n1 'cat >copy; echo done >done' 2>err; echo $?
quiet; cat err; ls done 2>/dev/null || :"""
    assert asking(script, lost=f"n1 [^ ]+ {lost} ") == ["255", "ssh: n1: a part of its input was lost on the way"]


@pytest.mark.parametrize(("words", "part"), [("true", "the command"), (f"echo {'x' * 2000}", "a part of the command")])
def test_words_are_lost(asking: Asking, words: str, part: str) -> None:
    """Nobody waits for ever, whether some of the words are there or none."""
    script = f"sh ./pipe_ssh.sh -n n1 '{words}' 2>err; echo $?; quiet; cat err"
    assert asking(script, lost=r"n1 [^ ]+ words\+? 1 ") == ["255", f"ssh: n1: {part} was lost on the way"]


def test_a_command_that_cannot_be_kept_there(asking: Asking, home: Path) -> None:
    """A full disk, say: an error, and the node answers the next one."""
    (home / "bin/mkdir").write_text("#!/bin/sh\nexit 1\n")
    (home / "bin/mkdir").chmod(0o755)
    script = "sh ./pipe_ssh.sh -n n1 true 2>&1; echo $?; quiet; rm bin/mkdir; sh ./pipe_ssh.sh -n n1 'exit 7'; echo $?"
    assert asking(script) == ["ssh: n1: the command was lost on the way", "255", "7"]


def test_an_output_that_cannot_be_kept_there(asking: Asking, home: Path) -> None:
    """Is an error, and no end of it."""
    (home / "bin/dd").write_text(f'#!/bin/sh\n[ "$1" != bs=18000 ] || exit 1\nexec {shutil.which("dd")} "$@"\n')
    (home / "bin/dd").chmod(0o755)
    script = "sh ./pipe_ssh.sh -n n1 'echo 1' 2>err; echo $?; quiet; cat err"
    assert asking(script) == ["255", "ssh: n1: a part of what came was lost on the way"]


ANSWER = """mkfifo across; exec 9<>across; echo n1 >self; mkdir box
(cd box; mkfifo out err room.out room.err in stdin; echo 'touch ran' | base64 >words)
"""


def test_a_signal_before_the_command_began(sh: Shell, home: Path) -> None:
    """It does not begin, and its answer ends."""
    script = """: >box/out.stop; : >box/err.stop
sh ./pipe_serve.sh "$PWD/box" n2 AbC '0 1'; read -r line <&9; echo "$line"; ls box ran 2>/dev/null || :"""
    assert sh(ANSWER + script).decode().splitlines() == ["answer n1 n2 AbC code 129 0 0"]


def test_a_command_that_is_killed_before_it_has_its_streams(sh: Shell, home: Path) -> None:
    """What reads them comes to an end all the same."""
    (home / "bin/base64").write_text("#!/bin/sh\nkill -KILL $(cut -d ' ' -f 4 /proc/$PPID/stat)\n")
    (home / "bin/base64").chmod(0o755)
    script = """PATH=$PWD/bin:$PATH sh ./pipe_serve.sh "$PWD/box" n2 AbC '0 1'; read -r line <&9; echo "$line"
ls box ran 2>/dev/null || :"""
    assert sh(ANSWER + script).decode().splitlines() == ["answer n1 n2 AbC code 137 0 0"]


def test_what_comes_down_for_a_command_comes_in_blocks(sh: Shell, tmp_path: Path) -> None:
    """Data goes into files, and which is told once a message is whole; streams and commands keep theirs apart; a line
    that is missing is told, also the last; what nobody waits for is dropped. Pipes may be as small as they get."""
    block = [f"answer n1 n2 AbC out+ {n} {'2' * 800}" for n in range(2, 31)]
    lines = (
        "answer n1 n2 AbC out+ 1 1111",
        "answer n1 n2 AbC err 1 eeee==",
        *block,
        "ask n1 n3 Xyz in 1 33",
        "answer n1 n2 Gone out 1 5555",
        "answer n1 n2 AbC out 31 4",
        "answer n1 n2 AbC out 32 again",
        "answer n1 n2 AbC err 3 lost",
        "ask n1 n3 Xyz took err",
        "ask n1 n3 Xyz eof 1",
        "ask n1 n3 Cut in+ 1 33",
        "ask n1 n3 Cut eof 2",
        "answer n1 n2 AbC got 1",
        "answer n1 n2 AbC code 7 32 3",
        "answer n1 n2 Whole out 1 1",
        "answer n1 n2 Whole code 7 1 0",
        "answer n1 n2 Cut out 1 1",
        "answer n1 n2 Cut code 0 2 0",
        "answer n1 n2 AbC no it is  away",
    )
    sh(
        """mkdir ask.AbC ask.Whole ask.Cut run.n3.Xyz run.n3.Cut
for pipe in ask.{AbC,Whole,Cut}/back run.n3.Xyz/in run.n3.Xyz/room.err run.n3.Cut/in; do
  mkfifo "$pipe"; exec {fd}<>"$pipe"; all+=("$fd" "$pipe")
  "$2" -c 'import fcntl; fcntl.fcntl(0, 1031, 4096)' <&"$fd" # F_SETPIPE_SZ
done
dd ibs=65536 obs=1023 cbs=1023 conv=block 2>/dev/null | bash "$1"
for ((i = 0; i < ${#all[@]}; i += 2)); do
  dd iflag=nonblock bs=64k count=1 <&"${all[i]}" >"${all[i + 1]}.said" 2>/dev/null
done""",
        str(wrappers()["pipe_demux.sh"]),
        sys.executable,
        shell="bash",
        stdin="".join(f"{line}\n" for line in lines).encode(),
    )
    said = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.glob("*/*") if path.is_file()}
    assert said == {
        "ask.AbC/back.said": "err 1\nout 1\nout 32\nerr gap\ngot 1\ncode gap\nno it is away\n",
        "ask.AbC/out.1": f"1111{'2' * 800 * 29}4",
        "ask.AbC/out.32": "again",
        "ask.AbC/err.1": "eeee==",
        "ask.Cut/back.said": "out 1\ncode gap\n",
        "ask.Cut/out.1": "1",
        "ask.Whole/back.said": "out 1\ncode 7 1 0\n",
        "ask.Whole/out.1": "1",
        "run.n3.Xyz/in.said": "in 1\neof 1\n",
        "run.n3.Xyz/in.1": "33",
        "run.n3.Xyz/room.err.said": "1\n",
        "run.n3.Cut/in.said": "in gap\n",
        "run.n3.Cut/in.1": "33",
    }
    assert not (tmp_path / "ask.Gone").exists()
