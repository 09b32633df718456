"""For every test of the wrappers: a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.conftest import Shell
from unit.wrappers.node import SHELLS, Node


@pytest.fixture
def node(sh: Shell, tmp_path: Path) -> Node:
    return Node(sh, tmp_path / "mnrun.7-abcdef")


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    """Return each shell that an image may have."""
    return str(request.param)
