"""The API server, as the rehearsal's own daemons ask it."""

from __future__ import annotations

import json
import ssl
import urllib.request
from typing import Any

Object = dict[str, Any]


class Api:
    """Its answers to one user. Raises OSError, and of that urllib.error.HTTPError where it refuses."""

    def __init__(self, server: str, token: str) -> None:
        self.server, self.token = server, token
        self.trust = ssl._create_unverified_context()

    def ask(self, method: str, path: str, body: Object | None = None) -> Object:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(
            f"https://{self.server}{path}",
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": kind},
        )
        with urllib.request.urlopen(request, context=self.trust, timeout=10) as answer:
            return dict(json.load(answer))

    def items(self, path: str) -> list[Object]:
        return list(self.ask("GET", path)["items"])
