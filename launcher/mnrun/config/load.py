"""Collect all settings of a job from files, variables and the command line.

    /etc/mnrun/config.toml            site defaults
    /etc/mnrun/profiles/NAME.toml     one is chosen: by name, by match.cluster or by match.hostname
    ~/.config/mnrun/…                 the same two of the user's own

Of the current directory, mnrun reads the named job file alone. Two profiles are never merged.
"""

from __future__ import annotations

import glob
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mnrun.config import jobfile, profiles
from mnrun.config import layers as settings
from mnrun.config.layers import Setting, Settings
from mnrun.config.options import BY_NAME
from mnrun.config.profiles import Sheet
from mnrun.errors import SchedulerError, UsageError
from mnrun.jobspec import Layer, derived
from mnrun.schedulers import at_hand
from mnrun.system import paths

SITE = Path("/etc/mnrun")
OWNER = 0  # the owner of a site's files


@dataclass(frozen=True)
class JobSettings:
    """The merged settings, the job file's command, the reasons of variables' values, and warnings."""

    settings: dict[str, Setting]
    command: tuple[str, ...] = ()
    whys: Mapping[str, str] = field(default_factory=dict)  # NAME=VALUE -> why
    warnings: tuple[str, ...] = ()
    profile: str = ""


@dataclass(frozen=True)
class Shelf:
    """The files that were found, and warnings about skipped ones."""

    site: Sheet | None
    user: Sheet | None
    profiles: tuple[Sheet, ...]
    warnings: tuple[str, ...]


_EVERY = {Layer.DEFAULTS, Layer.PROFILE}  # layers that hold for every job

# The settings of an image and of its container.
OF_IMAGES = (
    *("image", "runtime", "pull", "pull_timeout", "image_cache", "podman_root", "container_args", "bind"),
    *("module", "env", "profile", "job_dir", "slurm_poll", "force", "verbose", "quiet"),
)


@dataclass(frozen=True)
class Scope:
    """The settings that count for a verb that starts no job: those of `names`, and those that are typed.

    The verb itself sets those in `own`. A site's policy is for what is typed.
    """

    names: Sequence[str] = OF_IMAGES
    own: Mapping[str, object] = field(default_factory=dict)

    def of(self, merged: Settings, line: Settings) -> dict[str, Setting]:
        """Return the settings of this scope. Of the variables in files, PATH alone shapes a container."""
        kept = {name: setting for name, setting in merged.items() if name in (*self.names, *line)}
        if "env" in kept:
            env = kept["env"]
            kept["env"] = env.having(pair for pair in env.words if pair[0].lstrip("!").partition("=")[0] == "PATH")
        own = {
            name: Setting(settings.parse(BY_NAME[name], v, "mnrun"), derived("mnrun")) for name, v in self.own.items()
        }
        return {**settings.builtin(), **kept, **own}


def gather(
    options: Mapping[str, object],
    path: str,
    environ: Mapping[str, str],
    cwd: str,
    home: str,
    *,
    batch: bool = False,
    scope: Scope | None = None,
) -> JobSettings:
    """Merge the layers from built-in to command line. `path` is the job file's, or "". `batch`: the job is for sbatch.

    Raises UsageError for an error in a file or a value, and Impossible for a request that the site's policy forbids.
    """
    shelf = find(environ, home)
    line = settings.of_home(settings.from_command_line(options), home)
    variables = settings.of_home(settings.from_environment(environ), home)
    file = _job_file(path, environ, cwd) if path else jobfile.JobFile({})
    # Inside an allocation, SBATCH_* variables do not matter: the job runs.
    has_nodes = not batch and at_hand(environ).job(environ) != ""
    sbatch = {} if has_nodes else settings.from_sbatch(environ)
    unknown = settings.unknown_of_sbatch(environ) if batch else []
    job_layers = (file.settings, variables, sbatch, line)
    site, user = profiles.parse(shelf.site), profiles.parse(shelf.user)
    profile = settings.merge(site.settings, user.settings, *job_layers).get("profile")
    sheet = choose(shelf, str(profile.value) if profile else "", environ)
    content = profiles.parse(sheet)
    contents = (site, content, user)
    partition = at_hand(environ).partition(environ) if has_nodes else ""
    merged, partition = profiles.merged(settings.builtin(), contents, job_layers, partition)
    if has_nodes:
        merged = settings.without_gpus(merged, _EVERY)  # these are a request for nodes
    if scope is not None:
        merged = scope.of(merged, line)
    if sheet is not None:
        why = profile.origin if profile else derived("its match fits this place")
        merged["profile"] = Setting(sheet.name, why)
    if "force" not in merged or not merged["force"].value:
        requests = line if scope is not None else settings.merge(user.settings, *job_layers)
        profiles.refuse_unwanted(requests, content.policy, f"profile {sheet.name if sheet else ''}")
        profiles.refuse_unwanted(requests, site.policy, "this site")
    return JobSettings(
        merged,
        _command(file, merged),
        profiles.whys(contents, partition),
        (
            *shelf.warnings,
            *(f"{name} is ignored: use --slurm instead" for name in unknown),
            *settings.notes(line, merged),
            *_of_another_directory(path, file.command, merged, cwd),
        ),
        sheet.name if sheet else "",
    )


def _of_another_directory(path: str, command: Sequence[str], merged: Settings, cwd: str) -> list[str]:
    """Return a warning for a job file elsewhere whose command is relative: its paths begin there, the command here."""
    folder = os.path.dirname(os.path.join(cwd, path))
    relative = bool(command) and command[0].startswith(("./", "../"))
    if not relative or "chdir" in merged or os.path.realpath(folder) == os.path.realpath(cwd):
        return []
    return [f'{path}: {command[0]} begins at {cwd}; chdir = "." in the file makes it begin beside the file']


