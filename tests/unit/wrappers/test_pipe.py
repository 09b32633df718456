"""The pipe between commands of nodes, run for real on one node that asks itself."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Protocol

import pytest

import mnrun
from mnrun.files import wrapper, wrappers
from mnrun.nodes import kit
from unit.conftest import Shell, own

from .node import executable
from .test_guard import SIGNALS, function

WRAPPERS = ("pipe_ssh.sh", "pipe_serve.sh", "pipe_demux.sh", "pipe_frames.sh", "worker.sh", "pid.sh", "session.sh")

# The guard's loop over the lease, in its own directory.
GUARD = rf"""set -euo pipefail
{SIGNALS}
{function("listen")}
{function("text")}
LC_ALL=C
mnrun_node=n1 mnrun_silence=35 mnrun_beat=
exec {{mnrun_life}}>/dev/null
unshared() {{ :; }}
mnrun_at=.
[[ -z ${{INTO-}} ]] || {{ exec {{box}}> >(exec sh -c "$INTO" "$PWD" worker.sh); mnrun_asks=$box; }}
[[ -z ${{ASKED-}} ]] || exec {{mnrun_asks}}>"$ASKED"
while listen; do
  case $mnrun_word in
    ask | answer) {wrapper("guard.sh").partition("ask | answer)")[2].partition("file | file+)")[0]}
  esac
done
""".replace("./pipe_demux.sh", str(wrappers()["pipe_demux.sh"]))

# The launcher.
RELAY = r"""
import os
from mnrun.nodes import relay
rest = b""
for block in iter(lambda: os.read(0, 65536), b""):
    *lines, rest = (rest + block).split(b"\n")
    for line in relay.join(line.decode() for line in lines):
        if routed := relay.route(line, ("n1",), {}):
            os.write(1, f"{routed[1]}\n".encode())
"""

# What goes up from a node, and down to it, less the lines that are LOST. `quiet` returns once all that was asked for
# has ended here.
NODE = r"""echo n1 >self; echo n1 >nodes; mkfifo up across idle; exec 8<>idle 9<>across 6<>up
exec 7> >(6>&- 8>&- 9>&-; grep --line-buffered -vE -- "$LOST" | "$PYTHON" -c "$RELAY" | bash -c "$GUARD")
{ while read -r word rest; do
  case $word in
    across)
      [[ -z ${crossing-} ]] || continue
      grep --line-buffered . <&9 & crossing=$!
      ;;
    over) [[ -z ${crossing-} ]] || kill "$crossing"; break ;; # a TERM may come before a trap is set, or a `read` blocks
    *) echo "$word n1 $rest" ;;
  esac
done; } <&6 >&7 &
quiet() { while compgen -G 'run.*' || compgen -G 'ask.??????*'; do read -rt 0.02 -u 8; done >/dev/null; }
end() { echo over >&6; exec 7>&-; wait; }
trap end EXIT
"""


class Asking(Protocol):
    def __call__(self, script: str, *, lost: str = ..., bash: bool = ...) -> list[str]: ...


@pytest.fixture
def home(tmp_path: Path) -> Path:
    own(tmp_path)
    for name in WRAPPERS:
        (tmp_path / name).write_text(wrapper(name))
    job = f"mnrun_connect=pipe mnrun_umask=0022 mnrun_begin='{tmp_path}' mnrun_nodes=n1\n"
    (tmp_path / "job.sh").write_text(job)
    (tmp_path / "user.env").touch()
    (tmp_path / "bin").mkdir()
    return tmp_path


@pytest.fixture
def asking(sh: Shell, home: Path) -> Asking:
    def run(script: str, *, lost: str = "^$", bash: bool = False) -> list[str]:
        plain = shutil.which("bash" if bash else "dash")
        assert plain
        (home / "bin/sh").symlink_to(plain)
        environ = {
            "PATH": f"{home}/bin:{os.environ['PATH']}",
            "LOST": lost,
            "INTO": kit.spoken(kit.INTO),
            "GUARD": GUARD,
            "RELAY": RELAY,
            "PYTHON": sys.executable,
            "PYTHONPATH": str(Path(mnrun.__file__).parents[1]),
        }
        words = ("timeout", "-s", "KILL", "100", "bash", "-c", NODE + script)  # with all that it has started
        return sh('exec "$@"', *words, environ=environ).decode().splitlines()

    return run


@pytest.mark.parametrize("bash", [False, True], ids=["dash", "bash"])
def test_a_commands_streams_and_code(asking: Asking, bash: bool) -> None:
    script = """seq 30000 | tee in | sh ./pipe_ssh.sh n1 'cat; echo err >&2; exit 3' >out 2>err; echo $?
