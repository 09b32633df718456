"""Choose among site defaults, profiles and the user's own, and parse them. Reads no file.

A profile has a job file's keys, and these tables:

    match.cluster, match.hostname    the places of the profile: a glob, or a list of globs. Both must match if set
    site.*                           modules, jobs, ports, connect, poll, cache, mnrun
    policy.OPTION = "…"              the option is refused, in these words
    partition.NAME.*                 keys that hold in that partition, with env.X = { value = …, why = … }
    services.NAME.*                  a row of mnrun serve, with the keys of a job file
    SCHEDULER.*                      a job file's, and settings of the site (OwnOption.site)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mnrun.config import jobfile
from mnrun.config.layers import Setting, Settings, merge
from mnrun.config.options import BY_NAME, FORMER, name_of
from mnrun.environment import matches
from mnrun.errors import Impossible, UsageError
from mnrun.jobspec import SiteSettings
from mnrun.record import Record
from mnrun.schedulers import OWN
from mnrun.schedulers.vocabulary import OwnOption

SITE_KEYS = {
    "modules": "module",
    "jobs": "job_dir",
    "ports": "ports",
    "connect": "connect",
    "poll": "poll",
    "cache": "image_cache",
    "mnrun": "mnrun",
}


class TwoMatchError(UsageError):
    """More than one profile matches this place."""


class ProfileFile(Record):
    """A TOML file of the site or of the user. Only its match table is checked."""

    name: str  # the profile's name, or "" for defaults
    path: str
    page: jobfile.TomlFile
    tables: Mapping[str, Any]
    cluster: tuple[str, ...] = ()
    hostname: tuple[str, ...] = ()


class Content(Record):
    """The content of a profile, or of a config.toml."""

    settings: Mapping[str, Setting] = {}
    partitions: Mapping[str, Settings] = {}
    policy: Mapping[str, str] = {}  # option -> the reason that the site forbids it
    own: Mapping[str, SiteSettings] = {}  # scheduler -> its settings
    whys: Mapping[str, Mapping[str, str]] = {}  # partition or "" -> NAME=VALUE -> why
    services: Mapping[str, jobfile.JobFile] = {}  # rows of services, by name


def sheet(name: str, path: str, page: jobfile.TomlFile) -> ProfileFile:
    """Return a file's tables, and the places that it is for. Raises UsageError with the file and line of an error."""
    tables = jobfile.load(page)
    for special in jobfile.PROFILE_TABLES:
        if special != "partition" and not isinstance(tables.get(special, {}), dict):
            raise page.error((special,), f"{special} is a table here", f"write [{special}]")
    match = tables.pop("match", {})
    if match and not name:
        raise page.error(("match",), "match is allowed only in a profile", "move it to profiles/NAME.toml")
    for key, value in match.items():
        patterns = [value] if isinstance(value, str) else value
        right = isinstance(patterns, list) and patterns and all(isinstance(p, str) and p for p in patterns)
        if key not in ("cluster", "hostname") or not right:
            remedy = "write match.cluster or match.hostname, with names"
            raise page.error(("match", key), f"match.{key} is not valid", remedy)
    places = {key: (value,) if isinstance(value, str) else tuple(value) for key, value in match.items()}
    return ProfileFile(name, path, page, tables, places.get("cluster", ()), places.get("hostname", ()))


def choose(sheets: Sequence[ProfileFile], name: str, cluster: Callable[[], str], hostname: str) -> ProfileFile | None:
    """Return the one profile of this place, or the one of this name. Of two with the same name, the later one counts.

    `cluster` is called only if some profile names a cluster. Raises UsageError if two match, or none has the name.
    """
    by_name = {sheet.name: sheet for sheet in sheets}
    if name:
        if name not in by_name:
            raise UsageError(f"there is no profile {name}", f"known profiles: {', '.join(sorted(by_name)) or 'none'}")
        return by_name[name]
    cluster_name = cluster() if any(sheet.cluster for sheet in by_name.values()) else ""
    matching = [
        sheet
        for sheet in by_name.values()
        if (sheet.cluster or sheet.hostname)
        and (not sheet.cluster or matches(cluster_name.lower(), [pattern.lower() for pattern in sheet.cluster]))
        and (not sheet.hostname or matches(hostname, sheet.hostname))
    ]
    if len(matching) > 1:
        both = " and ".join(f"{sheet.name} ({sheet.path})" for sheet in matching)
        raise TwoMatchError(f"two profiles match this place: {both}", "name one with --profile, or MNRUN_PROFILE")
    return matching[0] if matching else None


