"""Files that people, sites and mnrun itself write: job files, profiles, variables, records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from pytest_mock import MockerFixture

from mnrun import environment
from mnrun.config import jobfile, profiles
from mnrun.config.jobfile import TomlFile
from mnrun.config.options import OPTIONS
from mnrun.jobs import records
from mnrun.jobspec import Layer
from mnrun.schedulers.queue import Job
from mnrun.schedulers.slurm import queue
from mnrun.schedulers.vocabulary import JobState

from .cases import answer, cases
from .texts import NAME, TEXT, VALUE, lines, texts

KEYS = sorted({option.name for option in OPTIONS} | {"command", "env", "slurm", "site", "policy", "partition", "match"})
JOB = (
    *('image = "app.sif"', "nodes = 2", "ntasks = 8", 'command = ["python", "train.py"]', "[resources]", "[env]"),
    *("[slurm]", 'comment = "a"', "gpus_per_node = 4", 'bind = ["/data:/data:ro", "./x"]', 'time = "1:00:00"', "[[a]]"),
    *('OMP_NUM_THREADS = "4"', "A = false", "exclusive = true", 'output = "${HOME}/out"', "a.b.c.nodes = 1"),
    "t = 12:00:00",
    *("[partition.gpu.env.X]", 'value = "1"', "[match]", 'cluster = "c*"', "[site]", 'modules = ["apptainer"]'),
    "setup = [",
    *('"""', "'''", "]", "{", "}", "0x10", "[policy]", 'mem = "no"', '"a\\nb" = 1', "nodes = 2026-11-23", "inf = nan"),
)
ENVIRON = {"HOME": "/home/alice", "X": "a b"}


def toml(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return "".join(
        letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in json.dumps(value, ensure_ascii=False)
    )


PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
SCALAR = st.one_of(PLAIN, st.booleans(), st.integers(-(2**63), 2**63 - 1))
VALUES = st.recursive(
    SCALAR,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)),
    max_leaves=5,
)


def page(text: str, layer: Layer = Layer.JOB_FILE) -> TomlFile:
    return TomlFile("job.toml" if layer is Layer.JOB_FILE else "profile p", text, "/home/alice/run", ENVIRON, layer)


@cases(rows=lines(JOB))
def test_any_lines_are_a_job_file_or_refused(rows: list[str]) -> None:
    answer(lambda: jobfile.read(page("\n".join(rows))), 2)


@cases(rows=lines(JOB))
def test_any_lines_are_a_profile_or_refused(rows: list[str]) -> None:
    answer(lambda: profiles.parse(profiles.sheet("p", "p.toml", page("\n".join(rows), Layer.PROFILE))), 2)


@cases(tables=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5))
def test_any_values_are_a_job_file_or_refused(tables: dict[str, Any]) -> None:
    text = "".join(f"{key} = {toml(value)}\n" for key, value in tables.items())
    found = answer(lambda: jobfile.read(page(text)), 2)
    assert found is None or all(setting.origin.text.startswith("job.toml") for setting in found.settings.values())


@cases(tables=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5))
def test_any_values_are_a_profile_or_refused(tables: dict[str, Any]) -> None:
    text = "".join(f"{key} = {toml(value)}\n" for key, value in tables.items())
    answer(lambda: profiles.parse(profiles.sheet("p", "p.toml", page(text, Layer.PROFILE))), 2)


@cases(variables=st.dictionaries(NAME, PLAIN, max_size=5), command=st.lists(PLAIN, max_size=5))
def test_variables_and_command_come_back_from_a_job_file(variables: dict[str, str], command: list[str]) -> None:
    rows = [f"{name} = {toml(value)}" for name, value in variables.items()]
    found = jobfile.read(page("\n".join([f"command = {toml(command)}", "[env]", *rows])))
    assert found.command == tuple(command)
    words = found.settings["env"].value if variables else ()
    assert words == tuple(f"{name}={value}" for name, value in variables.items())


@cases(cost=4, depth=st.integers(1, 3000), brackets=st.booleans(), key=st.sampled_from(["nodes", "env", "a"]))
def test_a_deep_file_is_read_or_refused(depth: int, brackets: bool, key: str) -> None:
    answer(lambda: jobfile.read(page(f"{'.'.join(['a'] * depth)}.{key} = 1")), 2)
    answer(lambda: jobfile.read(page(f"{key} = {'[' * depth}{']' * depth}" if brackets else f"[{'a.' * depth}b]")), 2)


@cases(text=texts("${HOME}/x", "$${HOME}", "${X}${NONE}", "$HOME"))
def test_any_text_is_filled_in_or_refused(text: str) -> None:
    answer(lambda: jobfile.expand(text, ENVIRON, "job.toml line 1"), 2)


@cases(variables=st.dictionaries(NAME, VALUE.filter(lambda value: "\n" not in value), max_size=6))
def test_variables_come_back_from_a_file(variables: dict[str, str]) -> None:
    if any(environment.owner(name) for name in variables):
        return
    text = "# made\n" + "".join(f"{name}={value}\n" for name, value in variables.items())
    found = {variable.name: variable.value for variable in environment.read_file(text, "job.env")}
    assert found == {name: value.removesuffix("\r") for name, value in variables.items()}


@cases(rows=lines(("A=1", "B", "# c", "A=x y", "export A=1", "MNRUN_JOB_ID=1", " A=1")))
def test_any_lines_are_variables_or_refused(rows: list[str]) -> None:
    for variable in answer(lambda: environment.read_file("\n".join(rows), "job.env"), 2) or ():
        assert environment.NAME.match(variable.name)
        assert "\0" not in (variable.value or "")


FIELDS = ("id", "name", "time", "code", "why", "nodes", "gpus", "command", "output", "head", "cluster")
ODD = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.just(10**400), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3)),
    max_leaves=5,
)
RECORD = st.one_of(
    st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=6).map(json.dumps),
    texts('{"id": "7", "time": 1}', "[" * 5000),
)


@pytest.mark.parametrize("parse", [records.submitted, records.begun, records.outcome])
@cases(cost=2, text=RECORD)
def test_any_record_of_a_job_is_one_or_none(parse: Callable[[str], object], text: str) -> None:
    parse(text)


@cases(book=st.one_of(RECORD, st.dictionaries(TEXT, ODD).map(json.dumps)), entry=ODD, when=ODD)
def test_any_last_answers_of_slurm_are_used_or_asked_anew(
    mocker: MockerFixture, tmp_path: Path, book: str, entry: Any, when: Any
) -> None:
    asked = queue.UserQueue({}, tmp_path, 30)
    mocker.patch.object(asked, "_ask_jobs", return_value=[Job("7", "a", JobState.RUNNING)])
    (tmp_path / ".mnrun").mkdir(exist_ok=True)
    for text in (
        book,
        json.dumps({asked._answers._site: {"jobs": {"time": when, "failure": None, "entries": [entry]}}}),
    ):
        (tmp_path / ".mnrun" / queue.CACHE).write_text(text, encoding="utf-8", errors="surrogateescape")
        assert [job.id for job in asked.jobs().jobs] == ["7"]