sh ./pipe_ssh.sh -n n1 true; echo $?; quiet; cmp in out; cat err"""
    assert asking(script, bash=bash) == ["3", "0", "err"]


@pytest.mark.parametrize(
    ("lost", "command", "arrived"),
    [
        ("out 0", "echo 1; echo err >&2", ["err"]),
        ("err 0", "echo 1; echo err >&2", ["1"]),
        ("out 4", "echo 1; until [ -s out ]; do :; done; echo 2", ["1"]),
        ("out [1-9][0-9]*", "head -c 1000 /dev/zero; echo 1", []),
        (r"out\+? 9[0-9]{4}", "yes", ["y"]),
    ],
)
def test_a_line_of_an_output_is_lost(asking: Asking, lost: str, command: str, arrived: list[str]) -> None:
    script = f"sh ./pipe_ssh.sh -n n1 '{command}' >out 2>err; echo $?; quiet; sort -u out err"
    assert asking(script, lost=f"n1 [^ ]+ {lost} ") == [
        "255",
        *sorted([*arrived, "ssh: n1: a part of what came was lost on the way"]),
    ]


@pytest.mark.parametrize("lost", ["in 0", r"in\+ 6[0-9]{3}", "in 2[0-9]{4}"])
def test_a_part_of_an_input_is_lost(asking: Asking, lost: str) -> None:
    size = 5 if lost == "in 0" else 18000
    script = f"""head -c {size} /dev/zero | sh ./pipe_ssh.sh n1 'cat >copy; echo done >done' 2>err; echo $?
quiet; cat err; ls done 2>/dev/null || :"""
    assert asking(script, lost=f"n1 [^ ]+ {lost} ") == ["255", "ssh: n1: a part of its input was lost on the way"]


def test_an_input_whose_decoder_is_killed(asking: Asking, home: Path) -> None:
    once = home / "once"
    killed = f"case $1 in -d) [ ! -e {once} ] || kill -KILL $$; : >{once} ;; esac"
    executable(home / "bin/base64", f'{killed}\nexec {shutil.which("base64")} "$@"')
    script = """head -c 300000 /dev/zero | sh ./pipe_ssh.sh n1 'cat >copy; echo done >done' 2>err; echo $?
quiet; cat err; ls done 2>/dev/null || :"""
    assert asking(script) == ["255", "ssh: n1: a part of its input was lost on the way"]


# Where a shell is slow: between the start of a process and the next command, and so that it loses an early signal.
@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("pipe_frames.sh", '>"$chunk" 2>/dev/null &\n', "sleep 0.3\n"),
        ("pipe_ssh.sh", "# A waiting dd would take the input of a later program.\n", "trap '' TERM; sleep 0.3\n"),
    ],
)
@pytest.mark.parametrize("bash", [False, True], ids=["dash", "bash"])
def test_who_waits_for_input_does_not_outlive_the_command(
    asking: Asking, home: Path, name: str, before: str, after: str, bash: bool
) -> None:
    """Hydra never closes the input. It waits for the end of the output, whose pipe all processes have from it."""
    text = (home / name).read_text()
    assert text.count(before) == 1
    (home / name).write_text(text.replace(before, before + after))
    script = "mkfifo in; exec 5<>in; sh ./pipe_ssh.sh n1 true <&5 {all}>&1 | cat; quiet; echo ended"
    assert asking(script, bash=bash) == ["ended"]


def test_an_input_that_is_not_read_to_its_end(asking: Asking) -> None:
    script = """for n in 1 2 3 4 5 6 7 8; do yes | head -c 3000000 | sh ./pipe_ssh.sh n1 'head -n 1'; done; quiet
