"""The launcher on many nodes: what it starts and asks, which is no more than on few; and the model of its time."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from mnrun import nodeset
from mnrun.model import Allocation, Node, Site
from mnrun.schedulers.slurm import scheduler as slurm
from mnrun.schedulers.slurm.details import Details
from scaling import model, page
from scaling.model import Assumed, Parts, predict
from scaling.play import Cost, play
from unit.samples import recorded
from unit.world import World

PARTS = Parts(alone=2.0, mpirun=0.4, container=0.3, begin=0.1, node=0.5, word=1e-4, kit=5e4, line=100, image=2e7)


@pytest.fixture
def played(world: World, tmp_path: Path, mocker: MockerFixture) -> Callable[[int], Cost]:
    """Play a launch with two ranks on each node, whose every question to a scheduler would fail."""
    mocker.patch("subprocess.run", side_effect=AssertionError)

    def on(nodes: int) -> Cost:
        folder = tmp_path / str(nodes)
        folder.mkdir()
        with world.allowed():
            outcome, cost = play(nodes, 2, folder)
        assert outcome.code == 0
        assert outcome.ranks == {f"node{number:05}": 2 for number in range(1, nodes + 1)}
        return cost

    return on


def test_a_launch_starts_and_asks_the_same_on_many_nodes(played: Callable[[int], Cost]) -> None:
    few, many = played(3), played(300)
    assert (few.steps, many.steps) == (2, 2)
    assert 0 < many.sent - few.sent < 297 * 150


def test_slurm_is_asked_the_same_about_many_nodes(mocker: MockerFixture) -> None:
    said, variables = recorded("plain")
    asked: list[tuple[str, ...]] = []

    def answer(words: Any, *_: object, **__: object) -> subprocess.CompletedProcess[str]:
        asked.append(tuple(words))
        return subprocess.CompletedProcess(words, 0, {"scontrol": said, "srun": "slurm 24.11.5"}.get(words[0], ""), "")

    mocker.patch("mnrun.schedulers.slurm.client.run", side_effect=answer)
    mocker.patch("time.sleep")
    numbers = []
    for count in (2, 4000):
        names = nodeset.expand(f"node[0001-{count:04}]")
        allocation = Allocation("slurm", "7", tuple(Node(name, 8) for name in names))
        slurm.current(variables)
        slurm.on_each(allocation, names, ("true",), variables)
        slurm.lost(names, variables, 0.0)
        slurm.runs("7", variables)
        slurm.ending(Site("slurm", "7", Details((24, 11))), variables)
        numbers.append((len(asked), sum(map(len, asked))))
        assert max(len(word) for words in asked for word in words) < 100
        asked.clear()
    assert numbers[0] == numbers[1]


def test_a_cluster_shares_what_grows() -> None:
    assert predict(PARTS, 1, Assumed()).total == pytest.approx(PARTS.alone)
    totals = [predict(PARTS, nodes, Assumed()).total for nodes in (1, 16, 64, 1000, 10000)]
    assert totals == sorted(totals)
    large = predict(PARTS, 10000, Assumed(storage=1e9))
    assert (large.bottleneck, round(large.parts["image"])) == ("image", 200)
    staged = predict(PARTS, 10000, Assumed(storage=1e9), staged=True)
    assert (staged.bottleneck, staged.parts["image"]) == ("kit", 0)
    assert predict(PARTS, 2, Assumed()).bottleneck == ""


def test_a_tree_has_levels() -> None:
    hops = {nodes: predict(PARTS, nodes, Assumed(hop=1, fanout=16)).parts["step"] for nodes in (1, 2, 16, 17, 256, 257)}
    assert hops == {1: 0, 2: 2, 16: 2, 17: 4, 256: 4, 257: 6}


def test_the_parts_are_those_of_the_bench() -> None:
    def size(nodes: int) -> dict[str, Any]:
        ways = {name: {"cpu": [90.0, cpu + 1.5 * (nodes - 1), 0.1]} for name, cpu in SECONDS.items()}
        return {"nodes": nodes, "place": "cluster", "ways": ways}

    bench = {"sizes": [size(1), size(4), {**size(1), "place": "machine", "ways": {}}]}
    plays = [{"nodes": 1, "cpu": 0.1, "sent": 50_100}, {"nodes": 1001, "cpu": 0.6, "sent": 150_100}]
    parts = model.parts_of(bench, plays, 0.12, 3e7)
    assert parts.word == pytest.approx(5e-4)
    assert parts == Parts(2.0, 0.5, 0.3, 0.12, 1.5, parts.word, 50_000, 100, 3e7)
    assert model.measured(bench) == {1: 2.0, 4: 6.5}


SECONDS = {model.MNRUN: 2.0, model.MPIRUN: 0.5, model.CONTAINER: 0.3}


def test_the_page_has_the_tables_of_its_measurements() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.written(text, page.read()) == text
