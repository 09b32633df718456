"""Reach nodes that call by themselves, as the pods of a job do. All of them know one secret."""

from __future__ import annotations

import time

from mnrun import nodeset
from mnrun.errors import NodeError
from mnrun.model import Words
from mnrun.reach.calling import Node, left, no_terminal
from mnrun.reach.channel import Channel
from mnrun.reach.door import SILENT, Door
from mnrun.reach.transport import FILES_EACH, Transport, allow_files


class Gathered(Transport):
    """A transport whose nodes have wrappers/entry/call.sh run, with their names as tickets."""

    def __init__(self, hosts: Words, secret: str, port: int) -> None:
        """Wait for calls of `hosts` at this port. Raises NodeError if it is taken."""
        super().__init__(hosts, no_terminal)
        allow_files(len(hosts) + SILENT // FILES_EACH)
        self._door = Door(f"{port}-{port}")
        self._nodes = {host: Node(self._door, host, secret) for host in hosts}
        for node in self._nodes.values():
            self._door.expect(node.caller)

    def gather(self, seconds: float, remedy: str) -> None:
        """Wait until all nodes have called. Raises NodeError."""
        until = time.monotonic() + seconds
        late = [name for name, node in self._nodes.items() if not node.called.wait(max(0.0, until - time.monotonic()))]
        if late:
            told = self.leave()
            problem = f"{nodeset.folded(dict.fromkeys(late, f'it did not call within {seconds:.0f} s'))}"
            raise NodeError(f"{problem}{told and '; '}{told}", remedy)

    def connect(self, node: str, argv: Words) -> Channel:
        return self._nodes[node].run(argv)

    def leave(self) -> str:
        return left(self._door, self._nodes.values())
