"""PBS, by its stand-in: ranks in every runtime, from every place where a launch begins, and how jobs end."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest

from faults.acts import mom_again
from published import checked

from .batch import SIZE, forget, from_outside, output, submit, submitted
from .cells import HELLO, INSIDE, MPIRUN, OMPI5, RUNTIMES, Way, cells, full, some
from .reports import check, tells
from .stage import LOGIN, Cluster, Desk, Process, Result, wait_for
from .stranger import found
from .test_jobfile import ANYWHERE, check_anywhere
from .test_proxy import entered

pytestmark = [pytest.mark.xdist_group("pbs"), pytest.mark.usefixtures("forgotten")]
NODES = ("node02", "node01")  # neither PBS's order nor that of their names
HEAD, WORKER = NODES
SHAPE = (*SIZE, "-w", ",".join(NODES))
HOST = ("--runtime", "host", "--launcher", "env")
# A rank that says that it is up, and of each TERM who hears it: one may come from the MOM and one from mnrun.
RANK = """
import os, signal, time
def told(*_):
    os.write(1, b"warned %d@%s\\n" % (os.getpid(), os.uname().nodename.encode()))
    time.sleep(1)
    os._exit(9)
signal.signal(signal.SIGTERM, told)
os.write(1, b"up\\n")
while True:
    time.sleep(600)
"""


@pytest.fixture
def cluster(pbs: Cluster) -> Cluster:
    return pbs


@pytest.fixture
def forgotten(cluster: Cluster) -> Iterator[None]:
    """What a submitted job keeps in the user's home on purpose is gone at the end."""
    yield
    forget(cluster)


def in_a_job(cluster: Cluster, desk: Desk, *words: str) -> Result:
    """mnrun in a script of one's own, which asks for nodes by PBS's options."""
    select = "+".join(f"1:ncpus=2:mpiprocs=2:host={node}" for node in NODES)
    text = f"#PBS -l select={select} -j oe -k doe -o out\ncd $PBS_O_WORKDIR\nmnrun {shlex.join(words)}\n"
    done = cluster.alice(["qsub", "-V", "-W", "block=true", desk.put("own.sh", text)], cwd=desk.path)
    return Result(done.code, desk.read("out"), done.out + done.err)


PLACES: dict[str, Callable[..., Result]] = {
    "job": in_a_job,
    "submit": partial(submitted, shape=SHAPE),
    "outside": partial(from_outside, shape=SHAPE),
}


def quick(runtime: str, **_: str) -> bool:
    """Return whether a plain run takes this runtime, which needs no daemon and no image of its own."""
    return full() or runtime in ("apptainer", "host")


@pytest.mark.parametrize(
    ("runtime", "begun", "place", "reach"),
    cells(
        {"runtime": RUNTIMES, "begun": ("inside", "mpirun"), "place": tuple(PLACES), "reach": ("ssh", "call")},
        quick,
        together=1,
    ),
)
def test_cell(
    request: pytest.FixtureRequest, cluster: Cluster, desk: Desk, runtime: str, begun: str, place: str, reach: str
) -> None:
    if runtime not in ("apptainer", "host"):
        request.getfixturevalue("engines")
    image, other = ("host", "") if runtime == "host" else ("ompi5", "" if runtime == "apptainer" else runtime)
    words = [
        "--reach",
        reach,
        *Way(begun, image, runtime=other).words,
        "-x",
        "V=a b",
        "--",
        HELLO,
        "-e",
        "V",
        "-x",
        "7",
    ]
    result = PLACES[place](cluster, desk, *words)
    assert result.code == 7, result
    # a job has one file for both streams
    said = b"".join(line for line in result.raw.splitlines(True) if line.startswith(b"rank "))
    ranks = check(replace(result, code=0, raw=said), *NODES)
    assert {rank.value for rank in ranks} == {"a b"}, result
    if full():
        assert not other or cluster.containers() == []


