"""Other sites: Slurm that holds jobs in control groups, or gives each its own /tmp; other Debians on the nodes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from .cells import HELLO, INSIDE, MAIN, MPIRUN, Way, full, one
from .reports import check
from .stage import LOGIN, Cluster

pytestmark = pytest.mark.live

Variant = Callable[..., Cluster]
# Each device by what opening it says: no driver, or no permission.
OPEN = """\
import errno, json, os, sys
found = {}
for number in range(4):
    try:
        os.open(f"/dev/nvidia{number}", os.O_RDONLY)
    except OSError as error:
        found[number] = errno.errorcode[error.errno]
print(json.dumps([found, os.environ.get("CUDA_VISIBLE_DEVICES")]), flush=True)
"""
HOLD = "x = bytearray(300 << 20); print(len(x))"
IMAGE = "login:5000/mpi/ompi5:1"
OLDER = {"bookworm": "22.05", "bullseye": "20.11", "sid": ""}


def test_site_cgroup(variant: Variant) -> None:
    """Control groups: each rank can open the job's GPUs and no other; memory is a limit; nothing outlives its step."""
    ours = variant(2, "--cgroup")
    for way in one(0, MAIN):
        result = ours.mnrun(*way.words, "--", "python3", "-c", OPEN, nodes=2, tasks=1, salloc=("--gres=gpu:2",))
        assert result.code == 0, result
        for line in result.out.splitlines():
            assert json.loads(line) == [{"0": "ENXIO", "1": "ENXIO", "2": "EPERM", "3": "EPERM"}, "0,1"], result
        check(ours.mnrun(*way.words, "--", HELLO, nodes=2), *ours.nodes)
    held = {memory: ours.alice(["srun", "-N1", f"--mem={memory}", "python3", "-c", HOLD]) for memory in ("100M", "1G")}
    assert held["100M"].code != 0, held
    assert "oom" in held["100M"].err.lower(), held
    assert held["1G"].code == 0, held
    step = ["srun", "-N1", "sh", "-c", "setsid sleep 600 & sleep 0.5; echo started"]
    assert ours.alice(step).out == "started\n"


def test_site_private_tmp(variant: Variant) -> None:
    """A /tmp and a /dev/shm for each job: its steps share them, and the nodes' own stay as they were."""
    ours = variant(2, "--private-tmp")
    for way in one(1, (INSIDE, MPIRUN)):
        check(ours.mnrun(*way.words, "--", HELLO, nodes=2), *ours.nodes)
    check(ours.mnrun("--launcher", "srun", "--runtime", "host", "--", HELLO, nodes=2), *ours.nodes)  # PMIX_MCA_gds
    result = ours.mnrun(*Way("inside", "ompi5", runtime="docker").words, "--", HELLO, nodes=2)
    assert result.code == 121, result
    assert "--runtime podman or apptainer" in result.err.splitlines()[-1], result
    ours.tool("registry")  # podman's store in such a /tmp is a fresh one
    ours.settle()
    check(ours.mnrun("--runtime", "podman", "--image", IMAGE, "--", HELLO, nodes=2), *ours.nodes)
    before = [entry.name for entry in ours.path("/tmp", "node01").iterdir()]
    look = "touch /tmp/one /dev/shm/two; ls /tmp"
    result = ours.mnrun(*INSIDE.words, "--", "sh", "-c", look, nodes=1, tasks=1)
    assert "one" in result.out.split(), result
    assert [entry.name for entry in ours.path("/tmp", "node01").iterdir()] == before


def cannot(ours: Cluster, debian: str) -> None:
    """What that Slurm and its programs cannot do is said by name, in one line."""
    host = ("--runtime", "host", "--", HELLO)
    alone = ours.alice(["sh", "-c", "id=$(sbatch --parsable -o /dev/null --wrap 'exit 3'); mnrun wait $id"])
    assert alone.code == 3, alone
    if debian == "bullseye":
        result = ours.mnrun(*host, nodes=2, salloc=("--gres=gpu:2",))
        assert result.code == 122, result
        said = "mnrun: Slurm 20.11 does not let a job's steps share its GPUs; use --no-gpu, or Slurm 22.05 or newer"
        assert result.err.splitlines()[-1] == said
        check(ours.mnrun("--no-gpu", *host, nodes=2, salloc=("--gres=gpu:2",)), *ours.nodes)
        check(ours.mnrun("--launcher", "srun", *host, nodes=2), *ours.nodes)
        asked = ours.alice(["mnrun", "check"])
        assert "20.11" in asked.out, asked
        assert "podman 3.0 is too old" in asked.out, asked
    if debian == "bookworm":
        result = ours.mnrun("--launcher", "srun", *host, nodes=2)
        assert result.code == 122, result
        assert "cannot be loaded" in result.err.splitlines()[-1], result
        check(ours.mnrun("--mode", "outside-in", *host, nodes=2), *ours.nodes)
        ours.tool("registry")
        check(ours.mnrun("--runtime", "podman", "--image", IMAGE, "--", HELLO, nodes=2), *ours.nodes)


@pytest.mark.parametrize("debian", OLDER if full() else ["bookworm"])
def test_site_debian(variant: Variant, debian: str) -> None:
    """Nodes of another Debian: Slurm, docker, bash and Python of another age."""
    ours = variant(2, f"--debian={debian}")
    assert OLDER[debian] in ours.root(LOGIN, "srun", "--version")
    check(ours.mnrun("--runtime", "host", "--", HELLO, nodes=2), *ours.nodes)
    cannot(ours, debian)
    ours.tool("engines")
    ours.settle()
    for start in ("inside", "mpirun"):
        check(ours.mnrun(*Way(start, "ompi5", runtime="docker").words, "--", HELLO, nodes=2), *ours.nodes)
