"""mpi4py's own tests, fetched as its authors publish them, on four nodes: what bare Open MPI gives, test by test.

Left out are its modules that start processes (spawn, dynproc), which hang now and then in plain Open MPI 5.0.7 on this
cluster, with no container either. With --full all the rest runs, for minutes; else a few short modules of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from rehearsal import trees

from .cells import INSIDE, MPIRUN, OMPI5, full
from .stage import Cluster, Desk

SIZE = 4  # one on each node: those of one share its cores, and wait for each other
LEFT_OUT = ("-e", "test_spawn|test_dynproc")
FEW = ("-i", "^test_(group|status|request)[.]py")
FOREVER = 5400.0  # on two cores, where nobody else is at work
PACKAGE = "/usr/lib/python3/dist-packages/mpi4py"  # where Debian has it
FETCH = ("download", "-q", "--no-deps", "--no-binary=mpi4py")  # :all: compiles Cython first


Found = dict[str, tuple[str, ...]]  # each test, and what it was on each rank


@dataclass(frozen=True)
class Suite:
    """The tests, and beside them mpi4py itself, for those that run without a container; on the cluster."""

    desk: Desk
    folder: str

    def run(self, name: str, *words: str) -> Found:
        out = f"{self.desk.path}/{name}"
        place = self.desk.cluster.path(out)
        place.mkdir()
        place.chmod(0o777)
        line = ["python3", self.desk.program("suite.py"), self.folder, out, *(LEFT_OUT if full() else FEW)]
        result = self.desk.cluster.alice(["salloc", "-Q", "-N4", "--ntasks-per-node=1", *words, *line], seconds=FOREVER)
        ranks = [place / f"rank{rank}.json" for rank in range(SIZE)]
        assert all(rank.exists() for rank in ranks), result
        found = [json.loads(rank.read_text()) for rank in ranks]
        return {test: tuple(rank.get(test, "not run") for rank in found) for test in sorted(set().union(*found))}


def fetched(version: str) -> Path:
    folder = trees.cache() / "mpi4py"
    place = folder / f"mpi4py-{version}.tar.gz"
    if not place.exists():
        folder.mkdir(parents=True, exist_ok=True)
        words = [sys.executable, "-m", "pip", *FETCH, "-d", str(folder), f"mpi4py=={version}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return place


@pytest.fixture
def suite(cluster: Cluster, desk: Desk) -> Suite:
    copy = f'cp -r {PACKAGE} "$0" && python3 -c "import mpi4py; print(mpi4py.__version__)"'
    said = cluster.alice(["apptainer", "-q", "exec", OMPI5, "sh", "-c", copy, desk.path], node="node01")
    assert said.code == 0, said
    version = said.out.strip()
    with tarfile.open(fetched(version)) as archive:
        for member in archive.getmembers():
            if member.isfile() and member.name.startswith(f"mpi4py-{version}/test/"):
                file = archive.extractfile(member)
                assert file is not None
                place = cluster.path(f"{desk.path}/{member.name}")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(file.read())
    return Suite(desk, f"{desk.path}/mpi4py-{version}/test")


def counted(found: Found) -> str:
    return ", ".join(f"{count} {what}" for what, count in Counter(test[0] for test in found.values()).most_common())


def test_mpi4py_is_as_without_a_container(suite: Suite) -> None:
    plain = suite.run("bare", "env", f"PYTHONPATH={suite.desk.path}", "mpirun", "-x", "PYTHONPATH")
    suite.desk.cluster.clean_after_mpirun()
    print(f"bare: {counted(plain)}")
    assert len(plain) > (1800 if full() else 30), plain
    for way in (INSIDE, MPIRUN):
        found = suite.run(str(way), "mnrun", *way.words, "--")
        print(f"{way}: {counted(found)}")
        tests = {*found, *plain}
        assert {test: (found.get(test), plain.get(test)) for test in tests if found.get(test) != plain.get(test)} == {}
