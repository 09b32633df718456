"""Which GPUs are near a rank, MIG instances, an MPS daemon: there is no GPU here, only what nvidia-smi says of them.

recorded/gpus/h100.* is the output of a machine with one H100 and driver 580. The others are shorter, in the same form.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mnrun.files import wrapper
from mnrun.nodes import kit
from unit.conftest import ADVERB, Shell
from unit.samples import RECORDED, build, make
from unit.wrappers.node import lay

SMI = """#!/bin/sh
case $1 in -L) cat "$GPUS.list" ;; *) cat "$GPUS.query" ;; esac
"""


class Node:
    """A node's directory, with NUMA nodes 0 to 3 of two sockets, each of four CPUs, and a recorded machine's GPUs."""

    def __init__(self, sh: Shell, path: Path) -> None:
        self._sh, self.path, self.sys = sh, path, path / "sys"
        (path / "bin").mkdir()
        (path / "bin/nvidia-smi").write_text(SMI)
        (path / "bin/nvidia-smi").chmod(0o755)
        for name in ("gpu_numa.sh", "gpu_closest.sh"):
            (path / name).write_text(wrapper(name))
        for numa in range(4):
            place = self.sys / f"devices/system/node/node{numa}"
            place.mkdir(parents=True)
            far = [10 if other == numa else 12 if other // 2 == numa // 2 else 32 for other in range(4)]
            (place / "distance").write_text(" ".join(map(str, far)) + "\n")
            for cpu in range(4 * numa, 4 * numa + 4):
                (self.sys / f"devices/system/cpu/cpu{cpu}/node{numa}").mkdir(parents=True)

    def device(self, bus: str, numa: int) -> None:
        place = self.sys / f"bus/pci/devices/0000:{bus}:00.0"
        place.mkdir(parents=True)
        (place / "numa_node").write_text(f"{numa}\n")

    def near(self, gpus: str) -> list[str]:
        environ = {
            "PATH": f"{self.path}/bin:/usr/bin:/bin",
            "mnrun_sys": str(self.sys),
            "GPUS": f"{RECORDED}/gpus/{gpus}",
        }
        return (
            self._sh(f"bash -p {self.path}/gpu_numa.sh | tee {self.path}/near", environ=environ).decode().splitlines()
        )

    def closest(self, cpus: str, *visible: str) -> str:
        environ = {"mnrun_sys": str(self.sys), "mnrun_cpus": cpus}
        return self._sh(f'sh {self.path}/gpu_closest.sh "$@"', *visible, environ=environ).decode().rstrip("\n")


@pytest.fixture
def dgx1(sh: Shell, tmp_path: Path) -> Node:
    node = Node(sh, tmp_path)
    for bus in ("06", "07", "0a", "0b"):
        node.device(bus, 0)
    for bus in ("85", "86", "89", "8a"):
        node.device(bus, 2)
    assert node.near("dgx1")[3:5] == ["3 GPU-33 0", "4 GPU-44 2"]
    return node


@pytest.mark.parametrize(
    ("cpus", "visible", "wanted"),
    [
        ("0-3", ["0,1,2,3,4,5,6,7"], "0,1,2,3"),
        ("8", ["0,1,2,3,4,5,6,7"], "4,5,6,7"),
        ("0,8", ["0,1,2,3,4,5,6,7"], "0,1,2,3,4,5,6,7"),
        ("0-15", ["6,0"], "6,0"),  # bound to none
        ("12-13,15", ["0,1,4"], "4"),  # none there, and that is nearer
        ("0-1", ["5,6"], "5,6"),  # none that is near was granted
        ("0-1", ["GPU-55,GPU-11"], "GPU-11"),  # in the words in which they were granted
        ("0-1", [], "0,1,2,3"),  # nobody granted any
        ("0-1", [""], ""),
        ("0-1", ["NoDevFiles"], "NoDevFiles"),
    ],
)
def test_the_nearest_gpus(dgx1: Node, cpus: str, visible: list[str], wanted: str) -> None:
    assert dgx1.closest(cpus, *visible) == wanted


def test_mig_instances_are_where_their_gpu_is(sh: Shell, tmp_path: Path) -> None:
    node = Node(sh, tmp_path)
    node.device("07", 0)
    node.device("87", 3)
    assert node.near("mig") == ["0 GPU-00 0", "1 GPU-11 3", "- MIG-a0 0", "- MIG-a1 0", "- MIG-b0 3"]
    assert node.closest("0-3", "MIG-a0,MIG-b0,MIG-a1") == "MIG-a0,MIG-a1"
    assert node.closest("12", "MIG-a0,MIG-b0") == "MIG-b0"


def test_gpus_that_do_not_say_where_they_are(sh: Shell, tmp_path: Path) -> None:
    node = Node(sh, tmp_path)
    assert node.near("mig")[:2] == ["0 GPU-00 -1", "1 GPU-11 -1"]
    assert node.closest("0", "0,1") == "0,1"


def test_a_virtual_machine_with_one_gpu(sh: Shell, tmp_path: Path) -> None:
    node = Node(sh, tmp_path)
    node.device("00", -1)
    (node.sys / "bus/pci/devices/0000:00:00.0").rename(node.sys / "bus/pci/devices/0000:00:06.0")
    uuid = "GPU-ba6327a7-1b66-6101-732a-eee39076b424"
    assert node.near("h100") == [f"0 {uuid} -1"]
    assert [node.closest("0-3"), node.closest("0-3", uuid)] == ["0", uuid]


@pytest.mark.parametrize("adverb", ["gpus.sh", "ch-run.sh"])
def test_an_mps_daemon_is_found_in_a_container(sh: Shell, tmp_path: Path, adverb: str) -> None:
    runtime = "apptainer" if adverb == "gpus.sh" else "charliecloud"
    place, pipes, log = tmp_path / "node", tmp_path / "pipes", tmp_path / "log"
    for directory in (place, pipes, log, tmp_path / "bin"):
        directory.mkdir()
    lay(place, kit.files(make(build("./app", runtime=runtime, image="/app.sif"), 1), {}))
    (tmp_path / "bin/ch-run").write_text('#!/bin/sh\necho "$*"\n')
    (tmp_path / "bin/ch-run").chmod(0o755)
    environ = {
        **{"CUDA_MPS_PIPE_DIRECTORY": str(pipes), "CUDA_MPS_LOG_DIRECTORY": str(log), "TMPDIR": str(tmp_path)},
        "PATH": f"{tmp_path}/bin:/usr/bin:/bin",
    }
    words = "sh -c 'echo \"$APPTAINER_BIND $SINGULARITY_BIND\"'" if adverb == "gpus.sh" else "ch-run image --"
    run = f"cd {place}; {ADVERB} ./{adverb} {words}"
    assert str(pipes) not in sh(run, environ=environ).decode()
    (pipes / "control").touch()
    said = sh(run, environ=environ).decode()
    wanted = f"{pipes},{log}" if adverb == "gpus.sh" else f"--bind={pipes}:{pipes} --bind={log}:{log}"
    assert wanted in said


def test_the_ranks_share_is_asked_for_in_words(sh: Shell) -> None:
    assert build("./app", gpu_bind="closest").resources.gpu_bind == "closest"
    assert "mnrun_gpu_bind='closest'" in kit.values(make(build("./app", gpu_bind="closest"), 1))
