"""Fit a line to the points of /data until the error is small, with the lines that MLPerf's log checker reads."""

import json
import os
import random
import time

TARGET = 0.011
MAXIMUM = 200


def log(event: str, key: str, value: object, **more: object) -> None:
    """Print one line of MLPerf's log. Rank 0's lines count."""
    line = {"namespace": "", "time_ms": int(time.time() * 1000), "event_type": event, "key": key, "value": value}
    print(":::MLLOG", json.dumps({**line, "metadata": more}), flush=True)


def main() -> None:
    seed = int(os.environ["SEED"])
    log("POINT_IN_TIME", "submission_benchmark", "line_fit")
    log("POINT_IN_TIME", "seed", seed)
    log("INTERVAL_START", "run_start", None)
    with open("/data/points.csv", encoding="utf-8") as file:
        points = [tuple(map(float, line.split(","))) for line in file]
    chance = random.Random(seed)
    slope, offset, error, epoch = chance.random(), chance.random(), 1.0, 0
    while error > TARGET and epoch < MAXIMUM:
        epoch += 1
        for x, y in chance.sample(points, len(points)):
            wrong = slope * x + offset - y
            slope, offset = slope - 0.02 * wrong * x, offset - 0.02 * wrong
        error = sum((slope * x + offset - y) ** 2 for x, y in points) / len(points)
        log("POINT_IN_TIME", "eval_accuracy", error, epoch_num=epoch)
    log("INTERVAL_END", "run_stop", None, status="success" if error <= TARGET else "aborted")


if __name__ == "__main__":
    main()
