"""A job of PBS's, by what OpenPBS 23.06.06 said."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import NotYours, SchedulerError, UsageError
from mnrun.jobspec import JobSpec, Way
from mnrun.model import Allocation, Node, Site
from mnrun.planning.layout import lay_out
from mnrun.reach import login_shell
from mnrun.schedulers import parts, writing
from mnrun.schedulers.pbs import cluster
from mnrun.schedulers.pbs import scheduler as pbs
from mnrun.schedulers.vocabulary import JobId, JobState, StepPlace
from unit.conftest import Shell
from unit.samples import build, changed
from unit.schedulers.pbs.test_answers import TORQUE, said
from unit.texts import Refused

ENVIRON = {"PATH": "/opt/pbs/bin"}
RUNNING, NONE = said("qstat-running.json"), said("qstat-none.json")
UNKNOWN = "qstat: Unknown Job Id 99.login\n"


class Commands:
    """PBS's commands, which answer by their first words: (output, errors, code)."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[str, str, int]] = {}
        self.first: dict[str, list[tuple[str, str, int]]] = {}  # answers to the first calls
        self.asked: list[str] = []
        self.given: list[str] = []

    def __setitem__(self, words: str, text: str) -> None:
        self.answers[words] = (text, "", 0)

    def __call__(self, argv: tuple[str, ...], **how: object) -> subprocess.CompletedProcess[str]:
        assert how["env"] == ENVIRON, "its programs may come by --module alone"
        self.asked.append(" ".join(argv))
        self.given.append(str(how.get("input", "")))
        words = next(words for words in self.answers if self.asked[-1].startswith(words))
        out, err, code = self.first[words].pop(0) if self.first.get(words) else self.answers[words]
        return subprocess.CompletedProcess(argv, code, out, err)


@pytest.fixture
def commands(mocker: MockerFixture) -> Commands:
    played = Commands()
    mocker.patch("subprocess.run", side_effect=played)
    mocker.patch("time.sleep")
    mocker.patch.object(parts, "user", return_value="alice")
    mocker.patch.dict(cluster._known, clear=True)
    return played


@pytest.fixture
def around(mocker: MockerFixture, tmp_path: Path) -> dict[str, str]:
    """Be the batch script of job 57, whose login shell is below pbs_mom."""
    (tmp_path / "nodes").write_text("node03\nnode03\nnode01\nnode01\n")
    mocker.patch.object(parts, "script_below", return_value="77")
    job = {"PBS_JOBID": "57.login", "PBS_NODEFILE": str(tmp_path / "nodes"), "PBS_ENVIRONMENT": "PBS_BATCH"}
    mocker.patch.dict(ENVIRON, {**job, "PBS_JOBNAME": "jsonjob", "NCPUS": "4", "PBS_QUEUE": "workq"})
    return ENVIRON


def test_the_job_around(commands: Commands, around: dict[str, str]) -> None:
    commands["qstat"] = RUNNING
    allocation, site = pbs.current(around)
    assert allocation.nodes == (Node("node03", 4, 2), Node("node01", 4, 2))
    assert (allocation.ntasks, allocation.called, site.job, site.script, site.restart) == (4, "", "57", "57", 0)
    assert (pbs.partition(around), pbs.name(around)) == ("workq", "login")
    here = pbs.start(around)
    assert (here.id, here.head, here.nodelist, here.name) == ("57", "node03", "node[01,03]", "jsonjob")
    assert len(commands.asked) == 1, "each question takes 0.2 s"


def test_a_second_start_is_told_by_the_queue(commands: Commands, around: dict[str, str]) -> None:
    """No variable differs (seen, 23.06)."""
    commands["qstat"] = RUNNING.replace('"run_count":\t1', '"run_count":\t3')
    assert pbs.start(around).restart == 2


def test_a_task_of_an_array(commands: Commands, around: dict[str, str]) -> None:
    """Names of files have no brackets. mnrun's id has the task, where PBS counts positions."""
    commands["qstat"] = NONE
    environ = {**around, "PBS_JOBID": "58[2].login", "MNRUN_JOB_ARRAY": "1+5+7"}
    ENVIRON.update(environ)
    allocation, site = pbs.current(environ)
    assert (site.job, site.name, allocation.called) == ("58_2", "58_5", "58_5")


