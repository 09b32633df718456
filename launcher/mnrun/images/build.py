"""Build and convert images: run a builder until its end, with its steps on the screen, and keep only a whole image."""

from __future__ import annotations

import errno
import fcntl
import io
import math
import os
import queue
import shutil
import signal
import stat
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from mnrun.errors import Impossible, RuntimeFailed, UsageError
from mnrun.files import BASH, wrappers
from mnrun.images import FILES, TAGGERS, builders, definitions, recipes
from mnrun.images.cache import delete
from mnrun.model import Command, Words
from mnrun.system import clock, process
from mnrun.system.events import Ended, Event, Line, Noise, Signal
from mnrun.system.paths import exposed
from mnrun.system.process import Child, Stopped
from mnrun.system.screen import Screen
from mnrun.system.signals import Signals, cleaning_up

Texts = Mapping[str, str]  # name -> value
LINES = 200  # of the builder's output, kept for the error message
FAREWELL = 10.0  # seconds that a builder has to clean up after a signal


def refuse_root(builder: str, uid: int) -> None:
    """Refuse to build a file as root: a step of the recipe would have all rights on this machine."""
    if uid == 0 and builder in FILES:
        problem = f"{builder} build is not run as root, since the recipe's steps would be root here"
        raise Impossible(problem, "build as an ordinary user: --fakeroot needs no rights")


def text_of(source: str, given: Texts, form: str) -> tuple[str, Path, Texts]:
    """Return the text to build in this format, the directory of the files that it copies, and the builder's arguments.
    Raises UsageError."""
    recipe = recipes.find(source)
    path = Path(source).expanduser().absolute()
    if recipe is None and path.suffix == ".py":
        recipe = recipes.read(path)
    if recipe:
        return recipes.render(recipe, given, form), recipe.path.parent, {}
    if not path.is_file():
        known = ", ".join(recipe.name for recipe in recipes.recipes())
        raise UsageError(f"{source} is neither a file or directory here nor a recipe", f"the recipes are {known}")
    if definitions.form_of(path) == form:
        return path.read_text(encoding="utf-8"), path.parent, given
    if given:
        raise UsageError(f"--arg has no effect on {source}, which is converted first", "set its arguments in the file")
    return definitions.converted(path, form), path.parent, {}


def chosen(source: str, form: str) -> str:
    """Return the source, or of a directory the file in it that is built. Raises UsageError."""
    folder = Path(source).expanduser()
    if not folder.is_dir() or recipes.find(source):
        return source
    return str(definitions.within(folder, form))


def to_file(source: str, target: Path, given: Texts, wanted: str, force: bool, environ: Texts, shown: Screen) -> None:
    """Build an image file. Raises LaunchError, or Stopped at a signal."""
    text, context, arguments = text_of(source, given, "singularity")
    builder = builders.choose(FILES, wanted, process.has)
    refuse_root(builder, os.getuid())
    with workshop(target, force) as place:
        definition, made = place / "image.def", place / "image.sif"
        definition.write_text(text, encoding="utf-8")
        shown.say(f"building {target} from {source}, by {builder}")
        words = builders.to_file(builder, made, definition, arguments)
        run(str(target), words, context, environ, shown, near=local(source))
        keep(made, target)


def local(source: str) -> str:
    """Return how a build by this source does without a registry."""
    if (recipe := recipes.find(source)) and "base" in recipe.arguments:
        return "name a local base with --arg base=FILE"
    return "write a definition that begins with Bootstrap: localimage and From: FILE.sif"


def to_store(source: str, tag: str, given: Texts, wanted: str, root: str, environ: Texts, shown: Screen) -> None:
    """Build an image of this name in a store. `root` is the place of Podman's, or "". Raises as to_file does."""
    text, context, arguments = text_of(source, given, "docker")
    builder = builders.choose(TAGGERS, wanted, process.has)
    shown.say(f"building {tag} from {source}, by {builder}")
    words = builders.to_store(builder, tag, context, arguments, root)
    run(tag, words, context, environ, shown, text)


def file_of(
    source: str, target: Path, programs: tuple[str, str], force: bool, root: str, environ: Texts, shown: Screen
) -> None:
    """Make a file of an image in a store. Raises as to_file does."""
    with workshop(target, force) as place:
        made = place / "image.sif"
        words = builders.conversion(*programs, root, place, "file", source, str(made))
        run(str(target), words, place, environ, shown)
        keep(made, target)


def store_of(source: Path, tag: str, programs: tuple[str, str], root: str, environ: Texts, shown: Screen) -> None:
    """Make an image in a store of a file. Raises as to_file does."""
    with sheltered("mnrun-convert.") as place:
        words = builders.conversion(*programs, root, place, "store", str(source), tag)
        run(tag, words, place, environ, shown)


