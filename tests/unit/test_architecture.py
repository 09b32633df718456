"""The house keeps its shape: who imports whom, who may touch what, what a backend offers.

Reads the source; nothing of it is run but for one look at what `import launcher.cli` costs.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from launcher import connect, mpi, runtimes, schedulers

from .conftest import Shell

LAUNCHER = Path(__file__).resolve().parents[2] / "launcher"
ROOMS = ("runtimes", "schedulers", "connect", "mpi")
FLOORS = (
    ("errors", "model", "options"),
    (
        *(
            "nodeset",
            "resources",
            "render",
            "environment",
            "settings",
            "layout",
            "roster",
            "relay",
            "engine",
            "reference",
        ),
        *("known_hosts", "jobfile", "profiles", "manual", "records", "answers", "answers_pyslurm", "survey"),
        *("fabric", "choices", "learned", "proof"),
    ),
    ROOMS,
    ("spec", "plan", "carry", "kit", "show", "script", "follow", "verdict", "starters"),
    (
        *("keys", "node", "cluster", "modules", "gather", "job_dir", "transports", "terminal", "allocate"),
        *("wires", "remote", "pdsh", "machines", "commands"),
        *(
            "progress",
            "prepare",
            "execute",
            "reasons",
            "outputs",
            "queue",
            "archive",
            "cache",
            "tail",
            "waiting",
            "asking",
        ),
    ),
    (
        *("cli", "cli_nodes", "cli_submit", "cli_setup", "cli_follow", "cli_clean", "cli_shell", "cli_check"),
        *("cli_learn", "__main__"),
    ),
)
# On its own floor a module may import these neighbours, and no others.
NEIGHBOURS = {
    "render": {"resources"},
    "layout": {"nodeset"},
    "jobfile": {"settings", "environment", "reference"},
    "engine": {"reference"},
    "choices": {"nodeset", "environment", "fabric"},
    "survey": {"fabric"},
    "learned": {"nodeset", "choices", "fabric"},
    "profiles": {"jobfile", "settings"},
    "gather": {"cluster"},
    "answers_pyslurm": {"nodeset", "answers"},
    "proof": {"nodeset"},
    "roster": {"nodeset"},
    "spec": {"starters"},
    "plan": {"kit"},
    "show": {"carry", "kit", "verdict"},
    "asking": {"cache", "cluster", "transports"},
    "script": {"carry", "kit", "plan"},
    "cluster": {"node", "commands"},
    "queue": {"commands"},
    "outputs": {"transports"},
    "allocate": {"cluster", "transports", "progress"},
    "prepare": {"cluster", "transports", "progress"},
    "execute": {"cluster", "keys", "job_dir", "transports", "terminal", "progress", "prepare", "reasons"},
    "cli": {"cli_nodes", "cli_submit"},
    "cli_shell": {"cli", "cli_nodes"},
    "cli_submit": {"cli"},
    "cli_clean": {"cli_follow"},
    "cli_check": {"cli", "cli_nodes"},
    "cli_setup": {"cli", "cli_learn"},
    "manual": {"settings"},
    "wires": {"transports"},
    "remote": {"terminal", "transports", "wires"},
    "pdsh": {"transports", "wires"},
    "machines": {"pdsh", "remote", "transports", "wires", "progress"},
    "waiting": {"queue", "archive"},
    "__main__": {"cli"},
}
DOORS = {
    "click": {"cli", "cli_submit", "cli_setup", "cli_follow", "cli_clean", "cli_shell", "cli_check", "cli_learn"},
    "jinja2": {"render"},
    "psutil": {"node"},
    "cryptography": {"keys"},
    "ClusterShell": {"nodeset"},
    "paramiko": {"remote"},
    "rich": {"progress"},
    "tomllib": {"jobfile"},
    "tomli": {"jobfile"},
    "pyslurm": {"queue"},
    "subprocess": {"transports", "cluster", "modules", "queue", "commands"},
}
# What the floors below the acting ones may use of Python: nothing in it starts, sends, waits or draws lots.
PURE = {
    *("__future__", "collections", "dataclasses", "enum", "types", "typing"),
    *(
        "base64",
        "contextlib",
        "difflib",
        "fnmatch",
        "functools",
        "gzip",
        "hmac",
        "importlib",
        "io",
        "ipaddress",
        "itertools",
        "json",
        "os.path",
        "pathlib",
        "re",
        "shlex",
        "sys",
        "tarfile",
    ),
}
HEAVY = ("jinja2", "rich", "paramiko", "cryptography", "ClusterShell", "psutil", "spython", "subprocess")


@dataclass(frozen=True)
class Import:
    module: str  # of ours that imports: "cli", "runtimes.host"
    target: str  # of ours: "model", "runtimes.host"; else the name as written
    ours: bool
    line: int


def name_of(path: Path) -> str:
    parts = path.relative_to(LAUNCHER).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {name_of(path): path for path in sorted(LAUNCHER.rglob("*.py"))}


def imports_of(module: str) -> Iterator[Import]:
    """Every import of a module, those within functions and under TYPE_CHECKING too."""
    path = MODULES[module]
    package = [] if path.parent == LAUNCHER else list(path.parent.relative_to(LAUNCHER).parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, alias.name.split(".")[0] == "launcher", node.lineno)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
            if names == ["os"] and [alias.name for alias in node.names] == ["path"]:
                names = ["os.path"]
            yield Import(module, names[0], names[0].split(".")[0] == "launcher", node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1]
            stem = [*base, *(node.module.split(".") if node.module else [])]
            for alias in node.names:
                whole = ".".join([*stem, alias.name])
                target = whole if whole in MODULES else ".".join(stem)
                yield Import(module, target or "__init__", True, node.lineno)


IMPORTS = [found for module in MODULES for found in imports_of(module)]
OURS = [found for found in IMPORTS if found.ours]
OTHERS = [found for found in IMPORTS if not found.ours]


def floor(module: str) -> int:
    return next(number for number, names in enumerate(FLOORS) if module.split(".")[0] in names)


def at(found: Import) -> str:
    return f"launcher/{found.module}, line {found.line}: imports {found.target}"


def test_every_module_has_a_floor() -> None:
    """A new module is given its place in FLOORS (and in CONTRIBUTING.md) when it is written."""
    placed = {name for names in FLOORS for name in names}
    assert {module.split(".")[0] for module in MODULES} - {"__init__"} == placed


def test_our_modules_import_each_other_relatively() -> None:
    """One spelling, so that this test and a reader's grep find everything."""
    assert [at(found) for found in OTHERS if found.target.split(".")[0] == "launcher"] == []
    assert [at(found) for found in OURS if found.target.startswith("launcher")] == []