def test_ranks_that_nobody_asked_for(commands: Commands, around: dict[str, str], tmp_path: Path) -> None:
    """Without mpiprocs, a chunk has one line. Torque has one for each CPU."""
    commands["qstat"] = re.sub(r'"mpiprocs":\t4,|:mpiprocs=2', "", RUNNING)
    (tmp_path / "nodes").write_text("node03\nnode01\n")
    assert pbs.current(around)[0].ntasks is None
    cluster._known.clear()
    commands["qstat"] = TORQUE.replace("12.srv", "57.login")
    (tmp_path / "nodes").write_text("node01\n" * 4 + "node02\n" * 4)
    environ = {**around, "MNRUN_JOB_CPUS": "2"}
    ENVIRON.update(environ)
    assert pbs.current(environ)[0].ntasks == 4


def test_without_an_answer_the_node_file_tells(commands: Commands, around: dict[str, str]) -> None:
    commands.answers["qstat"] = ("", "Connection refused\nqstat: cannot connect to server login (errno=15010)\n", 255)
    allocation, _ = pbs.current(around)
    assert [(node.name, node.cpus) for node in allocation.nodes] == [("node03", 4), ("node01", 4)]


@pytest.mark.parametrize(
    ("before_limit", "led", "ending"),
    [(60, True, JobState.RUNNING), (60, False, JobState.CANCELLED), (-9, False, JobState.TIMEOUT)],
)
def test_the_state_in_which_a_job_ends(
    commands: Commands,
    around: dict[str, str],
    mocker: MockerFixture,
    before_limit: float,
    led: bool,
    ending: JobState,
) -> None:
    """After a qdel, the login shell around has gone. At the limit, TERM comes some seconds late (seen, 23.06)."""
    commands["qstat"] = RUNNING
    found = cluster._queued("57", around)
    assert found is not None
    mocker.patch.object(time, "time", return_value=found.end - before_limit)
    mocker.patch.object(parts, "leaderless", return_value=not led)
    assert pbs.ending(Site("pbs", "57"), around) == ending
    assert pbs.runs("57", around) is led


def test_another_job_runs_whatever_leads_this_process(commands: Commands, mocker: MockerFixture) -> None:
    commands["qstat"] = RUNNING
    mocker.patch.object(time, "time", return_value=2e9)  # after its limit, which PBS notices later
    mocker.patch.object(parts, "leaderless", return_value=True)
    assert pbs.runs("57", ENVIRON)
    assert pbs.time_limit("57", ENVIRON) == "2:00"


def test_an_unknown_job_has_ended_and_a_silent_server_tells_nothing(commands: Commands) -> None:
    commands.answers["qstat"] = (NONE, UNKNOWN, 153)
    assert not pbs.runs("99", ENVIRON)
    commands.answers["qstat"] = (NONE, "qstat: cannot connect to server login (errno=15010)\n", 255)
    assert pbs.runs("99", ENVIRON)
    assert pbs.ending(Site("pbs", "99"), ENVIRON) == JobState.UNKNOWN
    commands.answers["pbsnodes"] = ("", "pbsnodes: cannot connect to server login, error=15010\n", 1)
    assert pbs.lost(["node01"], ENVIRON) == {}


def test_nodes_that_are_lost(commands: Commands) -> None:
    commands["pbsnodes"] = said("nodes.json").replace('"state":\t"free"', '"state":\t"down"')
    assert set(pbs.lost(["node01", "node02"], ENVIRON)) == {"node02"}


def test_of_two_jobs_one_is_unknown(commands: Commands) -> None:
    """The known one comes, and the code is that of the other."""
    commands.answers["qstat"] = (RUNNING, UNKNOWN, 153)
    assert list(cluster.records("qstat", "-f", "57", "99", environ=ENVIRON)) == ["57.login"]


def test_torque_is_asked_again_without_json(commands: Commands) -> None:
    commands.answers = {
        "qstat -F json": ("", "qstat: invalid option -- 'F'\nusage: qstat\n", 2),
        "qstat -f": (TORQUE, "", 0),
    }
    assert list(cluster.records("qstat", "-f", "12", environ=ENVIRON)) == ["12.srv"]


