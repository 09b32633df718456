"""Complete the values of words: topics, jobs, nodes and other names, for click's completions of bash, zsh and fish.

A value that is not known soon is left out, and no error is ever shown: the shell is in the middle of a line.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from click.shell_completion import BashComplete, CompletionItem, FishComplete, add_completion_class, split_arg_string

if TYPE_CHECKING:
    from types import FrameType

    import click

    from mnrun.jobs.state import JobView
    from mnrun.schedulers.queue import PartitionNode

Items = list[CompletionItem]
Values = Callable[["click.Context", "click.Parameter", str], Items]
T = TypeVar("T")

ASKED = "_MNRUN_COMPLETE"  # the variable by which a shell asks
SECONDS = 2.0  # for an answer of the scheduler, or of a slow file system


class _Late(BaseException):
    """The time for an answer is over. Nothing in between takes it for an error of its own."""


def prepare() -> None:
    """Let this process answer a shell: without a word on standard error, of programs that it starts, too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


@add_completion_class
class Bash(BashComplete):
    """Bash, which cuts `docker://app:1` and `--image=app` into several words (bash(1), COMP_WORDBREAKS)."""

    _begin = ""  # of the word, which stands before the part that bash replaces

    def get_completion_args(self) -> tuple[list[str], str]:
        words, place = split_arg_string(os.environ["COMP_WORDS"]), int(os.environ["COMP_CWORD"])
        parts = [*words, ""][: place + 1]  # the last one is the part that is to be completed
        whole: list[str] = []
        glued = False
        for part in parts:
            of_option = part == "=" and whole and whole[-1].startswith("-")
            mark = not part.strip(":=") and part != ""
            if glued or (mark and whole and not of_option):
                whole[-1] += part
            elif not of_option:
                whole.append(part)
            glued = mark and not of_option
        if parts[-1] == "=" and whole[-1].startswith("-"):
            whole.append("")
        self._begin = whole[-1].removesuffix(parts[-1]) if parts[-1].strip(":=") else whole[-1]
        return whole[1:-1], whole[-1]

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type},{item.value.removeprefix(self._begin)}"


@add_completion_class
class Fish(FishComplete):
    """fish, whose lines of click 8.5 cut a word and what is told of it at each comma."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split -m 1 ","')


def topics(context: click.Context, parameter: click.Parameter, begin: str) -> Items:
    """Return the verbs and the pages, for `mnrun help`."""
    from mnrun.cli.words import pages
    from mnrun.cli.words.verbs import VERBS

    found = [(name, verb.summary) for name, verb in VERBS.items()]
    found += [(topic, pages.title(path)) for topic, path in pages.topics().items() if topic.startswith(begin)]
    return _items(found, begin)


def explained(context: click.Context, parameter: click.Parameter, begin: str) -> Items:
    """Return the exit codes and the reasons, for `mnrun explain`."""
    from mnrun.cli.explain import known

    return _items(known().items(), begin)


def jobs(context: click.Context, parameter: click.Parameter, begin: str) -> Items:
    """Return the jobs that `mnrun status` shows."""
    return _ids(_jobs(context), begin)


def unfinished(context: click.Context, parameter: click.Parameter, begin: str) -> Items:
    """Return the jobs that wait or run."""
    return _ids((view for view in _jobs(context) if view.active), begin)


def running(context: click.Context, parameter: click.Parameter, begin: str) -> Items:
    """Return the jobs that a verb can enter."""
    return _ids(_running(context), begin)


def entered(context: click.Context, parameter: click.Parameter, begin: str) -> Items:
    """Return the jobs that a verb can enter, as the first word. The others are a command."""
    return [] if context.params.get(str(parameter.name)) else running(context, parameter, begin)


def copied(context: click.Context, parameter: click.Parameter, begin: str) -> Items:
    """Return the places in running jobs, or else files."""
    found = [] if "/" in begin else _items(((f"{view.id}:", view.name) for view in _running(context)), begin)
    return found or _files(begin)


def job_nodes(context: click.Context, parameter: click.Parameter, begin: str) -> Items:
    """Return the nodes of the running jobs in this line, or of all."""
    from mnrun import nodeset

    words = {word for value in context.params.values() for word in (value if isinstance(value, tuple) else (value,))}
    views = _running(context)
    named = [view for view in views if view.id in words] or views
    return _items(((node, view.id) for view in named for node in nodeset.expand(view.nodelist)), begin)


def nodes(context: click.Context, parameter: click.Parameter, begin: str) -> Items:
    """Return the nodes of the scheduler, for a list with commas."""
    before, comma, _ = begin.rpartition(",")
    found = ((node.node, f"{node.partition} {node.state.value.lower()}") for node in _nodes())
    return _items(((f"{before}{comma}{name}", about) for name, about in found if name not in before.split(",")), begin)


def partitions(context: click.Context, parameter: click.Parameter, begin: str) -> Items:
    """Return the partitions or queues, with what is free there."""
    from mnrun.jobs import state

    return _items(((found.name, found.words) for found in state.partitions(_nodes())), begin)


def names(context: click.Context, parameter: click.Parameter, begin: str) -> Items:
    """Return the accounts, the qualities of service or the reservations of this user."""
    from mnrun.attach import user

    return _items(((name, "") for name in _soon(lambda: user.queue().names(str(parameter.name))) or ()), begin)


def profiles(context: click.Context, parameter: click.Parameter, begin: str) -> Items:
    """Return the profiles of the site and of the user."""
    from mnrun.config import load

    found = _soon(lambda: load.find(os.environ, os.path.expanduser("~")).profiles) or ()
    return _items(((profile.name, profile.path) for profile in found), begin)


def images(context: click.Context, parameter: click.Parameter, begin: str) -> Items:
    """Return the images of the cache and the image files of this directory, or else any file."""
    from mnrun.images.reference import is_file_name

    files = [name for name in _soon(lambda: sorted(os.listdir())) or () if is_file_name(name)]
    return [*cached(context, parameter, begin), *_items(((name, "") for name in files), begin)] or _files(begin)


def cached(context: click.Context, parameter: click.Parameter, begin: str) -> Items:
    """Return the images of the cache by their names, which people write without docker://, too."""
    from mnrun import formats
    from mnrun.cli.clean import cache_of
    from mnrun.images import cache

    given = context.params.get("image_cache")
    found = _soon(lambda: cache.images(cache_of(given)) if cache.owned(cache_of(given)) else []) or ()
    named = [(name, formats.size(image.size)) for image in found for name in image.names]
    short = [(name.partition("://")[2], about) for name, about in named if begin and name.startswith("docker://")]
    return _items([*named, *short], begin)


