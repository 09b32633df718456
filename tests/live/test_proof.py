"""What a run has shown: where ranks were and by what they talked, in its records and on the screen; --require."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .batch import end, forget, submit
from .cells import HELLO, INSIDE, MAIN, SSH, Way, turn
from .reports import check, errors, mine, refusal
from .stage import Cluster, Desk, old_file

WORDS = Path(__file__).resolve().parents[1] / "unit/recorded/network"
MPICH = (Way("inside", "mpich"), Way("srun", "mpich"))
OTHERS = (SSH, Way("mpirun", "ompi4"), Way("srun", "ompi4"), Way("mpirun", "ompi5", "rank"))


@pytest.mark.parametrize("way", turn(0, (*MAIN, *MPICH, *OTHERS), [INSIDE], MAIN[1:], MPICH), ids=str)
def test_proof_of_tcp(cluster: Cluster, way: Way) -> None:
    result = cluster.mnrun(*way.words, "--require", "tcp", "--", HELLO)
    check(result, *cluster.nodes)
    used = "UCX by tcp (eth0)" if way.image == "mpich" else "Open MPI by tcp"
    assert mine(result)[-1] == f"8 ranks on node[01-04] x 2; {used}", result
    told = [line for line in result.err.splitlines() if re.search(r"^\[.*(UCX|\b[bm]tl|\bofi)", line)]
    assert told == [], "mnrun alone reads what it has the libraries tell"


def test_proof_that_is_required(cluster: Cluster) -> None:
    result = cluster.mnrun(*INSIDE.words, "--require", "ib", "--", HELLO, nodes=2)
    assert (result.code, result.out.count("rank ")) == (122, 4), result
    assert "--require ib: Open MPI by tcp on node[01-02]; check the network" in mine(result)[-1], result
    refusal(cluster.mnrun(*INSIDE.words, "--require", "tcp", "--", "true", nodes=2), 122, "has reported a network")


def test_proof_of_nccl(cluster: Cluster, desk: Desk) -> None:
    words = desk.put("words", (WORDS / "nccl-ib.txt").read_bytes())
    line = '[ -z "$NCCL_DEBUG_FILE" ] || cat "$0" >"${NCCL_DEBUG_FILE%%%p}$$"; echo done'
    ranks = [*INSIDE.words, "--require", "ib", "--", "sh", "-c", line, words]
    result = cluster.mnrun(*ranks, nodes=2, salloc=["--gres=gpu:2"])
    assert (result.code, result.out) == (0, "done\n" * 4), result
    devices = "mlx5_0:1, mlx5_1:1, mlx5_2:1, mlx5_3:1, GPUDirect"
    assert mine(result)[-1] == f"4 ranks on node[01-02] x 2; NCCL by ib ({devices})", result


TOPOLOGY = (WORDS.parent / "gpus/h100.topo").read_text()
SMI = f"""#!/bin/sh
case $1 in
  topo) cat <<'END'
{TOPOLOGY}END
  ;;
  -L) ;;
  -q) printf '%s\\n' 'GPU 00000000:FF:00.0' ' Process ID : 1' ' Type : C' ' Name : vllm' ;;
  *) printf '%s, GPU-%s, 00000000:FF:00.0\\n' 0 00 1 11 2 22 3 33 ;;
esac
"""


def test_proof_of_the_nodes_gpus(cluster: Cluster) -> None:
    """How they are connected is in the records; who is nearest is asked for. Played: what nvidia-smi says."""
    places = [cluster.path("/usr/local/bin/nvidia-smi", node) for node in ("node01", "node02")]
    words = [
        *INSIDE.words,
        "--gpu-bind",
        "closest",
        "--keep",
        "--job-dir",
        "/home/alice/.mnrun/jobs",
        "--",
        HELLO,
        "-g",
    ]
    try:
        refusal(cluster.mnrun(*words, nodes=2), 121, "nvidia-smi shows no GPU on this node")
        for node in ("node01", "node02"):
            cluster.put("/usr/local/bin/nvidia-smi", SMI, 0o755, node)
        places.append(old_file(cluster, "node02"))
        result = cluster.mnrun(*words, nodes=2, salloc=["--gres=gpu:2"])
        found = check(result, "node01", "node02")
        assert {rank.gpus for rank in found} == {"0,1"}, result  # none of them says where it is
        for node in ("node01", "node02"):
            assert f"warning: {node}: not free: GPU 0 (vllm, process 1, another user's)\n" in result.err, result
        assert "/dev/shm/nccl-old" in errors(result), result
        kept = cluster.path("/home/alice/.mnrun/jobs")
        drawn = [place.read_text() for place in sorted(kept.glob("*/topology.node0*"))]
        assert drawn == [re.sub(r"\x1b\[\dm", "", TOPOLOGY)] * 2
        assert "4 ranks on node[01-02] x 2" in next(kept.glob("*/summary")).read_text()
    finally:
        for place in places:
            place.unlink(missing_ok=True)
        forget(cluster)
        for node in ("node01", "node02"):
            cluster.root(node, "sh", "-c", "rm -rf /tmp/mnrun.* /dev/shm/mnrun.*")


def test_proof_of_a_submitted_job(cluster: Cluster, desk: Desk) -> None:
    job = submit(cluster, desk, "-N2", "--ntasks-per-node=2", *INSIDE.words, "--require", "ib", "--", HELLO)
    result = end(cluster, desk, job)
    assert result.code == 122, result
    said = [line for line in result.err.splitlines() if line.startswith("mnrun: ") and "tcp" in line]
    used = "Open MPI by tcp"
    assert said[0] == f"mnrun: 4 ranks on node[01-02] x 2; {used}", result
    assert said[1].startswith(f"mnrun: --require ib: {used} on node[01-02]; "), result
