"""The error for hosts out of reach."""

from __future__ import annotations

from mnrun.schedulers.hosts import unreachable


def test_all_hosts_out_of_reach_are_named_with_the_fix() -> None:
    """One line, alike ones together, and what nobody has seen before as it was said."""
    error = unreachable.error(
        {
            "n1": "[Errno 111] Connection refused",
            "n2": "Server 'n2' not found in known_hosts",
            "n3": "[Errno 111] Connection refused",
            "n4": "Authentication failed.",
            "n5": "green cheese",
        },
        9,
    )
    assert error.code == 121
    assert str(error).startswith("5 of 9 hosts cannot be reached: n[1,3]: no ssh server answers (see --ssh-port); n2: ")
    assert "ssh-keyscan n2" in str(error)
    assert "n4: the login was refused" in str(error)
    assert str(error).endswith("n5: green cheese")
