"""An allocation of mnrun's own: the words for salloc, the wait in the queue, and the end in every case.

salloc is played. A real one is for the live tests.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import NodeError, SchedulerError
from mnrun.files import wrappers
from mnrun.nodes import kit
from mnrun.schedulers import slurm
from mnrun.schedulers.queue import PartitionNode
from mnrun.schedulers.slurm import allocate
from mnrun.system import terminal
from mnrun.system.screen import Screen
from unit.conftest import Shell
from unit.salloc import Queue, Salloc
from unit.samples import build, recorded
from unit.typed import Launched, Terminal, complaint

QUEUE = Queue()
SPEC = build("./app", time="20")
IMAGE = ("--image", "/app.sif")


def test_an_allocation_is_held_by_a_pipe(salloc: Salloc) -> None:
    """The job's variables, for as long as the pipe is open."""
    with allocate.allocated(("salloc", "-N", "2"), SPEC, {}, Screen(quiet=True), QUEUE) as found:
        assert found.variables == {"SLURM_JOB_ID": "8", "SLURM_JOB_NAME": "a = b"}
        assert salloc.argv[:5] == ("salloc", "-N", "2", "sh", "-c")
        assert salloc.done == []
    assert salloc.done == [b"0\n", "close"]


@pytest.mark.parametrize(("line", "code"), [("3\n", 3), ("0\n", 0), ("", 137)])
def test_the_command_of_salloc(sh: Shell, line: str, code: int) -> None:
    """It prints the job's variables, and ends with the code that it reads. Without one, mnrun was killed."""
    environ = {"SLURM_JOB_NAME": "two\nlines"}
    said = sh(kit.spoken(kit.ALLOCATION), stdin=line.encode(), environ=environ, code=code)
    assert said == b"SLURM_JOB_NAME=two lines\n\n"


# withdraw.sh with a played salloc. It says on a FIFO that it has begun, and then which signal it got. Its code is its
# input.
HELD = """set -eu
mkfifo said lease
exec 3<>lease
played='trap "echo HUP >said; exit 9" HUP; echo begun >said; read -r code; exit $code'
setsid bash -p "$1" bash -c "$played" <lease 3<&- &
read -r word <said
"""


@pytest.mark.parametrize(
    ("done", "said"),
    [
        ("echo 7 >lease", b"7\n"),
        ("kill -HUP -- -$!; cat said", b"HUP\n9\n"),
    ],
)
def test_a_salloc_that_mnrun_ends(sh: Shell, done: str, said: bytes) -> None:
    """By its input, or by a signal to it. The code is its own."""
    script = f"{HELD}{done}; code=0; wait $! || code=$?; echo $code"
    assert sh(script, str(wrappers()["withdraw.sh"]), shell="bash") == said


def test_a_killed_mnrun_withdraws_its_request(sh: Shell) -> None:
    """A moment later: a job that has its nodes reads the end of its input before that."""
    script = f"{HELD}begin=$(date +%s%N); kill -TERM $!; cat said; echo $(($(date +%s%N) - begin))"
    word, after = sh(script, str(wrappers()["withdraw.sh"]), shell="bash").split()
    assert (word, int(after) > 900_000_000) == (b"HUP", True)


def test_an_allocation_whose_salloc_was_killed_is_given_back(salloc: Salloc) -> None:
    """By scancel, since nobody else would."""
    salloc.returncode = -9
    with allocate.allocated(("salloc",), SPEC, {}, Screen(quiet=True), QUEUE):
        pass
    assert salloc.done == [b"0\n", "close", "8"]


