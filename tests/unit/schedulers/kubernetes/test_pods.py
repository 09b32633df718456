"""The pods of a job: fields, refusals and doubts."""

from __future__ import annotations

from mnrun.schedulers.kubernetes import pods
from unit.cases import Cases, given

from .jobs import asked, job


def fields(words: str, path: str) -> str:
    """Return a field of the pod and its origin. In its path, | stands for the / of a name."""
    request = asked(job(**{"kubernetes": (), **given(words)}))
    tree = pods.explained(request.spec, request.layout, request.own)
    place = tuple(int(part) if part.isdecimal() else part.replace("|", "/") for part in path.split("/"))
    value = pods.plain(tree)
    for part in place:
        value = value[part] if isinstance(part, int) else value.get(part)
        if value is None:
            return "-"
    return f"{value}  # {dict(pods.leaves(tree)).get(place, pods.Said('', '')).why}"


def test_fields(cases: Cases) -> None:
    cases(fields)


def test_doubts(cases: Cases) -> None:
    def doubts(words: str) -> str:
        request = asked(job(**{"kubernetes": (), **given(words)}))
        return "; ".join(f"{one.code}: {one.text}" for one in pods.doubts(request.spec, request.own)) or "none"

    cases(doubts)
