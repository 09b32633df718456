"""Site defaults, profiles and the user's own: which files count, and what they say.

    /etc/mnrun/config.toml            site defaults
    /etc/mnrun/profiles/NAME.toml     one is chosen: by name, by match.cluster or by match.hostname
    ~/.config/mnrun/…                 the same two of the user's own

Nothing is read from the current directory, and no two profiles are merged.
"""

from __future__ import annotations

import fnmatch
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import jobfile
from .errors import UsageError
from .settings import Setting

SITE = Path("/etc/mnrun")
_SITE_KEYS = {
    "modules": "module",
    "jobs": "job_dir",
    "ports": "ports",
    "connect": "connect",
    "slurm_poll": "slurm_poll",
}
_TABLES = ("match", "site", "policy", "partition")


@dataclass(frozen=True)
class Profile:
    """A named profile: when it is chosen, and what it says."""

    name: str
    path: str
    cluster: str = ""
    hostname: str = ""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    policy: Mapping[str, str] = field(default_factory=dict)  # option -> why the site does not want it
    partitions: Mapping[str, Mapping[str, Setting]] = field(default_factory=dict)
    whys: Mapping[str, str] = field(default_factory=dict)  # variable -> why it has that value


@dataclass(frozen=True)
class Shelf:
    """All that was found. Layers in their order; warnings for what was passed over."""

    site: Mapping[str, Setting]
    user: Mapping[str, Setting]
    profiles: Sequence[Profile]
    warnings: Sequence[str]


def find(environ: Mapping[str, str], home: str, site: Path = SITE) -> Shelf:
    """Read everything. Raises UsageError with file and line of what is wrong."""
    own = Path(environ.get("XDG_CONFIG_HOME") or f"{home}/.config") / "mnrun"
    warnings: list[str] = []
    profiles = []
    for folder, guarded in ((site, True), (own, False)):
        for path in sorted((folder / "profiles").glob("*.toml")):
            if not guarded or _trusted(path, warnings):
                profiles.append(_profile(path, environ))
    layers = []
    for path, guarded in ((site / "config.toml", True), (own / "config.toml", False)):
        trusted = path.is_file() and (not guarded or _trusted(path, warnings))
        layers.append(jobfile.read(_page(path, str(path), environ)).settings if trusted else {})
    return Shelf(layers[0], layers[1], profiles, warnings)


def choose(profiles: Sequence[Profile], name: str, cluster: Callable[[], str], hostname: str = "") -> Profile | None:
    """The one profile of this place, or the one that is asked for by name.

    `cluster` is asked only where some profile names a cluster. Raises UsageError where two match,
    or none has the name.
    """
    if name:
        named = [profile for profile in profiles if profile.name == name]
        if not named:
            known = ", ".join(profile.name for profile in profiles) or "none"
            raise UsageError(f"there is no profile {name}", f"there is {known}")
        return named[-1]  # the user's own goes before the site's
    here = cluster() if any(profile.cluster for profile in profiles) else ""
    host = hostname or platform.node()
    found = [
        profile
        for profile in profiles
        if (profile.cluster and profile.cluster == here)
        or (profile.hostname and fnmatch.fnmatchcase(host, profile.hostname))
    ]
    if len(found) > 1:
        raise UsageError(
            f"two profiles match this place: {' and '.join(p.path for p in found)}", "name one with --profile"
        )
    return found[0] if found else None


def _trusted(path: Path, warnings: list[str]) -> bool:
    state = path.stat()
    if state.st_uid == 0 and not state.st_mode & 0o022:
        return True
    warnings.append(f"{path} is ignored: a site's file belongs to root, and nobody else can write it")
    return False


def _page(path: Path, name: str, environ: Mapping[str, str]) -> jobfile.Page:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    return jobfile.Page(name, text, str(path.parent), environ)


def _profile(path: Path, environ: Mapping[str, str]) -> Profile:
    page = _page(path, f"profile {path.stem}", environ)
    tables = jobfile.load(page)
    special: dict[str, dict[str, Any]] = {name: tables.pop(name, {}) for name in _TABLES}
    whys: dict[str, str] = {}
    partitions = {name: jobfile.layer(_with_whys(table, whys), page) for name, table in special["partition"].items()}
    settings = {**jobfile.layer(_with_whys(tables, whys), page), **_site(special["site"], page)}
    return Profile(
        name=path.stem,
        path=str(path),
        cluster=str(special["match"].get("cluster", "")),
        hostname=str(special["match"].get("hostname", "")),
        settings=settings,
        policy={key: str(value) for key, value in special["policy"].items()},
        partitions=partitions,
        whys=whys,
    )


def _site(table: Mapping[str, Any], page: jobfile.Page) -> dict[str, Setting]:
    unknown = [key for key in table if key not in (*_SITE_KEYS, "cache")]
    if unknown:
        raise UsageError(f"{page.at(unknown[0])}: site.{unknown[0]} is no key", f"it is one of {', '.join(_SITE_KEYS)}")
    return jobfile.layer({_SITE_KEYS[key]: value for key, value in table.items() if key != "cache"}, page)


def _with_whys(table: Mapping[str, Any], whys: dict[str, str]) -> dict[str, Any]:
    """The table with plain values in its env; `{ value = …, why = … }` leaves its reason in `whys`."""
    env = dict(table.get("env", {}))
    for name, value in env.items():
        if isinstance(value, dict):
            whys[name] = str(value.get("why", ""))
            env[name] = value.get("value")
    return {**table, "env": env} if env else dict(table)
