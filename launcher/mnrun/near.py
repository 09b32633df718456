"""Find the word that was meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the word that is most alike, or "" if none is nearly so: `ring` is no typing error for `run`."""
    import difflib  # late: few lines need it

    bare = {other.lstrip("-"): other for other in words if len(other.lstrip("-")) > 1}
    return next((bare[near] for near in difflib.get_close_matches(word.lstrip("-"), bare, 1, 0.65)), "")


def shortened(word: str, words: Iterable[str]) -> str:
    """Return the shortest word of which a text has the first three letters or more, in their order, or "".

    The first letter must be right: `--img` is `--image`, and no typing error.
    """
    begin = len(word) - len(word.lstrip("-")) + 1
    meant = [other for other in words if word[:begin] == other[:begin] and _within(word, other)]
    return min(meant, key=len, default="") if len(word) > begin + 1 else ""


def _within(word: str, other: str) -> bool:
    letters = iter(other)
    return all(letter in letters for letter in word)