def test_an_salloc_that_does_not_end(salloc: Salloc) -> None:
    """By force, and its job by scancel."""
    salloc.stubborn, salloc.returncode = True, None
    with pytest.raises(ValueError), allocate.allocated(("salloc",), SPEC, {}, Screen(quiet=True), QUEUE):
        raise ValueError
    assert salloc.done == [b"1\n", "close", signal.SIGKILL, "8"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("salloc: error: invalid partition specified: x\nsalloc: error: Job submit/allocate failed: no\n", None),
        ("salloc: Job allocation 4 has been revoked.\n", "Job allocation 4 has been revoked."),
        ("", "no message"),
    ],
)
def test_an_allocation_that_is_refused(salloc: Salloc, said: str, reason: str | None) -> None:
    """salloc's own reasons, and what it was asked for."""
    salloc.said, salloc.events = said, [("ended", "salloc", 1)]
    with (
        pytest.raises(SchedulerError) as raised,
        allocate.allocated(("salloc", "-p", "x"), SPEC, {}, Screen(quiet=True), QUEUE),
    ):
        pass
    reason = reason or "invalid partition specified: x; Job submit/allocate failed: no"
    assert str(raised.value) == f"salloc: {reason}; the request was -p x"
    assert salloc.done == [signal.SIGHUP, "close"]


def test_more_nodes_than_there_are(outside: Terminal, salloc: Salloc, mocker: MockerFixture) -> None:
    """The number of nodes takes the place of the request."""
    salloc.said = "salloc: error: Job submit/allocate failed: Requested node configuration is not available\n"
    salloc.events = [("ended", "salloc", 1)]
    node = PartitionNode("main", True, "n1", "idle", "", 0, 0, 2, 2, True, "infinite", "")
    mocker.patch.object(slurm, "user_queue", return_value=Queue(held=(node,)))
    answer = outside("-N", "9", *IMAGE, "--", "hostname")
    assert (answer.code, answer.err.splitlines()[-1]) == (
        123,
        "mnrun: salloc: Job submit/allocate failed: Requested node configuration is not available; "
        "partition main has 1 node, and --nodes (command line) asks for 9: mnrun nodes",
    )


def test_a_signal_while_it_waits_withdraws_the_request(salloc: Salloc) -> None:
    """And is mnrun's code."""
    salloc.events = [("signal", "", 2)]
    with pytest.raises(SystemExit) as raised, allocate.allocated(("salloc",), SPEC, {}, Screen(quiet=True), QUEUE):
        pass
    assert raised.value.code == 130
    assert salloc.done == [signal.SIGHUP, "close"]


def test_no_salloc(salloc: Salloc, mocker: MockerFixture) -> None:
    """Slurm's module is not loaded."""
    mocker.patch.object(allocate, "has", return_value=False)
    with (
        pytest.raises(SchedulerError, match="salloc is not on PATH"),
        allocate.allocated(("salloc",), SPEC, {}, Screen(True), QUEUE),
    ):
        pass


@pytest.fixture
def soon(mocker: MockerFixture) -> None:
    """The first question about a waiting job comes at once."""
    mocker.patch.object(allocate, "PATIENCE", 0.01)


@pytest.mark.usefixtures("soon")
def test_the_reasons_of_a_wait_are_shown(salloc: Salloc, capsys: pytest.CaptureFixture[str]) -> None:
    """Each reason once, for the own job alone. The question goes on until salloc has the nodes."""
    salloc.said, salloc.events = "salloc: Pending job allocation 8\nsalloc: job 8 queued\n", []
    waiting = Queue(["waits for others", "waits for others", "held by you"], salloc.grant)
    with allocate.allocated(("salloc",), SPEC, {}, Screen(), waiting) as found:
        assert found.variables["SLURM_JOB_ID"] == "8"
        assert waiting.forgotten == 1, "no earlier answer knows the job"
    said = capsys.readouterr().err.splitlines()
    assert said == ["mnrun: job 8 is queued: waits for others", "mnrun: job 8 is queued: held by you"]
    assert waiting.forgotten == 2, "an earlier answer says that it runs"


