"""The commands of a scheduler, as a test plays them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping


class Commands:
    """Commands that answer by their first words. What begins with ! is a refusal. `environ` is what they must get."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self.environ = environ
        self.answers: dict[str, str] = {}
        self.asked: list[str] = []

    def __call__(self, argv: tuple[str, ...], **how: object) -> subprocess.CompletedProcess[str]:
        assert self.environ is None or how["env"] == self.environ
        line = " ".join(argv)
        self.asked.append(line)
        text = next(text for words, text in self.answers.items() if line.startswith(words))
        refused = text.startswith("!")
        return subprocess.CompletedProcess(argv, int(refused), "" if refused else text, text[1:] if refused else "")
