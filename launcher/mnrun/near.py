"""Find the word that was meant: the nearest of some words, by the number of letters that differ."""

from __future__ import annotations

from collections.abc import Iterable

FARTHEST = 2


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the word at the smallest distance, or "".

    It is at most FARTHEST away, and by fewer than half of the letters: `ring` is no typing error for `run`.
    """
    letters = len(word.lstrip("-"))
    near = min(((distance(word, other), other) for other in words), default=(FARTHEST + 1, ""))
    return near[1] if near[0] <= FARTHEST and 2 * near[0] < letters else ""


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


def distance(a: str, b: str) -> int:
    """Return how many letters are wrong, missing, too many, or swapped with their neighbour."""
    if abs(len(a) - len(b)) > FARTHEST:
        return FARTHEST + 1
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        row = [i]
        for j, other in enumerate(b, 1):
            row.append(min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != other)))
            if before and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                row[j] = min(row[j], before[j - 2] + 1)
        before, last = last, row
    return last[-1]
