"""Write the kit of a sample launch into a folder, so that shellcheck reads it as it lies on a node."""

from __future__ import annotations

import sys
from pathlib import Path

from mnrun.environment import exports
from mnrun.jobspec import ContainerOptions, Image, ImageKind, JobSpec, Program, Variable
from mnrun.model import Layout, Plan
from mnrun.nodes import kit
from mnrun.planning import plan


def sample() -> Plan:
    spec = JobSpec(
        program=Program(command=("./app",), env=(Variable("A", "it's"), Variable("B", None))),
        container=ContainerOptions(image=Image(ImageKind.FILE, "/images/app.sif")),
    )
    return plan.make(spec, Layout(("node01", "node02"), (2, 1)), "7-abcdef")


def main(target: str) -> None:
    made = sample()
    generated = {
        "launch.env": kit.inside_environment(made),
        "session.env": "# shellcheck shell=sh\n" + exports(made.spec.program.env),
    }
    for name, text in kit.files(made, generated).items():
        path = Path(target) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1])
