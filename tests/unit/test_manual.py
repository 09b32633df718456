"""What is written from the table of options stays equal to it."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from launcher import cli, jobfile, manual, settings
from launcher.options import OPTIONS

from .conftest import Shell
from .texts import Expected

DOCS = Path(__file__).resolve().parents[2] / "docs"


def verbs() -> dict[str, str]:
    """What `mnrun --help` says of each."""
    context = click.Context(cli.main)
    found = {name: cli.main.get_command(context, name) for name in cli.VERBS}
    return {name: verb.get_short_help_str(200) for name, verb in found.items() if verb is not None}


@pytest.mark.parametrize(
    ("name", "write"),
    [("options.md", manual.table), ("mnrun.1", lambda: manual.man(verbs())), ("job.schema.json", manual.schema)],
)
def test_the_documents_are_what_the_table_says(name: str, write: object, expected: Expected) -> None:
    """`pytest tests/unit/test_manual.py --accept` writes them anew."""
    assert callable(write)
    expected(DOCS / name, write())


def test_a_first_job_file_can_be_read() -> None:
    """As it is, and with every one of its lines made live."""
    text = manual.job_file(settings.builtin())
    page = jobfile.Page("job.toml", text, "/here", {})
    assert jobfile.read(page).command == ("./app",)
    live = [
        line[2:].partition("  # ")[0] if " = " in line and line.startswith("# ") else "" for line in text.split("\n")
    ]
    keys = [line.partition(" = ")[0] for line in live if line and not line.startswith("OMP")]
    assert len(keys) == len(set(keys)) == len(OPTIONS) - 4


def test_the_schema_knows_every_key() -> None:
    """So that an editor completes what mnrun takes."""
    schema = json.loads(manual.schema())
    for option in OPTIONS:
        assert option.kind == "env" or {option.key, option.name} <= set(schema["properties"]), option.name


def test_the_man_page_is_one(sh: Shell) -> None:
    """No line of text is taken for a request; man finds nothing to complain of."""
    text = manual.man(verbs())
    requests = {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))}
    assert requests == {".TH", ".SH", ".TP", ".B"}
    assert (
        sh(
            "cat >m.1; ! command -v groff >/dev/null || groff -k -man -ww -Tutf8 m.1 2>&1 >/dev/null",
            stdin=text.encode(),
        )
        == b""
    )
