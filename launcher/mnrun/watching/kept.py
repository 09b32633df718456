"""Choose the samples that stay in a file of bounded size: all at first, and every second tick once it is full."""

from __future__ import annotations

WORD = "sample"  # the first word of their lines (samples.py)
LIMIT = 5_000_000  # bytes


class Thinner:
    """Takes each `stride`-th tick of every node, with all of its lines."""

    def __init__(self, stride: int = 1) -> None:
        self.stride = stride
        self._ticks: dict[str, tuple[str, int]] = {}  # node -> time and number of its last tick

    def takes(self, line: str) -> bool:
        node, time = [*line.split(" ", 3), "", ""][1:3]
        last, number = self._ticks.get(node, ("", -1))
        if time != last:
            number += 1
            self._ticks[node] = (time, number)
        return number % self.stride == 0


def thinned(text: str) -> str:
    """Return every second tick of each node."""
    thinner = Thinner(2)
    return "".join(line for line in text.splitlines(keepends=True) if thinner.takes(line))
