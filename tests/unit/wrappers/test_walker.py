"""The batch script's side of a launch up to its first step, run for real: no Slurm, no node, no container.

What it does with nodes is for the live tests.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mnrun.model import Site
from mnrun.planning import layout, plan, script
from mnrun.schedulers.slurm import steps
from unit.conftest import Shell
from unit.samples import build

SCONTROL = """#!/bin/sh
case "$*" in
  *hostnames*) echo node01; echo node02 ;;
  *"hostlistsorted node01,node02") echo "node[01-02]" ;;
  *) echo "JobState=COMPLETING Reason=TimeLimit" ;;
esac
"""
KEYGEN = '#!/bin/sh\nfor name; do :; done\n: >"$name"; : >"$name.pub"\n'


class Job:
    """A script in its stage; `start` runs it as far as `begin`, then the test's own lines."""

    def __init__(self, sh: Shell, path: Path) -> None:
        self._sh, self.path = sh, path
        (path / "bin").mkdir()
        self.program("scontrol", SCONTROL)
        self.program("ssh-keygen", KEYGEN)

    def program(self, name: str, text: str) -> None:
        (self.path / "bin" / name).write_text(text)
        (self.path / "bin" / name).chmod(0o755)

    def start(self, lines: str, environ: Mapping[str, str] = {}, code: int = 0, **given: Any) -> str:
        here = {**environ, "PATH": "x"}
        job = build("./app", environ=here, **{"nodes": "2", "job_dir": f"{self.path}/jobs", **given})
        laid = layout.lay_out(job, None)
        made = plan.make(job, script.on_paper(laid), script.JOB)
        where = steps.on_paper(Site("slurm", script.SLURM_JOB, (24, 11)), job, laid)
        written = script.write(made, where, f"{self.path}/stage", "")
        for name, text in written.stage.items():
            (self.path / "stage" / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / "stage" / name).write_text(text, errors="surrogateescape")
        of_slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[01-02]", "SLURMD_NODENAME": "node01"}
        path = {"PATH": f"{self.path}/bin:{os.environ['PATH']}"}
        text = written.text.partition("\nbegin ")[0] + f"\nbegin\n{lines}\n"
        (self.path / "script").write_text(text, errors="surrogateescape")
        run = f"exec 2>{self.path}/script.err; exec bash {self.path}/script"
        said = self._sh(run, shell="bash", environ={**environ, **of_slurm, **path}, code=code)
        return said.decode(errors="surrogateescape")

    def outcome(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / "jobs/7/0/outcome").read_text())
        return found


@pytest.fixture
def job(sh: Shell, tmp_path: Path) -> Job:
    return Job(sh, tmp_path)


USER_ENV = 'grep -v "^#" "$mnrun_mine/kit/user.env"; mnrun_ours=0'


def test_a_job_that_is_ended_while_its_script_begins_has_not_succeeded(job: Job) -> None:
    """Its record says so, and why, by Slurm's word."""
    job.program("ssh-keygen", "#!/bin/sh\nkill -TERM $PPID\n")
    job.start("", code=124)
    assert (job.outcome()["code"], job.outcome()["why"]) == (124, "job 7 reached its time limit")


@pytest.mark.parametrize(
    ("said", "code", "why"),
    [
        ("JobState=COMPLETING", 143, "job 7 was cancelled"),
        ("JobState=COMPLETING Restarts=1", 143, "requeued"),
        ("JobState=COMPLETING PreemptTime=2026-11-21", 0, "requeued"),
        ("JobState=RUNNING", 0, ""),  # it was a warning
    ],
)
def test_a_program_that_leaves_with_0_as_its_job_is_ended(job: Job, said: str, code: int, why: str) -> None:
    """As mpirun may, when it gets the TERM of Slurm: the job has not succeeded for that."""
    job.program("scontrol", SCONTROL.replace("JobState=COMPLETING Reason=TimeLimit", said))
    job.start("mnrun_went=1 mnrun_code=0 mnrun_warned=1 mnrun_counted=; exit", code=code)
    assert (job.outcome()["code"], job.outcome()["why"]) == (code, why)


