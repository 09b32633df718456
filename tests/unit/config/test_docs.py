"""What is written from the table of options stays equal to it."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.shell_completion import get_completion_class

from mnrun.cli import main
from mnrun.cli.parsing import JobVerb
from mnrun.config import docs, jobfile, layers
from mnrun.config.options import BY_NAME, OPTIONS
from unit.config import documents
from unit.conftest import Shell
from unit.texts import Expected

DOCS = Path(__file__).resolve().parents[3] / "docs"


def commands() -> dict[str, click.Command]:
    """Every verb by its words: `status`, `profile list`."""
    context = click.Context(main.main, **main.main.context_settings)
    found: dict[str, click.Command] = {}
    for name in main.VERBS:
        verb = main.main.get_command(context, name)
        assert verb is not None
        within = verb.commands if isinstance(verb, click.Group) else {}
        found.update({f"{name} {word}": inner for word, inner in within.items()} or {name: verb})
    return found


def own(verb: click.Command) -> list[click.Option]:
    options = [param for param in verb.params if isinstance(param, click.Option)]
    return [o for o in options if not isinstance(verb, JobVerb) or o.name not in BY_NAME]


def verbs() -> list[documents.Verb]:
    found = []
    for name, verb in commands().items():
        context = click.Context(verb, info_name=name, **verb.context_settings)  # it keeps the help option of the first
        records = [option.get_help_record(context) for option in own(verb)]
        words = [piece for piece in verb.collect_usage_pieces(context) if piece != "[OPTIONS]"]
        found.append(
            documents.Verb(
                " ".join([name, *words]).replace("...", "…"),
                " ".join((verb.help or "").split()),
                {spelt: " ".join(what.removesuffix("[x>=0]").split()) for spelt, what in filter(None, records)},
                isinstance(verb, JobVerb),
            )
        )
    return found


def completion(shell: str) -> str:
    """The text that `mnrun completion SHELL` prints; source() itself would ask bash for its version first."""
    kind = get_completion_class(shell)
    assert kind is not None
    completer = kind(main.main, {}, "mnrun", "_MNRUN_COMPLETE")
    return completer.source_template % completer.source_vars()


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("options.md", lambda: documents.of_verbs("options.md", verbs())),
        ("mnrun.1", lambda: documents.of_verbs("mnrun.1", verbs())),
        ("job.schema.json", docs.schema),
        ("completions/mnrun.bash", lambda: completion("bash")),
        ("completions/_mnrun", lambda: completion("zsh")),
        ("completions/mnrun.fish", lambda: completion("fish")),
    ],
)
def test_the_documents_are_what_the_table_says(name: str, write: object, expected: Expected) -> None:
    """`pytest tests/unit/config/test_docs.py --accept` writes them anew."""
    assert callable(write)
    expected(DOCS / name, write())


@pytest.mark.parametrize(("document", "begin"), [("options.md", "\n| `"), ("mnrun.1", "\n.TP\n.B ")])
def test_every_verb_and_each_of_its_options_is_written_down(document: str, begin: str) -> None:
    text = (DOCS / document).read_text(encoding="utf-8").replace("\\-", "-")
    names = list(commands())
    for name, following in zip(names, [*names[1:], ""]):
        verb = commands()[name]
        _, found, rest = text.partition(begin + name)
        assert found, name
        mine = rest.partition(begin + following)[0] if following else rest
        for option in (param for param in verb.params if isinstance(param, click.Option) and not param.hidden):
            where = mine if option in own(verb) else text
            assert all(flag in where for flag in option.opts), (name, option.name)


def test_a_first_job_file_can_be_read() -> None:
    text = docs.job_file(layers.builtin())
    page = jobfile.TomlFile("job.toml", text, "/here", {})
    assert jobfile.read(page).command == ("./app",)
    live = [
        line[2:].partition("  # ")[0] if " = " in line and line.startswith("# ") else "" for line in text.split("\n")
    ]
    keys = [line.partition(" = ")[0] for line in live if line and not line.startswith("OMP")]
    assert len(keys) == len(set(keys)) == len(OPTIONS) - 2  # image and env are live as they are


def test_the_schema_knows_every_key() -> None:
    schema = json.loads(docs.schema())
    for option in OPTIONS:
        assert option.kind == "env" or {option.key, option.name} <= set(schema["properties"]), option.name


def test_the_man_page_is_one(sh: Shell) -> None:
    text = documents.of_verbs("mnrun.1", verbs())
    requests = {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))}
    assert requests == {".TH", ".SH", ".TP", ".B", ".RS", ".RE", ".PP"}
    assert (
        sh(
            "cat >m.1; ! command -v groff >/dev/null || groff -k -man -ww -Tutf8 m.1 2>&1 >/dev/null",
            stdin=text.encode(),
        )
        == b""
    )


def test_the_schema_knows_slurms_own_kinds_of_exclusive() -> None:
    kind = json.loads(docs.schema())["$defs"]["exclusive"]
    assert (kind["type"], kind["enum"]) == (["boolean", "string"], [True, False, "user", "mcs", "topo"])
