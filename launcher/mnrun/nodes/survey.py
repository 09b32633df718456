"""Turn the facts that a node reports (probe/survey.sh) into findings, each with its meaning for jobs and a fix. Reads
no file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from mnrun.facts import Fact, values
from mnrun.network.facts import NetworkFacts, fast, network_facts, too_small

Values = Mapping[str, str]
OK, PART, NO = "ok", "partly", "no"
BASH = (4, 4)  # the first bash with all that guards use
OTHERS = "users"  # a finding about a node that others use, too
# The runtimes of runtimes.RUNTIMES that have containers. This package lies below that one.
SURVEYED = ("apptainer", "singularity", "docker", "podman", "charliecloud")


@dataclass(frozen=True)
class NodeSurvey:
    """The facts of a node for jobs in containers."""

    values: Values = field(default_factory=dict)
    lacks: tuple[str, ...] = ()  # programs
    network: NetworkFacts = field(default_factory=NetworkFacts)


@dataclass(frozen=True)
class Finding:
    """A judgement on one node, or on an image."""

    node: Annotated[str, "the node; empty for `image`"]
    subject: Annotated[str, "`apptainer`, `docker`, `GPUs`, `MPI`, `limits` …, and `image` with `--image`"]
    state: Annotated[str, "`ok`, `partly` or `no`"]
    found: Annotated[str, "what is there"]
    fix: Annotated[str, "what to do; empty if nothing"] = ""


@dataclass(frozen=True)
class Findings:
    """The findings about nodes and the image."""

    findings: Annotated[tuple[Finding, ...], "one for each subject of a node"]


def node_survey(facts: Sequence[Fact]) -> NodeSurvey:
    """Return the survey of the node that reported these facts."""
    lacks = tuple(fact.value for fact in facts if (fact.subject, fact.name) == ("node", "lacks"))
    return NodeSurvey(values(facts, "node"), lacks, network_facts(facts))


def findings(node: str, survey: NodeSurvey, starter: str = "", remedy: str = "") -> list[Finding]:
    """Return all findings about a node, the runtimes first.

    `starter` is the scheduler's program that starts ranks, and `remedy` says how an admin raises the limits of its
    jobs.
    """
    facts = survey.values
    if "scheduler" not in facts:
        remedy = ""
    rows = (
        *_runtimes(facts),
        *_gpus(facts),
        *_mpi(facts, starter),
        *_scheduler(facts, starter),
        *_fabric(survey, remedy),
        *_others(facts),
        *_base(survey),
    )
    return [Finding(node, *row) for row in rows]


def usable(rows: Sequence[Finding]) -> bool:
    """Return whether some runtime works on every node, and every node's bash can run a guard."""
    nodes = {row.node for row in rows}
    if any(row.subject == "bash" for row in rows):
        return False
    works = [{row.node for row in rows if row.subject == name and row.state != NO} for name in SURVEYED]
    return any(names == nodes for names in works)


Row = tuple[str, ...]  # a Finding without its node


def _runtimes(facts: Values) -> Iterator[Row]:
    yield _apptainer("apptainer", facts)
    if "singularity" in facts and "apptainer" not in facts:
        yield _apptainer("singularity", facts)
    yield _docker(facts)
    yield _podman(facts)
    if "ch-run" not in facts:
        yield "charliecloud", NO, "not installed", "install charliecloud (ch-run), for images that are directories"
    elif "userns" not in facts:
        yield "charliecloud", NO, f"{_number(facts['ch-run'])}, no user namespaces", _USERNS
    elif "ch-run-refuses" in facts:
        yield (
            "charliecloud",
            NO,
            f"{_number(facts['ch-run'])}: {facts['ch-run-refuses']}",
            "install a newer one, or use --runtime podman",
        )
    else:
        yield "charliecloud", OK, f"{_number(facts['ch-run'])}, rootless"


_USERNS = "an admin allows user namespaces: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone"


def _apptainer(name: str, facts: Values) -> Row:
    if name not in facts:
        return name, NO, "not installed", f"install {name}, or name its module: --module {name}"
    if why := facts.get(f"{name}-refuses"):
        nobody = "an admin adds your account to that node" if "unknown userid" in why else ""
        return name, NO, why, nobody or f"see what `{name} --version` says there"
    words = _number(facts[name])
    if f"{name}-suid" in facts:
        return name, OK, f"{words}, setuid"
    if "userns" not in facts:
        return name, NO, f"{words}, no user namespaces and not setuid", f"{_USERNS}; or install {name}-suid"
    if "fuse" in facts and "squashfuse" in facts:
        return name, OK, f"{words}, rootless"
    lacks = "squashfuse" if "fuse" in facts else "/dev/fuse"
    return name, PART, f"{words}, rootless; no {lacks} seen", "only directories work as images; SIF files need this"


def _docker(facts: Values) -> Row:
    if "docker" not in facts:
        return "docker", NO, "not installed", "install docker, if the site allows it"
    if "docker-refuses" in facts:
        return ("docker", NO, *_refusal(facts["docker-refuses"]))
    how = "rootless" if "docker-rootless" in facts else "as root's daemon"
    return "docker", OK, f"{facts.get('docker-server', '?')}, {how}"


