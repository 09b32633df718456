"""Commands in pods: what comes of the streams of kubectl exec, however it ends. hold.sh runs for real."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

import mnrun
from mnrun.files import wrapper
from mnrun.reach.channel import answer
from mnrun.schedulers.kubernetes import channel
from mnrun.schedulers.kubernetes.kubectl import Place
from unit.conftest import Shell

PLACE = Place("kubectl", "here", "team")


Heard = Callable[..., "tuple[int | None, str, str]"]


class Client:
    """A kubectl exec, with its output and its errors, in which MARK is that of the command."""

    def __init__(self, out: bytes, errors: tuple[bytes, ...]) -> None:
        self.sent, self.argv = b"", ("",)
        self._out, self._errors = iter((out,)), iter(errors)

    @property
    def mark(self) -> bytes:
        found = re.search(rb"mnrun\.[0-9a-f]{16}", self.sent)
        assert found
        return found[0]

    def receive(self, stream: int) -> bytes:
        data = next(self._out if stream == 1 else self._errors, b"")
        return data.replace(b"MARK", self.mark)

    def send(self, data: bytes) -> None:
        self.sent += data

    def shut(self) -> None:
        pass

    def wait(self) -> int | None:
        return 0

    def cut(self) -> None:
        pass


@pytest.fixture
def heard(mocker: MockerFixture) -> Heard:
    """Return the answer of a command in a pod to which kubectl says this."""

    def ask(*errors: bytes, out: bytes = b"") -> tuple[int | None, str, str]:
        client = Client(out, errors)
        mocker.patch.object(channel, "ProcessChannel", return_value=client)
        found = answer(channel.Exec(PLACE, "a-0", ("echo", "a b")), (b"input",), 20)
        return found.code, found.out, found.err

    return ask


def test_what_the_pod_tells_counts(heard: Heard) -> None:
    end = b"command terminated with exit code 7\n"
    assert heard(b"Defaulted container\nMARK\n", b"one\0two", b"\0MARK 7\n", end, out=b"x") == (7, "x", "one\0two")
    whole = b"MARK\nwords\0MARK 0\n"
    assert heard(whole) == (0, "", "words")
    assert heard(b"MARK\nwords\0", b"MARK 3", b"\n") == (3, "", "words")


def test_an_end_that_no_pod_has_told(heard: Heard) -> None:
    assert heard() == (None, "", "the connection to it broke")
    assert heard(b"MARK\nwor", b"ds") == (None, "", "words")
    assert heard(b"MARK\n\0MARK ") == (None, "", "the connection to it broke")
    said = b'Error from server (NotFound): pods "a-0" not found\n'
    assert heard(said)[2].strip() == f"kubectl: {said.decode().strip()}"
    right = 'pods "a-0" is forbidden: User "bob" cannot create resource "pods/exec" in API group ""'
    assert heard(f"Error from server (Forbidden): {right}\n".encode())[2] == (
        "bob may not create pods/exec in namespace team\n"
    )


def test_the_words_come_first_on_the_input(mocker: MockerFixture, sh: Shell) -> None:
    """A proxy may cut a long URL. Any shell in the pod makes the same words of them."""
    client = Client(b"", ())
    started = mocker.patch.object(channel, "ProcessChannel", return_value=client)
    words = ("printf", "<%s>", "a b", "$HOME", "'", '"', "\n", "ü", "")
    channel.Exec(PLACE, "a-0", words)
    (argv,) = started.call_args.args
    assert argv[:6] == ("kubectl", "--context=here", "--namespace=team", "exec", "-i", "a-0")
    assert len(shlex.join(argv)) < 300
    shell = argv[argv.index("--") + 1 :]
    assert sh(shlex.join(shell), stdin=client.sent, shell="bash") == "<a b><$HOME><'><\"><\n><ü><>".encode()


@pytest.fixture
def entered(sh: Shell, tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """Return the output and the errors of a command of `mnrun exec`, with this kubectl: its WORDS are "$@"."""

    def enter(kubectl: str, *words: str, code: int) -> tuple[str, str]:
        program = tmp_path / "kubectl"
        program.write_text(f'#!/bin/sh\nuntil [ "$1" = -- ]; do shift; done\nshift\n{kubectl}\n')
        program.chmod(0o755)
        argv = channel.within(Place(str(program), "here", "team"), "a-0", words, terminal=False)
        path = {"PYTHONPATH": str(Path(mnrun.__file__).parents[1])}
        out = sh(f"{shlex.join(argv)} 2>errors", stdin=b"input\n", environ=path, code=code)
        return out.decode(), (tmp_path / "errors").read_text()

    return enter


def test_a_command_of_mnrun_exec(entered: Callable[..., tuple[str, str]]) -> None:
    """Its code is that of the pod, and 121 where kubectl ends before it, with 0 as in #73056."""
    words = ("sh", "-c", "read -r a && echo got $a && echo no >&2; exit 7")
    assert entered('exec "$@"', *words, code=7) == ("got input\n", "no\n")
    assert entered('"$@"; echo command terminated with exit code 9 >&2; exit 9', *words, code=7)[1] == "no\n"
    broken = "mnrun: a-0: the connection to it ended before the command did\n"
    assert entered('"$@" 2>&1 >/dev/null | head -c 23 >&2; exit 0', "true", code=121) == ("", broken)
    said = """echo 'Error from server (NotFound): pods "a-0" not found' >&2; exit 1"""
    assert 'pods "a-0" not found' in entered(said, "true", code=121)[1]


