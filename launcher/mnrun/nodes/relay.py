"""What the nodes of a job say to each other, by way of the launcher (wrappers/pipe/pipe_frames.sh). Pure.

up    ask|answer FROM TO ID KIND DATA      from FROM's guard
down  ask|answer TO FROM ID KIND DATA      to TO's, which passes the rest on
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

WORDS = ("ask ", "answer ")


def route(line: str, nodes: Collection[str], gone: Mapping[str, str]) -> tuple[str, str] | None:
    """The node that the line goes to, and the line as it goes there; None where nobody waits for it.

    Who asks a node that cannot be reached is told so, `gone` with why.
    """
    try:
        word, sender, to, what, kind, *data = line.split(" ", 5)
    except ValueError:
        return None
    reason = gone.get(to, "") if to in nodes else "it is no node of this job"
    if sender not in nodes:
        return None
    if not reason:
        return to, " ".join((word, to, sender, what, kind, *data))
    if word == "ask" and kind == "run":
        return sender, f"answer {sender} {to} {what} no {reason}"
    return None
