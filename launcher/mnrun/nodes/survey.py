"""Turn the facts that nodes report (probe/survey.sh) into findings, each with its meaning for jobs and a fix. Reads
no file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mnrun.network import facts as fabric

Facts = Mapping[str, str]
OK, PART, NO = "ok", "partly", "no"
BASH = (4, 4)  # the first bash with all that guards use
_SEVERAL = {"lacks": " ", "fabric": "\n"}  # facts that may have many lines
RUNTIMES = ("apptainer", "singularity", "docker", "podman", "charliecloud")


@dataclass(frozen=True)
class Finding:
    """One thing about one node. `state` is ok, partly or no. `fix` is the remedy unless the state is ok."""

    node: str
    subject: str
    state: str
    found: str
    fix: str = ""


def facts(said: str) -> dict[str, dict[str, str]]:
    """Return node -> its facts. Lines of another format, such as a login shell's, are skipped."""
    found: dict[str, dict[str, str]] = {}
    for line in said.splitlines():
        node, *rest = line.split("\t")
        if len(rest) == 2:
            mine = found.setdefault(node, {})
            apart = _SEVERAL.get(rest[0])
            mine[rest[0]] = f"{mine[rest[0]]}{apart}{rest[1]}" if apart and rest[0] in mine else rest[1]
    return found


def findings(node: str, known: Facts) -> list[Finding]:
    """Return all findings about a node, the runtimes first."""
    rows = (*_runtimes(known), *_gpus(known), *_mpi(known), *_fabric(known), *_base(known))
    return [Finding(node, *row) for row in rows]


def usable(found: list[Finding]) -> bool:
    """Return whether some runtime works on every node, and every node's bash can run a guard."""
    nodes = {one.node for one in found}
    if any(one.subject == "bash" for one in found):
        return False
    works = [{one.node for one in found if one.subject == name and one.state != NO} for name in RUNTIMES]
    return any(there == nodes for there in works)


Row = tuple[str, ...]  # a Finding without its node


def _runtimes(known: Facts) -> Iterator[Row]:
    yield _apptainer("apptainer", known)
    if "singularity" in known and "apptainer" not in known:
        yield _apptainer("singularity", known)
    yield _docker(known)
    yield _podman(known)
    if "ch-run" not in known:
        yield "charliecloud", NO, "not installed", "install charliecloud (ch-run), for images that are directories"
    elif "userns" not in known:
        yield "charliecloud", NO, f"{_number(known['ch-run'])}, no user namespaces", _USERNS
    elif "ch-run-refuses" in known:
        yield (
            "charliecloud",
            NO,
            f"{_number(known['ch-run'])}: {known['ch-run-refuses']}",
            "install a newer one, or use --runtime podman",
        )
    else:
        yield "charliecloud", OK, f"{_number(known['ch-run'])}, rootless"


_USERNS = "an admin allows user namespaces: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone"


def _apptainer(name: str, known: Facts) -> Row:
    if name not in known:
        return name, NO, "not installed", f"install {name}, or name its module: --module {name}"
    words = _number(known[name])
    if f"{name}-suid" in known:
        return name, OK, f"{words}, setuid"
    if "userns" not in known:
        return name, NO, f"{words}, no user namespaces and not setuid", f"{_USERNS}; or install {name}-suid"
    if "fuse" in known and "squashfuse" in known:
        return name, OK, f"{words}, rootless"
    lacks = "squashfuse" if "fuse" in known else "/dev/fuse"
    return name, PART, f"{words}, rootless; no {lacks} seen", "only directories work as images; SIF files need this"


def _docker(known: Facts) -> Row:
    if "docker" not in known:
        return "docker", NO, "not installed", "install docker, if the site allows it"
    if "docker-refuses" in known:
        return ("docker", NO, *_refusal(known["docker-refuses"]))
    how = "rootless" if "docker-rootless" in known else "as root's daemon"
    return "docker", OK, f"{known.get('docker-server', '?')}, {how}"


def _podman(known: Facts) -> Row:
    if "podman" not in known:
        return "podman", NO, "not installed", "install podman, if you need it"
    words = _number(known["podman"])
    if "userns" not in known:
        return "podman", NO, f"{words}, no user namespaces", _USERNS
    if "podman-refuses" in known:
        return ("podman", NO, *_refusal(known["podman-refuses"]))
    if "mqueue" not in known:
        return "podman", NO, f"{words}, no /dev/mqueue", "an admin mounts it: mount -t mqueue mqueue /dev/mqueue"
    if "podman-init" not in known:
        return "podman", PART, f"{words}, rootless; no catatonit", "install catatonit, which inside-out needs"
    return "podman", OK, f"{words}, rootless"


