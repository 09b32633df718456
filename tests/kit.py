"""Write the kit of a sample launch into a folder, and each script that needs others as one text.

So shellcheck reads them as they are on a node.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mnrun.environment import exports
from mnrun.files import wrappers
from mnrun.jobspec import ContainerOptions, Image, ImageKind, JobSpec, Program, Variable
from mnrun.model import Layout, Plan, Site
from mnrun.nodes import kit
from mnrun.planning import plan
from mnrun.planning.commands import job_here
from mnrun.schedulers.slurm import scheduler as slurm

ENV = (("SLURM_JOB_ID", "7"), ("A", "it's"), ("B", None))


def sample() -> Plan:
    spec = JobSpec(
        program=Program(command=("./app",), env=tuple(Variable(*pair) for pair in ENV)),
        container=ContainerOptions(image=Image(ImageKind.FILE, "/images/app.sif")),
    )
    return plan.make(spec, Layout(("node01", "node02"), (2, 1)), "7-abcdef")


def main(target: str) -> None:
    made = sample()
    generated = {
        "launch.env": kit.inside_environment(made),
        "session.env": "# shellcheck shell=sh\n" + exports(made.spec.program.env),
    }
    for name, text in kit.files(made, generated, job_here(Site("slurm", "7"))).items():
        path = Path(target) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    values = kit.on_node(slurm.ON_NODE) + "mnrun_id=7 mnrun_copy=/a mnrun_size=1\n" + slurm.PROBE
    for name, path in wrappers("probe", "images").items():
        if "\n# needs: " in path.read_text(encoding="utf-8") and name != "mpi_image.sh":
            (Path(target) / f"whole_{name}").write_text(f"#!/bin/bash\n{values}{kit.bundle(name)}")


if __name__ == "__main__":
    main(sys.argv[1])
