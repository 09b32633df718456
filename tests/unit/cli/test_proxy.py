"""`mnrun proxy` and `mnrun ssh-config` as they are typed: the command, what it reads first, the keys, each refusal."""

from __future__ import annotations

import shlex
import stat
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.attach import connection
from mnrun.errors import Impossible
from mnrun.jobs.launches import LaunchRecord
from mnrun.model import Command
from mnrun.running import tunnel
from mnrun.system import client
from unit.cli.test_exec import DIR, running, srun
from unit.cli.test_exec import jobs as jobs
from unit.cli.test_exec import mnrun as mnrun
from unit.texts import Refused
from unit.typed import Complaint, Terminal


@pytest.fixture
def opened(mocker: MockerFixture) -> list[tuple[tuple[str, ...], bytes]]:
    """Return the list that gets the words of each connection, and what its command reads first."""
    found: list[tuple[tuple[str, ...], bytes]] = []

    def run(command: Command, environ: dict[str, str], own: object, output: None = None, first: bytes = b"") -> int:
        found.append((command.argv, first))
        return 0

    mocker.patch.object(client, "run", run)
    return found


@pytest.mark.parametrize("typed", [[], ["mnrun"], ["12"], ["mnrun-12"], ["mnrun-12-abcdef", "--outside"]])
def test_the_keys_go_down_the_connection(
    mnrun: Terminal, opened: list[tuple[tuple[str, ...], bytes]], jobs: Path, typed: list[str]
) -> None:
    running(jobs)
    assert mnrun("proxy", *typed).code == 0
    ((words, first),) = opened
    begin = srun("n1")
    assert words[: len(begin) + 3] == (*begin, "--unbuffered", "env", "MNRUN_JOB_ID=12-abcdef")
    assert words[-2:] == (DIR, "job.sh")
    size, _, text = first.partition(b"\n")
    assert int(size) == len(text)
    assert b"PRIVATE KEY" in text
    assert "PRIVATE KEY" not in " ".join(words)


@pytest.mark.parametrize(("typed", "place"), [(["--port", "8888"], "8888"), (["--socket", "/tmp/s"], "/tmp/s")])
def test_a_service_needs_no_key(
    mnrun: Terminal, opened: list[tuple[tuple[str, ...], bytes]], jobs: Path, typed: list[str], place: str
) -> None:
    running(jobs)
    assert mnrun("proxy", "12", "--node", "n2", *typed).code == 0
    ((words, first),) = opened
    assert (words[-1], first) == (place, b"")
    assert "--nodelist=n2" in words
    assert not (jobs.parent / "ssh").exists()


@pytest.mark.parametrize(
    ("typed", "code"),
    [("13", 123), ("mnrun-13", 123), ("--node n9", 2), ("--port 1 --outside", 2), ("--port 0", 2), ("--socket s", 2)],
)
def test_a_wrong_connection_is_refused_in_a_line(
    mnrun: Terminal, jobs: Path, typed: str, code: int, complaint: Complaint
) -> None:
    running(jobs)
    complaint(mnrun("proxy", *typed.split()), code)


def test_keys_are_made_once_and_are_private(tmp_path: Path) -> None:
    made = connection.user_keys(tmp_path)
    assert connection.user_keys(tmp_path) == made
    folder = tmp_path / ".mnrun" / "ssh"
    assert sorted(made) == sorted(path.name for path in folder.iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    connection._make(folder)  # as another process may at the same time
    assert connection.user_keys(tmp_path) == made
    assert [path.name for path in folder.parent.iterdir()] == ["ssh"]


def test_keys_that_others_may_write_are_refused(mnrun: Terminal, tmp_path: Path, complaint: Complaint) -> None:
    connection.user_keys(tmp_path)
    (tmp_path / ".mnrun" / "ssh").chmod(0o777)
    complaint(mnrun("ssh-config"), 2)


@pytest.mark.parametrize(
    ("typed", "host", "way"),
    [
        ((), "mnrun mnrun-*", "PROGRAM proxy %n"),
        (("12",), "mnrun-12", "PROGRAM proxy %n"),
        (("--login", "login.site"), "mnrun mnrun-*", "ssh login.site PROGRAM proxy %n"),
    ],
)
def test_the_lines_for_ssh(
    mnrun: Terminal, mocker: MockerFixture, tmp_path: Path, typed: tuple[str, ...], host: str, way: str
) -> None:
    mocker.patch("mnrun.running.submission.own_call", return_value=("PROGRAM",))
    lines = mnrun("ssh-config", *typed).out.splitlines()
    assert lines[:2] == [f"Host {host}", f"  ProxyCommand {way}"]
    known = connection.user_keys(tmp_path)["known_hosts"].strip()
    assert (f"  KnownHostsCommand /bin/echo {known}" in lines) == ("--login" in typed)
    assert "  StrictHostKeyChecking yes" in lines


@pytest.mark.parametrize("verb", [("proxy",), ("proxy", "--port", "1"), ("ssh-config",)])
def test_a_site_without_ssh_into_jobs(
    mnrun: Terminal, jobs: Path, tmp_path: Path, verb: tuple[str, ...], complaint: Complaint
) -> None:
    """No key is made, and a service has no line for it."""
    running(jobs)
    profile = tmp_path / ".config" / "mnrun" / "profiles" / "here.toml"
    profile.parent.mkdir(parents=True)
    profile.write_text('match.hostname = "*"\npolicy.proxy = "ask hpc-help"\n')
    complaint(mnrun(*verb), 122)
    assert tunnel.entrance("12", {}) == ""
    assert not (tmp_path / ".mnrun" / "ssh").exists()


def test_ssh_of_another_machine_knows_the_key_by_its_own_name(tmp_path: Path) -> None:
    """The node's name has the key of the node's own sshd in the site's ssh_known_hosts."""
    texts = connection.user_keys(tmp_path)
    words = shlex.split(connection.from_elsewhere(("/opt/mnrun",), "12", "alice", "login", texts))
    assert words[-1] == "alice@mnrun-12"
    settings = words[1:-1:2]
    assert "ProxyCommand ssh alice@login /opt/mnrun proxy 12" in settings
    assert "HostKeyAlias mnrun" in settings
    assert f"KnownHostsCommand /bin/echo {texts['known_hosts'].strip()}" in settings


def test_a_client_that_loses_bytes_carries_no_connection(refused: Refused) -> None:
    for place in ("8888", "/tmp/s"):
        with refused(Impossible):
            connection.to(LaunchRecord("f1-abcdef", "flux", "f1", DIR, ("n1",)), "n1", place)