def _refusal(said: str) -> tuple[str, str]:
    """Return the problem and the fix in a line that a job would end with."""
    what, _, fix = said.partition(": ")
    return what, fix or "see its logs, or use another runtime"


def _gpus(known: Facts) -> Iterator[Row]:
    """Yield the GPUs, and each runtime that cannot give them to a container. Apptainer needs nothing for that."""
    if "nvidia" not in known:
        yield ("GPUs", PART, "AMD", "mnrun does not set them up: try --bind /dev/kfd") if "amd" in known else _no_gpus()
        return
    yield "GPUs", OK, f"{known.get('gpus', '?')} NVIDIA, driver {known['nvidia']}"
    if _docker(known)[1] != NO and not {"nvidia-hook", "docker-nvidia"} & set(known):
        if "cdi" not in known:
            yield "GPUs by docker", PART, "no NVIDIA container toolkit", "install nvidia-container-toolkit"
        elif "docker-cdi" not in known:
            fix = 'an admin adds "features": {"cdi": true} to its daemon.json'
            yield "GPUs by docker", PART, "dockerd does not read CDI", fix
    if _podman(known)[1] != NO and "cdi" not in known:
        fix = "install nvidia-container-toolkit; an admin: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
        yield "GPUs by podman", PART, "no CDI", fix
    if "ch-run" in known:
        yield "GPUs by charliecloud", PART, "its images need NVIDIA's libraries", "ch-fromhost --nvidia IMAGE"


def _no_gpus() -> Row:
    return "GPUs", OK, "none"


def _mpi(known: Facts) -> Iterator[Row]:
    if "mpirun" in known:
        yield "MPI", OK, _mpi_name(known["mpirun"])
    else:
        yield "MPI", PART, "no mpirun on the node", "inside-out needs none; for outside-in load one: --module openmpi"
    if "slurm" in known:
        offered, broken = known.get("pmi", ""), known.get("unloadable", "").split()
        kinds = [kind for kind in ("pmix", "pmi2") if kind in offered and kind not in broken]
        fix = "" if kinds else "outside-in by srun needs Slurm's PMIx or PMI2 plugin"
        said = f"{known['slurm']}, {' and '.join(kinds) or 'neither pmix nor pmi2'}"
        if "pmix" in broken:
            fix = "an admin installs the libpmix that the plugin needs; use --launcher mpirun or inside-out until then"
            yield "srun", PART, f"{said}; pmix is listed and cannot be loaded", fix
        else:
            yield "srun", OK if kinds else PART, said, fix


def _mpi_name(said: str) -> str:
    words = re.search(r"(\(Open MPI\)|HYDRA|Intel\(R\) MPI)", said)
    names = {"(Open MPI)": "Open MPI", "HYDRA": "MPICH", "Intel(R) MPI": "Intel MPI"}
    return f"{names[words[1]]} {_number(said)}".strip() if words else said


def _fabric(known: Facts) -> Iterator[Row]:
    facts = fabric.parse(known.get("fabric", "").splitlines())
    kind = fabric.fast(facts)
    small = list(fabric.too_small(facts, 2, "slurm" in known))
    if kind:
        names = " ".join(facts.slingshot or dict.fromkeys(hca.name for hca in facts.usable))
        yield kind, OK, names
    elif facts.hcas:
        fix = "check ibstat, and whether /dev/infiniband exists"
        yield "InfiniBand", PART, f"{' '.join(dict.fromkeys(hca.name for hca in facts.hcas))}: no port is active", fix
    for line in small:
        what, _, fix = line.partition(": ")
        yield "limits", PART, what, fix


def _base(known: Facts) -> Iterator[Row]:
    system = known.get("system", "Linux")
    bash = re.match(r"(\d+)\.(\d+)", known.get("bash", ""))
    if bash and (int(bash[1]), int(bash[2])) < BASH:
        yield "bash", NO, known["bash"], "install bash 4.4 or later: guards need it"
    if "keygen" not in known:
        fix = "`mnrun submit`, inside-out by ssh, needs it on the first node; --connect pipe does not"
        yield "ssh-keygen", PART, "not installed", fix
    if "lacks" not in known:
        yield "system", OK, system
    else:
        lacks = known["lacks"].replace(" ", ", ")
        yield "system", NO, f"{system}; no {lacks}", "install what is missing: guards need it"


def _number(said: str) -> str:
    found = re.search(r"\d+(\.\d+)+", said)
    return found[0] if found else said
