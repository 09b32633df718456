"""What all nodes of one cluster have in common: a thin layer over the tree.

lower = layer : tree        upper = the node's own, on a tmpfs
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import kube, pbs, sge, slurm
from .chamber import Bind, inside
from .ground import NEVER, Ground, etc, suited
from .model import USERS, Cluster, Options
from .recipe import HERE

SSHD_SPANS = {"PerSourcePenalties": ((9, 8), NEVER), "PerSourceMaxStartups": ((8, 5), NEVER)}


@dataclass(frozen=True)
class File:
    """A file of the layer; the owner by name, as the tree's passwd has it."""

    text: str
    mode: int = 0o644
    owner: str = "root"


def hosts(options: Options) -> str:
    """/etc/hosts: the only name service there is."""
    names = [f"{options.address(node)}\t{node}" for node in options.everyone]
    return "\n".join(["127.0.0.1\tlocalhost", *names, ""])


def files(name: str, options: Options, host_key: str, ground: Ground) -> dict[str, File]:
    """Path in the node → what it holds."""
    everyone = ",".join(word for node in options.everyone for word in (node, options.address(node)))
    result = {
        "/etc/hosts": File(hosts(options)),
        "/etc/nsswitch.conf": File("passwd: files\ngroup: files\nshadow: files\nhosts: files\n"),
        "/etc/resolv.conf": File(""),
        "/etc/ssh/sshd_config.d/rehearsal.conf": File(suited(etc("sshd.conf"), ground.openssh, SSHD_SPANS)),
        "/etc/ssh/ssh_known_hosts": File(f"{everyone} {host_key}"),
        "/etc/rehearsal/accounting": File("yes\n" if options.accounting else ""),
        "/etc/rehearsal/scheduler": File(f"{options.scheduler}\n"),
        "/etc/rehearsal/decoys": File("docker0 172.17.0.1/16\nvirbr0 192.168.122.1/24\n" if options.decoys else ""),
    }
    if options.sge:
        return {**result, **{f"/etc/rehearsal/sge/{file}": File(text) for file, text in sge.files(options).items()}}
    if options.pbs:
        texts = pbs.files(options.compute, slurm.CPUS, slurm.GPUS, slurm.MEMORY_MB)
        return {**result, **{path: File(text, 0o755 if text[:2] == "#!" else 0o644) for path, text in texts.items()}}
    if options.kube:
        texts = kube.files(name, options)
        return {**result, **{path: File(text, 0o755 if text[:2] == "#!" else 0o600) for path, text in texts.items()}}
    for file, text in slurm.files(name, options, ground).items():
        result[f"/etc/slurm/{file}"] = File(text)
    if options.accounting:
        result["/etc/slurm/slurmdbd.conf"] = File(slurm.dbd(), 0o600, "slurm")
    return result


def write(cluster: Cluster, options: Options, ground: Ground) -> None:
    """The layer and the homes of a cluster about to start."""
    below, layer, keys = cluster.below, cluster.state / "layer", cluster.state / "keys"
    keys.mkdir(mode=0o700)
    inside(
        cluster.tree, ["/bin/sh", "-c", (HERE / "inside/keys.sh").read_text()], binds=[Bind(keys, "/keys", write=True)]
    )
    host_key = (keys / "ssh_host_ed25519_key.pub").read_text()

    ids = _ids(below)

    def put(path: str, data: bytes, mode: int, owner: str) -> None:
        place = layer / path.lstrip("/")
        _folder(layer, below, place.parent)
        place.write_bytes(data)
        place.chmod(mode)
        os.chown(place, *ids[owner])

    for path, file in files(cluster.name, options, host_key, ground).items():
        put(path, file.text.encode(), file.mode, file.owner)
    put("/etc/group", _with_docker(_seen(below, "etc/group").read_text()).encode(), 0o644, "root")
    put("/etc/ssh/ssh_host_ed25519_key", (keys / "ssh_host_ed25519_key").read_bytes(), 0o600, "root")
    put("/etc/munge/munge.key", os.urandom(1024), 0o400, "munge")
    ca = (keys / "ca.pem").read_bytes()
    put("/etc/ssl/certs/rehearsal.pem", ca, 0o644, "root")
    put(
        "/etc/ssl/certs/ca-certificates.crt",
        _seen(below, "etc/ssl/certs/ca-certificates.crt").read_bytes() + ca,
        0o644,
        "root",
    )
    for part in ("registry.pem", "registry.key"):
        put(f"/etc/rehearsal/{part}", (keys / part).read_bytes(), 0o600, "root")
    for part in ("rc.sh", "settle.sh", "sge.sh", "pbs.sh", "kube.sh", "registry.sh", "oci.py"):
        put(f"/etc/rehearsal/{part}", (HERE / "inside" / part).read_bytes(), 0o755, "root")
    put("/usr/local/bin/mksquashfs", (HERE / "inside/mksquashfs.sh").read_bytes(), 0o755, "root")

    doors = [f"{side}_{runtime}.sh" for side in ("srun", "pdsh") for runtime in ("singularity", "docker")]
    for name in ("bin/mnrun", *(f"share/mnrun/scripts/{door}" for door in doors)):
        link = layer / "usr/local/bin" / Path(name).name
        _folder(layer, below, link.parent)
        link.symlink_to(f"/opt/mnrun/venv/{name}")
    _homes(cluster.state / "home", keys, cluster.tree)


def _seen(below: Sequence[Path], path: str | Path) -> Path:
    """A file as the nodes see it: the upper one's."""
    return next((place / path for place in below if (place / path).exists()), below[-1] / path)


def _folder(layer: Path, below: Sequence[Path], folder: Path) -> None:
    """Make a folder as it is below: in an overlay the upper one's owner and mode count."""
    for part in (*reversed(folder.relative_to(layer).parents), folder.relative_to(layer)):
        if (layer / part).exists():
            continue
        (layer / part).mkdir(parents=True)
        if _seen(below, part).exists():
            there = _seen(below, part).stat()
            (layer / part).chmod(there.st_mode & 0o7777)
            os.chown(layer / part, there.st_uid, there.st_gid)


def _ids(below: Sequence[Path]) -> dict[str, tuple[int, int]]:
    lines = _seen(below, "etc/passwd").read_text().splitlines()
    fields = [line.split(":") for line in lines]
    return {field[0]: (int(field[2]), int(field[3])) for field in fields}


def _with_docker(group: str) -> str:
    """alice may use docker, and nobody else."""
    return re.sub(r"^(docker:.*:)$", r"\1alice", group, flags=re.MULTILINE)


def _homes(home: Path, keys: Path, tree: Path) -> None:
    home.mkdir(mode=0o755)
    for user, uid in USERS.items():
        if not uid:
            continue
        place = home / user
        shutil.copytree(tree / "etc/skel", place)
        ssh = place / ".ssh"
        ssh.mkdir()
        shutil.copy(keys / user, ssh / "id_ed25519")
        shutil.copy(keys / f"{user}.pub", ssh / "authorized_keys")
        for path in (place, *place.rglob("*")):
            os.chown(path, uid, uid)
            path.chmod(0o700 if path.is_dir() else 0o600)
