"""A run that gets its own nodes: the request, the wait, and the release at each end. And the tasks of `srun mnrun`."""

from __future__ import annotations

import re
import shlex
import signal

import pytest

from .batch import forget, of_the_site
from .cells import HELLO, INSIDE, OMPI5, SRUN, Way, one
from .reports import check, everybody_spoke, mine, only_line
from .stage import LOGIN, Cluster, Desk, wait_for
from .terminal import Terminal

TWO = ["-N2", "-w", "node01,node02"]
PLAIN = ["--runtime", "host", "--launcher", "env"]
BUSY = "waits for nodes or GPUs that others use"


def queue(cluster: Cluster, fields: str = "%j %D %m %l") -> list[str]:
    return cluster.root(LOGIN, "squeue", "-h", "-o", fields).splitlines()


def given_back(cluster: Cluster) -> None:
    """Slurm lists a job until each of its nodes has cleaned up."""
    wait_for(lambda: queue(cluster) == [], "given back")


def last_job(cluster: Cluster) -> str:
    """What Slurm knows of its newest job."""
    number = cluster.root(LOGIN, "squeue", "-h", "-t", "all", "-S", "-i", "-o", "%i").split()[0]
    return cluster.root(LOGIN, "scontrol", "-o", "show", "job", number)


@pytest.mark.parametrize("way", one(0, [INSIDE, SRUN]), ids=str)
def test_alloc_from_nothing_to_nothing(cluster: Cluster, way: Way) -> None:
    words = [*TWO, "--ntasks-per-node=2", "-t", "5", "--mem", "3G", *way.words, "--", HELLO]
    with cluster.running(["mnrun", *words, "-s", "20"]) as job:
        job.saying(everybody_spoke(4), "running")
        assert queue(cluster) == ["hello 2 3G 5:00"]
        result = job.end()
    check(result, "node01", "node02")
    assert mine(result)[0].startswith("no Slurm allocation here; mnrun gets one: salloc -N 2 --ntasks-per-node 2")
    assert "no effect" not in result.err, result
    given_back(cluster)
    failed = cluster.alice(["mnrun", *words, "-x", "7"])
    assert failed.code == 7, failed
    given_back(cluster)
    last = last_job(cluster)
    assert re.search(r"JobState=FAILED .*ExitCode=7:0", last), last
    number = re.findall(r"JobId=(\d+)", last)[0]
    assert cluster.alice(["env", "MNRUN_SLURM_POLL=1s", "mnrun", "wait", number]).code == 7


def test_why_of_runs_that_left_no_job_of_ours(cluster: Cluster, desk: Desk) -> None:
    fails = ["mnrun", *PLAIN, "--", "sh", "-c", "exit 4"]
    assert cluster.alice([*fails[:1], "-N1", *fails[1:]]).code == 4
    assert cluster.alice([*fails[:1], "-w", "node01", "--keep", *fails[1:]]).code == 4
    script = ["sbatch", "--wait", "-N1", "-o", f"{desk.path}/out.%j", "--wrap", shlex.join(fails)]
    assert cluster.alice(script, cwd=desk.path).code == 4
    live, kept, batch = sorted(map(int, cluster.root(LOGIN, "squeue", "-h", "-t", "all", "-o", "%A").split()))[-3:]
    answer = cluster.alice(["mnrun", "why", str(live)])
    assert answer.code == 0, answer
    assert re.match(rf"job {live}: failed, with code 4: rank 0 on node\d\d exited with 4\n", answer.out), answer
    answer = cluster.alice(["mnrun", "why", str(batch)])
    assert answer.code == 0, answer
    assert re.match(rf"job {batch}: failed, with code 4: rank 0 on node\d\d exited with 4\n", answer.out), answer
    answer = cluster.alice(["mnrun", "why", str(kept)])
    assert re.match(rf"job {kept}-\w{{6}}: failed, with code 4: rank 0 on node\d\d exited with 4\n", answer.out), answer
    cluster.root("node01", "sh", "-c", "rm -rf /tmp/mnrun.* /dev/shm/mnrun.*")
    forget(cluster)


def test_alloc_by_a_job_file(cluster: Cluster, desk: Desk) -> None:
    desk.put("job.toml", f'command = ["{HELLO}"]\nimage = "{OMPI5}"\nnodes = 2\nnodelist = "node[03-04]"\ntime = 3\n')
    check(cluster.alice(["mnrun", "job.toml"], cwd=desk.path), "node03", "node04", tasks=1)


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, 137)]
)
def test_alloc_is_given_back_at_a_signal(cluster: Cluster, signum: signal.Signals, code: int) -> None:
    with (
        cluster.held("-N4", "--exclusive"),
        cluster.running(["env", "MNRUN_SLURM_POLL=1s", "mnrun", *TWO, *PLAIN, "true"]) as job,
    ):
        job.saying(lambda result: BUSY in result.err, "waiting")
        assert len(queue(cluster)) == 2
        cluster.launcher().send(signum)
        result = job.end()
        assert (result.code, result.out) == (code, ""), result
        wait_for(lambda: len(queue(cluster)) == 1, "withdrawn")
    with cluster.running(["mnrun", *TWO, *INSIDE.words, "--", HELLO, "-s", "3600"]) as job:
        job.saying(everybody_spoke(2), "running")
        cluster.launcher().send(signum)
        assert job.end().code == code
    given_back(cluster)
    assert re.search(rf"JobState=FAILED .*ExitCode={code}:0", last_job(cluster)), last_job(cluster)
    forget(cluster)  # a killed mnrun leaves its records to the next launch


