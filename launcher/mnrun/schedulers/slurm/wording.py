"""Hold what Slurm is like, and the texts for its nodes and for the ranks that srun starts."""

from __future__ import annotations

from pathlib import Path

from mnrun.files import lean
from mnrun.model import BOX, Plan, Words


def text(name: str) -> str:
    """Return a script of this folder, as a node gets it."""
    return lean(Path(__file__).with_name(name).read_text(encoding="utf-8"))


SINGLE = SIGNALS = True
# A job has the limits of the shell that submitted it (slurm.conf(5), PropagateResourceLimits).
LIMITS = (
    "an admin sets Limit{name}=infinity for slurmd, or PropagateResourceLimitsExcept={name} in slurm.conf; "
    "PAM's limits are not those of a job"
)
JOB_VARIABLE: str = "SLURM_JOB_ID"
GROUP: str = "job_{job}"  # the name of a job's control group (cgroup.conf(5))
WARNINGS: Words = ("TERM",)
ON_NODE: str = text("on_node.sh")
PROBE: str = text("probe.sh")


def for_mpirun(plan: Plan) -> dict[str, str]:
    """Return the program that tells how mpirun's daemons ended, on nodes other than its own."""
    return {"out/srun": text("daemons.sh")} if plan.layout.nnodes > 1 else {}


def for_ranks(plan: Plan) -> dict[str, str]:
    """Return the files by which wrappers know a rank that srun starts: on the node, and in its container."""
    return {"step.sh": text("step.sh"), f"{BOX}/step.env": text("step_env.sh")}
