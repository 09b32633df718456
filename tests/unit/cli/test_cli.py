"""The command line: what is read as what, one line for every mistake, and the exit code."""

from __future__ import annotations

import errno
import io
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun import __version__
from mnrun.cli.parsing import print_text
from mnrun.errors import LaunchError, NodeError
from mnrun.running import execute
from mnrun.schedulers import slurm
from mnrun.system import modules
from unit.jobs.test_archive import made
from unit.typed import Answer, ClosedTerminal, Launched, Terminal, complaint

IMAGE = ("--image", "/app.sif")


def test_run_is_the_default_verb(mnrun: Terminal, job: Launched) -> None:
    """With options in front or not."""
    mnrun(*IMAGE, "./app")
    mnrun("run", *IMAGE, "./app")
    assert [plan.spec for plan in job.plans[:1]] == [plan.spec for plan in job.plans[1:]]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("./app", "-n", "3", "--image", "x"), ("./app", "-n", "3", "--image", "x")),
        (("--", "./app", "-n", "3"), ("./app", "-n", "3")),
        (("./app", "--", "-x"), ("./app", "--", "-x")),
        (("--", "--odd-name"), ("--odd-name",)),
        (("app", "plan"), ("app", "plan")),
        (("--", "plan"), ("plan",)),
        (("a b", "", "$x", "ü", "\n"), ("a b", "", "$x", "ü", "\n")),
        (("app", "-h"), ("app", "-h")),
        (("app", "-npernode", "-v", "a:b"), ("app", "-npernode", "-v", "a:b")),
    ],
)
def test_options_end_at_the_first_word_that_is_none(
    mnrun: Terminal, job: Launched, words: tuple[str, ...], command: tuple[str, ...]
) -> None:
    """As for srun and mpirun, with and without `--`: everything after it is the program's."""
    assert mnrun(*IMAGE, *words).code == 0
    assert job.plan.spec.program.command == command


@pytest.mark.parametrize(("code", "line"), [(0, ""), (3, "mnrun: the program exited with 3\n")])
def test_a_program_that_fails_has_a_last_line(mnrun: Terminal, job: Launched, code: int, line: str) -> None:
    """A quiet run has nothing else."""
    job.code = code
    answer = mnrun("-Q", "--image", "/app.sif", "./app")
    assert (answer.code, answer.out, answer.err) == (code, "", line)


def test_a_verb_counts_as_the_very_first_word_alone(mnrun: Terminal, job: Launched) -> None:
    """A program may be called plan."""
    assert mnrun("--", "plan", "x").code == 2  # no image: it was read as a command
    assert mnrun("--image=/app.sif", "plan", "x").code == 0
    assert job.plan.spec.program.command == ("plan", "x")


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (("-n", "3"), "ntasks", 3),
        (("-n3",), "ntasks", 3),
        (("-np", "3"), "ntasks", 3),
        (("--ntasks=3",), "ntasks", 3),
        (("-ppn", "2"), "ntasks_per_node", 2),
        (("-N", "2"), "nodes", 2),
        (("-N2",), "nodes", 2),
        (("-c", "4"), "cpus_per_task", 4),
        (("--pwd", "/x"), "chdir", "/x"),
        (("--workdir=/x",), "chdir", "/x"),
        (("-w", "node[01-02]"), "nodelist", "node[01-02]"),
        (("-x", "A=b", "-xC=d"), "forwarded", ("A", "C")),
        (("--mpi-args", "--mca btl tcp,self"), "mpi_args", ("--mca", "btl", "tcp,self")),
        (("--keep",), "keep", True),
    ],
)
def test_spellings(mnrun: Terminal, job: Launched, words: tuple[str, ...], name: str, value: object) -> None:
    """Slurm's and mpirun's own, with the value beside or attached."""
    assert mnrun(*IMAGE, *words, "./app").code == 0
    assert job.plan.spec.value(name) == value


