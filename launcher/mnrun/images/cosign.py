"""Ask cosign for the signature of an image in its registry."""

from __future__ import annotations

import subprocess

from mnrun.errors import UsageError
from mnrun.system.commands import captured

LIMIT = 60  # seconds


def signature(name: str, key: str) -> str:
    """Return "valid", or why no signature by the public key in the file `key` is valid for the image REPOSITORY@DIGEST.
    cosign asks the registry, with the login of ~/.docker/config.json. Raises UsageError if cosign is not on PATH."""
    words = ("cosign", "verify", "--key", key, name)
    try:
        done = captured(words, LIMIT)
    except FileNotFoundError:
        problem = f"the signature of {name} is in its registry, and cosign is not on PATH here"
        remedy = "install cosign, or copy the image to a file, which `apptainer verify` checks"
        raise UsageError(problem, remedy) from None
    except subprocess.TimeoutExpired:
        return f"cosign did not answer within {LIMIT} s"
    if done.returncode == 0:
        return "valid"
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["cosign said nothing"]
    # cosign 2 repeats its error, with the line of its own source in front.
    return next((line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")), lines[-1])
