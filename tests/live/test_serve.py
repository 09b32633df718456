"""`mnrun serve`: a service on an allocation, ready when HTTP says so, and its end."""

from __future__ import annotations

import json
import re
import time
from types import SimpleNamespace
from typing import Any

import pytest

from .batch import forget
from .batch import programs as by_programs
from .cells import OMPI5, full
from .services import PROGRAMS, a_service, beside, beside_a_job, programs
from .stage import LOGIN, TOP, Cluster, Desk, Result, wait_for

LOCAL = ("--local", "--runtime", "host")


def test_serve_a_batch_job(cluster: Cluster, desk: Desk) -> None:
    try:
        a_service(cluster, desk, "--image", OMPI5, by_proxy=True)
    finally:
        forget(cluster)


def test_serve_an_engine_on_two_nodes(cluster: Cluster, desk: Desk) -> None:
    """One line starts it on both nodes, and it ends by itself. Nobody asks anything of it meanwhile."""
    programs(desk)
    words = ("{node_rank}", "{nnodes}", "{head}:{master_port}", "{port}", desk.path, "{others:as a worker}")
    line = ["serve", "-N", "2", "--runtime", "host", "--idle", "2", "--", "sh", "engine.sh", *words]
    result = cluster.alice(["mnrun", *line], cwd=desk.path)
    assert result.code == 0, result
    assert "0: node 0 of 2, for 10." in result.out
    assert "1: node 1 of 2, for 10." in result.out and result.out.count("as a worker") == 1
    assert "it has no token" in result.err and "idle" in result.err


def test_serve_the_row_of_sglang(cluster: Cluster, desk: Desk) -> None:
    """By a program that takes the same options: its wheel needs CUDA 13."""
    cluster.alice(["mkdir", "sglang"], cwd=desk.path)
    cluster.put(f"{desk.path}/sglang/launch_server.py", (PROGRAMS / "sglang.py").read_text())
    words = ("-N", "2", "--runtime", "host", "--idle", "1", "-x", f"PYTHONPATH={desk.path}")
    result = cluster.alice(["mnrun", "serve", "sglang", *words, "--", "--model-path", "MODEL", "--tp", "2"])
    assert result.code == 0, result
    assert "0: MODEL on 2 nodes with 2 parts" in result.out and "it has no token" in result.err, result


def test_the_line_for_jupyterhub_is_a_job_with_its_variables(cluster: Cluster, desk: Desk) -> None:
    """As batchspawner 1.3 hands it in: sbatch --export names the variables, and the line is the last of the script."""
    blocks = re.findall(r"```python\n(.*?)```", (TOP / "docs/howto/portal.md").read_text(), re.DOTALL)
    spawner, hub = (block.replace("import batchspawner\n", "") for block in blocks)
    told: dict[str, Any] = {"c": SimpleNamespace(JupyterHub=SimpleNamespace(), SlurmSpawner=SimpleNamespace())}
    exec(hub + spawner, told)  # a page of ours
    names = [f"JUPYTERHUB_{name}" for name in told["NAMES"].split()]
    line = told["c"].SlurmSpawner.batchspawner_singleuser_cmd.replace("/software/images/lab.sif", OMPI5)
    whole, own = line.rpartition(" ")[::2]
    assert own == "batchspawner-singleuser"
    last = f"{whole} sh -c 'echo $APPTAINER_NAME; env | grep -c \"^JUPYTERHUB_.*=its \"; exit 7'"
    script = f"#!/bin/bash\n#SBATCH --export={','.join(names)},PATH --output=out\nset -euo pipefail\n{last}\n"
    given = [f"{name}=its {name}" for name in names]
    try:
        done = cluster.alice(["env", *given, "sbatch", "--wait", "-Q"], script.encode(), cwd=desk.path)
        assert done.code == 7, (done, desk.read("out"))
        assert by_programs(desk.read("out")).split() == ["ompi5.sif", str(len(names))]
    finally:
        forget(cluster)


def test_serve_beside_a_job(cluster: Cluster, desk: Desk) -> None:
    try:
        beside_a_job(cluster, desk, "--image", OMPI5)
    finally:
        forget(cluster)


def test_serve_on_hosts(cluster: Cluster, desk: Desk) -> None:
    """Nobody asks it for long."""
    programs(desk)
    words = ("--hosts", ",".join(cluster.nodes[:2]), "--runtime", "host", "--idle", "1")
    program = ("sh", "engine.sh", "{node_rank}", "{nnodes}", "{head}", "{port}", desk.path)
    result = cluster.alice(["mnrun", "serve", *words, "--", *program], cwd=desk.path)
    assert result.code == 0, result
    assert "node 1 of 2" in result.out, result


