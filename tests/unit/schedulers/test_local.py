"""This machine as a node."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from mnrun import environment
from mnrun.schedulers import local
from mnrun.schedulers.slurm import steps
from unit.conftest import Shell
from unit.samples import build, make


def test_this_machine_is_an_allocation_of_one_node() -> None:
    here = local.allocation({})
    assert (here.scheduler, here.job, len(here.nodes)) == ("local", "local", 1)
    assert here.nodes[0].cpus >= 1


@pytest.mark.parametrize(
    ("visible", "wanted"),
    [(None, 4), ("0,2", 2), ("GPU-00", 1), ("MIG-a0,MIG-a1", 2), ("", 0), ("-1", 0), ("NoDevFiles", 0)],
)
def test_the_gpus_that_the_user_may_use(tmp_path: Path, visible: str | None, wanted: int) -> None:
    for gpu in range(4):
        (tmp_path / f"gpus/0000:0{gpu}:00.0").mkdir(parents=True)
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert local.gpus(environ, tmp_path) == wanted
    assert local.gpus(environ, tmp_path / "none") == 0


@pytest.mark.parametrize("name", ["login", "login.site.example"])
def test_it_is_called_as_its_guard_calls_itself(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """guard.sh says `ready $(uname -n)`: a host whose name has a domain must be found under it."""
    monkeypatch.setattr(platform, "node", lambda: name)
    assert local.allocation({}).nodes[0].name == name


def test_the_guards_name_is_platform_node(sh: Shell) -> None:
    assert sh("uname -n").decode().strip() == platform.node()


def test_the_name_that_a_surrounding_job_gives_this_machine() -> None:
    """B11: MNRUN_NODE of a job on --hosts is not the name of what an mnrun within it starts."""
    plan, environ = make(build("./app"), 1), {"MNRUN_NODE": "ws1", "A": "b"}
    assert local.client_environment(environ, plan) == steps.client_environment(environ, plan) == {"A": "b"}
    for context in environment.CONTEXTS:
        assert environment.dropped("MNRUN_NODE", context, environment.RULES)
        assert not environment.dropped("MNRUN_JOB_ID", context, environment.RULES)
