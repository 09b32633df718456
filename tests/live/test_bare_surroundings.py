"""B11: what cron, daemons and other jobs leave of a login, or do not: no HOME, closed streams, another job's name."""

from __future__ import annotations

import pytest

from .batch import forget
from .cells import HELLO, INSIDE, MAIN, OMPI5, Way, cells
from .reports import check, only_line
from .stage import LOGIN, Cluster, Desk

LOCAL = ("mnrun", "--local", "-n", "2")


@pytest.mark.parametrize("way", [*MAIN, Way("inside", "host"), Way("inside", "ompi5", runtime="charliecloud")], ids=str)
def test_bare_of_home(cluster: Cluster, way: Way) -> None:
    words = ["env", "-u", "HOME", *cluster.launch(*way.words, "--", "sh", "-c", "echo $HOME", nodes=2, tasks=1)]
    result = cluster.alice(words)
    assert (result.code, result.out) == (0, "/home/alice\n" * 2), result


def test_bare_of_home_in_a_batch_job(cluster: Cluster, desk: Desk) -> None:
    path = "/usr/local/bin:/usr/bin:/bin"
    words = ["env", "-i", f"PATH={path}", "mnrun", "submit", "-o", "out", "-N", "2", *INSIDE.words, "--", HELLO]
    job = cluster.alice(words, cwd=desk.path).out.strip()
    done = cluster.alice(["env", "MNRUN_SLURM_POLL=1s", "mnrun", "wait", job])
    forget(cluster)
    assert done.code == 0, desk.read("out").decode()
    assert desk.read("out").count(b" sum ") == 2


@pytest.mark.parametrize(
    ("closed", "where"),
    cells({"closed": ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"), "where": ("local", "slurm")}, together=1),
)
def test_bare_of_a_stream(cluster: Cluster, desk: Desk, closed: str, where: str) -> None:
    other = f"until [ -e {desk.path}/1 ]; do sleep 0.1; done; sleep 3"  # a failed rank ends the others
    script = f"echo out; echo err >&2; : >{desk.path}/$RANK; [ $RANK = 0 ] || exit 0; {other}; exit 7"
    words = ["--launcher", "env", "--image", OMPI5, "--", "sh", "-c", script]
    shut = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    allocated = ["salloc", "-Q", "-N2", "--ntasks-per-node=1", *shut, "mnrun"]
    result = cluster.alice([*([*shut, *LOCAL] if where == "local" else allocated), *words])
    assert result.code == 7, result
    assert desk.names() == ["0", "1"], result
    assert "Traceback" not in result.err, result
    assert result.out.count("out\n") == (0 if " >&-" in f" {closed}" else 2), result
    assert result.err.count("err\n") == (0 if "2>&-" in closed else 2), result


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_bare_of_a_stream_for_other_verbs(cluster: Cluster, closed: str) -> None:
    """No traceback, and not 120."""
    for words in (["mnrun", "--version"], ["mnrun", "status"], ["mnrun", "--no-such-option"]):
        result = cluster.alice(["sh", "-c", f'exec "$@" {closed}', "sh", *words])
        assert result.code == (2 if words[1].startswith("--no") else 0), result
        assert "Traceback" not in result.err, result


def test_a_job_within_a_job_of_hosts(cluster: Cluster) -> None:
    cluster.put("/home/alice/.ssh/config", "Host ws1\n  HostName node01\n", 0o600)
    try:
        _within(cluster)
    finally:
        cluster.path("/home/alice/.ssh/config").unlink()


def _within(cluster: Cluster) -> None:
    way = ["--runtime", "host", "--launcher", "env"]
    for image in (["--runtime", "host"], ["--image", OMPI5, "--mode", "outside-in"]):
        words = [
            "mnrun",
            "--hosts",
            "node01,node02",
            "--rsh",
            "pdsh",
            *image,
            "--",
            "sh",
            "-c",
            "echo ${MNRUN_NODE-none}",
        ]
        assert cluster.alice(words).out == "none\n" * 2
    inner = cluster.alice(["mnrun", "--hosts", "ws1", *way, "--", *LOCAL, *way, "--", "sh", "-c", "echo $RANK"])
    assert (inner.code, sorted(inner.out.split())) == (0, ["0", "1"]), inner
    assert cluster.alice(["env", "MNRUN_NODE=other", *LOCAL, "--runtime", "host", "--", "true"]).code == 0
    slurm = ["env", "MNRUN_NODE=other", *cluster.launch(*INSIDE.words, "--", HELLO, nodes=2, tasks=1)]
    check(cluster.alice(slurm), *cluster.nodes[:2], tasks=1)


def test_no_line_of_a_users_becomes_one_of_the_script(cluster: Cluster) -> None:
    words = [
        "mnrun",
        "submit",
        "--dry-run",
        *INSIDE.words,
        "-N",
        "1",
        "--gres",
        "gpu:1\ntouch /tmp/injected #",
        "--",
        HELLO,
    ]
    only_line(cluster.alice(words), 2, "--gres", "contains a tab, a newline or another control character")
    assert not cluster.path("/tmp/injected", LOGIN).exists()