def attached(sh: Shell, tmp_path: Path, shell: str, job: str = "58_3", attach: bool = True) -> str:
    """Return what a command says that an ssh to a node of the job starts there."""
    (tmp_path / "aux").mkdir(exist_ok=True)
    (tmp_path / "bin").mkdir(exist_ok=True)
    for name in ("58[3].login", "581[3].login", "57.login"):
        (tmp_path / "aux" / name).write_text("node01\n")
    (tmp_path / "aux/58[3].login.env").write_text("CUDA_VISIBLE_DEVICES=GPU-1,GPU-2\nCUDA_DEVICE_ORDER=PCI_BUS_ID")
    if attach:
        (tmp_path / "bin/pbs_attach").write_text('#!/bin/sh\nprintf "attach %s %s " "$1" "$2"; shift 2; exec "$@"\n')
        (tmp_path / "bin/pbs_attach").chmod(0o755)
    words = ("sh", "-c", 'echo "$1 $CUDA_VISIBLE_DEVICES"', "sh", "two  words")
    *_, host, line = cluster._client(job, "node01", login_shell.line(words), False)
    assert host == "node01"
    place = {"PBS_HOME": str(tmp_path), "PBS_EXEC": str(tmp_path)}
    return sh(line, shell=shell, environ=place).decode()


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "csh", "tcsh", "zsh"])
def test_a_command_on_a_node_is_a_task_of_the_job(sh: Shell, tmp_path: Path, shell: str) -> None:
    """pbs_attach wants the whole id, which the file of the job's nodes has as its name. ssh gives no GPUs (seen)."""
    assert attached(sh, tmp_path, shell) == "attach -j 58[3].login two  words GPU-1,GPU-2\n"


def test_without_gpus_of_the_hook_or_without_pbs_attach(sh: Shell, tmp_path: Path) -> None:
    assert attached(sh, tmp_path, "sh", "57", attach=False) == "two  words \n"
    assert attached(sh, tmp_path, "sh", "57") == "attach -j 57.login two  words \n"
    assert attached(sh, tmp_path, "sh", "99") == "attach -j 99 two  words \n"


def test_the_ways_to_the_nodes(sh: Shell) -> None:
    """The first node is this machine. NCPUS and the like are there alone."""
    transport = pbs.reach(Allocation("pbs", "57", (Node("node03"), Node("node01"))), Way())
    assert transport is not None and transport.hosts == ("node03", "node01")
    told = 'echo "$OMP_NUM_THREADS,$NCPUS,$ENVIRONMENT"'
    words = transport._local(("sh", "-c", told))
    both = {"NCPUS": "4", "ENVIRONMENT": "BATCH"}
    script = 'exec "$@"'
    assert sh(script, *words, environ={**both, "OMP_NUM_THREADS": "4"}) == b",,\n"
    assert sh(script, *words, environ={**both, "OMP_NUM_THREADS": "3"}) == b"3,,\n"
    called = sh(script, *cluster._starter("node01", f"exec {told}")[2:], environ={**both, "OMP_NUM_THREADS": "4"})
    assert called == b",,\n"
    (command,) = pbs.beside(StepPlace("57", ("node01",)), ("hostname",))
    assert command.argv[0] == "ssh" and command.mark


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ("qsub: Unknown queue\n", 170),
        ("qsub: Bad UID for job execution\n", 1),
        ("qsub: illegal -N value\nusage: qsub [-a date_time]\n\t[-A account]\n       qsub --version\n", 2),
        ("Connection refused\nqsub: cannot connect to server login (errno=15010)\n", 162),
    ],
)
def test_pbs_own_words_of_a_refusal(commands: Commands, refused: Refused, errors: str, code: int) -> None:
    commands.answers["qsub"] = ("", errors, code)
    with refused(SchedulerError):
        pbs.submit("#PBS -N x\n", build("./app"), ENVIRON)


def test_a_job_that_can_never_run_is_told(commands: Commands) -> None:
    """PBS accepts it, and its scheduler says so a moment later."""
    waits = RUNNING.replace('"R"', '"Q"')
    comment = re.sub('"comment":\t"[^"]*"', '"comment":\t"Can Never Run: Not enough total nodes available"', waits)
    commands["qsub"] = "57.login\n"
    commands["qstat"] = comment
    number, message = pbs.submit("#PBS -N x\n", build("./app"), ENVIRON)
    assert number == "57"
    assert "can never run" in message
    commands["qstat"] = RUNNING
    assert pbs.submit("", build("./app"), ENVIRON) == ("57", "")
    commands["qsub"] = "58[].login\n"
    commands["qstat"] = re.sub('"comment":\t"[^"]*"', '"x": ""', waits)
    assert pbs.submit("", build("./app"), ENVIRON) == ("58", "")


