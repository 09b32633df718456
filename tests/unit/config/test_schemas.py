"""The schemas of mnrun's JSON, and the page about it, stay equal to what mnrun prints."""

from __future__ import annotations

import json

import jsonschema
import pytest

from mnrun.attach import history, standing
from mnrun.images import inspection
from mnrun.jobs import about, state
from mnrun.nodes import survey
from mnrun.planning import show
from mnrun.services import serving
from mnrun.watching import now
from published import SCHEMAS, checked
from unit.config import documents
from unit.config.test_docs import commands
from unit.texts import Expected

ANSWERS: dict[str, tuple[type, ...]] = {
    "status": (state.Jobs,),
    "nodes": (state.Partitions,),
    "check": (survey.Findings,),
    "why": (standing.Running, history.EndedJob),
    "report": (about.Report,),
    "serve": (serving.Serving,),
    "top": (now.Use,),
    "image ls": (inspection.Cache,),
    "image inspect": (inspection.Inspected,),
    "plan": (show.ShownPlan,),
}
WRITTEN = {verb: documents.schema(verb, *kinds) for verb, kinds in ANSWERS.items()}


@pytest.mark.parametrize("verb", ANSWERS)
def test_the_published_schemas_are_those_of_the_code(verb: str, expected: Expected) -> None:
    """`--accept` writes them anew."""
    jsonschema.Draft202012Validator.check_schema(WRITTEN[verb])
    expected(SCHEMAS / f"{verb.replace(' ', '-')}.json", json.dumps(WRITTEN[verb], indent=2, ensure_ascii=False) + "\n")


def test_the_page_shows_all_of_them(expected: Expected) -> None:
    expected(SCHEMAS.parent / "json.md", documents.of_json(WRITTEN))


def test_every_verb_with_json_has_a_schema() -> None:
    spelt = {name: {flag for param in verb.params for flag in param.opts} for name, verb in commands().items()}
    assert {name for name, flags in spelt.items() if "--json" in flags} == set(ANSWERS)
    assert all("--format" in spelt[name] for name in ANSWERS)
    assert {path.stem for path in SCHEMAS.glob("*")} == {verb.replace(" ", "-") for verb in ANSWERS}


@pytest.mark.parametrize(
    "text",
    [
        '{"asked": 0, "jobs": []}',
        '{"version": 2, "asked": 0, "jobs": []}',
        '{"version": 1, "asked": 0, "jobs": [], "more": 1}',
        '{"version": 1, "asked": 0, "jobs": [{"id": "7"}]}',
        '{"version": 1, "asked": 0, "jobs": {}}',
        "[]",
    ],
)
def test_an_answer_of_another_form_is_noticed(text: str) -> None:
    whole = {"version": 1, "asked": 0, "jobs": []}
    assert checked("status", json.dumps(whole)) == whole
    with pytest.raises(jsonschema.ValidationError):
        checked("status", text)
