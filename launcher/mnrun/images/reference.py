"""Tell whether `--image` names a file or directory of the nodes, or an image of a registry. Reads no file.

./app, ../app, /images/app, app.sif        a path
docker://…, oras://…, library://…          a reference, by its scheme
name:tag, name@sha256:…, host.name/…       a reference, as docker writes it
anything else                              a path if it exists, else an error
"""

from __future__ import annotations

import re

from mnrun.errors import Impossible, UsageError

SCHEMES = ("docker", "oras", "library")
_FILE = r".*\.(sif|simg|sqsh|sqfs|squashfs|img)$"
_PATH = re.compile(rf"[/.~]|{_FILE}")
_HOST = r"(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|[A-Za-z0-9.-]+(?=:\d))(?::\d+)?"
_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_NAME = re.compile(
    rf"(?P<host>{_HOST}/)?(?P<name>{_PART}(?:/{_PART})*)"
    r"(?P<tag>:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?P<digest>@sha256:[0-9a-f]{64})?"
)
_PINNED = re.compile(r":[^/@]*(?=@sha256:)")


def clearly(text: str) -> bool:
    """Return whether `text` is written as a reference, right or wrong, even if a path of that name exists."""
    if "://" in text:
        return True
    return not _PATH.match(text) and bool(re.search(r":[\w.-]*$|@", text) or _has_host_or_tag(text))


def _has_host_or_tag(text: str) -> bool:
    match = _NAME.fullmatch(text)
    return bool(match and (match["host"] or match["tag"] or match["digest"]))


def is_path(text: str) -> bool:
    """Return whether `text` is written as a path: from a directory, or with the ending of an image file."""
    return bool(_PATH.match(text))


def is_file_name(text: str) -> bool:
    """Return whether `text` has the ending of an image file."""
    return bool(re.match(_FILE, text))


def is_reference(text: str, exists: bool) -> bool:
    """Return whether `text` names an image of a registry, and no path that `exists`. Raises UsageError if neither."""
    scheme, sign, rest = text.partition("://")
    if sign:
        if scheme not in SCHEMES:
            raise UsageError(f"--image {text}: {scheme}:// is not a known scheme", f"use one of {', '.join(SCHEMES)}")
        if not rest or re.search(r"\s", rest):
            raise UsageError(f"--image {text} names no image", f"write {scheme}://NAME:TAG")
        if scheme == "docker":
            _check(text, rest.lstrip("/"))
        return True
    if _PATH.match(text) or exists:
        return False
    if _has_host_or_tag(text):
        return True
    if re.search(r"[:@#]", text):
        _check(text, text)
    problem = f"--image {text} is not a file here, and names no registry"
    raise UsageError(problem, f"write ./{text} or docker://{text}")


def _check(text: str, name: str) -> None:
    if _NAME.fullmatch(name):
        return
    if "#" in name:
        raise UsageError(f"--image {text}: # is enroot's word for a host", f"write {text.replace('#', '/')}")
    if "@" in name and not re.search(r"@sha256:[0-9a-f]{64}$", name):
        raise UsageError(f"--image {text} has an incomplete digest", "write @sha256: and 64 digits of 0-9a-f")
    if name != name.lower() and _NAME.fullmatch(name.lower()):
        raise UsageError(f"--image {text} has capitals in its name", "write it in lower case")
    raise UsageError(f"--image {text} is not an image name", "write [HOST/]NAME[:TAG][@sha256:…], or a path with ./")


def for_files(text: str) -> str:
    """Return the reference for runtimes that make a file of an image: with a scheme, and no tag beside a digest."""
    return _PINNED.sub("", text if "://" in text else f"docker://{text}")


def for_stores(text: str, runtime: str) -> str:
    """Return the reference for runtimes with a store: without a scheme. Raises Impossible for schemes but docker."""
    scheme, sign, rest = text.partition("://")
    if sign and scheme != "docker":
        raise Impossible(f"{runtime} cannot pull {text}", "use an image of docker://, or --runtime apptainer")
    return rest if sign else text


def by_digest(text: str, digest: str) -> str:
    """Return `host/name@sha256:…` for a reference, or "" for oras and library, whose images are single files."""
    scheme, sign, rest = text.rpartition("://")
    match = _NAME.fullmatch(rest)
    if match is None or (sign and scheme != "docker"):
        return ""
    return f"{match['host'] or ''}{match['name']}@{digest}"
