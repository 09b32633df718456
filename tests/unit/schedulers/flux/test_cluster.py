"""A job of Flux's, by what 0.88 said."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.attach import user
from mnrun.errors import NotYours, SchedulerError
from mnrun.jobspec import Way
from mnrun.model import Allocation, Node, Site
from mnrun.schedulers import parts
from mnrun.schedulers.flux import cluster, scheduler
from mnrun.schedulers.vocabulary import JobState, StepPlace
from unit.samples import build
from unit.schedulers.commands import Commands
from unit.schedulers.flux.test_answers import said

LOGIN = {"FLUX_URI": "local:///run/flux/local"}
JOB = {**LOGIN, "FLUX_ENCLOSING_ID": "ƒKiDwHR"}


@pytest.fixture
def commands(mocker: MockerFixture) -> Commands:
    played = Commands()
    mocker.patch("subprocess.run", side_effect=played)
    mocker.patch.object(parts, "script_below", return_value="7")
    played.answers = {
        "flux kvs get resource.R": said("R_free.json"),
        "flux --parent job info 12280922112 jobspec": said("jobspec.json"),
        "flux --parent getattr hostlist": "login,node[01-03]\n",
    }
    return played


def test_the_job_around_has_the_nodes_of_its_own_instance(commands: Commands) -> None:
    allocation, site = cluster.current(JOB)
    assert allocation.nodes == (Node("node02", 8, 4), Node("node03", 8, 4))
    assert (allocation.job, allocation.ntasks, site.channels, site.script) == ("12280922112", 4, True, "12280922112")
    assert cluster.current({**JOB, "MNRUN_JOB_RANKS": "3"})[0].ntasks == 3
    start = cluster.start(JOB)
    assert (start.name, start.cluster, start.nodelist, start.head) == ("slots", "login", "node[02-03]", "node02")


def test_a_command_on_another_node_has_the_gpus_of_that_node(commands: Commands, mocker: MockerFixture) -> None:
    """flux exec hands on the environment of the first node. stdbuf's variable ends there."""
    opened = mocker.patch("mnrun.reach.transport.ProcessChannel")
    cluster.reach(Allocation("flux", "7", (Node("node02", 8, 4), Node("node03", 8, 4))), Way()).connect(
        "node03", ("x",)
    )
    words = opened.call_args.args[0]
    assert words[:7] == ("stdbuf", "-o0", "flux", "exec", "-q", "-r", "1")
    assert "CUDA_VISIBLE_DEVICES=0,1,2,3" in words
    assert words[words.index("setsid") :][:6] == ("setsid", "-w", "setpriv", "--pdeathsig", "HUP", "sh")


def test_beside_a_job_a_node_is_its_place_among_the_jobs_nodes(commands: Commands) -> None:
    entry = said("cleanup.json").replace('"nodelist": "node02"', '"nodelist": "node[02,05]"')
    commands.answers = {"sh -c exec stdbuf -o0 flux ${FLUX_ENCLOSING_ID:+--parent}": entry}
    (command,) = cluster.beside(StepPlace("7", ("node05",)), ("hostname",))
    text = " ".join(command.argv)
    assert "exec -q -j 7 -r 1 " in text


@pytest.mark.parametrize(
    ("events", "ending"), [("run", JobState.RUNNING), ("can", JobState.CANCELLED), ("lim", JobState.TIMEOUT)]
)
def test_how_a_job_ends(commands: Commands, events: str, ending: JobState) -> None:
    commands.answers["flux --parent job eventlog 12280922112"] = said(f"eventlog_{events}.txt")
    assert cluster.ending(Site("flux", "12280922112"), JOB) == ending
    assert cluster.runs("12280922112", JOB) is (ending == JobState.RUNNING)
    assert cluster.time_limit("12280922112", JOB) == "1:30"


def test_without_an_answer_a_job_goes_on(commands: Commands) -> None:
    commands.answers = {"flux": "!flux-job: ERROR: Unable to connect to Flux"}
    assert cluster.runs("7", JOB)
    assert cluster.lost(["node01"], JOB) == {}
    assert cluster.time_limit("7", JOB) == cluster.name(JOB) == ""


def test_nodes_whose_brokers_have_gone(commands: Commands) -> None:
    commands.answers["flux resource R -s down"] = said("R_free.json")
    assert set(cluster.lost(["node01", "node02"], JOB)) == {"node02"}


@pytest.mark.parametrize(("environ", "words"), [(LOGIN, "flux batch"), (JOB, "flux --parent batch")])
def test_a_submission_goes_to_the_queue(commands: Commands, environ: dict[str, str], words: str) -> None:
    commands.answers[words] = "fKiDwHR\n"
    assert cluster.submit("#!/bin/bash\n", build("./app"), environ) == ("12280922112", "")
    commands.answers[words] = "!flux-batch: ERROR: 'nosuch' is not a valid queue\n"
    with pytest.raises(SchedulerError, match="'nosuch' is not a valid queue"):
        cluster.submit("#!/bin/bash\n", build("./app"), environ)


def test_the_queue(commands: Commands, tmp_path: Path) -> None:
    commands.answers |= {
        "flux jobs --json -a": said("jobs.json"),
        "flux jobs --json 7": "",
        "flux resource R -s free,": said("R.json"),
        "flux resource R -s free": said("R_free.json"),
        "flux resource R -s down": said("R_down.json"),
        "flux cancel 1": f"!{said('cancel_unknown.txt')}",
        "flux cancel 2": f"!{said('cancel_ended.txt')}",
        "flux cancel 3": "",
    }
    queue = cluster.user_queue(LOGIN, tmp_path, 30)
    assert len(queue.jobs().jobs) == len(queue.history()) == 9
    assert queue.history(["7"]) == ()
    assert [node.node for node in queue.nodes()] == ["node01", "node02", "node03"]
    assert queue.cancel(["2", "3"]) == ["2"]
    with pytest.raises(NotYours):
        queue.cancel(["1"])


def test_a_shell_is_a_job_of_flux_alloc(commands: Commands) -> None:
    words = cluster.interactive(build("bash", nodes="2", ntasks_per_node="2"), (), ("mnrun", "shell"), LOGIN)
    assert words[:2] == ("flux", "alloc")
    assert words[-2:] == ("mnrun", "shell")
    assert "--nodes=2" in words
    assert not [word for word in words if word.startswith(("--output", "{{", "(trap"))]


def test_people_type_ids_as_flux_shows_them(mocker: MockerFixture) -> None:
    mocker.patch.object(user, "scheduler", return_value=scheduler)
    assert [user.identity(word) for word in ("ƒKiDwHR", "7", "7-uyqcci", "")] == ["12280922112", "7", "7-uyqcci", ""]
