"""Answer a first word that is no verb of mnrun's: another tool's verb, or a typing error."""

from __future__ import annotations

from collections.abc import Callable, Collection

from mnrun.cli.words.answers import VERBS
from mnrun.cli.words.command import SLURM
from mnrun.cli.words.foreign import CONTAINERS
from mnrun.errors import UsageError
from mnrun.near import nearest


def refuse(word: str, verbs: Collection[str], exists: Callable[[str], bool]) -> None:
    """Raise UsageError if the word is meant as a verb. `exists` returns whether it is a file or a program here."""
    if word.startswith("-") or "/" in word or word.endswith(".toml"):
        return
    if word in VERBS:
        raise UsageError(f"there is no verb {word}", f"{VERBS[word]}, or mnrun -- {word} for a program of that name")
    begun = [verb for verb in verbs if len(word) > 2 and verb.startswith(word)]
    near = begun[0] if len(begun) == 1 else nearest(word, verbs)
    if near and word not in (*CONTAINERS, *SLURM) and not exists(word):
        problem = f"there is no verb {word}: did you mean {near}?"
        raise UsageError(f"{problem} For a program of that name: mnrun -- {word}")
