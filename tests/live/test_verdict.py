"""The verdict: what image and node have for MPI, which way of starting ranks follows, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from .batch import forget, programs
from .cells import HELLO, IMAGES, MPICH, OMPI4, OMPI5, some
from .reports import check, mine, only_line, refusal
from .stage import Cluster, Desk

OUTSIDE = ("--mode", "outside-in")
MPIRUN = "/usr/bin/mpirun.openmpi"  # what mpirun is in the image
BESIDE = "/usr/bin/mpiexec.hydra:/opt/mpich/bin/mpiexec.hydra"  # the node's, as a second MPI of the image


def told(text: str) -> list[str]:
    verdict = re.split(r"\n(?=note: |networks:|\n)", text[text.index("verdict: ") :])[0]
    return [line.strip() for line in verdict.splitlines()]


@pytest.mark.parametrize(
    ("words", "starter"), [(("--launcher", "srun"), "outside-in, srun"), (OUTSIDE, "the node's mpirun")]
)
def test_verdict_chooses_what_the_image_speaks(cluster: Cluster, words: tuple[str, ...], starter: str) -> None:
    """MPICH by srun's PMI2 or by the node's mpiexec.hydra, Open MPI by PMIx or mpirun: nobody says --mpi. A script
    leaves it to its nodes."""
    for image in some((MPICH, OMPI4, OMPI5), (MPICH,)):
        result = cluster.mnrun(*words, "--image", image, "--", HELLO, nodes=2)
        check(result, *cluster.nodes[:2])
        assert f"apptainer, {starter}" in mine(result)[0], result
        script = cluster.alice(["mnrun", "plan", "--format", "sbatch", *words, "--image", image, "--", HELLO])
        assert (script.code, "--mpi=" in script.out) == (0, False), script


def test_verdict_in_a_script(cluster: Cluster, desk: Desk) -> None:
    never = ("--image-cache", f"{desk.path}/never", "--launcher", "srun", "-N", "2", "--ntasks-per-node", "2")
    for image in some((MPICH, OMPI4, OMPI5), (MPICH,)):
        result = cluster.alice(
            ["mnrun", "submit", "--wait", "-o", "out", *never, "--image", image, "--", HELLO], cwd=desk.path
        )
        check(replace(result, raw=programs(desk.read("out")).encode()), *cluster.nodes[:2])
    forget(cluster)


def test_verdict_of_a_plan(cluster: Cluster) -> None:
    words = ["-v", "--launcher", "srun", "-N", "2", "--image", OMPI4, "--", HELLO]
    with cluster.held("-N2") as job:
        inside = cluster.alice(["env", f"SLURM_JOB_ID={job}", "mnrun", "plan", *words])
        ran = cluster.alice(["env", f"SLURM_JOB_ID={job}", "mnrun", *words])
    lines = told(inside.out)
    assert lines[0].startswith("verdict: outside-in, srun --mpi=pmix: works"), inside
    for said in (
        "image: Open MPI 4.1.4 (/usr/bin/mpirun), PMIx 4.2.2, glibc 2.36",
        "(PMIx 5.0.7 on the node, 4.2.2 in the image)",
        "srun --mpi offers ",
        "else inside-out: works",
        "single copy: on, the ranks of a node share one container",
    ):
        assert any(said in line for line in lines), (said, inside)
    assert lines[-1].startswith("asked on node0"), inside
    paper = told(cluster.alice(["mnrun", "plan", *words]).out)
    assert (paper[:-1], paper[-1][:14]) == (lines[:-1], "as a node repo")
    check(ran, *cluster.nodes[:2], tasks=1)
    assert any("verdict: outside-in, srun --mpi=pmix: works" in line for line in mine(ran)), ran


def test_verdict_of_an_image_without_mpirun(cluster: Cluster, desk: Desk) -> None:
    away = ("-B", f"{desk.put('none', '')}:{MPIRUN}", "--image", OMPI5)
    for _ in range(2):
        result = cluster.mnrun(*away, "--", "sh", "-c", 'echo "rank $RANK of $WORLD_SIZE"', nodes=2)
        assert sorted(result.out.splitlines()) == [f"rank {rank} of 4" for rank in range(4)], result
        asked = cluster.mnrun("plan", *away, "--", HELLO, nodes=2)
        assert any("so mnrun starts the ranks" in line for line in told(asked.out)), asked
    alone = cluster.mnrun(*away, "--", HELLO, nodes=2)
    assert alone.code == 125, alone
    assert "ran as rank 0 of 1" in mine(alone)[-1], alone
    assert "--mode outside-in" in mine(alone)[-1], alone
    refusal(cluster.mnrun("--launcher", "mpirun", *away, "--", HELLO, nodes=2), 125, "no mpirun on its PATH")
    check(cluster.mnrun("--mode", "outside-in", *away, "--", HELLO, nodes=2), *cluster.nodes[:2])


def test_verdict_of_an_mpirun_that_hangs(cluster: Cluster, desk: Desk) -> None:
    program = desk.put("hang", "#!/bin/sh\nsleep 3600\n", 0o755)
    stuck = ("-B", f"{program}:{MPIRUN}", "--image", OMPI5)
    late = cluster.mnrun("--start-timeout", "60s", *stuck, "--", HELLO, nodes=2)
    refusal(late, 124, "4 of 4 ranks, of node[01-02], not started 60 s after", "mpirun may hang")
    asked = cluster.mnrun("plan", *stuck, "--", HELLO, nodes=1)
    assert any("/usr/bin/mpirun, which hangs" in line for line in told(asked.out)), asked


def test_verdict_of_two_mpis(cluster: Cluster) -> None:
    two = ("-B", BESIDE, "--image", OMPI5)
    asked = cluster.mnrun("plan", *two, "--", HELLO, nodes=1)
    assert "Open MPI 5.0.7 (/usr/bin/mpirun); it also has MPICH" in told(asked.out)[0], asked
    wrong = cluster.mnrun("--mode", "inside-out", "--mpi", "intelmpi", *two, "--", HELLO, nodes=1)
    refusal(wrong, 125, "--mpi intelmpi: the image has openmpi /usr/bin/mpirun, mpich /opt/mpich/bin/mpiexec.hydra")
    # MPICH 4.2's mpiexec may end with SIGPIPE where ranks end while it still tells them the end of its input.
    program = ("sh", "-c", "echo $PMI_RANK; sleep 1")
    other = cluster.mnrun("--runtime", "host", "--mpi", "mpich", "--", *program, nodes=2)
    assert (other.code, sorted(other.out.split())) == (0, list("0123")), other
    only_line(cluster.mnrun(*OUTSIDE, "--mpi", "intelmpi", "--image", OMPI5, "--", HELLO, nodes=1), 122, "no Intel MPI")


@pytest.mark.parametrize("image", some(("ompi5", "ompi4", "mpich"), ("ompi4", "mpich")))
def test_verdict_is_not_the_schedulers(cluster: Cluster, desk: Desk, image: str) -> None:
    """SLURM_* that leak into a script, and an srun in the image: mpirun starts nothing by it."""
    srun = desk.put("srun", "#!/bin/sh\necho srun was called >&2\nexit 1\n", 0o755)
    leak = "export SLURM_JOBID=1 SLURM_NODELIST=x SLURM_TASKS_PER_NODE=1 PMI_FD=9"
    script = desk.put("job.sh", f"#!/bin/sh\n{leak}\nmpirun {HELLO}\n", 0o755)
    words = ("-B", f"{srun}:/usr/local/bin/srun", "--image", IMAGES[image], "--script", script)
    result = cluster.mnrun(*words, nodes=2)
    check(result, *cluster.nodes[:2])
    assert "srun was called" not in result.err, result


CMA = """\
import ctypes, os, sys
from mpi4py import MPI

