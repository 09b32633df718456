"""Sites differ: CPUs that are bound, a bare login node, no shared filesystem, GPUs granted in every way, more nodes."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from .cells import HELLO, INSIDE, MAIN, MPIRUN, OMPI5, SRUN, Way, cells, one
from .reports import check, mine, only_line, ranks
from .stage import LOGIN, Cluster, Desk, Result, wait_for
from .terminal import Terminal

Variant = Callable[..., Cluster]
LOOK = """\
import json, os, socket, subprocess, sys
print(json.dumps({
    "host": socket.gethostname(),
    "cpus": sorted(os.sched_getaffinity(0)),
    "nproc": int(subprocess.run(["nproc"], stdout=subprocess.PIPE, check=True).stdout),
    "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
    "devices": sorted(name for name in os.listdir("/dev") if name.startswith("nvidia")),
}))
"""


def looks(result: Result) -> dict[str, list[dict[str, Any]]]:
    assert result.code == 0, result
    found: dict[str, list[dict[str, Any]]] = {}
    for line in result.out.splitlines():
        report = json.loads(line)
        found.setdefault(report["host"], []).append(report)
    return found


# CPUs


def test_variant_affinity(variant: Variant) -> None:
    ours = variant(4, "--affinity")
    cores = int(ours.root("node01", "nproc", "--all"))
    for way in one(0, MAIN):
        check(ours.mnrun(*way.words, "--", HELLO, tasks=min(2, cores)), *ours.nodes, tasks=min(2, cores))
        salloc = ["-c", str(cores)]
        result = ours.mnrun(*way.words, "--bind-to", "none", "--", "python3", "-c", LOOK, tasks=1, salloc=salloc)
        found = looks(result)
        assert sorted(found) == list(ours.nodes), result
        for reports in found.values():
            assert [(len(report["cpus"]), report["nproc"]) for report in reports] == [(cores, cores)], result
    script = "for node in $(echo $hostlist | tr , ' '); do ssh ${node%:*} nproc; done; nproc"
    result = ours.mnrun(*INSIDE.words, "--script", "/bin/sh", "--", "-c", script, tasks=1, salloc=["-c", str(cores)])
    assert result.out.split() == [str(cores)] * 5, result
    start = ["srun", "-N4", "-n4", "-c", str(cores), "--gres=gpu:2", "--pty", "bash"]
    with Terminal(ours.argv(LOGIN, "alice", start)) as terminal:
        terminal.expect(r"node01.*\$ ")
        look = "echo $(uname -n) has $(nproc) and $CUDA_VISIBLE_DEVICES"
        terminal.write(f"mnrun --image {OMPI5} --ntasks-per-node 1 -- sh -c {shlex.quote(look)}\n")
        hosts = {terminal.expect(rf"(node0\d) has {cores} and 0,1\n")[1] for _ in ours.nodes}
        assert hosts == set(ours.nodes), terminal.seen
        terminal.expect(r"node01.*\$ ")
        terminal.write("exit\n")
        terminal.end()


# Nodes


def test_variant_bare_login(variant: Variant) -> None:
    ours = variant(4, "--bare-login")
    assert ours.alice(["sh", "-c", "command -v apptainer || command -v mpirun"]).out == ""
    for way in one(1, MAIN):
        check(ours.mnrun(*way.words, "--", HELLO), *ours.nodes)
    result = ours.alice(["mnrun", "--local", "--image", OMPI5, "--", HELLO])
    assert result.code == 121, result
    assert "apptainer is not installed" in mine(result)[-1], result


def test_variant_separate_home(variant: Variant) -> None:
    ours = variant(4, "--separate-home")
    for way in one(2, MAIN):
        for place in one(1, ("/tmp", "/home/alice")):
            check(ours.mnrun(*way.words, "--", HELLO, cwd=place), *ours.nodes)
    with ours.desk() as desk:
        result = ours.mnrun(*INSIDE.words, "--", HELLO, nodes=2, cwd=desk.path)
        assert result.code == 121, result
        assert f"node[01-02]: the working directory {desk.path} is not there" in mine(result)[-1], result


def test_variant_sixteen_nodes(variant: Variant) -> None:
    """16 nodes, 32 ranks."""
    ours = variant(16)
    for way in one(0, MAIN):
        check(ours.mnrun(*way.words, "--", HELLO, nodes=16, seconds=300), *ours.nodes)


# GPUs: devices of the right names without a driver, so that all that can be seen is what is said of them


GRANTS = {"--gres=gpu:2": "0,1", "--gpus-per-node=2": "0,1", "--gpus-per-node=4": "0,1,2,3", "--gpus-per-task=1": "0,1"}


@pytest.mark.parametrize(
    ("start", "salloc"), cells({"start": ("inside", "mpirun", "srun"), "salloc": tuple(GRANTS)}, together=1)
)
def test_gpus_of_the_job(cluster: Cluster, start: str, salloc: str) -> None:
    result = cluster.mnrun(*Way(start, "ompi5").words, "--", HELLO, "-g", nodes=2, salloc=(salloc,))
    found = check(result, "node01", "node02")
    assert [rank.gpus for rank in found] == [GRANTS[salloc]] * 4, result


@pytest.mark.parametrize("gpus", [("--gpus-per-node", "4"), ("--gpus", "8")], ids=" ".join)
def test_gpus_beside_local_disks(cluster: Cluster, gpus: tuple[str, ...]) -> None:
    line = 'echo "$CUDA_VISIBLE_DEVICES $(scontrol -o show step $SLURM_JOB_ID.$SLURM_STEP_ID | grep -o nvme)"'
    start = ["--runtime", "host", "--mode", "outside-in", "--launcher", "srun", "--", "bash", "-c", line]
    result = cluster.alice(["mnrun", "-N2", "--ntasks-per-node=1", "--gres", "nvme:1", *gpus, *start])
    assert (result.code, result.out) == (0, "0,1,2,3 nvme\n" * 2), result


def test_gpus_that_mnrun_is_asked_for(cluster: Cluster) -> None:
    for way in one(1, MAIN):
        words = [*way.words, "--gpus-per-node", "2", "--ntasks-per-node", "2", "--", HELLO, "-g"]
        found = check(cluster.mnrun(*words, nodes=2, salloc=("--gres=gpu:4",)), "node01", "node02")
        assert {len(rank.gpus.split(",")) for rank in found} == {2}


@pytest.mark.parametrize("way", one(1, MAIN), ids=str)
def test_gpus_make_ranks(cluster: Cluster, way: Way) -> None:
    result = cluster.mnrun("-v", *way.words, "--", HELLO, "-g", nodes=2, tasks=0, salloc=("--gres=gpu:3",))
    found = check(result, "node01", "node02", tasks=3)
    assert {rank.gpus for rank in found} == {"0,1,2"}
    assert any("one per GPU" in line for line in mine(result)), result


@pytest.mark.parametrize("way", one(0, MAIN), ids=str)
def test_gpus_of_two_jobs_at_once(cluster: Cluster, desk: Desk, way: Way) -> None:
    wait = (
        f"{HELLO} -g && touch {desk.path}/$0 && until [ -e {desk.path}/a ] && [ -e {desk.path}/b ]; do sleep 0.1; done"
    )
    shape: dict[str, Any] = {"nodes": 2, "tasks": 1, "salloc": ("--gres=gpu:2", "-w", "node[01-02]")}
    lines = [cluster.launch(*way.words, "--", "sh", "-c", wait, name, **shape) for name in "ab"]
    with cluster.running(lines[0]) as one, cluster.running(lines[1]) as two:
        found = [check(job.end(), "node01", "node02", tasks=1) for job in (one, two)]
    for first, second in zip(*found):
        assert first.host == second.host
        assert {*first.gpus.split(","), *second.gpus.split(",")} == {"0", "1", "2", "3"}, found


def test_gpus_that_were_not_asked_for(cluster: Cluster) -> None:
    for way in one(2, MAIN):
        result = cluster.mnrun(*way.words, "--", HELLO, "-g", nodes=2, env={"CUDA_VISIBLE_DEVICES": "3"})
        found = check(result, "node01", "node02")
        assert {rank.gpus for rank in found} == {""}, result


def test_gpus_with_an_interactive_step(cluster: Cluster) -> None:
    """--gpus-per-task=1 inside `srun`, whose own task has but one of the GPUs: the job's ranks have all."""
    shape = ["salloc", "-Q", "-N2", "--ntasks-per-node=2", "--gpus-per-task=1", "srun", "-N1", "-n1"]
    for way in one(2, MAIN):
        line = [*shape, "mnrun", *way.words, "--ntasks-per-node", "2", "--", HELLO, "-g"]
        found = check(cluster.alice(line), "node01", "node02")
        assert {rank.gpus for rank in found} == {"0,1"}, found


