"""For every unit test: the world is forbidden, and nothing of a surrounding job is in the environment."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from mnrun.config import load
from mnrun.system import process

from . import texts
from .decoys import Decoys
from .played import launch as launch
from .played import slurm as slurm
from .played import stage as stage
from .salloc import granted as granted
from .salloc import outside as outside
from .salloc import salloc as salloc
from .typed import job as job
from .typed import mnrun as mnrun
from .world import World, rooms

# Whatever a surrounding Slurm job, mpirun or mnrun left there would shape what is tested.
SURROUNDINGS = ("SLURM", "SBATCH_", "SALLOC_", "SRUN_", "MNRUN_", "OMPI_", "PRTE_", "PMI", "HYDRA_", "I_MPI_")


# nohup makes what it starts deaf to the one, a shell's & to the other
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
DECOYS = pytest.StashKey[Decoys]()


def pytest_configure(config: pytest.Config) -> None:
    place = tempfile.TemporaryDirectory(prefix="mnrun-decoys.")
    config.add_cleanup(place.cleanup)
    config.stash[DECOYS] = Decoys(Path(place.name))


@pytest.fixture(scope="session")
def world() -> World:
    process._setpriv()  # a fact of this machine, which is asked once. The first test that needs it may not ask
    return World()


@pytest.fixture
def decoys(request: pytest.FixtureRequest) -> Decoys:
    return request.config.stash[DECOYS]


@pytest.fixture(autouse=True)
def _no_world(
    world: World, decoys: Decoys, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith(SURROUNDINGS)]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("PYTHONNOUSERSITE", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(load, "SITE", Path("/nonexistent/etc/mnrun"))  # what this machine's site says is no matter
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with world.forbidden(rooms(tmp_path_factory)):
        yield
    decoys.refuse()


def own(place: Path, node: str = "node01", pid: int = 1, start: int = 0, name: str = "") -> Path:
    """Make `place` a job's directory as boot.sh does: the user's alone, with the file that says whose it is."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    (place / "own").write_text(f"{name or place} {node} {pid} {start} {BOOT}\n")
    return place


# `ADVERB ./NAME.sh WORDS…` in the job's directory: what clean_env.sh does with an adverb.
ADVERB = (
    "bash -p -euo pipefail -c "
    + shlex.quote('mnrun_here=$PWD; . ./job.sh; . ./rules.sh; adverb=$1; shift; . "$adverb"; exec "$@"')
    + " sh"
)


class Shell(Protocol):
    """`sh(script, *words)` runs a script for real and gives its standard output; it must end with `code`."""

    def __call__(
        self,
        script: str,
        *words: str,
        shell: str = ...,
        stdin: bytes = ...,
        environ: Mapping[str, str] = ...,
        code: int = ...,
    ) -> bytes: ...


@pytest.fixture
def sh(world: World, tmp_path: Path) -> Shell:
    """The one way for a unit test to start a process: a shell, in tmp_path, with a bare environment."""

    def run(
        script: str,
        *words: str,
        shell: str = "sh",
        stdin: bytes = b"",
        environ: Mapping[str, str] = {},  # read only
        code: int = 0,
    ) -> bytes:
        binary = shutil.which(shell)
        if binary is None:
            pytest.skip(f"there is no {shell} here")
        # No MPI of this machine is found outside of PATH (wrappers/lib/mpis.sh).
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", "mnrun_places": "", **environ}
        with world.allowed():
            done = subprocess.run(
                [binary, "-c", script, "test", *words],
                cwd=tmp_path,
                env=env,
                input=stdin,
                capture_output=True,
                timeout=30,
                check=False,
            )
        assert done.returncode == code, done.stderr.decode(errors="replace")
        return done.stdout

    return run


@pytest.fixture
def expected(request: pytest.FixtureRequest, world: World) -> texts.Expected:
    """Compares a text with a golden file, or rewrites the file under `--accept`."""
    return texts.Expected(bool(request.config.getoption("--accept")), world.allowed)
