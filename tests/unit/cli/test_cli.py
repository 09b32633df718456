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

from mnrun.cli.parsing import print_text
from mnrun.errors import LaunchError, NodeError
from mnrun.running import execute
from mnrun.schedulers.slurm import scheduler as slurm
from mnrun.system import modules
from unit.jobs.test_archive import made
from unit.texts import Says
from unit.typed import Answer, ClosedTerminal, Complaint, Launched, Terminal

IMAGE = ("--image", "/app.sif")


def test_run_is_the_default_verb(mnrun: Terminal, job: Launched) -> None:
    mnrun(*IMAGE, "./app")
    mnrun("run", *IMAGE, "./app")
    assert [plan.spec for plan in job.plans[:1]] == [plan.spec for plan in job.plans[1:]]


@pytest.mark.parametrize(("code", "line"), [(0, ""), (3, "mnrun: the program exited with 3\n")])
def test_a_program_that_fails_has_a_last_line(mnrun: Terminal, job: Launched, code: int, line: str) -> None:
    job.code = code
    answer = mnrun("-Q", "--image", "/app.sif", "./app")
    assert (answer.code, answer.out, answer.err) == (code, "", line)


def test_a_value_is_no_option(mnrun: Terminal, job: Launched) -> None:
    """`--mpi-args -mca` gives mpirun its own word; `-D -e` is an odd directory."""
    assert mnrun(*IMAGE, "--mpi-args", "-mca", "-D", "-e", "./app").code == 0
    assert job.plan.spec.start.mpi_args == ("-mca",)


def test_the_environment_has_one_name_per_option(
    mnrun: Terminal, job: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    mnrun: Terminal, job: Launched, monkeypatch: pytest.MonkeyPatch, complaint: Complaint
) -> None:
    monkeypatch.setenv("MNRUN_MODE", "sideways")
    complaint(mnrun(*IMAGE, "./app"))


