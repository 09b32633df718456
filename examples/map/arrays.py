"""Call a function with many parameters, as one array job: a task for each call, and results in order.

    for outcome in map_array(area, [{"steps": 10}, {"steps": 100}], Path("runs"), image="python.sif", nodes=1): …

The file of the function must be seen by all nodes. Parameters and results are what JSON can hold.
"""

from __future__ import annotations

import inspect
import json
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CALLS = "calls.json"


@dataclass(frozen=True)
class Outcome:
    """The end of one call: its result, or its error. The error of a killed task is its exit code and the reason."""

    parameters: Mapping[str, Any]
    code: int
    result: Any = None
    error: str = ""


def map_array(
    function: Callable[..., Any], calls: Sequence[Mapping[str, Any]], folder: Path, **options: Any
) -> Iterator[Outcome]:
    """Submit the calls, and yield their outcomes in order, each as soon as it is there. Raises LaunchError."""
    from mnrun import Job  # only where it is called: the tasks run in an image without mnrun

    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CALLS).write_text(json.dumps(calls))
    for index in range(len(calls)):
        (folder / f"{index}.json").unlink(missing_ok=True)
    task = ["python3", os.path.abspath(__file__), inspect.getfile(function), function.__name__, str(folder)]
    array = {"array": f"0-{len(calls) - 1}", "output": str(folder / "%a.out")}
    return _outcomes(Job(task, launcher="env", **array, **options).submit(), calls, folder)


def _outcomes(handle: Any, calls: Sequence[Mapping[str, Any]], folder: Path) -> Iterator[Outcome]:
    for index, parameters in enumerate(calls):
        task = handle.task(index)
        code = task.wait()
        path = folder / f"{index}.json"
        left = json.loads(path.read_text()) if path.exists() else {}
        if code:
            left = {"error": f"exit code {code} {task.status().why}", **left}
        yield Outcome(parameters, code, **left)


def run_task(file: str, name: str, folder: Path) -> None:
    """Make the call whose turn it is, in a task of the array. What rank 0 returns or raises counts."""
    index = int(os.environ["SLURM_ARRAY_TASK_ID"])
    parameters = json.loads((folder / CALLS).read_text())[index]
    sys.path.insert(0, os.path.dirname(file))
    left: dict[str, Any] = {}
    try:
        left["result"] = runpy.run_path(file)[name](**parameters)
    except Exception as error:
        left["error"] = f"{type(error).__name__}: {error}"
        raise
    finally:
        if left and os.environ["RANK"] == "0":
            part = folder / f".{index}.json"
            part.write_text(json.dumps(left))
            part.rename(folder / f"{index}.json")


if __name__ == "__main__":
    run_task(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
