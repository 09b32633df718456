"""What is said of an image, and when its copies on nodes are refused."""

from __future__ import annotations

from mnrun.errors import NodeError, RuntimeFailed
from mnrun.facts import by_node, parse
from mnrun.images import inspection
from mnrun.mpi.facts import mpi_facts
from unit.texts import Refused

UNSIGNED = "signature integrity: signature not found for object group 1"


def copies(*lines: str) -> list[inspection.Copy]:
    return inspection.copies(by_node(parse("\n".join(f"fact {line}" for line in lines))), ("n1", "n2"))


def test_what_an_image_has() -> None:
    facts = mpi_facts(
        parse(
            "fact n1 node name n1\n"
            "fact n1 image mpi openmpi /usr/bin/mpirun mpirun (Open MPI) 5.0.7\n"
            "fact n1 image mpi mpich /opt/bin/mpiexec HYDRA build details: Version: 4.2.1\n"
            "fact n1 image pmix PMIx v5.0.7\nfact n1 image glibc glibc 2.41\nfact n1 image arch x86_64\n"
            "fact n1 image python 3.12 (/opt/conda/bin/python3)\n"
            "fact n1 image pytorch 2.4.1+cu121\nfact n1 image pytorch_cuda 12.1\n"
        )
    )
    assert facts is not None
    assert inspection.rows(inspection.inspected("/a.sif", 88_000_000, "sha256:1", facts, ()), "88 MB") == [
        ("size", "88 MB"),
        ("digest", "sha256:1"),
        ("system", "unknown"),
        ("architecture", "x86_64"),
        ("glibc", "2.41"),
        ("MPI", "Open MPI 5.0.7 (/usr/bin/mpirun)"),
        ("MPI", "MPICH 4.2.1 (/opt/bin/mpiexec)"),
        ("PMIx", "5.0.7"),
        ("sshd", "none"),
        ("Python", "3.12 (/opt/conda/bin/python3)"),
        ("PyTorch", "2.4.1+cu121"),
        ("CUDA", "12.1"),
    ]


def test_the_same_file_on_all_nodes(refused: Refused) -> None:
    found = copies("n1 node digest sha256:a", f"n1 node {UNSIGNED}", "n2 node digest sha256:a", f"n2 node {UNSIGNED}")
    assert inspection.table(found) == [("n[1-2]", "sha256:a", "none")]
    inspection.refuse("app.sif", found, demanded=False)
    with refused(RuntimeFailed):
        inspection.refuse("app.sif", found, demanded=True)


def test_files_that_differ(refused: Refused) -> None:
    found = copies("n1 node digest sha256:a", "n2 node digest sha256:b")
    with refused(NodeError):
        inspection.refuse("app.sif", found, demanded=False)
    found = copies("n1 node digest sha256:a")
    assert inspection.table(found) == [("n1", "sha256:a", "none"), ("n2", "no answer", "none")]
    with refused(NodeError):
        inspection.refuse("app.sif", found, demanded=False)


def test_signatures(refused: Refused) -> None:
    good = copies(*(f"{node} node {fact}" for node in ("n1", "n2") for fact in ("digest sha256:a", "signature valid")))
    inspection.refuse("app.sif", good, demanded=True)
    bad = copies(
        "n1 node digest sha256:a", "n1 node signature valid", "n2 node digest sha256:a", "n2 node signature bad"
    )
    with refused(RuntimeFailed):
        inspection.refuse("app.sif", bad, demanded=False)
    silent = copies("n1 node digest sha256:a", "n2 node digest sha256:a")
    with refused(RuntimeFailed):
        inspection.refuse("app.sif", silent, demanded=True)
