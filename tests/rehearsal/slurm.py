"""The texts of Slurm's configuration; pure functions of the cluster's name and options."""

from __future__ import annotations

import os

from .ground import NEVER, Ground, suited
from .model import LOGIN, Options

GPUS = 4
CPUS = 8
MEMORY_MB = 16000
CROWD = 16  # nodes of which daemons still answer at once

# With the reasons, since a site's own file would have other values here.
CONF = """\
ClusterName={name}
SlurmctldHost={login}
SlurmUser=slurm
AuthType=auth/munge
CredType=cred/munge

StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log

{holding}
{private}
TaskPlugin={task}
{prolog}
# Or more CPUs than the machine has are refused.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
GresTypes=gpu,nvme
MpiDefault=none
LaunchParameters=use_interactive_step

SlurmdTimeout={patience}
# Short, so that a test sees what a site sees in minutes.
SlurmctldTimeout=20
MessageTimeout={message}
InactiveLimit=0
KillWait={kill_wait}
UnkillableStepTimeout=60
ReturnToService=2
SchedulerParameters=sched_interval=5,bf_interval=5,batch_sched_delay=0,sched_min_interval=200000
MaxJobCount=10000
Licenses=app:4
# Only where a test makes a partition of a higher tier.
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{accounting}
NodeName={nodes} CPUs={cpus} RealMemory={memory} Gres=gpu:{gpus},nvme:4 Feature=ib State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES State=UP MaxTime=INFINITE DefaultTime=60 OverSubscribe=YES:4
"""

ACCOUNTING = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={login}
AccountingStoreFlags=job_comment,job_env,job_script
AccountingStorageTRES=gres/gpu
"""

DBD = """\
AuthType=auth/munge
DbdHost={login}
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=rehearsal
StorageLoc=slurm_acct_db
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd.pid
"""

# How Slurm keeps hold of a job, and what it limits.
LOOSE = """\
# No cgroups of its own: the nodes share the machine's.
ProctrackType=proctrack/linuxproc
JobAcctGatherType=jobacct_gather/none
SelectTypeParameters=CR_CPU"""

HELD = """\
ProctrackType=proctrack/cgroup
JobAcctGatherType=jobacct_gather/cgroup
# Memory is granted, so that it can be a limit; who asks for none gets some.
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=1000"""

PRIVATE = """\
JobContainerType=job_container/tmpfs
NamespaceType=namespace/tmpfs"""
# On a tmpfs: it mounts nothing on the nodes' overlays.
PLACE = "AutoBasePath=true\nBasePath=/run/jobs\n"

UNUSED = "CgroupPlugin=disabled\n"

CGROUP = """\
CgroupPlugin=cgroup/v{kind}
ConstrainDevices=yes
ConstrainRAMSpace=yes
ConstrainCores={cores}
"""
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
    text = CONF.format(
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
        accounting=ACCOUNTING.format(login=LOGIN) if options.accounting else "",
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
        text = CGROUP.format(kind=ground.groups, cores="yes" if options.affinity else "no")
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
    return DBD.format(login=LOGIN)
