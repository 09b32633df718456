"""List the files that a job needs, and say what is wrong with them on this machine. Pure: the caller looks at files."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator, Mapping

from mnrun.jobspec import JobSpec
from mnrun.model import Fault
from mnrun.record import Record
from mnrun.runtimes import RUNTIMES

# kind of a file, its path -> the fault of the file here, or ""
Look = Callable[[str, str], str]


class Need(Record):
    """A file that every node must have. `kind` is image, program or path, or written: a directory of this machine."""

    subject: str
    path: str
    kind: str = "path"


def files(spec: JobSpec) -> Iterator[Need]:
    """Yield the files of a job that this machine may see, too."""
    program, container = spec.program, spec.container
    if container.image and not RUNTIMES[container.runtime].CONTAINED:  # the nodes are containers of it
        yield Need("job directory", spec.job_dir, "written")
        return
    if container.image_file:
        yield Need("image", container.image_file, "image")
    for mount in container.binds:
        yield Need("bind source", mount.source)
    yield Need("working directory", on_node(spec, program.chdir))
    if program.script:
        yield Need("script", program.script, "program")
    elif program.command and (path := _host_path(spec, program.command[0])):
        # torchrun reads its program, and does not execute it
        yield Need("program", path, "path" if spec.start.launcher == "torchrun" else "program")
    yield Need("job directory", spec.job_dir, "written")


def faults(spec: JobSpec, look: Look, is_node: bool = False) -> list[Fault]:
    """Return a fault for each file that is missing or wrong here. Unless this machine `is_node`, nodes may have other
    files."""
    found = []
    for need in files(spec):
        if fault := look(need.kind, need.path):
            sure = is_node or need.kind == "written"
            rest = "" if sure else "; the job will fail unless its nodes have it"
            text = f"the {need.subject} {need.path} {fault}{rest}"
            found.append(Fault(need.subject.replace(" ", "-"), text, sure))
    return found


def on_node(spec: JobSpec, path: str) -> str:
    """Return the node's path for a path of the container. A mount of the user's may make them differ."""
    return _behind(_binds(spec), path) or path


def behind_links(spec: JobSpec, path: str) -> str:
    """Return the place outside of the mounted directories to which links in `path` lead, or `path` itself."""
    return dict(spec.container.links).get(path, path)


def shown(spec: JobSpec, path: str) -> str:
    """Return the node's path of what the container shows at `path`, or "" if the image has it."""
    if not RUNTIMES[spec.container.runtime].CONTAINED:
        return path
    chdir = behind_links(spec, spec.program.chdir)
    shared = {folder: folder for folder in (spec.container.home, chdir) if folder not in ("", "/")}
    return _behind({**shared, **_binds(spec)}, path)


def _binds(spec: JobSpec) -> dict[str, str]:
    contained = RUNTIMES[spec.container.runtime].CONTAINED
    return {mount.target or mount.source: mount.source for mount in spec.container.binds if contained}


def _behind(places: Mapping[str, str], path: str) -> str:
    """Return the node's path of `path`, or "" without a place for it. `places`: directories of the container -> the
    node's."""
    covering = [target for target in places if (path + "/").startswith(target.rstrip("/") + "/")]
    if not covering:
        return ""
    target = max(covering, key=len)
    return os.path.normpath(places[target] + "/" + path[len(target.rstrip("/")) :])


def _host_path(spec: JobSpec, word: str) -> str:
    """Return the program's path on the nodes, or "" if the image may have the program, or PATH finds it."""
    return shown(spec, os.path.normpath(os.path.join(spec.program.chdir, word))) if "/" in word else ""
