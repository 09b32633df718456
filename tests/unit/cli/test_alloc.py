"""An allocation of mnrun's own: the words for salloc, the wait in the queue, and the end in every case."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import NodeError, SchedulerError
from mnrun.files import wrappers
from mnrun.nodes import kit
from mnrun.schedulers.queue import PartitionNode
from mnrun.schedulers.slurm import allocate
from mnrun.schedulers.slurm import scheduler as slurm
from mnrun.schedulers.vocabulary import NodeState
from mnrun.system import terminal
from mnrun.system.events import Ended, Signal
from mnrun.system.screen import Screen
from unit.conftest import Shell
from unit.salloc import Queue, Salloc
from unit.samples import build, recorded
from unit.texts import Refused, Says
from unit.typed import Complaint, Launched, Terminal

QUEUE = Queue()
SPEC = build("./app", time="20")
IMAGE = ("--image", "/app.sif")


def test_an_allocation_is_held_by_a_pipe(salloc: Salloc) -> None:
    with allocate.allocated(("salloc", "-N", "2"), SPEC, {}, Screen(quiet=True), QUEUE) as found:
        assert found.variables == {"SLURM_JOB_ID": "8", "SLURM_JOB_NAME": "a = b"}
        assert salloc.argv[:5] == ("salloc", "-N", "2", "sh", "-c")
        assert salloc.done == []
    assert salloc.done == [b"0\n", "close"]


@pytest.mark.parametrize(("line", "code"), [("3\n", 3), ("0\n", 0), ("", 137)])
def test_the_command_of_salloc(sh: Shell, line: str, code: int) -> None:
    environ = {"SLURM_JOB_NAME": "two\nlines"}
    said = sh('exec sh -c "$1" SLURM_', kit.spoken(kit.ALLOCATION), stdin=line.encode(), environ=environ, code=code)
    assert said == b"SLURM_JOB_NAME=two lines\n\n"


# withdraw.sh with a played salloc. It says on a FIFO that it has begun, and on another which signal it got: a reader of
# the same one could come before the first writer has closed it. Its code is its input.
HELD = """set -eu
mkfifo begun said lease
exec 3<>lease
played='trap "echo HUP >said; exit 9" HUP; echo begun >begun; read -r code; exit $code'
setsid bash -p "$1" bash -c "$played" <lease 3<&- &
read -r word <begun
"""


@pytest.mark.parametrize(("done", "said"), [("echo 7 >lease", b"7\n"), ("kill -HUP -- -$!; cat said", b"HUP\n9\n")])
def test_a_salloc_that_mnrun_ends(sh: Shell, done: str, said: bytes) -> None:
    script = f"{HELD}{done}; code=0; wait $! || code=$?; echo $code"
    assert sh(script, str(wrappers()["withdraw.sh"]), shell="bash") == said


def test_a_killed_mnrun_withdraws_its_request(sh: Shell) -> None:
    script = f"{HELD}begin=$(date +%s%N); kill -TERM $!; cat said; echo $(($(date +%s%N) - begin))"
    word, after = sh(script, str(wrappers()["withdraw.sh"]), shell="bash").split()
    assert (word, int(after) > 900_000_000) == (b"HUP", True)


def test_an_allocation_whose_salloc_was_killed_is_given_back(salloc: Salloc) -> None:
    salloc.returncode = -9
    with allocate.allocated(("salloc",), SPEC, {}, Screen(quiet=True), QUEUE):
        pass
    assert salloc.done == [b"0\n", "close", "8"]


def test_an_salloc_that_does_not_end(salloc: Salloc) -> None:
    salloc.stubborn, salloc.returncode = True, None
    with pytest.raises(ValueError), allocate.allocated(("salloc",), SPEC, {}, Screen(quiet=True), QUEUE):
        raise ValueError
    assert salloc.done == [b"1\n", "close", signal.SIGKILL, "8"]


@pytest.mark.parametrize(
    "said",
    [
        "salloc: error: invalid partition specified: x\nsalloc: error: Job submit/allocate failed: no\n",
        "salloc: Job allocation 4 has been revoked.\n",
        "",
    ],
    ids=["refused", "revoked", "silent"],
)
def test_an_allocation_that_is_refused(salloc: Salloc, said: str, refused: Refused) -> None:
    """salloc's own reasons, and what it was asked for."""
    salloc.said, salloc.events = said, [Ended("salloc", 1)]
    with (
        refused(SchedulerError),
        allocate.allocated(("salloc", "-p", "x"), SPEC, {}, Screen(quiet=True), QUEUE),
    ):
        pass
    assert salloc.done == [signal.SIGHUP, "close"]