@pytest.mark.parametrize("spelling", ["--container-image", "-npernode", "--mca", "--comment", "--fakeroot", "--rm"])
def test_another_tools_option_is_answered_wherever_it_stands(mnrun: Terminal, job: Launched, spelling: str) -> None:
    """One line that names it, in front of the others, behind them, and with its value attached."""
    for words in ((spelling, "2"), (*IMAGE, "-n", "2", spelling, "2"), (f"{spelling}=2",)):
        assert complaint(mnrun(*words, "./app")).startswith(f"{spelling} is an option of ")
    assert job.plans == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-v", "/a:/b"), "-v is --verbose here, and not docker's volume /a:/b; write --bind /a:/b"),
        (("-e", "A=b"), "-e is another tool's option; for a variable write -x A=b"),
        (("-eA=b",), "-e is another tool's option; for a variable write -x A=b"),
        (("-x", "node03"), "-x node03: there is no variable node03 here; to leave a node out write --exclude node03"),
        (("-B", "2:8"), "--bind '2:8' is not a path; Slurm's -B is --extra-node-info of salloc"),
    ],
)
def test_a_habit_that_means_something_else_here(
    mnrun: Terminal, job: Launched, words: tuple[str, ...], said: str
) -> None:
    """Same letters, other tool: one line with what to write."""
    assert complaint(mnrun(*IMAGE, *words, "./app")) == said


def test_a_value_is_no_option(mnrun: Terminal, job: Launched) -> None:
    """`--mpi-args -mca` gives mpirun its own word; `-D -e` is an odd directory."""
    assert mnrun(*IMAGE, "--mpi-args", "-mca", "-D", "-e", "./app").code == 0
    assert job.plan.spec.start.mpi_args == ("-mca",)


@pytest.mark.parametrize(
    ("words", "near"),
    [(("--imgae", "x"), "--image"), (("--ntask", "3"), "--ntasks"), (("--bindto", "core"), "--bind-to")],
)
def test_an_unknown_option_is_answered_with_a_near_one(
    mnrun: Terminal, job: Launched, words: tuple[str, ...], near: str
) -> None:
    """Prefixes do not count as options; a near miss is told."""
    said = complaint(mnrun(*IMAGE, *words, "./app"))
    assert words[0] in said
    assert near in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--mode", "inside_out"),
            "--mode 'inside_out' is unknown (command line); did you mean inside-out? "
            "use one of auto, inside-out, outside-in",
        ),
        (
            ("--mode", "x"),
            "--mode 'x' is unknown (command line); use one of auto, inside-out, outside-in",
        ),
        (("-n", "many"), "--ntasks 'many' is not a positive number (command line)"),
        (("-np16",), "--ntasks 'p16' is not a positive number (command line)"),
        (("--env-file", "none.env"), "--env-file none.env: No such file or directory"),
        (("--start-timeout", "soon"), "--start-timeout 'soon' is not a time (command line); write 120s, 5m or 1h"),
        (("--mode", "inside-out", "--launcher", "srun"), ""),
    ],
)
def test_a_wrong_value(mnrun: Terminal, job: Launched, words: tuple[str, ...], said: str) -> None:
    """Option, value, where it came from, and what would be right."""
    answer = mnrun(*IMAGE, *words, "./app")
    if said:
        assert complaint(answer) == said
    else:
        assert (answer.code, answer.out) == (122, "")
        assert answer.err == "mnrun: srun starts ranks from outside the containers; add --mode outside-in\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("./app",), "no image; name one with --image FILE, or run without containers: --runtime host"),
        (IMAGE, "no command; write it after the options: mnrun --image app.sif -- ./app"),
        ((*IMAGE, "--"), "no command; write it after the options: mnrun --image app.sif -- ./app"),
    ],
)
def test_something_is_missing(mnrun: Terminal, job: Launched, words: tuple[str, ...], said: str) -> None:
    """What, and how to give it."""
    assert complaint(mnrun(*words)) == said


def test_an_option_without_its_value(mnrun: Terminal, job: Launched) -> None:
    """The option is named."""
    assert "'--image'" in complaint(mnrun("--image"))