@pytest.mark.usefixtures("soon")
def test_a_wait_for_more_time_than_there_is(salloc: Salloc, capsys: pytest.CaptureFixture[str]) -> None:
    """The limit, once. A job that does not wait asks nothing."""
    salloc.said, salloc.events = "salloc: Pending job allocation 8\n", []
    main = PartitionNode("main", True, "n1", "idle", "", 0, 0, 2, 2, True, "10:00", "")
    with allocate.allocated(("salloc",), SPEC, {}, Screen(), Queue(["asks for more"], salloc.grant, held=(main,))):
        pass
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "mnrun: warning: --time 20 (command line) is above the limit, 10:00 in partition main, so the job may never "
        "start; ask for less",
        "mnrun: job 8 is queued: asks for more",
    ]


# The verb run


def test_a_run_without_an_allocation_gets_one(outside: Terminal, salloc: Salloc, granted: Launched) -> None:
    """Options of the allocation go to salloc. The launch has the job's nodes, and its code is mnrun's."""
    words = ("-N", "2", "--ntasks-per-node=2", "-t", "5", "-p", "gpu", "--mem", "1G")
    answer = outside(*words, *IMAGE, "--", "/opt/app", "x")
    assert answer.code == 7, answer
    request = ("salloc", "-N", "2", "--ntasks-per-node", "2", "--partition=gpu", "--time=5", "--mem=1G")
    assert salloc.argv[:-3] == (*request, "--wait-all-nodes=1", "--job-name=app")
    assert salloc.done == [b"7\n", "close"], "the job ends with that code, too"
    assert granted.plan.layout.ntasks == 4
    warning, first, *rest = answer.err.splitlines()
    assert warning == (
        "mnrun: warning: the image /app.sif is not on this machine; the job will fail unless its nodes have it"
    )
    assert first == f"mnrun: no Slurm allocation here; mnrun gets one: {' '.join(request)}"
    assert not [line for line in rest if "no effect" in line], rest


def test_a_file_forbids_allocations(outside: Terminal, salloc: Salloc, granted: Launched, tmp_path: Path) -> None:
    """The command line has the last word."""
    folder = tmp_path / ".config/mnrun"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("alloc = false\n")
    assert outside(*IMAGE, "./app").code == 2
    assert outside("--alloc", *IMAGE, "./app").code == 7


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("-t", "1h"), 2, "--time '1h' is not a time limit"),
        (("-o", "out.%t"), 122, "--output out.%t: a file for each rank; mnrun writes one file"),
        (("-N", "4", "-n", "3"), 2, "3 ranks"),
        (("--job-dir", "taken"), 2, "/taken: Not a directory; name another with --job-dir"),
    ],
)
def test_a_run_is_refused_before_it_allocates(
    outside: Terminal, salloc: Salloc, words: tuple[str, ...], code: int, said: str
) -> None:
    """A wait in a queue must not end in a refusal that was known before it."""
    Path("taken").touch()
    answer = outside(*words, *IMAGE, "./app")
    assert (answer.code, answer.out, salloc.argv) == (code, "", ())
    assert said in answer.err


@pytest.mark.parametrize(
    ("failure", "code", "line"), [(NodeError("lost"), 121, b"121\n"), (KeyboardInterrupt(), 130, b"1\n")]
)
def test_an_error_in_the_run_gives_the_allocation_back(
    outside: Terminal, salloc: Salloc, granted: Launched, failure: BaseException, code: int, line: bytes
) -> None:
    """So does Ctrl-C before the launch. The job counts as failed."""
    granted.failure = failure
    assert outside(*IMAGE, "./app").code == code
    assert salloc.done == [line, "close"]


@pytest.mark.parametrize(
    ("words", "why"),
    [(("--no-alloc",), ", and --no-alloc forbids one (command line)"), (("--as-given",), "")],
)
def test_a_run_that_may_not_allocate_prints_the_salloc_line(
    outside: Terminal, salloc: Salloc, words: tuple[str, ...], why: str
) -> None:
    """The line asks for these very options. A call in a batch script never allocates."""
    options = ("-N", "4", "-n", "7", "-c", "2", "--gpus-per-node", "a100:2", *IMAGE, "--", "./app", "two words")
    answer = outside("run", *words, *options)
    assert (answer.code, answer.out, salloc.argv) == (2, "", ())
    assert answer.err == (
        f"mnrun: there is no Slurm allocation here{why}; get one with\n"
        f"    salloc -N 4 -n 7 -c 2 --gpus-per-node a100:2 mnrun run {words[0]} -N 4 -n 7 -c 2 --gpus-per-node a100:2 "
        "--image /app.sif -- ./app 'two words'\n"
        "or run on this machine alone with --local\n"
    )


