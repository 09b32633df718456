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
from pathlib import Path

from mnrun.config import jobfile, profiles
from mnrun.config import layers as settings
from mnrun.config.layers import Setting, Settings
from mnrun.config.options import BY_NAME
from mnrun.config.profiles import ProfileFile
from mnrun.errors import Impossible, SchedulerError, UsageError
from mnrun.jobspec import Layer, SiteSettings, derived
from mnrun.record import Record
from mnrun.schedulers import BatchScheduler
from mnrun.schedulers import choose as choose_scheduler
from mnrun.schedulers.vocabulary import Preset
from mnrun.system import paths

SITE = Path("/etc/mnrun")
OWNER = 0  # the owner of a site's files


class JobSettings(Record):
    """The merged settings, the job file's command, the reasons of variables' values, and warnings."""

    settings: dict[str, Setting]
    scheduler: BatchScheduler
    command: tuple[str, ...] = ()
    whys: Mapping[str, str] = {}  # NAME=VALUE -> why
    warnings: tuple[str, ...] = ()
    profile: str = ""
    service: tuple[str, ...] = ()  # the words of the service, before all others
    own: Mapping[str, SiteSettings] = {}  # scheduler -> the site's settings for it


class ProfileFiles(Record):
    """The files that were found, and warnings about skipped ones."""

    site: ProfileFile | None
    user: ProfileFile | None
    profiles: tuple[ProfileFile, ...]
    warnings: tuple[str, ...]


_EVERY = {Layer.DEFAULTS, Layer.PROFILE}  # layers that hold for every job

# The settings of an image and of its container.
OF_IMAGES = (
    *("image", "runtime", "pull", "pull_timeout", "image_cache", "podman_root", "container_args", "bind"),
    *("module", "env", "profile", "scheduler", "job_dir", "poll", "force", "verbose", "quiet"),
)


class Scope(Record):
    """The settings that count for a verb that starts no job: those of `names`, and those that are typed.

    The verb itself sets those in `own`. A site's policy is for what is typed. Further settings count only
    `with_nodes`, or only `without_nodes`.
    """

    names: Sequence[str] = OF_IMAGES
    own: Mapping[str, object] = {}
    with_nodes: Sequence[str] = ()
    without_nodes: Sequence[str] = ()

    def of(self, merged: Settings, line: Settings, has_nodes: bool) -> dict[str, Setting]:
        """Return the settings of this scope. Of the variables in files, PATH alone shapes a container."""
        names = {*self.names, *line, *(self.with_nodes if has_nodes else self.without_nodes)}
        kept = {name: setting for name, setting in merged.items() if name in names}
        if "env" in kept:
            env = kept["env"]
            kept["env"] = env.having(pair for pair in env.words if pair[0].lstrip("!").partition("=")[0] == "PATH")
        for name, value in self.own.items():
            kept[name] = Setting(settings.parse(BY_NAME[name], value, "mnrun"), derived("mnrun"))
        return {**settings.builtin(), **kept}


class Sources(Record):
    """The files and variables of one job, and its command line, which are read once. The profile is chosen, and so is
    the scheduler: the one that they name, or the one at hand."""

    files: ProfileFiles
    sheet: ProfileFile | None
    scheduler: BatchScheduler
    file: jobfile.JobFile
    variables: Settings
    line: Settings
    path: str  # of the job file, or ""
    cwd: str
    row: jobfile.JobFile  # of the service, for mnrun serve


def read(
    options: Mapping[str, object],
    path: str,
    environ: Mapping[str, str],
    cwd: str,
    home: str,
    service: object = None,
    own: Mapping[str, object] = {},
) -> Sources:
    """Read all sources. `path` is the job file's, or "", and `service` the name that mnrun serve got, or "". `own` is
    its container if no row, job file or line names one. Raises UsageError for an error in a file or a value."""
    files = find(environ, home)
    line = settings.of_home(settings.from_command_line(options), home)
    variables = settings.of_home(settings.from_environment(environ), home)
    file = jobfile.JobFile({})
    if path:
        place = os.path.join(cwd, path)
        text = _text(place, f"job file {path}")
        file = jobfile.read(jobfile.TomlFile(path, text, os.path.dirname(place), environ))
    site, user = profiles.parse(files.site).settings, profiles.parse(files.user).settings
    early = settings.merge(site, user, file.settings, variables, line)
    scheduler = _scheduler(early, environ)
    sheet = choose(files, early, scheduler, environ)
    if sheet is not None:
        content = profiles.parse(sheet).settings
        scheduler = _scheduler(settings.merge(site, content, user, file.settings, variables, line), environ)
    row = jobfile.JobFile({}) if service is None else _service(str(service), files, sheet, file, environ)
    if own and not own.keys() & {*row.settings, *file.settings, *line}:
        container = jobfile.read_tables({**own}, jobfile.TomlFile("the job", "", "/", environ, Layer.PROFILE))
        row = jobfile.JobFile(settings.merge(row.settings, container.settings), row.command)
    return Sources(files, sheet, scheduler, file, variables, line, path, cwd, row)