class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]

world = MPI.COMM_WORLD
mine, got = ctypes.create_string_buffer(b"rank %d" % world.rank), ctypes.create_string_buffer(6)
pid, address = world.allgather((os.getpid(), ctypes.addressof(mine)))[1 - world.rank]
here, there = Piece(ctypes.addressof(got), 6), Piece(address, 6)
ctypes.CDLL(None).process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
big = bytearray(4 << 20)
world.Sendrecv_replace([big, MPI.BYTE], 1 - world.rank)
sys.stdout.write(f"{world.rank} {got.value.decode() or 'nothing'}\\n")  # in one piece, which print does not
"""


@pytest.mark.parametrize(
    ("words", "image", "said", "once"),
    [
        ((), OMPI5, "", True),
        (OUTSIDE, OMPI5, "single copy: on, the ranks of a node share one container", True),
        (
            (*OUTSIDE, "--container-per", "rank"),
            OMPI4,
            "single copy: off, each rank has a container in its own user namespace",
            False,
        ),
    ],
)
def test_verdict_on_single_copies(
    cluster: Cluster, desk: Desk, words: tuple[str, ...], image: str, said: str, once: bool
) -> None:
    program = desk.put("cma.py", CMA)
    loud = ("-v", "-x", "OMPI_MCA_smsc_base_verbose=100")
    result = cluster.mnrun(*words, *loud, "--image", image, "--", "python3", program, nodes=1)
    assert result.code == 0, result
    wanted = ["0 rank 1", "1 rank 0"] if once else ["0 nothing", "1 nothing"]
    assert sorted(result.out.splitlines()) == wanted, result
    assert ("selected shared-memory single-copy component: cma" in result.err) == once, result
    assert "processes are in difference namespaces" not in result.err, result
    assert any(said in line for line in mine(result)), result
