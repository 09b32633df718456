"""Following submitted jobs: status, nodes, logs, cancel, wait and clean, on a real queue."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from published import checked

from .batch import forget, output, state, submit
from .cells import HELLO, INSIDE, MPIRUN, SRUN
from .stage import LOGIN, Cluster, Desk, Job, Result, wait_for

# Counts the questions to slurmctld; `--version` is none.
COUNTING = """#!/bin/sh
case $* in *--version*) ;; *) echo "{name} $*" >>{desk}/asked ;; esac
exec /usr/bin/{name} "$@"
"""
TALK = """
mkdir -p {desk}/split
for i in 1 2 3; do
  echo "line $i"
  for rank in 0 1; do echo "rank $rank says $i" >>{desk}/split/rank.$rank.out; done
  sleep 1
done
echo careful >{desk}/split/rank.1.err
printf 'the end'
"""


@dataclass
class Queue:
    """Alice's jobs in a folder of hers, which is her home too, so that nothing is left elsewhere."""

    cluster: Cluster
    desk: Desk

    def __post_init__(self) -> None:
        self.cluster.path(f"{self.desk.path}/bin").mkdir()
        for name in ("squeue", "scontrol", "sinfo", "sacct"):
            self.desk.put(f"bin/{name}", COUNTING.format(name=name, desk=self.desk.path), 0o755)
        self.desk.program("recorded.sh")

    def _words(self, *words: str, poll: str = "1s", **env: str) -> list[str]:
        given = {"HOME": self.desk.path, "MNRUN_SLURM_POLL": poll, **env}
        path = f"PATH={self.desk.path}/bin:/usr/local/bin:/usr/bin:/bin"
        return ["env", path, *(f"{name}={value}" for name, value in given.items()), "mnrun", *words]

    def mnrun(self, *words: str, poll: str = "1s", **env: str) -> Result:
        return self.cluster.alice(self._words(*words, poll=poll, **env), cwd=self.desk.path)

    @contextmanager
    def following(self, *words: str, poll: str = "1s") -> Iterator[Job]:
        with self.cluster.running(self._words(*words, poll=poll)) as job:
            yield job

    def submit(self, name: str, script: str, *sbatch: str) -> str:
        """The id of a job that runs a script with records around it; `submitted` is written as by `mnrun submit`."""
        where = f"{self.desk.path}/.mnrun/jobs"
        body = self.desk.put(f"{name}.sh", script.format(desk=self.desk.path))
        line = ["sbatch", "--parsable", "-J", name, "-o", f"{self.desk.path}/{name}.out", *sbatch]
        done = self.cluster.alice([*line, f"{self.desk.path}/recorded.sh", where, self.desk.path, "bash", body])
        assert done.code == 0, done
        job = done.out.strip()
        record = json.dumps({"id": job, "name": name, "nodes": 1, "gpus": 0, "time": time.time()})
        script = 'mkdir -p "$1" && printf "%s\\n" "$2" > "$1/submitted"'
        assert self.cluster.alice(["sh", "-c", script, "sh", f"{where}/{job}", record]).code == 0
        return job

    def status(self, *ids: str) -> dict[str, dict[str, Any]]:
        done = self.mnrun("status", "--json", *ids)
        assert done.code == 0, done
        return {job["id"]: job for job in checked("status", done.out)["jobs"]}

    def main(self) -> dict[str, Any]:
        """Return what `mnrun nodes` says of the first partition."""
        found: dict[str, Any] = checked("nodes", self.mnrun("nodes", "--json").out)["partitions"][0]
        return found

    def until(self, job: str, condition: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        wait_for(lambda: job in (seen := self.status()) and condition(seen[job]), f"{job} {what}")
        return self.status(job)[job]

    def code(self, *ids: str) -> int:
        done = self.mnrun("wait", *ids)
        assert all(line.startswith("mnrun: job ") for line in done.err.splitlines()), done
        return done.code

    def asked(self) -> list[str]:
        place = self.cluster.path(f"{self.desk.path}/asked")
        return place.read_text().splitlines() if place.exists() else []


@pytest.fixture
def queue(cluster: Cluster, desk: Desk) -> Iterator[Queue]:
    yield Queue(cluster, desk)
    cluster.alice(["scancel", "-u", "alice"])


def test_why_a_live_run_failed(queue: Queue) -> None:
    """Its records go with it, and the reason stays for as long as Slurm remembers the job."""
    done = queue.mnrun("-Q", "-N1", "--runtime", "host", "--launcher", "env", "--", "sh", "-c", "exit 47")
    assert done.code == 47, done
    (job,) = [job for job in queue.status().values() if job["code"] == 47]
    assert job["state"] == "FAILED", job
    assert "rank 0" in job["why"], job


def test_a_live_run_is_shown_once_and_ends_with_its_mnrun(queue: Queue) -> None:
    """Slurm's last answer still has the job, and counts for ten minutes. A refused request leaves no row."""

    def shown() -> list[tuple[str, int | None, bool]]:
        done = queue.mnrun("status", "--json", poll="10m")
        jobs = [job for job in checked("status", done.out)["jobs"] if job["name"] in (name, "vast")]
        return [(job["state"], job["code"], job["why"] != "") for job in jobs]

    name = f"lone{os.getpid()}"  # Slurm remembers jobs of an earlier test
    words = ["-Q", "-N1", "--runtime", "host", "-J", name, "--", "sleep", "600"]
    refused = queue.mnrun("-N", "99", "-J", "vast", "--runtime", "host", "hostname")
    assert refused.code == 123, refused
    with queue.following(*words, poll="10m"):
        wait_for(lambda: shown() == [("RUNNING", None, False)], "in one row")
        (launcher,) = [found for found in queue.cluster.mnruns() if name in found.argv]
        launcher.send(signal.SIGKILL)
        wait_for(lambda: shown() == [("FAILED", 137, True)], "its end, with a reason")
    forget(queue.cluster)


def test_the_life_of_jobs(queue: Queue) -> None:
    late = queue.submit("late", "sleep 600", "-N1", "-t10", "--gres=gpu:1")
    talk = queue.submit("talk", TALK, "-N1")
    _follows_to_the_end(queue, talk)
    everyone = str(len(queue.cluster.nodes))
    big = queue.submit("big", "sleep 1", f"-N{everyone}", "--exclusive")  # nothing starts beside it

    seen = queue.until(late, lambda job: job["state"] == "RUNNING", "running")
    assert (seen["gpus"], seen["nodes"], seen["code"]) == (1, 1, None)
    assert seen["nodelist"] in queue.cluster.nodes
    assert 0 < seen["left"] <= 600
    why = "waits for nodes or GPUs that others use"
    assert queue.until(big, lambda job: job["why"] == why, "with a reason to wait")["state"] == "PENDING"
    shown = queue.mnrun("status", late, big).out.splitlines()
    assert shown[0].split() == ["JOB", "NAME", "STATE", "NODES", "GPUS", "TIME", "LEFT", "WHY"]
    assert [line.split()[:3] for line in shown[1:]] == [[late, "late", "running"], [big, "big", "pending"]]
    wait_for(lambda: queue.main()["partly"] == 1, "alone")  # the node of the other one is not free at once
    free = queue.main()
    assert (free["name"], free["nodes"], free["gpus_free"]) == ("main", int(everyone), 4 * int(everyone) - 1)

    refused = queue.mnrun("cancel")
    assert refused.code == 2 and f"mnrun cancel {big}\n" in refused.err, "there is no terminal"
    assert queue.mnrun("cancel", big).code == 0
    assert queue.status(big)[big]["state"] == "CANCELLED", "at once: it was us"
    assert queue.code(big) == 143
    _ends_of_short_jobs(queue)
    queue.cluster.root(LOGIN, "scontrol", "update", f"jobid={late}", "EndTime=now+1")
    assert queue.code(late) == 124
    assert queue.status(late)[late]["state"] == "TIMEOUT"
    _cleans_up(queue, talk)


def _follows_to_the_end(queue: Queue, talk: str) -> None:
    begun = queue.cluster.path(f"{queue.desk.path}/.mnrun/jobs/{talk}/0/begun")
    wait_for(begun.exists, "begun")  # Slurm is asked why a job waits
    before = len(queue.asked())
    with queue.following("logs", "-f", talk, poll="10m") as job:
        job.saying(lambda said: "line 1\n" in said.out, "telling as the job runs")
        done = job.end()
    assert len(queue.asked()) == before
    assert done.code == 0, done
    assert [line for line in done.out.splitlines() if "line" in line] == ["line 1", "line 2", "line 3"]
    assert "the end" in done.out
    assert [line for line in done.out.splitlines() if line.startswith("[1]")] == [
        f"[1] rank 1 says {i}" for i in (1, 2, 3)
    ]
    assert re.fullmatch(rf"\[1\] careful\nmnrun: job {talk}: done, with code 0, after 0:0\d\n", done.err), done
    assert queue.mnrun("logs", talk, "--rank", "0").out == "rank 0 says 1\nrank 0 says 2\nrank 0 says 3\n"
    assert queue.mnrun("logs", talk, "--rank", "0", "-n", "1").out == "rank 0 says 3\n"
    assert queue.mnrun("logs", "4711").code == 123


def _ends_of_short_jobs(queue: Queue) -> None:
    ok = queue.submit("ok", "true", "-N1")
    bad = queue.submit("bad", "exit 3", "-N1")
    array = queue.submit("array", "exit $SLURM_ARRAY_TASK_ID", "-N1", "-a", "0-3%2")
    long = queue.submit("long", "sleep 300", "-N1")
    assert queue.code(ok, bad) == 3
    assert queue.code(array) == 3
    tasks = queue.status(array)
    assert {task: job["code"] for task, job in tasks.items()} == {f"{array}_{n}": n for n in range(4)}
    assert list(queue.status(f"{array}_2")) == [f"{array}_2"]
    assert (queue.status(bad)[bad]["state"], queue.status(ok)[ok]["state"]) == ("FAILED", "COMPLETED")
    queue.until(long, lambda job: job["state"] == "RUNNING", "running")
    assert queue.mnrun("cancel", long).code == 0
    assert queue.code(long) == 143
    assert queue.status(long)[long]["state"] == "CANCELLED"


def _cleans_up(queue: Queue, old: str) -> None:
    running = queue.submit("running", "sleep 300", "-N1")
    queue.until(running, lambda job: job["state"] == "RUNNING", "running")
    ages = {"time": time.time() - 40 * 86400, "code": 0}
    jobs = f"{queue.desk.path}/.mnrun/jobs"
    for path in (
        f"{old}/submitted",
        f"{old}/0/begun",
        f"{old}/0/outcome",
        f"{running}/submitted",
        f"{running}/0/begun",
    ):
        queue.desk.put(f".mnrun/jobs/{path}", json.dumps({**ages, "id": path.partition("/")[0]}))
    for path in ("log", "."):
        os.utime(queue.cluster.path(f"{jobs}/{running}/0/{path}"), (ages["time"], ages["time"]))
    there = len(list(queue.cluster.path(jobs).iterdir()))
    done = queue.mnrun("clean", "--older", "30d")
    assert (done.code, done.out) == (0, f"removed {jobs}/{old}: 40 days old\n"), done
    assert f"records of 1 of {there} jobs removed" in done.err
    assert queue.cluster.path(f"{jobs}/{running}/0/begun").exists()
    assert not queue.cluster.path(f"{jobs}/{old}").exists()


def test_logs_of_a_job_that_was_killed_outright(queue: Queue) -> None:
    killed = queue.submit("killed", "echo before; sleep 2; kill -9 $PPID", "-N1")
    with queue.following("logs", "-f", killed) as job:
        done = job.end()
    assert (done.code, "before" in done.out) == (0, True), done
    assert queue.asked(), "it cannot know"
    assert queue.code(killed) == 137


# Scripts of one's own. The first ends as mnrun does, and the shell of the other goes on.
EXEC = """#!/bin/bash
#SBATCH -N2 -J own
exec mnrun -Q --launcher env --runtime host -- sh -c 'echo hello $RANK; until [ -e go ]; do sleep 0.1; done; exit 3'
"""
PLAIN = """#!/bin/bash
#SBATCH -N1 -J plain -a 1-2 -e plain.%a
mnrun -Q --launcher env --runtime host -- sh -c 'echo hello; echo bad >&2; until [ -e go ]; do sleep 0.1; done; exit 4'
"""


def test_scripts_of_ones_own_are_followed(queue: Queue) -> None:
    ids = []
    for name, text in (("a.sh", EXEC), ("b.sh", PLAIN)):
        queue.desk.put(name, text)
        home = f"HOME={queue.desk.path}"
        ids.append(queue.cluster.alice(["env", home, "sbatch", "--parsable", name], cwd=queue.desk.path).out.strip())
    own, task = ids[0], f"{ids[1]}_2"
    whole = queue.cluster.path(f"{queue.desk.path}/slurm-{own}.out")
    part = queue.cluster.path(f"{queue.desk.path}/plain.2")
    wait_for(lambda: whole.exists() and whole.read_text().count("hello") == 2, "running")
    wait_for(lambda: part.exists() and "bad" in part.read_text(), "running")
    shown = queue.status(*ids)
    assert list(shown) == [own, f"{ids[1]}_1", task]
    for name, words, errors in ((own, ["hello 0", "hello 1"], ""), (task, ["hello"], "bad\n")):
        seen = queue.mnrun("logs", name)
        assert (sorted(seen.out.splitlines()), seen.err) == (words, errors), seen
        assert "RANK" in queue.mnrun("why", name).out
        entered = queue.mnrun("exec", "--rank", "0", name, "--", "printenv", "RANK")
        assert (entered.code, entered.out) == (0, "0\n"), entered
    assert f"{task}| hello" in queue.mnrun("logs", ids[1]).out.splitlines(), "all tasks of an array"
    with queue.following("logs", "-f", "--exit-status", own) as job:
        job.saying(lambda said: "hello 1" in said.out, "telling as the job runs")
        queue.desk.put("go", "")
        done = job.end()
    assert (done.code, f"job {own}: failed, with code 3" in done.err) == (3, True), done
    assert queue.mnrun("wait", own, *ids[1:]).code == 4
    assert f"job {own}: failed, with code 3" in queue.mnrun("why", own).out
    assert queue.mnrun("report", own).out.startswith(f"job {own} ")
    assert "bad" in queue.mnrun("logs", task).err
    assert queue.status(task)[task]["code"] == 4


def test_a_job_of_somebody_else(queue: Queue) -> None:
    job = queue.cluster.alice(["sbatch", "-H", "--parsable", "--wrap", "true"], user="bob", cwd="/tmp").out.strip()
    try:
        said = {
            (done.code, done.err)
            for verb in ("status", "logs", "why", "wait", "report", "cancel")
            for done in [queue.mnrun(verb, job)]
        }
        assert said == {(123, f"mnrun: job {job} is bob's; mnrun status shows your jobs\n")}
        assert queue.cluster.root(LOGIN, "squeue", "-h", "-o", "%i", "-j", job).split() == [job], "it is not harmed"
    finally:
        queue.cluster.root(LOGIN, "scancel", job)


def test_slurmctld_is_asked_seldom(queue: Queue) -> None:
    until = "until [ -e {desk}/go ]; do sleep 0.1; done"
    first, second = queue.submit("first", f"{until}; exit 4", "-N1"), queue.submit("second", until, "-N1")
    for job in (first, second):  # a record that is newer than an answer is a reason to ask
        begun = queue.cluster.path(f"{queue.desk.path}/.mnrun/jobs/{job}/0/begun")
        wait_for(begun.exists, "begun")
    with queue.following("status", poll="10m") as one, queue.following("status", poll="10m") as other:
        # a second may lie between them, in which a job begins, or 1:00:00 of time left becomes 59:59
        shown = [re.sub(r"[\d-]*\d(:\d\d)+|node\d+|\b1\b|\s", "", job.end().out) for job in (one, other)]
        assert shown[0] == shown[1] != ""
    for _ in range(3):
        assert queue.mnrun("status", poll="10m").code == 0
        assert queue.mnrun("status", first, second, poll="10m").code == 0
        assert queue.mnrun("nodes", poll="10m").code == 0
    with queue.following("wait", first, second, poll="10m") as waits:
        queue.desk.put("go", "")
        assert waits.end().code == 4
    assert [line.split()[0] for line in queue.asked()] == ["squeue", "sacct", "sinfo"]
    assert queue.mnrun("status", first, second, poll="10m").code == 0
    assert queue.mnrun("wait", first, second, poll="1s").code == 4
    assert len(queue.asked()) == 3
    book = queue.cluster.path(f"{queue.desk.path}/.mnrun/slurm.json")
    assert book.stat().st_mode & 0o777 == 0o600


def test_slurmctld_is_down(queue: Queue) -> None:
    job = queue.submit("bad", "exit 3", "-N1")
    assert queue.code(job) == 3
    conf = queue.cluster.path("/etc/slurm/slurm.conf").read_text()
    dead = queue.desk.put("dead.conf", f"{conf}\nSlurmctldPort=9\n")
    program = ["--runtime", "host", "--", "true"]
    for words in (["status"], ["nodes"], ["wait", "4711"], ["cancel", "4711"], ["submit", *program], ["run", *program]):
        started = time.monotonic()
        inside = {"SLURM_JOB_ID": "4711"} if words[0] == "run" else {}
        done = queue.mnrun(*words, poll="30s", SLURM_CONF=dead, **inside)
        assert (done.code, done.out) == (123, ""), done
        assert done.err.startswith("mnrun: ") and done.err.count("\n") == 1, done
        assert "Unable to contact slurm controller" in done.err
        assert time.monotonic() - started < 120
    assert queue.mnrun("wait", job, SLURM_CONF=dead).code == 3
    row = queue.mnrun("status", job, SLURM_CONF=dead).out.split()
    assert queue.status(job)[job]["nodelist"] in row, row
    assert row[-1] == "3"


def test_a_lost_node_and_the_accounting(variant: Callable[..., Cluster]) -> None:
    """How jobs ended that left no word, also once slurmctld has forgotten them."""
    cluster = variant(2, "--accounting", "--impatient")
    with cluster.desk() as desk:
        asked = _slurm_holds_what_was_asked(cluster, desk)
        queue = Queue(cluster, desk)
        lost = queue.submit("lost", "sleep 600", "--no-requeue", "-w", "node02")
        queue.until(lost, lambda job: job["state"] == "RUNNING", "running")
        submitted = _submit_with_accounting(cluster, desk)
        life = _live_with_accounting(cluster, desk)
        cluster.tool("kill", "node02")
        line = ["sbatch", "--parsable", "-w", "node01", "-o", "/dev/null", "--wrap"]
        failed, killed, ok = (
            cluster.alice([*line, words]).out.strip() for words in ("exit 3", "kill -9 $$", "sleep 600")
        )
        assert queue.code(failed, killed) == 137
        assert queue.mnrun("cancel", ok).code == 0
        assert queue.code(ok) == 143
        assert queue.code(lost) == 121
        assert queue.status(lost)[lost]["state"] == "NODE_FAIL"
        for job, code in (*zip(submitted, (5, 121)), *life.items()):
            told = cluster.alice(["env", "MNRUN_SLURM_POLL=1s", "mnrun", "wait", job])
            assert told.code == code, f"{job}: {told} {output(desk, job)}"
        forget(cluster)  # from here on Slurm's word alone counts
        cluster.tool("heal", "node02")
        wait_for(lambda: "CANCELLED" in cluster.root("login", "sacct", "-a", "-n", "-X", "-j", ok), "in the accounting")
        desk.put(
            "bin/squeue",
            "#!/bin/sh\ncase $* in *--version*) echo slurm 24.11 ;; *) echo '{\"jobs\": []}' ;; esac\n",
            0o755,
        )
        time.sleep(1.1)
        assert {job: seen["code"] for job, seen in queue.status().items()} == {
            **dict.fromkeys(asked, 0),
            lost: 121,
            **dict(zip(submitted, (5, 121))),
            **life,
            failed: 3,
            killed: 137,
            ok: 143,
        }
        assert queue.status(ok)[ok]["state"] == "CANCELLED"
        assert queue.code(failed) == 3
        unknown = queue.mnrun("status", "4711")
        assert (unknown.code, "no job 4711 of yours" in unknown.err) == (123, True), unknown


def _slurm_holds_what_was_asked(cluster: Cluster, desk: Desk) -> tuple[str, str]:
    for words in (["add", "qos", "fast"], ["add", "account", "science"]):
        cluster.root(LOGIN, "sacctmgr", "-i", *words)
    line = "reservationname=ours users=alice starttime=now duration=60 nodes=node01"
    cluster.root(LOGIN, "scontrol", "create", "reservation", *line.split())
    said = ["--", "sh", "-c", 'echo "$ONE ${OTHER-none}"']
    own = ["-N", "1", "-n", "1", "--runtime", "host"]
    charge = ["--account", "science", "--qos", "fast", "--mem", "2G", "--licenses", "app:2", "--reservation", "ours"]
    mail = ["--mail-type", "END,FAIL", "--mail-user", "alice@example.org"]
    charged = submit(cluster, desk, *own, *charge, *mail, *said)
    exports = ["--mem-per-cpu", "500M", "--export", "PATH,ONE"]
    exported = submit(cluster, desk, *own, *exports, *said, env={"ONE": "1", "OTHER": "2"})
    held = state(cluster, charged)
    wanted = {"Account": "science", "QOS": "fast", "MinMemoryNode": "2G", "Licenses": "app:2", "Reservation": "ours"}
    wanted.update({"MailType": "END,FAIL", "MailUser": "alice@example.org"})
    assert {name: held.get(name) for name in wanted} == wanted
    assert state(cluster, exported)["MinMemoryCPU"] == "500M"
    assert cluster.alice(["mnrun", "wait", charged, exported]).code == 0
    assert "1 none" in output(desk, exported).splitlines()
    cluster.root(LOGIN, "scontrol", "delete", "reservationname=ours")
    return charged, exported


def _live_with_accounting(cluster: Cluster, desk: Desk) -> dict[str, int]:
    """Jobs of `mnrun submit` that go on meanwhile, and how they will end: an array, one that waits for it, and
    one that runs out of time."""
    where = ["-w", "node01", "-n", "1"]
    array = submit(cluster, desk, "-a", "0-1%1", *where, *INSIDE.words, "--", "true")
    chain = submit(cluster, desk, "-d", f"afterok:{array}", *where, *INSIDE.words, "--", "true")
    late = submit(cluster, desk, *where, *SRUN.words, "--", HELLO, "-s", "3600")
    wait_for(lambda: "rank 0 of 1" in output(desk, late), "running")
    cluster.root(LOGIN, "scontrol", "update", f"jobid={late}", "EndTime=now+1")
    return {f"{array}_0": 0, f"{array}_1": 0, chain: 0, late: 124}


def _submit_with_accounting(cluster: Cluster, desk: Desk) -> tuple[str, str]:
    """Jobs of `mnrun submit`: one that has ended with 5, and one that runs on both nodes."""
    bad = submit(cluster, desk, "-N", "2", *INSIDE.words, "--", "sh", "-c", "echo up; exit 5")
    assert cluster.alice(["mnrun", "wait", bad]).code == 5
    assert "up" in cluster.alice(["mnrun", "logs", bad]).out.splitlines()
    runs = submit(cluster, desk, "-N", "2", "--no-requeue", *MPIRUN.words, "--", HELLO, "-s", "3600")
    wait_for(lambda: output(desk, runs).count(" sum ") == 2, "running", state=lambda: output(desk, runs))
    return bad, runs
