"""Fit a line to noisy points with the learning rate and the batch size of this task, and write down the error."""

import itertools
import json
import os
import random
from pathlib import Path

RATES, BATCHES = (0.5, 0.1, 0.01), (1, 16)
STEPS = 200


def train(rate: float, batch: int) -> float:
    """Return the mean squared error after so many steps of gradient descent."""
    chance = random.Random(0)
    points = [(x, 3 * x - 1 + chance.gauss(0, 0.1)) for x in (chance.random() for _ in range(256))]
    slope = offset = 0.0
    for _ in range(STEPS):
        errors = [(slope * x + offset - y, x) for x, y in chance.sample(points, batch)]
        slope -= rate * 2 * sum(error * x for error, x in errors) / batch
        offset -= rate * 2 * sum(error for error, _ in errors) / batch
    return sum((slope * x + offset - y) ** 2 for x, y in points) / len(points)


if __name__ == "__main__":
    task = os.environ["SLURM_ARRAY_TASK_ID"]
    rate, batch = list(itertools.product(RATES, BATCHES))[int(task)]
    Path("results").mkdir(exist_ok=True)
    row = {"task": int(task), "rate": rate, "batch": batch, "error": train(rate, batch)}
    Path(f"results/{task}.json").write_text(json.dumps(row))
