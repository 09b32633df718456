"""What is said of an image, and when its copies on nodes are refused."""

from __future__ import annotations

import pytest

from mnrun.errors import NodeError, RuntimeFailed
from mnrun.facts import parse
from mnrun.images import inspection
from mnrun.mpi.facts import mpi_facts

UNSIGNED = "signature integrity: signature not found for object group 1"


def copies(*lines: str) -> list[inspection.Copy]:
    return inspection.copies(parse("\n".join(f"fact {line}" for line in lines)), ("n1", "n2"))


def test_what_an_image_has() -> None:
    """Every image has the same lines, and one for each MPI."""
    facts = mpi_facts(
        parse(
            "fact n1 node name n1\n"
            "fact n1 image mpi openmpi /usr/bin/mpirun mpirun (Open MPI) 5.0.7\n"
            "fact n1 image mpi mpich /opt/bin/mpiexec HYDRA build details: Version: 4.2.1\n"
            "fact n1 image pmix PMIx v5.0.7\nfact n1 image glibc glibc 2.41\nfact n1 image arch x86_64\n"
        )
    )
    assert facts is not None
    assert inspection.rows(facts) == [
        ("system", "unknown"),
        ("architecture", "x86_64"),
        ("glibc", "2.41"),
        ("MPI", "Open MPI 5.0.7 (/usr/bin/mpirun)"),
        ("MPI", "MPICH 4.2.1 (/opt/bin/mpiexec)"),
        ("PMIx", "5.0.7"),
        ("sshd", "none"),
        ("CUDA", "none"),
    ]


def test_the_same_file_on_all_nodes() -> None:
    found = copies("n1 node digest sha256:a", f"n1 node {UNSIGNED}", "n2 node digest sha256:a", f"n2 node {UNSIGNED}")
    assert inspection.table(found) == [("n[1-2]", "sha256:a", "none")]
    inspection.refuse("app.sif", found, demanded=False)
    with pytest.raises(RuntimeFailed, match=r"app\.sif has no valid signature: n\[1-2\]: integrity"):
        inspection.refuse("app.sif", found, demanded=True)


def test_files_that_differ() -> None:
    found = copies("n1 node digest sha256:a", "n2 node digest sha256:b")
    with pytest.raises(NodeError, match="not the same on all nodes: n1: sha256:a; n2: sha256:b"):
        inspection.refuse("app.sif", found, demanded=False)
    found = copies("n1 node digest sha256:a")
    assert inspection.table(found) == [("n1", "sha256:a", "none"), ("n2", "no answer", "none")]
    with pytest.raises(NodeError, match="not on every node: n2: no answer"):
        inspection.refuse("app.sif", found, demanded=False)


def test_signatures() -> None:
    """A wrong one is refused without a key, too; a valid one is enough for a key."""
    good = copies(*(f"{node} node {fact}" for node in ("n1", "n2") for fact in ("digest sha256:a", "signature valid")))
    inspection.refuse("app.sif", good, demanded=True)
    bad = copies(
        "n1 node digest sha256:a", "n1 node signature valid", "n2 node digest sha256:a", "n2 node signature bad"
    )
    with pytest.raises(RuntimeFailed, match="has no valid signature: n2: bad"):
        inspection.refuse("app.sif", bad, demanded=False)
    silent = copies("n1 node digest sha256:a", "n2 node digest sha256:a")
    with pytest.raises(RuntimeFailed, match="no runtime looked"):
        inspection.refuse("app.sif", silent, demanded=True)