def parse(sheet: ProfileFile | None) -> Content:
    """Return the content of such a file. Raises UsageError with the file and line of a bad key or value."""
    if sheet is None:
        return Content()
    page, tables = sheet.page, dict(sheet.tables)
    special: dict[str, dict[str, Any]] = {name: tables.pop(name, {}) for name in ("site", "policy")}
    # as in a job file, partition = "main" is the option
    special["partition"] = tables.pop("partition") if isinstance(tables.get("partition"), dict) else {}
    services = jobfile.services(tables, page)
    own: dict[str, SiteSettings] = {}
    for name, option in OWN.items():
        if isinstance(tables.get(name), dict):
            own[name], tables[name] = _own(tables[name], option, page)
    whys: dict[str, dict[str, str]] = {}
    plain, whys[""] = _with_whys(tables)
    partitions = {}
    for name, table in special["partition"].items():
        if not isinstance(table, dict):
            where = ("partition", name)
            raise page.error(where, f"partition.{name} is not a table", f'resources.partition = "{name}"')
        bare, whys[name] = _with_whys(table)
        partitions[name] = jobfile.layer(bare, page, ("partition", name))
    settings = jobfile.layer(plain, page)
    for name, setting in _site(special["site"], page).items():
        settings[name] = merge({name: settings[name]}, {name: setting})[name] if name in settings else setting
    if sheet.name and "profile" in settings:
        remedy = "remove this key: mnrun uses one profile at a time"
        raise page.error(("profile",), "a profile cannot name another profile", remedy)
    return Content(settings, partitions, _policy(special["policy"], page), own, whys, services)


def _site(table: Mapping[str, Any], page: jobfile.TomlFile) -> dict[str, Setting]:
    settings: dict[str, Setting] = {}
    for key, value in table.items():
        name = SITE_KEYS.get(FORMER.get(key, key), "")
        if not name:
            raise page.error(("site", key), f"unknown key site.{key}", f"use one of {', '.join(SITE_KEYS)}")
        settings[name] = jobfile.setting(BY_NAME[name], value, page, ("site", key))
    return settings


def _own(table: Mapping[str, Any], option: OwnOption, page: jobfile.TomlFile) -> tuple[SiteSettings, dict[str, Any]]:
    """Return the settings of the site in a scheduler's table, and the rest of the table."""
    settings: SiteSettings = {key: value for key, value in table.items() if key in option.site}
    for key, value in settings.items():
        values = value.values() if isinstance(value, dict) else (value,)
        if not all(isinstance(one, (str, int)) for one in values):
            problem = f"{key} is neither a string nor a table of strings"
            raise page.error((option.name, key), problem, f"it is {option.site[key]}")
    return settings, {key: value for key, value in table.items() if key not in option.site}


def own(contents: Sequence[Content]) -> dict[str, SiteSettings]:
    """Return scheduler -> the site's settings for it, of which a later one wins."""
    names = dict.fromkeys(name for content in contents for name in content.own)
    return {name: {k: v for content in contents for k, v in content.own.get(name, {}).items()} for name in names}


def _policy(table: Mapping[str, Any], page: jobfile.TomlFile) -> dict[str, str]:
    """Return option -> reason. An option that mnrun has not is no error: a site's rules may be older, or newer."""
    for key, value in table.items():
        if not isinstance(value, str):
            raise page.error(("policy", key), f"policy.{key} is not a string", "write the reason that users read")
    return {name_of(key.replace("-", "_")): value for key, value in table.items()}


def _with_whys(table: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the table with plain values in its env, and the reasons of `{ value = …, why = … }` beside it."""
    variables = table.get("env")
    if not isinstance(variables, dict):
        return dict(table), {}
    env, whys = dict(variables), {}
    for name, value in variables.items():
        if isinstance(value, dict) and "value" in value:
            env[name] = value["value"]
            whys[f"{name}={value['value']}"] = str(value.get("why", ""))
    return {**table, "env": env}, whys


def merged(
    below: Settings, contents: Sequence[Content], job_layers: Sequence[Settings], partition: str = ""
) -> tuple[dict[str, Setting], str]:
    """Return every layer in its order, with the files' settings for the job's partition, and that partition.

    `partition` is that of a job that has its nodes. Without it, the settings name the partition.
    """
    if not partition:
        settings = merge(below, *(content.settings for content in contents), *job_layers)
        partition = str(settings["partition"].value) if "partition" in settings else ""
    layers = [layer for content in contents for layer in (content.settings, content.partitions.get(partition, {}))]
    return merge(below, *layers, *job_layers), partition


def whys(contents: Sequence[Content], partition: str) -> dict[str, str]:
    """Return NAME=VALUE -> reason, for the variables that the files set."""
    reasons: dict[str, str] = {}
    for content in contents:
        reasons.update({**content.whys.get("", {}), **(content.whys.get(partition, {}) if partition else {})})
    return reasons


def refuse_unwanted(requests: Settings, policy: Mapping[str, str], author: str) -> None:
    """Raise Impossible if an option is given that the site's policy forbids."""
    for name, why in policy.items():
        if name in requests and requests[name].value is not False:
            option = f"--{name.replace('_', '-')} ({requests[name].origin})"
            raise Impossible(f"{option} is refused by {author}: {why}", "--force overrides it")
