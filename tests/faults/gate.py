"""A door in front of a port: connections wait until a file is there. `gate.py HOST FROM TO FILE`."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time


def carry(source: socket.socket, target: socket.socket) -> None:
    while data := source.recv(65536):
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)


def serve(client: socket.socket, host: str, port: int, file: str) -> None:
    print("held", flush=True)
    while not os.path.exists(file):
        time.sleep(0.05)
    with client, socket.create_connection((host, port)) as server:
        there = threading.Thread(target=carry, args=(client, server), daemon=True)
        there.start()
        carry(server, client)
        there.join()


def main(host: str, port: str, target: str, file: str) -> None:
    with socket.create_server((host, int(port)), reuse_port=True) as listener:
        print("listening", flush=True)
        while True:
            client, _ = listener.accept()
            threading.Thread(target=serve, args=(client, host, int(target), file), daemon=True).start()


main(*sys.argv[1:])
