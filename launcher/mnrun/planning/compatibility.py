"""Judge which way to start ranks works, by the facts on the MPIs of node and image (wrappers/probe/mpi_node.sh). Pure.

facts(text) -> Facts, judge(job, facts) -> Verdict, decided(job, verdict) -> JobSpec, or Impossible
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mnrun.errors import Impossible
from mnrun.model import JobSpec, Variable
from mnrun.mpi import HYDRA, MPIS, WITHOUT_MPI
from mnrun.runtimes import RUNTIMES, SHARING

ALONE = "every rank would be 0 of 1"
_PMI = {"openmpi": "pmix", "mpich": "pmi2", "mvapich2": "pmi2", "intelmpi": "pmi2"}  # each MPI's protocol with srun


@dataclass(frozen=True)
class Mpi:
    """An MPI that was found: its name among MPIS (or hangs, unknown), its version, its mpirun."""

    kind: str
    version: str
    path: str

    def __str__(self) -> str:
        if self.kind not in MPIS:
            return f"{self.path}, which {'hangs' if self.kind == 'hangs' else 'is no MPI that mnrun knows'}"
        return f"{MPIS[self.kind].NAME} {self.version}".strip() + f" ({self.path})"


@dataclass(frozen=True)
class Side:
    """The facts on a node or an image: its MPIs in the order of PATH, and the versions of their dependencies."""

    mpis: tuple[Mpi, ...] = ()
    said: Mapping[str, str] = field(default_factory=dict)

    def has(self, kind: str) -> Mpi | None:
        return next((mpi for mpi in self.mpis if mpi.kind == kind), None)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(mpi.kind for mpi in self.mpis if mpi.kind in MPIS)

    @property
    def pmix(self) -> str:
        return _number(self.said.get("pmix", ""))


@dataclass(frozen=True)
class Facts:
    """The facts on both sides, and the plugins that srun --mpi offers on that node."""

    node: Side
    image: Side
    offers: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()  # listed by srun, and impossible to load

    @property
    def offered(self) -> str:
        """Return `offers` in words."""
        words = ", ".join(self.offers) or "neither pmix nor pmi2"
        unloaded = f"; {', '.join(self.broken)} {'is' if len(self.broken) == 1 else 'are'} listed and cannot be loaded"
        return f"srun --mpi offers {words}{unloaded if self.broken else ''}"

    @property
    def silent(self) -> str:
        """Return why the image did not answer."""
        return self.node.said.get("silent", "")


@dataclass(frozen=True)
class Way:
    """One way to start the ranks: whether it works, by which value of --mpi, and why."""

    mode: str
    launcher: str
    mpi: str
    works: bool
    why: str
    settings: tuple[Variable, ...] = ()  # needed in the ranks' environment

    def __str__(self) -> str:
        by = (
            ""
            if self.mode == "inside-out"
            else f", {self.launcher}" + (f" --mpi={self.mpi}" if self.launcher == "srun" and self.mpi else "")
        )
        return f"{self.mode}{by}: {self.why}"

    @property
    def options(self) -> str:
        """Return the options that choose this way."""
        words = [f"--mode {self.mode}"]
        if self.mode == "outside-in":
            words.append(f"--launcher {self.launcher}")
        if self.mpi not in ("", "auto"):
            words.append(f"--mpi {self.mpi}")
        return " ".join(words)


@dataclass(frozen=True)
class Verdict:
    """The chosen way, all possible ways, and notes."""

    chosen: Way
    ways: tuple[Way, ...]
    notes: tuple[str, ...] = ()
    remedy: Way | None = None  # a way that works, whether or not it was asked for


def facts(said: str) -> Facts | None:
    """Return the facts in lines `node|image<tab>NAME<tab>VALUE`, or None if no line has this form."""
    values: dict[str, dict[str, str]] = {"node": {}, "image": {}}
    mpis: dict[str, list[Mpi]] = {"node": [], "image": []}
    for line in said.splitlines():
        side, *rest = line.split("\t")
        if side not in values or len(rest) != 2:
            continue
        name, value = rest[0], rest[1].strip()
        if name == "mpi":
            mpis[side].append(_mpi(value))
        else:
            values[side][name] = value
    if not any((*values.values(), *mpis.values())):
        return None
    words = dict.fromkeys(values["node"].get("srun", "").split())
    listed = [word for word in words if re.fullmatch(r"pmix(_v\d+)?|pmi2", word)]
    broken = tuple(word for word in listed if word in values["node"].get("unloadable", "").split())
    offers = tuple(word for word in listed if word not in broken)
    node, image = (Side(tuple(mpis[side]), values[side]) for side in ("node", "image"))
    return Facts(node, image, offers, broken)


def _mpi(value: str) -> Mpi:
    kind, path, said = [*value.split(maxsplit=2), "", ""][:3]
    return Mpi(kind, _number(re.sub(r".*?(\(Open MPI\)|Version:?)", "", said, count=1)), path)


def _number(said: str) -> str:
    found = re.search(r"\d+(\.\d+)+", said)
    return found[0] if found else ""


def judge(job: JobSpec, found: Facts) -> Verdict:
    """Return the verdict on `job`: the way that it asks for, or else the first way that works."""
    ways = _ways(job, found)
    left = job.left
    fitting = [
        way
        for way in ways
        if way.mode == job.mode or ("mode" in left and job.mode == "inside-out")
        if (way.launcher == job.launcher or way.mode == "inside-out" or "launcher" in left)
    ]
    # `fitting` is in the order of preference. A way that was asked for is told though it fails.
    chosen = next((way for way in fitting if way.works), fitting[0])
    free = job if job.launcher in WITHOUT_MPI else replace(job, mpi="auto", left=("mode", "launcher", "mpi"))
    remedy = next((way for way in _ways(free, found) if way.works), None)
    notes = (single_copy(replace(job, mode=chosen.mode), found), *_notes(job, found))
    return Verdict(chosen, ways, notes, remedy)


def _ways(job: JobSpec, found: Facts) -> tuple[Way, ...]:
    return (_inside(job, found), _by_mpirun(job, found), _by_srun(job, found))


def decided(job: JobSpec, verdict: Verdict) -> JobSpec:
    """Return the job as it will run. Raise Impossible if it is known to fail, with another way as the remedy."""
    way = verdict.chosen
    if not way.works and not job.force:
        other = verdict.remedy
        remedy = f"{other.options} works" if other else "use an image whose MPI the node can serve"
        raise Impossible(f"{way.mode} by {way.launcher} cannot work: {way.why}", f"{remedy}; --force tries it anyway")
    mpi = way.mpi if way.works and "mpi" in job.left and way.mode == "outside-in" else job.mpi
    chosen = {"mode": way.mode, "launcher": way.launcher, "mpi": mpi}
    why = {name: "the image and the node (verdict)" for name in job.left if chosen[name] != getattr(job, name)}
    env = tuple(setting for setting in way.settings if not any(setting.name == own.name for own in job.env))
    return replace(job, **chosen, env=(*job.env, *env), left=(), origins={**job.origins, **why})  # type: ignore[arg-type]


def _inside(job: JobSpec, found: Facts) -> Way:
    """Return the way by the image's own mpirun: it needs nothing of the node but the container."""

    def way(works: bool, why: str) -> Way:
        asked = job.mpi if job.mpi in MPIS else ""
        return Way("inside-out", job.launcher if job.launcher in WITHOUT_MPI else "mpirun", asked, works, why)

    image = found.image
    if job.launcher in WITHOUT_MPI:
        return way(True, f"works: ranks by {job.launcher}, which needs no MPI")
    if found.silent:
        return way(True, f"not judged: the image has not answered ({found.silent})")
    if job.mpi in MPIS and image.mpis:
        mine = image.has(job.mpi)
        if mine is None:
            return way(False, f"the image has no {MPIS[job.mpi].NAME}: found {_listed(image.mpis)}")
        return way(True, f"works: the image's {mine}")
    if not image.mpis:
        return way(False, "the image has no mpirun on its PATH or in the usual places")
    first = image.mpis[0]
    if first.kind == "hangs":
        return way(False, f"the image's {first}")
    others = f"; it also has {_listed(image.mpis[1:])}, which --mpi chooses" if image.mpis[1:] else ""
    return way(True, f"works: the image's {first}, the first on its PATH{others}")