def test_more_nodes_than_there_are(
    outside: Terminal, salloc: Salloc, mocker: MockerFixture, complaint: Complaint
) -> None:
    salloc.said = "salloc: error: Job submit/allocate failed: Requested node configuration is not available\n"
    salloc.events = [Ended("salloc", 1)]
    node = PartitionNode("main", True, "n1", NodeState.FREE, 0, 0, 2, 2, True, "infinite")
    mocker.patch.object(slurm, "user_queue", return_value=Queue(held=(node,)))
    complaint(outside("-N", "9", *IMAGE, "--", "hostname"), 123)


def test_a_signal_while_it_waits_withdraws_the_request(salloc: Salloc) -> None:
    salloc.events = [Signal(2)]
    with pytest.raises(SystemExit) as raised, allocate.allocated(("salloc",), SPEC, {}, Screen(quiet=True), QUEUE):
        pass
    assert raised.value.code == 130
    assert salloc.done == [signal.SIGHUP, "close"]


def test_no_salloc(salloc: Salloc, mocker: MockerFixture, refused: Refused) -> None:
    mocker.patch.object(allocate, "which", return_value=None)
    with (
        refused(SchedulerError),
        allocate.allocated(("salloc",), SPEC, {}, Screen(True), QUEUE),
    ):
        pass


@pytest.fixture
def soon(mocker: MockerFixture) -> None:
    mocker.patch.object(allocate, "PATIENCE", 0.01)


@pytest.mark.usefixtures("soon")
def test_the_reasons_of_a_wait_are_shown(salloc: Salloc, capsys: pytest.CaptureFixture[str], says: Says) -> None:
    salloc.said, salloc.events = "salloc: Pending job allocation 8\nsalloc: job 8 queued\n", []
    waiting = Queue(["waits for others", "waits for others", "held by you"], salloc.grant)
    with allocate.allocated(("salloc",), SPEC, {}, Screen(), waiting) as found:
        assert found.variables["SLURM_JOB_ID"] == "8"
        assert waiting.forgotten == 1, "no earlier answer knows the job"
    says(capsys.readouterr().err)
    assert waiting.forgotten == 2, "an earlier answer says that it runs"


@pytest.mark.usefixtures("soon")
def test_a_wait_for_more_time_than_there_is(salloc: Salloc, capsys: pytest.CaptureFixture[str], says: Says) -> None:
    salloc.said, salloc.events = "salloc: Pending job allocation 8\n", []
    main = PartitionNode("main", True, "n1", NodeState.FREE, 0, 0, 2, 2, True, "10:00")
    with allocate.allocated(("salloc",), SPEC, {}, Screen(), Queue(["asks for more"], salloc.grant, held=(main,))):
        pass
    says(capsys.readouterr().err)


# The verb run


