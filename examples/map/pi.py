"""Compute pi with several numbers of steps, each in a task of its own. One of them cannot work."""

from pathlib import Path

from arrays import map_array


def area(steps: int) -> float:
    """Return the area below 4/(1+x*x) from 0 to 1, by rectangles."""
    width = 1 / steps
    return width * sum(4 / (1 + ((step + 0.5) * width) ** 2) for step in range(steps))


if __name__ == "__main__":
    calls = [{"steps": steps} for steps in (10, 0, 1000, 100_000)]
    for outcome in map_array(area, calls, Path("runs"), image="python.sif", nodes=1, quiet=True):
        print(outcome.parameters, f"failed: {outcome.error}" if outcome.error else outcome.result)
