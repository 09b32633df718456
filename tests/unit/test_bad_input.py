"""Bugs that tests/fuzz has found, each with the input that showed it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from mnrun import environment, nodeset
from mnrun.config import jobfile, layers
from mnrun.config.options import BY_NAME
from mnrun.errors import LaunchError, SchedulerError, UsageError
from mnrun.facts import parse
from mnrun.jobs import records
from mnrun.mpi.facts import mpi_facts
from mnrun.network import choose
from mnrun.network.facts import network_facts
from mnrun.nodes import transport
from mnrun.nodes.status import Roster
from mnrun.schedulers.hosts import known_hosts, names
from mnrun.schedulers.queue import Job
from mnrun.schedulers.slurm import answers, queue, scontrol
from mnrun.schedulers.vocabulary import JobState
from mnrun.system import paths
from mnrun.system.screen import Screen
from unit.conftest import Shell
from unit.planning.test_script import handed_over, written
from unit.samples import build, recorded
from unit.texts import Refused
from unit.wrappers.test_guard import function

LONG = "9" * 5000  # digits, of which Python converts 4300


@pytest.mark.parametrize(
    "text",
    ["x[0-999999999]", "x[1-999]n[1-999]", f"node{LONG}", "node\u0663", "rack[1-2]000000000"],
    ids=["range", "product", "digits", "Arabic", "zeros"],
)
def test_a_list_of_nodes_that_would_fill_the_memory_is_refused(text: str, refused: Refused) -> None:
    """NodeSet took minutes, raised another error, or read an Arabic digit as 3."""
    with refused(UsageError):
        nodeset.expand(text)


@pytest.mark.parametrize("text", ["@all", "*"], ids=["group", "all"])
def test_no_group_of_clustershell_is_looked_up(text: str, refused: Refused) -> None:
    assert nodeset.expand(text) == (text,)
    assert nodeset.fold((text, "a")) in (f"{text},a", f"a,{text}")
    with refused(UsageError):
        names.parse(text)


def test_an_error_is_no_word_for_a_terminal() -> None:
    error = LaunchError("key 'a\nmnrun: all is well'", "write \x1b[2J\nb", "    mnrun \n", "or not")
    assert str(error) == "key 'a?mnrun: all is well'; write ?[2J?b\n    mnrun ?\nor not"


def test_a_warning_is_no_word_for_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().warn("-n=2 after a\x1b[2J\nmnrun: b")
    assert capsys.readouterr().err == "mnrun: warning: -n=2 after a?[2J?mnrun: b\n"


def test_many_stars_in_known_hosts_take_no_time() -> None:
    before = time.process_time()
    assert known_hosts.host_keys([f"{'a*' * 40}b ssh-rsa AAAA"], ("a" * 200,)).keys == ()
    assert known_hosts.host_keys(["[a*]:2? ssh-rsa AAAA"], ("[ab]:22",)).keys == ("ssh-rsa AAAA",)
    assert time.process_time() - before < 5


def test_a_word_about_a_network_that_is_half_a_line() -> None:
    roster = Roster(("node01",))
    assert roster.hear("used node01 eth0 NCCL") == ""
    assert roster.hear("used node01 tcp eth0 NCCL") == "used"
    assert list(transport.uses(roster.used)) == [transport.TransportUse("tcp", ("eth0",), "NCCL")]


def test_a_fact_of_an_mpi_that_is_half_a_line() -> None:
    found = mpi_facts(parse("fact n1 node mpi\nfact n1 node mpi openmpi\nfact n1 image glibc 2.41\n"))
    assert found is not None
    assert found.node.mpis == ()


def test_nodes_that_are_reached_by_ipv6() -> None:
    facts = ["fact a nic eth0 kind=physical state=up", "fact a address eth0 10.0.0.1/24"]
    nodes = {"a": network_facts(parse("\n".join(facts))), "b": network_facts([])}
    assert choose.choose(nodes, {"a": "fe80::1", "b": "10.0.0.2"}) == ()


@pytest.mark.parametrize("lost", ["JobId=82 ", " NodeList=node[01-04]", "[01-04]"])
def test_half_an_answer_of_scontrol_is_slurms_fault(lost: str, refused: Refused) -> None:
    """123 in place of a traceback, or of 2."""
    text, environ = recorded("plain")
    half = text.replace(lost, "[01-" if lost == "[01-04]" else "")
    with refused(SchedulerError):
        scontrol.allocation(half, environ)


@pytest.mark.parametrize("value", ["", "\r", ","])
def test_a_job_of_which_scontrol_names_no_node(value: str, refused: Refused) -> None:
    text, environ = recorded("plain")
    with refused(SchedulerError):
        scontrol.allocation(text.replace(" NodeList=node[01-04]", f" NodeList={value}"), environ)


def test_numbers_of_slurm_that_are_none() -> None:
    """Longer than 64 bits, or a version of 5000 digits."""
    with pytest.raises(SchedulerError):
        scontrol.version(f"slurm {LONG}.{LONG}")
    assert answers.gpus_in(f"gres/gpu={LONG}") == 0
    assert answers.gpus_in(f"gpu:{LONG}") == 0
    text, environ = recorded("plain")
    assert scontrol.allocation(text, {**environ, "SLURM_NTASKS": LONG}).ntasks is None
    assert scontrol.allocation(text, {**environ, "SLURM_NTASKS_PER_NODE": LONG}).ntasks_per_node is None
    (job,) = answers.sacct_lines(f"7|FAILED|{LONG}:0|1|n|||{LONG}|0|0|main|a")
    assert (job.code, job.submitted) == (0, 0)


def test_json_of_ten_thousand_brackets_is_no_record() -> None:
    assert records.outcome("[" * 10000) is None


@pytest.mark.parametrize("when", [10**400, 1e300, -1, None])
def test_the_time_of_a_record_is_one_or_nothing(when: Any) -> None:
    ended = records.outcome(json.dumps({"code": 1, "time": when}))
    assert ended == records.Ended(0.0, 1)


@pytest.mark.parametrize(
    "last",
    [
        {"time": "now", "failure": None, "entries": []},
        {"time": 10**400, "failure": None, "entries": []},
        {"time": 0.0, "failure": "no", "entries": []},
        {"time": 0.0, "failure": None, "entries": None},
        {"time": 0.0, "failure": None, "entries": [{"id": "7", "older": 1}]},
        ["time", "failure", "entries"],
    ],
)
def test_last_answers_of_another_version_are_asked_anew(mocker: MockerFixture, tmp_path: Path, last: Any) -> None:
    """An upgrade of mnrun within 30 s of a question was called a bug in mnrun."""
    asked = queue.UserQueue({}, tmp_path, 30)
    mocker.patch.object(asked, "_ask_jobs", return_value=[Job("7", "a", JobState.RUNNING)])
    if isinstance(last, dict) and last["time"] == 0.0:
        last = {**last, "time": time.time()}
    (tmp_path / ".mnrun").mkdir()
    (tmp_path / ".mnrun" / queue.CACHE).write_text(json.dumps({asked._answers._site: {"jobs": last}}))
    assert [job.id for job in asked.jobs().jobs] == ["7"]


@pytest.mark.parametrize("text", [f"ws1:{LONG}", "ws1:\u0663", "ws1:0"])
def test_ranks_of_a_host_are_a_number_of_some_digits(text: str) -> None:
    with pytest.raises(UsageError):
        names.parse(text)
    with pytest.raises(UsageError):
        names.parse_file(text, "hosts")


def page(text: str) -> jobfile.TomlFile:
    return jobfile.TomlFile("job.toml", text, "/", {})


@pytest.mark.parametrize(
    "text",
    [f"{'a.' * 500}nodes = 1", f"bind = {'[' * 300}{']' * 300}", f"[{'a.' * 5000}b]"],
    ids=["key", "list", "table"],
)
def test_a_job_file_is_not_nested_too_deeply(text: str, refused: Refused) -> None:
    with refused(UsageError):
        jobfile.read(page(text))


def test_a_number_of_a_job_file_has_too_many_digits(refused: Refused) -> None:
    """TOML's own parser does not say so."""
    with refused(UsageError):
        jobfile.read(page(f"image = 'a'\nnodes = {LONG}"))


