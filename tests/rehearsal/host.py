"""This machine: what it must offer, what is installed when missing, how it reaches registries."""

from __future__ import annotations

import configparser
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from .errors import ClusterError, Unable
from .model import RUN
from .shell import locked, run, say

# A command we need, and the package that has it.
TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "unshare": "util-linux",
    "mount": "mount",
    "setpriv": "util-linux",
    "nsenter": "util-linux",
}
PATIENCE = 300  # seconds for another apt-get of this machine to end
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def need_linux_root() -> None:
    """Refuse what can never work, with what to do about it."""
    if sys.platform != "linux":
        raise Unable("the cluster needs Linux: run it on a Debian or Ubuntu machine")
    if os.geteuid() != 0:
        raise Unable("the cluster needs root: run it with sudo")
    if not shutil.which("apt-get"):
        raise Unable("the cluster builds Debian trees: run it on Debian or Ubuntu (no apt-get here)")
    if "overlay" not in Path("/proc/filesystems").read_text():
        run(["modprobe", "overlay"], check=False)
    if "overlay" not in Path("/proc/filesystems").read_text():
        raise Unable("this kernel has no overlayfs: load it (modprobe overlay), or use another one")
    missing = [name for name in ("mnt", "pid", "net", "uts", "ipc", "user")
               if not Path("/proc/self/ns", name).exists()]  # fmt: skip
    if missing:
        raise Unable(f"this kernel has no {', '.join(missing)} namespaces: use another kernel")
    if not Path("/dev/fuse").exists():
        run(["modprobe", "fuse"], check=False)
    if not Path("/dev/fuse").exists():
        raise Unable("there is no /dev/fuse, which Apptainer needs: load it (modprobe fuse)")


def install_tools(tools: Mapping[str, str] = TOOLS) -> None:
    """Bring in the few commands that a plain Debian lacks."""
    if not _lacking(tools):
        return
    with locked(RUN / ".tools.lock"):  # several clusters may begin at once
        packages = _lacking(tools)
        if not packages:
            return
        say(f"installing {' '.join(packages)}")
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        apt = ["apt-get", "-q", "-o", f"DPkg::Lock::Timeout={PATIENCE}"]
        try:
            run([*apt, "update"], env=quiet, check=False)
            run([*apt, "install", "-y", "--no-install-recommends", *packages], env=quiet)
        except ClusterError as error:
            raise Unable(f"cannot install what is needed: {error}") from error


def _lacking(tools: Mapping[str, str]) -> list[str]:
    """The packages of what is not there."""
    packages = sorted({package for tool, package in tools.items() if not shutil.which(tool)})
    # Not a command: on Ubuntu, what tells Debian's packages from forged ones.
    if not Path("/usr/share/keyrings/debian-archive-keyring.gpg").exists():
        packages.append("debian-archive-keyring")
    if not CERTIFICATES.exists():
        packages.append("ca-certificates")
    return packages


def raise_limits(nodes: int) -> None:
    """Make room for every node's view of every other; this one table belongs to the whole machine."""
    need = (nodes + 1) ** 2 * 2
    folder = Path("/proc/sys/net/ipv4/neigh/default")
    for name in ("gc_thresh3", "gc_thresh2", "gc_thresh1"):
        if int((folder / name).read_text()) < need:
            (folder / name).write_text(str(need))


def pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The machine's own pip configuration as PIP_* variables, for a pip that runs elsewhere.

    Paths of this machine are left out (they mean nothing in a tree), the CA bundle
    too: `ca_bundle` and `wheels` find them, and who runs pip puts them where pip will see them.
    """
    found = _pip_configuration(environ)
    wanted = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout")
    settings = {}
    for name in wanted:
        words = [word for word in found.get(name, "").split() if not word.startswith(("file:", "/"))]
        if words:
            settings["PIP_" + name.upper().replace("-", "_")] = " ".join(words)
    return settings


def wheels(environ: Mapping[str, str]) -> list[Path]:
    """The folders of this machine in which its pip looks for packages."""
    places = _pip_configuration(environ).get("find-links", "").split()
    return [Path(place) for place in places if place.startswith("/") and Path(place).is_dir()]


def _pip_configuration(environ: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in pip_files(environ):
        parser = configparser.RawConfigParser()
        parser.read(file)
        for section in ("global", "install"):
            if parser.has_section(section):
                found.update({name.replace("_", "-"): " ".join(value.split())
                              for name, value in parser.items(section)})  # fmt: skip
    for name, value in environ.items():
        if name.startswith("PIP_"):
            found[name[4:].lower().replace("_", "-")] = value
    return found


def pip_files(environ: Mapping[str, str]) -> list[Path]:
    """pip's own search order, least important first."""
    home = Path(environ.get("HOME", "/root"))
    files = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"), home / ".pip/pip.conf",
             home / ".config/pip/pip.conf"]  # fmt: skip
    if environ.get("PIP_CONFIG_FILE"):
        files.append(Path(environ["PIP_CONFIG_FILE"]))
    return [file for file in files if file.is_file()]


def ca_bundle(environ: Mapping[str, str]) -> Path | None:
    """What this machine trusts, which a fresh tree does not know."""
    for name in ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        if environ.get(name) and Path(environ[name]).is_file():
            return Path(environ[name])
    return CERTIFICATES if CERTIFICATES.is_file() else None