def _by_mpirun(job: JobSpec, found: Facts) -> Way:
    """Return the way by the host's mpirun, which must be of the image's kind."""

    def way(mpi: str, works: bool, why: str) -> Way:
        return Way("outside-in", "mpirun", mpi, works, why)

    kinds = _kinds(job, found)
    asked = job.mpi if job.mpi in MPIS else "auto"
    for kind in kinds:
        name = MPIS[kind].NAME
        if kind in HYDRA and not RUNTIMES[job.runtime].FILES:
            return way(kind, False, f"{name} uses an open file, which {job.runtime} does not pass on")
        family = HYDRA if kind in HYDRA else (kind,)
        host = next((mpi for mpi in found.node.mpis if mpi.kind in family), None)
        if host is None or asked not in ("auto", kind, *(("mpich",) if kind in HYDRA else ())):
            continue  # MPICH's mpiexec starts all MPIs of the Hydra family
        if (
            kind == "openmpi"
            and job.nodes != 1
            and _major(host.version) >= 5
            and _major(found.image.pmix) in range(1, 4)
        ):
            ends = 'ranks that have peers on other nodes end with "PML add procs failed"'
            return way(kind, False, f"the image's PMIx {found.image.pmix} is too old for the node's {host}: {ends}")
        return way(kind, True, f"works: the node's {host} starts the image's {name}{_skew(kind, found)}")
    if not kinds:
        return way(asked, True, "not judged: the image has no mpirun that names its MPI")
    if asked != "auto" and asked not in kinds:
        return way(asked, False, f"the image has {_names(kinds)}, and no {MPIS[asked].NAME}: {ALONE}")
    return way(
        kinds[0],
        False,
        f"the image has {_names(kinds)}, and the node {_listed(found.node.mpis) or 'no mpirun'}: {ALONE}",
    )


