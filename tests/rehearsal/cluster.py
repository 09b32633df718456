"""The whole cluster: up, down, how it is, and its faults."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from . import cgroups, host, images, install, kube, layer, network, nodes, pbs, recipe, sge, trees, unpacked
from .errors import ClusterError, Unable
from .ground import Ground, look
from .model import LOGIN, Cluster, Options
from .namespaces import nsenter
from .shell import locked, run, say, tail, timed

DEADLINE = 60.0
PORTS = ("6817", "6818")  # of slurmctld, and of slurmd
TAKES_JOBS = ("idle", "mixed", "allocated", "planned", "completing")


def up(cluster: Cluster, options: Options) -> None:
    """Bring the cluster up and return when every node takes jobs."""
    host.install_tools()
    with locked(cluster.lock):
        if _running(cluster):
            if cluster.options() != options:
                raise Unable(
                    f"cluster {cluster.name!r} is up with other options: take it down first, or use another --name"
                )
            say(f"{cluster.name} is up already")
            install.refresh(cluster)
            return
        _clear(cluster)
        tree = trees.node_tree(options.debian)
        ground, shelf = look(tree, options), images.ensure()
        # Without Apptainer nothing reads them as they are.
        all_of_them = [image.name for image in recipe.IMAGES if not (tree / "usr/bin/apptainer").exists()]
        for image in all_of_them or (kube.IMAGES if options.kube else ()):
            unpacked.ensure(shelf, image)
        steps = {recipe.SGE: options.sge, recipe.WRAPPERS: options.wrappers, recipe.KUBE: options.kube}
        below = [*(trees.layer(options.debian, step) for step, on in steps.items() if on), tree]
        with timed(f"{cluster.name}: {options.nodes} nodes and a login node"):
            _start(cluster, options, ground, below, shelf)
        first = {"sge": "qhost", "pbs": "pbsnodes -a", "kube": "kubectl get pods", "slurm": "srun -N2 hostname"}[
            options.scheduler
        ]
        say(f"next: scripts/cluster --name {cluster.name} exec -u alice login {first}")


def _start(cluster: Cluster, options: Options, ground: Ground, below: list[Path], shelf: Path) -> None:
    cluster.state.mkdir(parents=True)
    # All that the nodes write goes here, and goes away with it.
    run(["mount", "-t", "tmpfs", "-o", "mode=755,size=75%,nr_inodes=0", "mnrun", cluster.state])
    host.raise_limits(options.nodes)
    cluster.save(options, below, shelf)
    install.refresh(cluster)
    layer.write(cluster, options, ground)
    network.lay(cluster, options)
    for node in options.everyone:
        nodes.boot(cluster, options, node)
    wait_idle(cluster, options)
    cluster.ready.touch()


def down(cluster: Cluster) -> None:
    """Leave no process, no mount and no network of this cluster; fine if there is none."""
    with locked(cluster.lock):
        _clear(cluster)


def _clear(cluster: Cluster) -> None:
    cgroups.thaw(cluster)
    nodes.power_off(network.existing(cluster))
    cgroups.remove(cluster)
    while os.path.ismount(cluster.state):
        # Lazily: somebody's shell may stand in there, which must not keep us.
        run(["umount", "--lazy", cluster.state])
    shutil.rmtree(cluster.state, ignore_errors=True)
    network.remove(cluster)


def _running(cluster: Cluster) -> bool:
    if not cluster.ready.exists():
        return False
    options = cluster.options()
    return all(cluster.pid(node) for node in options.everyone)


def ask(cluster: Cluster, node: str, *argv: str, check: bool = True) -> str:
    """What a command says in a node, run as root."""
    pid = cluster.pid(node)
    if pid is None:
        raise ClusterError(f"{node} is switched off")
    return run([*nsenter(pid), *argv], check=check)


def registry(cluster: Cluster) -> None:
    """Two image registries on the login node; fine if they are there."""
    with locked(cluster.lock), timed("registries"):
        ask(cluster, LOGIN, "/bin/sh", "/etc/rehearsal/registry.sh")


def wait_idle(cluster: Cluster, options: Options, wanted: list[str] | None = None) -> None:
    """Return when the scheduler calls the nodes idle; name those that are not at the deadline."""
    waiting = set(options.compute if wanted is None else wanted)
    deadline = time.monotonic() + DEADLINE + options.nodes
    found: dict[str, str] = {}
    ready = {"sge": sge.TAKES_JOBS, "pbs": pbs.TAKES_JOBS, "kube": kube.TAKES_JOBS}
    takes = {"slurm": TAKES_JOBS, **{name: (word,) for name, word in ready.items()}}[options.scheduler]
    while time.monotonic() < deadline:
        for node in options.everyone:
            if (wanted is None or node in waiting) and cluster.pid(node) is None:
                raise ClusterError(f"{node} went off while starting:\n{_logs(cluster, node)}")
        found = states(cluster, options)
        if all(found.get(node) in takes for node in waiting):
            return
        time.sleep(0.2)
    late = [node for node in options.compute if node in waiting and found.get(node) not in takes]
    # slurmctld keeps those it has not heard of as unknown; its own log says more than theirs.
    logs = "\n".join(_logs(cluster, node) for node in [LOGIN, *late[:3]])
    raise ClusterError(f"not idle after {DEADLINE + options.nodes:.0f} s: {' '.join(late)}\n{logs}")


def states(cluster: Cluster, options: Options) -> dict[str, str]:
    """Node → its state in the scheduler's words; empty while that does not answer."""
    if options.sge:
        return sge.states(ask(cluster, LOGIN, "qstat", "-f", "-q", sge.MAIN, check=False))
    if options.pbs:
        return pbs.states(ask(cluster, LOGIN, "/opt/pbs/bin/pbsnodes", "-a", "-F", "json", check=False))
    if options.kube:
        return kube.states(ask(cluster, LOGIN, *kube.NODES, check=False))
    text = ask(cluster, LOGIN, "sinfo", "-h", "-N", "-o", "%N %T", check=False)
    pairs = [line.split() for line in text.splitlines() if not line.startswith("slurm")]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _logs(cluster: Cluster, node: str) -> str:
    place = cluster.place(node)
    daemon = "slurmctld" if node == LOGIN else "slurmd"
    spool = place / "upper/var/spool/gridengine" / ("qmaster" if node == LOGIN else f"execd/{node}")
    pbs_logs = (place / f"upper/var/spool/pbs/{name}.log" for name in ("server", "mom"))
    kube_logs = sorted((place / "upper/var/log/kube").glob("kube*.log"))
    parts = []
    for file in (
        place / "console.log",
        place / f"upper/var/log/slurm/{daemon}.log",
        spool / "messages",
        *pbs_logs,
        *kube_logs,
    ):
        if file.exists():
            parts.append(f"  {node} {file.name}:\n{tail(file.read_text(errors='replace'), 6)}")
    return "\n".join(parts)


