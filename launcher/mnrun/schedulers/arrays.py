"""Run arrays where a scheduler knows positions alone: 1 to N, for the tasks of a list such as 1,5,7."""

from __future__ import annotations

from collections.abc import Sequence

from mnrun.schedulers.vocabulary import JobId, numbers

# The variable of such a job that has the request of its array, with + for a comma, which begins another variable.
VARIABLE = "MNRUN_JOB_ARRAY"


def assigned(array: str) -> str:
    """Return the assignment of that variable, or "" for a job without an array."""
    return f"{VARIABLE}={array.replace(',', '+')}" if array else ""


def tasks(array: str) -> list[int]:
    """Return the numbers of an array's tasks in the order of their positions, from the request or the variable."""
    return numbers(array.replace("+", ","))


def one_range(tasks: Sequence[int]) -> str:
    """Return tasks as a range such as 0-8:2, or "" if they are none. Its end is above its begin, as PBS wants it
    (chk_Jrange.c)."""
    step = tasks[1] - tasks[0] if len(tasks) > 1 else 2
    if not tasks or list(tasks) != list(range(tasks[0], tasks[-1] + 1, step)):
        return ""
    return f"{tasks[0]}-{max(tasks[-1], tasks[0] + 1)}{f':{step}' if step > 1 else ''}"


def position(array: str, task: str) -> str:
    """Return the position of a task, which is its number if the array is unknown."""
    return str(tasks(array).index(int(task)) + 1) if array and int(task) in tasks(array) else task


def number(position: str, array: str) -> str:
    """Return the number of the task at this position, or the position if there is none."""
    known = tasks(array)
    return str(known[int(position) - 1]) if position.isdecimal() and 0 < int(position) <= len(known) else position


def identity(job: str, positions: str, array: str = "") -> str:
    """Return mnrun's id of a job, or of the tasks at these positions of its array: 24, 24_0 or 24_[0,1,2]."""
    known = tasks(array)
    found = [str(known[n - 1] if 0 < n <= len(known) else n) for n in numbers(positions)]
    return str(JobId(job, f"[{','.join(found)}]" if len(found) > 1 else "".join(found)))
