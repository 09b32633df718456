"""`mnrun plan`: what run would do, down to the words, before anything is done."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from published import checked

from .cells import HELLO, INSIDE, MAIN, NOSSHD, OMPI5, Way, one
from .reports import check, errors, mine
from .stage import LOGIN, Cluster, Desk, Result

JOB = re.compile(r"(?<=mnrun\.)(\d+|JOB|local)-[a-z0-9]{6}")


def plan(result: Result) -> dict[str, Any]:
    assert result.code == 0, result
    return checked("plan", result.out)


def nameless(words: list[str]) -> list[str]:
    named = ["<script>" if "\n" in word or re.fullmatch(r"<\w+\.sh>", word) else word for word in words]
    return [JOB.sub("ID", word) for word in named]


@pytest.mark.parametrize("way", one(0, MAIN), ids=str)
def test_plan_is_what_runs(cluster: Cluster, way: Way) -> None:
    """The words of each step, shown in JSON, are those that `run -v` starts, to the last one."""
    words = [*way.words, "-x", "FOO=a 'b'", "-B", "/usr:/data:ro", "--ntasks-per-node", "2", "--", HELLO, "a b", "$c"]
    with cluster.held("-N2", "--ntasks-per-node=2") as job:
        env = ["env", f"SLURM_JOB_ID={job}", "mnrun"]
        shown = plan(cluster.alice([*env, "plan", "--format", "json", *words]))
        ran = cluster.alice([*env, "run", "-v", *words])
    assert ran.code == 0, ran
    started = [shlex.split(line[2:]) for line in ran.err.splitlines() if line.startswith("+ ")]
    steps = {step["phase"]: step["argv"] for step in shown["steps"]}
    assert [nameless(line) for line in started[:2]] == [nameless(steps["serve"]), nameless(steps["run"])], ran
    assert shown["layout"]["nodes"] == ["node01", "node02"]
    assert shown["layout"]["ranks"] == [2, 2]


def test_plan_inside_an_allocation(cluster: Cluster) -> None:
    with cluster.held("-N4", "--gres=gpu:2") as job:
        env = {"SLURM_JOB_ID": job, "MNRUN_IMAGE": OMPI5, "MNRUN_START_TIMEOUT": "3m"}
        line = [
            "env",
            *(f"{n}={v}" for n, v in env.items()),
            "mnrun",
            "plan",
            "--commands",
            "--keep",
            "-N",
            "3",
            "--",
            HELLO,
        ]
        text = cluster.alice(line)
        assert text.code == 0, text
        steps = cluster.root(LOGIN, "squeue", "-h", "-s", "-o", "%i %j").split()
        assert [step for step in steps if step.startswith(f"{job}.") and not step.endswith("extern")] == []
    assert text.err == "", text
    for wanted in (
        "ranks: 6 (one per GPU",
        "nodes: 3 (--nodes 3",
        "  node01: 2\n  node02: 2\n  node03: 2\n",
        f"image = {OMPI5}    # MNRUN_IMAGE\n",
        "start_timeout = 180    # MNRUN_START_TIMEOUT\n",
        "keep = true    # command line\n",
        "nodes = 3    # command line\n",
        "mode = inside-out    # built-in\n",
        "--nodes=3",
    ):
        assert wanted in text.out, (wanted, text)


def test_plan_without_an_allocation(cluster: Cluster) -> None:
    words = ["--nodes", "4", "--ntasks-per-node", "2", "--image", OMPI5, "--", HELLO]
    text = cluster.alice(["mnrun", "plan", "--commands", *words])
    assert (text.code, text.err) == (0, ""), text
    assert "ranks: 8" in text.out, text
    assert "/tmp/mnrun.JOB-" in text.out, text
    shown = plan(cluster.alice(["mnrun", "plan", "--format", "json", *words]))
    assert shown["layout"]["ranks"] == [2, 2, 2, 2]
    assert [step["phase"] for step in shown["steps"]] == ["serve", "run", "await", "stop"]
    assert shown["values"]["nodes"] == {"value": "4", "origin": "command line"}
    assert cluster.root(LOGIN, "squeue", "-h", "-a", "-t", "all", "-o", "%T").split().count("PENDING") == 0


@pytest.mark.parametrize("way", one(1, MAIN), ids=str)
def test_plan_of_one_machine(cluster: Cluster, way: Way) -> None:
    """--local: the words start right here, so that none is a scheduler's."""
    if way.start == "srun":
        result = cluster.alice(["mnrun", "plan", "--local", *way.words, "--", HELLO])
        assert result.code == 2, result
        return
    shown = plan(cluster.alice(["mnrun", "plan", "--local", "--format", "json", *way.words, "--", HELLO]))
    for step in shown["steps"]:
        assert "srun" not in step["argv"], step
    assert shown["layout"] == {**shown["layout"], "nodes": [LOGIN], "ranks": [1]}


