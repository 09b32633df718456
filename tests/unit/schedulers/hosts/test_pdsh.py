"""What one pdsh says of many hosts."""

from __future__ import annotations

import pytest
from pytest_mock import MockerFixture

from mnrun.model import Words
from mnrun.reach import channel
from mnrun.reach.channel import Answer
from mnrun.schedulers.hosts import pdsh
from mnrun.schedulers.hosts.pdsh import PdshTransport, answers


def test_the_words_of_each_host() -> None:
    """A host that ended badly or late, one out of reach, and lines of pdsh itself. pdsh may leave out a domain."""
    out = "a: 4MARK\na: one\na: two: three\nb: MARK\nb: x\nc: four\nnoise\n"
    err = (
        "pdsh@login: b.dom: ssh exited with exit code 3\nc: no route\npdsh@login: c: ssh exited with exit code 255\n"
        "pdsh@login: d: command timeout\npdsh@login: d: ssh exited with exit code 255\n"
        "pdsh@login: z: ssh exited with exit code 1\na: MARK\na: hm\n"
    )
    assert answers(Answer(0, out, err), ("a", "b.dom", "c", "d"), "MARK") == {
        "a": Answer(0, "one\ntwo: three\n", "hm\n"),
        "b.dom": Answer(3, "x\n", ""),
        "c": Answer(None, "", "no route\n"),
        "d": Answer(None, "", "", late=True),
    }
    assert answers(Answer(None, "", "", late=True), ("a",), "MARK") == {"a": Answer(None, "", "", late=True)}


class Told:
    """In place of pdsh: it notes its words, and says what hosts say."""

    def __init__(self, mocker: MockerFixture, said: str, err: str = "") -> None:
        mocker.patch.object(pdsh, "tied", side_effect=lambda argv: argv)
        mocker.patch.object(pdsh.login_shell, "mark", return_value="MARK")
        self.started = mocker.patch.object(pdsh, "ProcessChannel")
        mocker.patch.object(pdsh, "answer", return_value=Answer(0, said, err))

    @property
    def words(self) -> Words:
        argv: Words = self.started.call_args.args[0]
        return argv


@pytest.mark.parametrize(("login", "ssh_args"), [((), "%h"), (("-l", "bob", "-p", "23"), "-l%u %h")])
def test_one_pdsh_asks_many_hosts(mocker: MockerFixture, login: Words, ssh_args: str) -> None:
    """No host key is taken on trust, and what login shells print is dropped (F1). A host that is here needs no pdsh."""
    told = Told(mocker, "a: welcome\na: 42MARK\na: out\nb: welcome\n", "pdsh@login: b: ssh exited with exit code 9\n")
    hosts = PdshTransport({"PDSH_SSH_ARGS_APPEND": "-4"}, login, ("a", "b"), lambda *_: (), (), 255)
    assert hosts.ask(("printf", "%h"), seconds=7) == {
        "a": Answer(0, "out\n", ""),
        "b": Answer(9, "", f"its login shell ended with 9: {channel.FILES}"),
    }
    environ = told.started.call_args.kwargs["environ"]
    assert environ["PDSH_SSH_ARGS"] == ssh_args
    assert environ["PDSH_SSH_ARGS_APPEND"].startswith("-4 -o BatchMode=yes -o StrictHostKeyChecking=yes")
    assert told.words[:3] == ("pdsh", "-R", "ssh")
    assert ("-u", "7") in zip(told.words, told.words[1:])
    assert ("-l" in told.words) == bool(login)
    assert told.words[-2] == "a,b"


def test_a_question_with_an_input_goes_by_ssh(mocker: MockerFixture) -> None:
    """pdsh has no input, and one host needs no pdsh."""
    told = Told(mocker, "")
    by_ssh = mocker.patch("mnrun.reach.transport.ProcessChannel", side_effect=OSError)
    hosts = PdshTransport({}, (), ("a", "b", "c"), lambda node, *_: ("ssh", node), ("c",), 255)
    hosts.ask(("cat",), b"input")
    hosts.ask(("true",), only=("a", "c"))
    assert told.started.call_args_list == []
    assert sorted(call.args[0][:2] for call in by_ssh.call_args_list if call.args[0][0] == "ssh") == [
        *(("ssh", "a"), ("ssh", "a"), ("ssh", "b"))
    ]