def _by_srun(job: JobSpec, found: Facts) -> Way:
    """Return the way by srun: one of its plugins and the image's MPI must have a protocol in common."""

    def way(mpi: str, works: bool, why: str) -> Way:
        return Way("outside-in", "srun", mpi, works, why)

    if "srun" not in found.node.said:
        return way("", False, "the node has no srun that answers")
    offered = found.offered
    asked = job.mpi if job.mpi in ("pmix", "pmi2") and "mpi" not in job.left else ""
    kinds = _kinds(job, found)
    if asked in found.broken:
        return way(asked, False, f"srun lists {asked} on the node, and cannot load it (its libpmix is missing)")
    if asked and asked not in found.offers:
        return way(asked, False, f"{offered}, not {asked}")
    if not asked and kinds and _PMI[kinds[0]] in found.broken:
        return way("", False, f"the image has {MPIS[kinds[0]].NAME}, which needs pmix: {offered}")
    for kind in kinds:
        mpi = _PMI[kind]
        if asked not in ("", mpi) or mpi not in found.offers:
            continue
        if mpi == "pmi2" and not RUNTIMES[job.runtime].FILES:
            return way(mpi, False, f"PMI2 uses an open file, which {job.runtime} does not pass on")
        if kind == "intelmpi" and not any(variable.name == "I_MPI_PMI_LIBRARY" for variable in job.env):
            return way(
                mpi, False, "Intel MPI needs Slurm's libpmi2.so in the image, and its place: -x I_MPI_PMI_LIBRARY=…"
            )
        old = mpi == "pmix" and _major(found.image.pmix) in range(1, 3)
        if old:
            return way(mpi, False, f"the image's PMIx {found.image.pmix} is too old for {offered}")
        why = f"works: {offered}, the image has {MPIS[kind].NAME}{_skew(kind, found)}"
        return replace(way(mpi, True, why), settings=_older(found) if mpi == "pmix" else ())
    if not kinds:
        mpi = asked or ("pmix" if "pmix" in found.offers else next(iter(found.offers), ""))
        return way(mpi, bool(mpi), f"not judged: the image has no mpirun that names its MPI; {offered}")
    needs = " or ".join(dict.fromkeys(_PMI[kind] for kind in kinds))
    other = f"not {asked}" if asked else offered
    return way(asked, False, f"the image has {_names(kinds)}, which needs {needs}, {other}: {ALONE}")


def _kinds(job: JobSpec, found: Facts) -> tuple[str, ...]:
    """Return the image's MPIs, or only the one that was asked for if the image has it."""
    kinds = (found.image if RUNTIMES[job.runtime].CONTAINED else found.node).kinds
    return (job.mpi,) if job.mpi in kinds else kinds


def _skew(kind: str, found: Facts) -> str:
    """Return a note on the PMIx versions of both sides."""
    if kind != "openmpi" or not (found.node.pmix and found.image.pmix):
        return ""
    return f" (PMIx {found.node.pmix} on the node, {found.image.pmix} in the image)"


def _older(found: Facts) -> tuple[Variable, ...]:
    """Return the settings of an image with PMIx 3 under srun's newer one. Else every rank reports missing modules."""
    if _major(found.image.pmix) != 3:
        return ()
    why = f"the image's PMIx {found.image.pmix} lacks newer modules that srun's PMIx offers"
    return (Variable("PMIX_SECURITY_MODE", "native", why=why), Variable("PMIX_GDS_MODULE", "hash", why=why))


