"""Faults under Kubernetes: its columns in the table of faults. `scripts/test --full kube_faults` runs this module."""

from __future__ import annotations

import functools

import pytest

from faults import pods
from faults.table import KUBE, Cell, cells

from .cells import full
from .kube import cluster as cluster
from .kube import launcher_built as launcher_built
from .kube import launcher_image as launcher_image
from .stage import Cluster
from .test_faults import judge

pytestmark = [
    pytest.mark.xdist_group("kube"),
    pytest.mark.skipif(not full(), reason="Kubernetes is compiled first: --full"),
]


@functools.cache
def warm(name: str) -> None:
    """Launch once, so that what mnrun keeps for the next launch is there before the first picture."""
    done = Cluster(name).alice(["mnrun", "run", "-N2", "--image", pods.IMAGE, "--", "true"])
    assert done.code == 0, done


@pytest.mark.usefixtures("launcher_image")
@pytest.mark.parametrize("cell", [cell for cell in cells() if cell.place in KUBE], ids=str)
def test_fault(cluster: Cluster, cell: Cell) -> None:
    warm(cluster.name)
    judge(cluster, cell)