def status(cluster: Cluster) -> str:
    """A line per node: its name, its power and wire, its address, what the scheduler says."""
    options = cluster.options()
    found = states(cluster, options) if cluster.pid(LOGIN) else {}
    lines = []
    for node in options.everyone:
        pid = cluster.pid(node)
        power = "off" if pid is None else "up" if network.plugged(cluster, node) else "cut"
        word = found.get(node, "controller" if node == LOGIN else "unknown")
        lines.append(f"{node:<10} {power:<4} {options.address(node):<12} {word:<12} pid {pid or '-'}")
    return "\n".join(lines)


def kill(cluster: Cluster, node: str) -> None:
    """Power off. The wire first, or the kernel would say goodbye to the node's peers."""
    with locked(cluster.lock):
        network.plug(cluster, cluster.node(node), up=False)
        cgroups.thaw(cluster, node)
        nodes.power_off([network.NETNS / cluster.netns(node)])
        (cluster.place(node) / "pid").unlink(missing_ok=True)


def cut(cluster: Cluster, node: str) -> None:
    """Pull the wire out; the processes live on."""
    network.plug(cluster, cluster.node(node), up=False)


def heal(cluster: Cluster, node: str) -> None:
    """Wire in, power on; returns when the scheduler has the node back."""
    with locked(cluster.lock):
        options = cluster.options()
        off = cluster.pid(cluster.node(node)) is None
        if off:
            network.renew(cluster, node)
        network.plug(cluster, node, up=True)
        if off:
            nodes.boot(cluster, options, node)
            _await_daemon(cluster, options, node)
        elif states(cluster, options).get(node, "").startswith("down"):
            # Slurm asks after nodes that it has given up only once a minute; this makes slurmd report.
            ask(cluster, node, "pkill", "-HUP", "-x", "slurmd", check=False)
        wait_idle(cluster, options, _reachable(cluster, options) if node == LOGIN else [node])


def _reachable(cluster: Cluster, options: Options) -> list[str]:
    return [node for node in options.compute if cluster.pid(node) and network.plugged(cluster, node)]


def _await_daemon(cluster: Cluster, options: Options, node: str) -> None:
    """Until it answers: the scheduler itself may not have noticed that it was gone."""
    main, other = {"sge": sge.PORTS, "pbs": pbs.PORTS, "kube": kube.PORTS, "slurm": PORTS}[options.scheduler]
    port = main if node == LOGIN else other
    deadline = time.monotonic() + DEADLINE
    probe = f"nc -z -w 1 {node} {port} && echo open"
    while "open" not in ask(cluster, LOGIN, "/bin/sh", "-c", probe, check=False):
        if time.monotonic() > deadline:
            raise ClusterError(f"{node}: nothing answers at port {port}:\n{_logs(cluster, node)}")
        time.sleep(0.2)
