"""Make one call of mnrun.map, in a task of the job. It runs in the image, whose Python may be old and lacks mnrun."""

import importlib.abc
import importlib.machinery
import os
import pickle  # nosec B403: the folder of the calls is the user's own
import runpy
import sys
import time
import traceback
import types
from pathlib import Path

FOLDER = os.path.dirname(os.path.abspath(__file__))


class Absent(types.ModuleType):
    """In the place of mnrun's modules in an image that lacks them: the file of the function may import them."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Exception,), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):  # type: ignore[no-untyped-def]
        """Return the place of such a module. Finders before this one know those that are there."""
        if name.partition(".")[0] != "mnrun":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):  # type: ignore[no-untyped-def]
        return Absent(spec.name)

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        pass


def turn() -> int:
    """Return the index of the call whose turn it is. Rank 0 takes it, and the others of the launch read it."""
    launch = os.path.join(FOLDER, "launch." + os.environ["MNRUN_JOB_ID"])
    if os.environ.get("RANK", "0") == "0":
        index = 0
        while not taken(index):
            index += 1
        with open(launch + ".part", "w", encoding="utf-8") as file:
            file.write(str(index))
        os.rename(launch + ".part", launch)
    while not os.path.exists(launch):
        time.sleep(0.1)
    with open(launch, encoding="utf-8") as file:
        return int(file.read())


def taken(index: int) -> bool:
    """Return whether this task is the first to take a call."""
    try:
        os.mkdir(os.path.join(FOLDER, f"{index}.taken"))
    except FileExistsError:
        return False
    return True


def call(index: int) -> tuple:  # type: ignore[type-arg]
    """Return (True, the pickled result), or (False, the error if it can be pickled, its traceback)."""
    try:
        calls = pickle.loads(Path(FOLDER, "calls").read_bytes())  # nosec B301: its writer is this user
        sys.path[:] = [FOLDER] + sys.path[1:] + [path for path in calls["path"] if path not in sys.path]
        sys.meta_path.append(Finder())
        if calls["main"]:  # as multiprocessing does, so that names of __main__ are found
            main = types.ModuleType("__mp_main__")
            main.__dict__.update(runpy.run_path(calls["main"], run_name="__mp_main__"))
            sys.modules["__main__"] = sys.modules["__mp_main__"] = main
        function = pickle.loads(calls["function"])  # nosec B301: the same
        value = pickle.loads(calls["values"][index])  # nosec B301: the same
        return True, pickle.dumps(function(value), 4)
    except Exception as error:
        told = traceback.format_exc()
        try:
            kept = pickle.dumps(error, 4)
            pickle.loads(kept)  # nosec B301: the same
        except Exception:
            kept = b""
        return False, kept, f"{type(error).__name__}: {error}", told


def main() -> None:
    index = turn()
    outcome = call(index)
    sys.stdout.flush()
    if os.environ.get("RANK", "0") == "0":
        path = os.path.join(FOLDER, f"{index}.result")
        Path(path + ".part").write_bytes(pickle.dumps(outcome, 4))
        os.rename(path + ".part", path)
    if not outcome[0]:
        sys.exit(outcome[3])


if __name__ == "__main__":
    main()
