"""Hosts by pdsh, which asks many of them at once. It closes the standard input of its commands.

So a command that has an input, or lasts, has an ssh of its own on each host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mnrun.model import Words
from mnrun.reach import login_shell
from mnrun.reach.channel import Answer, answer, unbegun
from mnrun.reach.transport import ASK, AT_ONCE, Transport
from mnrun.schedulers.hosts.ssh import FAILED, OPTIONS
from mnrun.system.process import ProcessChannel, tied

SPARE = 30.0  # seconds in which pdsh itself begins, and ends commands that take too long
LATE = "late"  # in the place of an exit code
COMPLAINT = re.compile(r"pdsh@\S+: (\S+): (?:ssh exited with exit code (\d+)|command timeout)")


class PdshTransport(Transport):
    """The transport by ssh, with one pdsh for a question to several hosts."""

    def __init__(self, environ: Mapping[str, str], login: Words, *reached: Any) -> None:
        """Prepare to reach hosts, as Transport does. `login` are the options of ssh for the user and port."""
        super().__init__(*reached)
        self._environ, self._login = environ, login

    def ask(
        self, argv: Words, data: bytes = b"", only: Sequence[str] | None = None, seconds: float = ASK
    ) -> dict[str, Answer]:
        nodes = self.hosts if only is None else only
        far = [node for node in nodes if node not in self._here]
        if data or len(far) < 2:
            return super().ask(argv, data, only, seconds)
        here = super().ask(argv, only=[node for node in nodes if node in self._here], seconds=seconds)
        found = {**here, **self._ask_many(far, argv, seconds)}
        return {node: found[node] for node in nodes}

    def _ask_many(self, nodes: Sequence[str], argv: Words, seconds: float) -> dict[str, Answer]:
        mark = login_shell.mark()
        line = login_shell.line(argv, mark).replace("%", "%%")  # pdsh replaces %h and its kin
        limits = ("-f", str(AT_ONCE), "-u", f"{seconds:.0f}")
        user = self._login[:2] if "-l" in self._login else ()
        environ = {
            **self._environ,
            # pdsh's own `-l%u` would overrule a User of ~/.ssh/config.
            "PDSH_SSH_ARGS": "-l%u %h" if user else "%h",
            "PDSH_SSH_ARGS_APPEND": " ".join((self._environ.get("PDSH_SSH_ARGS_APPEND", ""), *OPTIONS, *self._login)),
        }
        pdsh = ("pdsh", "-R", "ssh", *limits, *user, "-w", ",".join(nodes), line)
        channel = ProcessChannel(tied(pdsh), environ=environ)
        try:
            whole = answer(channel, (), seconds + SPARE)
        except BaseException:  # a Ctrl-C
            channel.cut()
            raise
        return answers(whole, nodes, mark)


def answers(whole: Answer, nodes: Sequence[str], mark: str) -> dict[str, Answer]:
    """Return the answers of the hosts from one pdsh's output. Each of its lines begins with the host, or complains."""
    out, err, codes = dict.fromkeys(nodes, ""), dict.fromkeys(nodes, ""), dict.fromkeys(nodes, "0")
    short = {node.partition(".")[0]: node for node in nodes}  # pdsh leaves out a domain that all hosts share
    for said, text in ((out, whole.out), (err, whole.err)):
        for line in text.splitlines():
            complaint = COMPLAINT.search(line)
            name, colon, rest = (complaint[1], ":", "") if complaint else line.partition(": ")
            node = name if name in said else short.get(name, "")
            if complaint and node:
                codes[node] = LATE if codes[node] == LATE else complaint[2] or LATE
            elif colon and node:
                said[node] += f"{rest}\n"
    late = {node: whole.late or code == LATE for node, code in codes.items()}
    ended = {node: None if late[node] or code == str(FAILED) else int(code) for node, code in codes.items()}
    return {node: _begun(Answer(ended[node], out[node], err[node], late[node]), f"{mark}\n") for node in nodes}


def _begun(answer: Answer, mark: str) -> Answer:
    """Return an answer without what the login shell has printed before the mark."""
    _, begun, out = answer.out.partition(mark)
    if begun:
        return answer._replace(out=out, err=answer.err.partition(mark)[2])
    return answer._replace(out="", err=answer.err if answer.code is None else unbegun(answer.code))
