"""A registry that refuses further requests, as a public one does: `limited.py PORT CERTIFICATE KEY`."""

from __future__ import annotations

import http.server
import json
import ssl
import sys

TEXT = "You have reached your pull rate limit."


class Limited(http.server.BaseHTTPRequestHandler):
    """Answers `/v2/`, by which a client finds a registry, and refuses the rest with 429."""

    def do_GET(self) -> None:
        open_ = self.path == "/v2/"
        body = {} if open_ else {"errors": [{"code": "TOOMANYREQUESTS", "message": TEXT}]}
        text = json.dumps(body).encode()
        self.send_response(200 if open_ else 429)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_HEAD = do_GET


def main(port: str, certificate: str, key: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with http.server.ThreadingHTTPServer(("", int(port)), Limited) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        print("listening", flush=True)
        server.serve_forever()


main(*sys.argv[1:])
