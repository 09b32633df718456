"""Judge the methods to start ranks by the facts on the MPIs of node and image (wrappers/probe/mpi_node.sh). Pure.

judge(spec, facts) -> Verdict, decide(spec, verdict) -> JobSpec, or Impossible
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping
from functools import partial

from mnrun.errors import Impossible
from mnrun.jobspec import JobSpec, Variable, derived
from mnrun.mpi import HYDRA, MPIS, WITHOUT_MPI
from mnrun.mpi.facts import Installation, MpiFacts, Side
from mnrun.planning.starters import BY_SCHEDULER, OF_SCHEDULERS
from mnrun.record import Record
from mnrun.runtimes import RUNTIMES, SHARING

FINE = "single copy: on"  # the begin of a line that asks for no measure
NOT_JUDGED = "not judged"
ALONE = "every rank would be 0 of 1"
# each MPI's protocol with a scheduler
_PMI = {"openmpi": "pmix", "mpich": "pmi2", "mvapich2": "pmi2", "intelmpi": "pmi2"}


class LaunchMethod(Record):
    """One method to start the ranks: its verdict, its value of --mpi, and the reason."""

    mode: str
    launcher: str
    mpi: str
    works: bool
    why: str
    settings: tuple[Variable, ...] = ()  # needed in the ranks' environment

    def __str__(self) -> str:
        by = "" if self.mode == "inside-out" else f", {self.launcher}"
        mpi = f" --mpi={self.mpi}" if by and self.launcher in OF_SCHEDULERS and self.mpi else ""
        return f"{self.mode}{by}{mpi}: {self.why}"

    @property
    def judged(self) -> bool:
        """Return whether node and image have said enough for a verdict."""
        return not self.why.startswith(NOT_JUDGED)

    @property
    def options(self) -> str:
        words = [f"--mode {self.mode}"]
        if self.mode == "outside-in" or self.launcher in WITHOUT_MPI:
            words.append(f"--launcher {self.launcher}")
        if self.mpi not in ("", "auto"):
            words.append(f"--mpi {self.mpi}")
        return " ".join(words)


class Verdict(Record):
    """The chosen method, all possible methods, and notes."""

    chosen: LaunchMethod
    methods: tuple[LaunchMethod, ...]
    notes: tuple[str, ...] = ()
    remedy: LaunchMethod | None = None  # a method that works, whether or not the job asks for it


def judge(spec: JobSpec, facts: MpiFacts) -> Verdict:
    """Return the verdict on `spec`: the method that it asks for, or else the first that works."""
    methods = _methods(spec, facts)
    by_any = spec.start.mode == "inside-out" or "launcher" in spec.start.undecided
    of_mode = [method for method in methods if method.mode == spec.start.mode]
    fitting = [method for method in of_mode if by_any or method.launcher == spec.start.launcher]
    # `fitting` is in the order of preference. A method that the job asks for is shown though it fails.
    chosen = next((method for method in fitting if method.works), fitting[0])
    free = spec
    if spec.start.launcher not in WITHOUT_MPI:
        free = spec._replace(start=spec.start._replace(mpi="auto", undecided=("mode", "launcher", "mpi")))
    working = [method for method in _methods(free, facts) if method.works]
    remedy = next((method for method in working if method.launcher not in WITHOUT_MPI), next(iter(working), None))
    notes = (single_copy(spec._replace(start=spec.start._replace(mode=chosen.mode)), facts), *_notes(spec, facts))
    return Verdict(chosen, methods, notes, remedy)


def _methods(spec: JobSpec, facts: MpiFacts) -> tuple[LaunchMethod, ...]:
    return (_inside(spec, facts), _by_mpirun(spec, facts), _by_scheduler(spec, facts))


def decide(spec: JobSpec, verdict: Verdict) -> JobSpec:
    """Return the job as it will run. Raise Impossible if it is known to fail, with another method as the remedy."""
    method = verdict.chosen
    if not method.works and not spec.force:
        other = verdict.remedy
        remedy = f"{other.options} works" if other else "use an image whose MPI the node can serve"
        problem = f"{method.mode} by {method.launcher} cannot work: {method.why}"
        raise Impossible(problem, f"{remedy}; --force tries it anyway")
    free = method.works and "mpi" in spec.start.undecided and method.mode == "outside-in"
    mpi = method.mpi if free else spec.start.mpi
    start = spec.start._replace(launcher=method.launcher, mpi=mpi, undecided=())
    if method.launcher in WITHOUT_MPI and "launcher" in spec.start.undecided:
        start = spec.start._replace(undecided=("launcher",))  # the head node looks for an mpirun itself
    changed = [name for name in spec.start.undecided if getattr(start, name) != getattr(spec.start, name)]
    origins = {**spec.origins, **dict.fromkeys(changed, derived("the image and the node (verdict)"))}
    names = {variable.name for variable in spec.program.env}
    env = tuple(setting for setting in method.settings if setting.name not in names)
    program = spec.program._replace(env=(*spec.program.env, *env))
    return spec._replace(program=program, start=start, origins=origins)


def _inside(spec: JobSpec, facts: MpiFacts) -> LaunchMethod:
    """Return the method by the image's own mpirun: it needs nothing of the node but the container."""

    def method(works: bool, why: str) -> LaunchMethod:
        request = spec.start.mpi if spec.start.mpi in MPIS else ""
        launcher = spec.start.launcher if spec.start.launcher in WITHOUT_MPI else "mpirun"
        return LaunchMethod("inside-out", launcher, request, works, why)

    image = facts.image
    if spec.start.launcher in WITHOUT_MPI:
        return method(True, f"works: ranks by {spec.start.launcher}, which needs no MPI")
    if facts.silent:
        return method(True, f"{NOT_JUDGED}: the image has not answered ({facts.silent})")
    if spec.start.mpi in MPIS and image.mpis:
        installation = image.has(spec.start.mpi)
        if installation is None:
            return method(False, f"the image has no {MPIS[spec.start.mpi].NAME}: found {_listed(image.mpis)}")
        return method(True, f"works: the image's {installation}")
    if not image.mpis and "launcher" in spec.start.undecided and not spec.start.mpi_args:
        return LaunchMethod("inside-out", "env", "", True, "works: the image has no mpirun, so mnrun starts the ranks")
    if not image.mpis:
        return method(False, "the image has no mpirun on its PATH or in the usual places")
    first = image.mpis[0]
    if first.kind == "hangs":
        return method(False, f"the image's {first}")
    others = f"; it also has {_listed(image.mpis[1:])}, which --mpi chooses" if image.mpis[1:] else ""
    return method(True, f"works: the image's {first}{others}")


