"""Relay the messages between the nodes of a job through the launcher (wrappers/pipe/pipe_frames.sh). Reads no file.

up    ask|answer FROM TO ID KIND DATA      from FROM's guard
down  ask|answer TO FROM ID KIND DATA      to TO's guard, which passes the rest on
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

WORDS = ("ask ", "answer ")


def route(line: str, nodes: Collection[str], gone: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the node that a line goes to, and the line as it goes there, or None if nobody waits for it.

    `gone` has the reason for each node that cannot be reached. A node that asks such a node gets the reason as its
    answer.
    """
    try:
        word, sender, to, identity, kind, *data = line.split(" ", 5)
    except ValueError:
        return None
    reason = gone.get(to, "") if to in nodes else "it is not a node of this job"
    if sender not in nodes:
        return None
    if not reason:
        return to, " ".join((word, to, sender, identity, kind, *data))
    if word == "ask" and kind == "run":
        return sender, f"answer {sender} {to} {identity} no {reason}"
    return None
