"""Rules of the house against unsafe code, over the syntax trees of mnrun and the text of its wrappers.

Each exception stands here with its reason. An exception that nothing needs any more fails, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from mnrun.files import wrappers
from unit.test_architecture import TREES

# Calls and modules by which a text becomes code.
EVALUATING = (
    *("eval", "exec", "compile", "__import__", "execfile", "runpy.run_path", "pty.spawn"),
    *("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
)
LOADERS = ("pickle", "cPickle", "marshal", "shelve", "dill", "yaml", "runpy", "code", "xml", "multiprocessing")
FIXED = {  # import_module of a name that stands in a table of ours
    "mnrun.__init__": "the package's own names, when they are first asked for",
    "mnrun.cli.main": "the table of verbs",
}
PIPES = {"mnrun.system.commands": "its answer comes from a child that it forked itself, over a pipe without a name"}
# Constants that name a place where every user may write. None of them is opened by Python here.
SHARED = {
    "mnrun.cli.words.answers": "a remedy: containers have the node's /dev/shm",
    "mnrun.diagnosis.programs": "a remedy: df /dev/shm",
    "mnrun.config.options": "the defaults of --podman-root and --stage-dir: nodes check them",
    "mnrun.network.facts": "a remedy: mount -o remount /dev/shm",
    "mnrun.nodes.kit": "the guard makes it with mkdir and checks its owner (guard/guard.sh, shared_memory)",
    "mnrun.planning.plan": "boot.sh makes it with mkdir on the node, and into.sh checks its owner and its file `own`",
    "mnrun.schedulers.slurm.cluster": "a comparison with TMPDIR, which a new job does not take over",
}
# Files of wrappers/ with `eval`.
EVALS = {
    "fetch.sh": "the launcher's script, which came down standard input",
    "start_node.sh": "the words of ranks, which start.sh has quoted and sent down its standard input",
    "words.sh": "shlex.join's quoting, packed by login_shell.py",
}
# Files of wrappers/ with a name in /tmp, /var/tmp or /dev/shm.
PLACES = {
    "clean_env.sh": "a pattern for /proc/self/mountinfo",
    "engine.sh": "PMIx's directories, which must be the user's own and no links",
    "engines.sh": "podman's store, whose owner is checked, and a pattern for mounts",
    "guard.sh": "directories of this user's ended jobs: leftovers.sh checks them. And shared_memory, by mkdir",
    "join_container.sh": "a test whether Apptainer's mark is there: nothing is read",
    "leftovers.sh": "each is entered once, and its owner and its file `own` are checked",
    "network_facts.sh": "a word in the kernel's list of mounts: nothing is read",
    "mps.sh": "the directory of NVIDIA's daemon, in which the kernel names the peer",
    "pull_image.sh": "the base of a directory that mktemp makes",
    "srun_singularity.sh": "a directory by mkdir, whose owner is checked",
    "sweep.sh": "names that this user's step has made; rm follows no link",
    "worker.sh": "a message",
}


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def is_shell(call: ast.Call) -> bool:
    """Return whether a call starts a shell by `shell=`. Program.shell of a job is no such word."""
    words = [keyword.value for keyword in call.keywords if keyword.arg == "shell"]
    return any(isinstance(word, ast.Constant) and word.value is True for word in words)


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield the constant texts of a module but docstrings."""
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield node.value


def evaluating(trees: dict[str, ast.Module]) -> set[str]:
    """Return the modules that make code or objects of a text, or start a shell."""
    found = {
        name for name, tree in trees.items() for called, call in calls(tree) if called in EVALUATING or is_shell(call)
    }
    loaders = {name for name, tree in trees.items() if set(imports(tree)) & set(LOADERS)}
    named = {name for name, tree in trees.items() for called, _ in calls(tree) if called.endswith("import_module")}
    return (found | loaders | named) - set(FIXED) - set(PIPES)


def commands(text: str) -> str:
    """Return a shell text without its comments, whose words nobody runs."""
    return re.sub(r"(^|\s)#.*", "", text, flags=re.MULTILINE)


def test_no_text_becomes_code() -> None:
    """Neither of a node nor of a file; no shell reads words that Python has put together."""
    assert evaluating(TREES) == set()


def test_each_exception_is_needed() -> None:
    """One of the tables above names a module that has mended its ways otherwise."""
    bare = {name for name, tree in TREES.items() for called, _ in calls(tree) if called.endswith("import_module")}
    assert bare == set(FIXED)
    assert {name for name, tree in TREES.items() if "multiprocessing" in imports(tree)} == set(PIPES)


@pytest.mark.parametrize(
    "text",
    [
        "eval(word)",
        "subprocess.run(line, shell=True)",
        "import pickle",
        "from yaml import load",
        "os.system(line)",
        "importlib.import_module(name)",
    ],
)
def test_such_code_would_be_noticed(text: str) -> None:
    """The rule is no rule that nothing can break."""
    assert evaluating({"mnrun.new": ast.parse(text)}) == {"mnrun.new"}


def test_names_where_every_user_may_write_are_known() -> None:
    """Each with the reason that nobody's file there is believed."""
    place = re.compile(r"/(tmp|var/tmp|dev/shm)\b")
    found = {name for name, tree in TREES.items() if any(place.search(text) for text in texts(tree))}
    assert found == set(SHARED)
    named = re.compile(r"\btempfile\.(\w+)")
    functions = {word for tree in TREES.values() for called, _ in calls(tree) for word in named.findall(called)}
    assert functions == {"TemporaryFile", "mkdtemp"}, "a name in /tmp that another user can guess"


def test_wrappers_evaluate_only_what_came_from_us() -> None:
    found = {name for name, path in wrappers().items() if re.search(r"\beval\b", commands(path.read_text()))}
    assert found == set(EVALS)


def test_wrappers_name_only_known_places_of_all_users() -> None:
    place = re.compile(r"(?<![\w}])/(tmp|var/tmp|dev/shm)\b")
    found = {name for name, path in wrappers().items() if place.search(commands(path.read_text()))}
    assert found == set(PLACES)
    assert not [name for name, path in wrappers().items() if re.search(r"mktemp\s+(-\w*u|--dry)", path.read_text())]


def test_wrappers_look_for_processes_by_their_owner_or_parent() -> None:
    """(L8) Every user can give a process any name."""
    looked = re.compile(r"\b(?:pgrep|pkill|pidof|killall)\b(?![^;|)]* -[uP] )")
    assert not [name for name, path in wrappers().items() if looked.search(commands(path.read_text()))]


def test_each_return_of_a_wrapper_has_its_code() -> None:
    """In a trap, a bare `return` has the code of the command before the trap (bash(1), return).

    The guard's `finish` is a trap. So a dead process could count as alive there, and a node without a limit of memory
    told of one.
    """
    bare = re.compile(r"\breturn *($|[;}&|)])", re.MULTILINE)
    assert not [name for name, path in wrappers().items() if bare.search(commands(path.read_text()))]