def _service(
    name: str, files: ProfileFiles, sheet: ProfileFile | None, file: jobfile.JobFile, environ: Mapping[str, str]
) -> jobfile.JobFile:
    """Return the row of a service, over that of every service. Raises UsageError if nobody knows its name."""
    from mnrun.services import recipes

    def ours(name: str, row: Mapping[str, object]) -> jobfile.JobFile:
        page = jobfile.TomlFile(f"service {name}", "", "/", environ, Layer.PROFILE)
        return jobfile.read_tables({**row}, page)

    contents = map(profiles.parse, (files.site, sheet, files.user))
    rows = {known: ours(known, row) for known, row in recipes.ROWS.items()}
    for part in (*(content.services for content in contents), file.services):
        rows.update(part)
    if name and name not in rows:
        raise UsageError(f"there is no service {name}", f"mnrun knows {', '.join(rows)}; for a program write -- first")
    row = rows.get(name, jobfile.JobFile({}))
    plain = ours("plain", {**recipes.PLAIN, **({"name": name} if name else {})})
    return jobfile.JobFile(settings.merge(plain.settings, row.settings), row.command)


def _scheduler(merged: Settings, environ: Mapping[str, str]) -> BatchScheduler:
    return choose_scheduler(str(merged["scheduler"].value) if "scheduler" in merged else "", environ)