@contextmanager
def workshop(target: Path, force: bool) -> Iterator[Path]:
    """Yield an empty directory for an image that is to be made. It is removed at the end.

    It is beside the image. But where another user could give its name to another directory, it is a temporary one, and
    the image comes to its place as a whole. Raises UsageError if the image exists and is not to be replaced, or if
    another process makes it.
    """
    if target.is_dir() or (target.exists() and not force):
        raise UsageError(f"{target} exists", "name another, or replace a file with --force")
    place = target.with_name(f".{target.name}.building")
    with ExitStack() as stack:
        stack.enter_context(cleaning_up())
        try:
            if exposed(place):
                place = stack.enter_context(sheltered("mnrun-build."))
            else:
                _make(place)
            lock = stack.enter_context(open(place / "lock", "w", encoding="utf-8"))
            _lock(lock)
            os.stat(place / "lock")  # a process that has just ended may have removed it
        except BlockingIOError:
            raise UsageError(f"another process builds {target}", "wait for it, or name another file") from None
        except OSError as error:
            raise UsageError(f"cannot write beside {target}: {error.strerror}", "name another with -o") from None
        for rest in place.iterdir():  # of a build that was killed
            if rest.name not in ("lock", "claim"):
                delete(rest)
        try:
            yield place
        finally:
            delete(place)


@contextmanager
def sheltered(prefix: str) -> Iterator[Path]:
    """Yield a temporary directory that only this user can rename. It is removed at the end. Raises UsageError."""
    try:
        place = Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as error:
        raise UsageError(f"cannot make a temporary directory: {error.strerror}", "name another with TMPDIR") from None
    try:
        if found := exposed(place):
            problem = f"other users may write to {found}, which is to contain temporary files"
            raise UsageError(problem, "name another directory with TMPDIR")
        yield place
    finally:
        delete(place)


def _make(place: Path) -> None:
    """Make a workshop, or take that of a killed build. Raises UsageError if others made it, or may write to it."""
    try:
        place.mkdir(mode=0o700)
    except FileExistsError:
        if not _is_private(place):
            problem = f"{place} is not your directory with mode 0700"
            raise UsageError(problem, "remove it, or name another file with -o") from None
    else:
        if not _is_private(place):
            place.rmdir()
            problem = f"{place.parent} cannot hold a directory that is yours alone"
            raise UsageError(problem, "name a file on another file system with -o")


def _is_private(place: Path) -> bool:
    state = place.lstat()
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o077


def _lock(file: TextIO) -> None:
    """Lock a file for this process alone. Raises BlockingIOError if another process has locked it.

    Lustre without its option `flock` has no locks. There a second file, which only one process can make, takes the
    place of the lock. After a killed build, a user must remove it.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
            raise
        claim = Path(file.name).with_name("claim")
        try:
            claim.touch(exist_ok=False)
        except FileExistsError:
            problem = f"another process builds in {claim.parent}, or was killed there"
            raise UsageError(problem, "wait for it, or remove that directory if no process builds") from None


def run(
    title: str, words: Words, directory: Path, environ: Texts, screen: Screen, text: str = "", near: str = ""
) -> None:
    """Run a builder in a directory, with `text` as its input. `near` tells how it does without a registry. Raises
    RuntimeFailed, or Stopped at a signal."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    screen.command(builders.typed(words))
    words = process.tied((*BASH, str(wrappers()["build_group.sh"]), str(directory), *words))
    begin, last = time.monotonic(), deque[str](maxlen=LINES)
    with Signals(events), process.starting(words[0]):
        child = process.start("build", Command(words), dict(environ), events, piped=True)
        child.send(text.encode())
        child.close()
        try:
            code = _listen(child, events, last, screen)
        finally:
            _end(child)
            screen.done()
    if code:
        reason, remedy = builders.why(last, near)
        raise RuntimeFailed(f"cannot make {title}: {reason}", remedy)
    screen.say(f"built {title}, after {time.monotonic() - begin:.0f} s")


def _listen(child: Child, events: queue.SimpleQueue[Event], last: deque[str], screen: Screen) -> int:
    """Show the steps, and return the exit code. Raises Stopped at a signal."""
    while True:
        event = clock.take(events, math.inf)
        if isinstance(event, Signal):
            raise Stopped(event.signum)
        if isinstance(event, Ended):
            return event.code
        if isinstance(event, (Line, Noise)):
            last.append(event.text)
            if screen.verbose:
                screen.relay(event.text)
            elif step := builders.step(event.text):
                screen.phase(f"building: {step[:100]}")


def _end(child: Child) -> None:
    """End a builder that still runs. It gets the time to remove what it has made."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        child.end(signum)
        if child.wait(FAREWELL):
            return


def keep(made: Path, target: Path) -> None:
    """Give a whole image its name. Raises UsageError if that is impossible."""
    try:
        try:
            os.replace(made, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _carry(made, target)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}", "name another with -o") from None


def _carry(made: Path, target: Path) -> None:
    """Give an image of another file system its name, once it is there as a whole. Raises OSError."""
    part = target.with_name(f".{target.name}.{os.getpid()}")
    beside = io.BufferedWriter(io.FileIO(part, "x"))  # a link of that name is an error (open(2), O_EXCL)
    with io.FileIO(made) as source, beside as copy:
        try:
            shutil.copyfileobj(source, copy, 1 << 20)
            copy.flush()
            os.fchmod(copy.fileno(), stat.S_IMODE(os.fstat(source.fileno()).st_mode))
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
