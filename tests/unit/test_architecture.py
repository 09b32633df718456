"""The house keeps its shape, beyond the contracts on imports that pyproject.toml has for import-linter."""

from __future__ import annotations

import ast
import importlib.util
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

LAUNCHER = Path(__file__).resolve().parents[2] / "launcher"
MODULES = {".".join(path.relative_to(LAUNCHER).with_suffix("").parts): path for path in sorted(LAUNCHER.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
# A dependency has one module that uses it: who replaces it has one file to read. click belongs to cli/.
DOORS = {
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
}


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the top of each package that a module imports, wherever in it, of itself or of others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "" if node.level else (node.module or "").partition(".")[0]


def test_imports_are_absolute() -> None:
    """One spelling, which a search finds."""
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
    """The rest is handed the variables that it needs; session, submission and nodes do what verbs share."""
    readers = {name for name, path in MODULES.items() if re.search(r"os\.(environ|getenv)", path.read_text())}
    ours = {"mnrun.api", "mnrun.running.nodes", "mnrun.running.session", "mnrun.running.submission"}
    assert {name for name in readers if not name.startswith("mnrun.cli.")} == ours


def test_slurms_variables_are_slurms_matter() -> None:
    """A scheduler is one package. Only the rules of what leaks, and of what ranks get, name its variables elsewhere."""
    rules = {"mnrun.environment", "mnrun.nodes.kit", "mnrun.nodes.place", "mnrun.schedulers.local"}
    readers = {name for name, path in MODULES.items() if re.search(r"[\"']SLURM_", path.read_text(encoding="utf-8"))}
    assert {name for name in readers if not name.startswith("mnrun.schedulers.slurm.")} == rules


def test_text_is_read_and_written_in_utf8() -> None:
    """Whatever a user's locale is: our own files are UTF-8, and so are what guards say and what we record of it."""
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


def test_files_and_functions_stay_small() -> None:
    """What a reader holds in his head: no file over 400 lines, functions of 60, 12 files a folder."""
    files = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in MODULES.items()}
    folders = {path.parent: len(list(path.parent.glob("*.py"))) - 1 for path in MODULES.values()}
    functions = {
        f"{name}.{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert {name: lines for name, lines in files.items() if lines > 400} == {}
    assert {name: lines for name, lines in functions.items() if lines > 60} == {}
    assert {str(folder): count for folder, count in folders.items() if count > 12} == {}
    assert statistics.median(functions.values()) <= 10