ls -d run.* ask.* 2>/dev/null || :"""
    assert asking(script) == ["y"] * 8


@pytest.mark.parametrize("bash", [False, True], ids=["dash", "bash"])
def test_signals_of_the_one_who_asks(asking: Asking, bash: bool) -> None:
    """A signal to a whole step is for the program. One that ends ssh ends the command as well."""
    start = (
        "mkfifo in; exec 5<>in; env --default-signal sh ./pipe_ssh.sh n1 'echo up; exec sleep 20' <&5 >out & wanted=$!"
    )
    up = "until [[ -s out ]]; do read -rt 0.02 -u 8; done; kill -USR1 $wanted; kill -USR2 $wanted; kill -QUIT $wanted"
    assert asking(f"{start}; {up}; wait $wanted; echo $?; quiet; cat out", bash=bash) == ["255", "up"]


def test_a_part_of_a_command_is_lost(asking: Asking) -> None:
    script = (
        f"sh ./pipe_ssh.sh -n n1 'touch ran; echo {'x' * 2000}' 2>err; echo $?; quiet; cat err; ls ran 2>/dev/null || :"
    )
    said = asking(script, lost=r"n1 [^ ]+ words ")
    assert said == ["255", "ssh: n1: a part of the command was lost on the way"]


@pytest.mark.parametrize("bash", [False, True], ids=["dash", "bash"])
def test_words_arrive_as_they_are(asking: Asking, bash: bool) -> None:
    words = ("  a  b ", "\\n \\ * $HOME `id` ;", "x y  " * 400, "ü\n\ttab", "\N{SNOWMAN}" * 700, ":")
    calls = [f"sh ./pipe_ssh.sh -n n1 printf %s {shlex.quote(shlex.quote(word))}; echo ." for word in words]
    assert "\n".join(asking("\n".join(calls), bash=bash)) == "\n".join(f"{word}." for word in words)


def test_a_command_that_cannot_be_kept_there(asking: Asking, home: Path) -> None:
    mkfifo = shutil.which("mkfifo")
    (home / "bin/mkfifo").write_text(f'#!/bin/sh\ncase $1 in run.*) exit 1 ;; esac\nexec {mkfifo} "$@"\n')
    (home / "bin/mkfifo").chmod(0o755)
    script = "sh ./pipe_ssh.sh -n n1 true 2>&1; echo $?; quiet; rm bin/mkfifo; sh ./pipe_ssh.sh -n n1 'exit 7'; echo $?"
    assert asking(script) == [f"ssh: n1: cannot write to {home}", "255", "7"]


def test_an_output_that_cannot_be_kept_there(asking: Asking, home: Path) -> None:
    (home / "bin/dd").write_text(f'#!/bin/sh\n[ "$1" != bs=65536 ] || exit 1\nexec {shutil.which("dd")} "$@"\n')
    (home / "bin/dd").chmod(0o755)
    script = "sh ./pipe_ssh.sh -n n1 'echo 1' 2>err; echo $?; quiet; cat err"
    assert asking(script) == ["255", "ssh: n1: a part of what came was lost on the way"]


# A message's first 64 kB find room, and its rest does not. The input cannot be kept, or cannot be read.
@pytest.mark.parametrize(
    ("before", "kind", "source", "lost"),
    [
        ("trap '' XFSZ; ulimit -f 128", "out", "head -c 600000 /dev/zero |", True),
        ("ln -s /dev/full box.in.chunk; ln -s /dev/full box.try", "in", "head -c 200000 /dev/zero |", True),
        ("exec </", "in", "", False),
    ],
)
def test_a_disk_that_becomes_full(sh: Shell, home: Path, before: str, kind: str, source: str, lost: bool) -> None:
    script = f""". ./pipe_frames.sh
