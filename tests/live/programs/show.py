#!/usr/bin/env python3
"""show.py DIR WORDS…: each rank writes DIR/rankN.json: its words, its variables, its input, where it runs."""

import hashlib
import json
import os
import socket
import sys

NAMES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
rank = next((os.environ[name] for name in NAMES if name in os.environ), "0")
digest, size = hashlib.sha256(), 0
while True:
    block = os.read(0, 1 << 20)
    if not block:
        break
    digest.update(block)
    size += len(block)
found = {
    "rank": int(rank),
    "host": socket.gethostname(),
    "words": [os.fsencode(word).hex() for word in sys.argv[2:]],
    "env": {os.fsencode(name).hex(): os.fsencode(value).hex() for name, value in os.environ.items()},
    "cwd": os.getcwd(),
    "home": os.listdir(os.environ["HOME"]) if os.path.isdir(os.environ["HOME"]) else None,
    "cpus": sorted(os.sched_getaffinity(0)),
    "uid": os.getuid(),
    "no_new_privs": "NoNewPrivs:\t1\n" in open("/proc/self/status", encoding="ascii", errors="replace").read(),
    "stdin": [size, digest.hexdigest()],
}
beside = f"{sys.argv[1]}/.rank{rank}.new"
with open(beside, "w", encoding="ascii") as file:
    json.dump(found, file)
os.rename(beside, f"{sys.argv[1]}/rank{rank}.json")