def listed(*ids: str) -> str:
    return json.dumps({"Jobs": {f"{one}.login": {"job_state": "H"} for one in ids}})


def waiting(*lines: str) -> tuple[str, JobSpec]:
    """Return the script of a job that waits for three, and its request."""
    job = changed(build("./app"), options={"dependency": "afterany:7:9,after:8"})
    return "\n".join(("#PBS -N x", *lines, "#PBS -W 'depend=afterany:7,afterany:9[],after:8'", "./app")), job


GONE = ("", "qrls: Unknown Job Id 57.login\n", 153)


@pytest.mark.parametrize(
    ("left", "now"),
    [(("8", "9[]"), "#PBS -W 'depend=afterany:9[],after:8'"), (("8",), "#PBS -W depend=after:8"), ((), "")],
)
def test_a_job_that_waits_for_one_that_ends_before_qsub_does(
    commands: Commands, mocker: MockerFixture, left: tuple[str, ...], now: str
) -> None:
    """PBS deletes it at once, without a word (seen, 23.06). A held job has not begun, so none begins twice."""
    mocker.patch.object(cluster, "is_here", return_value=True)
    commands["qsub --version"], commands["qsub"] = "pbs_version = 23.06.06", "58.login\n"
    commands.first["qsub"] = [("57.login\n", "", 0)]
    commands["qstat"], commands.answers["qrls 57"], commands["qrls 58"] = listed("58", *left), GONE, ""
    script, job = waiting()
    assert pbs.submit(script, job, ENVIRON) == ("58", "")
    given = [text for line, text in zip(commands.asked, commands.given) if line.startswith("qsub -h") or text]
    assert given == [script, "\n".join(("#PBS -N x", now, "./app"))]
    assert ("qsub -" in commands.asked) == (not now), "a job that waits for none is not held"
    assert ("qrls 58.login" in commands.asked) == bool(now)


def test_the_same_in_torques_words(commands: Commands, mocker: MockerFixture) -> None:
    mocker.patch.object(cluster, "is_here", return_value=True)
    commands["qsub --version"], commands["qsub"] = "Version: 6.1.3", "58.srv\n"
    commands.first["qsub"] = [("57.srv\n", "", 0)]
    commands["qstat"] = "".join(f"Job Id: {one}.srv\n    job_state = H\n" for one in ("58", "9[]"))
    commands.answers["qrls 57"], commands["qrls 58"] = GONE, ""
    assert pbs.submit(*waiting(), ENVIRON) == ("58", "")
    assert "#PBS -W 'depend=afteranyarray:9[]'\n" in "".join(commands.given)


def test_a_held_job_that_somebody_deletes_is_handed_in_once(commands: Commands, mocker: MockerFixture) -> None:
    mocker.patch.object(cluster, "is_here", return_value=True)
    commands["qsub --version"], commands["qsub"] = "pbs_version = 23.06.06", "57.login\n"
    commands["qstat"], commands.answers["qrls"] = listed("7", "9[]", "8"), GONE
    assert pbs.submit(*waiting(), ENVIRON) == ("57", "")
    assert commands.asked.count("qsub -h -") == 1


def test_a_held_job_is_released_or_told(commands: Commands, refused: Refused) -> None:
    """One that the user holds stays held."""
    commands["qsub"], commands["qstat"], commands["qrls"], commands["qhold"] = "57.login\n", listed("57"), "", ""
    assert pbs.submit(*waiting(), ENVIRON) == ("57", "")
    assert commands.asked[:2] == ["qsub -h -", "qrls 57.login"]
    assert pbs.submit(*waiting("#PBS -h"), ENVIRON) == ("57", "")
    assert "qhold 57.login" in commands.asked
    commands.answers["qrls"] = ("", "qrls: cannot connect to server login (errno=15010)\n", 162)
    with refused(SchedulerError):
        pbs.submit(*waiting(), ENVIRON)


