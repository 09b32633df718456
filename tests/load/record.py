"""Keep the figures of stories in docs/reliability/load.json, and write the table of docs/reliability.md from them."""

from __future__ import annotations

import re
import time

from figures import Book, Results

from .engine import Played
from .table import STORIES, USERS, Story

HEAD = ("story", "jobs", "seconds", "messages of users", "lists of jobs", "all messages per second", "growth of memory")


def keep(story: Story, played: Played) -> None:
    """Put the figures of a story in the place of its last ones, and write the page anew."""
    asked = played.asked
    result = {
        "date": time.strftime("%Y-%m-%d"),
        "jobs": story.jobs(),
        "seconds": round(played.seconds),
        "answers": sum(int(said) for end in played.ends for said in re.findall(r"had (\d+) answers", end.result.out)),
        "users": asked.of(USERS),
        "most": story.messages(played.seconds),
        "lists": asked.lists,
        "most lists": story.lists(played.seconds),
        "all": asked.all,
        "types": dict(sorted(asked.types.items())),
        "by user": dict(sorted(asked.users.items())),
        "memory": max(played.memory.values()),
        "wrong": played.wrong(story)[:10],
    }
    Book("load", section).keep(story.name, result, [story.name for story in STORIES])


def section(results: Results) -> str:
    """Return a table with a line for each story that was played, and what was wrong."""
    lines = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    for name, found in results.items():
        answers = f", {found['answers']} answers of `mnrun status`" if found["answers"] else ""
        cells = (
            f"{name}, {found['date']}",
            f"{found['jobs']}{answers}",
            f"{found['seconds']}",
            f"{found['users']}, at most {found['most']}",
            f"{found['lists']}, at most {found['most lists']}",
            f"{found['all'] / max(1, found['seconds']):.1f}",
            f"{found['memory']} KiB on a node",
        )
        lines.append(f"| {' | '.join(cells)} |")
    wrong = [f"{name}: {line}" for name, found in results.items() for line in found["wrong"]]
    return "\n".join(lines) + "".join(f"\n\nFailed: {line}." for line in wrong)
