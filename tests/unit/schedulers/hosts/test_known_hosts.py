"""known_hosts as ssh reads it: whose line it is, and what of it is believed. Keys of paramiko's are real ones."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL
from pytest_mock import MockerFixture

from mnrun.schedulers.hosts import unreachable
from mnrun.schedulers.hosts.known_hosts import host_keys
from mnrun.schedulers.hosts.remote import SshPool, Target
from unit.cases import Cases
from unit.texts import Says
from unit.world import World

KEY, OTHER = "ssh-ed25519 AAAA", "ssh-rsa BBBB"


def test_whose_line_it_is(cases: Cases) -> None:
    """Two of them are hashes of n1."""
    cases(lambda names, host: bool(host_keys([f"{names} {KEY} a comment"], (host,)).keys))


def test_what_is_believed() -> None:
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


def trusted(text: bytes, path: Path, where: Target) -> tuple[paramiko.PKey, ...]:
    path.write_bytes(text)
    return SshPool()._trust(replace(where, known_hosts=(str(path.parent / "none"), str(path)))).keys


def test_a_file_with_faults(tmp_path: Path, keys: Mapping[str, paramiko.PKey]) -> None:
    good, other = (f"{key.get_name()} {key.get_base64()}" for key in keys.values())
    lines = [
        *("n1 ssh-rsa broken=base64", "n1 ssh-rsa AAAA", "n1 ssh-of-tomorrow AAAA", f"@cert-authority * {other}"),
        *(f"n1 {good} caf\xe9", f"n1 {other}", f"n2 {other}"),
    ]
    found = trusted("\n".join(lines).encode("latin-1"), tmp_path / "known", Target("n1", "n1"))
    assert found == (keys["good"], keys["other"])
    found = trusted(f"n1 {good}\n".encode(), tmp_path / "known", Target("n1", "n1", port=2222))
    assert found == (keys["good"],)
    assert not trusted(f"n2 {good}\n".encode(), tmp_path / "known", Target("n1", "n1"))


def test_a_host_that_a_ca_vouches_for(tmp_path: Path, keys: Mapping[str, paramiko.PKey], says: Says) -> None:
    """paramiko knows of no such: it is said, with what does."""
    line = f"@cert-authority n* {keys['good'].get_name()} {keys['good'].get_base64()}\n"
    with pytest.raises(paramiko.SSHException) as why:
        trusted(line.encode(), tmp_path / "known", Target("n1", "n1"))
    says(unreachable.error({"n1": str(why.value)}, 1))


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
    """It has `own` as its keys; `login` goes there with a key of a file, knowing these of its own."""

    def __init__(self, world: World, mocker: MockerFixture, path: Path, own: Sequence[paramiko.PKey]) -> None:
        self._mocker, self._path = mocker, path
        with world.allowed():
            self._ours, theirs = socket.socketpair()
        self._transport = paramiko.Transport(theirs)
        for key in own:
            self._transport.add_server_key(key)

    def login(self, known: Sequence[paramiko.PKey]) -> Sshd:
        sshd = Sshd(RSA)
        self._transport.start_server(event=threading.Event(), server=sshd)
        self._path.write_text("".join(f"n1 {key.get_name()} {key.get_base64()}\n" for key in known))
        identity = self._path.with_name("id")
        RSA.write_private_key_file(str(identity))
        pool = SshPool()
        self._mocker.patch.object(pool, "_socket", return_value=self._ours)
        try:
            place = Target("n1", "n1", user="alice", keys=(str(identity),), known_hosts=(str(self._path),), agent=False)
            pool.client(place)
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
    both = (keys["other"], keys["good"])
    assert host(keys[first]).login(both).offered
    with pytest.raises(paramiko.BadHostKeyException):
        host(paramiko.ECDSAKey.generate()).login(both)


def test_a_host_of_several_keys(host: Callable[..., Host], keys: Mapping[str, paramiko.PKey], says: Says) -> None:
    assert host(keys["good"], RSA).login([RSA]).offered
    for lines in ([RSA], []):
        with pytest.raises(paramiko.SSHException) as why:
            host(keys["good"]).login(lines)
        says(unreachable.error({"n1": str(why.value)}, 1))
