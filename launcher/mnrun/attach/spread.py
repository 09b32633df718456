"""Run one command in the containers of several nodes or ranks of a job, and show whose each line is."""

from __future__ import annotations

import queue
import signal
from collections.abc import Mapping

from mnrun.model import Command
from mnrun.schedulers.vocabulary import ClientLines
from mnrun.system import process
from mnrun.system.events import Ended, Event, Line, Noise, Pipe

AT_ONCE = 32  # commands at the same time


def run(commands: Mapping[str, Command], lines: ClientLines, environ: Mapping[str, str]) -> int:
    """Run the commands by their names, and return the code of the first that failed, or 0. They have no input."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    waiting, running = list(commands.items())[::-1], dict[str, process.Child]()
    unmarked: dict[tuple[str, type], str] = {}
    for kind in (Line, Noise):
        unmarked.update({(name, kind): command.mark for name, command in commands.items()})
    code = 0
    try:
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                name, command = waiting.pop()
                with process.starting(command.argv[0], "go to a machine that has it"):
                    running[name] = process.start(name, command, dict(environ), events, piped=True)
                running[name].close()
            event = events.get()
            if isinstance(event, Pipe):  # lines of a program that begin like those of nodes to each other
                _show(Line(event.name, "\n".join(event.lines)), unmarked, lines)
            elif isinstance(event, (Line, Noise)):
                _show(event, unmarked, lines)
            elif isinstance(event, Ended):
                running.pop(event.name)
                code = code or event.code
    finally:
        for child in running.values():
            child.end(signal.SIGTERM)
    return 128 - code if code < 0 else code


def _show(event: Line | Noise, unmarked: dict[tuple[str, type], str], lines: ClientLines) -> None:
    """Pass a line on. Lines before a command's mark are of a login shell, and others of the scheduler's client."""
    key = event.name, type(event)
    if unmarked[key]:
        unmarked[key] = "" if event.text == unmarked[key] else unmarked[key]
    elif (shown := event.text if isinstance(event, Line) else lines.own.words(event.text)) is not None:
        text = "".join(f"{event.name}| {line}\n" for line in shown.split("\n"))
        process.write(1 if isinstance(event, Line) else 2, text.encode("utf-8", "surrogateescape"))
