"""A service: `server.py PORT SECONDS`. It answers 503 for so long, and 403 without the token of SERVER_TOKEN."""

import http.server
import os
import sys
import time

PORT, SECONDS, BEGUN = int(sys.argv[1]), float(sys.argv[2]), time.time()
TOKEN = os.environ.get("SERVER_TOKEN", "")


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        right = self.headers.get("Authorization") == f"Bearer {TOKEN}" or self.path.endswith(f"token={TOKEN}")
        code = 403 if TOKEN and not right else 503 if time.time() - BEGUN < SECONDS else 200
        self.send_response(code)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        """Log nothing: a request may have the token in it."""


http.server.HTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