def test_the_environment_has_one_name_per_option(
    mnrun: Terminal, job: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MNRUN_ + the long name, for every verb; the command line is believed over it."""
    monkeypatch.setenv("MNRUN_IMAGE", "/from/env.sif")
    monkeypatch.setenv("MNRUN_NTASKS", "3")
    monkeypatch.setenv("MNRUN_BIND", "/a,/b:/c")
    monkeypatch.setenv("MNRUN_KEEP", "1")
    assert mnrun("-n", "2", "-B", "/d", "./app").code == 0
    spec = job.plan.spec
    assert (spec.container.image_name, spec.resources.ntasks, spec.keep) == ("/from/env.sif", 2, True)
    assert [str(mount) for mount in spec.container.binds] == ["/a:/a", "/b:/c", "/d:/d"]
    assert "image = /from/env.sif    # MNRUN_IMAGE\n" in mnrun("plan", "./app").out


def test_a_wrong_value_in_the_environment_names_the_variable(
    mnrun: Terminal, job: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who typed nothing wrong must be told where to look."""
    monkeypatch.setenv("MNRUN_MODE", "sideways")
    said = complaint(mnrun(*IMAGE, "./app"))
    assert said.startswith("--mode 'sideways' is unknown (MNRUN_MODE); ")


def test_how_much_is_said_can_come_from_the_environment(
    mnrun: Terminal, job: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MNRUN_QUIET and MNRUN_VERBOSE are options like all others."""
    monkeypatch.setenv("MNRUN_QUIET", "1")
    monkeypatch.setenv("MNRUN_VERBOSE", "1")
    assert mnrun(*IMAGE, "./app").err == ""
    assert [(screen.quiet, screen.verbose) for screen in job.screens] == [(True, True)]


def test_a_flag_that_is_off_in_the_environment_is_shown_as_off(
    mnrun: Terminal, job: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """plan tells what holds."""
    monkeypatch.setenv("MNRUN_NO_HOME", "0")
    monkeypatch.setenv("MNRUN_KEEP", "0")
    shown = mnrun("plan", *IMAGE, "./app").out.lower()
    assert "no_home = false" in shown
    assert "keep = false" in shown


def test_what_was_chosen_is_said(mnrun: Terminal, job: Launched) -> None:
    """Nodes and ranks, why, and how, on standard error; standard output is the program's alone."""
    answer = mnrun("-n", "7", "-N", "3", *IMAGE, "./app")
    assert answer.out == ""
    assert answer.err == (
        "mnrun: 3 nodes x 3 + 2 + 2 ranks (--ntasks (command line)) on node[01-03] (--nodes 3: the first of 4); "
        "inside-out, apptainer, ranks by mpirun, or by mnrun without one\n"
    )


def test_quiet_says_nothing(mnrun: Terminal, job: Launched) -> None:
    """-Q: errors only."""
    assert mnrun("-Q", *IMAGE, "./app") == Answer(0, "", "")


@pytest.mark.parametrize("code", [0, 1, 2, 7, 120, 126, 127, 137, 255])
def test_the_programs_own_code(mnrun: Terminal, job: Launched, code: int) -> None:
    """Untouched, whatever ours mean."""
    job.code = code
    assert mnrun("-Q", *IMAGE, "./app").code == code


@pytest.mark.parametrize("kind", LaunchError.__subclasses__())
def test_our_own_codes(mnrun: Terminal, job: Launched, kind: type[LaunchError]) -> None:
    """One line, and the code of its kind."""
    job.failure = kind("it broke", "mend it")
    assert mnrun("-Q", *IMAGE, "./app") == Answer(kind.code, "", "mnrun: it broke; mend it\n")


def test_a_bug_of_ours(mnrun: Terminal, job: Launched) -> None:
    """120, and a report that can be pasted."""
    job.failure = RuntimeError("what")
    answer = mnrun("-Q", *IMAGE, "./app")
    assert answer.code == 120
    assert "RuntimeError: what" in answer.err
    assert answer.err.endswith("mnrun: this is a bug in mnrun; please report the lines above\n")


def test_interrupted_before_anything_runs(mnrun: Terminal, job: Launched) -> None:
    """As a shell tells it, on a new line after the ^C."""
    job.failure = KeyboardInterrupt()
    assert mnrun("-Q", *IMAGE, "./app") == Answer(130, "", "\n")


def test_the_records_go_whatever_happens(mnrun: Terminal, job: Launched, tmp_path: Path) -> None:
    """And stay with --keep, which says where."""
    job.failure = NodeError("lost")
    assert mnrun("-Q", *IMAGE, "./app").code == 121
    assert list((tmp_path / ".mnrun/jobs").iterdir()) == []
    job.failure = None
    answer = mnrun("--keep", *IMAGE, "./app")
    (kept,) = (tmp_path / ".mnrun/jobs").iterdir()
    assert f"mnrun: kept: {kept}, and /tmp/mnrun.{kept.name} on the nodes\n" in answer.err


def test_local_runs_here(mnrun: Terminal, mocker: MockerFixture) -> None:
    """--local, or a machine without Slurm."""
    launched = Launched()
    mocker.patch.object(execute, "execute", launched)
    assert mnrun("--local", "--runtime", "host", "-Q", "./app").code == 0
    mocker.patch.object(slurm, "is_here", return_value=False)
    assert mnrun("--runtime", "host", "-Q", "./app").code == 0
    assert [plan.job.partition("-")[0] for plan in launched.plans] == ["local", "local"]


def test_srun_needs_slurm(mnrun: Terminal) -> None:
    """--local has no srun."""
    said = complaint(mnrun("--local", "--mode", "outside-in", "--launcher", "srun", *IMAGE, "./app"))
    assert said == "--launcher srun needs a Slurm allocation; use --launcher mpirun with --local"


def test_two_launches_never_have_the_same_id(mnrun: Terminal, job: Launched) -> None:
    """Ids name directories on nodes that jobs share: the scheduler's, and a token of our own."""
    for _ in range(3):
        mnrun("-Q", *IMAGE, "./app")
    ids = {plan.job for plan in job.plans}
    assert len(ids) == 3
    assert all(name.startswith("7-") and len(name) == 8 for name in ids)


def test_plan_needs_no_allocation(mnrun: Terminal) -> None:
    """It shows what would be, and starts nothing."""
    answer = mnrun("plan", "-N", "2", *IMAGE, "./app")
    assert (answer.code, answer.err) == (0, "")
    assert "nodes: 2 (--nodes)\n" in answer.out


@pytest.mark.parametrize("word", ["-V", "--version"])
def test_version(mnrun: Terminal, word: str) -> None:
    """Name and number."""
    assert mnrun(word) == Answer(0, f"mnrun {__version__}\n", "")


@pytest.mark.parametrize("words", [("-h",), ("--help",), ("run", "-h"), ("plan", "--help")])
def test_help(mnrun: Terminal, words: tuple[str, ...]) -> None:
    """Of the whole, and of each verb with all options."""
    answer = mnrun(*words)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("Usage: " if len(words) == 2 else "mnrun: ")
    assert "--image" in answer.out


def test_nothing_at_all(mnrun: Terminal) -> None:
    """`mnrun` alone is answered with the first page."""
    answer = mnrun()
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == mnrun("--help").out


def test_words_that_are_no_utf8(mnrun: Terminal, job: Launched) -> None:
    """A file's name may be any bytes: run takes them, and plan shows them."""
    odd = os.fsdecode(b"a\xffb")
    assert mnrun("-Q", *IMAGE, odd).code == 0
    assert job.plan.spec.program.command == (odd,)


def test_a_current_directory_through_a_link_keeps_its_name(
    mnrun: Terminal, job: Launched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """$PWD, as the person walked: what a link means is a fact of the node."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path / "link")
    monkeypatch.setenv("PWD", str(tmp_path / "link"))
    mnrun("-Q", *IMAGE, "./app")
    assert job.plan.spec.program.chdir == str(tmp_path / "link")


def test_a_pwd_that_lies_is_not_believed(
    mnrun: Terminal, job: Launched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sudo and cron leave another's."""
    monkeypatch.setenv("PWD", "/somewhere/else")
    mnrun("-Q", *IMAGE, "./app")
    assert job.plan.spec.program.chdir == str(tmp_path)


def test_a_current_directory_that_is_gone(
    mnrun: Terminal, job: Launched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was removed under the shell: one line, no traceback."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    said = complaint(mnrun(*IMAGE, "./app"))
    assert "current directory" in said


def test_standard_output_that_is_closed(mnrun: Terminal, job: Launched, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mnrun … >&-`, as cron and daemons start programs: the code is what it would be."""
    monkeypatch.setattr(sys, "stdout", None)
    assert mnrun("./app").code == 2
    job.failure = NodeError("lost")
    assert mnrun("-Q", *IMAGE, "./app").code == 121


@pytest.mark.parametrize("words", [["--help"], ["status"]])
def test_standard_output_that_nobody_reads(
    mnrun: Terminal, mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    """`mnrun … | head -1`: the code of a program that SIGPIPE ends, and no traceback. A table is written at the end."""
    made(tmp_path / ".mnrun" / "jobs", "7", 3, time=time.time())
    mocker.patch.object(slurm, "is_here", return_value=False)
    reader, writer = os.pipe()
    os.close(reader)
    with suppress(BrokenPipeError), open(writer, "w", encoding="utf-8") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        answer = mnrun(*words)
    assert (answer.code, answer.err) == (141, "")


class Full(io.StringIO):
    """A file on a full disk."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self.fd = fd

    def fileno(self) -> int:
        return self.fd

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_standard_output_on_a_full_disk(mnrun: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`mnrun … >FILE`: one line, and no traceback. What Python writes at its end goes nowhere."""
    with open(tmp_path / "full", "wb", buffering=0) as file:
        monkeypatch.setattr(sys, "stdout", Full(file.fileno()))
        answer = mnrun("--help")
        file.write(b"the rest")
    assert (tmp_path / "full").read_bytes() == b""
    assert (answer.code, answer.err) == (1, "mnrun: cannot write the output: No space left on device\n")


def test_a_plan_goes_into_any_terminal(mnrun: Terminal, job: Launched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words that standard output has no letters for are shown otherwise, and are no bug of ours."""
    narrow = io.TextIOWrapper(io.BytesIO(), "latin-1", errors="strict")
    monkeypatch.setattr(sys, "stdout", narrow)
    assert mnrun("plan", *IMAGE, "./app", "漢", os.fsdecode(b"a\xffb")).code == 0
    narrow.flush()


def test_exit_code_with_a_closed_terminal(mnrun: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can read the message, and the exit code is the same."""
    monkeypatch.setattr(sys, "stderr", ClosedTerminal())
    assert mnrun("run", "--runtime", "host", "--mode", "sideways", "./app").code == 2


def test_modules_are_loaded_for_a_plan(mnrun: Terminal, mocker: MockerFixture) -> None:
    """As for a run, and not for a batch script."""
    load = mocker.patch.object(modules, "load", side_effect=lambda names, environ: environ)
    words = ("--module", "apptainer/1.3", "--image", "/app.sif", "--", "./app")
    assert mnrun("plan", "--format", "sbatch", *words).code == 0 and not load.called
    assert mnrun("plan", *words).code == 0
    assert load.call_args.args[0] == ("apptainer/1.3",)


def test_hosts_are_no_rivals_of_a_false_local(mnrun: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names no machine."""
    monkeypatch.setenv("MNRUN_LOCAL", "false")
    answer = mnrun("submit", "--dry-run", "--hosts", "node01", "--image", "/app.sif", "--", "./app")
    assert "a job with --hosts cannot be submitted" in answer.err


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_gets_no_control_characters_of_others(
    mocker: MockerFixture, capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    """(L12) A job file may hold a title for the terminal. In a file, a script is as it is."""
    mocker.patch.object(sys.stdout, "isatty", return_value=terminal)
    print_text("a\x1b]0;title\x07\nb")
    assert capsys.readouterr().out == ("a?]0;title?\nb\n" if terminal else "a\x1b]0;title\x07\nb\n")
