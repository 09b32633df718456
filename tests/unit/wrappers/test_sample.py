"""sample.sh on this machine: what it reports of processes, GPUs and networks, and how it ends.

The lines of nvidia-smi have the form of recorded/gpus. Those of amd-smi 26.2 have its columns, as published logs show
them, in another order than nvidia-smi's.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mnrun.files import wrapper
from mnrun.watching.samples import Cpu, Gpu, InfiniBand, Memory, Network, Rank, Thing, read
from unit.conftest import Shell

JOB = "mnrun_id=J1 mnrun_group= mnrun_no_gpu='{}' mnrun_marks= mnrun_jobs=\n"
# $@ ends with the seconds. Each line goes to the sampler as soon as it is there.
NVIDIA = """#!/bin/sh
echo $$ >smi.pid
echo '1, 3, [N/A], 81559, 35, [N/A], GPU-b'
echo '0, 97, 61440, 81559, 61, 412.35, GPU-a'
exec sleep 30
"""
AMD = """#!/bin/sh
echo timestamp,gpu,gfx_activity,umc_activity,vcn,socket_power,edge,hotspot,mem,total_vram,used_vram
echo '1772939616,0,95,80,"[N/A, 7]",350,N/A,72,65,196592,1024'
exec sleep 30
"""
PORT = "class/infiniband/mlx5_0/ports/1/counters"
# A rank that works until this script ends, and its process in the words of pid.sh.
RANK = """
MNRUN_JOB_ID=J1 bash -c 'while :; do :; done' & rank=$!
trap 'kill -KILL $rank' EXIT
set -- $(cat /proc/$rank/stat); shift 21
echo "$rank $1" >pid.7
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("sample.sh", "processes.sh", "memory.sh"):
        (tmp_path / name).write_text(wrapper(name))
    (tmp_path / "job.sh").write_text(JOB.format(""))
    (tmp_path / "self").write_text("n1\n")
    (tmp_path / "own").write_text("/x n1 self 1 boot\n")
    (tmp_path / "sys").mkdir()
    (tmp_path / "bin").mkdir()
    return tmp_path


def program(place: Path, name: str, text: str) -> None:
    (place / "bin" / name).write_text(text)
    (place / "bin" / name).chmod(0o755)


def sampled(
    sh: Shell, place: Path, before: str = "", after: str = "", seconds: float = 0.1, **more: str
) -> list[Thing]:
    environ = {"PATH": f"{place}/bin:/usr/bin:/bin", "mnrun_sys": f"{place}/sys", **more}
    script = f"{before}\nsleep {seconds} | bash -p ./sample.sh 1\n{after}"
    lines = sh(script, shell="bash", environ=environ).decode().splitlines()
    found = [sample for line in lines for sample in read(line)]
    assert {sample.node for sample in found} == {"n1"}
    return [sample.thing for sample in found]


def test_a_rank_and_what_all_ranks_use(sh: Shell, place: Path) -> None:
    found = sampled(sh, place, RANK, seconds=2.5)
    ranks = [thing for thing in found if isinstance(thing, Rank)]
    assert {rank.rank for rank in ranks} == {7}
    assert len(ranks) >= 2
    assert [rank.seconds for rank in ranks] == sorted({rank.seconds for rank in ranks}), "its CPU time grows"
    assert ranks[0].memory > 1 << 20
    cpus = [thing for thing in found if isinstance(thing, Cpu)]
    assert [cpu.seconds for cpu in cpus] == [rank.seconds for rank in ranks]
    assert cpus[0].cpus >= 1
    (limit,) = {thing.limit for thing in found if isinstance(thing, Memory)}
    assert limit > 1 << 30


def test_a_process_of_another_job_is_no_rank(sh: Shell, place: Path) -> None:
    found = sampled(sh, place, RANK.replace("J1", "J2"))
    assert not [thing for thing in found if isinstance(thing, Rank)]


def test_the_gpus_by_nvidia_smi_which_goes_with_the_sampler(sh: Shell, place: Path) -> None:
    program(place, "nvidia-smi", NVIDIA)
    gone = "for i in {1..100}; do [[ -e /proc/$(cat smi.pid) ]] || exit 0; sleep 0.05; done; exit 9"
    found = sampled(sh, place, after=gone)
    assert {thing for thing in found if isinstance(thing, Gpu)} == {
        Gpu(0, 0.97, 61440 << 20, 81559 << 20, 61.0, 412.35, 0.0),
        Gpu(1, 0.03, None, 81559 << 20, 35.0, None, None),
    }