@pytest.mark.skipif(not full(), reason="--full: the same under Slurm is in every run")
def test_serve_beside_a_job_on_hosts(cluster: Cluster, desk: Desk) -> None:
    programs(desk)
    line = ["mnrun", "-J", "around", "--hosts", ",".join(cluster.nodes[:2]), "--runtime", "host", "--", "sleep", "600"]
    with cluster.running(line) as job:
        beside(cluster, "around", ("python3", f"{desk.path}/server.py"), end=lambda: job.process.terminate())
        assert job.end().code == 143


@pytest.mark.parametrize(("end", "code"), [("exit 0", 1), ("exit 3", 3), ("kill -9 $$", 137)])
def test_serve_ends_with_the_program_of_any_node(cluster: Cluster, desk: Desk, end: str, code: int) -> None:
    """A worker of vLLM ends with 0 where its peer dies. The reason of a run is in its last line."""
    words = ("sh", "-c", f'[ "$0" = 0 ] && exec sleep 600; {end}', "{node_rank}")
    result = cluster.alice(["mnrun", "serve", "-N", "2", "--runtime", "host", "--", *words], cwd=desk.path)
    assert result.code == code, result
    assert "node02" in result.err.splitlines()[-1], result


def test_serve_names_the_node_that_is_late(cluster: Cluster, desk: Desk) -> None:
    programs(desk)
    words = ("{node_rank}", "{nnodes}", "{head}", "{port}", desk.path, "late")
    line = ["serve", "-N", "2", "--runtime", "host", "--ready-timeout", "4", "--", "sh", "engine.sh", *words]
    result = cluster.alice(["sh", "-c", '"$@" >out', "it", "mnrun", *line], cwd=desk.path)
    assert result.code == 124, result
    assert "node02: loading weights" in result.err.splitlines()[-1]


def test_serve_show_tells_what_a_service_waits_for(cluster: Cluster, desk: Desk) -> None:
    """The scheduler's reason, and later the nodes, the one first that has said nothing for longest."""
    programs(desk)
    program = ("sh", "engine.sh", "{node_rank}", "{nnodes}", "{head}", "{port}", desk.path, "late")
    line = ["mnrun", "serve", "--detach", "-N", "2", "--runtime", "host"]

    def given(*words: str) -> str:
        result = cluster.alice([*line, *words, "--", *program], cwd=desk.path)
        assert result.code == 0, result
        return result.out.strip()

    def shown(job: str) -> Result:
        result = cluster.alice(["mnrun", "serve", "--show", job])
        assert result.code == 121, result
        return result

    def loads() -> bool:
        last = shown(runs).err.splitlines()[-1]
        return last.find(f"{cluster.nodes[1]}: loading weights") > last.find(f"last of {cluster.nodes[0]}: ") > -1

    try:
        runs = given()
        waits = given("--dependency", f"afterany:{runs}")
        (view,) = json.loads(cluster.alice(["mnrun", "status", "--json", waits]).out)["jobs"]
        assert view["why"] and view["why"] in shown(waits).err
        wait_for(loads, "two nodes of which one is late", state=lambda: shown(runs).err)
        assert cluster.alice(["mnrun", "cancel", waits, runs]).code == 0
        assert cluster.alice(["mnrun", "wait", runs]).code == 143
        assert cluster.alice(["mnrun", "serve", "--show", runs]).code == 2
    finally:
        forget(cluster)


@pytest.mark.parametrize("code", [0, 7])
def test_serve_a_program_that_ends_has_its_code(cluster: Cluster, code: int) -> None:
    begun = time.monotonic()
    result = cluster.alice(["mnrun", "serve", *LOCAL, "--", "sh", "-c", f"exit {code}"])
    assert result.code == code and "{port}" in result.err, result  # no word of it has the port
    assert time.monotonic() - begun < 100


def test_serve_a_service_of_ones_own(cluster: Cluster) -> None:
    """Its row is in config.toml of the user."""
    command = 'command = ["python3", "-m", "http.server", "{word}", "--bind", "127.0.0.1"]'
    row = f'[services.files]\n{command}\nruntime = "host"\n'
    script = 'mkdir -p .config/mnrun && printf %s "$1" >.config/mnrun/config.toml && shift && mnrun serve "$@"'
    try:
        line = ["sh", "-c", script, "it", row, "files", "--local", "--idle", "1", "--", "{port}"]
        result = cluster.alice(line)
        assert result.code == 0 and "idle" in result.err, result
    finally:
        cluster.root(LOGIN, "rm", "-rf", "/home/alice/.config")