@pytest.mark.parametrize(("name", "value"), [("ntasks", LONG), ("nodes", "\u0663"), ("start_timeout", f"{LONG}s")])
def test_a_number_of_an_option_is_short_and_in_ascii(name: str, value: str) -> None:
    """Python's own int takes more, or fails."""
    with pytest.raises(UsageError):
        layers.parse(BY_NAME[name], value, "command line")


@pytest.mark.parametrize(
    "header", [b"\0hsqs", b"SIF_MAGIC", b"x" * 32 + b"SIF_MAGIC", b"\0" * 32 + b"SIF_MAGIC", b"hsqs"]
)
def test_a_node_looks_at_the_place_of_an_image_files_word(sh: Shell, tmp_path: Path, header: bytes) -> None:
    (tmp_path / "image").write_bytes(header)
    script = f"{function('header')}\n{function('magic')}\n{function('is_image')}\nif is_image image; then echo 1; fi"
    assert bool(sh(script, shell="bash").strip()) == (paths.fault("image", str(tmp_path / "image")) == "")


def test_a_file_of_nothing_but_nul_is_no_image_at_once(sh: Shell, tmp_path: Path) -> None:
    with (tmp_path / "image").open("wb") as file:
        file.truncate(1 << 36)
    functions = f"set -euo pipefail\n{function('header')}\n{function('magic')}"
    script = f'{functions}\nmagic image; echo "<$REPLY>"; magic none; echo "<$REPLY>"'
    assert sh(script, shell="bash") == b"<>\n<>\n"


def test_a_variable_of_a_file_holds_no_nul(refused: Refused) -> None:
    with refused(UsageError):
        environment.read_file("A=\0b\n", "job.env")


@pytest.mark.parametrize("option", ["gpus", "gpus_per_node", "gpus_per_task"])
def test_gpus_are_a_number_of_some_digits(option: str) -> None:
    given: Any = {option: LONG}
    with pytest.raises(UsageError):
        build("./app", **given)
    assert build("./app", gres=f"gpu:{LONG}").resources.gpus_asked == 999999999
    assert build("./app", gres="gpu:\u00b2").resources.gpus_asked == 1


@pytest.mark.parametrize("name", ["OPTIND", "SECONDS", "RANDOM", "GROUPS", "LINENO"])
def test_a_variable_that_no_shell_passes_on_is_refused(name: str, refused: Refused) -> None:
    """dash ends at a wrong OPTIND, and bash sets the others itself."""
    with refused(UsageError):
        environment.read_file(f"{name}=a\n", "job.env")


@pytest.mark.parametrize("word", ["it's \x01", "it's \x7f"])
def test_a_control_character_in_a_script_stays_one(sh: Shell, word: str) -> None:
    """bash 5.2 made two of it between double quotes in an array."""
    assert handed_over(sh, written("./app", env=(f"A={word}",))) == [f"A={word}"]