def sources(context: click.Context, parameter: click.Parameter, begin: str) -> Items:
    """Return the recipes that ship with mnrun, or else files."""
    from mnrun.images import recipes

    return _items(((recipe.name, recipe.purpose) for recipe in recipes.recipes()), begin) or _files(begin)


# An option of the table -> its values.
OF_OPTIONS: Mapping[str, Values] = {
    "partition": partitions,
    "nodelist": nodes,
    "exclude": nodes,
    "profile": profiles,
    "image": images,
    **dict.fromkeys(("account", "qos", "reservation"), names),
}


def _ids(views: Iterable[JobView], begin: str) -> Items:
    """Return jobs by their ids, and by their names once a letter of one was typed. The newest is the first."""
    newest = sorted(views, key=lambda view: view.submitted or view.began, reverse=True)
    # The tasks of an array that wait have one row, `12_[3-9]`, which is no id.
    by_id = _items(((view.id.partition("_[")[0], f"{view.name} {view.words}") for view in newest), begin)
    return by_id or (_items(((view.name, f"{view.id} {view.words}") for view in newest), begin) if begin else [])


def _running(context: click.Context) -> list[JobView]:
    from mnrun.schedulers.vocabulary import RUNNING

    return [view for view in _jobs(context) if view.active and view.state in RUNNING]


def _jobs(context: click.Context) -> Sequence[JobView]:
    """Return the jobs of the last days: by the records alone where the scheduler is silent. Its accounting is too slow
    for a shell, and knows no job that goes on."""
    from mnrun.attach import user
    from mnrun.jobs import archive, asking, launches, state

    now = time.time()
    bases = _soon(lambda: user.bases(context.params.get("job_dir"))) or ()
    changed = archive.changed(bases)  # before the records are read
    records = _soon(lambda: archive.read(bases, (), now - state.SHOWN)) or {}
    lives = _soon(lambda: list(launches.live(bases))) or ()
    told = _soon(lambda: asking.views((), records, user.queue, changed=changed, accounting=False)[0])
    views = state.gather((), (), (), records, now)[0] if told is None else told
    return [*views, *asking.live(lives, (), views)]


def _nodes() -> Sequence[PartitionNode]:
    from mnrun.attach import user

    return _soon(lambda: user.queue().nodes()) or ()


def _soon(ask: Callable[[], T]) -> T | None:
    """Return an answer that comes soon, or else None. A command that was asked meanwhile is killed."""

    def late(number: int, frame: FrameType | None) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        return ask()
    except (Exception, _Late):
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _files(begin: str) -> Items:
    return [CompletionItem(begin, type="file")]


def _items(found: Iterable[tuple[str, str]], begin: str) -> Items:
    """Return the words that begin so, each once. One with a blank would be two words on the line."""
    told: dict[str, str] = {}
    for word, about in found:
        if word.startswith(begin) and word.split() == [word]:
            told.setdefault(word, about)
    return [CompletionItem(word, help=about or None) for word, about in told.items()]
