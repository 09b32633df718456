"""Strangers at the port where nodes call mnrun. Tells how many connections they made, and how many answers they got.

usage: crowd.py HOST

They find the port as a user of the node can: in the list of processes, or by trying all of the range. Then 1,000 of
them say nothing, and others speak first, say a byte at a time, or greet without the secret, until the port is closed.
"""

import contextlib
import os
import resource
import socket
import sys
import time
from typing import Optional

host, ticket = sys.argv[1], "0" * 16
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connected(port: int) -> socket.socket:
    guest = socket.create_connection((host, port), 5)
    guest.settimeout(0.05)
    return guest


def told() -> Optional[tuple[str, int]]:
    """Return the ticket and the port that some process has in its words, or nothing."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{entry}/cmdline", "rb") as file:
            words = file.read().decode("utf-8", "replace").split("\0")
            for number, word in enumerate(words[:-3]):
                if "/.call." in word and int(entry) != os.getpid():
                    return words[number + 1], int(words[number + 2])
    return None


def tried() -> Optional[tuple[str, int]]:
    for port in range(20000, 30000):
        with contextlib.suppress(OSError):
            connected(port).close()
            return "0" * 16, port
    return None


while not (found := told() or ("scan" in sys.argv and tried())):
    time.sleep(0.02)
ticket, port = found
print("found", flush=True)
idle, made, answers = [], 0, 0
with contextlib.suppress(OSError):
    for _ in range(1000):
        idle.append(connected(port))
lines = (b"GET / HTTP/1.0\r\n\r\n", b"\0" * 500, f"{ticket} 1 {'0' * 32}\n".encode(), f"{ticket} {'0' * 32}\n".encode())
with contextlib.suppress(ConnectionRefusedError):
    while True:
        for line in lines:
            for piece in (line, *(line[number : number + 1] for number in range(3))):
                guest = connected(port)
                made += 1
                with contextlib.suppress(OSError):
                    guest.sendall(piece)
                    answers += bool(guest.recv(100))
                guest.close()
print(f"idle {len(idle)} made {made} answers {answers}")
