"""A text of Kubernetes as a job file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnrun.errors import UsageError
from mnrun.jobspec import JobSpec
from mnrun.running import submission
from mnrun.schedulers.kubernetes import imports, pods, texts, yamltext
from unit.texts import Expected, Refused

from .jobs import JOBS, asked, job, of, written

PLACE = Path(__file__).parent / "imports"


def of_file(page: str) -> JobSpec:
    """Return the job of a job file."""
    return submission.of_page(page)[0]


def job_file(text: str, source: str) -> tuple[str, list[str]]:
    return yamltext.job_file(text, source, submission.of_page)


@pytest.mark.parametrize("form", ["mpijob", "job", "pod"])
@pytest.mark.parametrize("name", JOBS)
def test_a_text_comes_back_as_its_job(form: str, name: str) -> None:
    first = job(**{**of(form), **JOBS[name]})
    page, left = job_file(yamltext.dump(texts.write(form, asked(first))), "app.yaml")
    assert left == []
    assert written(form, of_file(page)) == written(form, first)


def places(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield each table of an object."""
    if isinstance(tree, dict):
        yield tree
    for inner in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from places(inner)


@pytest.mark.parametrize("form", ["mpijob", "job"])
@pytest.mark.parametrize("name", JOBS)
def test_no_field_is_dropped(form: str, name: str) -> None:
    """A strange field in any table is listed, or in the job file."""
    objects = [one for one in written(form, job(**{**of(form), **JOBS[name]})) if one["kind"] != "Service"]
    for table in [table for one in objects for table in places(one)]:
        table["strange"] = "7"
        found, left = imports.read(objects, submission.of_page)
        assert "strange" in "".join(left) or "strange" in json.dumps(found), table
        del table["strange"]


def test_a_variable_with_the_name_of_a_table() -> None:
    first = job(nodes="1", env=("kubernetes=1", "volume=2"))
    page, left = job_file(yamltext.dump(texts.write("pod", asked(first))), "app.yaml")
    assert left == []
    assert pods.variables(of_file(page)) == pods.variables(first)


@pytest.mark.parametrize("source", sorted(PLACE.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_text_of_somebody_else(source: Path, expected: Expected) -> None:
    """Fields that a job file cannot say are listed, and none is dropped."""
    page, left = job_file(source.read_text(), source.name)
    assert all(f"#   {field}\n" in page for field in left)
    expected(source.with_suffix(".toml"), page)
    of_file(page)


@pytest.mark.parametrize(
    "text", ["", "kind: Service\n", "kind: Pod\n---\nkind: Pod\n", "a: [b", "- a\n", "kind: MPIJob\nspec: 3\n"]
)
def test_no_job(text: str, refused: Refused) -> None:
    with refused(UsageError):
        job_file(text, "app.yaml")