def test_variables_go_with_the_script(commands: Commands, mocker: MockerFixture, sh: Shell) -> None:
    """Everybody reads those of -V and -v (seen, 23.06). What a job has of its own stays its own."""
    commands["qsub"], commands["qstat"] = "57.login\n", NONE
    own = {"PBS_JOBID": "1.x", "TMPDIR": "/x", "PWD": "/", "SSH_TTY": "1", "UID": "7", "BASH_FUNC_f%%": "() { :; }"}
    mocker.patch.dict(ENVIRON, {"TOKEN": "it's $(a)\n`secret`", **own})
    job = build("./app")
    lines = "\n".join(line for line, _ in pbs.directives(job, lay_out(job, None), {"PATH": ""}))
    pbs.submit(f"#!/bin/bash\n{lines}\n/usr/bin/env -0\n", job, ENVIRON)
    assert commands.asked[0] == "qsub -"
    given = commands.given[0]
    commands.given.clear()
    pbs.submit(f"{writing.CARRIED} B,A=b c\n", changed(job, options={"export": "B,A=b c"}), ENVIRON)
    assert commands.given[0].split("\n")[1:] == ["export A='b c'", ""]
    mocker.stopall()
    told = sh(given, shell="bash", environ={"PBS_O_WORKDIR": "/", "TMPDIR": "/job"}).decode().split("\0")
    assert {"TOKEN=it's $(a)\n`secret`", "TMPDIR=/job", "PWD=/"} <= set(told)
    assert [one for one in told if one.startswith(("PBS_JOBID", "SSH_"))] == []


def test_a_directory_that_is_not_there(commands: Commands, refused: Refused) -> None:
    """With -k doe, PBS tries the job 21 times and holds it (seen, 23.06)."""
    with refused(UsageError):
        pbs.submit("", changed(build("./app"), options={"output": "/nowhere/x.out"}), ENVIRON)
    assert commands.asked == []


def test_jobs_are_deleted(commands: Commands, tmp_path: Path) -> None:
    queue = pbs.user_queue(ENVIRON, tmp_path, 30)
    commands["qstat"], commands["qdel 57"] = RUNNING, ""
    assert queue.cancel(["57"]) == []
    commands.answers["qdel 57"] = ("", "qdel: Job has finished 57.login\n", 35)
    assert queue.cancel(["57"]) == ["57"]
    commands.answers["qstat"], commands.answers["qdel 99"] = (
        (NONE, UNKNOWN, 153),
        ("", "qdel: Unknown Job Id 99\n", 153),
    )
    assert queue.cancel(["99"]) == ["99"]
    commands["qstat"], commands["qdel"] = said("qstat-array.json"), ""
    queue.cancel(["58", "58_[0,1]"])
    assert [line for line in commands.asked if line.startswith("qdel 58")] == ["qdel 58[]", "qdel 58[0] 58[1]"]
    with pytest.raises(UsageError):
        queue.cancel(["57"], "USR1")


def test_jobs_that_may_not_be_deleted(commands: Commands, refused: Refused, mocker: MockerFixture) -> None:
    """Of another user, and on a node, where no job is one's own without flatuid. PBS says the same."""
    commands["qstat"] = RUNNING
    commands.answers["qdel"] = ("", "qdel: Unauthorized Request  57.login\n", 159)
    with refused(SchedulerError):
        cluster._delete(ENVIRON, JobId("57"))
    mocker.patch.object(parts, "user", return_value="bob")
    with pytest.raises(NotYours):
        cluster._delete(ENVIRON, JobId("57"))


def test_jobs_and_history(commands: Commands, tmp_path: Path) -> None:
    queue = pbs.user_queue(ENVIRON, tmp_path, 30)
    commands["qselect -u alice"] = "57.login\n"
    commands["qstat -F json -f -t 57.login"] = RUNNING
    for _ in range(2):
        assert [job.id for job in queue.jobs().jobs] == ["57"]
    assert len(commands.asked) == 2
    commands["qstat -F json -x -f -t 0 0[]"] = said("qstat-finished.json")
    assert [job.id for job in queue.history(["0"])] == ["0"]
    commands.answers["qstat -F json -x"] = (NONE, "qstat: PBS is not configured to maintain job history 1\n", 1)
    assert queue.history(["1"]) == ()
    commands["pbsnodes"], commands["qstat -F json -Q"] = said("nodes.json"), said("queues.json")
    commands["qstat -F json -B"] = '{"Server": {"login": {"default_queue": "short"}}}'
    assert {(node.partition, node.default) for node in queue.nodes()} == {("workq", False), ("short", True)}


