"""Find the lines of known_hosts files about a host, as ssh does (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""

from __future__ import annotations

import base64
import contextlib
import fnmatch
import functools
import hmac
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mnrun.model import Words


@dataclass(frozen=True)
class HostKeys:
    """The known keys of a host, each as `TYPE BASE64`."""

    keys: Words = ()
    by_ca: bool = False  # a CA that signs the host's keys is known


def read(files: Words) -> Iterator[str]:
    """Yield the lines of those files that can be read."""
    for path in files:
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            yield from file


def host_keys(lines: Iterable[str], names: Sequence[str]) -> HostKeys:
    """Return the keys of the first of `names` that the lines know. Lines of another format are skipped. The result has
    no revoked keys. `names` are the host's names in ssh's order."""
    entries: dict[str, list[tuple[str, str]]] = {name: [] for name in names}
    for line in lines:
        marker, *fields = line.split() if line.startswith("@") else ("", *line.split())
        if len(fields) < 3 or fields[0].startswith("#"):
            continue
        for name in names:
            if _about(fields[0], name.lower()):
                entries[name].append((marker, f"{fields[1]} {fields[2]}"))
    by_name = (some for some in entries.values() if any(not marker for marker, _ in some))
    some = next(by_name, [entry for some in entries.values() for entry in some])
    revoked = {key for marker, key in some if marker == "@revoked"}
    keys = tuple(key for marker, key in some if not marker and key not in revoked)
    return HostKeys(keys, any(marker == "@cert-authority" for marker, _ in some))


def _about(patterns: str, name: str) -> bool:
    """Return whether a line's first field, a list with commas, matches the name. An excluded name does not match."""
    if patterns.startswith("|1|"):
        return _hashed(patterns, name)
    fitting = [pattern for pattern in patterns.lower().split(",") if _pattern(pattern.lstrip("!")).fullmatch(name)]
    return bool(fitting) and not any(pattern.startswith("!") for pattern in fitting)


def _hashed(field: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part) for part in field.split("|")[2:])
    except ValueError:  # bad base64, or not two parts
        return False
    return hmac.digest(salt, name.encode(), "sha1") == digest


@functools.cache
def _pattern(text: str) -> re.Pattern[str]:
    """Return a pattern with * and ? as a regular expression. Brackets are plain: they belong to [HOST]:PORT. fnmatch's
    expression never goes back to a star, so that many stars take no longer than one."""
    return re.compile(fnmatch.translate(text.replace("[", "[[]")))
