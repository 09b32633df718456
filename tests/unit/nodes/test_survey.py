"""What nodes say of themselves, understood: which runtimes work, and what to do about the others."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from pytest_mock import MockerFixture

from mnrun.cli.work import check
from mnrun.facts import parse
from mnrun.network.facts import network_facts
from mnrun.nodes import survey
from mnrun.nodes.survey import NO, OK, PART, NodeSurvey, node_survey
from mnrun.runtimes import RUNTIMES
from mnrun.system import modules
from unit.typed import Terminal

WELL = {
    "system": "Debian GNU/Linux 13 (trixie), Linux 6.1, x86_64",
    "userns": "yes",
    "fuse": "yes",
    "squashfuse": "yes",
    "apptainer": "apptainer version 1.4.5",
}


def answer(lines: Iterable[str] = (), **values: str) -> NodeSurvey:
    """What a node surveyed with these values, and these lines of other facts, has."""
    own = [f"node {name.replace('_', '-')} {value}" for name, value in values.items()]
    return node_survey(parse("".join(f"fact n {line}\n" for line in (*own, *lines))))


def state(subject: str, lines: Iterable[str] = (), **values: str) -> tuple[str, str, str]:
    (row,) = [one for one in survey.findings("n", answer(lines, **values)) if one.subject == subject]
    return row.state, row.found, row.fix


def test_a_survey() -> None:
    """Several lines of one name, where there may be several; the networks too."""
    found = answer(["node lacks tar", "node lacks od", "feature verbs", "image glibc 2.41"], userns="yes")
    assert found == NodeSurvey(
        {"userns": "yes", "lacks": "od"}, ("tar", "od"), network_facts(parse("fact n feature verbs"))
    )


@pytest.mark.parametrize(
    ("known", "expected", "found", "fix"),
    [
        (WELL, OK, "1.4.5, rootless", ""),
        ({"apptainer": "1.4.5", "apptainer_suid": "yes"}, OK, "1.4.5, setuid", ""),
        ({"apptainer": "1.4.5"}, NO, "no user namespaces", "apptainer-suid"),
        ({"apptainer": "1.4.5", "userns": "yes", "fuse": "yes"}, PART, "no squashfuse seen", "directories work"),
        ({"apptainer": "1.4.5", "userns": "yes", "squashfuse": "yes"}, PART, "no /dev/fuse seen", "SIF"),
        ({}, NO, "not installed", "--module apptainer"),
    ],
)
def test_apptainer(known: dict[str, str], expected: str, found: str, fix: str) -> None:
    row = state("apptainer", **known)
    assert row[0] == expected
    assert found in row[1]
    assert fix in row[2]


@pytest.mark.parametrize(
    ("known", "expected", "found"),
    [
        ({"docker": "26", "docker_server": "26.1.5"}, OK, "26.1.5, as root's daemon"),
        ({"docker": "29", "docker_server": "29.5.0", "docker_rootless": "yes"}, OK, "29.5.0, rootless"),
        ({"docker": "26", "docker_refuses": "bob may not use docker here: ask"}, NO, "bob may not use docker here"),
        ({}, NO, "not installed"),
    ],
)
def test_docker(known: dict[str, str], expected: str, found: str) -> None:
    assert state("docker", **known)[:2] == (expected, found)


def test_what_a_job_would_hear_is_what_is_wrong_and_what_to_do() -> None:
    said = "dockerd is not running on this node: an administrator starts it, or use another --runtime"
    refused = state("docker", docker="26", docker_refuses=said)
    assert ": ".join(refused[1:]) == said


def test_podman_and_charliecloud_need_namespaces() -> None:
    podman = {"podman": "podman version 5.4.2", "podman_init": "yes", "mqueue": "yes"}
    assert state("podman", **podman)[:2] == (NO, "5.4.2, no user namespaces")
    podman["userns"] = "yes"
    refused = "bob has no subordinate ids here, which podman needs: an administrator adds them (usermod)"
    assert state("podman", **podman, podman_refuses=refused)[:2] == (NO, refused.partition(":")[0])
    assert state("podman", **podman)[:2] == (OK, "5.4.2, rootless")
    del podman["podman_init"]
    assert state("podman", **podman)[:2] == (PART, "5.4.2, rootless; no catatonit")
    del podman["mqueue"]
    assert state("podman", **podman)[:2] == (NO, "5.4.2, no /dev/mqueue")
    assert state("charliecloud", ch_run="0.38")[0] == NO
    assert state("charliecloud", ch_run="0.38", userns="yes")[:2] == (OK, "0.38, rootless")


def test_gpus_mpi_and_fabric() -> None:
    nvidia = {"nvidia": "550.54", "gpus": "4"}
    assert state("GPUs") == (OK, "none for this job", "nodes that have some give them to jobs with --gpus-per-node N")
    assert state("GPUs", **nvidia)[:2] == (OK, "4 NVIDIA, driver 550.54")
    assert state("GPUs", amd="yes")[0] == PART
    assert state("MPI", mpirun="mpirun (Open MPI) 5.0.7")[:2] == (OK, "Open MPI 5.0.7")
    assert state("MPI", mpirun="HYDRA build details: Version: 4.2.1")[1] == "MPICH 4.2.1"
    assert state("MPI")[0] == PART
    assert state("srun", slurm="slurm 24.11.5", pmi=" pmi2 pmix ")[:2] == (OK, "slurm 24.11.5, pmix and pmi2")
    assert state("srun", slurm="slurm 24.11.5")[0] == PART
    port = "hca mlx5_0 port=1 state=ACTIVE link=InfiniBand"
    assert state("InfiniBand", [port, "feature verbs"])[:2] == (OK, "mlx5_0")
    assert state("InfiniBand", [port])[:2] == (PART, "mlx5_0: no port is active")
    limits = ("limit memlock 65536", "limit memory 64000000000")
    found = state("limits", [port, "feature verbs", *limits])
    assert found[:2] == (PART, "locked memory is limited to 64 kB, and InfiniBand needs unlimited")
    assert "limits.conf" in found[2]
    assert state("system", ["node lacks tar", "node lacks od"])[:2] == (NO, "Linux; no tar, od")


def test_each_runtime_that_cannot_give_gpus_is_named() -> None:
    """In the way that a job would try; one that does not work at all has its own row."""

    def lacking(**known: str) -> dict[str, str]:
        rows = survey.findings("n", answer(nvidia="550.54", **known))
        return {one.subject: one.found for one in rows if one.subject.startswith("GPUs by ")}

    docker = {"docker": "28", "docker_server": "28.2.0"}
    assert lacking() == lacking(docker="28", docker_refuses="off") == {}
    assert lacking(**docker) == {"GPUs by docker": "no NVIDIA container toolkit"}
    assert lacking(**docker, cdi="yes") == {"GPUs by docker": "dockerd does not read CDI"}
    assert lacking(**docker, cdi="yes", docker_cdi="yes") == lacking(**docker, nvidia_hook="yes") == {}
    podman = {"podman": "podman version 5", "userns": "yes", "mqueue": "yes"}
    assert lacking(**podman) == {"GPUs by podman": "no CDI"}
    assert lacking(**podman, cdi="yes") == {}
    assert list(lacking(ch_run="0.38")) == ["GPUs by charliecloud"]


def test_the_runtimes_that_count() -> None:
    """All that have containers: one that is added needs findings, too."""
    assert set(survey.SURVEYED) == {name for name, module in RUNTIMES.items() if module.CONTAINED}


def test_one_runtime_has_to_work_everywhere() -> None:
    podman = {"userns": "yes", "podman": "podman version 5", "mqueue": "yes"}
    well, other = survey.findings("n1", answer(**WELL)), survey.findings("n2", answer(**podman))
    assert survey.usable(well)
    assert survey.usable([*well, *survey.findings("n2", answer(**{**WELL, **podman}))])
    assert not survey.usable([*well, *other])
    assert not survey.usable(survey.findings("n1", NodeSurvey()))


def test_the_verb_loads_the_sites_modules(
    mnrun: Terminal, mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a job would: else what they bring is not seen."""
    monkeypatch.setenv("MNRUN_MODULE", "apptainer/1.3")
    load = mocker.patch.object(modules, "load", side_effect=lambda names, environ: environ)
    mocker.patch.object(check, "_surveys", return_value={"n": answer(**WELL)})
    assert mnrun("check").code == 0
    assert load.call_args.args[0] == ("apptainer/1.3",)


@pytest.mark.parametrize(
    ("version", "good"), [("4.2.46(2)-release", False), ("4.4.20(1)-release", True), ("5.2.37", True)]
)
def test_a_bash_that_is_too_old(version: str, good: bool) -> None:
    """B11: as RHEL 7's, in one line with its name; no job would begin there."""
    found = survey.findings("n", answer(**WELL, bash=version))
    assert survey.usable(found) is good
    wanted = [] if good else [("n", NO, version, "install bash 4.4 or later: guards need it")]
    assert [(one.node, one.state, one.found, one.fix) for one in found if one.subject == "bash"] == wanted


def test_a_pmix_that_cannot_be_loaded() -> None:
    """srun lists it all the same."""
    row = state("srun", slurm="slurm-wlm 22.05.8", pmi="none pmix pmi2 pmix_v4", unloadable="pmix pmix_v4")
    assert row[0] == PART
    assert row[1] == "slurm-wlm 22.05.8, pmi2; pmix is listed and cannot be loaded"
    assert "--launcher mpirun" in row[2]
