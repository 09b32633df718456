"""Write the words of an OpenSSH client that starts a line on a host."""

from __future__ import annotations

from mnrun.model import Words

FAILED = 255  # the exit code of ssh itself (ssh(1))
# No host key is taken on trust, whatever the user's own configuration says. A master connection of the user's serves.
# ssh would leave a new one behind, which held our pipes before OpenSSH 8.8.
OPTIONS = (
    *("-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=15", "-x"),
    *("-o", "ControlMaster=no"),
)


def words(node: str, line: str, *options: str, terminal: bool = False) -> Words:
    """Return the words of an ssh that starts a line on a host."""
    # ERROR hides ssh's farewell, which comes when all is done.
    kind = ("-tt", "-o", "LogLevel=ERROR") if terminal else ("-T",)
    return ("ssh", *kind, *OPTIONS, *options, "--", node, line)