def test_the_file_of_all_systems(cluster: Cluster, desk: Desk) -> None:
    job = desk.put("job.toml", ANYWHERE.read_bytes())
    check_anywhere(cluster.alice(["mnrun", job, "-w", "node[01-02]"], cwd=desk.path))


@contextmanager
def under_way(
    cluster: Cluster, desk: Desk, *words: str, program: Sequence[str] = (HELLO, "-s", "3600")
) -> Iterator[str]:
    """Yield the id of a submitted job whose ranks have all spoken, which its output shows while it runs."""
    job = submit(cluster, desk, *SHAPE, *words, "--", *program)

    def said() -> int:
        return len(re.findall("^(?:rank |up)", cluster.alice(["mnrun", "logs", job]).out, re.MULTILINE))

    wait_for(lambda: said() == 4, "running on all ranks", state=lambda: output(desk, job))
    try:
        yield job
    finally:
        cluster.alice(["mnrun", "cancel", job])


def ended(cluster: Cluster, job: str, code: int, *says: str) -> str:
    """Wait for the end of a job, and return what mnrun says of it."""
    done = cluster.alice(["mnrun", "wait", job])
    assert done.code == code, done
    for word in says:
        assert word in done.err, done
    return done.err


def ours(cluster: Cluster) -> Process:
    """Return the launcher in the job."""
    (one,) = [process for process in cluster.mnruns() if process.node != LOGIN]
    return one


def killed(cluster: Cluster, _: str) -> None:
    ours(cluster).send(signal.SIGKILL)


def whole_session_killed(cluster: Cluster, job: str) -> None:
    """kill -9 of all that PBS's first session has on the first node: the shell, the script, mnrun and its clients."""
    shown = re.search(r"session_id = (\d+)", cluster.alice(["qstat", "-f", job]).out)
    assert shown
    cluster.root(HEAD, "pkill", "-9", "-s", shown[1])


def canceled(cluster: Cluster, job: str) -> None:
    assert cluster.alice(["mnrun", "cancel", job]).code == 0


def deleted(cluster: Cluster, job: str) -> None:
    cluster.root(LOGIN, "qdel", job)


def forced(cluster: Cluster, job: str) -> None:
    assert cluster.alice(["qdel", "-W", "force", job]).code == 0


End = Callable[[Cluster, str], None]
PYTHON = ("python3", "-c", RANK)
UNKNOWN = ("it was probably killed",)  # PBS keeps no history of what has ended, unless a site wants it
# How -> the way to start, its end, the code, and words of the reason.
ENDS: dict[str, tuple[Sequence[str], End, int, tuple[str, ...]]] = {
    "cancel": (INSIDE.words, canceled, 143, ("cancelled",)),
    "qdel": (MPIRUN.words, deleted, 143, ("cancelled",)),
    "kill -9 of mnrun": (INSIDE.words, killed, 123, UNKNOWN),
    "kill -9 of the session": (MPIRUN.words, whole_session_killed, 123, UNKNOWN),
    "qdel -W force": (HOST, forced, 123, UNKNOWN),
}


FEW = [("cancel", "ssh"), ("kill -9 of the session", "call")]


@pytest.mark.parametrize(("how", "reach"), some(list(itertools.product(ENDS, ("ssh", "call"))), FEW))
def test_end(cluster: Cluster, desk: Desk, how: str, reach: str) -> None:
    """Each has its code, and nothing is left (conftest.py). qdel and cancel warn the ranks: mpirun kills one that has
    not heard it a second later (odls_base_sigkill_timeout), as on a busy machine."""
    words, act, code, says = ENDS[how]
    with under_way(cluster, desk, "--reach", reach, *words, program=PYTHON) as job:
        act(cluster, job)
        ended(cluster, job, code, *says)
        if act in (canceled, deleted):
            assert "warned" in output(desk, job), output(desk, job)
        wait_for(lambda: not found(cluster, "mnrun"), "without a process", 60, lambda: str(cluster.processes()))