def _by_mpirun(spec: JobSpec, facts: MpiFacts) -> LaunchMethod:
    """Return the method by the host's mpirun, which must be of the image's kind."""

    method = partial(_outside, launcher="mpirun")
    kinds = _kinds(spec, facts)
    request = spec.start.mpi if spec.start.mpi in MPIS else "auto"
    for kind in kinds:
        name = MPIS[kind].NAME
        if kind in HYDRA and not RUNTIMES[spec.container.runtime].PASSES_OPEN_FILES:
            return method(kind, False, f"{name} uses an open file, which {spec.container.runtime} does not pass on")
        family = HYDRA if kind in HYDRA else (kind,)
        host = next((mpi for mpi in facts.node.mpis if mpi.kind in family), None)
        if host is None or request not in ("auto", kind, *(("mpich",) if kind in HYDRA else ())):
            continue  # MPICH's mpiexec starts all MPIs of the Hydra family
        if (
            kind == "openmpi"
            and spec.resources.nodes != 1
            and _major(host.version) >= 5
            and _major(facts.image.pmix) in range(1, 4)
        ):
            ends = 'ranks that have peers on other nodes end with "PML add procs failed"'
            return method(kind, False, f"the image's PMIx {facts.image.pmix} is too old for the node's {host}: {ends}")
        return method(kind, True, f"works: the node's {host} starts the image's {name}{_skew(kind, facts)}")
    if not kinds:
        return method(request, True, f"{NOT_JUDGED}: the image has no mpirun that names its MPI")
    if request != "auto" and request not in kinds:
        return method(request, False, f"the image has {_names(kinds)}, and no {MPIS[request].NAME}: {ALONE}")
    here = _listed(facts.node.mpis) or "no mpirun"
    return method(kinds[0], False, f"the image has {_names(kinds)}, and the node {here}: {ALONE}")


