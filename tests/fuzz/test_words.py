"""Words and variables on their way to a program, through each shell and program that reads them in between."""

from __future__ import annotations

import csv
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from mnrun import environment
from mnrun.files import wrapper
from mnrun.jobspec import Mount, Variable
from mnrun.model import Container, Phase
from mnrun.nodes import kit
from mnrun.planning import commands
from mnrun.planning.values import Surroundings
from mnrun.reach import login_shell
from mnrun.runtimes import RUNTIMES
from mnrun.schedulers import VARIABLES
from unit.conftest import ADVERB, Shell
from unit.decoys import Decoys
from unit.planning.test_script import called, handed_over, written
from unit.samples import SITE, build, make
from unit.wrappers.node import Node
from unit.wrappers.test_engine import Node as Engine
from unit.wrappers.test_guard import function
from unit.wrappers.test_pipe import Asking
from unit.wrappers.test_pipe import asking as asking
from unit.wrappers.test_pipe import home as home

from .cases import answer, cases
from .texts import NAME, TEXT, VALUE, WORD, texts

# Names that a shell, a loader or a scheduler reads itself.
KNOWN = (
    *("IFS", "PATH", "HOME", "ENV", "PS4", "OPTIND", "LINENO", "RANDOM", "SECONDS", "GROUPS", "PWD", "LC_ALL", "UID"),
    *("SLURM_JOB_ID", "PMIX_RANK", "LD_PRELOAD", "OMPI_MCA_btl", "NCCL_DEBUG", "BASH_ENV", "MNRUN_X", "I_MPI_ROOT"),
)
NAMES = st.one_of(NAME, st.sampled_from(KNOWN)).filter(lambda name: name != "_")
FREE = NAMES.filter(lambda name: not environment.owner(name))
MANY = st.lists(WORD, min_size=10, max_size=40)
SHELLS = ("sh", "bash")
TELL = 'printf "%s\\0" "$@"'


def split(said: bytes) -> list[str]:
    return [os.fsdecode(word) for word in said.split(b"\0")[:-1]]


@pytest.mark.parametrize("shell", SHELLS)
@cases(cost=20, variables=st.dictionaries(FREE, VALUE, min_size=5, max_size=30))
def test_variables_come_back_from_a_shells_file(
    sh: Shell, tmp_path: Path, shell: str, variables: dict[str, str]
) -> int:
    text = environment.exports(Variable(*pair) for pair in variables.items())
    (tmp_path / "user.env").write_text(text, encoding="utf-8", errors="surrogateescape")
    said = dict(pair.split("=", 1) for pair in split(sh(". ./user.env; exec /usr/bin/env -0", shell=shell)))
    assert {name: said.get(name) for name in variables} == variables
    return len(variables)


@pytest.mark.parametrize("shell", SHELLS)
@cases(cost=20, words=MANY)
def test_words_come_back_from_any_login_shell(sh: Shell, shell: str, words: list[str]) -> int:
    line = login_shell.line(("sh", "-c", TELL, "sh", *words))
    assert split(sh(line, shell=shell)) == words
    return len(words)


@pytest.mark.parametrize("shell", SHELLS)
@cases(cost=20, words=MANY)
def test_words_come_back_from_the_file_of_other_nodes(sh: Shell, shell: str, words: list[str]) -> int:
    text = wrapper("start.sh")
    quoted = text[text.index("quoted() {") :].partition("\n}\n")[0] + "\n}"
    script = f"""{quoted}
line=$(quoted "$@"; echo .)
eval "set -- ${{line%.}}"
{TELL}"""
    assert split(sh(script, *words, shell=shell)) == words
    return len(words)


UNPACK = f"""set -euo pipefail
LC_ALL=C
mnrun_fail() {{ echo "$1" >&2; exit 1; }}
mnrun_unpack{wrapper("boot.sh").partition("mnrun_unpack")[2].partition(chr(10) + "}" + chr(10))[0]}
}}
rm -rf node; mkdir node; cd node
mnrun_unpack; cat"""


@cases(
    cost=20, contents=st.dictionaries(st.sampled_from("abcdef"), st.lists(WORD, max_size=20).map("\n".join), min_size=1)
)
def test_files_come_back_from_the_kit(sh: Shell, tmp_path: Path, contents: dict[str, str]) -> int:
    assert sh(UNPACK, shell="bash", stdin=kit.pack(contents) + b"go\n") == b"go\n"
    assert {name: os.fsdecode((tmp_path / "node" / name).read_bytes()) for name in contents} == contents
    return len(contents)