def test_a_pod_ends_without_guards(sh: Shell, tmp_path: Path) -> None:
    """By the clock, whatever a round takes on a busy node."""
    (tmp_path / "sleep").write_text("#!/bin/sh\nexec /usr/bin/sleep 3\n")
    (tmp_path / "sleep").chmod(0o755)
    begin = time.monotonic()
    sh(f"set -- 4 4; {held('none-bcdfg')}", environ={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, code=76)
    assert time.monotonic() - begin < 11


def test_a_pod_ends_after_a_launch_that_it_has_not_seen(sh: Shell) -> None:
    """Its guards have come and gone within a second."""
    sh(f"(set -- 600 2; {held('none-bcdfg')}) & sleep 0.5; kill -s USR1 $!; wait $!", code=76)


def test_a_pod_that_is_ended_tells_its_guards(sh: Shell) -> None:
    guard = 'trap "rm -r $place; echo told; exit" TERM; mkdir $place; echo "$place node $1 1 boot" >$place/own; echo up'
    script = f"""place=/tmp/mnrun.held-bcdfg-$$
(set -- $(exec sh -c 'echo $PPID'); {guard}; while :; do sleep 0.1; done) &
until [ -e $place/own ]; do sleep 0.1; done
(exec sh -c {shlex.quote(wrapper("hold.sh"))} held-bcdfg 600 600) >/dev/null & holder=$!
sleep 0.5; kill $holder; wait $holder; echo "code $?"
"""
    assert sh(script).split(b"\n") == [b"up", b"told", b"code 143", b""]


def test_a_pod_whose_nodes_call_tells_its_guards(sh: Shell) -> None:
    """Its first process waits for the launcher meanwhile, which is not there."""
    guard = 'trap "rm -r $place; echo told; exit" TERM; mkdir $place; echo "$place node $1 1 boot" >$place/own; echo up'
    script = f"""place=/tmp/mnrun.call-bcdfg-$$
(set -- $(exec sh -c 'echo $PPID'); {guard}; while :; do sleep 0.1; done) & guard=$!
until [ -e $place/own ]; do sleep 0.1; done
export mnrun_secret=1
bash --norc -p -c {shlex.quote(wrapper("call.sh"))} '' x-0 1 localhost 600 >/dev/null 2>&1 &
sleep 0.5; kill $!; wait $guard; kill -KILL $!
"""
    assert sh(script, shell="bash").split() == [b"up", b"told"]


def held(job: str) -> str:
    return f'exec sh -c {shlex.quote(wrapper("hold.sh"))} {job} "$@"'