def _podman(facts: Values) -> Row:
    if "podman" not in facts:
        return "podman", NO, "not installed", "install podman, if you need it"
    words = _number(facts["podman"])
    if "userns" not in facts:
        return "podman", NO, f"{words}, no user namespaces", _USERNS
    if "podman-refuses" in facts:
        return ("podman", NO, *_refusal(facts["podman-refuses"]))
    if "mqueue" not in facts:
        return "podman", NO, f"{words}, no /dev/mqueue", "an admin mounts it: mount -t mqueue mqueue /dev/mqueue"
    if "podman-init" not in facts:
        return "podman", PART, f"{words}, rootless; no catatonit", "install catatonit, which inside-out needs"
    return "podman", OK, f"{words}, rootless"


def _refusal(line: str) -> tuple[str, str]:
    """Return the problem and the fix in a line that a job would end with."""
    problem, _, fix = line.partition(": ")
    return problem, fix or "see its logs, or use another runtime"


def _gpus(facts: Values) -> Iterator[Row]:
    """Yield the GPUs, and each runtime that cannot give them to a container. Apptainer needs nothing for that."""
    if "nvidia" not in facts:
        yield ("GPUs", PART, "AMD", "mnrun does not set them up: try --bind /dev/kfd") if "amd" in facts else _no_gpus()
        return
    yield "GPUs", OK, f"{facts.get('gpus', '?')} NVIDIA, driver {facts['nvidia']}"
    if _docker(facts)[1] != NO and not {"nvidia-hook", "docker-nvidia"} & set(facts):
        if "cdi" not in facts:
            yield "GPUs by docker", PART, "no NVIDIA container toolkit", "install nvidia-container-toolkit"
        elif "docker-cdi" not in facts:
            fix = 'an admin adds "features": {"cdi": true} to its daemon.json'
            yield "GPUs by docker", PART, "dockerd does not read CDI", fix
    if _podman(facts)[1] != NO and "cdi" not in facts:
        fix = "install nvidia-container-toolkit; an admin: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
        yield "GPUs by podman", PART, "no CDI", fix
    if "ch-run" in facts:
        yield "GPUs by charliecloud", PART, "its images need NVIDIA's libraries", "ch-fromhost --nvidia IMAGE"


def _no_gpus() -> Row:
    return "GPUs", OK, "none for this job", "nodes that have some give them to jobs with --gpus-per-node N"


def _mpi(facts: Values, starter: str) -> Iterator[Row]:
    if "mpirun" in facts:
        yield "MPI", OK, _mpi_name(facts["mpirun"])
    else:
        yield "MPI", PART, "no mpirun on the node", "inside-out needs none; for outside-in load one: --module openmpi"
    if starter and "scheduler" in facts:
        offered, broken = facts.get("starts", ""), facts.get("unloadable", "").split()
        kinds = [kind for kind in ("pmix", "pmi2") if kind in offered and kind not in broken]
        fix = "" if kinds else f"outside-in by {starter} needs its PMIx or PMI2 plugin"
        words = f"{facts['scheduler']}, {' and '.join(kinds) or 'neither pmix nor pmi2'}"
        if "pmix" in broken:
            fix = "an admin installs the libpmix that the plugin needs; use --launcher mpirun or inside-out until then"
            yield starter, PART, f"{words}; pmix is listed and cannot be loaded", fix
        else:
            yield starter, OK if kinds else PART, words, fix


def _scheduler(facts: Values, starter: str) -> Iterator[Row]:
    """Yield the scheduler's version, and its own facts."""
    if "scheduler" in facts and not starter:
        yield "scheduler", OK, facts["scheduler"]
    yield from ((name.partition("-")[2], OK, fact) for name, fact in facts.items() if name.startswith("scheduler-"))


def _mpi_name(version: str) -> str:
    words = re.search(r"(\(Open MPI\)|HYDRA|Intel\(R\) MPI)", version)
    names = {"(Open MPI)": "Open MPI", "HYDRA": "MPICH", "Intel(R) MPI": "Intel MPI"}
    return f"{names[words[1]]} {_number(version)}".strip() if words else version


def _fabric(survey: NodeSurvey, remedy: str) -> Iterator[Row]:
    network = survey.network
    kind, hcas = fast(network), " ".join(dict.fromkeys(hca.name for hca in network.hcas))
    if kind:
        yield kind, OK, " ".join(network.slingshot or dict.fromkeys(hca.name for hca in network.usable))
    elif hcas:
        yield "InfiniBand", PART, f"{hcas}: no port is active", "check ibstat, and whether /dev/infiniband exists"
    for line in too_small(network, 2, remedy):
        problem, _, fix = line.partition(": ")
        yield "limits", PART, problem, fix


def _others(facts: Values) -> Iterator[Row]:
    if number := int(facts.get("others", 0)):
        found = f"processes of {number} other user{'s' if number > 1 else ''}"
        yield OTHERS, PART, found, "Open MPI lets them start programs as you (docs/security.md): --exclusive"


def _base(survey: NodeSurvey) -> Iterator[Row]:
    facts = survey.values
    system = facts.get("system", "Linux")
    bash = re.match(r"(\d+)\.(\d+)", facts.get("bash", ""))
    if bash and (int(bash[1]), int(bash[2])) < BASH:
        yield "bash", NO, facts["bash"], "install bash 4.4 or later: guards need it"
    if survey.lacks:
        yield "system", NO, f"{system}; no {', '.join(survey.lacks)}", "install what is missing: guards need it"
    else:
        yield "system", OK, system


def _number(version: str) -> str:
    number = re.search(r"\d+(\.\d+)+", version)
    return number[0] if number else version
