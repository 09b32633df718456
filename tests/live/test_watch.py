"""`mnrun top`, `--watch` and what is drawn of it. Played: nvidia-smi, for nodes without GPUs."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator

import pytest

from mnrun.watching.series import METRICS, read_all
from published import checked

from .batch import forget
from .cells import OMPI5, some
from .stage import LOGIN, Cluster, Desk, wait_for
from .terminal import Terminal

NODES = ("node01", "node02")
# Two GPUs, of which the second idles.
SMI = """#!/bin/bash
case "$*" in
  *--query-gpu=index,utilization*)
    while printf '0, 97, 61440, 81920, 61, 412.35, GPU-a\\n1, 2, 512, 81920, 35, 60.00, GPU-b\\n'; do
      read -rt "${@: -1}" <> <(:) || :
    done ;;
esac
"""
# Rank 3 sleeps, and the others work for a while.
PROGRAM = (
    'echo up; [ "$OMPI_COMM_WORLD_RANK" = 3 ] && exec sleep 3600; exec timeout SECONDS sh -c "while :; do :; done"'
)


@pytest.fixture(autouse=True)
def gpus(cluster: Cluster) -> Iterator[None]:
    places = [cluster.path("/usr/local/bin/nvidia-smi", node) for node in NODES]
    for node in NODES:
        cluster.put("/usr/local/bin/nvidia-smi", SMI, 0o755, node)
    yield
    for place in places:
        place.unlink(missing_ok=True)


def program(seconds: int) -> list[str]:
    return ["--image", OMPI5, "--", "sh", "-c", PROGRAM.replace("SECONDS", str(seconds))]


def samplers(cluster: Cluster) -> list[str]:
    """The processes on the nodes that take samples."""
    words = ("sample.sh", "nvidia-smi", "mnrun_every")
    return [str(p) for p in cluster.processes() if p.node != LOGIN and any(w in " ".join(p.argv) for w in words)]


@pytest.mark.parametrize("place", some(("slurm", "hosts"), ["slurm"]))
def test_top_shows_what_is_odd_and_leaves_nothing(cluster: Cluster, place: str) -> None:
    words = cluster.launch(*program(600), nodes=2, salloc=["--gres=gpu:2"])
    if place == "hosts":
        words = ["mnrun", "--hosts", "node[01-02]:2", *program(600)]
    with cluster.running(words) as job:
        job.saying(lambda said: said.out.count("up\n") == 4, "up on all ranks")
        found = checked("top", cluster.alice(["mnrun", "top", "--once", "--json"]).out)
        odd = {node["node"]: set(node["odd"]) for node in found["nodes"]}
        assert odd["node01"] == {"GPU 1 idles"}, found
        assert odd["node02"] == {"GPU 1 idles", "rank 3 uses no CPU"}, found
        assert [[rank["rank"] for rank in node["ranks"]] for node in found["nodes"]] == [[0, 1], [2, 3]]
        table = cluster.alice(["mnrun", "top", "--once"]).out
        assert re.search(r"^node02 .* 97 % .* 61 C .* GPU 1 idles; rank 3 uses no CPU$", table, re.MULTILINE), table
        wait_for(lambda: not samplers(cluster), "no sampler")
        with Terminal(cluster.argv(LOGIN, "alice", ["mnrun", "top"])) as terminal:
            terminal.resize(24, 80)
            terminal.expect("idles")  # the column may take several lines
            plain = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", terminal.seen)
            assert {"NODE", "MEMORY", "RANK", "GPU", "ODD"} <= {*plain.split()}, terminal.seen
            terminal.write("\x03")
            assert terminal.end() == 130
        wait_for(lambda: not samplers(cluster), "no sampler after Ctrl-C")
        with cluster.running(["mnrun", "top"]) as top:
            top.saying(lambda said: "node02: cpu" in said.out, "a line")
            (it,) = [found for found in cluster.mnruns() if "top" in found.argv]
            it.send(signal.SIGKILL)
        wait_for(lambda: not samplers(cluster), "no sampler after kill -9")
        gives_metrics(cluster)
        wait_for(lambda: not samplers(cluster), "no sampler after TERM")


def test_top_lets_a_cancelled_job_go(cluster: Cluster, desk: Desk) -> None:
    """Its samplers hear no signal, so that Slurm would wait 30 s before it ends them (KillWait)."""
    words = ["-N2", "--ntasks-per-node=2", "-o", f"{desk.path}/out", "--job-dir", f"{desk.path}/jobs", *program(600)]
    job = cluster.alice(["mnrun", "submit", *words]).out.strip()
    wait_for(lambda: "out" in desk.names() and desk.read("out").count(b"up\n") == 4, "up")
    with cluster.running(["mnrun", "top", job, "--job-dir", f"{desk.path}/jobs"]) as top:
        top.saying(lambda said: "node02: cpu" in said.out, "a line")
        assert cluster.alice(["mnrun", "cancel", job]).code == 0
        wait_for(lambda: not cluster.jobs(), "free", 20)
        top.end()


def gives_metrics(cluster: Cluster) -> None:
    """To Prometheus by a file, which goes with mnrun, and by HTTP."""
    with cluster.running(["mnrun", "top", "--metrics", "/home/alice/top.prom"]) as top:
        file = cluster.path("/home/alice/top.prom")
        wait_for(lambda: file.exists() and file.read_text().count("mnrun_gpu_energy_joules_total{") == 4, "written")
        (it,) = [found for found in cluster.mnruns() if "top" in found.argv]
        it.send(signal.SIGTERM)
        assert top.end().code == 143
    assert not file.exists()
    ask = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:20999/metrics').read().decode())"
    with cluster.running(["mnrun", "top", "--metrics", "127.0.0.1:20999"]) as top:
        wait_for(lambda: "mnrun_rank_cpu_seconds_total{" in cluster.alice(["python3", "-c", ask]).out, "asked")
        (it,) = [found for found in cluster.mnruns() if "top" in found.argv]
        it.send(signal.SIGTERM)
        assert top.end().code == 143


def test_a_watched_job_and_its_page(cluster: Cluster, desk: Desk) -> None:
    records = ["--job-dir", f"{desk.path}/jobs"]
    shape = ["-N2", "--ntasks-per-node=2", "--gpus-per-node=2", "--watch", "1", "-o", f"{desk.path}/out"]
    busy = ["sh", "-c", 'timeout 5 sh -c "while :; do :; done"; exit 0']
    submit = ["mnrun", "submit", "--wait", *shape, *records, "--image", OMPI5, "--", *busy]
    job = cluster.alice(submit).out.split()[0]
    samples = read_all(desk.read(f"jobs/{job}/0/samples").decode())
    assert {sample.node for sample in samples} == set(NODES)
    page = cluster.alice(["mnrun", "report", "--html", job, *records]).out
    heads = re.findall(r"<h3>(.*?)</h3><p>mean (.*?)[,.] ", page)
    assert [head for head, _ in heads] == [metric.title for metric in METRICS if metric.title[:4] != "Infi"]
    assert dict(heads)["GPU use"] == "50 %", heads
    assert all(re.match(r"\d", words) for _, words in heads), heads
    shown = cluster.alice(["mnrun", "report", job, *records]).out
    assert re.search(r"^GPU power +236 W +60 W node0\d GPU 1 +412 W node0\d GPU 0$", shown, re.MULTILINE), shown
    energy = re.search(
        r"^GPU energy +(\S+) k?J +(\S+) k?J node0\d GPU 1 +(\S+) k?J node0\d GPU 0$", shown, re.MULTILINE
    )
    assert energy and float(energy[2]) > 0, shown
    line = r"^mnrun: used: (CPU \d+ % of \d+, memory .*, GPUs 50 %, [\d.]+ Wh, idle: node01 GPU 1, node02 GPU 1)$"
    said = re.search(line, desk.read("out").decode(), re.MULTILINE)
    assert said, desk.read("out")
    assert said[1] in shown and said[1] in cluster.alice(["mnrun", "why", job, *records]).out


def test_an_idle_gpu_comes_first_and_status_names_it(cluster: Cluster, desk: Desk) -> None:
    """It has idled for five minutes: the test takes so many from the times of what was sampled at first."""
    cluster.put("/usr/local/bin/nvidia-smi", SMI.replace("1, 2, 512", "1, 96, 512"), 0o755, NODES[0])
    shape = ["-N2", "--ntasks-per-node=2", "--gpus-per-node=2", "--watch", "1"]
    job = cluster.alice(["mnrun", "submit", *shape, *program(600)], cwd=desk.path).out.strip()
    try:
        kept = cluster.path(f"/home/alice/.mnrun/jobs/{job}/0/samples")

        def sampled() -> bool:
            text = kept.read_text() if kept.exists() else ""
            return all(len(re.findall(rf"^sample {node} .*\bgpu 1 ", text, re.MULTILINE)) > 1 for node in NODES)

        wait_for(sampled, "watched")
        found = checked("top", cluster.alice(["mnrun", "top", job, "--once", "--json"]).out)
        assert [(node["node"], bool(node["odd"])) for node in found["nodes"]] == [("node02", True), ("node01", False)]
        early = re.sub(r"(?m)^(sample \S+ )(\d+)", lambda it: f"{it[1]}{int(it[2]) - 400}", kept.read_text())
        kept.write_text(early)

        def why() -> str:
            return str(json.loads(cluster.alice(["mnrun", "status", "--json", job]).out)["jobs"][0]["why"])

        wait_for(lambda: "GPU" in why(), "named", state=why)
        assert "node02 GPU 1" in why() and "node01" not in why() and "GPU 0" not in why()
        assert cluster.alice(["mnrun", "cancel", job]).code == 0
        assert cluster.alice(["mnrun", "wait", job]).code == 143
    finally:
        forget(cluster)


@pytest.mark.parametrize("how", some(("KILL", "TERM"), ["KILL"]))
def test_no_sampler_outlives_its_launch(cluster: Cluster, how: str) -> None:
    with cluster.running(cluster.launch("--watch", "1", *program(600), nodes=2)) as job:
        job.saying(lambda said: said.out.count("up\n") == 4, "up on all ranks")
        wait_for(lambda: len(samplers(cluster)) >= 4, "watched")
        cluster.launcher().send(getattr(signal, f"SIG{how}"))
    assert cluster.wait_clean(30, "~/.mnrun/jobs") == [], "a killed mnrun leaves its records to the next one"
    assert samplers(cluster) == []
    forget(cluster)