LATER = f"""LC_ALL=C
{function("listen")}{function("text")}
mnrun_silence= mnrun_beat=
declare -A mnrun_later=()
while listen; do
  {wrapper("guard.sh").partition("file | file+)")[2].partition(";;")[0]}
done"""


@cases(cost=20, contents=st.lists(WORD, min_size=1, max_size=60).map("\n".join), long=st.integers(0, 9000))
def test_files_come_back_from_the_lease(sh: Shell, tmp_path: Path, contents: str, long: int) -> None:
    text = contents + "\\" * long + contents
    files = {"empty": "", "user.env": text, "nodes": contents}
    writes = kit.later_files(files)
    assert max(map(len, writes)) <= 4096
    for name in files:
        (tmp_path / name).unlink(missing_ok=True)
    sh(LATER, shell="bash", stdin=b"".join(writes))
    assert {name: os.fsdecode((tmp_path / name).read_bytes()) for name in files} == files


@pytest.mark.parametrize("shell", SHELLS)
@cases(cost=20, words=MANY, variables=st.dictionaries(NAME, VALUE, max_size=10))
def test_words_and_variables_come_back_from_a_rank(
    sh: Shell, tmp_path_factory: pytest.TempPathFactory, shell: str, words: list[str], variables: dict[str, str]
) -> int:
    given = {name: value for name, value in variables.items() if not environment.owner(name) and name != "_"}
    node = Node(sh, tmp_path_factory.mktemp("rank") / "mnrun.7-abcdef")
    node.fill(1, script="job.sh", env=tuple(f"{name}={value}" for name, value in given.items()))
    script = f"{TELL}; exec env -0"
    said = split(node.run("rank.sh", "sh", "-c", script, "sh", *words, shell=shell))
    assert said[: len(words)] == words
    assert {f"{name}={value}" for name, value in given.items()} <= set(said[len(words) :])
    return len(words) + len(given)


@pytest.mark.parametrize("bash", [False, True], ids=["dash", "bash"])
@cases(cost=100, words=MANY)
def test_words_come_back_through_the_pipe(asking: Asking, home: Path, bash: bool, words: list[str]) -> int:
    """ssh's way: one text, which the other side's shell reads."""
    for name in ("bin/sh", "self", "nodes", "up", "across", "idle"):
        (home / name).unlink(missing_ok=True)
    line = shlex.join(["printf", "%s.", *(word.encode("utf-8", "surrogateescape").hex() for word in words)])
    odd = shlex.join(["printf", "%s\\0", *words])
    (home / "odd").write_bytes(os.fsencode(odd))
    said = asking(f'sh ./pipe_ssh.sh -n n1 "$(cat odd; echo " ;")" | od -An -v -tx1; {line}', bash=bash)
    sent = bytes.fromhex("".join(said[:-1]).replace(" ", ""))
    assert split(sent) == words
    assert said[-1] == "".join(f"{os.fsencode(word).hex()}." for word in words)
    return len(words)


@cases(cost=20, words=MANY, variables=st.dictionaries(FREE, VALUE, max_size=10))
def test_words_and_variables_come_back_from_a_batch_script(
    sh: Shell, words: list[str], variables: dict[str, str]
) -> int:
    env = tuple(f"{name}={value}" for name, value in variables.items())
    text = written("./app", *words, env=env, container_args=tuple(map(shlex.quote, words[:5])))
    said = called(sh, text)
    assert said[said.index("--") + 1 :] == ["./app", *words]
    options = said[: said.index("--")]
    assert handed_over(sh, text) == list(env)
    args = [shlex.split(word.partition("=")[2]) for word in options if word.startswith("--container-args=")]
    assert args == [[word] for word in words[:5]]
    return len(words) + len(env)


@cases(words=st.lists(WORD, min_size=1, max_size=20), mode=st.sampled_from(["outside-in", "inside-out"]))
def test_words_stand_as_they_are_in_sruns_argv(words: list[str], mode: str) -> None:
    """srun gets words, and no shell reads them."""
    given: Any = {"launcher": "srun"} if mode == "outside-in" else {}
    plan = make(build("./app", *words, mode=mode, **given), 2, 2)
    argv = commands.carry(plan, SITE)[Phase.RUN].argv
    assert argv[0] == "srun"
    assert list(argv[-len(words) :]) == words