def as_given(options: Mapping[str, object], environ: Mapping[str, str]) -> JobSettings:
    """Return the settings of a batch script: its options and its job's. No file and no MNRUN_* variable counts."""
    allocated = {
        name: Setting(value, derived(origin)) for name, (value, origin) in at_hand(environ).settings(environ).items()
    }
    return JobSettings(settings.merge(settings.builtin(), allocated, settings.from_command_line(options)))


def standing(environ: Mapping[str, str], home: str) -> dict[str, Setting]:
    """Return the settings that hold before any job is named, such as --job-dir and --slurm-poll."""
    shelf = find(environ, home)
    names = ("MNRUN_JOB_DIR", "MNRUN_SLURM_POLL", "MNRUN_PROFILE", "MNRUN_IMAGE_CACHE", "MNRUN_PODMAN_ROOT")
    variables = settings.from_environment({name: environ[name] for name in names if name in environ})
    site, user = profiles.parse(shelf.site), profiles.parse(shelf.user)
    try:
        sheet = usual(shelf, environ)
    except (SchedulerError, profiles.TwoMatchError):  # these settings are needed even while Slurm is away
        sheet = None  # the submission has reported two matches already
    contents = (site, profiles.parse(sheet), user)
    return profiles.merged(settings.builtin(), contents, (variables,))[0]


def usual(shelf: Shelf, environ: Mapping[str, str]) -> Sheet | None:
    """Return the profile of a job that names none. Raises SchedulerError or TwoMatchError if it is not known."""
    defaults = (profiles.parse(shelf.site).settings, profiles.parse(shelf.user).settings)
    variable = {name: value for name, value in environ.items() if name == "MNRUN_PROFILE"}
    profile = settings.merge(*defaults, settings.from_environment(variable)).get("profile")
    return choose(shelf, str(profile.value) if profile else "", environ)


def _command(file: jobfile.JobFile, merged: Settings) -> tuple[str, ...]:
    """Return the file's command, or () if another layer names a script instead."""
    return file.command if merged.get("script") == file.settings.get("script") else ()


def choose(shelf: Shelf, name: str, environ: Mapping[str, str]) -> Sheet | None:
    """Return the profile of this place, or the one of this name."""

    def cluster() -> str:
        try:
            return at_hand(environ).name(environ)
        except SchedulerError as error:
            raise SchedulerError(
                str(error), "without it mnrun cannot choose a profile: name one with --profile"
            ) from None

    return profiles.choose(shelf.profiles, name, cluster, platform.node())


def _user_folder(environ: Mapping[str, str], home: str) -> Path:
    config = environ.get("XDG_CONFIG_HOME", "")  # the XDG specification: ignore a relative path
    return Path(config if os.path.isabs(config) else f"{home}/.config") / "mnrun"


def find(environ: Mapping[str, str], home: str) -> Shelf:
    """Read all files of the site and the user. Raises UsageError with the file and line of an error."""
    user_folder = _user_folder(environ, home)
    warnings: list[str] = []

    def sheet(path: Path, name: str, read: Callable[[Path, list[str]], str | None]) -> Sheet | None:
        text = read(path, warnings)
        if text is None:
            return None
        layer = Layer.PROFILE if name else Layer.DEFAULTS
        page = jobfile.Page(f"profile {name}" if name else str(path), text, str(path.parent), environ, layer)
        return profiles.sheet(name, str(path), page)

    sheets = [
        sheet(Path(path), Path(path).stem, read)
        for folder, read in ((SITE, _of_the_site), (user_folder, _of_the_user))
        for path in sorted(glob.glob(f"{glob.escape(str(folder))}/profiles/*.toml"))  # a closed folder has none
    ]
    site = sheet(SITE / "config.toml", "", _of_the_site)
    user = sheet(user_folder / "config.toml", "", _of_the_user)
    return Shelf(site, user, tuple(profile for profile in sheets if profile is not None), tuple(warnings))


def _of_the_site(path: Path, warnings: list[str]) -> str | None:
    """Return the text of a file that only the site can have written. If others could, return None, and add a
    warning."""
    try:
        with open(path, encoding="utf-8") as file:
            places = [os.fstat(file.fileno()), *map(os.stat, {path.parent, SITE})]
            if all(place.st_uid == OWNER and not place.st_mode & 0o022 for place in places):
                return file.read()
        warnings.append(f"{path} is ignored: it and its directory must belong to root, and only root may write them")
    except FileNotFoundError:
        pass
    except OSError as error:
        warnings.append(f"{path} is ignored: {error.strerror}")
    except UnicodeDecodeError:
        warnings.append(f"{path} is ignored: it is not text in UTF-8")
    return None


def _of_the_user(path: Path, warnings: list[str]) -> str | None:
    try:
        return _text(str(path), str(path)) if path.is_file() else None
    except OSError as error:  # its directory may be closed
        raise UsageError(f"{path}: {error.strerror}") from None


def _job_file(path: str, environ: Mapping[str, str], cwd: str) -> jobfile.JobFile:
    place = os.path.join(cwd, path)
    return jobfile.read(jobfile.Page(path, _text(place, f"job file {path}"), os.path.dirname(place), environ))


def _text(place: str, called: str) -> str:
    try:
        text = paths.text(place)
        text.encode()  # bytes that are no UTF-8 have become surrogates
        return text
    except OSError as error:
        raise UsageError(f"{called}: {error.strerror}") from None
    except UnicodeEncodeError:
        raise UsageError(f"{called} is not text in UTF-8") from None