def _by_scheduler(spec: JobSpec, facts: MpiFacts) -> LaunchMethod:
    """Return the method by the scheduler: one of its plugins and the image's MPI must have a protocol in common."""
    if "starts" not in facts.node.values and spec.hosts.local:
        return _outside("", False, f"{NOT_JUDGED}: this machine is in no job, and only a node of one can tell")
    if "starts" not in facts.node.values:
        return _outside("", False, f"the node has no {BY_SCHEDULER} that answers")
    offered = f"{BY_SCHEDULER} {facts.offered}"
    request = spec.start.mpi if spec.start.mpi in ("pmix", "pmi2") and "mpi" not in spec.start.undecided else ""
    kinds = _kinds(spec, facts)
    if request in facts.broken:
        why = f"{BY_SCHEDULER} lists {request} on the node, and cannot load it (its libpmix is missing)"
        return _outside(request, False, why)
    if request and request not in facts.offers:
        return _outside(request, False, f"{offered}, not {request}")
    if not request and kinds and _PMI[kinds[0]] in facts.broken:
        return _outside("", False, f"the image has {MPIS[kinds[0]].NAME}, which needs pmix: {offered}")
    for kind in kinds:
        if request in ("", _PMI[kind]) and _PMI[kind] in facts.offers:
            return _by_plugin(spec, facts, kind, offered)
    if not kinds:
        mpi = request or ("pmix" if "pmix" in facts.offers else next(iter(facts.offers), ""))
        return _outside(mpi, bool(mpi), f"{NOT_JUDGED}: the image has no mpirun that names its MPI; {offered}")
    needs = " or ".join(dict.fromkeys(_PMI[kind] for kind in kinds))
    other = f"not {request}" if request else offered
    return _outside(request, False, f"the image has {_names(kinds)}, which needs {needs}, {other}: {ALONE}")


def _by_plugin(spec: JobSpec, facts: MpiFacts, kind: str, offered: str) -> LaunchMethod:
    mpi, pmix = _PMI[kind], facts.image.pmix
    if mpi == "pmi2" and not RUNTIMES[spec.container.runtime].PASSES_OPEN_FILES:
        return _outside(mpi, False, f"PMI2 uses an open file, which {spec.container.runtime} does not pass on")
    if kind == "intelmpi" and not any(variable.name == "I_MPI_PMI_LIBRARY" for variable in spec.program.env):
        why = "Intel MPI needs the scheduler's libpmi2.so in the image, and its place: -x I_MPI_PMI_LIBRARY=…"
        return _outside(mpi, False, why)
    if mpi == "pmix" and _major(pmix) in range(1, 3):
        return _outside(mpi, False, f"the image's PMIx {pmix} is too old for {offered}")
    why = f"works: {offered}, the image has {MPIS[kind].NAME}{_skew(kind, facts)}"
    settings: tuple[Variable, ...] = ()
    if mpi == "pmix" and _major(pmix) == 3:
        older = f"the image's PMIx {pmix} lacks newer modules that {BY_SCHEDULER}'s PMIx offers"
        names = {"PMIX_SECURITY_MODE": "native", "PMIX_GDS_MODULE": "hash"}
        settings = tuple(Variable(name, value, why=older) for name, value in names.items())
    return _outside(mpi, True, why)._replace(settings=settings)


def _outside(mpi: str, works: bool, why: str, launcher: str = BY_SCHEDULER) -> LaunchMethod:
    return LaunchMethod("outside-in", launcher, mpi, works, why)


def _kinds(spec: JobSpec, facts: MpiFacts) -> tuple[str, ...]:
    kinds = (facts.image if RUNTIMES[spec.container.runtime].CONTAINED else facts.node).kinds
    return (spec.start.mpi,) if spec.start.mpi in kinds else kinds


def _skew(kind: str, facts: MpiFacts) -> str:
    if kind != "openmpi" or not (facts.node.pmix and facts.image.pmix):
        return ""
    return f" (PMIx {facts.node.pmix} on the node, {facts.image.pmix} in the image)"


def _major(version: str) -> int:
    return int(version.partition(".")[0] or 0)


def single_copy(spec: JobSpec, facts: MpiFacts | None = None) -> str:
    """Return whether the ranks of a node can read each other's memory (CMA), and the measure if they cannot."""
    runtime = RUNTIMES[spec.container.runtime]
    if facts and facts.node.values.get("ptrace", "0") not in ("0", "1"):
        return "single copy: off, since the node's kernel.yama.ptrace_scope forbids it"
    if not runtime.CONTAINED:
        return f"{FINE}, there is no container"
    if filtered := _filtered(spec, facts):
        return filtered
    if spec.start.mode == "inside-out":
        return f"{FINE}, the ranks of a node live in one container"
    if spec.container.runtime in SHARING and spec.container.per != "rank":
        return f"{FINE}, the ranks of a node share one container"
    users = (facts.node.values.get("users"), facts.image.values.get("users")) if facts else ("", "")
    if not runtime.OWN_USER_NAMESPACE or (users[0] and users[0] == users[1]):
        return f"{FINE}, the containers of a node are in its own user namespace"
    fix = "; --container-per node shares one" if spec.container.runtime in SHARING else ""
    names = ", ".join(f"{v.name}={v.value}" for mpi in MPIS.values() for v in mpi.without_cma())
    return f"single copy: off, each rank has a container in its own user namespace{fix} (set: {names})"


