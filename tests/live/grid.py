"""The cluster of Grid Engine for its tests, which import these fixtures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .batch import forget
from .stage import Cluster


@pytest.fixture
def cluster(grid: Cluster) -> Cluster:
    return grid


@pytest.fixture
def forgotten(cluster: Cluster) -> Iterator[None]:
    """What a submitted job keeps in the user's home on purpose is gone at the end."""
    yield
    forget(cluster)
