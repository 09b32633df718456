"""List the services that `mnrun serve` knows. A row has the keys of a job file. Every service begins with PLAIN.

A site's profile, the user's config.toml and a job file add rows, or replace these: [services.NAME].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PLAIN: Mapping[str, Any] = {"launcher": "env", "ntasks_per_node": 1, "ready": "/", "page": "/"}

# An engine on several nodes: the first one answers HTTP, and the others are its workers.
_NODES = ("--nnodes", "{nnodes}", "--node-rank", "{node_rank}")
_BY = "token"  # the variable of the token. bandit takes a constant behind that key for a password (B105)
FIRST = "{word}"
_LOOPBACK = ("--host", "127.0.0.1", "--port", "{port}")

ROWS: Mapping[str, Mapping[str, Any]] = {
    "jupyter": {
        "command": ["jupyter", "lab", "--no-browser", "--ip=127.0.0.1", "--port={port}", "--ServerApp.port_retries=0"],
        _BY: "JUPYTER_TOKEN",
        "ready": "/api/status",
        "page": "/lab?token={token}",
        "busy": '/api/kernels "busy"',
    },
    "tensorboard": {"command": ["tensorboard", *_LOOPBACK]},
    # It has no option for its address, and listens on all of them.
    "digits": {"command": ["python", "-m", "digits", "-p", "{port}"]},
    "vllm": {
        "command": [
            # vLLM looks for a way out of the site's network to learn its own address.
            *("env", "VLLM_HOST_IP={address}", "vllm", "serve", "{word}", *_LOOPBACK, *_NODES),
            *("--master-addr", "{head}", "--master-port", "{master_port}"),
            "{others:--headless}",
        ],
        _BY: "VLLM_API_KEY",
        "ready": "/health",
        "page": "/v1",
    },
    # Its --api-key is a word, which everybody on the node can read.
    "sglang": {
        "command": [
            *("python3", "-m", "sglang.launch_server", *_LOOPBACK, *_NODES),
            *("--dist-init-addr", "{head}:{master_port}"),
        ],
        "ready": "/health",
        "page": "/v1",
    },
}


def joined(row: tuple[str, ...], words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a service's own words, and the user's behind them. {word} is the first of these, unless it is an option.

    vLLM 0.32 takes its model as the word behind `serve` alone, and of an option that comes twice the last.
    """
    first = words[:1] if FIRST in row and not "".join(words[:1]).startswith("-") else ()
    own = (part for word in row for part in (first if word == FIRST else (word,)))
    return (*own, *words[len(first) :])
