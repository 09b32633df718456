"""How a command gets from the master's container into a worker's.

Inside, one word reaches every node: `ssh NODE COMMAND`, first on PATH. What is behind it
is the connect's business, a module with this name:

    files(node_dir, user, workers) -> {name: text}   what every node is sent once all are ready
"""

from __future__ import annotations

from types import ModuleType

from . import ssh

CONNECTS: dict[str, ModuleType] = {"ssh": ssh}
