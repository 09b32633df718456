"""ray.sh runs for real on a node that is this one, with a `ray` that notes its words and ends."""

from __future__ import annotations

from pathlib import Path

from unit.conftest import Shell
from unit.wrappers.node import Node

ADDRESS = "192.0.2.1:23004"
# The Python of Ray, which reaches the head.
PYTHON = f"""#!/bin/sh
case $3 in {ADDRESS}) shift 3 && exec "$@" ;; esac
exec sh "$@"
"""
RAY = """#!{}
for word; do echo "$word"; done >"${{0%/*}}/words"
printf '2026-11-28 01:18:49,855\\tERR scripts.py:87 -- raylet [exit code=-9]\\nRemaining processes will be killed.\\n'
"""


def test_a_node_joins_with_its_share_and_tells_why_it_left(sh: Shell, tmp_path: Path) -> None:
    node = Node(sh, tmp_path / "mnrun.7-abcdef")
    node.fill(1, 1, launcher="ray", ports="23000-23019")
    texts = {"python": PYTHON, "ray": RAY.format(node.path / "python"), "limit": "1000000000\n", "self": "node02\n"}
    for name, text in texts.items():
        (node.path / name).write_text(text)
        (node.path / name).chmod(0o755)
    share = {"NODE_RANK": "1", "mnrun_ray": "6 2", "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2", "RAY_ADDRESS": ADDRESS}
    node.run("ray.sh", "./train.py", before=f"PATH={node.path}:$PATH\n", environ=share, code=1)
    words = dict(word.partition("=")[::2] for word in (node.path / "words").read_text().split()[2:])
    given = {name: words.pop(f"--{name}") for name in ("num-cpus", "num-gpus", "object-store-memory", "memory")}
    assert given == {"num-cpus": "6", "num-gpus": "2", "object-store-memory": "300000000", "memory": "700000000"}
    assert (words.pop("--address"), words.pop("--node-name")) == (ADDRESS, "node02")
    assert {words.pop("--temp-dir"), words.pop("--plasma-directory")} == {f"{node.path}/tmp", f"{node.path}/shm"}
    ports = [int(port) for text in words.values() for port in text.split(",")]
    assert len(words) == 7 and set(ports) <= {*range(23000, 23020)} - {23004} and len(set(ports)) == len(ports), words
    assert node.said.splitlines() == ["fail Ray has ended here: raylet [exit code=-9]"]