@pytest.mark.parametrize(
    ("state", "code", "why"),
    [
        ("JobState=COMPLETING Reason=NodeDown", 121, "lost while the program ran: node02"),
        ("JobState=NODE_FAIL", 121, "lost while the program ran: node02"),
        ("JobState=CANCELLED", 143, "job 7 was cancelled"),
        ("JobState=RUNNING", 0, ""),  # its program is done, and that counts
    ],
)
def test_a_program_that_leaves_with_0_as_its_node_is_lost(job: Job, state: str, code: int, why: str) -> None:
    """mpirun may be ended before anybody else is told: a node without a farewell makes us ask."""
    says(job, state)
    lost = "mnrun_ready=([node01]=1 [node02]=1) mnrun_bye=([node01]=1)"
    job.start(f"{lost} mnrun_sweeping=(true) mnrun_went=1 mnrun_code=0 mnrun_served=0 mnrun_counted=; exit", code=code)
    assert (job.outcome()["code"], job.outcome()["why"]) == (code, why)


def says(job: Job, state: str) -> None:
    """What Slurm says of the job."""
    job.program("scontrol", SCONTROL.replace("JobState=COMPLETING Reason=TimeLimit", state))


def test_what_comes_before_the_program_waits_for_it(job: Job) -> None:
    """Among the user's lines and ours; a TERM that is a warning, too. Then each goes down the lease, once."""
    says(job, "JobState=RUNNING")
    lines = """
    mnrun_grace=0
    for name in USR2 TERM ALRM CONT; do kill -s $name $$; done
    take "rank node01 0 2"; mnrun_went=1; hand_on; [[ -n $mnrun_early ]]
    take "rank node01 0 2"; hand_on; [[ -n $mnrun_early ]]  # the same one
    take "rank node02 1 2"; hand_on; kill -s HUP $$
    for number in {1..7}; do read -rt 20 -u "$mnrun_lease" line; echo "$line"; done
    ! read -rt 0 -u "$mnrun_lease"
    mnrun_ours=0; exit
    """
    said = job.start(lines, setup=("kill -s USR1 $$; kill -s TERM $$",))
    passed = ["USR1", "TERM", "USR2", "TERM", "ALRM", "CONT", "HUP"]
    assert said.splitlines() == [f"signal {name}" for name in passed]


def test_ranks_that_do_not_come_are_told(job: Job) -> None:
    """As a live launch says it."""
    ready = 'for name in node01 node02; do take "ready $name host=$name address=a port=1"; done'
    ready += "; mnrun_ready=()"  # they say no farewell
    lines = f"{ready}; mnrun_patience=0; go; take 'rank node01 0 2'; finish true"
    job.start(lines, code=124, connect="pipe")
    assert job.outcome()["why"].startswith("1 of 2 ranks have not started 0 s after all nodes were ready; mpirun hangs")


def test_a_script_has_a_moment_before_it_is_told(job: Job) -> None:
    """It has no ranks that could be counted."""
    lines = """
    kill -s USR1 $$; mnrun_counted=; mnrun_went=1; hand_on; [[ -n $mnrun_early ]]; kill -s TERM $$
    mnrun_since=-3; hand_on; for number in 1 2; do read -ru "$mnrun_lease" line; echo "$line"; done; mnrun_ours=0; exit
    """
    assert job.start(lines) == "signal TERM\nsignal USR1\n"  # what comes now is not held, as a preemption is short


@pytest.mark.parametrize("where", ["setup", "ours"])
@pytest.mark.parametrize("said", ["JobState=RUNNING PreemptTime=2026-11-21", "JobState=COMPLETING Restarts=1"])
def test_a_job_that_is_preempted_before_its_program_begins(job: Job, where: str, said: str) -> None:
    """It is started again, and has failed no start."""
    says(job, said)
    if where == "setup":
        job.start("", code=143, setup=("kill -TERM $$",))
    else:
        job.start("kill -TERM $$; while :; do read -rt 1 -u $mnrun_up || :; done", code=143)
    assert (job.outcome()["code"], job.outcome()["why"]) == (143, "requeued")


@pytest.mark.parametrize("name", ["TERM", "HUP"])
def test_a_job_that_is_ended_among_the_users_lines(job: Job, name: str) -> None:
    """Before anything of ours runs."""
    number = {"TERM": 143, "HUP": 129}[name]
    job.start("", code=number, setup=(f"kill -{name} $$",))
    assert (job.outcome()["code"], job.outcome()["why"]) == (number, f"ended by SIG{name} before the program began")


