"""What all nodes of one cluster have in common: a thin layer over the tree.

lower = layer : tree        upper = the node's own, on a tmpfs
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from . import slurm
from .chamber import Bind, inside
from .ground import NEVER, Ground, suited
from .model import USERS, Cluster, Options
from .recipe import HERE

SSHD = """\
# Without PAM a login costs a few ms less, and nothing here needs it.
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
X11Forwarding no
UseDNS no
LogLevel VERBOSE
# Sixty-four nodes and their tests knock at once.
MaxStartups 1000
MaxSessions 1000
PerSourcePenalties no
PerSourceMaxStartups none
"""
SSHD_SPANS = {"PerSourcePenalties": ((9, 8), NEVER), "PerSourceMaxStartups": ((8, 5), NEVER)}

KEYS = """
set -eu
cd /keys
for name in ssh_host_ed25519_key alice bob carol; do
    ssh-keygen -q -t ed25519 -N '' -C "$name" -f "$name"
done
# What a registry on the login node shows, of a CA that all nodes trust.
new="openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -batch"
$new -x509 -days 3650 -subj /CN=rehearsal -keyout ca.key -out ca.pem
$new -subj /CN=login -keyout registry.key -out registry.csr
echo subjectAltName=DNS:login > names
openssl x509 -req -in registry.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -extfile names -out registry.pem
"""


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
        "/etc/ssh/sshd_config.d/rehearsal.conf": File(suited(SSHD, ground.openssh, SSHD_SPANS)),
        "/etc/ssh/ssh_known_hosts": File(f"{everyone} {host_key}"),
        "/etc/rehearsal/accounting": File("yes\n" if options.accounting else ""),
        "/etc/rehearsal/decoys": File("docker0 172.17.0.1/16\nvirbr0 192.168.122.1/24\n" if options.decoys else ""),
    }
    for file, text in slurm.files(name, options, ground).items():
        result[f"/etc/slurm/{file}"] = File(text)
    if options.accounting:
        result["/etc/slurm/slurmdbd.conf"] = File(slurm.dbd(), 0o600, "slurm")
    return result


def write(cluster: Cluster, options: Options, ground: Ground) -> None:
    """The layer and the homes of a cluster about to start."""
    tree, layer, keys = cluster.tree, cluster.state / "layer", cluster.state / "keys"
    keys.mkdir(mode=0o700)
    inside(tree, ["/bin/sh", "-c", KEYS], binds=[Bind(keys, "/keys", write=True)])
    host_key = (keys / "ssh_host_ed25519_key.pub").read_text()

    ids = _ids(tree)

    def put(path: str, data: bytes, mode: int, owner: str) -> None:
        place = layer / path.lstrip("/")
        _folder(layer, tree, place.parent)
        place.write_bytes(data)
        place.chmod(mode)
        os.chown(place, *ids[owner])

    for path, file in files(cluster.name, options, host_key, ground).items():
        put(path, file.text.encode(), file.mode, file.owner)
    put("/etc/group", _with_docker((tree / "etc/group").read_text()).encode(), 0o644, "root")
    put("/etc/ssh/ssh_host_ed25519_key", (keys / "ssh_host_ed25519_key").read_bytes(), 0o600, "root")
    put("/etc/munge/munge.key", os.urandom(1024), 0o400, "munge")
    ca = (keys / "ca.pem").read_bytes()
    put("/etc/ssl/certs/rehearsal.pem", ca, 0o644, "root")
    put(
        "/etc/ssl/certs/ca-certificates.crt",
        (tree / "etc/ssl/certs/ca-certificates.crt").read_bytes() + ca,
        0o644,
        "root",
    )
    for part in ("registry.pem", "registry.key"):
        put(f"/etc/rehearsal/{part}", (keys / part).read_bytes(), 0o600, "root")
    for part in ("rc.sh", "settle.sh", "registry.sh", "oci.py"):
        put(f"/etc/rehearsal/{part}", (HERE / "inside" / part).read_bytes(), 0o755, "root")
    put("/usr/local/bin/mksquashfs", (HERE / "inside/mksquashfs.sh").read_bytes(), 0o755, "root")

    doors = [f"{side}_{runtime}.sh" for side in ("srun", "pdsh") for runtime in ("singularity", "docker")]
    for name in ("mnrun", *doors):
        link = layer / "usr/local/bin" / name
        _folder(layer, tree, link.parent)
        link.symlink_to(f"/opt/mnrun/venv/bin/{name}")
    _homes(cluster.state / "home", keys, tree)


def _folder(layer: Path, tree: Path, folder: Path) -> None:
    """Make a folder as it is in the tree: in an overlay the upper one's owner and mode count."""
    for part in (*reversed(folder.relative_to(layer).parents), folder.relative_to(layer)):
        if (layer / part).exists():
            continue
        (layer / part).mkdir(parents=True)
        if (tree / part).exists():
            there = (tree / part).stat()
            (layer / part).chmod(there.st_mode & 0o7777)
            os.chown(layer / part, there.st_uid, there.st_gid)


def _ids(tree: Path) -> dict[str, tuple[int, int]]:
    lines = (tree / "etc/passwd").read_text().splitlines()
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