def test_gpus_need_no_driver(cluster: Cluster) -> None:
    """The nodes have GPUs by name and no NVIDIA driver: nothing complains of --nv."""
    for way in one(0, MAIN):
        result = cluster.mnrun(*way.words, "--", HELLO, nodes=1, salloc=("--gres=gpu:1",))
        check(result, "node01")
        strange = [line for line in result.err.splitlines() if re.match(r"(?!mnrun: ).*(?<!e)nv", line)]
        assert not strange, shlex.join(strange)


def test_gpus_are_named_where_there_are_too_few(cluster: Cluster) -> None:
    result = cluster.mnrun(*INSIDE.words, "--gres", "gpu:3", "--", HELLO, nodes=1, salloc=("--gres=gpu:1",))
    assert result.code in (121, 122, 123), result
    assert "gpu" in mine(result)[-1].lower() or "gres" in mine(result)[-1], result
    wait_for(lambda: not cluster.root(LOGIN, "squeue", "-h"), "given back")


def test_gpus_unevenly_granted(cluster: Cluster) -> None:
    salloc = ("--gpus=11", "--cpus-per-gpu=1")
    for way in (INSIDE, SRUN):
        result = cluster.mnrun(*way.words, "--", HELLO, "-g", tasks=0, salloc=salloc)
        counts = Counter(rank.host for rank in ranks(result))
        assert sum(counts.values()) == 11 and max(counts.values()) <= 4, result
        assert all(len(rank.gpus.split(",")) == counts[rank.host] for rank in ranks(result)), result
    result = cluster.mnrun(*MPIRUN.words, "--", HELLO, tasks=0, salloc=salloc)
    only_line(result, 122, "GPUs", "node01: 4", "--launcher srun")


def granted(cluster: Cluster, job: str) -> dict[str, str]:
    step = ["srun", "--overlap", "-N4", "--ntasks-per-node=1", "sh", "-c", "echo $(uname -n) $CUDA_VISIBLE_DEVICES"]
    result = cluster.alice(["env", f"SLURM_JOB_ID={job}", *step])
    assert result.code == 0, result
    return dict(line.split() for line in result.out.splitlines())


def test_gpus_are_those_of_slurm(cluster: Cluster) -> None:
    with cluster.held("-N2", "--gres=gpu:1"), cluster.held("-N4", "--gres=gpu:2") as job:
        slurm = granted(cluster, job)
        assert len(set(slurm.values())) == 2, slurm
        for way in (*one(1, MAIN), Way("inside", "mpich")):  # MPICH would hand out the first node's numbers
            words = ["mnrun", *way.words, "--ntasks-per-node", "1", "--", HELLO, "-g"]
            found = check(cluster.alice(["env", f"SLURM_JOB_ID={job}", *words]), *cluster.nodes, tasks=1)
            assert {rank.host: rank.gpus for rank in found} == slurm