@pytest.mark.parametrize("value", ["false", "0"])
def test_a_variable_forbids_allocations(
    outside: Terminal, salloc: Salloc, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """For run and for shell."""
    monkeypatch.setenv("MNRUN_ALLOC", value)
    for verb in ("run", "shell"):
        answer = outside(verb, *IMAGE, *(["./app"] if verb == "run" else []))
        assert (answer.code, salloc.argv) == (2, ())
        assert "and --no-alloc forbids one (MNRUN_ALLOC)" in answer.err


def test_local_and_jobs_get_no_allocation(
    outside: Terminal, salloc: Salloc, granted: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--local is this machine. A job has its nodes, and options of an allocation have no effect on it."""
    answer = outside("--local", "-t", "5", *IMAGE, "./app")
    assert (answer.code, "mnrun: --time: no effect without Slurm\n" in answer.err) == (7, True)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    answer = outside("-t", "5", *IMAGE, "./app")
    assert answer.code == 7
    assert "--time: no effect here" in answer.err
    assert salloc.argv == ()


def test_a_plan_shows_the_allocation(outside: Terminal, salloc: Salloc) -> None:
    """It gets none."""
    shown = outside("plan", "-N", "2", "-t", "5", *IMAGE, "./app")
    assert "note: no allocation here: run gets one with salloc -N 2 --time=5\n" in shown.out, shown
    refused = outside("plan", "-N", "2", "--no-alloc", *IMAGE, "./app")
    assert "note: no allocation here, and --no-alloc: run refuses\n" in refused.out, refused
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
    ("words", "line"),
    [
        (("--image", "a.sif", "./app"), "mnrun -N 2 --image a.sif ./app"),
        (("run", "-N", "4", "./app"), "mnrun run -N 4 ./app"),
        (("submit", "-xA=b", "./app"), "mnrun submit -N 2 '-xA=…' ./app"),
        (("shell", "--image", "a.sif"), "mnrun shell -N 2 --image a.sif"),
    ],
)
def test_several_tasks_of_mnrun_are_refused_once(
    copies: Terminal, granted: Launched, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], line: str
) -> None:
    """The first task names the line to type, and the others are silent."""
    said = complaint(copies(*words))
    assert said == f"srun has started mnrun 2 times; leave out srun: mnrun starts the ranks: {line}"
    monkeypatch.setenv("SLURM_PROCID", "1")
    answer = copies(*words)
    assert (answer.code, answer.out, answer.err) == (2, "", "")
    assert granted.plans == []


def test_several_tasks_on_a_node_are_named(copies: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """With their number, unless the line has one."""
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "8")
    assert complaint(copies(*IMAGE, "./app")).endswith(": mnrun -N 2 -n 8 --image /app.sif ./app")
    assert complaint(copies("-n", "4", *IMAGE, "./app")).endswith(": mnrun -N 2 -n 4 --image /app.sif ./app")


@pytest.mark.parametrize(
    ("name", "value"),
    [("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_STEP_ID", "4294967290"), ("SLURM_STEP_ID", "4294967291")],
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
    """Else srun would end with their code. Their input is /dev/null, and in a step inside of such a prompt a pipe."""
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
    """It has the variables of that step."""
    files = {"/proc/11/status": "Name:\tbash\nPPid:\t10\nTracerPid:\t0\n", "/proc/10/cmdline": title}
    monkeypatch.setenv("SLURM_TASK_PID", "11")
    read = Path.read_text
    mocker.patch.object(Path, "read_text", lambda path, **how: files.get(str(path)) or read(path, **how))
    assert copies(*IMAGE, "./app").code == code
