"""What a person sees on standard error."""

from __future__ import annotations

import errno
import sys

import pytest
from pytest_mock import MockerFixture
from rich.text import Text

from mnrun.model import Command
from mnrun.nodes import kit
from mnrun.system.screen import Screen
from unit.typed import ClosedTerminal


def everything(screen: Screen) -> None:
    screen.say("4 nodes")
    screen.command(kit.typed(Command(("srun", "a b", "$x", "it's", kit.spoken(kit.INTO)))))
    screen.phase("waiting: 1/4")
    screen.phase("waiting: 2/4")
    screen.warn("no farewell")
    screen.done()


@pytest.mark.parametrize(
    ("quiet", "verbose", "seen"),
    [
        (False, False, "mnrun: 4 nodes\nmnrun: warning: no farewell\n"),
        (
            False,
            True,
            "mnrun: 4 nodes\n+ srun 'a b' '$x' 'it'\"'\"'s' '<into.sh>'\n"
            "mnrun: waiting: 1/4\nmnrun: waiting: 2/4\nmnrun: warning: no farewell\n",
        ),
        (True, False, "mnrun: warning: no farewell\n"),
    ],
)
def test_plain_lines_in_a_log_file(capsys: pytest.CaptureFixture[str], quiet: bool, verbose: bool, seen: str) -> None:
    everything(Screen(quiet=quiet, verbose=verbose))
    assert capsys.readouterr() == ("", seen)


def test_a_terminal_has_one_live_line(mocker: MockerFixture) -> None:
    mocker.patch.object(sys.stderr, "isatty", return_value=True)
    console = mocker.patch("rich.console.Console")
    status = console.return_value.status
    screen = Screen()
    screen.phase("waiting: 1/4")
    screen.phase("waiting: 2/4")
    screen.done()
    screen.done()
    console.assert_called_once_with(stderr=True)
    assert [call.args for call in status.call_args_list] == [(Text("waiting: 1/4"),)]
    assert [call.args for call in status.return_value.update.call_args_list] == [(Text("waiting: 2/4"),)]
    status.return_value.stop.assert_called_once_with()


def test_lines_do_not_tear_the_live_line(mocker: MockerFixture) -> None:
    mocker.patch.object(sys.stderr, "isatty", return_value=True)
    status = mocker.patch("rich.console.Console").return_value.status.return_value
    screen = Screen()
    screen.phase("waiting")
    screen.warn("[red]node[01-02]")
    status.console.print.assert_called_once_with(
        "mnrun: warning: [red]node[01-02]", markup=False, highlight=False, soft_wrap=True
    )


@pytest.mark.parametrize("text", ["building: echo >/dev/null [/usr/x]", "job [bold]7[/]", "[link=x]", "\\["])
def test_a_phase_is_no_markup(mocker: MockerFixture, capsys: pytest.CaptureFixture[str], text: str) -> None:
    """(L3) A step of a build, a registry's line or a job's name."""
    mocker.patch.object(sys.stderr, "isatty", return_value=True)
    screen = Screen()
    screen.phase("first")
    screen.phase(text)
    screen.done()
    assert text in capsys.readouterr().err


def test_quiet_has_no_live_line(mocker: MockerFixture) -> None:
    mocker.patch.object(sys.stderr, "isatty", return_value=True)
    console = mocker.patch("rich.console.Console")
    Screen(quiet=True).phase("waiting")
    console.assert_not_called()


def test_a_terminal_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", ClosedTerminal())
    with pytest.raises(OSError):
        print("it is closed", file=sys.stderr, flush=True)
    Screen().say("ended by SIGHUP")


def test_a_terminal_that_is_closed_while_a_line_changes(mocker: MockerFixture) -> None:
    """The launch then ends as with any HUP. rich writes to the terminal where the line goes."""
    mocker.patch.object(sys.stderr, "isatty", return_value=True)
    status = mocker.patch("rich.console.Console").return_value.status.return_value
    status.stop.side_effect = status.console.print.side_effect = OSError(errno.EIO, "Input/output error")
    screen = Screen()
    screen.phase("waiting")
    screen.say("ended by SIGHUP")
    screen.done()
    screen.done()
