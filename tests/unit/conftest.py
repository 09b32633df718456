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
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from mnrun.config import load
from mnrun.errors import LaunchError
from mnrun.system import commands, process

from . import texts
from .cases import Cases
from .decoys import Decoys
from .played import launch as launch
from .played import slurm as slurm
from .played import stage as stage
from .salloc import granted as granted
from .salloc import outside as outside
from .salloc import salloc as salloc
from .typed import complaint as complaint
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
MESSAGES = pytest.StashKey[texts.Messages]()
NARROWED = pytest.StashKey[list[str]]()  # tests that were left out by -k and the like, or chosen by their cases


def pytest_configure(config: pytest.Config) -> None:
    place = tempfile.TemporaryDirectory(prefix="mnrun-decoys.")
    config.add_cleanup(place.cleanup)
    config.stash[DECOYS] = Decoys(Path(place.name))
    accept = bool(config.getoption("--accept"))
    if accept and (hasattr(config, "workerinput") or config.getoption("numprocesses", 0)):
        raise pytest.UsageError("--accept with -n: each of the processes would see a part of the texts; leave -n out")
    config.stash[MESSAGES], config.stash[NARROWED] = texts.Messages(accept), [one for one in config.args if "[" in one]


def pytest_deselected(items: list[pytest.Item]) -> None:
    if items:
        items[0].config.stash[NARROWED] += map(name_of, items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    stash = session.config.stash
    if stash[MESSAGES].accept:
        why = stash[MESSAGES].write({name_of(item) for item in session.items}, bool(stash[NARROWED]))
        if why:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
            print(f"\n{why}")


def name_of(item: pytest.Item) -> str:
    """Return the id of a unit test, without its folder and without the group that pytest-xdist adds."""
    return f"{item.path.name}::{item.name}".partition("@")[0]


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
    monkeypatch.setattr(commands, "begin", lambda *_: None)  # what begins early is asked for once more
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
    """Return the one way for a unit test to start a process: a shell, in tmp_path, with a bare environment."""

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
                timeout=120,
                check=False,
            )
        assert done.returncode == code, done.stderr.decode(errors="replace")
        return done.stdout

    return run


@pytest.fixture
def expected(request: pytest.FixtureRequest, world: World) -> texts.Expected:
    """Compares a text with a golden file, or rewrites the file under `--accept`."""
    return texts.Expected(bool(request.config.getoption("--accept")), world.allowed)


@pytest.fixture
def cases(request: pytest.FixtureRequest, expected: texts.Expected) -> Cases:
    """Asks about the cases of this test, which stand in a text beside its module."""
    return Cases(request.path, request.node.originalname, expected)


@pytest.fixture
def says(request: pytest.FixtureRequest, tmp_path: Path) -> texts.Says:
    """Expects a text for people. It is in messages.md, which `--accept` writes anew."""
    return lambda text: request.config.stash[MESSAGES].hear(name_of(request.node), f"{text}", str(tmp_path))


@pytest.fixture
def refused(says: texts.Says) -> texts.Refused:
    """Expects an error, by its class. Its code and its text are in messages.md."""

    @contextmanager
    def expect(kind: type[LaunchError]) -> Iterator[None]:
        with pytest.raises(kind) as wrong:
            yield
        says(f"{type(wrong.value).__name__} {wrong.value.code}: {wrong.value}")

    return expect