def test_what_is_known_of_a_job(commands: Commands, mocker: MockerFixture) -> None:
    mocker.patch.object(cluster, "is_here", return_value=True)
    mocker.patch("subprocess.run", return_value=subprocess.CompletedProcess((), 0, RUNNING, ""))
    known = pbs.trace("57")
    assert known is not None
    assert (known.active, known.output, known.owner) == (True, "/home/alice/w/jsonjob.o57", "")
    mocker.patch("subprocess.run", return_value=subprocess.CompletedProcess((), 153, NONE, UNKNOWN))
    assert pbs.trace("57") is None


def test_a_shell_needs_a_terminal(mocker: MockerFixture) -> None:
    mocker.patch("os.isatty", return_value=False)
    assert pbs.interactive(build("./app"), (), ("mnrun", "shell"), {"PATH": ""}) == ()


def test_a_shell_keeps_the_code_that_qsub_loses(mocker: MockerFixture, sh: Shell, tmp_path: Path) -> None:
    mocker.patch("os.isatty", return_value=True)
    (tmp_path / "qsub").write_text(
        '#!/bin/sh\necho "$@" | sed "s/ --.*//"; while [ "$1" != -- ]; do shift; done; shift; "$@"\n'
    )
    (tmp_path / "qsub").chmod(0o755)
    job = build("./app", nodes="2", time="5", partition="short")
    words = pbs.interactive(job, (), ("sh", "-c", "pwd; exit 5"), {"PATH": ""})
    here = {"PATH": f"{tmp_path}:/bin:/usr/bin", "PBS_O_WORKDIR": "/usr"}
    told = sh('"$@"', *words, environ=here, code=5).decode().splitlines()
    assert told[-1] == "/usr"
    assert "-I -l select=2:ncpus=1:mpiprocs=1 -l place=scatter -l walltime=0:05:00 -q short" in told[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["qsub"]


@pytest.mark.parametrize(("said", "dialect"), [("pbs_version = 23.06.06", "openpbs"), ("Version: 6.1.3", "torque")])
def test_the_dialect_of_a_site(commands: Commands, mocker: MockerFixture, said: str, dialect: str) -> None:
    mocker.patch.object(cluster, "is_here", return_value=True)
    commands["qsub --version"] = said
    assert cluster.dialect(build("./app"), ENVIRON) == dialect
    other = {"torque": "openpbs", "openpbs": "torque"}[dialect]
    assert cluster.dialect(changed(build("./app"), site={"pbs": {"dialect": other}}), ENVIRON) == other
    with pytest.raises(UsageError):
        cluster.dialect(changed(build("./app"), site={"pbs": {"dialect": "nqs"}}), ENVIRON)


@pytest.mark.parametrize(
    ("identity", "job"),
    [("57.login", "57"), ("58[3].login", "58_3"), ("12", "12"), ("0.pbs01.site.org", "0"), ("", "")],
)
def test_the_id_of_the_job_around(identity: str, job: str) -> None:
    assert pbs.job({"PBS_JOBID": identity}) == job


@pytest.mark.parametrize(
    ("chain", "script"),
    [
        ((("30", "mnrun"), ("20", "bash"), ("10", "pbs_mom")), "30"),
        ((("40", "mnrun"), ("30", "bash"), ("20", "bash"), ("10", "pbs_mom")), "30"),
        ((("30", "mnrun"), ("10", "pbs_mom")), "30"),
        ((("30", "mnrun"), ("10", "sshd")), ""),
    ],
)
def test_the_script_is_below_a_login_shell(
    mocker: MockerFixture, chain: tuple[tuple[str, str], ...], script: str
) -> None:
    """`qsub -- PROGRAM` has none (seen, 23.06)."""
    mocker.patch.object(parts, "ancestors", return_value=iter(chain))
    mocker.patch.object(
        Path, "read_bytes", autospec=True, side_effect=lambda path: b"-bash\0" if "20" in str(path) else b"mnrun\0"
    )
    assert parts.script_below(pbs.ANCESTORS) == script