def test_a_line_that_fails_is_in_the_record(job: Job) -> None:
    """So that logs finds its output, and logs -f its end."""
    job.start("", code=122, setup=("ls /nonexistent",))
    assert (job.outcome()["code"], job.outcome()["why"]) == (122, "failed with 2: ls /nonexistent")
    assert json.loads((job.path / "jobs/7/0/begun").read_text())["head"] == "node01"


def test_a_line_that_fails_is_said_as_it_is_written(job: Job) -> None:
    """What fails in `module load`, which is a shell function, is a command of its own."""
    module = "module() { local code=1; return $code; }"
    job.start("", code=122, setup=(module, "if true; then", "  module load none # really", "fi"))
    assert job.outcome()["why"] == "failed with 1: module load none # really"


def test_a_line_that_fails_in_a_file_that_is_sourced(job: Job) -> None:
    """It is that file's line, and said of it."""
    (job.path / "env.sh").write_text("# ours\n\nls /nonexistent # there\n")
    job.start("", code=122, setup=(f"source {job.path}/env.sh",))
    assert job.outcome()["why"] == f"failed with 2: ls /nonexistent # there (line 3 of {job.path}/env.sh)"


def test_a_job_directory_that_cannot_be_written(job: Job) -> None:
    """That is said, and no more than that: its outcome has no place either."""
    (job.path / "jobs").write_text("a file")
    job.start("", code=121)
    said = (job.path / "script.err").read_text().splitlines()
    assert said[1:] == [f"mnrun: cannot write to the job directory {job.path}/jobs/7/0"], said


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("[node01]='no sshd' [node02]='no sshd'", "connected by pipe: node[01-02]: no sshd"),
        ("[node02]='a \"] $(b)'", 'connected by pipe: node02: a "] $(b)'),
        ("[node01]=x [node02]='no sshd'", "connected by pipe: node01: x; node02: no sshd"),
        ("", "connected by ssh"),
    ],
)
def test_nodes_of_one_reason_are_named_together(job: Job, said: str, text: str) -> None:
    """As a live launch does."""
    job.start(f"mnrun_connect=auto; mnrun_nossh=({said}); choose; mnrun_ours=0")
    assert (job.path / "script.err").read_text() == f"mnrun: {text}\n"


def test_nodes_that_are_not_ready_are_named_together(job: Job) -> None:
    """Where Slurm cannot fold their names, they stand one by one."""
    failed = "mnrun_failed=([node01]='no apptainer' [node02]='no apptainer')"
    job.start(f"{failed}; await 5", code=121)
    assert job.outcome()["why"] == "2 of 2 nodes not ready: node[01-02]: no apptainer"
    job.program("scontrol", SCONTROL.replace('echo "node[01-02]"', "exit 1"))
    job.start(f"{failed}; await 5", code=121)
    assert job.outcome()["why"] == "2 of 2 nodes not ready: node01,node02: no apptainer"


def test_a_signal_while_it_ends_is_not_handed_on(job: Job) -> None:
    """scancel sends CONT too, and the lease is closed by then."""
    job.program("scancel", "#!/bin/sh\nkill -CONT $PPID\n")
    lines = "mnrun_ready=([node01]=1); mnrun_server=1 mnrun_farewell=0 mnrun_went=1 mnrun_counted= mnrun_code=3; exit"
    job.start(lines, code=121)
    said = (job.path / "script.err").read_text().splitlines()
    assert said == ["mnrun: warning: no farewell from node01", "mnrun: lost while the program ran: node01"]


def test_a_failure_of_ours_is_not_the_programs(job: Job) -> None:
    """A disk that is full, say: our code, and what failed."""
    job.program("mkfifo", "#!/bin/sh\nexit 1\n")
    job.start("", code=121)
    assert job.outcome()["why"].startswith("on node01 this failed before the program began: mkfifo ")