def test_the_time_limit(cluster: Cluster, desk: Desk) -> None:
    with under_way(cluster, desk, "-t", "0:06", *HOST, program=PYTHON) as job:
        ended(cluster, job, 124, "time limit")
        assert len(set(re.findall("^warned .*", output(desk, job), re.MULTILINE))) == 4, output(desk, job)


def test_a_job_that_runs(cluster: Cluster, desk: Desk) -> None:
    """exec, why, top, status, report, and what another user may not."""
    with under_way(cluster, desk, *INSIDE.words) as job:
        view = json.loads(cluster.alice(["mnrun", "status", "--json", job]).out)["jobs"][0]
        assert (view["state"], view["nodes"]) == ("RUNNING", 2)
        there = cluster.alice(["mnrun", "exec", job, "--rank", "3", "--", "sh", "-c", "uname -n; cat; exit 5"], b"x\n")
        assert (there.code, there.out) == (5, f"{WORKER}\nx\n"), there
        assert "sleeps" in cluster.alice(["mnrun", "why", job]).out
        used = json.loads(cluster.alice(["mnrun", "top", "--once", "--json", job]).out)
        assert [len(node["ranks"]) for node in used["nodes"]] == [2, 2], used
        entered(lambda *words: cluster.alice(words, cwd=desk.path), desk, f"mnrun-{job}", HEAD)
        refusal = cluster.alice(["mnrun", "cancel", job], user="bob")
        assert refusal.code == 123 and "alice" in refusal.err, refusal
        canceled(cluster, job)
        ended(cluster, job, 143)
        tells(checked("report", cluster.alice(["mnrun", "report", job, "--json"]).out), 143, "3600", OMPI5)


def test_an_array(cluster: Cluster, desk: Desk) -> None:
    words = ("--array", "2,5,9%2", *HOST, "--", "sh", "-c", 'exit "$(($1 % 4))"', "sh")
    job = submit(cluster, desk, *words, "7")
    assert cluster.alice(["mnrun", "wait", job]).code == 3
    view = json.loads(cluster.alice(["mnrun", "status", "--json", job]).out)["jobs"]
    assert [(task["id"], task["code"]) for task in view] == [(f"{job}_{task}", 3) for task in (2, 5, 9)]


def test_the_end_of_another_job_decides(cluster: Cluster, desk: Desk) -> None:
    first = submit(cluster, desk, *HOST, "--", "sh", "-c", "sleep 2; exit 3")
    kinds = ("afterok", "afternotok", "afterany")
    after = {kind: submit(cluster, desk, *HOST, "--dependency", f"{kind}:{first}", "--", "true") for kind in kinds}
    codes = {kind: cluster.alice(["mnrun", "wait", after[kind]]).code for kind in kinds}
    assert codes == {"afterok": 123, "afternotok": 0, "afterany": 0}


def test_the_other_job_ends_before_qsub_does(cluster: Cluster, desk: Desk) -> None:
    """PBS would delete the new one without a word. What stands before qsub lets the other one end, and waits for it."""
    first = submit(cluster, desk, *HOST, "--", "sh", "-c", "until [ -e go ]; do sleep 0.1; done; exit 3")
    text = f"touch {desk.path}/go; while qstat {first} >/dev/null 2>&1; do sleep 0.1; done"
    cluster.put("/usr/local/bin/qsub", f'#!/bin/sh\n{text}\nexec /opt/pbs/bin/qsub "$@"\n', 0o755, uid=0)
    try:
        after = submit(cluster, desk, *HOST, "--dependency", f"afternotok:{first}", "--", "true")
    finally:
        cluster.root(LOGIN, "rm", "/usr/local/bin/qsub")
    done = cluster.alice(["mnrun", "wait", after])
    assert done.code == 0, done


