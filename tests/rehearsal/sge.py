"""The texts of Grid Engine's configuration; pure functions of the options. inside/sge.sh hands them to qconf."""

from __future__ import annotations

from collections.abc import Mapping

from .ground import etc
from .model import Options
from .slurm import CPUS, GPUS, MEMORY_MB

PORTS = ("6444", "6445")  # of sge_qmaster, and of sge_execd
MAIN = "all.q"
TAKES_JOBS = "ready"
# What a site adds to the attributes that there are: name, shortcut, type, relop, requestable, consumable, default,
# urgency. A consumable counts for each slot: Grid Engine 8.1 has none that counts for each host (complex(5)). So the
# GPUs are a DOUBLE, of which each of four slots may ask for a half.
COMPLEXES = etc("complexes")

# The texts that qconf(1) wants whole, each with what differs. The shell and its mode in that of a queue are those of a
# fresh Grid Engine: a script has csh unless it says what it wants.
HOST, PE, QUEUE = (
    {name: value for name, _, value in (line.partition(" ") for line in etc(file).splitlines())}
    for file in ("host", "pe", "queue")
)
# A name → its rule: so many slots on each host; all on one; one by one. `loose` hands its slots out, and lets
# nobody start anything there.
PES = {
    **{f"mpi-{slots}": {"allocation_rule": f"{slots}"} for slots in (1, 2, 4, 8)},
    "smp": {"allocation_rule": "$pe_slots", "control_slaves": "FALSE"},
    "round": {"allocation_rule": "$round_robin"},
    "loose": {"allocation_rule": "3", "control_slaves": "FALSE"},
}
# `few` is for the group proj alone, and not for long.
QUEUES = {
    MAIN: {"pe_list": " ".join(PES)},
    "few.q": {"pe_list": "mpi-2", "user_lists": "proj", "h_rt": "00:30:00", "seq_no": "10"},
}
# A fresh Grid Engine's, but for those that make it slow: a site looks for work every 15 s and may leave an end
# unnoticed as long (sched_conf(5), sge_conf(5)).
SCHEDULER = {"schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1"}
GLOBAL = {"reporting_params": "accounting=true reporting=false flush_time=00:00:01 accounting_flush_time=00:00:00"}
# After how long a silent host is given up.
IMPATIENT = {"max_unheard": "00:00:20", "load_report_time": "00:00:05"}


def table(default: Mapping[str, str], **given: str) -> str:
    """One of the texts that qconf wants: a line per attribute."""
    return "".join(f"{name} {value}\n" for name, value in {**default, **given}.items())


def states(text: str) -> dict[str, str]:
    """Host → its state of what `qstat -f` says of one queue; letters of qstat(1), and a word of ours for none."""
    rows = [line.split() for line in text.splitlines() if "@" in line.split(" ", 1)[0]]
    return {row[0].partition("@")[2]: row[5] if len(row) > 5 else TAKES_JOBS for row in rows}


def files(options: Options) -> dict[str, str]:
    """File → what it holds; inside/sge.sh knows what becomes of each by its name."""
    has = f"slots={CPUS},gpu={GPUS},m_mem_free={MEMORY_MB}M,exclusive=TRUE,ib=TRUE"
    return {
        "hosts": "\n".join(options.compute) + "\n",
        "complexes": COMPLEXES,
        "usersets": table({"name": "proj", "type": "ACL", "fshare": "0", "oticket": "0", "entries": "alice,carol"}),
        "hostgroup": table({"group_name": "@allhosts", "hostlist": " ".join(options.compute)}),
        **{f"host.{node}": table(HOST, hostname=node, complex_values=has) for node in options.compute},
        "host.global": table(HOST, hostname="global", complex_values="app=4"),
        **{f"pe.{name}": table(PE, pe_name=name, **given) for name, given in PES.items()},
        **{f"queue.{name}": table(QUEUE, qname=name, slots=f"{CPUS}", **given) for name, given in QUEUES.items()},
        "scheduler": table(SCHEDULER),
        "global": table({**GLOBAL, **(IMPATIENT if options.impatient else {})}),
        "submit": "\n".join(options.everyone) + "\n",
    }