@cases(cost=40, words=MANY, values=st.lists(VALUE, max_size=5))
def test_words_come_back_from_docker(
    sh: Shell, tmp_path_factory: pytest.TempPathFactory, decoys: Decoys, words: list[str], values: list[str]
) -> int:
    node = Engine(sh, tmp_path_factory.mktemp("docker"), decoys.without)
    node.fill("docker")
    node.program("docker", f"case $1 in info) ;; *) {TELL} ;; esac")
    variables = {f"OMPI_{number}": value for number, value in enumerate(values)}
    script = f'{ADVERB} ./engine.sh docker run "$@"'
    environ = {"PATH": f"{node.bin}:{decoys.without}", **variables}
    said = split(sh(f"cd {node.path}\n{script}", *words, shell="bash", environ=environ))
    assert said[-len(words) :] == words
    assert {said[at + 1] for at, word in enumerate(said[: -len(words)]) if word == "-e"} >= set(variables)
    return len(words)


SOURCES = ("/data", "data:/d:ro", "./a b:/x", "/a:/b:rw", "1:2", "/a,b", "~/x", "/a:b:/c")


@cases(word=texts(*SOURCES))
def test_any_mount_is_right_or_refused(word: str) -> None:
    """A word of its own gives the same, and docker reads the same from CSV."""
    around = Surroundings("/home/alice/run", "/home/alice", {}, {})
    found = answer(lambda: around.mount(word), 2)
    if found is None:
        return
    assert around.mount(str(found)) == Mount(found.source, found.target or found.source, found.options)
    container = Container("app", (found,), "", "/")
    for runtime in ("docker", "podman"):
        words = RUNTIMES[runtime].node(container)
        (fields,) = csv.reader([words[words.index("--mount") + 1]])
        pairs = dict(field.partition("=")[::2] for field in fields)
        assert (pairs["source"], pairs["target"]) == (found.source, found.target or found.source)
        assert ("readonly" in pairs) == (found.options == "ro")
    words = RUNTIMES["apptainer"].node(container)
    assert words[words.index("--bind") + 1].split(":")[:2] == [found.source, found.target or found.source]


@cases(cost=20, names=st.lists(NAMES, min_size=10, max_size=60))
def test_a_node_removes_the_same_variables(sh: Shell, tmp_path: Path, names: list[str]) -> int:
    rules = environment.all_rules(VARIABLES)
    (tmp_path / "rules.sh").write_text(environment.rules_script(VARIABLES))
    contexts = [f"{context}{bare}" for context in environment.CONTEXTS for bare in ("", environment.BARE)]
    test = "if [[ ${pair#*=} == $mnrun_removed ]]; then echo 1; else echo 0; fi"
    script = f'. ./rules.sh; for pair; do removed "${{pair%%=*}}"; {test}; done'
    pairs = [(context, name) for context in contexts for name in names]
    said = sh(script, *(f"{context}={name}" for context, name in pairs), shell="bash").decode().split()
    assert [word == "1" for word in said] == [environment.dropped(name, context, rules) for context, name in pairs]
    return len(names)


@cases(words=st.lists(texts("-x", "--env=A=1", "A=secret", "-xB=2", "--", "./app"), max_size=8))
def test_no_value_of_a_variable_is_shown(words: list[str]) -> None:
    shown = environment.masked(words)
    assert len(shown) == len(words)
    typed = words[: words.index("--")] if "--" in words else words
    for before, word, masked in zip(["", *typed], typed, shown):
        name, equals, value = word.removeprefix("-x").removeprefix("--env=").partition("=")
        if before in ("-x", "--env") and equals and value and environment.NAME.match(word.partition("=")[0]):
            assert masked == f"{name}=…"


@cases(text=TEXT)
def test_any_words_for_the_runtime_are_split_or_refused(text: str) -> None:
    answer(lambda: build("./app", container_args=(text,), mpi_args=(text,)), 2, 122)


def test_the_tables_of_shells_are_met(sh: Shell) -> None:
    """sh and bash are two programs here, or one of them was not tried."""
    said: Any = [sh("echo ${BASH_VERSION-}", shell=shell) for shell in SHELLS]
    assert said[1].strip()