def test_a_request_that_never_runs_is_told(cluster: Cluster, desk: Desk) -> None:
    done = cluster.alice(["mnrun", "submit", "-N", "9", *HOST, "--", "true"], cwd=desk.path)
    assert "can never run" in done.err, done
    job = done.out.strip()
    assert cluster.alice(["mnrun", "cancel", job]).code == 0


@pytest.mark.skipif(not full(), reason="a silent node is given up after 40 s")
@pytest.mark.parametrize("way", [INSIDE, MPIRUN], ids=str)
def test_the_second_node_is_switched_off(cluster: Cluster, desk: Desk, way: Way) -> None:
    with under_way(cluster, desk, *way.words) as job:
        cluster.tool("kill", WORKER)
        try:
            ended(cluster, job, 121, WORKER)
        finally:
            cluster.tool("heal", WORKER)
            cluster.restarted(WORKER)
    assert from_outside(cluster, desk, *way.words, "--", "true").code == 0  # it takes away what the node had


@pytest.mark.skipif(not full(), reason="it takes three minutes")
def test_the_first_node_is_switched_off(cluster: Cluster, desk: Desk) -> None:
    """PBS keeps the job as running until the node is back, and starts it no second time."""

    def there() -> list[Process]:
        return [p for p in cluster.processes() if p.node == WORKER and not p.argv[0].startswith("sshd")]

    with under_way(cluster, desk, *INSIDE.words) as job:
        cluster.tool("kill", HEAD)
        try:
            wait_for(lambda: not there(), "without a process", 150, lambda: str(there()))
        finally:
            cluster.tool("heal", HEAD)
            cluster.restarted(HEAD)
            cluster.root(WORKER, "pkill", "-f", "sshd-session: alice")  # it waits for a packet of the node that was off
        done = cluster.alice(["mnrun", "wait", job])
        assert done.code not in (0, 2, 120), done
    assert from_outside(cluster, desk, *INSIDE.words, "--", "true").code == 0


@pytest.mark.skipif(not full(), reason="with --full")
@pytest.mark.parametrize("reach", ["ssh", "call"])
def test_the_mom_of_the_second_node_is_started_again(cluster: Cluster, desk: Desk, reach: str) -> None:
    """The launch goes on."""
    program = ("sh", "-c", "echo up; until [ -e go ]; do sleep 0.1; done; exit 5")
    with under_way(cluster, desk, "--reach", reach, *HOST, program=program) as job:
        mom_again(cluster, WORKER)
        desk.put("go", "")
        ended(cluster, job, 5)


@pytest.mark.skipif(not full(), reason="with --full")
def test_the_mom_of_the_first_node_is_started_again(cluster: Cluster, desk: Desk) -> None:
    """PBS takes the job for lost, and ends nothing of it. mnrun does."""
    with under_way(cluster, desk, *HOST, program=PYTHON) as job:
        mom_again(cluster, HEAD)
        done = cluster.alice(["mnrun", "wait", job])
        assert done.code not in (0, 2, 120), done
        wait_for(lambda: not found(cluster, "mnrun"), "without a process", 120, lambda: str(cluster.processes()))


@pytest.mark.skipif(not full(), reason="with --full")
def test_a_job_that_may_start_again_after_its_first_mom_has(cluster: Cluster, desk: Desk) -> None:
    """The new start has the nodes for itself: the old one ends."""
    program = ("sh", "-c", "echo up; until [ -e go ]; do sleep 0.1; done; exit 5")
    with under_way(cluster, desk, "--requeue", *HOST, program=program) as job:
        mom_again(cluster, HEAD)
        wait_for(lambda: "run_count = 2" in cluster.alice(["qstat", "-f", job]).out, "started again")
        wait_for(lambda: output(desk, job).count("up\n") == 4, "up again", state=lambda: output(desk, job))
        wait_for(lambda: len([p for p in cluster.mnruns() if p.node != LOGIN]) == 1, "alone")
        desk.put("go", "")
        ended(cluster, job, 5)
