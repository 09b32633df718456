"""Job files: what each line means, and the one line that is said of a wrong one."""

from __future__ import annotations

import random
from ast import literal_eval
from collections.abc import Mapping

import pytest

from mnrun.config import jobfile
from mnrun.config.jobfile import JobFile, TomlFile
from mnrun.errors import UsageError
from mnrun.jobspec import Layer
from unit.cases import Cases
from unit.samples import RECORDED, origin
from unit.texts import Refused, Says


def page(text: str, environ: Mapping[str, str] = {}) -> TomlFile:  # read only
    return TomlFile(
        "job.toml",
        text,
        "/home/alice/run",
        {"SCRATCH": "/scratch/alice", "HOME": "/home/alice", "NAME": "alice", **environ},
    )


def read(text: str, environ: Mapping[str, str] = {}) -> JobFile:  # read only
    return jobfile.read(page(text, environ))


def refusal(text: str) -> str:
    with pytest.raises(UsageError) as wrong:
        read(text)
    assert wrong.value.code == 2
    assert "\n" not in str(wrong.value)
    return str(wrong.value)


def test_texts(cases: Cases) -> None:
    """Each setting with its line. A path is relative to the file, and `${X}` is filled in where a value is a path."""

    def settings(text: str) -> tuple[str, ...]:
        found = read((RECORDED / text).read_text() if text == "job.toml" else literal_eval(text))
        said = (f"{name} = {one.value!r} ({one.origin})" for name, one in found.settings.items())
        return (*said, *([f"command = {found.command!r}"] if found.command else []))

    cases(settings)


@pytest.mark.parametrize(
    "text", ["[env]\nTOKEN = ['very-secret']", "[env]\nTOKEN = { a = 'very-secret' }", "[env]\n'A-B' = 'very-secret'"]
)
def test_no_message_holds_a_variables_value(text: str) -> None:
    said = refusal(text)
    assert said.startswith("job.toml line 2: ")
    assert "very-secret" not in said


def test_what_is_nested_too_deeply(says: Says) -> None:
    says(refusal("a = " + "[" * 3000 + "]" * 3000))


def test_an_empty_table_says_nothing() -> None:
    assert read("[env]\n[container]\n[slurm]\n") == JobFile({})


def test_a_long_list_is_read_at_once() -> None:
    text = "bind = [\n" + "".join(f'  "/data/{n}:/data/{n}:ro",\n' for n in range(5000)) + "]\nnodes = 2\n"
    found = read(text).settings
    assert found["nodes"].origin.text == "job.toml line 5003"
    assert len(found["bind"].value) == 5000  # type: ignore[arg-type]


def test_any_text_is_answered() -> None:
    parts = [
        *("[", "]", "=", '"', "'", '"""', "\n", "a", "nodes", "1", ".", "env", "{", "}", ",", "#", "\t", "\\", "é"),
        *("\r", "\0"),
    ]
    lots = random.Random(4)
    for _ in range(3000):
        text = "".join(lots.choices(parts, k=lots.randint(1, 14)))
        try:
            read(text)
        except UsageError as wrong:
            assert "job.toml" in str(wrong), text
            assert "\n" not in str(wrong), text


def test_a_profiles_origin_is_its_name_alone(refused: Refused) -> None:
    profile = TomlFile("profile here", "nodes = 2\nkeep = 'x'", "/etc", {}, layer=Layer.PROFILE)
    assert jobfile.layer({"nodes": 2}, profile)["nodes"].origin.text == "profile here"
    with refused(UsageError):
        jobfile.layer({"keep": "x"}, profile)


def test_outputs_in_a_profile_begin_where_a_job_is_handed_in() -> None:
    text = 'output = "logs/%j.out"\nerror = "~/%j.err"\nsplit_output = "apart"\nbind = ["data:/data"]'
    profile = TomlFile("profile here", text, "/etc/mnrun/profiles", {"HOME": "/home/alice"}, layer=Layer.DEFAULTS)
    found = {name: said.value for name, said in jobfile.layer(jobfile.load(profile), profile).items()}
    assert found == {
        "output": "logs/%j.out",
        "error": "/home/alice/%j.err",
        "split_output": "apart",
        "bind": ("/etc/mnrun/profiles/data:/data",),
    }


def test_a_command_is_one_and_a_job_files(refused: Refused, says: Says) -> None:
    says(refusal('command = ["a"]\n[x]\ncommand = ["b"]'))
    profile = TomlFile("/etc/config.toml", 'command = ["a"]', "/etc", {}, layer=Layer.DEFAULTS)
    with refused(UsageError):
        jobfile.layer(jobfile.load(profile), profile)


@pytest.mark.parametrize("table", ["", "[slurm]\n"])
def test_exclusive_in_slurms_words(table: str, says: Says) -> None:
    more = "[slurm]\n" if not table else ""
    found = read(f'{table}exclusive = "user"\n{more}spread_job = true').settings
    assert found["slurm"].words == (
        ("exclusive=user", origin(f"job.toml line {2 if table else 1}")),
        ("spread-job", origin("job.toml line 3")),
    )
    says(refusal('exclusive = "x"'))
