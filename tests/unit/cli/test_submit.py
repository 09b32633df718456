"""`mnrun submit` as it is typed: what is refused, what is warned of, and what is printed. sbatch is played."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pytest_mock import MockerFixture

from mnrun.jobs import records
from mnrun.schedulers import slurm
from mnrun.schedulers.queue import Job, PartitionNode
from published import checked
from unit.cli.test_jobs import Slurm
from unit.salloc import Queue
from unit.typed import Terminal, complaint

HOST = ("--runtime", "host", "-N", "2")


@pytest.fixture
def sbatch(mocker: MockerFixture) -> MagicMock:
    """sbatch takes every script, as job 271."""
    mocker.patch.object(slurm, "name", return_value="c1")
    return mocker.patch.object(slurm, "submit", return_value=("271", ""))


def test_the_id_and_the_way_to_its_output(mnrun: Terminal, sbatch: MagicMock) -> None:
    """The id is all there is on standard output."""
    answer = mnrun("submit", *HOST, "--", "hostname")
    assert (answer.code, answer.out) == (0, "271\n")
    assert answer.err == "mnrun: output: hostname-271.out; follow it: mnrun logs -f 271\n"


def test_an_array_is_followed_by_its_tasks(mnrun: Terminal, sbatch: MagicMock) -> None:
    """The number of the array alone is that of no task."""
    assert mnrun("submit", *HOST, "-a", "3-9:2", "--", "hostname").err.endswith("follow it: mnrun logs -f 271_3\n")
    assert "#SBATCH --output=%x-%A_%a.out" in sbatch.call_args.args[0]
    record = records.submitted((Path.home() / ".mnrun/jobs/271/submitted").read_text())
    assert record is not None and record.tasks == 4


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (("-o", "%x/%j-%N.txt", "-J", "mine"), "mine/271-%N.txt"),
        (("-a", "0-3"), "hostname-271_%a.out"),
        (("-a", "0-3", "-o", "%A_%a.out"), "271_%a.out"),
        (("-o", "100%%j"), "100%%j"),
    ],
)
def test_the_file_as_far_as_it_is_known(mnrun: Terminal, sbatch: MagicMock, words: tuple[str, ...], file: str) -> None:
    """The task of an array and the first node are not known yet."""
    assert f"output: {file}; follow it" in mnrun("submit", *HOST, *words, "--", "hostname").err


@pytest.mark.parametrize(
    ("state", "code", "line"),
    [("FAILED", 3, "job 271: failed, with code 3"), ("TIMEOUT", 124, "job 271: timed out, with code 124")],
)
def test_waiting_closes_with_the_result(
    mnrun: Terminal, sbatch: MagicMock, mocker: MockerFixture, state: str, code: int, line: str
) -> None:
    """The exit code is the job's."""
    queue = Slurm()
    queue.known = (Job("271", "hostname", state, code=code),)
    mocker.patch.object(slurm, "user_queue", return_value=queue)
    answer = mnrun("submit", "--wait", *HOST, "--", "hostname")
    assert (answer.code, answer.out) == (code, "271\n")
    assert answer.err.splitlines()[-1] == f"mnrun: {line}"


def test_more_time_than_the_partition_allows(mnrun: Terminal, sbatch: MagicMock, mocker: MockerFixture) -> None:
    """The job is in the queue, with a warning."""
    main = PartitionNode("main", True, "n1", "idle", "", 0, 0, 2, 2, True, "1:00:00", "")
    mocker.patch.object(slurm, "user_queue", return_value=Queue(held=(main,)))
    answer = mnrun("submit", *HOST, "-t", "2:00:00", "--", "hostname")
    assert (answer.code, answer.out) == (0, "271\n")
    assert answer.err.splitlines()[-1] == (
        "mnrun: warning: --time 2:00:00 (command line) is above the limit, 1:00:00 in partition main, so the job may "
        "never start; ask for less"
    )


def test_quiet_prints_the_id_alone(mnrun: Terminal, sbatch: MagicMock) -> None:
    """For scripts."""
    answer = mnrun("submit", "-Q", *HOST, "--", "hostname")
    assert (answer.out, answer.err) == ("271\n", "")


