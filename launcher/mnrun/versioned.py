"""Write JSON for programs, on standard output or in a file: an object with its version.

The schemas in docs/ and the tables of docs/reference/json.md come from the fields of the records.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

VERSION = 1  # changes if a key goes, or gets another meaning


def text(record: Any, indent: int | None = None) -> str:
    """Return a dataclass as JSON, with its version in front: on one line, or indented."""
    return json.dumps({"version": VERSION, **asdict(record)}, indent=indent) + "\n"
