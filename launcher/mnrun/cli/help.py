"""`mnrun help`: the help of a verb, or a page of the documentation."""

from __future__ import annotations

import os
import sys

import click

from mnrun.cli import complete
from mnrun.cli.words import pages
from mnrun.cli.words.help import page
from mnrun.cli.words.verbs import VERBS
from mnrun.errors import UsageError
from mnrun.near import nearest

WIDTH = 100  # of a page, at most
_INDENT = 15  # of the topics


@click.command()
@click.argument("words", nargs=-1, metavar="[VERB|TOPIC]", shell_complete=complete.topics)
@click.pass_context
def help(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of mnrun, of a verb, or a page of the documentation. Without a word, list them."""
    assert context.parent is not None
    group = context.parent.command
    assert isinstance(group, click.Group)
    if not words:
        click.echo("\n".join([page(), "", *_index()]))
    elif words[0] in VERBS:
        group.main([*words, "--help"], prog_name="mnrun", standalone_mode=False)
    else:
        known = pages.topics()
        path, _, heading = _page(" ".join(words), known).partition("#")
        show(pages.section(path, heading) if heading else pages.text(path), path, known)


def _page(word: str, known: dict[str, str]) -> str:
    """Return the path of a topic's page, or `PATH#HEADING`. Raises UsageError with the nearest ones."""
    topic = word.strip("/").lower().replace(" ", "-").removeprefix("docs/").removesuffix(".md")
    if topic in known:
        return known[topic]
    if f"{topic}.md" in known.values():
        return f"{topic}.md"
    if place := pages.about(topic, known):
        return place
    within = [name for name in known if len(topic) > 2 and topic in name]
    if not within and (found := pages.with_word(word, known)):
        raise UsageError(f"there is no page {word}", f"these have the word: mnrun help {', '.join(found)}")
    near = list(dict.fromkeys(filter(None, [*within, nearest(topic, [*known, *VERBS])])))[:3]
    remedy = f"did you mean {' or '.join(near)}?" if near else "mnrun help lists them"
    raise UsageError(f"there is no verb or page {word}", remedy)


def _index() -> list[str]:
    import textwrap

    lines = ["Pages, for mnrun help TOPIC:"]
    for title, topics in pages.listed(pages.topics()):
        begin = f"  {title}".ljust(_INDENT)
        words = textwrap.TextWrapper(
            WIDTH, initial_indent=begin, subsequent_indent=" " * _INDENT, break_on_hyphens=False
        )
        lines += words.wrap("  ".join(topics))
    return lines


def show(text: str, path: str, known: dict[str, str]) -> None:
    """Show the text of a page: rendered and in a pager on a terminal, else as it is."""
    if not sys.stdout.isatty():
        click.echo(text.rstrip("\n"))
        return
    import shutil

    from mnrun.system.screen import rendered

    os.environ.setdefault("LESS", "-FRX")  # it ends by itself for a page that fits (less(1)), as git's pager does
    width = min(WIDTH, shutil.get_terminal_size().columns)
    click.echo_via_pager(rendered(pages.plain(text, path, known), width))