def _major(version: str) -> int:
    return int(version.partition(".")[0] or 0)


def single_copy(job: JobSpec, found: Facts | None = None) -> str:
    """Return whether the ranks of a node can read each other's memory (CMA), and the measure if they cannot."""
    runtime = RUNTIMES[job.runtime]
    if found and found.node.said.get("ptrace", "0") not in ("0", "1"):
        return "single copy: off, since the node's kernel.yama.ptrace_scope forbids it"
    if not runtime.CONTAINED:
        return "single copy: on, there is no container"
    if job.mode == "inside-out":
        return "single copy: on, the ranks of a node live in one container"
    if job.runtime in SHARING and job.container_per != "rank":
        return "single copy: on, the ranks of a node share one container"
    users = (found.node.said.get("users"), found.image.said.get("users")) if found else ("", "")
    if not runtime.APART or (users[0] and users[0] == users[1]):
        return "single copy: on, the containers of a node are in its own user namespace"
    fix = "; --container-per node shares one" if job.runtime in SHARING else ""
    names = ", ".join(f"{v.name}={v.value}" for mpi in MPIS.values() for v in mpi.apart())
    return f"single copy: off, each rank has a container in its own user namespace{fix} (set: {names})"


def _notes(job: JobSpec, found: Facts) -> Iterable[str]:
    yield f"image: {_side(found.image)}" if not found.silent else f"image: has not answered ({found.silent})"
    offers = f"; {found.offered}" if found.offers or found.broken else ""
    name = found.node.said.get("name", "")
    yield f"node{f' {name}' if name else ''}: {_side(found.node)}{offers}"
    if "userns" not in found.node.said:
        yield "user namespaces: none on the node, so a runtime needs its setuid part, or a daemon"
    if driver := found.node.said.get("driver", ""):
        yield f"GPU: {gpu(found, driver)}"


def _side(side: Side) -> str:
    parts = [_listed(side.mpis) or "no MPI"]
    parts += [f"PMIx {side.pmix}"] if side.pmix else []
    parts += [side.said["glibc"]] if "glibc" in side.said else []
    return ", ".join(parts)


def gpu(found: Facts, driver: str) -> str:
    """Return whether the driver is new enough for the image's CUDA."""
    cuda = found.node.said.get("driver_cuda", "")
    here = f"driver {driver}" + (f" (CUDA {cuda})" if cuda else "")
    require, wants = found.image.said.get("require", ""), found.image.said.get("cuda", "")
    if not require and not wants:
        return f"{here}; the image does not say what CUDA it needs"
    if "compat" in found.image.said:
        return f"{here}; the image has CUDA {wants}, and brings libcuda along for older drivers"
    if satisfied(require, {"driver": driver, "cuda": cuda}) and (require or not cuda or _at_least(cuda, wants)):
        return f"{here} is enough for the image's CUDA {wants or require}"
    needs = require or f"cuda>={wants}"
    return f'{here} is too old for the image ({needs}): "CUDA driver version is insufficient for CUDA runtime version"'


def satisfied(require: str, have: Mapping[str, str]) -> bool:
    """Return whether NVIDIA_REQUIRE_CUDA holds. Blanks mean or, commas mean and. Unknown terms hold."""

    def holds(term: str) -> bool:
        name, sign, value = (re.fullmatch(r"(\w+)([<>]?=|[<>])(.*)", term) or re.fullmatch(r"()()()", "")).groups()  # type: ignore[union-attr]
        mine = have.get(name, "")
        if not mine or not sign:
            return True
        low, same = _less(mine, value), not _less(mine, value) and not _less(value, mine)
        return {"<": low, ">": not low and not same, "=": same, "<=": low or same, ">=": not low}[sign]

    ways = [[term for term in way.split(",") if not term.startswith("brand")] for way in require.split()]
    return not ways or any(all(map(holds, way)) for way in ways)


def _less(one: str, other: str) -> bool:
    return _parts(one) < _parts(other)


def _at_least(one: str, other: str) -> bool:
    width = len(_parts(one))
    return _parts(one) >= _parts(other)[:width]


def _parts(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def _listed(mpis: Iterable[Mpi]) -> str:
    return ", ".join(map(str, mpis))


def _names(kinds: Iterable[str]) -> str:
    return " and ".join(MPIS[kind].NAME for kind in kinds)
