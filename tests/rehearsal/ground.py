"""What the configuration of a cluster must suit: the versions in its tree, and this machine's control groups."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import cgroups
from .errors import Unable
from .model import Options

Version = tuple[int, int]
ALWAYS: Version = (0, 0)
NEVER: Version = (99, 0)
PRIVATE_TMP: Version = (21, 8)


@dataclass(frozen=True)
class Ground:
    """The defaults are those of trixie, on a machine with control groups of the first kind."""

    slurm: Version = (24, 11)
    openssh: Version = (10, 0)
    groups: int = 1


def look(tree: Path, options: Options) -> Ground:
    """What there is; unstable's versions are known only from the tree itself. Refuses what cannot be on it."""
    packages = (tree / "var/lib/dpkg/status").read_text()
    found = Ground(
        slurm=version(packages, "slurmd"),
        openssh=version(packages, "openssh-server"),
        groups=cgroups.kind() if options.cgroup else 1,
    )
    if options.private_tmp and found.slurm < PRIVATE_TMP:
        have, need = _dotted(found.slurm), _dotted(PRIVATE_TMP)
        raise Unable(f"--private-tmp needs Slurm {need}, and {options.debian} has {have}: use a newer --debian")
    return found


def _dotted(number: Version) -> str:
    return f"{number[0]}.{number[1]:02}"


def version(packages: str, name: str) -> Version:
    """That of an installed package, of what dpkg knows."""
    found = re.search(rf"^Package: {re.escape(name)}\n(?:.+\n)*?Version: (?:\d+:)?(\d+)\.(\d+)", packages, re.MULTILINE)
    if found is None:
        raise LookupError(f"no version of {name}")
    return int(found[1]), int(found[2])


def etc(name: str) -> str:
    """Return a text of etc/."""
    return (Path(__file__).parent / "etc" / name).read_text(encoding="utf-8")


def suited(text: str, have: Version, spans: Mapping[str, tuple[Version, Version]]) -> str:
    """The text without the lines that this version does not know: how a line begins → since when, and before which."""

    def known(line: str) -> bool:
        return all(since <= have < until for start, (since, until) in spans.items() if line.startswith(start))

    return "".join(line for line in text.splitlines(keepends=True) if known(line))
