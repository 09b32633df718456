"""Thousands of nodes, whose guards are played in full. A bound means "never", and not "slow"."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator

from pytest_mock import MockerFixture

from mnrun import nodeset
from mnrun.model import Outcome
from mnrun.network import choose
from mnrun.network.facts import network_facts
from mnrun.nodes.status import Roster
from mnrun.running import prepare
from mnrun.system.events import Ended, Event, Line
from mnrun.system.screen import Screen
from unit.played import Launcher, Play, Stage, ended, say
from unit.samples import SITE, build, make

NODES, EACH = 4000, 128
BOUND = 300.0  # seconds of CPU. It takes eight on a quiet machine


def facts(number: int, adapters: int) -> list[str]:
    lines = ["nic lo kind=loopback state=unknown", f"nic eth0 kind=physical state=up speed=25000 numa=0 pci=p{number}"]
    lines += [f"address eth0 10.{number >> 8}.{number & 255}.1/8", "route 10.0.0.0/8 dev eth0", "feature verbs"]
    for port in range(adapters):
        place = f"numa={port // 4} pci=pci0000:{port}0/0000:{port}0:01.0/0000:{port}1:00.0"
        lines.append(f"hca mlx5_{port} port=1 state=ACTIVE rate=200 link=Ethernet id=0x101b nics=r{port} {place}")
        for index in range(4):
            address = f"0000:0000:0000:0000:0000:ffff:0a{port:02x}:{number:04x}"
            lines.append(f"gid mlx5_{port} port=1 index={index} gid={address} type=v{index % 2 + 1} ndev=r{port}")
        lines.append(f"gpu 0000:{port}2:00.0 {place.replace('1:00.0', '2:00.0')}")
    return [
        *lines,
        "limit memlock unlimited",
        "limit nofile 1048576",
        "limit stack unlimited",
        f"limit memory {1 << 40}",
    ]


def folded(lines: list[str]) -> Iterator[str]:
    said = ""
    for line in lines:
        if len(said) + len(line) > 990:
            yield said
            said = ""
        said += ("\t" if said else "") + line
    yield said


def names(nodes: int) -> list[str]:
    return [f"node{number:02}" for number in range(1, nodes + 1)]


def coming(nodes: int, adapters: int) -> list[str]:
    here = [f"here {name}" for name in names(nodes)]
    said = [f"fact {name} {some}" for n, name in enumerate(names(nodes), 1) for some in folded(facts(n, adapters))]
    return [
        *here,
        *said,
        *(
            f"ready {name} host={name} address=10.{n >> 8}.{n & 255}.1 step=3 image=7.7"
            for n, name in enumerate(names(nodes), 1)
        ),
    ]


def running(nodes: int, each: int) -> list[str]:
    ranks = [(name, rank * nodes + n) for rank in range(each) for n, name in enumerate(names(nodes))]
    begun = [f"rank {name} {rank} {nodes * each}" for name, rank in ranks]
    return [*begun, *(f"ended {name} {rank} 0" for name, rank in ranks)]


def leaving(nodes: int) -> list[str]:
    return [f"bye {name} " for name in names(nodes)]


def test_a_launch_of_thousands_of_nodes(launch: Launcher, stage: Stage) -> None:
    """B3: half a million ranks, a million lines; each of them is understood, logged and counted."""
    stage.play = Play(
        kit=say(*coming(NODES, adapters=2)),
        go=say(*running(NODES, EACH)) + ended("run", 0),
        close=say(*leaving(NODES)) + ended("serve", 0),
    )
    job = make(build("./app", mode="outside-in", launcher="srun"), *(EACH,) * NODES)
    begin = time.process_time()
    assert launch.carry_out(job) == Outcome(0, dict.fromkeys(names(NODES), EACH))
    assert time.process_time() - begin < BOUND
    with open(launch.path / "log", encoding="utf-8") as log:
        assert (
            sum(1 for _ in log) == sum(len(events) for events in (stage.play.kit, stage.play.go, stage.play.close)) - 2
        )


def test_networks_of_thousands_of_nodes() -> None:
    """B3: what they are told of them is found by looking at each node, not at each pair of them."""
    roster = Roster(names(NODES))
    lines = coming(NODES, adapters=8)
    addresses = {name: f"10.{n >> 8}.{n & 255}.1" for n, name in enumerate(names(NODES), 1)}
    begin = time.process_time()
    assert all(map(roster.hear, lines))
    networks = {node: network_facts(facts) for node, facts in roster.facts.items()}
    chosen = {one.name: one.value for one in choose.of_job(build("./app"), networks, addresses)}
    assert choose.warnings(build("./app"), networks) == []
    assert time.process_time() - begin < BOUND
    assert chosen["NCCL_IB_HCA"].startswith("=mlx5_0:1,"), chosen


def test_whether_all_have_spoken_is_known_at_every_word() -> None:
    """B3: it is asked at each, once one node has failed."""
    roster = Roster(names(NODES))
    assert roster.hear("fail node4000 x")
    begin = time.process_time()
    said = [(roster.hear(line), roster.settled) for line in coming(NODES - 1, adapters=2) for _ in range(3)]
    assert time.process_time() - begin < BOUND
    assert [all_ for _, all_ in said].index(True) == len(said) - 3  # the last node's


def test_images_of_thousands_of_nodes(launch: Launcher, stage: Stage, mocker: MockerFixture) -> None:
    """B3: what pulling them is at is folded for the eye, and not at every word."""
    folding = mocker.spy(nodeset, "folded")
    pulling = [f"pulling {name} {part} %" for part in range(0, 100, 5) for name in names(NODES)]
    images = [f"image {name} sha256:1 /cache/app.sif" for name in names(NODES)]
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    job = make(build("./app", image="docker://r/app", image_cache="/cache"), *(1,) * NODES)

    class Step:
        def send(self, data: bytes) -> None:
            for line in pulling + images:
                events.put(Line("prepare", line))

        def pulse(self) -> None:
            pass

        def close(self) -> None:
            events.put(Ended("prepare", 0))

    made = prepare.prepare(job, SITE, {}, events, Screen(), lambda *words, **how: Step())  # type: ignore[arg-type]
    assert made.spec.container.image_name == "/cache/app.sif"
    assert folding.call_count < 3
