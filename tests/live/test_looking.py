"""Looking at a job file, a template or an image of somebody else: what runs of it, as docs/security.md says."""

from __future__ import annotations

import pytest

from .batch import of_modules
from .cells import some
from .reports import refusal
from .stage import Cluster, Desk
from .stranger import LAIR, Stranger, evil_images, marks
from .ways import WAYS

JOB = """\
image = "/images/ompi5.sif"
nodes = 1
module = ["evil"]
templates = "."
command = ["true"]
"""
TEMPLATE = """\
#!/bin/bash
{{ cycler.__init__.__globals__.os.popen("touch DESK/ran").read() }}
"""


def test_a_dry_run_runs_nothing_of_a_job_file(cluster: Cluster, desk: Desk) -> None:
    """S8: neither its template, which is refused, nor its modules. A plan on paper loads these, as the job would."""
    desk.put("job.toml", JOB)
    looks = (["mnrun", "submit", "--dry-run", "job.toml"], ["mnrun", "plan", "--format", "sbatch", "job.toml"])
    with of_modules(cluster, {"evil/1": f"exec touch {desk.path}/ran\n"}):
        for words in looks:
            done = cluster.alice(["bash", "-lc", 'exec "$@"', "bash", *words], cwd=desk.path)
            assert (done.code, desk.names()) == (0, ["job.toml"]), done
        desk.put("slurm.sh", TEMPLATE.replace("DESK", desk.path))
        for words in looks:
            refusal(cluster.alice(words, cwd=desk.path), 2, "slurm.sh: ")
            assert desk.names() == ["job.toml", "slurm.sh"]
        done = cluster.alice(["bash", "-lc", "mnrun plan job.toml"], cwd=desk.path)
        assert done.code == 0 and "ran" in desk.names(), done


# What looks at an image: whether a program of it runs. It sees no directory of the node: no home, no /tmp, nor the one
# where the line is typed.
LOOKS = {
    "inspect": True,
    "inspect on a node": True,
    "check": True,
    "check of hosts": True,
    "plan on paper": False,
    "dry run": False,
    "dry run on a node": False,
    "script on a node": False,
    "verify": False,
    "verify on a node": False,
}


@pytest.mark.parametrize("runtime", ["apptainer", "charliecloud"])
def test_an_image_that_is_looked_at(cluster: Cluster, desk: Desk, bob: Stranger, unmarked: None, runtime: str) -> None:
    """S8: what only asks it about its MPI contains it, and the others run nothing of it."""
    evil_images(cluster, desk, bob)
    cluster.alice(["cp", "-r", f"{LAIR}/image", f"{LAIR}/image.sif", desk.path])
    for way in some([*LOOKS], ["inspect", "check", "dry run on a node", "verify"]):
        image = f"{desk.path}/image.sif" if way.startswith("verify") else f"{desk.path}/image"
        done = cluster.alice(["env", f"MNRUN_RUNTIME={runtime}", *WAYS[way].line(image)], cwd=desk.path)
        said = f"{way}: {done}"
        assert marks(cluster, desk) == [], said
        assert ("has run" in said) is LOOKS[way], said


# Files that a person may name by mistake. None of them has a byte to read.
PIPES = {
    "plan": (("plan", "--image", "./pipe", "--", "true"), 0),
    "submit": (("submit", "--dry-run", "--image", "./pipe", "--", "true"), 0),
    "inspect": (("image", "inspect", "./pipe"), 2),
    "verify": (("image", "verify", "./pipe"), 2),
    "local": (("--local", "--image", "./pipe", "--", "true"), 121),
}


def test_a_pipe_in_the_place_of_an_image(cluster: Cluster, desk: Desk) -> None:
    """L4: nobody waits for somebody who writes to it."""
    assert cluster.alice(["mkfifo", "pipe"], cwd=desk.path).code == 0
    for verb, (words, code) in PIPES.items():
        done = cluster.alice(["timeout", "-s", "KILL", "120", "mnrun", *words], cwd=desk.path)
        assert done.code == code, f"{verb}: {done}"
