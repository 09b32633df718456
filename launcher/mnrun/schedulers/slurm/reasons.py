"""Slurm's reasons for a waiting job (squeue(1), JOB REASON CODES), in a person's words."""

from __future__ import annotations

import re

from mnrun.schedulers.queue import NEW, Job
from mnrun.schedulers.vocabulary import span

# The reasons by their beginnings.
_REASONS = (
    ("Resources", "waits for nodes or GPUs that others use"),
    ("Priority", "other jobs are before it in the queue"),
    ("DependencyNeverSatisfied", "can never start, since its dependency cannot be met; cancel it"),
    ("Dependency", "waits for another job"),
    ("JobHeldUser", "held by you; release it with: scontrol release ID"),
    ("JobHeldAdmin", "held by the cluster's admins"),
    ("JobHoldMaxRequeue", "was restarted too often, and is held"),
    ("launch_failed_requeued_held", "could not be started on its nodes, and is held"),
    ("BeginTime", "its start time has not come"),
    ("JobArrayTaskLimit", "its array's limit of running tasks is reached"),
    ("None", NEW),
    ("NonZeroExitCode", "will be started again, since its last start failed"),
    ("PartitionTimeLimit", "asks for more time than the partition allows"),
    ("PartitionNodeLimit", "asks for more nodes than the partition has or allows"),
    ("PartitionDown", "its partition is closed"),
    ("PartitionInactive", "its partition is closed"),
    ("ReqNodeNotAvail", "nodes that it asks for are down, drained or reserved"),
    ("Nodes_required_for_job_are_DOWN", "nodes that it needs are down, drained or reserved"),
    ("NodeDown", "a node that it needs is down"),
    ("BadConstraints", "no node has what it asks for; cancel it"),
    ("ReservationDeleted", "its reservation is gone; cancel it"),
    ("Reservation", "waits for its reservation to begin"),
    ("Licenses", "waits for licenses that others use"),
    ("InvalidAccount", "its account is not valid here; cancel it"),
    ("InvalidQOS", "its QOS is not valid here; cancel it"),
    ("Cleaning", "its last start is still being cleaned up"),
)


def sentence(job: Job, now: float) -> str:
    """Return the reason that a job waits. The job has Slurm's own word for it."""
    word = job.reason or "None"
    if word == "BeginTime" and job.start > now:
        return f"starts in {span(int(job.start - now))} at the earliest"
    if word.startswith(("QOS", "Assoc", "Max", "Grp")):
        return f"a limit of your {'QOS' if word.startswith('QOS') else 'account'} is reached (Slurm: {word})"
    for start, meaning in _REASONS:
        if word.replace(" ", "_").startswith(start):
            others = ", ".join(re.findall(r"\d+(?:_\d+|_\*)?(?:\+\d+)?(?=\(|,|:|\?|$)", job.depends))
            waits = f"waits for job {others}" if start == "Dependency" and others else meaning
            return waits.replace("ID", job.array)
    return f"Slurm: {word}"