def test_a_run_without_an_allocation_gets_one(outside: Terminal, salloc: Salloc, granted: Launched, says: Says) -> None:
    """Options of the allocation go to salloc. The launch has the job's nodes, and its code is mnrun's."""
    words = ("-N", "2", "--ntasks-per-node=2", "-t", "5", "-p", "gpu", "--mem", "1G")
    answer = outside(*words, *IMAGE, "--", "/opt/app", "x")
    assert answer.code == 7, answer
    request = ("salloc", "-N", "2", "--ntasks-per-node", "2", "--partition=gpu", "--time=5", "--mem=1G")
    assert salloc.argv[:-4] == (*request, "--wait-all-nodes=1", "--job-name=app")
    assert salloc.done == [b"7\n", "close"], "the job ends with that code, too"
    assert granted.plan.layout.ntasks == 4
    says(answer.err)


def test_a_file_forbids_allocations(outside: Terminal, salloc: Salloc, granted: Launched, tmp_path: Path) -> None:
    folder = tmp_path / ".config/mnrun"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("alloc = false\n")
    assert outside(*IMAGE, "./app").code == 2
    assert outside("--alloc", *IMAGE, "./app").code == 7


@pytest.mark.parametrize(
    ("words", "code"), [("-t 1h30", 2), ("-o out.%t", 122), ("-N 4 -n 3", 2), ("--job-dir taken", 2)]
)
def test_a_run_is_refused_before_it_allocates(
    outside: Terminal, salloc: Salloc, words: str, code: int, complaint: Complaint
) -> None:
    Path("taken").touch()
    complaint(outside(*words.split(), *IMAGE, "./app"), code)
    assert salloc.argv == ()


@pytest.mark.parametrize(
    ("failure", "code", "line"), [(NodeError("lost"), 121, b"121\n"), (KeyboardInterrupt(), 130, b"1\n")]
)
def test_an_error_in_the_run_gives_the_allocation_back(
    outside: Terminal, salloc: Salloc, granted: Launched, failure: BaseException, code: int, line: bytes
) -> None:
    granted.failure = failure
    assert outside(*IMAGE, "./app").code == code
    assert salloc.done == [line, "close"]


@pytest.mark.parametrize("option", ["--no-alloc", "--as-given"])
def test_a_run_that_may_not_allocate_prints_the_salloc_line(
    outside: Terminal, salloc: Salloc, option: str, complaint: Complaint
) -> None:
    options = ("-N", "4", "-n", "7", "-c", "2", "--gpus-per-node", "a100:2", *IMAGE, "--", "./app", "two words")
    complaint(outside("run", option, *options))
    assert salloc.argv == ()


@pytest.mark.parametrize("value", ["false", "0"])
def test_a_variable_forbids_allocations(
    outside: Terminal, salloc: Salloc, monkeypatch: pytest.MonkeyPatch, value: str, complaint: Complaint
) -> None:
    monkeypatch.setenv("MNRUN_ALLOC", value)
    for verb in ("run", "shell"):
        complaint(outside(verb, *IMAGE, *(["./app"] if verb == "run" else [])))
        assert salloc.argv == ()


def test_local_and_jobs_get_no_allocation(
    outside: Terminal, salloc: Salloc, granted: Launched, monkeypatch: pytest.MonkeyPatch, complaint: Complaint
) -> None:
    complaint(outside("--local", "-t", "5", *IMAGE, "./app"), 7)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    complaint(outside("-t", "5", *IMAGE, "./app"), 7)
    assert salloc.argv == ()


def test_a_plan_shows_the_allocation(outside: Terminal, salloc: Salloc, says: Says) -> None:
    for words in (("-t", "5"), ("--no-alloc",)):
        says("".join(re.findall("^note: .*", outside("plan", "-N", "2", *words, *IMAGE, "./app").out, re.MULTILINE)))
    assert salloc.argv == ()


# Tasks of a step


