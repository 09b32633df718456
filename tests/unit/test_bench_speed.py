"""The pure parts of scripts/bench --speed: which runs are a pair, and what is made of pairs."""

from __future__ import annotations

from typing import Any

import pytest

from bench.speed import page, rounds
from bench.speed.pairs import coverage, left_out, ratio
from rehearsal.errors import ClusterError

SAID = "\n".join(
    (
        *("rank 0 of 2 on node01 CPU 0", "small 0.2500 0.2600", "megabyte 90.1000 95.0000"),
        *("largest 400.0000 410.5000", "allreduce 0.7000 0.8000", "loop 500.0000 500.1000"),
    )
)


def found(**ratios: list[float]) -> dict[str, Any]:
    """What the instrument hands over: each way by the ratios of its pairs, beside bare runs of 400 µs."""
    way = {
        name: {figure: {"way": [400 * one for one in each], "bare": [400.0] * len(each)} for figure in rounds.FIGURES}
        for name, each in ratios.items()
    }
    facts = ("processor", "cores", "commit", "date", "slurm", "openmpi", "apptainer", "kernel")
    place = {"nodes": 1, "ranks": 2, "single_copy": {"bare mpirun": True, **dict.fromkeys(ratios, False)}, "ways": way}
    return {"machine": dict.fromkeys(facts, "1.2"), "places": [place]}


@pytest.mark.parametrize(
    ("number", "order"), [(4, "b 0/b 1 b/1 2/b 3 b/3"), (3, "b 0/b 1 b/1 2/b"), (1, "b 0/b"), (2, "b 0/b 1 b/1")]
)
def test_each_run_is_beside_a_bare_one(number: int, order: str) -> None:
    clock: list[str] = []

    def run(name: str) -> dict[str, float]:
        clock.append(name)
        return {"at": len(clock)}

    pairs = list(rounds.beside(run, "bare", [str(way) for way in range(number)]))
    assert [way for way, _, _ in pairs] == [str(way) for way in range(number)]
    assert all(abs(mine["at"] - bare["at"]) == 1 for _, mine, bare in pairs), clock
    assert clock.count("bare") == 1 + number // 2


def test_the_quick_value_of_each_figure_is_taken() -> None:
    assert rounds.figures(SAID) == dict(zip(rounds.FIGURES, (0.25, 90.1, 400.0, 0.7, 500.0)))
    with pytest.raises(ClusterError, match="no figures, or others"):
        rounds.figures(SAID.replace("loop", "loops"))


def test_single_copies_are_those_of_both_ranks() -> None:
    chosen = "[node01:07036] mca_smsc_base_select: selected shared-memory single-copy component: cma\n"
    refused = "mca_smsc_cma_module_get_endpoint: can not proceed. processes are in difference namespaces\n"
    assert [rounds.single_copy(text) for text in (2 * chosen, chosen, 2 * chosen + refused)] == [True, False, False]


@pytest.mark.parametrize(("pairs", "left", "sure"), [(5, 0, 0.9375), (6, 0, 0.96875), (10, 1, 0.978515625)])
def test_an_interval_leaves_out_as_many_as_it_may(pairs: int, left: int, sure: float) -> None:
    assert (left_out(pairs), coverage(pairs, left)) == (left, sure)


def test_a_ratio_is_of_pairs() -> None:
    quiet = ratio([1.02] * 10, [1.0] * 10)
    assert ratio([1.02, 2.04] * 5, [1.0, 2.0] * 5) == quiet
    assert (quiet.low, quiet.middle, quiet.high, quiet.slower) == (1.02, 1.02, 1.02, True)


def test_few_pairs_prove_nothing() -> None:
    assert [ratio([1.5] * pairs, [1.0] * pairs).slower for pairs in (1, 5, 6)] == [False, False, True]


def test_one_bad_pair_of_ten_does_not_count() -> None:
    spread = ratio([*(1 + number / 1000 for number in range(9)), 3.0], [1.0] * 10)
    assert (spread.low, spread.high, spread.slower) == (1.001, 1.008, False)


def test_the_table_has_each_way_beside_the_bare_run() -> None:
    text = page.tables(found(**{"apptainer, pipe": [1.0, 1.002, 1.004] * 2, "docker, pipe": [1.02, 1.03, 1.04] * 2}))
    assert "### 1 node, 2 ranks on each" in text
    fast = " | ".join(["1.002 (1.000 to 1.004)"] * 5)
    slow = " | ".join(["**1.030 (1.020 to 1.040)**"] * 5)
    assert "| bare mpirun | 400 µs | 400 µs, 2.5 GB/s | 400 µs, 10.0 GB/s | 400 µs | 400 µs | yes |" in text
    assert f"| apptainer, pipe | {fast} | no |" in text
    assert f"| docker, pipe | {slow} | no |" in text
    assert "Of 10 medians of mnrun's ways, 5 are within 1 % or faster. 5 are slower than that beyond doubt." in text
