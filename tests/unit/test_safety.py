"""Rules of the house against unsafe code, over the syntax trees of mnrun and the text of its wrappers.

Each exception stands here with the test that tries it. An exception that nothing needs any more fails, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mnrun.files import wrappers
from unit.test_architecture import LAUNCHER, MODULES, TREES

# Calls and modules by which a text becomes code.
EVALUATING = (
    *("eval", "exec", "compile", "__import__", "execfile", "runpy.run_path", "pty.spawn"),
    *("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
)
LOADERS = ("pickle", "cPickle", "marshal", "shelve", "dill", "yaml", "runpy", "code", "xml", "multiprocessing")
FIXED = {  # import_module of a name that stands in a table of ours
    "mnrun.__init__": "test_the_package_gives_the_interface",
    "mnrun.cli.main": "test_every_line_has_its_answer",  # mnrun help nosuch
    "mnrun.schedulers.__init__": "test_each_scheduler_can_be_named",
}
# A pipe without a name, from a child of its own.
PIPES = {"mnrun.system.commands": "test_a_library_that_hangs_is_left_alone"}
# Calls and results of mnrun.map, in a folder of the user's own.
CALLS = dict.fromkeys(("mnrun.api.mapping", "mnrun.api.task"), "test_nobody_else_writes_a_call")
# Constants that begin with a place where every user may write.
SHARED = {
    "/tmp/mnrun.": "test_stranger_makes_the_directory_first",
    "/dev/shm/": "test_stranger_makes_the_shared_memory_first",
    "/var/tmp": "test_staging_that_cannot_be",
}
SENTENCES = {
    " and /dev/shm/mnrun.",  # for people: no program reads them
    "Directory for Podman's images on each node. Default: /tmp/mnrun-podman.UID.",
    "leave it out: containers use the node's /dev/shm",
    "a full /dev/shm is a common cause, which df /dev/shm shows",
    "/dev/shm is",
    "an admin makes it larger: mount -o remount,size=50% /dev/shm",
}
PODS = {"/dev/shm", "/tmp"}  # mounts of a pod, each of which is the pod's own
# Files of wrappers/ with `eval`.
EVALS = {
    "call.sh": "test_only_who_knows_the_secret_gives_words",
    "fetch.sh": "test_a_script_that_breaks_off_on_its_way",
    "rank.sh": "test_a_rank_gets_the_changes_that_the_runtime_made",
    "start_node.sh": "test_words_reach_every_rank",
    "told.sh": "test_ssh_enters_a_job_and_goes_with_it",
    "words.sh": "test_words_arrive_whatever_the_login_shell_is",
}
# Names in /tmp, /var/tmp and /dev/shm that wrappers make or look up.
PLACES = {
    "/dev/shm/": "test_stranger_makes_the_shared_memory_first",
    "/dev/shm/mnrun.": "test_what_is_left_of_somebody_elses_job_stays",
    "/dev/shm/sharens_instance_": "test_stranger_takes_the_names_of_shared_containers",
    "/tmp/": "test_what_is_left_of_somebody_elses_job_stays",
    "/tmp/mnrun.": "test_what_is_left_of_somebody_elses_job_stays",
    "/tmp/mnrun-podman.": "test_a_place_that_others_may_write_to",
    "/tmp/mnrun.door.": "test_stranger_waits_at_the_door",
    "/tmp/nvidia-mps": "test_stranger_has_a_daemon_of_mps",
    "/tmp/spmix_appdir_": "test_a_directory_beside_it_that_is_somebody_elses_stays",
}
# Files of wrappers/ with a bare /tmp or /dev/shm.
BARE = {
    ("clean_env.sh", "/tmp"): "a pattern for a name in box",
    ("engines.sh", "/tmp"): "a pattern for mounts, and a chmod where the directory is this user's",
    ("gpu_users.sh", "/dev/shm"): "a message",
    ("guard.sh", "/dev/shm"): "a message",
    ("join_container.sh", "/dev/shm"): "a message",
    ("network_facts.sh", "/dev/shm"): "a pattern for the kernel's list of mounts",
    ("step.sh", "/tmp"): "a pattern for /proc/self/mountinfo, and test_stranger_has_a_comma_in_a_name",
    ("pull_image.sh", "/tmp"): "test_stranger_takes_the_name_of_a_pull",
    ("pull_image.sh", "/var/tmp"): "a sum of the sizes of this user's files",
    ("worker.sh", "/dev/shm"): "a message",
}
# The wrappers, and the scripts of schedulers' packages.
SCRIPTS = {**wrappers(), **{path.name: path for path in (LAUNCHER / "mnrun").rglob("*.sh")}}
# Findings of bandit that stay, with their test.
NOSEC = {
    ("mnrun.jobs.notices", "B310"): "test_a_way_that_cannot_be",
    ("mnrun.schedulers.hosts.remote", "B601"): "test_words_on_hosts_of_any_login_shell",
    ("mnrun.cli.shim", "B606"): "test_a_program_gets_its_words_as_they_are",
    ("mnrun.images.cache", "B311"): "test_an_answer_has_a_file_of_its_own",
    **{(name, rule): test for name, test in CALLS.items() for rule in ("B301", "B403")},
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
    """Return whether a call may start a shell by `shell=`."""
    return ast.unparse(call.func).startswith("subprocess.") and any(word.arg == "shell" for word in call.keywords)


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield the constant texts of a module, but docstrings, and the rest of a path: f"{place}/tmp"."""
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values[1:]}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield from () if id(node) in parts and node.value.startswith("/") else (node.value,)


