"""The GPUs of a job that others use, and its user's forgotten files: played, by what nvidia-smi prints of processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mnrun.files import wrapper
from unit.conftest import Shell

# The form of the drivers 450 to 570, as people print it in issues.
PIDS = """
==============NVSMI LOG==============

Attached GPUs                             : 3
GPU 00000000:07:00.0
    Processes                             : None

GPU 00000000:0F:00.0
    Processes
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 1607
            Type                          : G
            Name                          : /usr/lib/xorg/Xorg
            Used GPU Memory               : 245 MiB
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 999999999
            Type                          : C
            Name                          : /opt/a: b/python
            Used GPU Memory               : 5 MiB
        Process ID                        : 1
            Type                          : C+G
            Name                          : init
        Process ID                        : 77
            Type                          : C
            Name                          : nvidia-cuda-mps-server

GPU 00000000:47:00.0
    Processes
        Process ID                        : {own}
            Type                          : M+C
            Name                          : python3
        Process ID                        : 4711
            Type                          : C
            Name                          : of-this-job
"""


@pytest.fixture
def node(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvidia-smi").write_text('#!/bin/sh\n[ "$1" != topo ] || { echo "a b"; exit; }\ncat pids\n')
    (tmp_path / "bin/nvidia-smi").chmod(0o755)
    for number, bus in enumerate(("07", "0f", "47")):
        place = tmp_path / f"proc/driver/nvidia/gpus/0000:{bus}:00.0"
        place.mkdir(parents=True)
        (place / "information").write_text(f"Model: \t\t Some GPU\nGPU UUID: \t GPU-{number}abc-def\n")
    (tmp_path / "pids").write_text(PIDS.format(own=os.getpid()))
    (tmp_path / "own").touch()
    return tmp_path


def look(sh: Shell, place: Path, visible: str | None = None) -> list[str]:
    begin = 'set -euo pipefail; say() { echo "$1"; }; deaf() { :; }; ours() { [[ $1 == 4711 ]]; }; mnrun_id=7\n'
    environ = {"PATH": f"{place}/bin:/usr/bin:/bin", "mnrun_proc": f"{place}/proc"}
    if visible is not None:
        environ["CUDA_VISIBLE_DEVICES"] = visible
    script = wrapper("gpu_users.sh").replace("/dev/shm", f"{place}/shm")
    return [
        line.removeprefix("busy ") for line in sh(begin + script, environ=environ, shell="bash").decode().splitlines()
    ]


def test_processes_that_hold_gpus(sh: Shell, node: Path) -> None:
    mine = f"GPU 2 (python3, process {os.getpid()}, yours)"
    init = "yours" if os.getuid() == 0 else "another user's"
    every = f"GPU 1 (/opt/a: b/python, process 999999999), GPU 1 (init, process 1, {init}), {mine}"
    assert look(sh, node) == [every, "topology :a b"]
    assert look(sh, node, "0,2") == look(sh, node, "GPU-0abc-def,GPU-2abc") == [mine, "topology :a b"]
    assert look(sh, node, "0") == look(sh, node, "MIG-1abc") == look(sh, node, "") == ["topology :a b"]


def test_files_that_a_dead_job_has_left(sh: Shell, node: Path) -> None:
    (node / "shm").mkdir()
    for name in ("left x", "left y", "libpod_rootless_lock_1500", "used", "new"):
        (node / "shm" / name).write_bytes(b"x" * (1 << 20))
        if name != "new":
            os.utime(node / "shm" / name, (1, 1))
    with (node / "shm/used").open():
        (line, _) = look(sh, node, "0")
    assert line == f"2 files of yours in {node}/shm that no process uses (2 MB): {node}/shm/left x, …"
    with (node / "shm/left y").open(), (node / "shm/used").open():
        (line, _) = look(sh, node, "0")
    assert line == f"1 file of yours in {node}/shm that no process uses (1 MB): {node}/shm/left x"
    with (node / "shm/left x").open(), (node / "shm/left y").open(), (node / "shm/used").open():
        assert look(sh, node, "0") == ["topology :a b"]
