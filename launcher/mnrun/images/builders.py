"""Choose the program that builds an image, write its command, and explain its failures. Starts nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mnrun.errors import Impossible, UsageError
from mnrun.files import BASH
from mnrun.images import FILES
from mnrun.model import Words
from mnrun.nodes import kit

# A line that begins a step: the trace of `sh -x` (Apptainer), Podman's and Docker's own numbers, BuildKit's.
_STEPS = (
    re.compile(r"\+ (?P<step>.*)"),
    re.compile(r"(?:STEP|Step) \d+/\d+ ?: (?P<step>.*)"),
    re.compile(r"#\d+ \[[^\]]*\] (?P<step>.*)"),
)
_LAST_WORDS = re.compile(  # the builder's own last line, after the reason of a failed step
    r"FATAL: .*exit status \d+$|Error: (building|error building) at STEP|The command '.*' returned a non-zero code"
    r"|ERROR: failed to (solve|build)|subprocess exited with status"
)
_REASON = re.compile(
    r"^(E: |.*\b(error|fatal|failed|cannot|can't|unable|not found|no such|denied|refused)\b)", re.IGNORECASE
)
_NEAR = "build where that is in reach"
_REMEDIES = {
    r"no space left|disk quota": "free some space, or name another directory with APPTAINER_TMPDIR and TMPDIR",
    r"subuid|subgid|newuidmap|fakeroot": "an administrator adds subordinate ids for you (subuid(5))",
    r"no such host|resolve|connection refused|i/o timeout|unreachable|failed to fetch": _NEAR,
    r"unauthorized|denied: |authentication required": "log in to that registry, as with `docker login`",
    r"x509": "an administrator adds the registry's CA to the system's certificates",
    r"toomanyrequests": "log in to that registry, or wait",
}  # fmt: skip

_MAKE = (*BASH, "-c", kit.bundle("make_image.sh"), "make_image.sh")


def choose(names: Words, wanted: str, has: Callable[[str], bool]) -> str:
    """Return the `wanted` builder, or the first that is here. Raises UsageError for the other kind, or Impossible."""
    makes, other = ("a file", "--tag NAME") if names == FILES else ("an image of a store", "-o FILE.sif")
    if wanted and wanted not in names:
        raise UsageError(f"--builder {wanted} does not make {makes}", f"use {other}")
    for name in (wanted,) if wanted else names:
        if has(name):
            return name
    where = "build on a machine that has it" if wanted else f"with {other}, others build"
    raise Impossible(f"{wanted or ', '.join(names)}: not on PATH", where)


def to_file(builder: str, made: Path, definition: Path, arguments: Mapping[str, str]) -> Words:
    """Return the words that build a SIF file. --fakeroot makes the user root in a user namespace."""
    return (builder, "build", "--fakeroot", *_build_arguments(arguments), str(made), str(definition))


def to_store(builder: str, tag: str, context: Path, arguments: Mapping[str, str], podman: str) -> Words:
    """Return the words that build an image from the Dockerfile on their input. `podman` is its --podman-root."""
    words = ("--force-rm", "--tag", tag, "--file", "-", *_build_arguments(arguments), str(context))
    return (*_MAKE, builder, podman, "build", *words)


def conversion(store: str, program: str, podman: str, place: Path, what: str, source: str, target: str) -> Words:
    """Return the words that make a file of a store's image (`what` is "file"), or the other way round ("store")."""
    return (*_MAKE, store, podman, what, program, str(place), source, target)


def typed(words: Words) -> str:
    """Return the command of a build as a person would type it, and one of a conversion by the name of its script."""
    if words[0] != "bash":
        return shlex.join(words)
    return shlex.join((words[6], *words[8:]) if words[8] == "build" else words[5:])


def _build_arguments(arguments: Mapping[str, str]) -> Words:
    return tuple(word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}"))


def step(line: str) -> str:
    """Return the step that begins with this line of a builder's output, or ""."""
    matches = (pattern.fullmatch(line) for pattern in _STEPS)
    return next((match["step"].strip() for match in matches if match), "")


def why(lines: Sequence[str], local: str = "") -> tuple[str, str]:
    """Return why a build failed, with its step, and the remedy, by the last lines of the builder's output. `local`
    tells how to begin without a registry."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in lines]
    lines = [line for line in lines if line]
    steps = [number for number, line in enumerate(lines) if step(line)]
    after = lines[steps[-1] + 1 :] if steps else lines
    said = [line for line in after if not _LAST_WORDS.search(line) and not step(line)]
    reasons = [line for line in said if _REASON.match(line)] or said[-1:] or lines[-1:] or ["it said nothing"]
    reason = re.sub(r"^(FATAL|ERROR|Error): *(While performing build: )?", "", reasons[-1])
    where = f"`{_short(step(lines[steps[-1]]))}`: " if steps else ""
    remedy = next((text for pattern, text in _REMEDIES.items() if re.search(pattern, reason, re.IGNORECASE)), "")
    return f"{where}{reason}", f"{remedy}, or {local}" if remedy == _NEAR and local else remedy


def _short(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:117]}..."
