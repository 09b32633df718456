"""`python3 -m kube.dns SERVER TOKEN`: the names of services and their pods, as CoreDNS answers for them.

It asks the API server at most once a second. A pod has a name where a headless service chose it, and it is ready.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

from .api import Api, Object

DOMAIN = "svc.cluster.local"
A, IN = 1, 1
ANSWERS, NO_SUCH_NAME = 0x8580, 0x8583  # authoritative, recursion desired and available


class Names:
    """Name → its addresses, asked for again once they are a second old."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.known: dict[str, list[str]] = {}
        self.asked = 0.0

    def of(self, name: str) -> list[str]:
        if time.monotonic() - self.asked > 1:
            self.known = table(self.api.items("/api/v1/services"), self.api.items("/api/v1/endpoints"))
            self.asked = time.monotonic()
        return self.known.get(name, [])


def table(services: list[Object], endpoints: list[Object]) -> dict[str, list[str]]:
    """Return name → addresses."""
    own = {full(service): service["spec"].get("clusterIP", "None") for service in services}
    known = {name: [address] for name, address in own.items() if address != "None"}
    for entry in endpoints:
        name = full(entry)
        for address in [each for part in entry.get("subsets") or () for each in part.get("addresses") or ()]:
            if own.get(name) == "None":
                known.setdefault(name, []).append(address["ip"])
            if address.get("hostname"):
                known[f"{address['hostname']}.{name}"] = [address["ip"]]
    return known


def full(thing: Object) -> str:
    return f"{thing['metadata']['name']}.{thing['metadata']['namespace']}.{DOMAIN}"


def answer(question: bytes, names: Names) -> bytes:
    """Return the answer to a question (RFC 1035, 4.1)."""
    place, labels = 12, []
    while question[place]:
        end = place + 1 + question[place]
        labels.append(question[place + 1 : end].decode("ascii", "replace"))
        place = end
    kind = struct.unpack(">H", question[place + 1 : place + 3])[0]
    found = names.of(".".join(labels).lower())
    records = [b"\xc0\x0c" + struct.pack(">HHIH", A, IN, 1, 4) + socket.inet_aton(each) for each in found if kind == A]
    head = struct.pack(">HHHHH", ANSWERS if found else NO_SUCH_NAME, 1, len(records), 0, 0)
    return question[:2] + head + question[12 : place + 5] + b"".join(records)


def main(server: str, token: str) -> None:
    names = Names(Api(server, token))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.bind((server, 53))
        while True:
            question, asker = wire.recvfrom(512)
            try:
                wire.sendto(answer(question, names), asker)
            except (OSError, ValueError, IndexError, struct.error) as problem:
                print(problem, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
