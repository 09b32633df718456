"""The objects of a job whose nodes call a launcher."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mnrun.errors import UsageError
from mnrun.planning.layout import lay_out
from mnrun.schedulers.kubernetes import detached, pods
from mnrun.schedulers.kubernetes.objects import Asked

from .jobs import job, wrong

SECRET = "5" * 64
IMAGE = "launcher_image=site/mnrun:1"


def objects(*kubernetes: str, indexed: bool = True, **options: Any) -> list[dict[str, Any]]:
    spec = job(kubernetes=kubernetes, **options)
    own = pods.settings(spec, "1500:1500") | {"name": pods.Said("x-12345", "")}
    made = pods.plain(detached.objects(Asked(spec, lay_out(spec, None), own, "", ("--", "./app"), SECRET)))
    return made if indexed else [*made[:-1], *detached.apart(made[-1])]


@pytest.mark.parametrize("indexed", (True, False))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"time": "1:00:00", "chdir": "/work", "gpus_per_node": "4"},
        {"hardened": True, "kubernetes": (IMAGE, "rdma=rdma/hca", "queue=kueue:q", "namespace=lab")},
    ],
    ids=("plain", "limit", "hardened"),
)
def test_a_server_takes_the_objects(indexed: bool, options: dict[str, Any]) -> None:
    for one in objects(*options.pop("kubernetes", (IMAGE,)), indexed=indexed, **options):
        assert wrong(one) == []


def test_all_but_the_launcher_go_with_it() -> None:
    launcher, *rest = objects(IMAGE)
    assert launcher["metadata"]["name"] == "x-12345-launcher"
    made = {"metadata": {**launcher["metadata"], "uid": "1"}}
    for one in rest:
        owned = detached.owned(one, made)
        assert wrong(owned) == []
        assert owned["metadata"]["ownerReferences"][0]["uid"] == "1" and owned["metadata"]["labels"]["mnrun/job"]


def test_the_secret_is_in_no_pod() -> None:
    found = [one for one in objects(IMAGE) if SECRET in json.dumps(one)]
    assert [one["kind"] for one in found] == ["Secret"]


def test_nodes_have_the_names_that_the_launcher_waits_for() -> None:
    launcher, *_, first, second = objects(IMAGE, indexed=False)
    env = {one["name"]: one.get("value") for one in launcher["spec"]["template"]["spec"]["containers"][0]["env"]}
    names = [name for name, _, _ in json.loads(env["MNRUN_PODS"])["nodes"]]
    assert names == [one["metadata"]["name"] for one in (first, second)]
    assert all(name in one["spec"]["containers"][0]["command"] for name, one in zip(names, (first, second)))


def test_no_image_for_the_launcher() -> None:
    with pytest.raises(UsageError, match="launcher_image"):
        objects()


def test_a_launcher_without_its_secret() -> None:
    with pytest.raises(UsageError, match="no 64 digits"):
        detached.expect("x", ("a",), {"MNRUN_CALLS": "29999 120"})
    detached.expect("x", ("a",), {})
    assert detached.reach("x") is None