def test_alloc_that_is_cancelled_or_over(cluster: Cluster) -> None:
    with cluster.held("-N4", "--exclusive"), cluster.running(["mnrun", *TWO, *PLAIN, "--", "true"]) as job:
        wait_for(lambda: "true" in queue(cluster, "%j"), "waiting")
        cluster.root(LOGIN, "scancel", "-n", "true")
        result = job.end()
        assert result.code == 123, result
        assert mine(result)[-1].startswith("salloc: Job submit/allocate failed: "), result
    for words, code, said in (
        (["scancel", "-n", "hello"], 143, "was cancelled"),
        (["sh", "-c", "scontrol update jobid=$(squeue -h -t R -o %i) EndTime=now+1"], 124, "reached its time limit"),
    ):
        with cluster.running(["mnrun", *TWO, "-t", "9", *INSIDE.words, "--", HELLO, "-s", "3600"]) as job:
            job.saying(everybody_spoke(2), "running")
            cluster.root(LOGIN, *words)
            result = job.end()
        assert result.code == code, result
        assert said in mine(result)[-1], result


def test_alloc_that_slurm_refuses(cluster: Cluster) -> None:
    """(ux 3, 4) What there is, and nothing in the queue. So it is where a script is handed in."""
    remedies = {
        ("-p", "nowhere"): "there is no partition nowhere (--partition: command line); there is main",
        ("-p", "mian"): "there is no partition mian (--partition: command line); there is main; did you mean main?",
        ("-C", "nothing"): "there is no feature nothing (--constraint: command line); there is ib",
        ("-N", "1", "--gpus-per-node", "16"): "has at most 8 CPUs, 15G of memory and 4 GPUs, and "
        "--gpus-per-node (command line) asks for 16; mnrun nodes shows them",
        ("-N", "9"): f"main has {len(cluster.nodes)} nodes, and --nodes (command line) asks for 9; mnrun nodes shows",
        ("-N", "1", "--gpus-per-node", "h100:1"): "no GPU of type h100",
    }
    for words, remedy in remedies.items():
        for verb in ("run", "submit"):
            result = cluster.alice(["mnrun", verb, *words, *PLAIN, "--", "true"])
            assert (result.code, result.out) == (123, ""), result
            assert remedy in mine(result)[-1], result
    assert queue(cluster) == []


def test_alloc_shows_why_it_waits(cluster: Cluster) -> None:
    line = ["env", "MNRUN_SLURM_POLL=1s", "mnrun", *TWO, *INSIDE.words, "--", HELLO]
    with cluster.held("-N4", "--exclusive") as other, cluster.running(line) as job:
        job.saying(lambda result: BUSY in result.err, "waiting")
        with Terminal(cluster.argv(LOGIN, "alice", line)) as terminal:
            terminal.expect(r"job \d+ is queued: ")
            cluster.alice(["scancel", other])
            check(job.end(), "node01", "node02", tasks=1)
            terminal.expect(r"rank \d of 2")
            assert terminal.end() == 0
    quiet = cluster.alice(["mnrun", "-Q", *TWO, *PLAIN, "--", "true"])
    assert (quiet.code, quiet.err) == (0, ""), quiet


def test_alloc_for_more_time_than_there_is(cluster: Cluster, desk: Desk) -> None:
    warning = (
        "warning: --time 20 (command line) is above the limit, 10:00 in partition main, so the job may never start; "
        "ask for less"
    )
    cluster.root(LOGIN, "scontrol", "update", "partitionname=main", "MaxTime=10")
    try:
        with cluster.running(["env", "MNRUN_SLURM_POLL=1s", "mnrun", "-t", "20", *PLAIN, "--", "true"]) as job:
            job.saying(
                lambda result: "is queued: asks for more time than the partition allows" in result.err, "waiting"
            )
            cluster.launcher().send(signal.SIGINT)
            result = job.end()
        assert (result.code, mine(result)[1]) == (130, warning), result
        handed = cluster.alice(["mnrun", "submit", "-t", "20", *PLAIN, "--", "true"], cwd=desk.path)
        assert (handed.code, mine(handed)[-1]) == (0, warning), handed
        short = cluster.alice(["mnrun", "submit", "--wait", "-t", "10", *PLAIN, "--", "true"], cwd=desk.path)
        assert short.code == 0, short
        assert "warning" not in short.err, short
        cluster.alice(["scancel", handed.out.strip()])
    finally:
        cluster.root(LOGIN, "scontrol", "update", "partitionname=main", "MaxTime=UNLIMITED")
    forget(cluster)


