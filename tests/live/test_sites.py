"""Other sites: Slurm that gives each job its own /tmp; other Debians on the nodes. Control groups: test_site_cgroup."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .batch import forget, state, submit
from .cells import HELLO, INSIDE, MPIRUN, Way, one, some
from .reports import check, errors
from .stage import LOGIN, Cluster, wait_for

Variant = Callable[..., Cluster]
IMAGE = "login:5000/mpi/ompi5:1"
OLDER = {"bookworm": "22.05", "bullseye": "20.11", "sid": ""}


def test_site_private_tmp(variant: Variant) -> None:
    ours = variant(2, "--private-tmp")
    for way in one(1, (INSIDE, MPIRUN)):
        check(ours.mnrun(*way.words, "--", HELLO, nodes=2), *ours.nodes[:2])
    check(ours.mnrun("--launcher", "srun", "--runtime", "host", "--", HELLO, nodes=2), *ours.nodes[:2])  # PMIX_MCA_gds
    check(ours.mnrun(*INSIDE.words, "--stage", "--", HELLO, nodes=2), *ours.nodes[:2])
    for node in ours.nodes[:2]:
        ours.root(node, "rm", "-r", "/var/tmp/mnrun.alice")  # a copy outlives its job
    result = ours.mnrun(*Way("inside", "ompi5", runtime="docker").words, "--", HELLO, nodes=2)
    assert result.code == 121, result
    assert "--runtime podman or apptainer" in result.err.splitlines()[-1], result
    ours.tool("registry")  # podman's store in such a /tmp is a fresh one
    ours.settle()
    check(ours.mnrun("--runtime", "podman", "--image", IMAGE, "--", HELLO, nodes=2), *ours.nodes[:2])
    ours.settle()  # podman makes directories of its own in a home that it has not seen
    before = [entry.name for entry in ours.path("/tmp", "node01").iterdir()]
    look = "touch /tmp/one /dev/shm/two; ls /tmp"
    result = ours.mnrun(*INSIDE.words, "--", "sh", "-c", look, nodes=1, tasks=1)
    assert "one" in result.out.split(), result
    assert [entry.name for entry in ours.path("/tmp", "node01").iterdir()] == before


def cannot(ours: Cluster, debian: str) -> None:
    host = ("--runtime", "host", "--", HELLO)
    alone = ours.alice(["sh", "-c", "id=$(sbatch --parsable -o /dev/null --wrap 'exit 3'); mnrun wait $id"])
    assert alone.code == 3, alone
    if debian == "bullseye":
        result = ours.mnrun(*host, nodes=2, salloc=("--gres=gpu:2",))
        assert result.code == 122, result
        said = "mnrun: Slurm 20.11 does not let a job's steps share its GPUs; use --no-gpu, or Slurm 22.05 or newer"
        assert result.err.splitlines()[-1] == said
        check(ours.mnrun("--no-gpu", *host, nodes=2, salloc=("--gres=gpu:2",)), *ours.nodes[:2])
        check(ours.mnrun("--launcher", "srun", *host, nodes=2), *ours.nodes[:2])
        asked = ours.alice(["mnrun", "check"])
        assert "20.11" in asked.out, asked
        assert "podman 3.0 is too old" in asked.out, asked
    if debian == "bookworm":
        result = ours.mnrun("--launcher", "srun", *host, nodes=2)
        assert result.code == 122, result
        assert "cannot be loaded" in result.err.splitlines()[-1], result
        check(ours.mnrun("--mode", "outside-in", *host, nodes=2), *ours.nodes[:2])
        ours.tool("registry")
        check(ours.mnrun("--runtime", "podman", "--image", IMAGE, "--", HELLO, nodes=2), *ours.nodes[:2])
        ours.settle()  # podman makes directories of its own in a home that it has not seen


def every_way(ours: Cluster) -> None:
    for words in (["--connect", "ssh"], ["--connect", "pipe"], ["--launcher", "env"], ["--mode", "outside-in"]):
        result = ours.mnrun("-Q", *words, "--runtime", "host", "--", HELLO, nodes=2)
        if "env" not in words:  # whose ranks are each alone
            check(result, *ours.nodes[:2])
        assert (result.code, errors(result)) == (0, ""), result
    check(ours.alice(["mnrun", "--hosts", "node01:2,node02:2", "--runtime", "host", "--", HELLO]), *ours.nodes[:2])


def every_verb(ours: Cluster) -> None:
    host = ("--runtime", "host", "--")
    shell = ["salloc", "-Q", "-N2", "mnrun", "shell", "-Q", "--runtime", "host"]
    assert sorted(ours.alice(shell, b"mpirun -n 2 uname -n\n").out.split()) == ["node01", "node02"]
    with ours.desk() as desk:
        failed = submit(ours, desk, "-N", "2", *host, "sh", "-c", "echo said; exit 3")
        assert ours.alice(["mnrun", "wait", failed]).code == 3
        assert "said" in ours.alice(["mnrun", "logs", failed]).out
        lasting = submit(ours, desk, "-N", "2", *host, "sleep", "600")
        wait_for(lambda: state(ours, lasting)["JobState"] == "RUNNING", "running")
        assert ours.alice(["mnrun", "cancel", lasting]).code == 0
        waited = ours.alice(["mnrun", "wait", lasting])
        assert waited.code == 143, (waited, ours.alice(["mnrun", "why", lasting]))
        shown = ours.alice(["env", "MNRUN_SLURM_POLL=1s", "mnrun", "status"]).out.splitlines()
        states = {line.split()[0]: line.split()[2] for line in shown}
        assert (states[failed], states[lasting]) == ("failed", "cancelled"), shown
        answers: dict[tuple[str, ...], str] = {
            ("nodes",): "free",
            ("check", "-N", "2"): "Open MPI",
            ("plan", "-N", "2", *host, HELLO): "start: inside-out",
            ("profile", "list"): "",
            ("clean", "--nodes"): "",
            ("clean", "--older", "30d"): "",
        }
        for words, wanted in answers.items():
            result = ours.alice(["mnrun", *words])
            assert result.code in (0, 122 if words[0] == "check" else 0), result  # no runtime on the login node
            assert wanted in result.out, result
    forget(ours)


@pytest.mark.parametrize("debian", some(tuple(OLDER), ()))  # bookworm: test_site_bookworm
def test_site_debian(variant: Variant, debian: str) -> None:
    """Nodes of another Debian: Slurm, docker, bash and Python of another age."""
    ours = variant(2, f"--debian={debian}")
    assert OLDER[debian] in ours.root(LOGIN, "srun", "--version")
    every_way(ours)
    every_verb(ours)
    cannot(ours, debian)
    ours.tool("engines")
    ours.settle()
    for start in ("inside", "mpirun"):
        check(ours.mnrun(*Way(start, "ompi5", runtime="docker").words, "--", HELLO, nodes=2), *ours.nodes[:2])
