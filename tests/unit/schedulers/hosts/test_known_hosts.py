"""known_hosts as ssh reads it: whose line it is, and what of it is believed. Keys of paramiko's are real ones."""

from __future__ import annotations

import base64
import hmac
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL
from pytest_mock import MockerFixture

from mnrun.schedulers.hosts import remote, unreachable
from mnrun.schedulers.hosts.known_hosts import host_keys
from mnrun.schedulers.hosts.remote import Place, SshPool
from unit.world import World

KEY, OTHER = "ssh-ed25519 AAAA", "ssh-rsa BBBB"


def hashed(name: str) -> str:
    salt = b"0123456789abcdefghij"
    parts = (salt, hmac.digest(salt, name.encode(), "sha1"))
    return "|1|" + "|".join(base64.b64encode(part).decode() for part in parts)


@pytest.mark.parametrize(
    ("names", "host", "is_it"),
    [
        ("n1", "n1", True),
        ("n1", "N1", True),
        ("n1,n2,10.0.0.2", "n2", True),
        ("n1,n2", "n3", False),
        ("*.x", "n1.x", True),
        ("*.x", "n1.y", False),
        ("n?", "n1", True),
        ("n?", "n12", False),
        ("*.x,!n1.x", "n1.x", False),
        ("!n1.x,*.x", "n2.x", True),
        ("[n1]:2222", "n1", False),
        ("[n*]:2222", "[n1]:2222", True),
        (hashed("n1"), "n1", True),
        (hashed("n1"), "n2", False),
        ("|1|broken", "n1", False),
        ("|1|*|*", "n1", False),
    ],
)
def test_whose_line_it_is(names: str, host: str, is_it: bool) -> None:
    assert bool(host_keys([f"{names} {KEY} a comment"], (host,)).keys) == is_it


def test_what_is_believed() -> None:
    """The lines of the port before those of the host; no comment, no half of a line, no key that is revoked."""
    lines = ["# n1 is old", "", "n1 ssh-rsa", f"n1 {KEY}", f"[n1]:22 {OTHER}", f"@revoked * {KEY}"]
    assert host_keys(lines, ("n1",)).keys == ()
    assert host_keys(lines[:-1], ("n1",)).keys == (KEY,)
    assert host_keys(lines, ("[n1]:22", "n1")).keys == (OTHER,)
    assert host_keys([f"n1 {KEY}"], ("[n1]:2222", "n1")).keys == (KEY,)
    by_ca = host_keys([f"@cert-authority *.x {KEY}"], ("n1.x",))
    assert (by_ca.keys, by_ca.by_ca) == ((), True)


@pytest.fixture(scope="module")
def keys() -> Mapping[str, paramiko.PKey]:
    return {name: paramiko.ECDSAKey.generate() for name in ("good", "other")}


def trusted(text: bytes, path: Path, where: Place) -> tuple[paramiko.PKey, ...]:
    path.write_bytes(text)
    return SshPool()._trust(replace(where, known_hosts=(str(path.parent / "none"), str(path)))).keys


def test_a_file_with_faults(tmp_path: Path, keys: Mapping[str, paramiko.PKey]) -> None:
    """Lines that are broken, of no kind that is known, or not UTF-8 take nothing from the others."""
    good, other = (f"{key.get_name()} {key.get_base64()}" for key in keys.values())
    lines = [
        *("n1 ssh-rsa broken=base64", "n1 ssh-rsa AAAA", "n1 ssh-of-tomorrow AAAA", f"@cert-authority * {other}"),
        *(f"n1 {good} caf\xe9", f"n1 {other}", f"n2 {other}"),
    ]
    found = trusted("\n".join(lines).encode("latin-1"), tmp_path / "known", Place("n1", "n1"))
    assert found == (keys["good"], keys["other"])
    found = trusted(f"n1 {good}\n".encode(), tmp_path / "known", Place("n1", "n1", port=2222))
    assert found == (keys["good"],)
    assert not trusted(f"n2 {good}\n".encode(), tmp_path / "known", Place("n1", "n1"))


