"""However a job ends: within seconds nothing of it lives on any node, and no key is left."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from .cells import HELLO, INSIDE, MAIN, MPIRUN, OMPI5, SRUN, SSH, WAYS, Way, cells, one, some, turn
from .reports import check, everybody_spoke, mine
from .stage import LOGIN, Cluster, Desk, Job, wait_for
from .stranger import kill
from .terminal import Terminal, salloc

SECONDS = 120.0  # says "never", not "slow"; Slurm itself waits 5 between its two signals
LATE = 5.0  # with other tests beside it
FOREVER = (HELLO, "-s", "3600")
STARTS = {str(way): way for way in (*MAIN, SSH, Way("mpirun", "host"))}


def clean_soon(cluster: Cluster, begin: float, killed: bool = False, seconds: float = SECONDS) -> None:
    for place in cluster.path("/home/alice/.mnrun/jobs").iterdir() if killed else ():
        assert not [path for path in place.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]
        shutil.rmtree(place)
    left = cluster.wait_clean(seconds)
    assert not left, f"after {time.monotonic() - begin:.0f} s there is still:\n" + "\n".join(left)


def start(cluster: Cluster, job: Job, size: int = 8) -> None:
    """Wait until all ranks of hello have spoken."""
    job.saying(everybody_spoke(size), "running on all ranks")


def files_of(cluster: Cluster) -> list[str]:
    return [line for line in cluster.leftovers() if "/mnrun." in line]


def act(cluster: Cluster, how: str, job: Job) -> None:
    if how == "scancel":
        ids = cluster.root(LOGIN, "squeue", "-h", "-o", "%i").split()
        assert cluster.alice(["scancel", *ids]).code == 0
    elif how == "time limit":
        for number in cluster.root(LOGIN, "squeue", "-h", "-o", "%i").split():
            cluster.root(LOGIN, "scontrol", "update", f"jobid={number}", "EndTime=now+1")
    elif how == "kill srun":
        victims = [p for p in cluster.processes() if p.node == LOGIN and os.path.basename(p.argv[0]) == "srun"]
        assert victims, cluster.processes()
        kill(victims)  # one may go with the other
    elif how == "kill salloc":
        job.kill()  # the connection breaks: SIGHUP
    else:
        cluster.launcher().send(getattr(signal, how))


@pytest.mark.parametrize(
    ("how", "start_as"),
    cells(
        {
            "how": ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL", "scancel", "kill srun", "kill salloc"),
            "start_as": tuple(STARTS),
        },
        lambda how, start_as: how in ("SIGKILL", "SIGTERM", "scancel") or start_as in map(str, MAIN),
        always=[("SIGKILL", str(way)) for way in one(0, MAIN)],
        together=1,
    ),
)
def test_end_from_outside(cluster: Cluster, how: str, start_as: str) -> None:
    """A signal to mnrun, kill -9 of it or of its srun, scancel, a lost connection: all ends everywhere."""
    with cluster.running(cluster.launch(*STARTS[start_as].words, "--", *FOREVER)) as job:
        start(cluster, job)
        assert files_of(cluster)
        begin = time.monotonic()
        act(cluster, how, job)
        if how != "kill salloc":
            result = job.end(SECONDS)
            wanted = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}.get(how)
            assert result.code == wanted or wanted is None, result
            assert "Traceback" not in result.err, result
            word = {"SIGINT": "interrupted"}.get(how, f"ended by {how}")
            assert wanted is None or f"mnrun: {word}; everything has ended on node[01-04]" in result.err, result
            if how in ("SIGINT", "SIGTERM", "SIGHUP", "scancel"):  # it would be about mnrun's own end (4.9)
                assert "noticed that process rank" not in result.err, result
            assert result.code != 0 or how == "SIGKILL", result  # salloc makes 0 of a kill -9
        clean_soon(cluster, begin, killed=how == "SIGKILL")


@pytest.mark.parametrize("way", some([*WAYS, Way("mpirun", "mpich")], [MPIRUN]), ids=str)
def test_no_line_of_mpirun_is_about_scancel(cluster: Cluster, way: Way) -> None:
    with cluster.running(cluster.launch(*way.words, "--", *FOREVER)) as job:
        start(cluster, job)
        act(cluster, "scancel", job)
        result = job.end(SECONDS)
    lines = [
        line
        for line in (result.out + result.err).splitlines()
        if not re.match(r"rank \d of 8 on |mnrun: |salloc: ", line)
    ]
    assert lines == [], result
    for node in cluster.nodes:  # Hydra leaves these in /tmp, if a signal ends it
        cluster.root(node, "sh", "-c", "rm -f /tmp/hydra_hwloc_xmlfile_*")
    clean_soon(cluster, time.monotonic())


@pytest.mark.parametrize("way", some(MAIN, [MPIRUN]), ids=str)
def test_the_prompt_is_back_while_slurm_says_completing(cluster: Cluster, way: Way) -> None:
    """A slurmd that does not answer keeps the job in this state, and none of the job's processes lives any more. mnrun
    is back within 2 s on a machine that has nothing else to do. It took 7 s when it waited for Slurm."""
    pid = "/run/slurmd.pid"
    with cluster.running(cluster.launch("-Q", *way.words, "--", *FOREVER)) as job:
        start(cluster, job)
        number = cluster.root(LOGIN, "squeue", "-h", "-o", "%i").strip()
        cluster.root("node04", "sh", "-c", f"kill -STOP $(cat {pid})")
        try:
            act(cluster, "scancel", job)
            wait_for(lambda: {p.node for p in cluster.processes()} <= {LOGIN}, "the end on the nodes", SECONDS)
            begin = time.monotonic()
            wait_for(lambda: not cluster.mnruns(), "mnrun's end", SECONDS)
            took = time.monotonic() - begin
            assert "COMPLETING" in cluster.root(LOGIN, "scontrol", "show", "job", number)
            assert took < LATE
        finally:
            cluster.root("node04", "sh", "-c", f"kill -CONT $(cat {pid})")
        assert job.end(SECONDS).code != 0
    clean_soon(cluster, time.monotonic())


@pytest.mark.parametrize("way", [INSIDE, MPIRUN], ids=str)
def test_end_of_mpiruns_daemons(cluster: Cluster, way: Way) -> None:
    """The kernel may end one that lacks memory. Outside-in, mpirun itself ends with 0 then."""
    with cluster.running(cluster.launch("-Q", *way.words, "--", *FOREVER)) as job:
        start(cluster, job)
        daemons = [p for p in cluster.processes() if p.argv[0].endswith("prted") and p.node != LOGIN]
        kill(daemons[:1])
        result = job.end(SECONDS)
    assert result.code == (137 if way.start == "inside" else 121), result
    assert any(re.search(r"lost|daemons|helper on", line) for line in mine(result)[-1:]), result
    clean_soon(cluster, time.monotonic())


def test_end_by_sigabrt(cluster: Cluster) -> None:
    with cluster.running(cluster.launch(*INSIDE.words, "--", *FOREVER)) as job:
        start(cluster, job)
        begin = time.monotonic()
        act(cluster, "SIGABRT", job)
        result = job.end(SECONDS)
        assert "Fatal Python error: Aborted" in result.err, result
        assert "mnrun/__main__.py" in result.err, result
        clean_soon(cluster, begin, killed=True)


def test_end_by_the_time_limit(cluster: Cluster) -> None:
    with ExitStack() as stack:
        # All ways at once, since Slurm looks at its clock twice a minute.
        jobs = [stack.enter_context(cluster.running(cluster.launch(*w.words, "--", *FOREVER))) for w in MAIN]
        for job in jobs:
            start(cluster, job)
        begin = time.monotonic()
        act(cluster, "time limit", jobs[0])
        for job in jobs:
            result = job.end()
            assert result.code != 0, result
            assert "Traceback" not in result.err, result
        clean_soon(cluster, begin)


LOSSES = tuple(itertools.product(("cut", "kill"), map(str, MAIN)))


@pytest.mark.parametrize(("how", "start_as"), some(LOSSES, LOSSES[:1]))
def test_end_of_a_node(variant: Callable[..., Cluster], how: str, start_as: str) -> None:
    cluster = variant(4, "--impatient")
    with cluster.running(cluster.launch(*STARTS[start_as].words, "--", *FOREVER)) as job:
        start(cluster, job)
        cluster.tool(how, "node03")
        try:
            result = job.end()
            lost = [line for line in mine(result) if "node03" in line and "lost" in line]
            assert (result.code, len(lost)) == (121, 1), result
        finally:
            cluster.tool("heal", "node03")
        if how == "kill":  # what Apptainer records of a shared container goes with the next one
            cluster.restarted("node03")
            done = cluster.mnrun(*MPIRUN.words, "--", "true")
            assert done.code == 0, done
        # Slurm repeats its end of the job on a cut node after up to a minute. The guard ends itself after two.
        clean_soon(cluster, time.monotonic(), seconds=180 if how == "cut" else SECONDS)


def test_end_of_a_node_that_is_started_anew(cluster: Cluster, desk: Desk) -> None:
    """Slurm calls it well, and ends the step on the others: no other node is blamed (4.2)."""
    words = (
        "-Q",
        "--runtime",
        "host",
        "--launcher",
        "env",
        "--",
        "sh",
        "-c",
        f"touch {desk.path}/$RANK; exec sleep 600",
    )
    first, second = cluster.nodes[:2]
    with cluster.running(cluster.launch(*words, nodes=2, tasks=1)) as job:
        wait_for(lambda: len(desk.names()) == 2, "all there")
        cluster.tool("kill", second)
        cluster.tool("heal", second)
        result = job.end()
    line = mine(result)[-1]
    assert result.code == 121, result
    assert re.match(rf"lost while the job ran: {second}: started anew at \d\d:\d\d:\d\d", line), result
    assert first not in line, result


@pytest.mark.parametrize("way", one(0, MAIN), ids=str)
def test_end_by_ctrl_c(cluster: Cluster, way: Way) -> None:
    """Ctrl-C at a terminal ends the job and not the allocation: the shell that salloc left goes on."""
    with Terminal(cluster.argv(LOGIN, "alice", salloc("-Q", "-N4", "--ntasks-per-node=2", shell="sh"))) as terminal:
        terminal.expect(r"\$ ")
        terminal.write(" ".join(["mnrun", *way.words, "--", *FOREVER]) + "\n")
        for _ in range(8):
            terminal.expect(r"rank \d of 8")
        terminal.write("\x03")
        terminal.expect(r"\$ ", SECONDS)
        terminal.write("echo the code was $?\n")
        terminal.expect("the code was 130")
        wait_for(lambda: not files_of(cluster), "clean", SECONDS)
        wait_for(lambda: all(p.node == LOGIN for p in cluster.processes()), "without processes", SECONDS)
        terminal.write("exit\n")
        terminal.end()


@pytest.mark.parametrize("way", [INSIDE, SRUN], ids=str)
def test_end_by_ctrl_c_while_starting(cluster: Cluster, way: Way) -> None:
    for delay in (0, 0.3):
        with cluster.running(cluster.launch(*way.words, "--", *FOREVER)) as job:
            # Python takes a moment until it can end without a word. It can where its step has begun.
            wait_for(lambda: any(p.argv[0] == "srun" for p in cluster.processes()), "started")
            begin = time.monotonic()
            wait_for(lambda begin=begin, delay=delay: time.monotonic() >= begin + delay, "some way on")  # type: ignore[misc]
            cluster.launcher().send(signal.SIGINT)
            result = job.end(SECONDS)
            assert result.code == 130, result
            assert "Traceback" not in result.err, result
            clean_soon(cluster, begin)


@pytest.mark.parametrize("way", one(1, MAIN), ids=str)
def test_end_of_a_stubborn_program(cluster: Cluster, desk: Desk, way: Way) -> None:
    program = desk.put("stubborn", "#!/bin/sh\ntrap '' TERM INT HUP\necho here\nsleep 3600\n", 0o755)
    with cluster.running(cluster.launch(*way.words, "--", program)) as job:
        job.saying(lambda result: result.out.count("here\n") == 8, "running on all ranks")
        begin = time.monotonic()
        cluster.launcher().send(signal.SIGTERM)
        assert job.end(SECONDS).code == 143
        left = cluster.wait_clean(SECONDS, besides="~/desk.")
        assert not left, f"{time.monotonic() - begin:.0f} s: {left}"


# Hydra waits for whoever holds a rank's connection to it, with no container and no mnrun about, too.
DAEMONS = [way for way in WAYS if way.image != "mpich"]


@pytest.mark.parametrize("way", turn(0, DAEMONS, [], MAIN), ids=str)
def test_end_of_a_program_that_leaves_daemons(cluster: Cluster, way: Way) -> None:
    line = "setsid sleep 3600 >/dev/null 2>&1 </dev/null & exit 0"
    result = cluster.mnrun(*way.words, "--", "sh", "-c", line)
    assert result.code == 0, result
    assert cluster.wait_clean(SECONDS) == []


def test_end_of_daemons_that_hide(cluster: Cluster) -> None:
    line = "env -i /usr/bin/setsid /usr/bin/sleep 3600 >/dev/null 2>&1 </dev/null & exit 0"
    result = cluster.mnrun(*INSIDE.words, "--", "sh", "-c", line)
    assert result.code == 0, result
    assert cluster.wait_clean(SECONDS) == []


@pytest.mark.parametrize("way", one(2, MAIN), ids=str)
def test_end_of_a_program_that_runs_well(cluster: Cluster, way: Way) -> None:
    check(cluster.mnrun(*way.words, "--", HELLO, nodes=2), *cluster.nodes[:2])
    left = [line for line in cluster.leftovers() if "Slurm" not in line]
    assert not left, left


def test_end_of_a_run_that_is_kept(cluster: Cluster) -> None:
    result = cluster.mnrun(*INSIDE.words, "--keep", "--", HELLO, nodes=2)
    check(result, "node01", "node02")
    (records,) = cluster.path("/home/alice/.mnrun/jobs").iterdir()
    assert str(records.name) in result.err, result
    assert records.stat().st_mode & 0o777 == 0o700
    kept = [path for path in records.rglob("*") if path.is_file()]
    assert kept
    for node in ("node01", "node02"):
        (place,) = cluster.path("/tmp", node).glob("mnrun.*")
        assert place.stat().st_mode & 0o777 == 0o700
        kept += [path for path in place.rglob("*") if path.is_file()]
    for path in kept:
        assert b"PRIVATE KEY" not in path.read_bytes(), path
    clean = ["salloc", "-Q", "-N2", "-w", "node[01-02]", "mnrun", "clean", "--nodes"]
    assert cluster.alice([*clean, "--kept", "--dry-run"]).code == cluster.alice(clean).code == 0
    assert all(path.exists() for path in kept)
    assert cluster.alice([*clean, "--kept"]).code == 0
    assert not records.exists() and cluster.wait_clean(SECONDS) == []


def test_what_a_program_has_mounted(cluster: Cluster) -> None:
    """(L2) A FUSE file system in TMPDIR, whose program has ended with the job, keeps nothing of it on the node."""
    with cluster.path(OMPI5, cluster.nodes[0]).open("rb") as image:
        offset = image.read(1 << 20).find(b"hsqs")
    text = 'cd /; mkdir "$TMPDIR/a b"; squashfuse_ll -o offset=$1 $2 "$TMPDIR/a b"; test -d "$TMPDIR/a b/usr"; echo $?'
    words = ("--runtime", "host", "--launcher", "env", "--", "sh", "-c", text, "x", str(offset), OMPI5)
    begin = time.monotonic()
    result = cluster.alice(cluster.launch(*words, nodes=1, tasks=1))
    assert (result.code, result.out) == (0, "0\n"), result
    clean_soon(cluster, begin)
    assert "mnrun." not in cluster.root(cluster.nodes[0], "cat", "/proc/mounts")