def test_imports_go_down_the_floors() -> None:
    """A module imports lower floors, and on its own floor only the neighbours written above."""
    wrong = []
    for found in OURS:
        if found.target == "__init__" or found.module.split(".")[0] == found.target.split(".")[0]:
            continue
        below = floor(found.target) < floor(found.module)
        if not below and found.target not in NEIGHBOURS.get(found.module, set()):
            wrong.append(at(found))
    assert wrong == []


def test_no_neighbour_is_listed_in_vain() -> None:
    """NEIGHBOURS says what is, not what was."""
    real = {(found.module, found.target) for found in OURS}
    listed = {(module, other) for module, others in NEIGHBOURS.items() for other in others}
    assert listed - real == set()


def test_rooms_do_not_know_each_other() -> None:
    """runtimes, schedulers, connect and mpi compose in plan, kit and execute, nowhere else."""
    rooms = [found for found in OURS if found.module.split(".")[0] in ROOMS]
    assert [at(f) for f in rooms if f.target.split(".")[0] in set(ROOMS) - {f.module.split(".")[0]}] == []


def test_backends_do_not_know_their_siblings() -> None:
    """Only a room's own __init__ lists its backends; they share at most its nouns (mpi.places)."""
    one = ("runtimes.singularity", "runtimes.apptainer")  # a program and its older name
    siblings = [f for f in OURS if "." in f.module and "." in f.target and f.target != "mpi.places"]
    siblings = [found for found in siblings if (found.module, found.target) != one]
    assert [at(found) for found in siblings] == []


@pytest.mark.parametrize("package", sorted(DOORS))
def test_each_dependency_has_one_door(package: str) -> None:
    """Who replaces a dependency, or fakes the world in a test, has one file to look at."""
    users = {found.module for found in OTHERS if found.target.split(".")[0] == package}
    assert users == DOORS[package]


def test_no_dependency_comes_in_without_a_door() -> None:
    """Whatever is neither Python's nor ours is listed in DOORS."""
    known = {*DOORS, *(name.split(".")[0] for name in PURE)}
    strange = []
    for found in OTHERS:
        top = found.target.split(".")[0]
        spec = importlib.util.find_spec(top) if top not in known else None
        if top not in known and (spec is None or "site-packages" in str(spec.origin)):
            strange.append(at(found))
    assert strange == []


