"""The README's table of live results."""

from __future__ import annotations

from pathlib import Path

from live import matrix

PASSED = [
    "test_ranks.py::test_a[4x2-inside-ompi5-auto]",
    "test_b[srun-mpich]",
    "test_c[ompi4-srun-rank-one]",
    "test_d[x]",
]
FAILED = ["test_b[srun-mpich-again]"]


def test_each_way_is_counted() -> None:
    """By starter and image, in whichever order a test's name has them."""
    assert matrix.table(PASSED, FAILED).split("\n") == [
        "| | Open MPI 5 | Open MPI 4 | MPICH | no container |",
        "|---|---|---|---|---|",
        "| inside-out | 1 passed | - | - | - |",
        "| outside-in, mpirun | - | - | - | - |",
        "| outside-in, srun | - | 1 passed | 1 passed, 1 failed | - |",
    ]


def test_the_table_stands_between_its_marks(tmp_path: Path) -> None:
    """What was there goes, the rest stays."""
    readme = tmp_path / "README.md"
    readme.write_text(f"a\n{matrix.BEGIN}\nold\n{matrix.END}\nb\n")
    matrix.write(readme, "new")
    assert readme.read_text() == f"a\n{matrix.BEGIN}\nnew\n{matrix.END}\nb\n"