def _filtered(spec: JobSpec, facts: MpiFacts | None) -> str:
    """Return the measure where an engine forbids kcmp(2), without which Open MPI 5 has no single copies."""
    container, inside = spec.container, spec.start.mode == "inside-out"
    runtime = RUNTIMES[container.runtime]
    shut = (
        runtime.HAS_STORE
        and not container.privileged
        and (container.hardened if inside else not runtime.OWN_USER_NAMESPACE)
    )
    mpi = facts and facts.image.has("openmpi")
    if not shut or not mpi or _major(mpi.version) < 5:
        return ""
    fix = "do without --hardened" if inside else "use --mode inside-out"
    return f"single copy: off, since {container.runtime} forbids kcmp(2), which Open MPI 5 needs for it: {fix}"


def _notes(spec: JobSpec, facts: MpiFacts) -> Iterable[str]:
    yield f"image: {_side(facts.image)}" if not facts.silent else f"image: has not answered ({facts.silent})"
    offers = f"; {BY_SCHEDULER} {facts.offered}" if facts.offers or facts.broken else ""
    name = facts.node.values.get("name", "")
    yield f"node{f' {name}' if name else ''}: {_side(facts.node)}{offers}"
    if "userns" not in facts.node.values:
        yield "user namespaces: none on the node, so a runtime needs its setuid part, or a daemon"
    if driver := facts.node.values.get("driver", ""):
        yield f"GPU: {gpu(facts, driver)}"


def _side(side: Side) -> str:
    parts = [_listed(side.mpis) or "no MPI"]
    parts += [f"PMIx {side.pmix}"] if side.pmix else []
    parts += [side.values["glibc"]] if "glibc" in side.values else []
    return ", ".join(parts)


def gpu(facts: MpiFacts, driver: str) -> str:
    """Return whether the driver is new enough for the image's CUDA."""
    cuda = facts.node.values.get("driver_cuda", "")
    here = f"driver {driver}" + (f" (CUDA {cuda})" if cuda else "")
    require, wants = facts.image.values.get("require", ""), facts.image.values.get("cuda", "")
    if not require and not wants:
        return f"{here}; the image does not say what CUDA it needs"
    if "compat" in facts.image.values:
        return f"{here}; the image has CUDA {wants}, and brings libcuda along for older drivers"
    if satisfied(require, {"driver": driver, "cuda": cuda}) and (require or not cuda or _at_least(cuda, wants)):
        return f"{here} is enough for the image's CUDA {wants or require}"
    needs = require or f"cuda>={wants}"
    return f'{here} is too old for the image ({needs}): "CUDA driver version is insufficient for CUDA runtime version"'


def satisfied(require: str, have: Mapping[str, str]) -> bool:
    """Return whether NVIDIA_REQUIRE_CUDA holds. Blanks mean or, commas mean and. Unknown terms hold."""

    def holds(term: str) -> bool:
        found = re.fullmatch(r"(\w+)([<>]?=|[<>])(.*)", term)
        name, sign, value = found.groups() if found else ("", "", "")
        version = have.get(name, "")
        if not version or not sign:
            return True
        return bool(_COMPARE[sign](_parts(version), _parts(value)))

    groups = [[term for term in group.split(",") if not term.startswith("brand")] for group in require.split()]
    return not groups or any(all(map(holds, group)) for group in groups)


_COMPARE = {"<": operator.lt, ">": operator.gt, "=": operator.eq, "<=": operator.le, ">=": operator.ge}


def _at_least(version: str, other: str) -> bool:
    parts = _parts(version)
    return parts >= _parts(other)[: len(parts)]


def _parts(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def _listed(mpis: Iterable[Installation]) -> str:
    return ", ".join(map(str, mpis))


def _names(kinds: Iterable[str]) -> str:
    return " and ".join(MPIS[kind].NAME for kind in kinds)