def test_what_is_below_the_acting_floor_is_pure() -> None:
    """Floors 0 to 3 decide; files that ship with mnrun are all that they read."""
    allowed = {*PURE, "jinja2", "ClusterShell", "tomllib", "tomli"}
    below = [found for found in OTHERS if found.module != "__init__" and floor(found.module) <= 3]
    assert [at(f) for f in below if not {f.target, f.target.split(".")[0]} & allowed] == []


def test_only_the_command_line_reads_the_environment() -> None:
    """Everyone else is handed the variables that he needs."""
    readers = {name for name, path in MODULES.items() if re.search(r"os\.(environ|getenv)", path.read_text())}
    assert {name for name in readers if not name.startswith("cli")} == set()


def test_text_is_read_and_written_in_utf8() -> None:
    """Whatever a user's locale is: our own files are UTF-8, and so are what guards say and what we record of it."""
    places = {"read_text": 0, "write_text": 1, "open": 3}  # of the encoding, where it is not named
    vague = []
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) in ("os.open", "tarfile.open"):
                continue
            place = places.get(ast.unparse(node.func).rpartition(".")[2])
            named = any(keyword.arg == "encoding" for keyword in node.keywords)
            if place is not None and len(node.args) <= place and not named:
                vague.append(f"launcher/{name}, line {node.lineno}")
    assert vague == []


def test_the_command_line_loads_nothing_heavy(sh: Shell) -> None:
    """`mnrun --version` must feel instant: what costs is imported where it is used."""
    script = f'cd "{LAUNCHER.parent}" && "$0" -B -c "import launcher.cli, sys; print(*sys.modules)"'
    loaded = set(sh(script.replace("$0", sys.executable)).decode().split())
    assert "launcher.cli" in loaded
    assert sorted(name for name in HEAVY if name in loaded) == []


def test_files_and_functions_stay_small() -> None:
    """What a reader holds in his head: no file over 400 lines, no function over 60, medians of 100 and 10."""
    files = {name: len(path.read_text().splitlines()) for name, path in MODULES.items()}
    functions = {
        f"{name}.{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for name, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert {name: lines for name, lines in files.items() if lines > 400} == {}
    assert {name: lines for name, lines in functions.items() if lines > 60} == {}
    assert statistics.median(files.values()) <= 100
    assert statistics.median(functions.values()) <= 10


REGISTRIES: tuple[tuple[ModuleType, dict[str, ModuleType]], ...] = (
    (runtimes, runtimes.RUNTIMES),
    (schedulers, schedulers.SCHEDULERS),
    (connect, connect.CONNECTS),
    (mpi, mpi.MPIS),
)
BACKENDS = [
    pytest.param(room, backend, id=backend.__name__.partition(".")[2])
    for room, registry in REGISTRIES
    for backend in registry.values()
]


def protocol(room: ModuleType) -> dict[str, list[str] | None]:
    """The names that a room's docstring lists, with their parameters; None for a constant."""
    lines = re.findall(r"^    (\w+)(?:\(([^)]*)\))?(?= )", room.__doc__ or "", re.MULTILINE)
    listed = re.findall(r"^    (\w+)\(", room.__doc__ or "", re.MULTILINE)
    return {name: re.findall(r"\w+", words) if name in listed else None for name, words in lines}


@pytest.mark.parametrize(("room", "backend"), BACKENDS)
def test_a_backend_offers_what_its_room_lists(room: ModuleType, backend: ModuleType) -> None:
    """The package's docstring is the protocol: its names, each with these parameters."""
    wanted = protocol(room)
    assert wanted
    offered = {
        name: list(inspect.signature(getattr(backend, name)).parameters) if words is not None else None
        for name, words in wanted.items()
        if hasattr(backend, name)
    }
    assert offered == wanted


@pytest.mark.parametrize(("room", "registry"), REGISTRIES, ids=ROOMS)
def test_every_backend_is_registered_by_its_file_name(room: ModuleType, registry: dict[str, ModuleType]) -> None:
    """Adding a backend is one file and one line; its name is the file's."""
    folder = Path(room.__path__[0])
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "places"}
    assert {name: module.__name__.rpartition(".")[2] for name, module in registry.items()} == {n: n for n in files}


def test_the_house_is_described() -> None:
    """CONTRIBUTING names every module, but for those of the rooms, and every wrapper."""
    text = (LAUNCHER.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    modules = [f"`{name}/`" if name in ROOMS else f"`{name}`" for floor in FLOORS for name in floor]
    wrappers = LAUNCHER.parent / "wrappers"
    files = [f"`{path.relative_to(wrappers)}`" for path in wrappers.rglob("*") if path.is_file()]
    assert [name for name in (*modules, *files) if name not in text] == []
