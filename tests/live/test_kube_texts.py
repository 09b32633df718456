"""Kubernetes 1.20: rights that suffice, texts that the server takes, and MPIJobs with a stand-in of their operator."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from ruamel.yaml import YAML

from unit.schedulers.kubernetes.jobs import JOBS, job, of, templates, written

from .cells import HELLO
from .kube import BARE, LOOK, SECOND, SHAPE, Lab, spoke
from .kube import cluster as cluster
from .kube import lab as lab
from .stage import LOGIN, Cluster, Result, wait_for

pytestmark = SECOND


@pytest.fixture
def rights(lab: Lab) -> Iterator[None]:
    """What `plan --format rbac` writes, and bob with these rights and no others."""
    text = lab.plan("rbac", BARE)
    binding = "rolebinding.rbac.authorization.k8s.io/bobs"
    lab.kubectl("apply", "-f", lab.desk.put("rbac.yaml", text))
    lab.kubectl("create", "rolebinding", "bobs", "--role=mnrun", "--user=bob")
    yield
    lab.kubectl("delete", binding)
    lab.kubectl("delete", "-f", f"{lab.desk.path}/rbac.yaml")


@pytest.mark.usefixtures("rights")
def test_rights_that_suffice(lab: Lab) -> None:
    spoke(lab.mnrun(*SHAPE, "--image", BARE, "--", HELLO, user="bob"))
    job = lab.mnrun("submit", "-n", "2", "--image", BARE, "--", HELLO, user="bob").out.strip()
    assert lab.mnrun("logs", "-f", job, user="bob").out.count("rank ") == 2
    assert lab.mnrun("wait", job, user="bob").code == 0
    assert lab.mnrun("cancel", job, user="bob").code == 0
    lab.wait_gone(job)
    lab.cluster.root(LOGIN, "rm", "-r", f"/home/bob/.mnrun/jobs/{job}")


# Texts


@pytest.fixture(scope="module")
def named_for_all(kube: Cluster) -> Iterator[None]:
    """What the jobs of the unit tests name, beside what is in the namespace. A namespace takes long to go."""
    kube.root(LOGIN, "kubectl", "create", "namespace", "team")
    kube.root(LOGIN, "kubectl", "create", "priorityclass", "high", "--value=1")
    yield
    kube.root(LOGIN, "kubectl", "delete", "namespace/team", "priorityclass/high")


@pytest.fixture
def named(lab: Lab, named_for_all: None) -> Iterator[None]:
    lab.kubectl("create", "serviceaccount", "runner")
    yield
    lab.kubectl("delete", "serviceaccount", "runner")


def known(thing: dict[str, Any]) -> bool:
    """Return whether a server of 1.20 knows such an object. It has no Jobs with an index."""
    return thing["kind"] not in ("JobSet", "TrainJob", "TrainingRuntime", "SecurityContextConstraints", "Job")


@pytest.mark.usefixtures("named")
@pytest.mark.parametrize("form", ["mpijob", "trainjob", "jobset", "job", "pod", "rbac", "pv"])
def test_a_server_takes_each_text(lab: Lab, form: str) -> None:
    """Each object that 1.20 knows, and each template of all as a pod."""
    wanted = ["claims"] if form == "pv" else list(JOBS)
    things = [one for name in wanted for one in written(form, job(**{**of(form), **JOBS[name]}))]
    pods = [
        {"apiVersion": "v1", "kind": "Pod", **one, "metadata": {"name": "app", **one.get("metadata", {})}}
        for one in templates(things)
    ]
    asked = [*filter(known, things), *pods]
    assert asked
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": asked})
    file = lab.desk.put("all.json", text)
    said = lab.cluster.root(LOGIN, "kubectl", "apply", "--dry-run=server", "-f", file)
    assert len(said.splitlines()) == len(asked), said


def test_a_server_refuses_a_wrong_text(lab: Lab) -> None:
    """The test above can fail."""
    (pod,) = written("pod", job(nodes="1"))
    pod["spec"]["containers"][0]["comand"] = []
    file = lab.desk.put("pod.json", json.dumps(pod))
    result = lab.cluster.alice(["kubectl", "create", "--dry-run=server", "-f", file], cwd=lab.desk.path)
    assert result.code == 1, result
    assert "comand" in result.err, result


# MPIJobs, with a stand-in of their operator


def operated(lab: Lab, text: str) -> tuple[str, Result]:
    """Return how an MPIJob has ended, and what its launcher has said."""
    lab.alice("create", "-f", lab.desk.put("mpijob.yaml", text))

    def last() -> str:
        return lab.kubectl("get", "mpijob", "hello", "-o", "jsonpath={.status.conditions[-1:].type}")

    wait_for(lambda: last() in ("Succeeded", "Failed"), "over", 120, last, LOOK)
    how = last()
    said = lab.cluster.alice(["kubectl", "logs", "job/hello-launcher"])
    lab.alice("delete", "mpijob", "hello")
    return how, said


@pytest.mark.parametrize("image", ["ompi5", "ompi4"])
def test_an_mpijob(lab: Lab, image: str) -> None:
    how, said = operated(lab, lab.plan("mpijob", f"localhost/{image}:1", "--", HELLO))
    assert how == "Succeeded", said
    lines = [line for line in said.raw.splitlines(True) if line.startswith(b"rank ")]
    spoke(Result(said.code, b"".join(lines), ""))


def test_an_mpijob_that_does_not_tell_open_mpi_5_its_hosts(lab: Lab) -> None:
    """The operator's variables are of Open MPI 4. All ranks would be in the launcher's pod, with a good end."""
    yaml = YAML()
    tree = yaml.load(lab.plan("mpijob", "localhost/ompi5:1", "--", HELLO))
    first = tree["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    first["env"] = [one for one in first["env"] if one["name"] != "PRTE_MCA_prte_default_hostfile"]
    text = io.StringIO()
    yaml.dump(tree, text)
    how, said = operated(lab, text.getvalue())
    assert how == "Failed", said
    assert "PRTE_MCA_prte_default_hostfile" in said.out, said
    assert HELLO not in said.out
    assert " sum " not in said.out, said
