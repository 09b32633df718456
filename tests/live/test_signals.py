"""Signals to a job: each reaches the program once, and nothing else; preemption, with and without another start."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator

import pytest

from .batch import USR1, end, output, state, submit
from .cells import INSIDE, MAIN, OMPI5, Way, one
from .stage import LOGIN, Cluster, Desk, wait_for
from .stranger import kill

# Writes a checkpoint when it is told to end; with one there it goes on from that, and has done.
CHECKPOINT = """\
#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK-$PMIX_RANK}
[ ! -e ck.$rank ] || { echo "goes on $rank from $(cat ck.$rank)"; exit; }
trap 'echo "term $rank"; echo state >>ck.$rank; [ "$1" = stay ] || exit 0' TERM
echo "up $rank"
while :; do sleep 0.1; done
"""


def told(text: str, word: str = "got") -> list[str]:
    return sorted(line for line in text.splitlines() if line.startswith(word))


@pytest.fixture
def urgent(cluster: Cluster) -> Iterator[list[str]]:
    """sbatch words for a job before which those of the other partition must go, after a warning of some seconds."""
    cluster.root(LOGIN, "scontrol", "create", "partition=urgent", "nodes=ALL", "PriorityTier=10", "PreemptMode=off")
    cluster.root(LOGIN, "scontrol", "update", "partition=main", "GraceTime=30")
    yield ["sbatch", "-p", "urgent", "-N", str(len(cluster.nodes)), "--exclusive", "-o", "/dev/null", "--wrap", "true"]
    cluster.root(LOGIN, "scontrol", "update", "partition=main", "GraceTime=0")
    wait_for(lambda: "urgent" not in cluster.root(LOGIN, "squeue", "-h", "-o", "%P"), "done with what is urgent")
    cluster.root(LOGIN, "scontrol", "delete", "partition=urgent")


@pytest.mark.parametrize("way", one(0, MAIN), ids=str)
def test_a_signal_to_the_script_reaches_every_rank_once(cluster: Cluster, desk: Desk, way: Way) -> None:
    program = desk.put("usr1", USR1, 0o755)
    job = submit(cluster, desk, "-N", "2", "--ntasks-per-node", "2", *way.words, "--", program)
    wait_for(lambda: output(desk, job).count("up ") == 4, "up", state=lambda: output(desk, job))
    cluster.root(LOGIN, "scancel", "--batch", "--signal=USR1", job)
    result = end(cluster, desk, job)
    assert result.code == 0, result
    assert told(result.err) == [f"got {n}" for n in range(4)]


def test_a_signal_to_all_steps_reaches_every_rank_once(cluster: Cluster, desk: Desk) -> None:
    program = desk.put("usr1", USR1, 0o755)
    job = submit(cluster, desk, "-N", "2", "--ntasks-per-node", "2", *INSIDE.words, "--", program)
    wait_for(lambda: output(desk, job).count("up ") == 4, "up", state=lambda: output(desk, job))
    cluster.root(LOGIN, "scancel", "--signal=USR1", job)
    result = end(cluster, desk, job)
    assert result.code == 0, result
    assert told(result.err) == [f"got {n}" for n in range(4)]


@pytest.mark.parametrize(
    ("before", "words", "each"),
    [((), ("--",), 4), (("srun", "-N1", "-n1"), ("--",), 4), ((), ("--script",), 1)],
    ids=["ranks", "from-a-step", "script"],
)
def test_a_signal_to_the_steps_of_a_live_run(
    cluster: Cluster, desk: Desk, before: tuple[str, ...], words: tuple[str, ...], each: int
) -> None:
    program = desk.put("usr1", USR1, 0o755)
    line = cluster.launch("-n", "4", *INSIDE.words, *words, program, nodes=2)
    line[line.index("mnrun") : line.index("mnrun")] = before
    with cluster.running(line) as run:
        said = run.saying(lambda result: result.out.count("up ") == each, "up")
        cluster.root(LOGIN, "scancel", "--signal=USR1", said.err.split("mnrun: job ")[1].split(":")[0])
        result = run.end()
    assert result.code == 0, result
    assert len(told(result.out)) == each, result


def test_a_signal_that_the_launchers_srun_forwards_late(cluster: Cluster, desk: Desk) -> None:
    program = desk.put("usr1", USR1.replace("sleep 1\n", f"until [ -e {desk.path}/over ]; do sleep 0.1; done\n"), 0o755)
    line = cluster.launch("-n", "4", *INSIDE.words, "--", program, nodes=2)
    line[line.index("mnrun") : line.index("mnrun")] = ("srun", "-N1", "-n1")
    with cluster.running(line) as run:
        said = run.saying(lambda result: result.out.count("up ") == 4, "up")
        launchers = {p.pid for p in cluster.mnruns()}
        sruns = [p for p in cluster.processes() if p.parent in launchers and p.argv[0] == "srun"]
        assert sruns, "no srun of mnrun's"
        kill(sruns, signal.SIGSTOP)
        cluster.root(LOGIN, "scancel", "--signal=USR1", said.err.split("mnrun: job ")[1].split(":")[0])
        time.sleep(4)  # longer than guard.sh takes two signals for one
        kill(sruns, signal.SIGCONT)
        run.saying(lambda result: result.out.count("got ") >= 4, "told")
        time.sleep(2)
        desk.put("over", "")
        result = run.end()
    assert result.code == 0, result
    assert told(result.out) == [f"got {n}" for n in range(4)], result


def test_what_comes_before_the_program_reaches_it_as_it_begins(cluster: Cluster, desk: Desk) -> None:
    program = desk.put("usr1", USR1.replace("#!/bin/sh\n", "#!/bin/sh\ntrap 'echo \"warned $rank\"' TERM\n"), 0o755)
    cluster.root(LOGIN, "install", "-d", "-o", "alice", f"{desk.path}/bin")
    waits = (
        f'#!/bin/sh\ncd {desk.path}\ntouch waits; until [ -e go ]; do sleep 0.1; done\nexec /usr/bin/apptainer "$@"\n'
    )
    desk.put("bin/apptainer", waits, 0o755)
    path = f"{desk.path}/bin:/usr/local/bin:/usr/bin:/bin"
    job = submit(cluster, desk, "-N", "2", *INSIDE.words, "--", program, env={"PATH": path})
    wait_for(lambda: "waits" in desk.names(), "waiting", state=lambda: output(desk, job))
    for name in ("TERM", "USR1", "CONT"):
        cluster.root(LOGIN, "scancel", "--batch", f"--signal={name}", job)
    desk.put("go", "")
    result = end(cluster, desk, job)
    assert result.code == 0, result
    assert told(result.err) == [f"got {n}" for n in range(2)], result
    assert told(result.err, "warned") == [f"warned {n}" for n in range(2)], result


def test_a_job_that_is_requeued(cluster: Cluster, desk: Desk) -> None:
    line = '[ "${SLURM_RESTART_COUNT:-0}" = 1 ] && echo again && exit; echo first; sleep 3600'
    job = submit(cluster, desk, "-N", "2", "--requeue", *INSIDE.words, "--", "sh", "-c", line)
    wait_for(lambda: "first" in output(desk, job), "running", state=lambda: output(desk, job))
    cluster.root(LOGIN, "scontrol", "requeue", job)
    wait_for(lambda: state(cluster, job)["JobState"] == "PENDING", "requeued")
    cluster.root(LOGIN, "scontrol", "update", f"jobid={job}", "StartTime=now+3")  # Slurm lets it wait two minutes
    wait_for(lambda: "again" in output(desk, job), "running again", 240, lambda: output(desk, job))
    wait_for(lambda: state(cluster, job)["JobState"] == "COMPLETED", "completed")
    jobs = cluster.path("/home/alice/.mnrun/jobs")
    assert json.loads((jobs / job / "1" / "outcome").read_text())["code"] == 0
    assert json.loads((jobs / job / "0" / "outcome").read_text())["why"] == "requeued"
    end(cluster, desk, job)


def test_a_job_that_is_preempted(cluster: Cluster, desk: Desk, urgent: list[str]) -> None:
    program = desk.put("program", CHECKPOINT, 0o755)
    job = submit(cluster, desk, "-N", "2", "--ntasks-per-node", "2", "--requeue", *INSIDE.words, "--", program)
    wait_for(lambda: output(desk, job).count("up ") == 4, "up", state=lambda: output(desk, job))
    assert cluster.alice(urgent).code == 0
    wait_for(lambda: state(cluster, job)["JobState"] == "PENDING", "requeued", state=lambda: output(desk, job))
    assert told(output(desk, job), "term") == [f"term {n}" for n in range(4)], output(desk, job)
    assert f"mnrun: job {job} was preempted; its program ended with 0\n" in output(desk, job)
    jobs = cluster.path("/home/alice/.mnrun/jobs")
    assert json.loads((jobs / job / "0" / "outcome").read_text())["why"] == "requeued"
    cluster.root(LOGIN, "scontrol", "update", f"jobid={job}", "StartTime=now+3")
    wait_for(lambda: state(cluster, job)["JobState"] == "COMPLETED", "completed", 240, lambda: output(desk, job))
    result = end(cluster, desk, job)
    assert told(result.err, "goes on") == [f"goes on {n} from state" for n in range(4)]


def test_a_live_run_that_is_preempted(cluster: Cluster, desk: Desk, urgent: list[str]) -> None:
    program = desk.put("program", CHECKPOINT, 0o755)
    with cluster.running(
        cluster.launch("-Q", "--image", OMPI5, "-D", desk.path, "--", program, "stay", nodes=2)
    ) as run:
        run.saying(lambda result: result.out.count("up ") == 4, "up")
        assert cluster.alice(urgent).code == 0
        run.saying(lambda result: len(set(told(result.out, "term"))) == 4, "told")
        result = run.end()
    assert result.code == 143, result
    assert "was preempted" in result.err, result