@pytest.fixture
def copies(outside: Terminal, mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """The first of two tasks that srun has started on two nodes, without a terminal."""
    _, environ = recorded("srun")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SLURM_PROCID", "0")
    mocker.patch.object(terminal, "controls", return_value=False)
    return outside


@pytest.mark.parametrize(
    "words", ["--image a.sif ./app", "run -N 4 ./app", "submit -xA=b ./app", "shell --image a.sif"]
)
def test_several_tasks_of_mnrun_are_refused_once(
    copies: Terminal, granted: Launched, monkeypatch: pytest.MonkeyPatch, words: str, complaint: Complaint
) -> None:
    complaint(copies(*words.split()))
    monkeypatch.setenv("SLURM_PROCID", "1")
    answer = copies(*words.split())
    assert (answer.code, answer.out, answer.err) == (2, "", "")
    assert granted.plans == []


def test_several_tasks_on_a_node_are_named(
    copies: Terminal, monkeypatch: pytest.MonkeyPatch, complaint: Complaint
) -> None:
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "8")
    complaint(copies(*IMAGE, "./app"))
    complaint(copies("-n", "4", *IMAGE, "./app"))


@pytest.mark.parametrize(("size", "rank"), [("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), ("PMI_SIZE", "PMI_RANK")])
def test_copies_by_mpirun_are_refused_once(
    copies: Terminal, granted: Launched, monkeypatch: pytest.MonkeyPatch, size: str, rank: str, complaint: Complaint
) -> None:
    """At the first failure, mpirun would drop the words of the first rank. A rank of mnrun's may start mnrun."""
    monkeypatch.setenv(size, "4")
    monkeypatch.setenv(rank, "0")
    complaint(copies(*IMAGE, "./app"))
    monkeypatch.setenv(rank, "1")
    answer = copies(*IMAGE, "./app")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert granted.plans == []
    monkeypatch.setenv("MNRUN_JOB_ID", "7-abcdef")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "1")
    assert copies(*IMAGE, "./app").code == 7


@pytest.mark.parametrize(
    ("name", "value"), [("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_STEP_ID", "4294967290"), ("SLURM_STEP_ID", "4294967291")]
)
def test_a_single_task_runs_the_job(
    copies: Terminal, granted: Launched, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """`srun -n1 mnrun`, the shell of salloc, a batch script."""
    monkeypatch.setenv(name, value)
    assert copies(*IMAGE, "./app").code == 7


def test_the_prompt_of_srun_pty_runs_the_job(copies: Terminal, granted: Launched, mocker: MockerFixture) -> None:
    """`srun -N2 --pty bash` gives the terminal to the first task alone."""
    mocker.patch.object(terminal, "controls", return_value=True)
    assert copies(*IMAGE, "./app").code == 7


@pytest.mark.parametrize(("variable", "device", "code"), [(True, True, 0), (True, False, 2), (False, True, 2)])
def test_the_other_tasks_of_srun_pty_end_well(
    copies: Terminal,
    granted: Launched,
    mocker: MockerFixture,
    monkeypatch: pytest.MonkeyPatch,
    variable: bool,
    device: bool,
    code: int,
) -> None:
    mocker.patch.object(terminal, "is_device", return_value=device)
    monkeypatch.setenv("SLURM_PROCID", "1")
    if variable:
        monkeypatch.setenv("SLURM_PTY_PORT", "33333")
    answer = copies(*IMAGE, "./app")
    assert (answer.code, answer.out, answer.err) == (code, "", "")
    assert granted.plans == []


@pytest.mark.parametrize(("title", "code"), [("slurmstepd: [271.batch]", 7), ("slurmstepd: [271.0]", 2)])
def test_a_batch_script_that_was_submitted_in_a_step(
    copies: Terminal, granted: Launched, mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch, title: str, code: int
) -> None:
    files = {"/proc/11/status": "Name:\tbash\nPPid:\t10\nTracerPid:\t0\n", "/proc/10/cmdline": title}
    monkeypatch.setenv("SLURM_TASK_PID", "11")
    read = Path.read_text
    mocker.patch.object(Path, "read_text", lambda path, **how: files.get(str(path)) or read(path, **how))
    assert copies(*IMAGE, "./app").code == code
