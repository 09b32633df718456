"""Write the words by which ssh of another machine enters a job of this one."""

from __future__ import annotations

import getpass
import platform
from collections.abc import Mapping
from pathlib import Path

from mnrun.attach import connection
from mnrun.config import load
from mnrun.errors import LaunchError
from mnrun.running import submission


def entrance(job: str, environ: Mapping[str, str]) -> str:
    """Return the words behind `ssh -N -L …`, or "" where nobody may enter jobs by ssh."""
    home = Path.home()
    try:
        load.refuse_unwanted("proxy", environ, str(home))
        texts = connection.user_keys(home)
    except LaunchError:
        return ""
    return connection.from_elsewhere(submission.own_call(), job, getpass.getuser(), platform.node(), texts)
