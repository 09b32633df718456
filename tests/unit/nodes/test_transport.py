"""What a run has shown: the words of NCCL, UCX and Open MPI, overheard, understood and judged.

recorded/network holds such words: those of ompi4, ompi5 and mpich from the rehearsal cluster; the others as these
libraries write them on machines that have what there is none of here.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mnrun.errors import Impossible
from mnrun.files import wrapper, wrappers
from mnrun.nodes import transport
from unit.conftest import Shell
from unit.samples import RECORDED, build, make
from unit.texts import Refused, Says

WORDS = RECORDED / "network"
HEARD = {
    "nccl-ib": "ib mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,GPUDirect NCCL",
    "nccl-roce": "ib mlx5_bond_0:1 NCCL",
    "nccl-new": "ib mlx5_0:1,mlx5_3:1 NCCL",
    "nccl-socket": "tcp eth0,eth1 NCCL",
    "nccl-h100": "tcp eth0 NCCL",
    "nccl-efa": "ib efa,GPUDirect NCCL",
    "nccl-slingshot": "ib cxi NCCL",
    "ucx-ib": "ib mlx5_0:1,mlx5_1:1 UCX",
    "ucx-old": "tcp eth0 UCX",
    "mpich": "tcp eth0 UCX",
    "ompi4": "tcp - Open MPI",
    "ompi5": "tcp - Open MPI",
    "openmpi-ib": "ib - Open MPI",
    "openmpi-ofi": "ib cxi Open MPI",
}


def heard(sh: Shell, *files: Path, sys: str = "/nonexistent") -> list[str]:
    script = f'bash -p {wrappers()["transport_read.sh"]} "$@"'
    return sh(script, *map(str, files), environ={"mnrun_sys": sys}).decode().splitlines()


def test_all_that_is_recorded_is_tried() -> None:
    assert {path.stem for path in WORDS.iterdir()} == set(HEARD)


@pytest.mark.parametrize("name", HEARD)
def test_words_are_understood(sh: Shell, name: str) -> None:
    assert heard(sh, WORDS / f"{name}.txt") == [HEARD[name]]


def test_several_libraries_of_a_node(sh: Shell) -> None:
    assert heard(sh, WORDS / "nccl-ib.txt", WORDS / "ompi5.txt") == ["tcp - Open MPI", HEARD["nccl-ib"]]
    assert heard(sh, Path("/dev/null")) == []


def adapter(place: Path, name: str, link: str, rate: str, state: str = "4: ACTIVE") -> None:
    port = place / "class/infiniband" / name / "ports/1"
    port.mkdir(parents=True)
    for file, text in (("state", state), ("link_layer", link), ("rate", rate)):
        (port / file).write_text(text + "\n")


def test_what_a_node_has_is_said_beside_tcp(sh: Shell, tmp_path: Path) -> None:
    adapter(tmp_path, "mlx5_0", "InfiniBand", "100 Gb/sec (4X EDR)")
    adapter(tmp_path, "mlx5_1", "InfiniBand", "10 Gb/sec (4X SDR)", "1: DOWN")
    adapter(tmp_path, "bnxt_re0", "Ethernet", "25 Gb/sec (1X EDR)")
    adapter(tmp_path, "mlx5_8", "Ethernet", "200 Gb/sec (4X HDR)")
    (tmp_path / "class/cxi/cxi0").mkdir(parents=True)
    assert heard(sh, WORDS / "ompi5.txt", sys=str(tmp_path)) == [HEARD["ompi5"], "there mlx5_0:1,mlx5_8:1,cxi0 -"]
    assert heard(sh, WORDS / "nccl-ib.txt", sys=str(tmp_path)) == [HEARD["nccl-ib"]]


TCP = {"node01": ["tcp - Open MPI"], "node02": ["tcp - Open MPI"]}


def test_the_run_in_a_line(says: Says) -> None:
    ranks = {"node01": 2, "node02": 2}
    assert transport.summary(ranks, TCP) == "4 ranks on node[01-02] x 2; Open MPI by tcp"
    mixed = {"node01": ["ib mlx5_0:1,GPUDirect NCCL"], "node02": ["tcp eth0 NCCL"]}
    said = "NCCL by ib (mlx5_0:1, GPUDirect) on node01; NCCL by tcp (eth0) on node02"
    assert transport.summary({"node01": 2, "node02": 1}, mixed) == f"3 ranks on node01 x 2, node02 x 1; {said}"
    says(transport.summary(ranks, {}))
    says(transport.summary(ranks, {}, asked=False))
    says(transport.summary({"node01": 1}, {}, planned=4))


def test_one_node_needs_no_network(says: Says) -> None:
    """NCCL names one all the same, as on a machine with one H100."""
    used = {"vm": [HEARD["nccl-h100"]]}
    says(transport.summary({"vm": 1}, used))


def test_tcp_beside_something_faster(says: Says) -> None:
    assert transport.slow(TCP) == ""
    there = {node: [*said, "there mlx5_0:1,mlx5_1:1 -"] for node, said in TCP.items()}
    says(transport.slow(there))


def test_what_is_required(refused: Refused) -> None:
    for network, nnodes in (("any", 2), ("tcp", 2), ("ib", 1)):
        transport.check_network(network, TCP, nnodes)
    with refused(Impossible):
        transport.check_network("ib", TCP, 2)
    with refused(Impossible):
        transport.check_network("ib", {}, 2)
    with refused(Impossible):
        transport.check_network("ib", {"node01": ["ib mlx5_0:1 NCCL", "tcp - Open MPI"]}, 2)


def test_who_starts_ranks_himself_is_not_listened_to(refused: Refused) -> None:
    with refused(Impossible):
        make(build("mpirun", "./app", require="ib"), 2, 2)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A node's directory, for `transport_debug.sh`."""
    for name in ("transport_debug.sh", "job.sh"):
        text = wrapper(name) if name != "job.sh" else "mnrun_overhear=1\n"
        (tmp_path / name).write_text(text)
    (tmp_path / "heard").mkdir()
    return tmp_path