def gather(
    sources: Sources,
    environ: Mapping[str, str],
    *,
    batch: bool = False,
    scope: Scope | None = None,
    recorded: Settings | None = None,
) -> JobSettings:
    """Merge the layers from built-in to command line. `batch`: the job is for a batch script. `recorded`: it is made
    again of these settings.

    `environ` tells whether the job has its nodes. Raises UsageError for an error in a value, and Impossible for a
    request that the site's policy forbids.
    """
    if recorded is not None:
        return _anew(recorded, sources)
    files, sheet, scheduler = sources.files, sources.sheet, sources.scheduler
    file, line = sources.file, sources.line
    # Inside a job, the scheduler's variables for a new job do not matter.
    has_nodes = not batch and scheduler.job(environ) != ""
    preset = Preset() if has_nodes else scheduler.preset(environ)
    own = settings.from_scheduler(preset, scheduler.OPTION.name)
    job_layers = (sources.row.settings, file.settings, sources.variables, own, line)
    site, content, user = contents = tuple(map(profiles.parse, (files.site, sheet, files.user)))
    partition = scheduler.partition(environ) if has_nodes else ""
    merged, partition = profiles.merged(settings.builtin(), contents, job_layers, partition)
    if has_nodes:
        merged = settings.without_gpus(merged, _EVERY)  # these are a request for nodes
    if scope is not None:
        merged = scope.of(merged, line, has_nodes)
    if sheet is not None:
        profile = settings.merge(site.settings, user.settings, *job_layers).get("profile")
        why = profile.origin if profile else derived("its match fits this place")
        merged["profile"] = Setting(sheet.name, why)
    if "force" not in merged or not merged["force"].value:
        requests = line if scope is not None else settings.merge(user.settings, *job_layers)
        profiles.refuse_unwanted(requests, content.policy, f"profile {sheet.name if sheet else ''}")
        profiles.refuse_unwanted(requests, site.policy, "this site")
    return JobSettings(
        merged,
        scheduler,
        file.command if merged.get("script") == file.settings.get("script") else (),  # a script replaces it
        profiles.whys(contents, partition),
        (
            *files.warnings,
            *(f"{name} is ignored: use --{scheduler.OPTION.name} instead" for name in preset.unknown if batch),
            *settings.notes(line, merged),
            *_of_another_directory(sources.path, file.command, merged, sources.cwd),
        ),
        sheet.name if sheet else "",
        sources.row.command,
        profiles.own(contents),
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
    line = settings.from_command_line(options)
    scheduler = _scheduler(line, environ)
    allocated = {name: Setting(value, derived(origin)) for name, (value, origin) in scheduler.settings(environ).items()}
    return JobSettings(settings.merge(settings.builtin(), allocated, line), scheduler)


def _anew(recorded: Settings, sources: Sources) -> JobSettings:
    """Return the settings of a job that is made again: as they were recorded, with the command line over them. Of the
    files, only the policies count, and the site's own settings. Raises Impossible."""
    files, sheet = sources.files, sources.sheet
    site, content, _ = contents = tuple(map(profiles.parse, (files.site, sheet, files.user)))
    merged = settings.merge(settings.builtin(), recorded, sources.line)
    if "force" not in merged or not merged["force"].value:
        profiles.refuse_unwanted(merged, content.policy, f"profile {sheet.name if sheet else ''}")
        profiles.refuse_unwanted(merged, site.policy, "this site")
    notes = (*files.warnings, *settings.notes(sources.line, merged))
    return JobSettings(merged, sources.scheduler, warnings=notes, own=profiles.own(contents))


def standing(environ: Mapping[str, str], home: str) -> JobSettings:
    """Return the settings that hold before any job is named, such as --job-dir and --poll."""
    files = find(environ, home)
    options = [BY_NAME[name] for name in ("job_dir", "poll", "profile", "scheduler", "image_cache", "podman_root")]
    names = {name for option in options for name in option.variables}
    variables = settings.from_environment({name: environ[name] for name in names if name in environ})
    try:
        sheet = usual(files, environ)
    except (SchedulerError, profiles.TwoMatchError):  # these settings are needed even while the scheduler is away
        sheet = None  # the submission has reported two matches already
    contents = tuple(map(profiles.parse, (files.site, sheet, files.user)))
    merged = profiles.merged(settings.builtin(), contents, (variables,))[0]
    return JobSettings(merged, _scheduler(merged, environ))


def refuse_unwanted(verb: str, environ: Mapping[str, str], home: str) -> None:
    """Raise Impossible for a verb that the site's policy forbids."""
    files = find(environ, home)
    try:
        sheet = usual(files, environ)
    except (SchedulerError, profiles.TwoMatchError):  # as for `standing`
        sheet = None
    for content in map(profiles.parse, (sheet, files.site)):
        if why := content.policy.get(verb):
            raise Impossible(f"mnrun {verb} is refused by this site: {why}", "mnrun exec enters a job without ssh")


def usual(files: ProfileFiles, environ: Mapping[str, str]) -> ProfileFile | None:
    """Return the profile of a job that names none. Raises SchedulerError or TwoMatchError if it is not known."""
    defaults = (profiles.parse(files.site).settings, profiles.parse(files.user).settings)
    ours = {name: value for name, value in environ.items() if name in ("MNRUN_PROFILE", "MNRUN_SCHEDULER")}
    merged = settings.merge(*defaults, settings.from_environment(ours))
    return choose(files, merged, _scheduler(merged, environ), environ)


def choose(
    files: ProfileFiles, merged: Settings, scheduler: BatchScheduler, environ: Mapping[str, str]
) -> ProfileFile | None:
    """Return the profile that the settings name, or else the one of this place."""

    def cluster() -> str:
        try:
            return scheduler.name(environ)
        except SchedulerError as error:
            remedy = "without it mnrun cannot choose a profile: name one with --profile"
            raise SchedulerError(str(error), remedy) from None

    name = str(merged["profile"].value) if "profile" in merged else ""
    return profiles.choose(files.profiles, name, cluster, platform.node())


def find(environ: Mapping[str, str], home: str) -> ProfileFiles:
    """Read all files of the site and the user. Raises UsageError with the file and line of an error."""
    config = environ.get("XDG_CONFIG_HOME", "")  # the XDG specification: ignore a relative path
    user_folder = Path(config if os.path.isabs(config) else f"{home}/.config") / "mnrun"
    warnings: list[str] = []
    readers = {SITE: _of_the_site, user_folder: _of_the_user}
    if os.path.isabs(config) and (why := _why_foreign(user_folder)):
        warnings.append(f"{user_folder} (XDG_CONFIG_HOME) is ignored: it {why}")
        del readers[user_folder]

    def sheet(path: Path, name: str, read: Callable[[Path, list[str]], str | None]) -> ProfileFile | None:
        text = read(path, warnings)
        if text is None:
            return None
        layer = Layer.PROFILE if name else Layer.DEFAULTS
        page = jobfile.TomlFile(f"profile {name}" if name else str(path), text, str(path.parent), environ, layer)
        return profiles.sheet(name, str(path), page)

    sheets = [
        sheet(Path(path), Path(path).stem, read)
        for folder, read in readers.items()
        for path in sorted(glob.glob(f"{glob.escape(str(folder))}/profiles/*.toml"))  # a closed folder has none
    ]
    site = sheet(SITE / "config.toml", "", _of_the_site)
    user = sheet(user_folder / "config.toml", "", _of_the_user) if user_folder in readers else None
    return ProfileFiles(site, user, tuple(profile for profile in sheets if profile is not None), tuple(warnings))


def _why_foreign(folder: Path) -> str:
    """Return why another user may have written what lies there, or "" if the user alone has, or nothing is there."""
    try:
        return paths.foreign(folder)
    except OSError:
        return ""


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


def _text(place: str, called: str) -> str:
    try:
        text = paths.text(place)
        text.encode()  # bytes that are no UTF-8 have become surrogates
        return text
    except OSError as error:
        raise UsageError(f"{called}: {error.strerror}") from None
    except UnicodeEncodeError:
        raise UsageError(f"{called} is not text in UTF-8") from None
