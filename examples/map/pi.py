"""Compute pi with several numbers of steps, each in a task of its own."""

import mnrun


def area(steps: int) -> float:
    """Return the area below 4/(1+x*x) from 0 to 1, by rectangles."""
    width = 1 / steps
    return width * sum(4 / (1 + ((step + 0.5) * width) ** 2) for step in range(steps))


if __name__ == "__main__":
    numbers = [10, 1000, 100_000]
    for steps, pi in zip(numbers, mnrun.map(area, numbers, image="python.sif", time="5:00")):
        print(steps, pi)
    try:
        print(*mnrun.map(area, [0], image="python.sif", time="5:00"))
    except ZeroDivisionError as error:
        print("of 0 steps:", error)
