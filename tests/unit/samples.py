"""Jobs, layouts and plans for the tests, as short as a test wants to say them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mnrun.config import layers
from mnrun.config.layers import Setting, Value
from mnrun.jobspec import SECTIONS, Image, ImageKind, JobSpec, Layer, Origin
from mnrun.model import Allocation, Layout, Node, Plan, Site
from mnrun.planning import plan, spec
from mnrun.planning.values import Surroundings
from mnrun.schedulers.slurm.details import Details

RECORDED = Path(__file__).parent / "recorded"
SITE = Site("slurm", "7", Details((24, 11)))


def recorded(name: str) -> tuple[str, dict[str, str]]:
    """What a real Slurm said of a job, and the variables that were set in it.

    `scripts/cluster exec -u alice login salloc … sh -c 'scontrol show job -d -o $SLURM_JOB_ID;
    echo ---; env | grep -E "^(SLURM|OMPI|PRTE|HYDRA|I_MPI)" | sort'`
    """
    said, _, variables = (RECORDED / f"{name}.txt").read_text().partition("---\n")
    return said, dict(line.split("=", 1) for line in variables.splitlines())


def build(
    *command: str,
    environ: Mapping[str, str] = {},  # read only
    env_files: Mapping[str, str] = {},
    shell: str = "",
    **given: object,
) -> JobSpec:
    """Return the job of these options (by their keys) and this command, given by alice in her project."""
    words = {"image": "app.sif", **given}
    merged = layers.merge(layers.builtin(), layers.from_command_line(words))
    return spec.build(merged, command, Surroundings("/home/alice/run", "/home/alice", environ, env_files), shell)


def held(*nodes: str, cpus: int = 8, gpus: int = 0, ntasks: int | None = None, each: int | None = None) -> Allocation:
    """Slurm job 7 with these nodes, all alike."""
    return Allocation("slurm", "7", tuple(Node(name, cpus, gpus) for name in nodes), ntasks, each)


def make(job: JobSpec, *ranks: int) -> Plan:
    """The plan of a job with so many ranks on node01, node02, …"""
    names = tuple(f"node{number:02}" for number in range(1, len(ranks) + 1))
    return plan.make(job, Layout(names, ranks, "asked", "all"), "7-abcdef", bool(job.hosts.names))


_LAYERS = {
    "built-in": Layer.BUILT_IN,
    "site": Layer.DEFAULTS,
    "user": Layer.DEFAULTS,
    "profile": Layer.PROFILE,
    "MNRUN": Layer.VARIABLE,
    "SBATCH": Layer.SCHEDULER,
    "command line": Layer.COMMAND_LINE,
}


def origin(text: str) -> Origin:
    """Return the origin with this text, in the layers that its words name. Any other word is a job file's."""
    layers = (
        next((layer for start, layer in _LAYERS.items() if part.startswith(start)), Layer.JOB_FILE)
        for part in text.split(", ")
    )
    return Origin(text, frozenset(layers))


def setting(value: Value, text: str, each: Sequence[str] = ()) -> Setting:
    """Return a setting with the origin of this text."""
    return Setting(value, origin(text), tuple(map(origin, each)))


def job_spec(**fields: Any) -> JobSpec:
    """Return a job with these fields of JobSpec and its sections. An image may be a text: a path, or a reference."""
    return changed(JobSpec(), **fields)


def changed(spec: JobSpec, **fields: Any) -> JobSpec:
    """Return the same job with other values in these fields of JobSpec and its sections. Origins may be texts."""
    if "origins" in fields:
        fields["origins"] = {name: origin(str(text)) for name, text in fields["origins"].items()}
    if isinstance(fields.get("image"), str):
        kind = ImageKind.FILE if fields["image"].startswith("/") else ImageKind.REFERENCE
        fields["image"] = Image(kind, fields["image"]) if fields["image"] else None
    if "hosts" in fields:
        fields["named"] = fields.pop("hosts")
    for name in SECTIONS:
        section = getattr(spec, name)
        own = {field: fields.pop(field) for field in list(fields) if field in section._fields}
        spec = spec._replace(**{name: section._replace(**own)})
    return spec._replace(**fields)
