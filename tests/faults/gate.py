"""A door in front of a port: after BYTES, answers wait until a file is there. `gate.py HOST FROM TO FILE [BYTES]`."""

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


def answer(server: socket.socket, client: socket.socket, file: str, free: int) -> None:
    while data := server.recv(65536):
        free -= len(data)
        if free < 0 and not os.path.exists(file):
            print("held", flush=True)
            while not os.path.exists(file):
                time.sleep(0.05)
        client.sendall(data)
    client.shutdown(socket.SHUT_WR)


def serve(client: socket.socket, host: str, port: int, file: str, free: int) -> None:
    with client, socket.create_connection((host, port)) as server:
        there = threading.Thread(target=carry, args=(client, server), daemon=True)
        there.start()
        answer(server, client, file, free)
        there.join()


def main(host: str, port: str, target: str, file: str, free: str = "0") -> None:
    with socket.create_server((host, int(port)), reuse_port=True) as listener:
        print("listening", flush=True)
        while True:
            client, _ = listener.accept()
            words = (client, host, int(target), file, int(free))
            threading.Thread(target=serve, args=words, daemon=True).start()


main(*sys.argv[1:])
