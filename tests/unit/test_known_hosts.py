"""known_hosts as ssh reads it: whose line it is, and what of it is believed. Keys of paramiko's are real ones."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from launcher.known_hosts import known
from launcher.remote import Door, Place
from launcher.schedulers.hosts import unreachable

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
    assert bool(known([f"{names} {KEY} a comment"], (host,)).keys) == is_it


def test_what_is_believed() -> None:
    """The lines of the port before those of the host; no comment, no half of a line, no key that is revoked."""
    lines = ["# n1 is old", "", "n1 ssh-rsa", f"n1 {KEY}", f"[n1]:22 {OTHER}", f"@revoked * {KEY}"]
    assert known(lines, ("n1",)).keys == ()
    assert known(lines[:-1], ("n1",)).keys == (KEY,)
    assert known(lines, ("[n1]:22", "n1")).keys == (OTHER,)
    assert known([f"n1 {KEY}"], ("[n1]:2222", "n1")).keys == (KEY,)
    by_ca = known([f"@cert-authority *.x {KEY}"], ("n1.x",))
    assert (by_ca.keys, by_ca.by_ca) == ((), True)


@pytest.fixture(scope="module")
def keys() -> Mapping[str, paramiko.PKey]:
    return {name: paramiko.ECDSAKey.generate() for name in ("good", "other")}


def trusted(text: bytes, path: Path, where: Place) -> paramiko.HostKeys:
    path.write_bytes(text)
    found = paramiko.HostKeys()
    Door()._trust(found, replace(where, known=(str(path.parent / "none"), str(path))))
    return found


def test_a_file_with_faults(tmp_path: Path, keys: Mapping[str, paramiko.PKey]) -> None:
    """Lines that are broken, of no kind that is known, or not UTF-8 take nothing from the others."""
    good, other = (f"{key.get_name()} {key.get_base64()}" for key in keys.values())
    lines = [
        *("n1 ssh-rsa broken=base64", "n1 ssh-rsa AAAA", "n1 ssh-of-tomorrow AAAA", f"@cert-authority * {other}"),
        *(f"n1 {good} caf\xe9", f"n1 {other}", f"n2 {other}"),
    ]
    found = trusted("\n".join(lines).encode("latin-1"), tmp_path / "known", Place("n1", "n1"))
    assert dict(found["n1"]) == {keys["good"].get_name(): keys["good"]}
    found = trusted(f"n1 {good}\n".encode(), tmp_path / "known", Place("n1", "n1", port=2222))
    assert dict(found["[n1]:2222"]) == {keys["good"].get_name(): keys["good"]}
    assert not trusted(f"n2 {good}\n".encode(), tmp_path / "known", Place("n1", "n1"))


def test_a_host_that_a_ca_vouches_for(tmp_path: Path, keys: Mapping[str, paramiko.PKey]) -> None:
    """paramiko knows of no such: it is said, with what does."""
    line = f"@cert-authority n* {keys['good'].get_name()} {keys['good'].get_base64()}\n"
    with pytest.raises(paramiko.SSHException) as why:
        trusted(line.encode(), tmp_path / "known", Place("n1", "n1"))
    said = str(unreachable({"n1": str(why.value)}, 1))
    assert "n1: its host key is known by a CA only (--rsh pdsh" in said
