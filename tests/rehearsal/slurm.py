"""The texts of Slurm's configuration, of etc/; pure functions of the cluster's name and options."""

from __future__ import annotations

import os

from .ground import NEVER, Ground, etc, suited
from .model import LOGIN, Options

GPUS = 4
CPUS = 8
MEMORY_MB = 16000
CROWD = 16  # nodes of which daemons still answer at once

# How Slurm keeps hold of a job, and what it limits.
LOOSE, HELD = etc("loose.conf"), etc("held.conf")

PRIVATE = """\
JobContainerType=job_container/tmpfs
NamespaceType=namespace/tmpfs"""
# On a tmpfs: it mounts nothing on the nodes' overlays.
PLACE = "AutoBasePath=true\nBasePath=/run/jobs\n"

UNUSED = "CgroupPlugin=disabled\n"

# There is no systemd to ask for a place in the one hierarchy.
SECOND = """\
IgnoreSystemd=yes
EnableControllers=yes
"""
# A GPU without a file is dropped and its node called invalid: these are stand-ins. Local disks are only counted.
GRES = f"Name=gpu File=/dev/nvidia[0-{GPUS - 1}]\nName=nvme Count=4\n"

# How a line begins → Slurm knows it since, and before.
SPANS = {
    "AccountingStoreFlags=": ((21, 8), NEVER),
    "CgroupPlugin=": ((21, 8), NEVER),
    "CgroupPlugin=disabled": ((23, 11), NEVER),
    "IgnoreSystemd=": ((22, 5), NEVER),
    "EnableControllers=": ((22, 5), NEVER),
    "JobContainerType=": ((21, 8), (25, 11)),
    "NamespaceType=": ((25, 11), NEVER),
}


def bracket(nodes: list[str]) -> str:
    """node01 … node04 as Slurm writes them."""
    if len(nodes) == 1:
        return nodes[0]
    return f"node[{nodes[0][len('node') :]}-{nodes[-1][len('node') :]}]"


def conf(name: str, options: Options, ground: Ground) -> str:
    """slurm.conf."""
    text = etc("slurm.conf").format(
        name=name,
        login=LOGIN,
        nodes=bracket(options.compute),
        # task/affinity binds to CPUs that exist.
        cpus=os.cpu_count() if options.affinity else CPUS,
        holding=HELD if options.cgroup else LOOSE,
        private=PRIVATE if options.private_tmp else "",
        # Both need a container for the job itself, beside those of its steps.
        prolog="PrologFlags=Contain" if options.cgroup or options.private_tmp else "",
        task=",".join(tasks(options)) or "task/none",
        # Sites leave it at Slurm's own 30: who only ends by the second signal is seen.
        kill_wait=30 if options.cgroup else 5,
        # Slurm's own 300 bears a machine that stands still for a minute. 20 is for tests of lost nodes.
        patience=20 if options.impatient else 300,
        # Many nodes share the CPUs: their daemons answer late, and live.
        message=6 if len(options.compute) <= CROWD else 60,
        memory=MEMORY_MB,
        gpus=GPUS,
        accounting=etc("accounting.conf").format(login=LOGIN) if options.accounting else "",
    )
    return suited(text, ground.slurm, SPANS)


def tasks(options: Options) -> list[str]:
    """The plugins that have a say in where a task runs."""
    chosen = {"task/cgroup": options.cgroup, "task/affinity": options.affinity}
    return [name for name, wanted in chosen.items() if wanted]


def cgroup(options: Options, ground: Ground) -> str:
    """cgroup.conf; CPUs that do not exist cannot be in a set."""
    text = UNUSED
    if options.cgroup:
        text = etc("cgroup.conf").format(kind=ground.groups, cores="yes" if options.affinity else "no")
        text += SECOND if ground.groups == 2 else ""
    return suited(text, ground.slurm, SPANS)


def files(name: str, options: Options, ground: Ground) -> dict[str, str]:
    """Everything of /etc/slurm but slurmdbd.conf, which only slurmdbd may read."""
    private = {"job_container.conf": PLACE} if options.private_tmp else {}
    return {
        **private,
        "slurm.conf": conf(name, options, ground),
        "gres.conf": GRES,
        "cgroup.conf": cgroup(options, ground),
    }


def dbd() -> str:
    """slurmdbd.conf."""
    return etc("slurmdbd.conf").format(login=LOGIN)
