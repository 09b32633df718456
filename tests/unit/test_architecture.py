"""The house keeps its shape, beyond the contracts on imports that pyproject.toml has for import-linter."""

from __future__ import annotations

import ast
import importlib.util
import re
import statistics
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from mnrun import files

LAUNCHER = Path(__file__).resolve().parents[2] / "launcher"
MODULES = {".".join(path.relative_to(LAUNCHER).with_suffix("").parts): path for path in sorted(LAUNCHER.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
# A dependency has one module that uses it: who replaces it has one file to read. click belongs to cli/.
DOORS = {
    "cloudpickle": {"mnrun.api.mapping"},
    "jinja2": {"mnrun.files"},
    "psutil": {"mnrun.schedulers.local"},
    "cryptography": {"mnrun.system.keys"},
    "ClusterShell": {"mnrun.nodeset"},
    "paramiko": {"mnrun.schedulers.hosts.remote"},
    "rich": {"mnrun.system.screen"},
    "tomllib": {"mnrun.config.jobfile"},
    "tomli": {"mnrun.config.jobfile"},
    "pyslurm": {"mnrun.schedulers.slurm.queue"},
    "hpccm": {"mnrun.images.recipes"},
    "spython": {"mnrun.images.definitions"},
    "prometheus_client": {"mnrun.watching.exporter"},
    "ruamel": {"mnrun.schedulers.kubernetes.yamltext"},
}


# A scheduler's words belong to its package. These stand elsewhere, each with its reason. Numbers may only fall.
SCHEDULERS = r"slurm|srun|sbatch|salloc|squeue|scontrol|sacct|(?<!bash_ver)sinfo|scancel"
ELSEWHERE = {
    "mnrun.cli.run": (2, "people type `--format sbatch` for the script"),
    "mnrun.cli.words.help": (1, "srun is a choice of --launcher"),
    "mnrun.config.options": (6, "--slurm, a choice of --launcher, and the former name of --poll"),
    "mnrun.files": (2, "the folder sbatch_templates and the name of a site's template"),
    "mnrun.mpi.openmpi": (5, "Open MPI has plug-ins and variables of these names"),
    "mnrun.nodes.sides": (4, "stand-ins for sbatch and srun, which programs of a job call"),
    "mnrun.planning.script": (1, "a message names the template to copy from"),
    "mnrun.schedulers.__init__": (6, "the table of schedulers, its first row, and the table of fronts"),
}
# The words of the others. The table of schedulers and that of their own options name each, and these modules do.
TABLES = {"mnrun.schedulers.__init__", "mnrun.config.options"}
WORDS = {
    "sge": r"\bsge\b|SGE_|\b(gridengine|qsub|qstat|qdel|qconf|qrsh|qacct|qhost)\b",
    "pbs": r"pbs|torque|moab",
    "lsf": r"\blsf\b|\bLS[BF]_|\b(bsub|bjobs|bkill|blaunch)\b",
    "flux": r"\bflux\b|FLUX_",
    "kubernetes": r"kubernetes|kubectl|\bkube",
}
NAMING = {
    ("mnrun.mpi.openmpi", "sge pbs lsf"): "Open MPI has plug-ins of these names",
    ("mnrun.schedulers.pbs", "sge"): "the commands have the same names",
    ("mnrun.schedulers.slurm", "pbs"): "sbatch has an option of this name, and a variable",
    ("mnrun.jobspec", "kubernetes"): "a job names the scheduler that has claims for volumes",
    ("mnrun.cli.words.options", "pbs"): "people type -l as PBS has it",
}
# A vendor's words have no package yet: the modules and the wrappers that have them.
VENDORS, VENDORS_WORDS, VENDORS_WRAPPERS = r"nvidia", 24, 15
# These wrappers are named after a scheduler's program, which they stand for.
STAND_INS = {"srun_docker.sh", "srun_singularity.sh", "pdsh_docker.sh", "pdsh_singularity.sh", "sbatch"}


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the top of each package that a module imports, wherever in it, of itself or of others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "" if node.level else (node.module or "").partition(".")[0]


def test_imports_are_absolute() -> None:
    assert [name for name, tree in TREES.items() if "" in imported(tree)] == []


@pytest.mark.parametrize("package", sorted(DOORS))
def test_each_dependency_has_one_door(package: str) -> None:
    assert {name for name, tree in TREES.items() if package in imported(tree)} == DOORS[package]


def test_no_dependency_comes_in_without_a_door() -> None:
    """Python's own modules, ours, click and those of DOORS: nothing else is imported."""
    known = {*DOORS, "click", "mnrun"}
    others = {(name, package) for name, tree in TREES.items() for package in imported(tree) if package not in known}
    found = [(name, package, importlib.util.find_spec(package)) for name, package in sorted(others)]
    assert [(name, package) for name, package, spec in found if not spec or "site-packages" in str(spec.origin)] == []


def test_only_the_application_reads_the_environment() -> None:
    readers = {name for name, path in MODULES.items() if re.search(r"os\.(environ|getenv)", path.read_text())}
    others = {name for name in readers if not name.startswith(("mnrun.cli.", "mnrun.__main__"))}
    assert others == {"mnrun.attach.user", "mnrun.running.request", "mnrun.api.task"}  # the last one is a rank


def test_slurms_variables_are_slurms_matter() -> None:
    rules = {"mnrun.mpi.openmpi"}  # by which Open MPI 4 finds its server
    readers = {name for name, path in MODULES.items() if re.search(r"[\"']SLURM_", path.read_text(encoding="utf-8"))}
    assert {name for name in readers if not name.startswith("mnrun.schedulers.slurm.")} == rules


@cache
def code(module: str) -> str:
    """Return a module's identifiers and strings, without its docstrings and comments."""
    tree = ast.parse(ast.unparse(TREES[module]))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
    return ast.unparse(tree)


def words_of(pattern: str) -> tuple[dict[str, int], set[str]]:
    """Return the number of matches in the code of each module, and the wrappers with one."""
    words = re.compile(pattern, re.IGNORECASE)
    counts = {name: len(words.findall(code(name))) for name in TREES}
    named = {script for script in files.wrappers() if words.search(files.spoken(script))}
    return {name: count for name, count in counts.items() if count}, named


def test_a_schedulers_words_are_in_its_package() -> None:
    counts, named = words_of(SCHEDULERS)
    found = {name: count for name, count in counts.items() if not name.startswith("mnrun.schedulers.slurm.")}
    assert found == {name: count for name, (count, _) in ELSEWHERE.items()}, "are there fewer? Then write so"
    assert named == STAND_INS


@pytest.mark.parametrize("scheduler", WORDS)
def test_the_modules_that_name_a_scheduler(scheduler: str) -> None:
    counts, wrappers = words_of(WORDS[scheduler])
    known = {module for module, named in NAMING if scheduler in named.split()}
    others = {name for name in counts if not name.startswith(f"mnrun.schedulers.{scheduler}.")}
    found = {next((module for module in known if f"{name}.".startswith(f"{module}.")), name) for name in others}
    assert found == known | TABLES
    assert wrappers == set()


def test_a_vendors_words_become_fewer() -> None:
    counts, named = words_of(VENDORS)
    found = (sum(counts.values()), len(named))
    assert found == (VENDORS_WORDS, VENDORS_WRAPPERS), f"are there fewer? Then write so: {counts}, {sorted(named)}"


def test_text_is_read_and_written_in_utf8() -> None:
    places = {"read_text": 0, "write_text": 1, "open": 3}  # of the encoding, where it is not named
    vague = []
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) in ("os.open", "tarfile.open"):
                continue
            place = places.get(ast.unparse(node.func).rpartition(".")[2])
            named = any(keyword.arg == "encoding" for keyword in node.keywords)
            if place is not None and len(node.args) <= place and not named:
                vague.append(f"{name}, line {node.lineno}")
    assert vague == []


def test_functions_stay_small() -> None:
    functions = {
        f"{name}.{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert {name: lines for name, lines in functions.items() if lines > 60} == {}
    assert statistics.median(functions.values()) <= 10


def test_the_page_names_the_modules_of_each_package() -> None:
    page = (LAUNCHER.parent / "docs/internals/architecture.md").read_text(encoding="utf-8")
    table = page.partition("\n## Dependencies")[0]
    for package, content in re.findall(r"^\| `(\w+)/` \| (.*) \|$", table, re.MULTILINE):
        there = {path.stem for path in (LAUNCHER / "mnrun" / package).iterdir() if not path.name.startswith("__")}
        if package not in ("cli", "diagnosis"):  # for each verb, or subject, a module
            assert set(re.findall(r"`(\w+)/?`", content)) == there, package
