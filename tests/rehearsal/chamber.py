"""Run a command in a tree that is not a running node: the workbench of everything built here.

    inside(tree, ["gcc", …], binds=[Bind(source, "/src")])

It has the machine's network and ends with all its processes and mounts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import host
from .recipe import HERE
from .shell import run

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CA = "/etc/machine-ca.crt"
# In namespaces that end with the command, and a command that ends with us, even if we are killed:
# what a lock protects must not go on after the lock is gone.
ALONE = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child")


@dataclass(frozen=True)
class Bind:
    """A file or folder of the machine, seen in the tree."""

    source: Path
    target: str
    write: bool = False


def inside(
    tree: Path,
    argv: Sequence[str],
    *,
    binds: Sequence[Bind] = (),
    env: Mapping[str, str] | None = None,
    keep: bool | Path = False,
) -> str:
    """The output of argv, run as root in the tree; `keep` changes the tree itself, or makes a layer there."""
    variables = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", **(env or {})}
    words: list[str | Path] = [*ALONE, "/bin/sh", HERE / "build/chamber.sh", tree, _mode(keep)]
    for bind in binds:
        words += [bind.source, bind.target, "rw" if bind.write else "ro"]
    words += ["--", "/usr/bin/env", "-i", *(f"{n}={v}" for n, v in variables.items()), *argv]
    return run(words, env={**os.environ, "PATH": PATH})


def _mode(keep: bool | Path) -> str | Path:
    if isinstance(keep, bool):
        return "keep" if keep else "spare"
    for part in ("upper", "spare", "root"):
        (keep / part).mkdir()
    return keep


def registry_access() -> tuple[list[Bind], dict[str, str]]:
    """What a pip in a tree needs to reach what this machine's own pip reaches."""
    settings = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore",
                "PIP_NO_CACHE_DIR": "1", **host.pip_settings(os.environ)}  # fmt: skip
    binds = [Bind(folder, f"/run/wheels{number}") for number, folder in enumerate(host.wheels(os.environ))]
    if binds:
        settings["PIP_FIND_LINKS"] = " ".join(bind.target for bind in binds)
    bundle = host.ca_bundle(os.environ)
    if bundle is not None:
        settings.update(dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), CA))
        binds.append(Bind(bundle, CA))
    return binds, settings
