"""Play sglang.launch_server: it takes the options of its row, its nodes meet at one address, and the first one answers.

As in SGLang, each node connects to --dist-init-addr, and --host and --port are those of the HTTP server.
"""

from __future__ import annotations

import argparse
import http.server
import socket
import time

parser = argparse.ArgumentParser(allow_abbrev=False)
for option in ("--host", "--model-path", "--dist-init-addr"):
    parser.add_argument(option, required=True)
for option in ("--port", "--nnodes", "--node-rank", "--tp"):
    parser.add_argument(option, required=True, type=int)
given = parser.parse_args()
head, port = given.dist_init_addr.rsplit(":", 1)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path in ("/health", "/v1/models") else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


if given.node_rank == 0:
    with socket.create_server((head, int(port))) as meeting:
        nodes = [meeting.accept() for _ in range(given.nnodes - 1)]
        print(f"{given.model_path} on {given.nnodes} nodes with {given.tp} parts", flush=True)
        http.server.HTTPServer((given.host, given.port), Handler).serve_forever()
else:
    while True:
        try:
            with socket.create_connection((head, int(port))) as peer:
                peer.recv(1)  # until the first node has gone
                break
        except OSError:
            time.sleep(0.2)
