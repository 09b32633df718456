"""Everything that was said about a job, wherever it was said, as one set of settings."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import cluster, jobfile, profiles, settings
from .errors import Impossible, UsageError
from .settings import Setting

_OWN = ("built-in", "site")


@dataclass(frozen=True)
class Gathered:
    """The merged settings, the job file's command, why variables have their values, and what to warn of."""

    settings: dict[str, Setting]
    command: tuple[str, ...] = ()
    whys: Mapping[str, str] | None = None
    warnings: tuple[str, ...] = ()
    profile: str = ""


def gather(given: Mapping[str, object], path: str, environ: Mapping[str, str], cwd: str, home: str) -> Gathered:
    """The layers from built-in to command line. `path` is the job file's, or "".

    Raises UsageError for what is wrong in a file or a value, Impossible for what the site does not want.
    """
    shelf = profiles.find(environ, home)
    line = settings.from_command_line(given)
    variables = settings.from_environment(environ)
    asked = {**variables, **line}.get("profile")
    chosen = profiles.choose(shelf.profiles, str(asked.value) if asked else "", lambda: cluster.name(environ))
    file = _read(path, environ, cwd) if path else jobfile.JobFile({})
    sbatch = {} if "SLURM_JOB_ID" in environ else settings.from_sbatch(environ)
    own = (shelf.user, file.settings, variables, sbatch, line)
    below = (settings.builtin(), shelf.site, chosen.settings if chosen else {})
    merged = settings.merge(*below, *own)
    if chosen is None:
        return Gathered(merged, file.command, None, tuple(shelf.warnings))
    if "partition" in merged:
        merged = settings.merge(*below, chosen.partitions.get(str(merged["partition"].value), {}), *own)
    _refuse_unwanted(settings.merge(*own), chosen, "force" in merged)
    return Gathered(merged, file.command, chosen.whys, tuple(shelf.warnings), chosen.name)


def _refuse_unwanted(asked: Mapping[str, Setting], chosen: profiles.Profile, force: bool) -> None:
    for name, why in chosen.policy.items():
        if name in asked and not force:
            option = f"--{name.replace('_', '-')} ({asked[name].origin})"
            raise Impossible(f"{option} is not wanted by profile {chosen.name}: {why}", "--force overrides it")


def _read(path: str, environ: Mapping[str, str], cwd: str) -> jobfile.JobFile:
    place = os.path.join(cwd, path)
    try:
        text = Path(place).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"job file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"job file {path} is not text in UTF-8") from None
    return jobfile.read(jobfile.Page(path, text, os.path.dirname(place) or cwd, environ))
