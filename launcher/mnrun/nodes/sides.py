"""Divide the job's directory on a node into two sides: the node's own, and the part that containers see.

An image may change each file that its containers see. So nothing on the node runs or reads those files. A script that
both sides need lies on both.
"""

from __future__ import annotations

from collections.abc import Mapping

from mnrun.files import lean, wrappers
from mnrun.model import BOX, Plan, Worker

# The folders of wrappers/ that every node of a job gets. The files of the last one run where mpirun's daemons do: in
# the containers, or outside-in on the node.
ON_NODE, IN_BOX, BY_MPIRUN = ("lib", "guard", "container", "network"), ("ranks",), ("inside",)
# The scripts of lib/ that containers need, too.
SHARED = ("alike.sh", "mpis.sh", "path.sh", "pid.sh", "ports.sh", "program.sh", "search.sh")
# Options of mpirun and srun by which rank 0 may run on another node than the first.
ELSEWHERE = frozenset(
    (
        *("-H", "-host", "--host", "-hosts", "-f", "-hostfile", "--hostfile", "-machinefile", "--machinefile"),
        *("-default-hostfile", "--default-hostfile", "-rf", "-rankfile", "--rankfile", "-nolocal", "--nolocal"),
        *("-app", "--app", "-configfile", "-w", "--nodelist", "-r", "--relative", "-x", "--exclude"),
    )
)


def _texts(*folders: str) -> dict[str, str]:
    return {name: lean(path.read_text(encoding="utf-8")) for name, path in wrappers(*folders).items()}


def _alias(name: str) -> str:
    """Return the text of a program beside the program `name`, which it runs under its own name."""
    return f'#!/bin/sh\n. "${{0%/*}}/{name}"\n'


def _programs(connect: str) -> dict[str, str]:
    """Return name -> text of the wrappers that run where mpirun's daemons do."""
    texts = _texts(*BY_MPIRUN, *filter(None, [connect]))
    programs = {name: texts.pop(name) for name in ("ssh", "mpirun")}
    programs["ssh"] = texts.pop("pipe_ssh.sh", programs["ssh"])
    programs.update(dict.fromkeys(("mpiexec", "prterun"), _alias("mpirun")))
    return {**texts, **{f"bin/{name}": text for name, text in programs.items()}}


def node_wrappers(connect: str, inside: bool) -> dict[str, str]:
    """Return name -> text of the wrappers that a node gets.

    `connect` is the way between nodes that they serve, and `inside` tells that mpirun runs in a container. A container
    may change the files that it sees. So it has its own of each, which nothing on the node runs or reads.
    """
    on_node, in_box, by_mpirun = _texts(*ON_NODE), _texts(*IN_BOX), _programs(connect)
    in_box["out/sbatch"] = by_mpirun.pop("sbatch")
    in_box["out/srun"] = _alias("sbatch")
    in_box["lines/sitecustomize.py"] = in_box.pop("sitecustomize.py")
    in_box.update((name, on_node[name]) for name in SHARED)
    (in_box if inside else on_node).update(by_mpirun)
    return {**on_node, **boxed(in_box)}


def boxed(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the same texts by their names in the part of the job's directory that containers see."""
    return {f"{BOX}/{name}": text for name, text in texts.items()}


def by_mpirun(plan: Plan, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the same texts by their names in the directory with the files of mpirun."""
    return dict(texts) if plan.mpirun_dir == plan.node_dir else boxed(texts)


def master(plan: Plan, head: Worker) -> dict[str, str]:
    """Return the file with an address and a free port of the first node, for the variables that tell ranks their place
    (wrappers/ranks/place.sh), unless rank 0 may be elsewhere."""
    if not head.master or {word.partition("=")[0] for word in plan.spec.start.mpi_args} & ELSEWHERE:
        return {}
    return {"master": f"{head.address or head.host} {head.master}\n"}