def test_how_much_is_said_can_come_from_the_environment(
    mnrun: Terminal, job: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNRUN_QUIET", "1")
    monkeypatch.setenv("MNRUN_VERBOSE", "1")
    assert mnrun(*IMAGE, "./app").err == ""
    assert [(screen.quiet, screen.verbose) for screen in job.screens] == [(True, True)]


def test_a_flag_that_is_off_in_the_environment_is_shown_as_off(
    mnrun: Terminal, job: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNRUN_NO_HOME", "0")
    monkeypatch.setenv("MNRUN_KEEP", "0")
    shown = mnrun("plan", *IMAGE, "./app").out.lower()
    assert "no_home = false" in shown
    assert "keep = false" in shown


def test_what_was_chosen_is_said(mnrun: Terminal, job: Launched, complaint: Complaint) -> None:
    complaint(mnrun("-n", "7", "-N", "3", *IMAGE, "./app"), 0)


def test_quiet_says_nothing(mnrun: Terminal, job: Launched) -> None:
    assert mnrun("-Q", *IMAGE, "./app") == Answer(0, "", "")


@pytest.mark.parametrize("code", [0, 1, 2, 7, 120, 126, 127, 137, 255])
def test_the_programs_own_code(mnrun: Terminal, job: Launched, code: int) -> None:
    job.code = code
    assert mnrun("-Q", *IMAGE, "./app").code == code


@pytest.mark.parametrize("kind", LaunchError.__subclasses__())
def test_our_own_codes(mnrun: Terminal, job: Launched, kind: type[LaunchError]) -> None:
    job.failure = kind("it broke", "mend it")
    assert mnrun("-Q", *IMAGE, "./app") == Answer(kind.code, "", "mnrun: it broke; mend it\n")


def test_a_bug_of_ours(mnrun: Terminal, job: Launched, says: Says) -> None:
    """120, and a report that can be pasted."""
    job.failure = RuntimeError("what")
    answer = mnrun("-Q", *IMAGE, "./app")
    assert answer.code == 120
    assert "RuntimeError: what" in answer.err
    says(answer.err.splitlines()[-1])


def test_interrupted_before_anything_runs(mnrun: Terminal, job: Launched) -> None:
    job.failure = KeyboardInterrupt()
    assert mnrun("-Q", *IMAGE, "./app") == Answer(130, "", "\n")


def test_the_records_go_whatever_happens(mnrun: Terminal, job: Launched, tmp_path: Path) -> None:
    job.failure = NodeError("lost")
    assert mnrun("-Q", *IMAGE, "./app").code == 121
    assert list((tmp_path / ".mnrun/jobs").iterdir()) == []
    job.failure = None
    answer = mnrun("--keep", *IMAGE, "./app")
    (kept,) = (tmp_path / ".mnrun/jobs").iterdir()
    assert (
        f"mnrun: kept: {kept}, and /tmp/mnrun.{kept.name} and /dev/shm/mnrun.{kept.name} on the nodes; " in answer.err
    )


def test_local_runs_here(mnrun: Terminal, mocker: MockerFixture) -> None:
    launched = Launched()
    mocker.patch.object(execute.Launch, "run", autospec=True, side_effect=launched)
    assert mnrun("--local", "--runtime", "host", "-Q", "./app").code == 0
    mocker.patch.object(slurm, "is_here", return_value=False)
    assert mnrun("--runtime", "host", "-Q", "./app").code == 0
    assert [plan.job.partition("-")[0] for plan in launched.plans] == ["local", "local"]


@pytest.mark.parametrize("words", [("--scheduler", "slurm"), ("plan", "--scheduler", "slurm")])
def test_a_scheduler_that_is_not_here(
    mnrun: Terminal, mocker: MockerFixture, words: tuple[str, ...], complaint: Complaint
) -> None:
    mocker.patch.object(slurm, "is_here", return_value=False)
    complaint(mnrun(*words, "--runtime", "host", "./app"))


def test_srun_needs_slurm(mnrun: Terminal, complaint: Complaint) -> None:
    """--local has no srun."""
    complaint(mnrun("--local", "--mode", "outside-in", "--launcher", "srun", *IMAGE, "./app"))


def test_two_launches_never_have_the_same_id(mnrun: Terminal, job: Launched) -> None:
    for _ in range(3):
        mnrun("-Q", *IMAGE, "./app")
    ids = {plan.job for plan in job.plans}
    assert len(ids) == 3
    assert all(name.startswith("7-") and len(name) == 8 for name in ids)


def test_plan_needs_no_allocation(mnrun: Terminal) -> None:
    answer = mnrun("plan", "-N", "2", *IMAGE, "./app")
    assert (answer.code, answer.err) == (0, "")
    assert "nodes: 2 (--nodes)\n" in answer.out


def test_words_that_are_no_utf8(mnrun: Terminal, job: Launched) -> None:
    odd = os.fsdecode(b"a\xffb")
    assert mnrun("-Q", *IMAGE, odd).code == 0
    assert job.plan.spec.program.command == (odd,)


def test_a_current_directory_through_a_link_keeps_its_name(
    mnrun: Terminal, job: Launched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    mnrun: Terminal, job: Launched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: Complaint
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    complaint(mnrun(*IMAGE, "./app"))


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


def test_standard_output_on_a_full_disk(
    mnrun: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, complaint: Complaint
) -> None:
    """`mnrun … >FILE`: one line, and no traceback. What Python writes at its end goes nowhere."""
    with open(tmp_path / "full", "wb", buffering=0) as file:
        monkeypatch.setattr(sys, "stdout", Full(file.fileno()))
        answer = mnrun("--help")
        file.write(b"the rest")
    assert (tmp_path / "full").read_bytes() == b""
    complaint(answer, 1)


def test_a_plan_goes_into_any_terminal(mnrun: Terminal, job: Launched, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), "latin-1", errors="strict")
    monkeypatch.setattr(sys, "stdout", narrow)
    assert mnrun("plan", *IMAGE, "./app", "漢", os.fsdecode(b"a\xffb")).code == 0
    narrow.flush()


def test_exit_code_with_a_closed_terminal(mnrun: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", ClosedTerminal())
    assert mnrun("run", "--runtime", "host", "--mode", "sideways", "./app").code == 2


def test_modules_are_loaded_for_a_plan(mnrun: Terminal, mocker: MockerFixture) -> None:
    load = mocker.patch.object(modules, "load", side_effect=lambda names, environ: environ)
    words = ("--module", "apptainer/1.3", "--image", "/app.sif", "--", "./app")
    assert mnrun("plan", "--format", "sbatch", *words).code == 0 and not load.called
    assert mnrun("plan", *words).code == 0
    assert load.call_args.args[0] == ("apptainer/1.3",)


@pytest.mark.parametrize("slurm", [True, False])
def test_hosts_are_no_rivals_of_a_false_local(
    mnrun: Terminal, mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch, complaint: Complaint, slurm: bool
) -> None:
    mocker.patch("mnrun.schedulers.slurm.scheduler.is_here", return_value=slurm)
    monkeypatch.setenv("MNRUN_LOCAL", "false")
    complaint(mnrun("submit", "--dry-run", "--hosts", "node01", "--image", "/app.sif", "--", "./app"), 122)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_gets_no_control_characters_of_others(
    mocker: MockerFixture, capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    """(L12) A job file may hold a title for the terminal. In a file, a script is as it is."""
    mocker.patch.object(sys.stdout, "isatty", return_value=terminal)
    print_text("a\x1b]0;title\x07\nb")
    assert capsys.readouterr().out == ("a?]0;title?\nb\n" if terminal else "a\x1b]0;title\x07\nb\n")
