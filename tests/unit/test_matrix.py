"""The tables of live results in docs/testing.md."""

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
    assert matrix.table(PASSED, FAILED).split("\n") == [
        "| | Open MPI 5 | Open MPI 4 | MPICH | no container |",
        "|---|---|---|---|---|",
        "| inside-out | 1 passed | not run | not run | not run |",
        "| outside-in, mpirun | not run | not run | not run | not run |",
        "| outside-in, srun | not run | 1 passed | 1 passed, 1 failed | not run |",
    ]


def test_each_cell_is_counted() -> None:
    passed = [
        "test_matrix.py::test_cell[podman-inside-ssh-ompi5-ssh]",
        "test_matrix.py::test_cell[host-srun-slurm-ompi5-none]",
    ]
    lines = matrix.cells(passed, ["test_matrix.py::test_cell[podman-inside-ssh-ompi4-ssh]"]).split("\n")
    assert "| podman, hosts by ssh | 1 passed, 1 failed | not run | not run | - |" in lines
    assert "| host, Slurm | not run | not run | not run | 1 passed |" in lines


def test_only_what_was_run_is_written(tmp_path: Path) -> None:
    page = tmp_path / "testing.md"
    text = f"{matrix.WAYS}\nold\n{matrix.END}\n{matrix.CELLS}\nolder\n{matrix.END}\n"
    page.write_text(text)
    matrix.write_all(page, {**dict.fromkeys(PASSED, True), **dict.fromkeys(FAILED, False)})
    assert "\nold\n" not in page.read_text()
    assert "\nolder\n" in page.read_text()


def test_a_part_leaves_what_other_runs_have_found(tmp_path: Path) -> None:
    place = tmp_path / "results.json"
    matrix.remember(place, {"a.py::one": False, "a.py::gone": True, "b.py::one": True}, whole=True)
    again = matrix.remember(place, {"a.py::one": True}, whole=False)
    assert again == {"a.py::one": True, "a.py::gone": True, "b.py::one": True}
    assert matrix.remember(place, {"a.py::one": True}, whole=True) == {"a.py::one": True, "b.py::one": True}


def test_a_test_has_one_result_whoever_ran_it(tmp_path: Path) -> None:
    """pytest-xdist calls those of a group otherwise: the last result counts all the same."""
    place = tmp_path / "results.json"
    matrix.remember(place, {"test_a.py::test_x[a@b]@engines": False, "test_b.py::test_y": True}, whole=True)
    known = matrix.remember(place, {"test_a.py::test_x[a@b]": True}, whole=False)
    assert known == {"test_a.py::test_x[a@b]": True, "test_b.py::test_y": True}


def test_the_page_has_the_marks() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/testing.md").read_text(encoding="utf-8")
    for mark in (matrix.WAYS, matrix.CELLS):
        assert matrix.END in text.partition(mark)[2]
