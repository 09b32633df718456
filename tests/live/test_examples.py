"""The examples, as their README files show them: each line is typed, and what it prints is what stands there.

The order of lines does not count, since ranks print in any order. `varies` matches what differs from run to run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rehearsal import tools

from .batch import forget
from .cells import NOSSHD, OMPI5, full, some
from .stage import LOGIN, TOP, USERS, Cluster, Desk

pytestmark = pytest.mark.live

MNRUN = "/opt/mnrun/venv"  # its Python, for programs that use mnrun.Job
NUMBER = r"\d+\.\d+"
# What programs of others leave where a person types them.
LEFT = "cd /home/alice; rm -rf .cache .config .local .reframe /tmp/rfm-* /tmp/dask-scratch-space"
IMAGES = {"mpi.sif": OMPI5, "python.sif": NOSSHD}


@dataclass(frozen=True)
class Example:
    """A folder of examples/. `rare` are images that are built for it, and `packages` come from the package index."""

    folder: str
    varies: str = r"(?!)"
    packages: tuple[str, ...] = ()
    rare: tuple[str, ...] = ()
    seconds: float = 600  # never, not slow: machines are noisy

    def __str__(self) -> str:
        return self.folder


QUEUED = r"mnrun: job \d+ is queued: "  # where Slurm takes its time
JOB = r"on node\S+|job \d+"
QUICK = (
    Example("map"),
    Example("mpi4py", JOB),
    Example("bandwidth", rf"{JOB}| +{NUMBER}"),
    Example("hosts"),
    Example("single-node", JOB),
    Example("mlperf", r"\d{2}:\d{2}:\d{2} [AP]M|\d{4}-\d{2}-\d{2}|,\d+,alice"),
)
SLOW = (
    Example("hyperparameters"),
    Example("checkpoint", r"step [1-9]\d*$"),
    Example("pytorch", r"\[.*\]", rare=("torch",)),
    Example("snakemake", rf"{JOB}|^\d+$|\d\.txt; .* \d+$", packages=("snakemake",)),
    Example("dask", r"on node.*", packages=("distributed==2024.12.1",), rare=("dask",)),
)
REFRAME = Example("reframe", r"\(\d/\d\)", packages=("ReFrame-HPC",))
SCALING = Example("scaling", rf" +{NUMBER}| +\d+%", packages=("matplotlib",))


def shown(folder: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a README and the lines that each prints."""
    text = (TOP / "examples" / folder / "README.md").read_text()
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    steps = [step.split("\n") for step in re.split(r"^\$ ", "".join(blocks), flags=re.MULTILINE)[1:]]
    return [(lines[0], [line for line in lines[1:] if line]) for lines in steps]


def copied(cluster: Cluster, desk: Desk, folder: str) -> str:
    """Put the files of an example and the images that it names on the desk, and return their place."""
    source, place = TOP / "examples" / folder, Path(desk.path, folder)
    for path in (source, *sorted(source.rglob("*"))):
        target = str(place / path.relative_to(source))
        if path.is_dir():
            cluster.root(LOGIN, "install", "-d", "-o", str(USERS[0]), target)
        else:
            cluster.put(target, path.read_bytes(), path.stat().st_mode & 0o777)
    for name, image in IMAGES.items():
        cluster.root(LOGIN, "ln", "-s", image, str(place / name))
    return str(place)


def typed(cluster: Cluster, desk: Desk, example: Example) -> list[list[str]]:
    """Type the lines of an example in one shell, and return what each prints."""
    place = copied(cluster, desk, example.folder)
    if example.rare:
        cluster.tool("images", *example.rare)
        for name in example.rare:
            cluster.root(LOGIN, "ln", "-s", f"/images/{name}.sif", f"{place}/{name}.sif")
    programs = tools.put(cluster.model, example.packages) if example.packages else MNRUN
    lines = [f"{line}\nprintf '\\0'" for line, _ in shown(example.folder)]
    script = "\n".join([f"export PATH={programs}/bin:$PATH MNRUN_SLURM_POLL=1s", "set -e", "exec 2>&1", *lines])
    result = cluster.alice(["bash", "-c", script], cwd=place, seconds=example.seconds)
    assert result.code == 0, result
    return [part.splitlines() for part in result.out.split("\0")[:-1]]


def play(cluster: Cluster, desk: Desk, example: Example) -> None:
    """Fail unless each line of a README prints what stands there."""
    try:
        for (line, wanted), all_said in zip(shown(example.folder), typed(cluster, desk, example)):
            said = [text for text in all_said if not re.match(QUEUED, text)]
            alike = [sorted(re.sub(example.varies, "#", text) for text in lines) for lines in (wanted, said)]
            assert alike[0] == alike[1], "\n".join([f"$ {line}", *said])
    finally:
        forget(cluster)
        cluster.root(LOGIN, "sh", "-c", LEFT)


@pytest.mark.parametrize("example", some((*QUICK, *SLOW), QUICK), ids=str)
def test_example(cluster: Cluster, desk: Desk, example: Example) -> None:
    """On the cluster that the tests share."""
    play(cluster, desk, example)


@pytest.mark.skipif(not full(), reason="brings up another cluster: --full")
def test_example_reframe(variant: Callable[..., Cluster]) -> None:
    """One of its two schedulers asks sacct."""
    ours = variant(2, "--accounting")
    with ours.desk() as desk:
        play(ours, desk, REFRAME)


@pytest.mark.skipif(not full(), reason="brings up another cluster: --full")
def test_example_scaling(variant: Callable[..., Cluster]) -> None:
    """On eight nodes. There is a plot at the end."""
    ours = variant(8)
    with ours.desk() as desk:
        play(ours, desk, SCALING)
        assert b"<svg" in desk.read("scaling/speedup.svg")[:1000]