def test_faults_of_files_are_warnings(mnrun: Terminal, sbatch: MagicMock, tmp_path: Path) -> None:
    """The nodes may have other files, so the job is handed in."""
    (tmp_path / "job.sh").write_text("#!/bin/sh\n")
    (tmp_path / "job.sh").chmod(0o600)
    (tmp_path / "app.sif").write_text("no image")
    words = ("--image", "app.sif", "-B", "data:/d", "--chdir", "/nowhere", "--script", "job.sh")
    answer = mnrun("submit", "-N", "2", *words)
    assert answer.out == "271\n"
    ends = "; the job will fail unless its nodes have it"
    assert answer.err.splitlines()[:4] == [
        f"mnrun: warning: the image {tmp_path}/app.sif is not a container image (SIF, squashfs or directory) on this "
        f"machine{ends}",
        f"mnrun: warning: the bind source {tmp_path}/data is not on this machine{ends}",
        f"mnrun: warning: the working directory /nowhere is not on this machine{ends}",
        f"mnrun: warning: the script {tmp_path}/job.sh cannot be executed on this machine (chmod +x){ends}",
    ]


def test_a_plan_names_the_same_faults(mnrun: Terminal, mocker: MockerFixture, tmp_path: Path) -> None:
    """Those of files, and of the request. For programs, the first of them is the reason."""
    main = PartitionNode("main", True, "n1", "idle", "", 0, 0, 2, 2, True, "1:00:00", "")
    mocker.patch.object(slurm, "user_queue", return_value=Queue(held=(main,)))
    words = ("-N", "2", "-t", "2:00:00", "--image", "app.sif", "--job-dir", "file/jobs", "--", "./app")
    (tmp_path / "file").touch()
    ends = "; the job will fail unless its nodes have it"
    lines = [
        f"verdict: the image {tmp_path}/app.sif is not on this machine{ends}",
        f"  the program {tmp_path}/app is not on this machine{ends}",
        f"  the job directory {tmp_path}/file/jobs cannot be written",
        "  partition main has 1 node, and --nodes (command line) asks for 2: mnrun nodes",
        "  --time 2:00:00 (command line) is above the limit, 1:00:00 in partition main, so the job may never start; "
        "ask for less",
    ]
    assert "\n".join(lines) + "\nMPI: none" in mnrun("plan", *words).out
    plan = checked("plan", mnrun("plan", "--json", *words).out)
    assert plan["verdict"][:5] == lines
    assert plan["judgement"] == {"ok": False, "reason": "job-directory", "text": lines[2].strip()}


def test_a_plan_for_this_machine_is_sure(mnrun: Terminal, tmp_path: Path) -> None:
    """It is the node, and has no other files."""
    plan = checked("plan", mnrun("plan", "--json", "--local", "--runtime", "host", "--", "./app").out)
    assert plan["judgement"] == {
        "ok": False,
        "reason": "program",
        "text": f"the program {tmp_path}/app is not on this machine",
    }
    plan = checked("plan", mnrun("plan", "--json", "--local", "--runtime", "host", "--", "app").out)
    assert (plan["judgement"]["ok"], plan["judgement"]["reason"]) == (None, "unknown")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-t", "1h"), "--time '1h' is not a time limit (command line); write 12:00:00, 30 (minutes) or 2-0 (days)"),
        (("--slurm", "nodes=4"), "--slurm nodes=4: mnrun sets --nodes itself (command line); write --nodes 4"),
        (
            ("--slurm", "-N4"),
            "--slurm '-N4' is not a long option of sbatch (command line); write it as comment=test",
        ),
    ],
)
def test_what_sbatch_would_misread_is_refused(
    mnrun: Terminal, sbatch: MagicMock, words: tuple[str, ...], said: str
) -> None:
    """Before anything is handed in."""
    assert complaint(mnrun("submit", *HOST, *words, "--", "hostname")) == said
    assert not sbatch.called


@pytest.mark.parametrize(("letter", "subject"), [("t", "rank"), ("n", "node")])
def test_a_file_for_each_rank_is_refused(mnrun: Terminal, sbatch: MagicMock, letter: str, subject: str) -> None:
    """%N is one file, by the name of the first node."""
    answer = mnrun("submit", *HOST, "-o", f"out.%{letter}", "--", "hostname")
    assert (answer.code, answer.out) == (122, "")
    assert answer.err.startswith(f"mnrun: --output out.%{letter}: a file for each {subject}; ")
    assert not sbatch.called
    assert mnrun("submit", *HOST, "-o", "out.%N", "--", "hostname").code == 0