def test_alloc_refuses_before_it_waits(cluster: Cluster) -> None:
    with cluster.held("-N4", "--exclusive"):
        only_line(cluster.alice(["mnrun", "-t", "1h30", *PLAIN, "--", "true"]), 2, "--time '1h30'", "2h")
        only_line(cluster.alice(["mnrun", "-o", "o.%t", *PLAIN, "--", "true"]), 122, "--split-output")
        with cluster.running(["mnrun", *TWO, "--image", "/no/such.sif", "--", "true"]) as job:
            job.saying(lambda result: "no Slurm allocation here" in result.err, "waiting")
            first = mine(job.so_far())[0]
            cluster.launcher().send(signal.SIGINT)
            job.end()
    assert first == "warning: the image /no/such.sif is not on this machine; the job will fail unless its nodes have it"


def test_alloc_is_forbidden(cluster: Cluster, site: str) -> None:
    words = ["mnrun", "-N", "2", *PLAIN, "--", "true"]
    for line, origin in (
        (["mnrun", "--no-alloc", *words[1:]], "command line"),
        (["env", "MNRUN_ALLOC=false", *words], "MNRUN_ALLOC"),
    ):
        result = cluster.alice(line)
        assert (result.code, result.out) == (2, ""), result
        assert f"and --no-alloc forbids one ({origin}); get one with\n    salloc -N 2 mnrun " in result.err
    of_the_site(cluster, "profiles/site.toml", 'match.cluster = "*"\nalloc = false\npolicy.alloc = "use sbatch"\n')
    assert "--no-alloc forbids one (profile site" in cluster.alice(words).err
    only_line(cluster.alice(["mnrun", "--alloc", *words[1:]]), 122, "--alloc (command line) is refused", "use sbatch")
    assert cluster.alice(["mnrun", "--alloc", "--force", *words[1:]]).code == 0
    assert cluster.alice(["mnrun", "shell", "-N", "2", "--image", OMPI5]).code == 2


def test_alloc_in_a_plan(cluster: Cluster) -> None:
    shown = cluster.alice(["mnrun", "plan", "-N", "2", "-t", "5", *PLAIN, "--", "true"])
    assert "note: no allocation here: run gets one with salloc -N 2 --time=5\n" in shown.out, shown
    assert queue(cluster) == []


# Tasks of srun


def test_several_tasks_of_mnrun_are_refused(cluster: Cluster) -> None:
    result = cluster.alice(["srun", "-Q", *TWO, "mnrun", *INSIDE.words, "--", HELLO])
    assert (result.code, result.out) == (2, ""), result
    (said,) = mine(result)
    assert said.startswith("srun has started mnrun 2 times; leave out srun"), result
    line = said.partition("starts the ranks: ")[2]
    check(cluster.alice(["salloc", "-Q", *TWO, "sh", "-c", line]), "node01", "node02", tasks=1)
    check(cluster.alice(["sh", "-c", line]), "node01", "node02", tasks=1)


def test_a_single_task_of_mnrun_runs_the_job(cluster: Cluster) -> None:
    """`srun -n1`, and `srun --pty` whatever the number of its tasks: the first one has the terminal."""
    check(cluster.alice(["srun", "-n1", "-w", "node01", "mnrun", *INSIDE.words, "--", HELLO]), "node01", tasks=1)
    with Terminal(
        cluster.argv(LOGIN, "alice", ["srun", *TWO, "--pty", "mnrun", *INSIDE.words, "--", HELLO])
    ) as terminal:
        found = {terminal.expect(r"rank (\d) of 2 on (node0\d)")[2] for _ in range(2)}
        assert found == {"node01", "node02"}, terminal.seen
        assert terminal.end() == 0, terminal.seen


def test_a_batch_script_that_was_submitted_in_a_step(cluster: Cluster, desk: Desk) -> None:
    script = desk.put("job.sh", f"#!/bin/sh\nmnrun -n 2 -N 2 {' '.join(INSIDE.words)} -- {HELLO}\n", 0o755)
    ask = f"sbatch -Q --wait -N2 -w node03,node04 -o {desk.path}/out {script}"
    step = ["srun", "-Q", *TWO, "sh", "-c", f"[ $SLURM_PROCID = 1 ] || exit 0; {ask}"]
    result = cluster.alice(step)
    assert result.code == 0, (result, desk.read("out"))
    assert desk.read("out").count(b" of 2 on node0") == 2
    forget(cluster)
