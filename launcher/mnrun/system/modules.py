"""Load environment modules as a batch script does, and return the resulting environment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from mnrun.errors import Impossible
from mnrun.files import spoken


def load(names: Sequence[str], environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return `environ` after `module load` of each name. Raises Impossible with the module system's own message."""
    if not names:
        return environ
    mark = os.urandom(8).hex()
    argv = ("bash", "--norc", "-c", spoken("modules.sh"), mark, *names)
    done = subprocess.run(argv, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    output = done.stdout.decode("utf-8", "surrogateescape").partition(f"{mark}\0")[2]
    if done.returncode:
        errors = " | ".join(done.stderr.decode("utf-8", "replace").strip().splitlines()[-3:])
        raise Impossible(f"{output.strip()}" + (f": {errors}" if errors else ""), "see `module avail`")
    return dict(pair.split("=", 1) for pair in output.split("\0") if "=" in pair)
