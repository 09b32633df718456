"""mnrun.Job on the cluster: a plan, a run with an allocation of its own, and a submitted job to its end."""

from __future__ import annotations

import pytest

from .batch import forget
from .cells import HELLO, OMPI5
from .stage import Cluster, Desk

PYTHON = "/opt/mnrun/venv/bin/python3"
PROGRAM = f"""\
import sys
from mnrun import Job
from mnrun.errors import LaunchError

job = Job(["{HELLO}"], image="{OMPI5}", nodes=2, ntasks_per_node=2, env={{"A": "it's"}}, quiet=True)
print("planned", job.plan()["layout"]["ranks"])
sys.stdout.flush()
print("ran", job.run())
handle = job.submit()
print("submitted", handle.id.isdecimal(), handle.wait(), handle.status().state)
print(sorted(line for line in handle.logs().splitlines() if line.startswith("rank ")))
sleeper = Job(["sleep", "600"], image="{OMPI5}", nodes=1, launcher="env", quiet=True).submit()
sleeper.cancel()
print("cancelled", sleeper.wait())
try:
    Job(["true"], image="/nosuch.sif", nodes=99, quiet=True).run()
except LaunchError as error:
    print("refused", error.code)
"""


FOLLOWED = """\
import os, sys
import mnrun
from mnrun.errors import DeadlineError, LaunchError

IMAGE = {"image": "/images/bare.sif", "time": "5:00"}
LINE = "echo begun; until [ -e go ]; do sleep 0.2; done; echo last; exit 3"


class Odd(Exception):
    pass


def tenth(x):
    print("value", x)
    if x == 7:
        raise Odd("seven")
    if x == 8:
        os._exit(3)
    return {"tenth": x / 10}


if __name__ == "__main__":
    print(list(mnrun.map(tenth, [1, 2, 3], **IMAGE)))
    for values in ([7, 1], [8]):
        try:
            print(list(mnrun.map(tenth, values, **IMAGE)))
        except Odd as error:
            print("raised", error, "in tenth" in str(error.__cause__))
        except LaunchError as error:
            print("lost", error.code)
    mnrun.map(tenth, [1], **IMAGE)  # nobody asks for a result
    print("left", os.listdir(os.path.expanduser("~/.mnrun/map")))
    job = mnrun.Job.attach(mnrun.Job(["sh", "-c", LINE], nodes=1, launcher="env", **IMAGE).submit().id)
    try:
        job.wait(0.1)
    except DeadlineError:
        print("not yet", job.done())
    for line in job.logs(follow=True):
        print("line", line, end="")
        open("go", "w").close()
    print("ended", job.wait(240), job.done(), job.state, [*job.logs().split()])
"""


def follow_and_map(cluster: Cluster, desk: Desk) -> None:
    """The image's Python has no mnrun, and the program imports it."""
    result = cluster.alice([PYTHON, desk.put("sweep.py", FOLLOWED)], cwd=desk.path)
    assert result.code == 0, result
    assert result.out.splitlines() == [
        "[{'tenth': 0.1}, {'tenth': 0.2}, {'tenth': 0.3}]",
        "raised seven True",
        "lost 121",
        "left []",
        "not yet False",
        "line begun",
        "line last",
        "ended 3 True failed ['begun', 'last']",
    ], result
    forget(cluster)


@pytest.mark.usefixtures("bare")
def test_a_function_is_called_in_tasks_and_a_job_is_followed(cluster: Cluster, desk: Desk) -> None:
    follow_and_map(cluster, desk)


def test_a_job_from_python(cluster: Cluster, desk: Desk) -> None:
    """A user's own program does what the verbs do. (S9) No process of mnrun's imports from the working directory."""
    path = desk.put("sweep.py", PROGRAM)
    cluster.alice(["mkdir", f"{desk.path}/data"])
    for name in ("click", "mnrun", "shlex"):
        desk.put(f"data/{name}.py", f"open('{desk.path}/imported', 'a').write('{name}')")
    result = cluster.alice([PYTHON, path], cwd=f"{desk.path}/data")
    assert result.code == 0, result
    assert "imported" not in desk.names(), result
    lines = result.out.splitlines()
    assert lines[0] == "planned [2, 2]", result
    assert sum(line.startswith("rank ") for line in lines) == 4, result
    assert "ran 0" in lines, result
    assert "submitted True 0 COMPLETED" in lines, result
    (logged,) = (line for line in lines if line.startswith("['rank 0 of 4"))
    assert logged.count(" of 4 on node0") == 4, result
    assert "cancelled 143" in lines, result
    assert lines[-1] == "refused 123", result
    forget(cluster)


# A copy of mnrun, which the program takes away, as an upgrade does with the files of the old one.
REPLACED = """
mkdir lib && cp -r /opt/mnrun/venv/lib/python3*/site-packages/mnrun lib/
PYTHONPATH=$PWD/lib "$@" -- sh -c 'mv lib/mnrun lib/away || exit 99; exit 3'
code=$?
test -d lib/away || exit 98
rm -r lib
exit $code
"""


@pytest.mark.parametrize("how", ["run", "submit"])
def test_mnrun_is_replaced_while_a_job_runs(cluster: Cluster, desk: Desk, how: str) -> None:
    """(R3) The end needs no file of mnrun's any more: the code is the program's, and the reason is told."""
    words = {"run": ["run", "--local"], "submit": ["submit", "--wait", "-N1", "-w", cluster.nodes[0], "-e", "err"]}
    line = ["mnrun", *words[how], "--runtime", "host", "--launcher", "env"]
    result = cluster.alice(["sh", "-c", REPLACED, "test", *line], cwd=desk.path)
    assert result.code == 3, result
    said = result.err if how == "run" else desk.read("err").decode()
    assert "exited with 3" in said, said
    assert "Traceback" not in said + result.err, said
    forget(cluster)


def test_api_of_a_central_installation(cluster: Cluster) -> None:
    """mnrun names the Python that finds it."""
    line = '"$(mnrun version --python)" -c "import mnrun; print(mnrun.Job)"'
    assert cluster.alice(["sh", "-c", line]).out == "<class 'mnrun.api.Job'>\n"
