"""What pairs of runs say of a way: the median of their ratios, and how well it is known. Starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

SURE = 0.95  # the least probability that an interval holds the true median
LIMIT = 1.01  # a way may be slower than this by chance alone


@dataclass(frozen=True)
class Ratio:
    """A way's time by that of its bare neighbour: the median of the pairs, and the interval of the true median."""

    middle: float
    low: float
    high: float
    sure: bool  # whether there are enough pairs for an interval

    @property
    def slower(self) -> bool:
        """Whether the way is slower than LIMIT beyond doubt."""
        return self.sure and self.low > LIMIT


def ratio(way: Sequence[float], bare: Sequence[float]) -> Ratio:
    """Return the ratio of a way to the bare runs that it was paired with."""
    each = sorted(mine / other for mine, other in zip(way, bare))
    left = left_out(len(each))
    return Ratio(median(each), each[left], each[-1 - left], coverage(len(each), left) >= SURE)


def left_out(pairs: int) -> int:
    """Return how many values an interval of the median leaves out at each end."""
    left = 0
    while coverage(pairs, left + 1) >= SURE:
        left += 1
    return left


def coverage(pairs: int, left: int) -> float:
    """Return the probability that such an interval holds the true median.

    A value is above the true median with a probability of one half, whatever the distribution is. So the number of
    those above it is binomial, and no other assumption is needed.
    """
    return 1 - 2 * sum(comb(pairs, above) for above in range(left + 1)) / 2.0**pairs
