"""The keys of one job."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

from mnrun.system import keys


def public(private: str) -> str:
    key = load_ssh_private_key(private.encode(), None)
    assert isinstance(key, Ed25519PrivateKey)
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def test_what_sshd_and_ssh_need() -> None:
    made = keys.make()
    assert set(made) == {"key", "authorized_keys", "hostkey", "known_hosts"}
    assert made["authorized_keys"] == public(made["key"]) + "\n"
    assert made["known_hosts"] == f"mnrun {public(made['hostkey'])}\n"


def test_keys_end_with_a_newline() -> None:
    """OpenSSH refuses a private key whose last line has no end."""
    assert all(text.endswith("\n") for text in keys.make().values())


def test_no_job_has_anothers_keys() -> None:
    one, other = keys.make(), keys.make()
    private = {one["key"], one["hostkey"], other["key"], other["hostkey"]}
    assert len(private) == 4
