"""Answer for a job without a scheduler: the job goes on for as long as this process does."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from mnrun.model import Allocation, Site
from mnrun.system import process

ENDS = "its guard ends what is left there, within two minutes if the connection is lost"


def name(environ: Mapping[str, str]) -> str:
    return os.uname().nodename


def on_each(allocation: Allocation, names: Sequence[str], words: Sequence[str], environ: Mapping[str, str]) -> str:
    return process.ask(tuple(words))


def why_down(names: Sequence[str]) -> dict[str, str]:
    return {}


def started_anew(names: Sequence[str], since: float, environ: Mapping[str, str]) -> dict[str, str]:
    return {}


def runs(job: str) -> bool:
    return True


def preempted(job: str) -> bool:
    return False


def ending(site: Site) -> str:
    return ""


def time_limit(job: str) -> str:
    return ""


def end(job: str) -> None:
    pass