def evaluating(trees: dict[str, ast.Module]) -> set[str]:
    """Return the modules that make code or objects of a text, or start a shell."""
    found = {
        name for name, tree in trees.items() for called, call in calls(tree) if called in EVALUATING or is_shell(call)
    }
    loaders = {name for name, tree in trees.items() if set(imports(tree)) & set(LOADERS)}
    named = {name for name, tree in trees.items() for called, _ in calls(tree) if called.endswith("import_module")}
    return (found | loaders | named) - set(FIXED) - set(PIPES) - set(CALLS)


def commands(text: str) -> str:
    """Return a shell text without its comments, whose words nobody runs."""
    return re.sub(r"(^|\s)#.*", "", text, flags=re.MULTILINE)


def test_no_text_becomes_code() -> None:
    assert evaluating(TREES) == set()


def test_each_exception_is_needed() -> None:
    bare = {name for name, tree in TREES.items() for called, _ in calls(tree) if called.endswith("import_module")}
    assert bare == set(FIXED)
    assert {name for name, tree in TREES.items() if "multiprocessing" in imports(tree)} == set(PIPES)


@pytest.mark.parametrize(
    "text",
    [
        *("eval(word)", "subprocess.run(line, shell=True)", "subprocess.Popen(line, shell=flag)", "import pickle"),
        *("from yaml import load", "os.system(line)", "importlib.import_module(name)"),
    ],
)
def test_such_code_would_be_noticed(text: str) -> None:
    assert evaluating({"mnrun.new": ast.parse(text)}) == {"mnrun.new"}


def test_names_where_every_user_may_write_are_known() -> None:
    place = re.compile(r"/(tmp|var/tmp|dev/shm)\b")
    found = {text for tree in TREES.values() for text in texts(tree) if place.search(text)}
    assert found == {*SHARED, *SENTENCES, *PODS}
    named = re.compile(r"\btempfile\.(\w+)")
    functions = {word for tree in TREES.values() for called, _ in calls(tree) for word in named.findall(called)}
    assert functions == {"TemporaryDirectory", "TemporaryFile", "mkdtemp"}, "a name in /tmp that another user can guess"


def test_each_exception_is_tried() -> None:
    """A fact that nobody has tried excuses nothing (S1)."""
    texts = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    known = set(re.findall(r"^def (test_\w+)", texts, re.MULTILINE))
    tables: tuple[Mapping[Any, str], ...] = (FIXED, PIPES, CALLS, SHARED, EVALS, PLACES, NOSEC)
    assert {test for table in tables for test in table.values()} - known == set()
    assert {reason for reason in BARE.values() if reason.startswith("test_")} - known == set()


def test_what_bandit_may_not_find() -> None:
    """A `nosec` names its rule, and stands in the table above with its test."""
    found = {
        (name, rule) for name, path in MODULES.items() for rule in re.findall(r"# ?nosec\b *(\w*)", path.read_text())
    }
    assert found == set(NOSEC)


def test_wrappers_evaluate_only_what_came_from_us() -> None:
    found = {name for name, path in SCRIPTS.items() if re.search(r"\beval\b", commands(path.read_text()))}
    assert found == set(EVALS)


def test_wrappers_name_only_known_places_of_all_users() -> None:
    place = re.compile(r"(?<![\w}])/(?:tmp|var/tmp|dev/shm)\b(?:/[\w.-]*)?")
    found = {(name, word) for name, path in SCRIPTS.items() for word in place.findall(commands(path.read_text()))}
    assert {word for _, word in found if word.count("/") > 1 + word.startswith(("/dev", "/var"))} == set(PLACES)
    assert {(name, word) for name, word in found if word not in PLACES} == set(BARE)
    assert not [name for name, path in SCRIPTS.items() if re.search(r"mktemp\s+(-\w*u|--dry)", path.read_text())]


def test_wrappers_look_for_processes_by_their_owner_or_parent() -> None:
    """(L8) Every user can give a process any name."""
    looked = re.compile(r"\b(?:pgrep|pkill|pidof|killall)\b(?![^;|)]* -[uP] )")
    assert not [name for name, path in SCRIPTS.items() if looked.search(commands(path.read_text()))]


def test_each_return_of_a_wrapper_has_its_code() -> None:
    bare = re.compile(r"\breturn *($|[;}&|)])", re.MULTILINE)
    assert not [name for name, path in SCRIPTS.items() if bare.search(commands(path.read_text()))]
