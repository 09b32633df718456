"""The lines of samples are understood, and half of one does no harm."""

from __future__ import annotations

import pytest

from mnrun.watching.samples import Cpu, Gpu, InfiniBand, Memory, Network, Rank, Sample, Thing, read

THINGS: dict[str, Thing] = {
    "cpu 12.50 16": Cpu(12.5, 16),
    "memory 1048576 8589934592": Memory(1048576, 8589934592),
    "net eth0 120 340": Network("eth0", 120, 340),
    "ib mlx5_0:1 4096 8192": InfiniBand("mlx5_0:1", 4096, 8192),
    "gpu 0 97 1073741824 85899345920 61 412.35 1200.5": Gpu(0, 0.97, 1 << 30, 80 << 30, 61.0, 412.35, 1200.5),
    "gpu 1 - - - - - -": Gpu(1, None, None, None, None, None, None),
    "rank 3 4711 0.25 2048": Rank(3, 4711, 0.25, 2048),
}


@pytest.mark.parametrize("text", THINGS)
def test_each_thing_of_a_line_becomes_a_sample(text: str) -> None:
    assert read(f"sample node01 1790000000.25 {text}\n") == [Sample("node01", 1790000000.25, THINGS[text])]


def test_a_line_has_several_things_with_the_same_time() -> None:
    found = read("sample node01 5.00 " + "\t".join(THINGS))
    assert [one.thing for one in found] == list(THINGS.values())
    assert {(one.node, one.time) for one in found} == {("node01", 5.0)}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "sample",
        "sample node01 5.00",
        "sample node01 soon cpu 1 1",
        "sample node01 nan cpu 1 1",
        "sample node01 5.00 cpu 1",
        "sample node01 5.00 cpu inf 1",
        "sample node01 5.00 gpu 0 97 1073",
        "sample node01 5.00 weather 1 1",
        "rank node01 5.00 cpu 1 1",
    ],
)
def test_what_is_no_sample_is_left_out(line: str) -> None:
    assert read(line) == []


def test_a_broken_thing_costs_only_itself() -> None:
    assert [one.thing for one in read("sample node01 5.00 cpu 1\tmemory 1 2\tnet eth0 x 1")] == [Memory(1, 2)]