def test_a_record_is_whole_whatever_is_said(job: Job) -> None:
    """A tab, an escape, quotes in the words of srun or of a container."""
    job.start("die 121 $'a\\tb \\e[1m \"c\" \\\\ d\\nhöh'", code=121)
    assert job.outcome()["why"] == 'a b  [1m "c" \\ d höh'


def test_values_of_the_jobs_own_are_taken_before_any_name_of_ours(job: Job) -> None:
    """Also one that is called as a variable of the script; PATH keeps our ssh and mpirun in front."""
    environ = {"stage": "prod", "host": "db1", "names": "a b", "inherited": "yes"}
    said = job.start(USER_ENV, environ, env=("stage", "host", "names", "inherited", "PATH"))
    found = dict(line[len("export ") :].split("=", 1) for line in said.splitlines() if "=" in line and line[0] == "e")
    assert {name: found[name] for name in environ} == {name: f"'{value}'" for name, value in environ.items()}
    assert found["PATH"].startswith("'/tmp/mnrun.7-")
    assert f"/bin:{job.path}/bin:" in found["PATH"]


def test_a_value_that_the_job_has_not_is_refused_in_the_job(job: Job) -> None:
    """One line, and our code for a mistake of the user's."""
    job.start("", {"GONE": "x"}, code=2, setup=("unset GONE",), env=("GONE",))
    assert job.outcome()["why"] == "there is no variable GONE in this job, which was to be passed on"


def test_what_is_typed_is_no_name_of_ours(job: Job) -> None:
    """Where the script fills in what only the job knows."""
    said = job.start('grep -e chdir -e id= "$mnrun_mine/kit/job.sh"; mnrun_ours=0', chdir="/data/MNRUN_JOB/MNRUN_NODES")
    assert "='/data/MNRUN_JOB/MNRUN_NODES'\n" in said
    assert "_id='7-" in said


def test_files_of_ranks_are_those_of_one_start(job: Job) -> None:
    """No task of an array writes over another's, and no start over the one before."""
    array = {"SLURM_ARRAY_JOB_ID": "6", "SLURM_ARRAY_TASK_ID": "3", "SLURM_RESTART_COUNT": "1"}
    said = job.start('grep split "$mnrun_mine/kit/job.sh" | tail -n 1; mnrun_ours=0', array, split_output="/data/it's")
    assert said == "mnrun_split='/data/it'\\''s/3/start.1'\n"
    assert json.loads((job.path / "jobs/6_3/1/begun").read_text())["split_output"] == "/data/it's/3/start.1"


def test_starts_that_were_requeued_are_no_failures(job: Job) -> None:
    """A job that makes way for others begins again as often as Slurm likes; one that dies each time does not."""
    starts = job.path / "jobs/7"
    for number in range(20):
        (starts / str(number)).mkdir(parents=True)
        (starts / str(number) / "outcome").write_text('{"time": 1, "code": 143, "why": "requeued"}\n')
    job.start("mnrun_ours=0; exit 0", {"SLURM_RESTART_COUNT": "20"})
    for number in range(6):
        (starts / str(number) / "outcome").unlink()
    job.start("", {"SLURM_RESTART_COUNT": "20"}, code=121)


def test_uneven_ranks_are_listed_in_a_file_of_the_scripts_own(job: Job) -> None:
    """B2: each rank's node, as srun reads it, in a directory of this shell's that nobody else can have made; no word
    holds them. Where all nodes have as many ranks there is no list."""
    lines = """
    mnrun_ranks=(3 2); list_each >"$mnrun_each"; cat "$mnrun_each"; stat -c %a "${mnrun_each%/*}"; echo "$mnrun_each"
    mnrun_ranks=(2 2); list_each
    mnrun_names=($(seq -f node%04g 4000)); for i in {0..3999}; do mnrun_ranks[i]=65; done; mnrun_ranks[7]=64
    list_each | cksum; mnrun_ours=0
    """
    said = job.start(lines, mode="outside-in", launcher="srun").splitlines()
    assert said[:6] == [*["node01,"] * 3, *["node02,"] * 2, "700"]
    assert re.fullmatch(r"/tmp/mnrun\.7-[0-9a-f]{8}\.script\.\w{6}/each", said[6])
    assert not Path(said[6]).exists()
    assert said[7].endswith(f" {259_999 * len('node0001,_')}")
    assert len(said) == 8
