"""The objects that mnrun submit makes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import Impossible, SchedulerError, UsageError
from mnrun.planning import script
from mnrun.planning.layout import lay_out
from mnrun.schedulers.kubernetes import answers, kubectl, submit
from mnrun.schedulers.vocabulary import is_id
from unit.schedulers.kubernetes.jobs import CLAIMS, job

IMAGE = "launcher_image=site/mnrun:1"
SERVICE = {"nodes": "1", "launcher": "env", "ready": "/", "kubernetes": IMAGE}


def made(**options: Any) -> tuple[str, list[dict[str, Any]]]:
    """Return the name of a job, and its objects."""
    spec = job("./app", **options)
    layout = lay_out(spec, None)
    named, text = submit.objects(spec, layout, "mnrun submit", script.call(spec, layout))
    return named.batch.text("job_name"), json.loads(text)["items"]


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        ({"nodes": "1"}, ["Pod"]),
        ({"launcher": "env"}, ["Service", "Job"]),
        ({"launcher": "torchrun"}, ["Service", "Job"]),
        ({"kubernetes": "format=mpijob"}, ["MPIJob"]),
        ({"kubernetes": IMAGE}, ["Job", "Secret", "ConfigMap", "Service", "NetworkPolicy", "Job"]),
        (SERVICE, ["Job", "Secret", "ConfigMap", "Service", "NetworkPolicy", "Job"]),
        ({"kubernetes": "format=jobset", "launcher": "env"}, ["JobSet"]),
    ],
)
def test_the_form_of_a_job(options: dict[str, Any], kinds: list[str]) -> None:
    name, items = made(**options)
    assert [item["kind"] for item in items] == kinds
    assert is_id(name)
    assert items[-1]["metadata"]["name"].startswith(name)
    assert {item["metadata"]["labels"][answers.LABEL] for item in items} == {name}
    assert items[-1]["metadata"]["labels"][answers.USER]


def test_each_submission_has_a_name_of_its_own() -> None:
    assert made(nodes="1")[0] != made(nodes="1")[0]


def test_what_cannot_be_submitted() -> None:
    with pytest.raises(UsageError, match="launcher") as refused:
        made()
    assert "containers/mnrun" in refused.value.remedy
    with pytest.raises(UsageError, match="launcher"):
        made(**{**SERVICE, "kubernetes": ()})
    with pytest.raises(Impossible, match="service"):
        made(**{**SERVICE, "kubernetes": "format=pod"})
    with pytest.raises(Impossible, match="mpirun"):
        made(kubernetes="format=jobset")
    with pytest.raises(UsageError, match="yaml"):
        made(kubernetes="format=yaml")
    with pytest.raises(Impossible, match="--output"):
        made(nodes="1", output="all.log")


def test_the_launcher_of_an_mpi_on_several_nodes() -> None:
    """It gets what the job names, and no value of a variable in its words. Nobody can read a secret in the text."""
    options = {"mpi": "openmpi", "env": ("A=1 2",), "bind": ("/data",), "cpus_per_task": "2", "chdir": "/work"}
    _, items = made(kubernetes=IMAGE, **options)
    container = items[0]["spec"]["template"]["spec"]["containers"][0]
    words = container["command"]
    assert words[:5] == ["mnrun", "run", "--as-given", "--scheduler", "kubernetes"]
    assert {"-N", "2", "--mpi=openmpi", "--cpus-per-task=2", "--chdir=/work", "A"} <= {*words}
    assert words[-2:] == ["--", "./app"]
    assert {"name": "A", "value": "1 2"} in container["env"]
    assert not any("1 2" in word for word in words)
    assert "stringData" not in items[1]


class Server:
    """What a server of a version gets. It refuses objects of a kind."""

    def __init__(self, mocker: MockerFixture, minor: str, refuses: str = "") -> None:
        self.made: list[dict[str, Any]] = []
        self.deleted: list[Sequence[str]] = []
        self._minor, self._refuses = minor, refuses
        mocker.patch.object(kubectl, "here", return_value=PLACE)
        mocker.patch.object(kubectl, "remember")
        mocker.patch.object(kubectl, "forget")
        mocker.patch.object(kubectl, "ask", self._ask)
        mocker.patch.object(kubectl, "run", lambda place, words, environ: self.deleted.append(words))

    def _ask(self, place: kubectl.Place, words: Sequence[str], environ: object, text: str = "") -> dict[str, Any]:
        if words[0] == "version":
            return {"serverVersion": {"major": "1", "minor": self._minor}}
        whole = json.loads(text)
        for one in whole.get("items", [whole]):
            if one["kind"] == self._refuses:
                raise SchedulerError("forbidden")
            one["metadata"]["uid"] = f"uid of {one['metadata']['name']}"
            self.made.append(one)
        return dict(whole)

    def submit(self) -> str:
        spec = job("./app", kubernetes=(IMAGE, CLAIMS[1]))
        layout = lay_out(spec, None)
        named, text = submit.objects(spec, layout, "mnrun submit", script.call(spec, layout))
        return submit.submit(text, named, {})[0]


PLACE = kubectl.Place("kubectl", "here", "lab")


@pytest.mark.parametrize(("minor", "nodes"), [("20+", ["Pod", "Pod"]), ("24", ["Job"])])
def test_the_launcher_owns_all_else(mocker: MockerFixture, minor: str, nodes: list[str]) -> None:
    server = Server(mocker, minor)
    name = server.submit()
    _, claim, *rest = server.made
    assert (claim["kind"], claim["metadata"].get("ownerReferences")) == ("PersistentVolumeClaim", None)
    assert [one["kind"] for one in rest] == ["Secret", "ConfigMap", "Service", "NetworkPolicy", *nodes]
    assert {one["metadata"]["ownerReferences"][0]["uid"] for one in rest} == {f"uid of {name}-launcher"}
    assert len(rest[0]["stringData"]["secret"]) == 64
    assert server.deleted == []


@pytest.mark.parametrize("kind", ["Job", "Secret", "NetworkPolicy", "Pod"])
def test_nothing_is_left_of_a_job_that_is_refused(mocker: MockerFixture, kind: str) -> None:
    server = Server(mocker, "20", kind)
    with pytest.raises(SchedulerError):
        server.submit()
    (words,) = server.deleted
    named = words[1].split(",")
    owners = [one for one in server.made if not one["metadata"].get("ownerReferences") and "Claim" not in one["kind"]]
    assert all(f"{one['kind'].lower()}s" in named for one in owners)
    assert words[0] == "delete"
    assert "-l" in words
