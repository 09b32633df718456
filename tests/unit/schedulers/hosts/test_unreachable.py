"""The error for hosts out of reach."""

from __future__ import annotations

from mnrun.schedulers.hosts import unreachable
from unit.texts import Says


def test_all_hosts_out_of_reach_are_named_with_the_fix(says: Says) -> None:
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
    says(error)