@pytest.mark.parametrize(
    ("visible", "gpus"), [("1", {1}), ("GPU-a", {0}), ("", {0, 1}), ("MIG-x", {0, 1}), ("NoDevFiles", set())]
)
def test_the_gpus_of_others_are_left_out(sh: Shell, place: Path, visible: str, gpus: set[int]) -> None:
    program(place, "nvidia-smi", NVIDIA)
    found = sampled(sh, place, CUDA_VISIBLE_DEVICES=visible)
    assert {thing.number for thing in found if isinstance(thing, Gpu)} == gpus


def test_the_gpus_by_amd_smi(sh: Shell, place: Path) -> None:
    program(place, "amd-smi", AMD)
    (gpu,) = [thing for thing in sampled(sh, place) if isinstance(thing, Gpu)]
    assert gpu == Gpu(0, 0.95, 1024 << 20, 196592 << 20, 72.0, 350.0, 0.0)


def test_a_job_without_gpus_starts_no_program_for_them(sh: Shell, place: Path) -> None:
    program(place, "nvidia-smi", NVIDIA)
    (place / "job.sh").write_text(JOB.format("1"))
    sampled(sh, place)
    assert not (place / "smi.pid").exists()


def test_the_counters_of_the_network(sh: Shell, place: Path) -> None:
    """A port counts in units of four bytes (sysfs-class-infiniband of the kernel)."""
    (place / "sys" / PORT).mkdir(parents=True)
    (place / "sys" / PORT / "port_rcv_data").write_text("10\n")
    (place / "sys" / PORT / "port_xmit_data").write_text("20\n")
    (place / "proc/net").mkdir(parents=True)
    (place / "proc/uptime").write_text("0.50 1.00\n")
    (place / "proc/meminfo").write_text("MemTotal: 1024 kB\n")
    rows = ("lo: 9 0 0 0 0 0 0 0 9", "docker0: 9 0 0 0 0 0 0 0 9", "  ib0:7 0 0 0 0 0 0 0 8", "eth1: 0 0 0 0 0 0 0 0 0")
    (place / "proc/net/dev").write_text("\n".join(("head", "head", *rows)) + "\n")
    found = sampled(sh, place, mnrun_proc=f"{place}/proc")
    assert [thing for thing in found if isinstance(thing, (Network, InfiniBand))] == [
        Network("ib0", 7, 8),
        InfiniBand("mlx5_0:1", 40, 80),
    ]


@pytest.mark.parametrize(
    ("files", "seconds"),
    [
        ({"memory.current": "900", "memory.max": "1000", "cpu.stat": "usage_usec 2500000\nx 1"}, 2.5),
        ({"memory.usage_in_bytes": "900", "memory.limit_in_bytes": "1000", "cpuacct.usage": "2500000000"}, 2.5),
    ],
)
def test_the_control_group_of_the_job(sh: Shell, place: Path, files: dict[str, str], seconds: float) -> None:
    for name, text in files.items():
        (place / name).write_text(f"{text}\n")
    (place / "memory.stat").write_text("file 1\ninactive_file 100\ntotal_inactive_file 100\n")
    (place / "job.sh").write_text(JOB.format("").replace("mnrun_group=", "mnrun_group=job_1"))
    with (place / "memory.sh").open("a") as file:
        file.write("job_group() { REPLY=$PWD; }\n")
    found = sampled(sh, place)
    assert {thing for thing in found if isinstance(thing, Memory)} == {Memory(800, 1000)}
    assert {thing.seconds for thing in found if isinstance(thing, Cpu)} == {seconds}


def test_a_large_node_has_several_lines(sh: Shell, place: Path) -> None:
    """srun keeps lines of less than 1000 bytes whole (pipe_frames.sh)."""
    rows = "".join(f"echo '{number}, 97, 61440, 81559, 61, 412.35, GPU-{number}'\n" for number in range(32))
    program(place, "nvidia-smi", f"#!/bin/sh\n{rows}exec sleep 30\n")
    environ = {"PATH": f"{place}/bin:/usr/bin:/bin", "mnrun_sys": f"{place}/sys"}
    lines = sh("sleep 0.1 | bash -p ./sample.sh 1", shell="bash", environ=environ).decode().splitlines()
    assert max(map(len, lines)) < 1000
    assert len({sample.thing for line in lines for sample in read(line) if isinstance(sample.thing, Gpu)}) == 32
