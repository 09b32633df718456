"""The texts of a job: what a server, an operator and bash make of them."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Any

import pytest

from mnrun.schedulers.kubernetes import pods, texts, yamltext
from unit.cases import Cases, given
from unit.conftest import Shell
from unit.texts import Expected

from .jobs import CRDS, JOBS, asked, job, of, templates, written, wrong

FORMS = tuple(form for form in texts.FORMS if form != "statefulset")
NEEDING = {"pv": ("claims",)}  # a form -> the jobs that it suits


def jobs_of(form: str) -> list[str]:
    return list(NEEDING.get(form, JOBS))


@pytest.mark.parametrize("form", FORMS)
def test_a_server_takes_each_text(form: str) -> None:
    found = {
        name: [bad for one in written(form, job(**{**of(form), **JOBS[name]})) for bad in wrong(one)]
        for name in jobs_of(form)
    }
    assert {name: bad for name, bad in found.items() if bad} == {}


def test_a_server_would_refuse_other_fields() -> None:
    """The schemas are strict."""
    (pod,) = written("pod", job(nodes="1"))
    pod["spec"]["containers"][0]["comand"] = []
    assert wrong(pod)


@pytest.mark.skipif(not CRDS, reason="MNRUN_CRDS names no folder with the operators' definitions")
@pytest.mark.parametrize("form", ["mpijob", "trainjob", "jobset"])
def test_an_operators_definition_is_strict(form: str) -> None:
    one = written(form, job(**of(form)))[-1]
    one["spec"]["runPolicies"] = {}
    assert wrong(one)


def test_mpi_operators_own_rules() -> None:
    """Those of pkg/apis/kubeflow/validation in mpi-operator 0.8.2, which no schema has."""
    for options in JOBS.values():
        one = written("mpijob", job(**options))[-1]
        spec, name = one["spec"], one["metadata"]["name"]
        launcher, worker = (spec["mpiReplicaSpecs"][role] for role in ("Launcher", "Worker"))
        last = f"{name}-worker-{worker['replicas'] - 1}"
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", last) and len(last) <= 63
        assert launcher["replicas"] == 1 and worker["replicas"] >= 1 and spec["slotsPerWorker"] >= 1
        assert {launcher["restartPolicy"], worker["restartPolicy"]} <= {"Never", "OnFailure"}
        assert spec["runPolicy"]["cleanPodPolicy"] in ("None", "Running", "All")
        assert spec["runPolicy"]["backoffLimit"] >= 0 and spec["mpiImplementation"] in ("OpenMPI", "Intel", "MPICH")
        assert spec["sshAuthMountPath"] and all(one["spec"]["containers"][0]["image"] for one in templates(spec))


def shown(form: str, name: str, options: dict[str, Any]) -> str:
    """Return a text with the names of mnrun's scripts in their place."""
    scripts = {
        texts.script(one)[-2]: f"<{one}>" for one in ("pod_launch.sh", "pod_sshd.sh", "pod_rank.sh", "pod_ranks.sh")
    }

    def short(tree: Any) -> Any:
        if isinstance(tree, pods.Said):
            return pods.Said(short(tree.value), tree.why)
        if isinstance(tree, dict):
            return {key: short(value) for key, value in tree.items()}
        return (
            list(map(short, tree))
            if isinstance(tree, list)
            else scripts.get(tree, tree)
            if isinstance(tree, str)
            else tree
        )

    return yamltext.dump([short(one) for one in texts.write(form, asked(job(**{**of(form), **options})))])


@pytest.mark.parametrize("form", FORMS)
def test_accepted_texts(form: str, expected: Expected) -> None:
    """The text of the first job whole, and of the others the lines that differ from it."""
    first, *others = jobs_of(form)
    whole = shown(form, first, JOBS[first])
    parts = [f"# {form} of the job {first}\n\n```yaml\n{whole}```\n"]
    for name in others:
        lines = difflib.unified_diff(whole.splitlines(), shown(form, name, JOBS[name]).splitlines(), n=0, lineterm="")
        changed = [re.sub("^@@.*", "@@", line) for line in lines if not line.startswith(("---", "+++"))]
        parts.append(f"\n## {name}\n\n```diff\n" + "\n".join([*changed, "```"]) + "\n")
    expected(Path(__file__).parent / "texts" / f"{form}.md", "".join(parts))


def test_refused(cases: Cases) -> None:
    """What a form cannot say is refused by name, with a remedy."""

    def answer(form: str, words: str) -> str:
        options = {"kubernetes": (), **given(words)}
        command = str(options.pop("command", "./app")).split()
        return " ".join(one["kind"] for one in written(form, job(*command, **options)))

    cases(answer)


# In real bash

HOSTS = "app-worker-0.app.ns.svc slots=2\napp-worker-1.app.ns.svc slots=2\n"


