"""The command line: `scripts/cluster --help`."""

from __future__ import annotations

import argparse
import os
import sys

from .errors import ClusterError, Unable
from .model import DEBIANS, LOGIN, Cluster, Options

VARIANTS = {
    "affinity": "task/affinity, and as many CPUs as there really are",
    "separate_home": "no shared filesystem: each node has its own /home",
    "bare_login": "no container runtime and no mpirun on the login node",
    "decoys": "docker0 and virbr0 on every node, with the same addresses, which lead nowhere",
    "accounting": "slurmdbd and MariaDB, so that sacct answers",
    "cgroup": "Slurm holds jobs in control groups: their processes, memory and devices",
    "private_tmp": "each job has a /tmp and a /dev/shm of its own",
    "sge": "Grid Engine in the place of Slurm",
    "wrappers": "Slurm's own qsub, qstat and qdel beside its other commands",
    "pbs": "a stand-in of OpenPBS in the place of Slurm",
    "kube": "Kubernetes 1.20 in the place of Slurm; its first start builds it, which takes 15 minutes",
    "impatient": "the scheduler calls a silent node down after half a minute, not after five minutes",
}
ON_NODE = {
    "kill": "power off: all its processes end at once, without a word",
    "cut": "pull its wire out; its processes live on",
    "heal": "wire in, power on, and wait until the scheduler has it back",
    "ssh": "a login shell there, as alice",
}
PLAIN = {
    "down": "leave nothing of the cluster behind",
    "status": "a line per node",
    "registry": "image registries on the login node: login:5000, and login:5001 with a login",
    "install": "put the checkout's mnrun into the running cluster",
    "images": "build the test images that are missing",
    "build": "build the node tree and the images, and start nothing",
}


def parser() -> argparse.ArgumentParser:
    """All verbs and options."""
    top = argparse.ArgumentParser(prog="cluster", description="A real cluster on one machine.")
    default = os.environ.get("MNRUN_CLUSTER") or "mnrun"
    top.add_argument("--name", default=default, help=f"which cluster ({default})")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    up = verbs.add_parser("up", help="build what is missing, start, return when all nodes are idle")
    up.add_argument("-n", "--nodes", type=int, default=4, help="compute nodes (4)")
    for name, text in VARIANTS.items():
        up.add_argument("--" + name.replace("_", "-"), action="store_true", help=text)
    up.add_argument("--debian", choices=DEBIANS, default=DEBIANS[0], help=f"what the nodes are ({DEBIANS[0]})")
    for name, text in PLAIN.items():
        plain = verbs.add_parser(name, help=text)
        if name == "images":
            plain.add_argument("rare", nargs="*", help="rare ones, too: a name that is none lists them")
    run = verbs.add_parser("exec", help="run a command in a node")
    run.add_argument("-u", "--user", default="root", help="root, alice, bob or carol (root)")
    run.add_argument("--cwd", help="where (the user's home)")
    run.add_argument("node")
    run.add_argument("command", nargs=argparse.REMAINDER)
    engines = verbs.add_parser("engines", help="start docker on the nodes, with images for it, podman and ch-run")
    engines.add_argument("image", nargs="*", default=["ompi5"])
    for name, text in ON_NODE.items():
        verbs.add_parser(name, help=text).add_argument("node")
    return top


def main(argv: list[str]) -> int:
    """Do what argv says; the exit code."""
    args = parser().parse_args(argv)
    try:
        cluster = Cluster(args.name)
        if args.verb == "exec":
            return _exec(cluster, args)
        return _act(cluster, args)
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return 130


def _exec(cluster: Cluster, args: argparse.Namespace) -> int:
    # The other modules stay unread: this is called hundreds of times.
    from .enter import enter

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    return enter(cluster, args.node, command or ["/bin/bash", "-l"], args.user, args.cwd)


def _act(cluster: Cluster, args: argparse.Namespace) -> int:
    from . import cluster as whole
    from . import host, images, install, recipe, trees
    from .shell import locked

    host.need_linux_root()
    if args.verb == "up":
        variants = {name: getattr(args, name) for name in VARIANTS}
        whole.up(cluster, Options(args.nodes, debian=args.debian, **variants))
    elif args.verb == "down":
        whole.down(cluster)
    elif args.verb == "status":
        print(whole.status(cluster))
    elif args.verb == "ssh":
        from .enter import enter

        return enter(cluster, LOGIN, ["ssh", cluster.node(args.node)], "alice")
    elif args.verb in ("kill", "cut", "heal"):
        getattr(whole, args.verb)(cluster, args.node)
    elif args.verb == "registry":
        whole.registry(cluster)
    elif args.verb == "install":
        with locked(cluster.lock):
            install.install(cluster)
    elif args.verb == "engines":
        from . import engines

        with locked(cluster.lock):
            engines.start(cluster, args.image)
    else:
        host.install_tools()
        if args.verb == "build":
            print(trees.node_tree())
        rare = {image.name: image for image in recipe.RARE}
        asked = getattr(args, "rare", ())
        for name in asked:
            if name not in rare:
                raise Unable(f"there is no rare image {name!r}: {', '.join(rare)}")
        print(images.ensure([*recipe.IMAGES, *(rare[name] for name in asked)]))
    return 0