def test_plan_leaves_no_trace(cluster: Cluster) -> None:
    with cluster.desk(under="/tmp") as desk:
        line = ["env", f"HOME={desk.path}", "mnrun", "plan", "--image", OMPI5, "--", HELLO]
        assert cluster.alice(line).code == 0
        assert desk.names() == []
    assert cluster.leftovers() == []


def test_plan_hides_values(cluster: Cluster) -> None:
    words = ["--image", OMPI5, "-x", "TOKEN=very-secret", "--", HELLO]
    for form in ("steps", "json"):
        shown = cluster.alice(["mnrun", "plan", "--format", form, *words])
        assert shown.code == 0, shown
        assert "TOKEN" in shown.out, shown
        assert "very-secret" not in shown.out + shown.err, shown


# What mnrun itself says, and keeps


def test_own_lines(cluster: Cluster) -> None:
    for way in one(0, MAIN):
        quiet = cluster.mnrun(*way.words, "-Q", "--", HELLO, nodes=2)
        check(quiet, "node01", "node02")
        assert errors(quiet) == "", quiet
        plain = cluster.mnrun(*way.words, "--", HELLO, nodes=2)
        check(plain, "node01", "node02")
        assert 1 <= len(mine(plain)) <= 2, plain
        assert len(mine(plain)) == len(errors(plain).splitlines()), plain
        loud = cluster.mnrun(*way.words, "-v", "--", HELLO, nodes=2)
        check(loud, "node01", "node02")
        commands = [shlex.split(line[2:]) for line in loud.err.splitlines() if line.startswith("+ ")]
        assert [line[0] for line in commands] == ["srun", "srun"], loud


def test_own_lines_of_a_quiet_refusal(cluster: Cluster) -> None:
    result = cluster.mnrun("-Q", *INSIDE.words, "-n", "99", "--", HELLO, nodes=1)
    assert result.code == 122, result
    assert len(mine(result)) == len(errors(result).splitlines()) == 1, result


@pytest.mark.parametrize("way", one(1, MAIN), ids=str)
def test_own_records(cluster: Cluster, way: Way) -> None:
    try:
        result = cluster.mnrun(*way.words, "--keep", "--", HELLO, nodes=2)
        check(result, "node01", "node02")
        (kept,) = [line for line in mine(result) if line.startswith("kept: ")]
        here, there, _ = re.findall(r"(/\S+?)(?=,| and | on the nodes)", kept)
        ready = json.loads(cluster.path(f"{here}/nodes.json").read_text())
        assert [node["name"] for node in ready["nodes"]] == ["node01", "node02"]
        assert json.loads(cluster.path(f"{here}/launch.json").read_text())["version"] == 1
        for node in ("node01", "node02"):
            files = [path for path in cluster.path(there, node).rglob("*") if path.is_file()]
            assert files
            assert not [path for path in files if b"PRIVATE KEY" in path.read_bytes()]
    finally:
        cluster.wipe()


def test_plan_names_the_faults_of_a_job(cluster: Cluster) -> None:
    words = ["-N", "9", "--image", "/no/such.sif", "--", HELLO]
    text = cluster.alice(["mnrun", "plan", *words])
    assert (
        "\nverdict: the image /no/such.sif is not on this machine; the job will fail unless its nodes have it\n"
        f"  partition main has {len(cluster.nodes)} nodes, and --nodes (command line) asks for 9; "
        "mnrun nodes shows them\nMPI: "
    ) in text.out, text
    fault = plan(cluster.alice(["mnrun", "plan", "--json", *words]))["judgement"]
    assert (fault["ok"], fault["reason"]) == (None, "image")
    fine = plan(cluster.alice(["mnrun", "plan", "--json", "--local", "--image", OMPI5, "--", HELLO]))["judgement"]
    assert (fine["ok"], fine["reason"]) == (True, "works"), fine


@pytest.mark.parametrize("words", [("--bind", "/tmp", "--image", NOSSHD), ("--runtime", "host")])
def test_plan_names_the_line_that_asks_a_node(cluster: Cluster, desk: Desk, words: tuple[str, ...]) -> None:
    """It works as it stands, for a job of two nodes, and its plan has a verdict."""
    words = (*words, "--image-cache", desk.path)  # where no earlier answer of a node lies
    shown = cluster.alice(["mnrun", "plan", "-N", "2", "-n", "4", *words, "--", HELLO])
    line = re.search(r"this asks one: (.*)", shown.out)
    assert line, shown
    told = cluster.alice(["sh", "-c", line[1]])
    assert told.code == 0, told
    assert "ranks: 4 " in told.out, told
    assert "node01: 2\n" in told.out, told
    assert "no node was asked" not in told.out, told