PROGRAM = """
echo output; echo error >&2
echo '[n:1] mca: bml: Using tcp btl for send to x' >&$OPAL_OUTPUT_STDERR_FD
echo '[n:1] *** An error occurred' >&$OPAL_OUTPUT_STDERR_FD
{
  echo '[1.2] [n:1:0] a.c:1 UCX  INFO  ucp_context_0 inter-node cfg#2 tag(tcp/eth0)'
  echo '[1.2] [n:1:0] a.c:1 UCX  INFO  Version 1'
  echo '[1.2] [n:1:0] a.c:1 UCX  WARN  look out'
} >"$UCX_LOG_FILE"
exit 7
"""


def test_a_program_says_what_it_says_without_us(sh: Shell, node: Path) -> None:
    """Errors of Open MPI go to standard error, warnings of UCX to standard output, where they would have gone."""
    (node / "program").write_text(PROGRAM)
    os.mkfifo(node / "said")
    run = f"{{ sh {node}/transport_debug.sh sh {node}/program; echo $? >{node}/code; }} 2>{node}/err | cat"
    assert sh(run).decode().splitlines() == ["output", "[1.2] [n:1:0] a.c:1 UCX  WARN  look out"]
    assert (node / "err").read_text().splitlines() == ["error", "[n:1] *** An error occurred"]
    assert (node / "code").read_text() == "7\n"
    kept = (node / "heard/mpi").read_text().splitlines()
    assert ["Using tcp btl" in kept[0], "inter-node" in kept[1], len(kept)] == [True, True, 2]


def test_what_the_user_has_set_stays(sh: Shell, node: Path) -> None:
    set_ = {"OMPI_MCA_btl_base_verbose": "30", "UCX_LOG_LEVEL": "debug"}
    said = sh(f"sh {node}/transport_debug.sh env", environ=set_).decode()
    assert "OMPI_MCA_btl_base_verbose=30\n" in said
    assert "UCX_LOG_LEVEL=debug\n" in said
    assert "OPAL_OUTPUT" not in said
    assert "UCX_LOG_FILE" not in said


def test_nccl_is_listened_to_where_there_are_gpus(sh: Shell, node: Path) -> None:
    (node / "job.sh").write_text("mnrun_overhear=\n")
    show = (
        f"sh {node}/transport_debug.sh sh -c 'echo \"${{NCCL_DEBUG-}} ${{NCCL_DEBUG_FILE-}} ${{NCCL_DEBUG_SUBSYS-}}\"'"
    )
    assert sh(show).decode().split() == [] or Path("/dev/kfd").exists() or Path("/proc/driver/nvidia").exists()
    gpus = {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert sh(show, environ=gpus).decode() == f"INFO {node}/heard/nccl.%p INIT,NET\n"
    assert sh(show, environ={**gpus, "NCCL_DEBUG": "WARN"}).decode().split() == ["WARN"]
    (node / ".nccl.conf").write_text("NCCL_DEBUG=INFO\n")
    assert sh(show, environ={**gpus, "HOME": str(node)}).decode().split() == []