message() {{ size=$(base64 -w 0 <"$2" | wc -c); arrived=$((arrived + size)); sent=$((sent + size)); }}
{before}
{source} {{ exec 3<&0; arrived=0; pump {kind} 99 box; echo "$sent $arrived"; }}"""
    told, arrived = map(int, sh(f"here=.; {ANSWER}; exec 4</dev/null; {script}", shell="dash").split())
    assert (told > arrived) == lost


ANSWER = """mkfifo up; exec 9<>up; echo n1 >self"""


def test_a_signal_before_the_command_began(sh: Shell, home: Path) -> None:
    script = """: >run.n2.AbC.stop
sh ./pipe_serve.sh n2 AbC '0 0 ::touch ran:'; read -r line <&9; echo "$line"; ls -d run.* ran 2>/dev/null || :"""
    assert sh(f"{ANSWER}\n{script}").decode().splitlines() == ["answer n2 AbC code 143 0 0"]


def test_a_command_that_is_killed_before_it_begins(sh: Shell, home: Path) -> None:
    script = """sh ./pipe_serve.sh n2 AbC '0 0 ::touch ran:' sh -c 'kill -KILL $$'; read -r line <&9; echo "$line"
ls -d run.* ran 2>/dev/null || :"""
    assert sh(f"{ANSWER}\n{script}").decode().splitlines() == ["answer n2 AbC code 137 0 0"]


NAME = re.compile(r"^(in|out|err) ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$")


def test_what_comes_down_for_a_command_comes_in_blocks(sh: Shell, tmp_path: Path) -> None:
    """Data goes into files, and which is told once a message is whole; streams and commands keep theirs apart; a line
    that is missing is told, also the last; what is for another node is dropped.

    S7: no container can foresee the name of a file, and put a link there.
    """
    block = [f"answer n1 n2 7.1 out+ {n}-{n + 3200} {'2' * 3200}" for n in range(4, 22404, 3200)]
    lines = (
        "answer n1 n2 7.1 out+ 0-4 1111",
        "answer n1 n2 7.1 err 0-8 eeeeee==",
        *block,
        "ask n1 n3 8.1 in 0-2 33",
        "answer n2 n1 7.1 out 22404-22413 another's",
        "answer n1 n2 7.1 out 22404-22405 4",
        "answer n1 n2 7.1 out 22405-22410 again",
        "answer n1 n2 7.1 err 12-16 lost",
        "answer n1 n2 7.1 err 16-20 lost",
        "ask n1 n3 8.1 took err",
        "ask n1 n3 8.1 eof 2",
        "ask n1 n3 9.1 in+ 0-2 33",
        "ask n1 n3 9.1 eof 4",
        "ask n1 n3 9.2 in+ 0-2 33",
        "ask n1 n3 9.2 eof cut",
        "answer n1 n2 7.1 got 1",
        "answer n1 n2 7.1 code 7 22410 20",
        "answer n1 n2 7.2 out 0-1 1",
        "answer n1 n2 7.2 code 7 1 0",
        "answer n1 n2 7.3 out 0-1 1",
        "answer n1 n2 7.3 code 0 2 0",
        "answer n1 n2 7.1 no it is  away",
    )
    given = "".join(f"{line}\n" for line in lines).encode()
    sh('bash -c "$GUARD"', shell="bash", stdin=given, environ={"GUARD": GUARD, "ASKED": "asked"})
    said: dict[str, list[str]] = {}
    for line in (tmp_path / "asked").read_text().splitlines():
        word, node, command, text = line.split(" ", 3)
        box = f"run.{node}.{command}" if word == "ask" else f"ask.{command}"
        if match := NAME.match(text):
            text = f"{match[1]}: {(tmp_path / f'{box}.{match[1]}.{match[2]}').read_text().strip()}"
        said.setdefault(box, []).append(text)
    whole = "\n".join(("1111", *["2" * 3200] * 7, "4"))
    more = ["err gap", "got 1", "code gap", "no it is  away"]
    assert said == {
        "ask.7.1": ["err: eeeeee==", f"out: {whole}", "out: again", *more],
        "ask.7.2": ["out: 1", "code 7 1 0"],
        "ask.7.3": ["out: 1", "code gap"],
        "run.n3.8.1": ["in: 33", "took err", "eof 2"],
        "run.n3.9.1": ["in gap", "in: 33"],
        "run.n3.9.2": ["in gap", "in: 33"],
    }
