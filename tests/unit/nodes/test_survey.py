"""What nodes say of themselves, understood: which runtimes work, and what to do about the others."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from pytest_mock import MockerFixture

from mnrun.facts import parse
from mnrun.network.facts import network_facts
from mnrun.nodes import survey
from mnrun.nodes.survey import NO, NodeSurvey, node_survey
from mnrun.running import findings
from mnrun.runtimes import RUNTIMES
from mnrun.schedulers.slurm import scheduler as slurm
from mnrun.system import modules
from unit.cases import Cases, given
from unit.typed import Terminal

WELL = {
    "system": "Debian GNU/Linux 13 (trixie), Linux 6.1, x86_64",
    "userns": "yes",
    "fuse": "yes",
    "squashfuse": "yes",
    "apptainer": "apptainer version 1.4.5",
}


def answer(lines: Iterable[str] = (), **values: str) -> NodeSurvey:
    own = [f"node {name.replace('_', '-')} {value}" for name, value in values.items()]
    return node_survey(parse("".join(f"fact n {line}\n" for line in (*own, *lines))))


def test_the_row_of_a_subject(cases: Cases) -> None:
    """Its state, what was found, and what to do. srun lists a PMIx that cannot be loaded all the same."""

    def row(subject: str, values: str, lines: str) -> tuple[str, str, str]:
        node = answer(filter(None, lines.split("; ")), **given(values))
        (one,) = [o for o in survey.findings("n", node, slurm.STARTER, slurm.LIMITS) if o.subject == subject]
        return one.state, one.found, one.fix

    cases(row)


def test_a_survey() -> None:
    found = answer(["node lacks tar", "node lacks od", "feature verbs", "image glibc 2.41"], userns="yes")
    assert found == NodeSurvey(
        {"userns": "yes", "lacks": "od"}, ("tar", "od"), network_facts(parse("fact n feature verbs"))
    )


def test_each_runtime_that_cannot_give_gpus_is_named() -> None:
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
    monkeypatch.setenv("MNRUN_MODULE", "apptainer/1.3")
    load = mocker.patch.object(modules, "load", side_effect=lambda names, environ: environ)
    mocker.patch.object(findings, "_surveys", return_value={"n": answer(**WELL)})
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