def test_a_host_that_a_ca_vouches_for(tmp_path: Path, keys: Mapping[str, paramiko.PKey]) -> None:
    """paramiko knows of no such: it is said, with what does."""
    line = f"@cert-authority n* {keys['good'].get_name()} {keys['good'].get_base64()}\n"
    with pytest.raises(paramiko.SSHException) as why:
        trusted(line.encode(), tmp_path / "known", Place("n1", "n1"))
    said = str(unreachable.error({"n1": str(why.value)}, 1))
    assert "n1: only a CA signs its host key (use --rsh pdsh" in said


def test_a_terminal_that_changes_after_the_end_of_its_command(mocker: MockerFixture) -> None:
    """paramiko raises on a closed channel. Nothing is told of it."""
    loan = mocker.patch("mnrun.system.terminal.RawTerminal")
    channel = paramiko.Channel(1)
    mocker.patch.multiple(channel, get_pty=mocker.DEFAULT, exec_command=mocker.DEFAULT)
    remote.PromptChannel(channel, "true", "xterm")
    (resized,) = loan.call_args.args
    channel.closed = True
    resized(80, 24)


class Sshd(paramiko.ServerInterface):
    """A real one of paramiko's, that takes one key of alice's."""

    def __init__(self, takes: paramiko.PKey) -> None:
        self._takes = takes
        self.offered: list[paramiko.PKey] = []

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self.offered.append(key)
        return AUTH_SUCCESSFUL if key == self._takes else AUTH_FAILED

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"


class Host:
    """It has `own` as its keys; `login` goes there with an agent's keys, knowing these of its own."""

    def __init__(self, world: World, mocker: MockerFixture, path: Path, own: Sequence[paramiko.PKey]) -> None:
        self._mocker, self._path = mocker, path
        with world.allowed():
            self._ours, theirs = socket.socketpair()
        self._transport = paramiko.Transport(theirs)
        for key in own:
            self._transport.add_server_key(key)

    def login(self, known: Sequence[paramiko.PKey], agents: Sequence[paramiko.PKey]) -> Sshd:
        self.sshd = sshd = Sshd(agents[-1])
        self._transport.start_server(event=threading.Event(), server=sshd)
        self._path.write_text("".join(f"n1 {key.get_name()} {key.get_base64()}\n" for key in known))
        self._mocker.patch.object(remote, "_agents", return_value=list(agents))
        pool = SshPool()
        self._mocker.patch.object(pool, "_socket", return_value=self._ours)
        try:
            pool.client(Place("n1", "n1", user="alice", only=True, known_hosts=(str(self._path),)))
        finally:
            pool.close()
            self._transport.close()
            self._ours.close()
        return sshd


@pytest.fixture
def host(world: World, mocker: MockerFixture, tmp_path: Path) -> Callable[..., Host]:
    return lambda *own: Host(world, mocker, tmp_path / "known", own)


RSA = paramiko.RSAKey.generate(2048)


@pytest.mark.parametrize("first", ["good", "other"])
def test_a_name_of_two_keys(host: Callable[..., Host], keys: Mapping[str, paramiko.PKey], first: str) -> None:
    """Several hosts of one name, or a key that is being replaced: any of them will do; no third one."""
    both = (keys["other"], keys["good"])
    assert host(keys[first]).login(both, [RSA]).offered
    with pytest.raises(paramiko.BadHostKeyException):
        host(paramiko.ECDSAKey.generate()).login(both, [RSA])


def test_a_host_of_several_keys(host: Callable[..., Host], keys: Mapping[str, paramiko.PKey]) -> None:
    """It is asked for one of a kind that is known; where it has none, and where none is known, that is said."""
    assert host(keys["good"], RSA).login([RSA], [RSA]).offered
    for lines in ([RSA], []):
        with pytest.raises(paramiko.SSHException) as why:
            host(keys["good"]).login(lines, [RSA])
        assert "n1: its host key is not known here" in str(unreachable.error({"n1": str(why.value)}, 1))


def test_each_key_of_an_agent_that_fits_is_offered(
    host: Callable[..., Host], keys: Mapping[str, paramiko.PKey]
) -> None:
    """In their order, until one is taken; none to a host that is not believed."""
    sshd = host(RSA).login([RSA], [*keys.values(), RSA])
    assert list(dict.fromkeys(sshd.offered)) == [*keys.values(), RSA]
    there = host(keys["good"])
    with pytest.raises(paramiko.BadHostKeyException):
        there.login([keys["other"]], [RSA, RSA])
    assert not there.sshd.offered
