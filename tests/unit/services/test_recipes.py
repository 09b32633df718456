"""Each row of services is a job, and files may add rows or replace ours."""

from __future__ import annotations

import json

import pytest

from mnrun.config import load
from mnrun.config.jobfile import TomlFile, services
from mnrun.errors import UsageError
from mnrun.jobspec import JobSpec, Layer
from mnrun.planning import spec
from mnrun.planning.values import Surroundings
from mnrun.services import recipes
from unit.texts import Refused

HERE = "/home/alice"


def job(service: str, *words: str, file: str = "", **given: object) -> JobSpec:
    sources = load.read({"image": "a.sif", "scheduler": "slurm", **given}, file, {}, HERE, HERE, service)
    settled = load.gather(sources, {})
    return spec.build(settled.settings, recipes.joined(settled.service, words), Surroundings(HERE, HERE, {}, {}))


@pytest.mark.parametrize("name", recipes.ROWS)
def test_each_row_is_a_job(name: str) -> None:
    found = job(name, "--x", "MODEL")
    assert found.program.command[-2:] == ("--x", "MODEL")
    assert any("{port}" in word for word in found.program.command)
    assert (found.start.launcher, found.resources.ntasks_per_node) == ("env", 1)
    assert found.service.ready.startswith("/")
    assert bool(found.service.token) == (name in ("jupyter", "vllm"))
    assert "127.0.0.1" in " ".join(found.program.command) or name == "digits"


def test_a_job_has_the_name_of_its_service() -> None:
    for given, name in (({}, "vllm"), ({"job_name": "mine"}, "mine")):
        sources = load.read({"image": "a.sif", "scheduler": "slurm", **given}, "", {}, HERE, HERE, "vllm")
        assert load.gather(sources, {}).settings["job_name"].value == name


@pytest.mark.parametrize(
    ("words", "whole"),
    [
        (("MODEL", "-x", "1"), ("serve", "MODEL", "--port", "-x", "1")),
        (("--config", "a.yaml"), ("serve", "--port", "--config", "a.yaml")),
        ((), ("serve", "--port")),
    ],
)
def test_the_first_word_has_its_place(words: tuple[str, ...], whole: tuple[str, ...]) -> None:
    assert recipes.joined(("serve", "{word}", "--port"), words) == whole


def test_a_program_of_ones_own() -> None:
    found = job("", "./server", "{port}", ready="http://{head}:8000/health", idle="30m")
    assert found.program.command == ("./server", "{port}")
    assert found.service.address == ("{head}", 8000, "/health")
    assert (found.service.idle, found.service.ready_timeout) == (1800, 600)


def test_files_add_rows_and_lines_win(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("here") / "job.toml"
    row = {"command": ["notes", "--port={port}"], "ready": "/up", "token": "NOTES_KEY"}
    lines = ["idle = '1h'", "[services.notes]", *(f"{key} = {json.dumps(value)}" for key, value in row.items())]
    path.write_text("\n".join([*lines, "[services.jupyter]", 'command = ["jupyter-lab"]']))
    found = job("notes", "--verbose", file=str(path), token="KEY")
    assert found.program.command == ("notes", "--port={port}", "--verbose")
    assert (found.service.ready, found.service.token, found.service.idle) == ("/up", "KEY", 3600)
    assert job("jupyter", file=str(path)).program.command == ("jupyter-lab",)


@pytest.mark.parametrize(
    ("service", "given"),
    [
        ("nonsense", {}),
        ("", {"ready": "health"}),
        ("", {"ready": "https://{head}/health"}),
        ("", {"page": "lab"}),
        ("", {"busy": "kernels busy"}),
        ("", {"token": "NO-NAME"}),
        ("", {"idle": "soon"}),
    ],
)
def test_what_is_no_service(refused: Refused, service: str, given: dict[str, str]) -> None:
    with refused(UsageError):
        job(service, "./server", **given)


def test_a_profile_is_parsed_more_than_once() -> None:
    page, tables = TomlFile("config.toml", "", "/", {}, Layer.DEFAULTS), {"services": {"notes": {"command": ["notes"]}}}
    for _ in range(2):
        assert services({**tables}, page)["notes"].command == ("notes",)