class Pod:
    """The launcher's pod: its hostfile, its keys, and an ssh that reaches some hosts."""

    def __init__(self, sh: Shell, place: Path) -> None:
        self._sh, self._place = sh, place
        (place / "bin").mkdir()
        (place / "id_rsa").write_text("key")
        self.ssh('echo "$@" >>asked')
        self.program("mpirun", 'echo "$@"; env | grep -E "^(PRTE|OMPI)_MCA" | sort')

    def program(self, name: str, text: str) -> None:
        path = self._place / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def ssh(self, text: str) -> None:
        self.program("ssh", text)

    def launch(self, hosts: str, code: int = 0, seconds: int = 30, program: str = "mpirun") -> str:
        (self._place / "hostfile").write_text(hosts)
        words = texts.script("pod_launch.sh", "4", str(seconds), "hostfile", ".", program, "./app")
        path = {"PATH": f"{self._place}/bin:{os.environ['PATH']}", "TMPDIR": str(self._place)}
        return self._sh('exec "$@" 2>&1', *words, shell="bash", environ=path, code=code).decode()


@pytest.fixture
def pod(sh: Shell, tmp_path: Path) -> Pod:
    return Pod(sh, tmp_path)


def test_the_launcher_becomes_mpirun(pod: Pod, tmp_path: Path) -> None:
    said = pod.launch(HOSTS)
    assert said.startswith("./app\n")
    assert "OMPI_MCA_plm_rsh_args=-o ConnectionAttempts=10 -i " in said and "PRTE_MCA_plm_ssh_args=" in said
    asked_of = (tmp_path / "asked").read_text()
    assert "app-worker-0.app.ns.svc true" in asked_of and "app-worker-1.app.ns.svc true" in asked_of


@pytest.mark.parametrize(
    ("hosts", "slots"),
    [
        ("app-worker-0.app.ns.svc slots=2\n", 2),
        (HOSTS + "app-worker-2.app.ns.svc slots=2\n", 6),
        ("", 0),
        ("# nothing\na:1\nb:2", 3),
        ("a\nb\nc\n", 3),
    ],
)
def test_a_hostfile_with_other_slots(pod: Pod, hosts: str, slots: int) -> None:
    said = pod.launch(hosts, 1)
    assert said.startswith(f"mnrun: hostfile has {slots} slots on ") and "the job has 4 ranks" in said


@pytest.mark.parametrize("hosts", ["a:2\nb:2\n", "a:2\nb:2", "a slots=2 max_slots=2\nb slots=2\n"])
def test_hostfiles_of_each_mpi(pod: Pod, hosts: str) -> None:
    pod.launch("a:2\nb:2\n" if "max" in hosts else hosts)


@pytest.mark.parametrize("ssh", ["exit 255", "exec sleep 5"])
def test_an_ssh_that_does_not_answer(pod: Pod, ssh: str) -> None:
    pod.ssh(f'case "$*" in *worker-1*) {ssh} ;; esac')
    said = pod.launch(HOSTS, 121, seconds=3)
    assert "mnrun: ssh does not reach app-worker-1.app.ns.svc within 3 s" in said


def test_an_ssh_that_answers_late(pod: Pod) -> None:
    pod.ssh("[ -e late ] || { : >late; exit 255; }")
    assert pod.launch(HOSTS).startswith("./app\n")


def test_an_image_without_the_starter(pod: Pod) -> None:
    assert "there is no mpirun-9 in the image" in pod.launch(HOSTS, 127, program="mpirun-9")


OPEN_MPI = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}


@pytest.mark.parametrize(
    ("environ", "code"),
    [
        (OPEN_MPI, 0),
        ({"PMI_SIZE": "4", "PMI_RANK": "1", "MPI_LOCALNRANKS": "2"}, 0),
        ({"PMI_SIZE": "4"}, 0),
        ({}, 1),
        ({**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "2"}, 1),
        ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, 1),
        ({"PMI_SIZE": "1"}, 1),
    ],
)
def test_a_rank_checks_the_world(sh: Shell, environ: dict[str, str], code: int) -> None:
    """Open MPI 5 without a hostfile starts a rank for each core of the launcher (kubeflow/trainer#4028)."""
    words = texts.script("pod_rank.sh", "4", "2", "echo", "a  b")
    said = sh('exec "$@" 2>&1', *words, environ=environ, code=code).decode()
    assert said == "a  b\n" if code == 0 else "PRTE_MCA_prte_default_hostfile" in said


def ranks(sh: Shell, starter: str, program: str, code: int = 0) -> list[str]:
    words = texts.script("pod_ranks.sh", "2", "2", "app-0.app", "29500", starter, "sh", "-c", program)
    said = sh('exec "$@" 2>&1', *words, shell="bash", environ={"JOB_COMPLETION_INDEX": "1"}, code=code)
    return sorted(said.decode().splitlines())


def test_ranks_of_a_pod_without_an_mpi(sh: Shell) -> None:
    said = ranks(sh, "env", "echo $RANK $LOCAL_RANK $WORLD_SIZE $NODE_RANK $MASTER_ADDR:$MASTER_PORT")
    assert said == ["2 0 4 1 app-0.app:29500", "3 1 4 1 app-0.app:29500"]


def test_torchrun_of_a_pod(sh: Shell) -> None:
    assert ranks(sh, "torchrun", "echo $PET_NNODES $PET_NODE_RANK $PET_NPROC_PER_NODE $PET_MASTER_ADDR") == [
        "2 1 2 app-0.app"
    ]


def test_a_rank_that_fails_ends_the_others(sh: Shell) -> None:
    assert ranks(sh, "env", "[ $LOCAL_RANK = 0 ] && exit 7; exec sleep 60", 7) == []
