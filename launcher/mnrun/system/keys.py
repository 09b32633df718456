"""Make the keys of one job. No other job knows them, and they are removed with the job."""

from __future__ import annotations


def make() -> dict[str, str]:
    """Return name -> text: the client's key, and the host key that the client knows by its HostKeyAlias mnrun."""
    private, public = _pair()
    host_private, host_public = _pair()
    return {
        "key": private,
        "authorized_keys": f"{public}\n",
        "hostkey": host_private,
        "known_hosts": f"mnrun {host_public}\n",
    }


def _pair() -> tuple[str, str]:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return private.decode(), public.decode()
