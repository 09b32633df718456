"""Bad input: one clear line with the remedy, a code of ours, nothing left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from .cells import HELLO, INSIDE, MAIN, OMPI5, Way, one
from .reports import OURS, check, only_line, refusal
from .stage import LOGIN, Cluster, Desk, Result, wait_for

BOX = ("--image", OMPI5)


@pytest.fixture(scope="module")
def held(cluster: Cluster) -> Iterator[str]:
    with cluster.held("-N4", "--gres=gpu:2") as job:
        yield job


def run(cluster: Cluster, job: str, *words: str, cwd: str = "", **env: str) -> Result:
    given = [f"{name}={value}" for name, value in env.items()]
    return cluster.alice(["env", f"SLURM_JOB_ID={job}", *given, "mnrun", *words], cwd=cwd)


# What is wrong, the code, and what the line must say.
REFUSED: dict[str, tuple[tuple[str, ...], int | tuple[int, ...], tuple[str, ...]]] = {
    "no command": (BOX, 2, ("no command",)),
    "no image": (("--", HELLO), 2, ("--image", "--runtime host")),
    "an option misspelt": (("--imgae", OMPI5, HELLO), 2, ("--imgae", "--image")),
    "an option without its value": ((*BOX, "--chdir"), 2, ("--chdir",)),
    "mode misspelt": ((*BOX, "--mode", "inside-ou", HELLO), 2, ("inside-ou", "did you mean inside-out")),
    "mode unknown": ((*BOX, "--mode", "sideways", HELLO), 2, ("sideways", "inside-out", "outside-in")),
    "runtime unknown": ((*BOX, "--runtime", "xyz", HELLO), 2, ("xyz", "apptainer")),
    "launcher unknown": ((*BOX, "--launcher", "orterun", HELLO), 2, ("orterun", "mpirun")),
    "no number": ((*BOX, "-n", "many", HELLO), 2, ("--ntasks", "many")),
    "zero ranks": ((*BOX, "-n", "0", HELLO), 2, ("--ntasks", "0")),
    "no time": ((*BOX, "--start-timeout", "soon", HELLO), 2, ("--start-timeout", "soon", "120s")),
    "no ports": ((*BOX, "--ports", "1-2", HELLO), 2, ("--ports", "1-2")),
    "ports the wrong way": ((*BOX, "--ports", "3000-2000", HELLO), 2, ("--ports",)),
    "no variable's name": ((*BOX, "-x", "A B=1", HELLO), 2, ("A B=",)),
    "an unset variable": ((*BOX, "-x", "NOT_SET_HERE", HELLO), 2, ("NOT_SET_HERE", "--exclude")),
    "no environment file": ((*BOX, "--env-file", "/no/such", HELLO), 2, ("/no/such",)),
    "gres twice": ((*BOX, "--gres", "gpu:1", "--gpus-per-node", "1", HELLO), 2, ("--gres", "--gpus-per-node")),
    "no gpus": ((*BOX, "--gpus-per-node", "some", HELLO), 2, ("--gpus-per-node", "some")),
    "more gpus than held": ((*BOX, "--gpus-per-node", "4", HELLO), OURS, ("4",)),
    "a relative target": ((*BOX, "-B", "/tmp:data", HELLO), 2, ("--bind", "/tmp:data")),
    "a -B with sockets and cores": ((*BOX, "-B", "2:8", HELLO), 2, ("2:8", "--bind")),
    "a bind source that is missing": ((*BOX, "-B", "/no/such:/data", HELLO), 121, ("/no/such", "bind")),
    "no node list": ((*BOX, "-w", "node[1-", HELLO), 2, ("node[1-",)),
    "nodes of others": ((*BOX, "-w", "node07", HELLO), 122, ("node07", "node[01-04]")),
    "no node left": ((*BOX, "--exclude", "node[01-04]", HELLO), 122, ("node[01-04]",)),
    "more nodes than held": ((*BOX, "-N", "8", HELLO), 122, ("8", "4", "--ntasks-per-node 8")),
    "more ranks than slots": ((*BOX, "-n", "1000", HELLO), 122, ("1000", "slots", "--force")),
    "fewer ranks than nodes": ((*BOX, "-N", "4", "-n", "3", HELLO), 2, ("3", "4")),
    "srun from inside": ((*BOX, "--mode", "inside-out", "--launcher", "srun", HELLO), 122, ("--mode outside-in",)),
    "pmix from inside": ((*BOX, "--mode", "inside-out", "--mpi", "pmix", HELLO), 122, ("--mode outside-in",)),
    "mpirun with pmi2": (
        (*BOX, "--mode", "outside-in", "--launcher", "mpirun", "--mpi", "pmi2", HELLO),
        122,
        ("pmi2",),
    ),
    "a script outside": ((*BOX, "--mode", "outside-in", "--script", "/etc/profile"), 122, ("--mode inside-out",)),
    "mpirun outside": ((*BOX, "--mode", "outside-in", "mpirun", HELLO), 122, ("mpirun", "--mode inside-out")),
    "no script": ((*BOX, "--script", "/no/such/script"), (2, 121), ("/no/such/script",)),
    "no working directory": ((*BOX, "--chdir", "/no/such", HELLO), 121, ("/no/such",)),
    "no image there": (("--image", "/no/such.sif", HELLO), 121, ("/no/such.sif", "not there")),
    "not an image": (("--image", "/etc/passwd", HELLO), 121, ("/etc/passwd", "not a container image")),
    "an image that cannot be read": (("--image", "/etc/shadow", HELLO), 121, ("/etc/shadow", "cannot be read")),
    "unbalanced quotes": ((*BOX, "--mpi-args", "a 'b", HELLO), 2, ("--mpi-args", "a 'b")),
    # Other tools' spellings, each answered with ours.
    "-npernode": ((*BOX, "-npernode", "2", HELLO), 2, ("-npernode", "--ntasks-per-node")),
    "-hostfile": ((*BOX, "-hostfile", "f", HELLO), 2, ("-hostfile", "--nodelist")),
    "-mca": ((*BOX, "-mca", "btl", "tcp", HELLO), 2, ("-mca", "--mpi-args")),
    "--mca": ((*BOX, "--mca", "btl", "tcp", HELLO), 2, ("--mca", "--mpi-args")),
    "-oversubscribe": ((*BOX, "--oversubscribe", HELLO), 2, ("--oversubscribe", "--force")),
    "--container-image": (("--container-image", OMPI5, HELLO), 2, ("--container-image", "--image")),
    "--container-image=": ((f"--container-image={OMPI5}", HELLO), 2, ("--container-image", "--image")),
    "docker's -v": ((*BOX, "-v", "/tmp:/data", HELLO), 2, ("-v", "--bind /tmp:/data")),
    "docker's -e": ((*BOX, "-e", "A=b", HELLO), 2, ("-e", "-x A=b")),
    "docker's -eA=b": ((*BOX, "-eA=b", HELLO), 2, ("-x",)),
    "Slurm's -x": ((*BOX, "-x", "node03", HELLO), 2, ("node03", "--exclude node03")),
    "-genv": ((*BOX, "-genv", "A", "b", HELLO), 2, ("-genv", "-x NAME=VALUE")),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_bad_input_is_one_clear_line(cluster: Cluster, held: str, wrong: str) -> None:
    words, code, wanted = REFUSED[wrong]
    only_line(run(cluster, held, "-Q", *words), code, *wanted)


@pytest.mark.parametrize("way", one(0, MAIN), ids=str)
@pytest.mark.parametrize("wrong", ["no image there", "a bind source that is missing", "more ranks than slots"])
def test_bad_input_in_every_mode(cluster: Cluster, held: str, way: Way, wrong: str) -> None:
    words, code, wanted = REFUSED[wrong]
    only_line(run(cluster, held, "-Q", *way.words, *words), code, *wanted)


def test_bad_input_tells_a_bad_value_s_origin(cluster: Cluster, held: str) -> None:
    only_line(run(cluster, held, *BOX, HELLO, MNRUN_MODE="outside"), 2, "outside", "MNRUN_MODE")


def test_bad_input_line_of_an_env_file(cluster: Cluster, held: str, desk: Desk) -> None:
    path = desk.put("env", "A=1\n# comment\n\nno variable\n")
    only_line(run(cluster, held, *BOX, "--env-file", path, HELLO), 2, path, "line 4", "no variable")


def test_bad_input_without_an_allocation(cluster: Cluster) -> None:
    """--nodes 4, no allocation, --no-alloc: refused, with the salloc line for these options (test_places runs it)."""
    words = ["--no-alloc", "--nodes", "4", "--gres", "gpu:2", *BOX, "--", HELLO, "-e"]
    result = cluster.alice(["mnrun", *words, "A B"])
    assert (result.code, result.out) == (2, ""), result
    assert f"salloc -N 4 --gres gpu:2 mnrun {' '.join(words)} 'A B'" in result.err
    assert "--local" in result.err


def test_bad_input_a_job_that_is_over(cluster: Cluster) -> None:
    with cluster.held("-N1") as job:
        pass
    wait_for(lambda: not cluster.root(LOGIN, "squeue", "-h", "-j", job), "over")
    only_line(run(cluster, job, *BOX, HELLO), 123, job)
    only_line(run(cluster, "999999", *BOX, HELLO), 123, "999999")


def test_bad_input_no_slurm_at_hand(cluster: Cluster, held: str) -> None:
    only_line(run(cluster, held, *BOX, HELLO, PATH="/usr/local/bin"), 123, "PATH")


def test_bad_input_is_also_the_plan_s(cluster: Cluster, held: str) -> None:
    """`mnrun plan` refuses what run would."""
    for wrong in ("no command", "mode misspelt", "more ranks than slots", "docker's -v"):
        words, code, wanted = REFUSED[wrong]
        only_line(run(cluster, held, "plan", *words), code, *wanted)


# The head's srun comes late: mnrun_told is a name of await.sh's. srun sets handlers of its own for what it forwards.
LATE = """\
#!/bin/sh
case "$*" in *mnrun_told*) trap '' USR1; sleep 3 ;; esac
PATH=${PATH#*:} exec srun "$@"
"""


def test_bad_input_when_the_head_comes_late(cluster: Cluster, held: str, desk: Desk) -> None:
    desk.put("srun", LATE, 0o755)
    path = cluster.alice(["printenv", "PATH"]).out.strip()
    result = run(cluster, held, "-Q", *BOX, "--chdir", "/no/such", HELLO, PATH=f"{desk.path}:{path}")
    said = re.sub(r"(?m)^srun: error: node01: task 0: .*\n", "", result.err)
    only_line(replace(result, err=said), 121, "/no/such")
    wait_for(lambda: not any("mnrun_told" in " ".join(p.argv) for p in cluster.processes()), "without the head")


# The job directory


def test_job_dir_that_cannot_be_written(cluster: Cluster, held: str, desk: Desk) -> None:
    file = desk.put("file", "")
    for path in ("/root/jobs", "/etc", file, "/proc/jobs"):
        only_line(run(cluster, held, "-Q", "--job-dir", path, *BOX, HELLO), (*OURS, 2), path, "--job-dir")


def test_job_dir_that_the_nodes_do_not_see(cluster: Cluster) -> None:
    with cluster.desk(under="/var/tmp") as local:
        for way in one(0, MAIN):
            words = ["--job-dir", f"{local.path}/jobs", "--keep", *way.words, "--", HELLO]
            check(cluster.mnrun(*words), *cluster.nodes)
            (records,) = cluster.path(f"{local.path}/jobs").iterdir()
            assert any(records.iterdir())
            cluster.root(LOGIN, "rm", "-r", f"{local.path}/jobs")
            for node in cluster.nodes:
                cluster.root(node, "sh", "-c", "rm -rf /tmp/mnrun.* /dev/shm/mnrun.*")


def test_home_that_is_full(cluster: Cluster) -> None:
    nodes = (LOGIN, *cluster.nodes)
    mount = "mount -t tmpfs -o size=16k,nr_inodes=64,uid=1501,gid=1501,mode=700 full /home/bob"
    try:
        for node in nodes:
            cluster.root(
                node, "sh", "-c", f"{mount} && cat /dev/zero >/home/bob/fill 2>/dev/null; chown bob: /home/bob/fill"
            )
        line = [*INSIDE.words, "--", HELLO]
        refusal(cluster.mnrun(*line, user="bob"), (*OURS, 2), "/home/bob", "No space left", "--job-dir")
        left = cluster.path("/home/bob/.mnrun/jobs")
        assert not left.exists() or not list(left.iterdir())
        check(cluster.mnrun("--job-dir", "/var/tmp/bob", *line, user="bob"), *cluster.nodes)
    finally:
        for node in nodes:
            cluster.root(node, "umount", "/home/bob")
        cluster.root(LOGIN, "rm", "-rf", "/var/tmp/bob")


@pytest.mark.parametrize("free", [4, 8])
def test_home_that_becomes_full(cluster: Cluster, free: int) -> None:
    cluster.root(LOGIN, "mount", "-t", "tmpfs", "-o", "size=256k,uid=1500,gid=1500,mode=700", "tiny", "/home/alice")
    try:
        cluster.put("/home/alice/filler", b"x" * ((256 - free) << 10))
        check(cluster.mnrun(*INSIDE.words, "--", HELLO), *cluster.nodes)
    finally:
        cluster.root(LOGIN, "umount", "-l", "/home/alice")


@pytest.mark.parametrize("way", one(1, MAIN), ids=str)
def test_bad_input_a_current_directory_of_this_machine_alone(cluster: Cluster, way: Way) -> None:
    with cluster.desk((LOGIN, "node01"), under="/tmp") as desk:
        result = cluster.mnrun("-Q", *way.words, "--", HELLO, nodes=2, cwd=desk.path)
        line = only_line(result, 121, f"the working directory {desk.path} is not there", "node02")
        assert "node01" not in line, result


@pytest.mark.parametrize("way", one(2, MAIN), ids=str)
def test_bad_input_images_that_are_empty(cluster: Cluster, held: str, desk: Desk, way: Way) -> None:
    desk.put("empty.sif", "")
    cluster.path(f"{desk.path}/folder").mkdir()
    for name in ("empty.sif", "folder"):
        image = f"{desk.path}/{name}"
        result = run(cluster, held, "-Q", *way.words[: -len(BOX)], "--image", image, HELLO)
        only_line(result, 121, f"{image} is not a container image", "node[01-04]")


def test_bad_input_on_one_machine(cluster: Cluster) -> None:
    """--local refuses what it cannot do, and says as the nodes do what is missing."""
    local = ["mnrun", "-Q", "--local"]
    only_line(cluster.alice([*local, "-N", "4", *BOX, HELLO]), 122, "--nodes 4", "login")
    only_line(
        cluster.alice([*local, "--mode", "outside-in", "--launcher", "srun", *BOX, HELLO]), 2, "--launcher mpirun"
    )
    only_line(cluster.alice([*local, "--image", "/no/such.sif", HELLO]), 121, "/no/such.sif is not there", LOGIN)
