"""Call a function with many values, each in a task of one array job: `mnrun.map`."""

from __future__ import annotations

import contextlib
import os
import pickle  # nosec B403: for files in a folder of the user's own
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from mnrun.api import ASK, Job, SubmittedJob
from mnrun.errors import LaunchError, NodeError, UsageError
from mnrun.jobs import waiting
from mnrun.system.paths import foreign, private

V = TypeVar("V")
R = TypeVar("R")

TASK = "task.py"
ENDS = 10.0  # seconds for which the end of a job is awaited
PLACE = ".mnrun/map"  # below the home directory, which nodes see


class RemoteTraceback(Exception):
    """The cause of an exception that `map` raises: its traceback in the task, as a text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def map(function: Callable[[V], R], values: Iterable[V], *, python: str = "python3", **options: Any) -> Iterator[R]:
    """Call `function` with each of `values`, each in a task of an array job, and yield the results in order.

    `options` are those of Job: `image="python.sif"`, `time="10:00"`. By default, a task has one rank. Of several ranks,
    each makes the call, and the result of rank 0 counts. `python` is the image's interpreter, which needs no mnrun.
    With `local=True`, this machine makes one call after the other.

    The job is submitted at once. Raises what a call has raised, with its traceback in the task, when its turn comes,
    and ends the rest of the job, which takes up to 10 s. So does the end of the iterator, also where nobody asks it for
    a result. Raises LaunchError, also for a task that was killed. Functions, values and results are sent by pickle.
    What pickle cannot send, such as a lambda, is sent by cloudpickle if that is installed here.
    """
    calls = _calls(function, list(values))
    if not calls["values"]:
        return iter(())
    folder = _folder(calls)
    try:
        job = Job([python, str(folder / TASK)], **_options(options, folder, len(calls["values"])))
        handle = None if options.get("local") else job.submit()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    results = _results(job, handle, folder, len(calls["values"]))
    next(results)  # so that it tidies up also where nobody asks for a result
    return results


def _options(options: dict[str, Any], folder: Path, number: int) -> dict[str, Any]:
    if "array" in options or "output" in options:
        raise UsageError("map has no array and no output of yours", "leave array and output out")
    bind = [f"{folder}:{folder}", *options.get("bind", ())]
    usual: dict[str, Any] = {"nodes": 1, "launcher": "env", "quiet": True}
    if "ntasks" not in options and "ntasks_per_node" not in options:
        usual["ntasks_per_node"] = 1
    if not options.get("local"):  # without a requeue, since each start would take a call
        usual.update(array=f"0-{number - 1}", output=str(folder / "%a.out"), requeue=False)
    return {**usual, **options, "bind": bind}


def _calls(function: Callable[[Any], Any], values: list[Any]) -> dict[str, Any]:
    """Return what a task needs. Raises UsageError for what cannot be sent."""
    main = getattr(sys.modules["__main__"], "__file__", None)
    own = [path for path in sys.path if path and not path.startswith((sys.prefix, sys.base_prefix))]
    try:
        if main is None and getattr(function, "__module__", "") == "__main__":
            raise pickle.PicklingError("it was typed at a prompt")
        sent = [pickle.dumps(thing, 4) for thing in (function, *values)]
    except (pickle.PicklingError, AttributeError, TypeError):
        try:
            import cloudpickle  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            remedy = "define the function in a file, or install cloudpickle here"
            name = getattr(function, "__qualname__", "the function")
            raise UsageError(f"pickle cannot send {name}, or a value", remedy) from None
        sent = [cloudpickle.dumps(thing, 4) for thing in (function, *values)]
        main = None
    return {"function": sent[0], "values": sent[1:], "main": main and os.path.abspath(main), "path": own}


def _folder(calls: dict[str, Any]) -> Path:
    """Return a new folder with the calls, and with all that the task needs besides Python."""
    base = Path.home() / PLACE
    private(base)
    if why := foreign(base):
        raise UsageError(f"{base} {why}", "mnrun.map unpickles what it holds")
    folder = Path(tempfile.mkdtemp(dir=base))
    shutil.copyfile(Path(__file__).with_name(TASK), folder / TASK)
    if calls["main"]:
        shutil.copyfile(calls["main"], folder / "main_of_map.py")
        calls["path"].insert(0, os.path.dirname(calls["main"]))
        calls["main"] = str(folder / "main_of_map.py")
    cloudpickle = sys.modules.get("cloudpickle")
    if cloudpickle is not None and cloudpickle.__file__:  # pure Python, and the image may lack it
        shutil.copytree(os.path.dirname(cloudpickle.__file__), folder / "cloudpickle")
    (folder / "calls").write_bytes(pickle.dumps(calls, 4))
    return folder


def _results(job: Job, handle: SubmittedJob | None, folder: Path, number: int) -> Iterator[Any]:
    """Yield None, and then the results. A job that is not needed any more is ended."""
    index = -1
    try:
        yield None
        for index in range(number):
            if handle is None:
                job.run()
            yield _result(handle, folder, index)
    finally:
        try:
            if handle is not None and index < number - 1:
                handle.cancel()
                with contextlib.suppress(LaunchError):
                    handle.wait(ENDS)  # for a task that is just starting, Slurm would make the folder anew
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _result(handle: SubmittedJob | None, folder: Path, index: int) -> Any:
    path = folder / f"{index}.result"
    over, asked = handle is None, time.monotonic()
    while not _there(path) and not over:
        if time.monotonic() - asked > ASK and handle is not None:
            over, asked = handle.done(), time.monotonic()
        time.sleep(waiting.LOOK)
    if not path.exists():
        raise _lost(handle, folder, index)
    sys.modules.setdefault("__mp_main__", sys.modules["__main__"])  # the name of this program in the task
    outcome = pickle.loads(path.read_bytes())  # nosec B301: the user's own job wrote it
    if outcome[0]:
        return pickle.loads(outcome[1])  # nosec B301: the same
    _, kept, told, trace = outcome
    error = pickle.loads(kept) if kept else RuntimeError(told)  # nosec B301: the same
    raise error from RemoteTraceback(trace)


def _there(path: Path) -> bool:
    """Return whether a file is there. A list of the folder comes from the server of a network's file system, where the
    answer about one name may be an old one: by nfs(5), ac, the client keeps it for up to 60 s."""
    return path.name in os.listdir(path.parent)


def _lost(handle: SubmittedJob | None, folder: Path, index: int) -> LaunchError:
    why = "" if handle is None else f": {handle.status().why or handle.state}"
    said = sorted(folder.glob("*.out"))
    last = next(
        (lines[-1] for path in said if (lines := path.read_text(encoding="utf-8", errors="replace").splitlines())), ""
    )
    return NodeError(f"call {index} of map left no result{why}", f"its job said: {last}" if last else "")
