"""What a job uses now, and what is odd about it."""

from __future__ import annotations

from mnrun.watching.now import HEADERS, Now, line, rows, table
from mnrun.watching.series import read_all
from unit.watching.test_series import lines

NODE = ("cpu {t}0.00 4", "memory 500 1000", "net eth0 {t}000 {t}0", "rank 0 7 {t}0.00 5")


def told(*texts: str, nodes: tuple[str, ...] = ("n1", "n2")) -> Now:
    now = Now(nodes)
    for text in texts:
        now.take(read_all(text))
    return now


def odd(now: Now) -> dict[str, tuple[str, ...]]:
    return {use.node: use.odd for use in now.uses()}


def test_rates_are_of_the_last_two_samples() -> None:
    now = told(lines(3, *NODE))
    (use,) = (use for use in now.uses() if use.node == "n1")
    assert (use.cpu, use.cpus, use.memory, use.limit) == (0.25, 4, 500, 1000)
    assert [(flow.device, flow.received, flow.sent) for flow in use.networks] == [("eth0", 100.0, 1.0)]
    assert [(rank.rank, rank.pid, rank.cpus) for rank in use.ranks] == [(0, 7, 1.0)]


def test_a_node_that_does_not_answer_comes_first() -> None:
    now = told(lines(2, *NODE))
    assert odd(now) == {"n2": ("no answer",), "n1": ()}
    assert not now.known
    assert list(odd(now)) == ["n2", "n1"]
    now.take(read_all(lines(2, *NODE, node="n2")))
    assert now.known
    now.lose(["n1"])
    assert odd(now) == {"n1": ("no answer",), "n2": ()}


def test_an_idle_gpu_among_busy_ones() -> None:
    busy, idle = "gpu {g} 97 1 1 60 300 0", "gpu {g} 3 1 1 40 90 0"
    one = lines(2, *NODE, busy.replace("{g}", "0"), idle.replace("{g}", "1"))
    two = lines(2, *NODE, busy.replace("{g}", "0"), node="n2")
    assert odd(told(one, two)) == {"n1": ("GPU 1 idles",), "n2": ()}
    alone = told(lines(2, *NODE, idle.replace("{g}", "0")), nodes=("n1",))
    assert odd(alone) == {"n1": ()}, "where all idle, the job may only be starting"


def test_a_hot_gpu_and_full_memory() -> None:
    now = told(lines(2, "cpu {t}.00 4", "memory 960 1000", "gpu 0 97 1 1 91 300 0"), nodes=("n1",))
    assert odd(now) == {"n1": ("GPU 0 has 91 C", "memory is 96% full")}


def test_a_rank_without_cpu_time() -> None:
    now = told(lines(2, *NODE, "rank 1 8 3.00 5"), nodes=("n1",))
    assert odd(now) == {"n1": ("rank 1 uses no CPU",)}
    still = told(lines(2, "cpu 1.00 4", "memory 1 9", "rank 0 7 3.00 5"), nodes=("n1",))
    assert odd(still) == {"n1": ()}, "where none works, all may wait for input"


def test_samples_of_other_nodes_do_not_count() -> None:
    now = told(lines(2, *NODE, node="stranger"), nodes=("n1",))
    assert odd(now) == {"n1": ("no answer",)}
    assert now.silent


def test_the_table_has_a_row_for_each_gpu() -> None:
    now = told(lines(2, *NODE, "gpu 0 97 1 1 60 300 0", "gpu 1 2 - - - - -"), nodes=("n1",))
    table = rows(now.uses())
    assert {len(row) for row in table} == {len(HEADERS)}
    assert [row[HEADERS.index("GPU")] for row in table] == ["0", "1"]
    assert [row[HEADERS.index("NODE")] for row in table] == ["n1", ""]
    assert [row[HEADERS.index("ODD")] for row in table] == ["GPU 1 idles", ""]


def test_the_table_fits_a_narrow_terminal() -> None:
    """Of a job without GPUs, it has no columns for them."""
    big = ("cpu {t}0.00 64", "memory 71300000000 2100000000000", "net eth0 {t}000000 {t}0000000")
    ranks = [f"rank {rank} 7 {{t}}{rank}.00 71300000" for rank in range(4)]
    gpus = [f"gpu {gpu} 97 64000000000 80000000000 60 300 0" for gpu in range(4)]
    without = table(told(lines(2, *big, *ranks), nodes=("n1",)).uses())
    assert without[0] == ("NODE", "CPU", "MEMORY", "IN", "OUT", "RANK", "CPUS", "RAM", "ODD")
    for width in (80, 100, 120, 200):
        headers, found = table(told(lines(2, *big, *ranks, *gpus), nodes=("n1",)).uses(), width)
        assert {"NODE", "CPU", "MEMORY", "RANK", "GPU", "USE", "ODD"} <= {*headers}
        assert (len(headers) == len(HEADERS)) == (width == 200)
        used = [max(map(len, column)) for column in zip(headers, *found)]
        assert sum(used) + 3 * len(used) <= width


def test_gpus_of_which_nothing_is_told() -> None:
    now = Now(("n1", "n2"), {"n1": 2, "n2": 2})
    now.take(read_all(lines(2, *NODE)))
    now.take(read_all(lines(2, *NODE, "gpu 0 97 1 1 60 300 0", node="n2")))
    assert [(use.node, bool(use.odd)) for use in now.uses()] == [("n1", True), ("n2", False)]


def test_the_table_has_ranks_beside_gpus() -> None:
    """Of more ranks than fit, the least busy ones are shown."""
    ranks = [f"rank {rank} {rank} {{t}}{rank}.00 5" for rank in range(6)]
    table = rows(told(lines(2, *NODE[:2], *ranks, "gpu 0 97 1 1 60 300 0"), nodes=("n1",)).uses())
    assert {len(row) for row in table} == {len(HEADERS)}
    shown = [[row[HEADERS.index(header)] for header in ("NODE", "RANK", "CPUS", "RAM", "GPU")] for row in table]
    assert shown == [["n1", "0", "1.00", "5 B", "0"], *(["", str(rank), "1.00", "5 B", ""] for rank in (1, 2, 3))]
    assert rows(told(lines(2, *NODE[:2], "rank 0 1 {t}{t}.00 5", *ranks[1:5]), nodes=("n1",)).uses())[0][5] == "1"


def test_a_node_in_a_line() -> None:
    now = told(lines(2, *NODE, "gpu 0 97 1000 1 60 300 0", "gpu 1 2 - - - - -"), nodes=("n1",))
    (use,) = now.uses()
    assert line(use) == (
        "n1: cpu 25 % of 4, memory 500 B, in 100 B/s out 1 B/s, gpu 0 97 % 1 kB 60 C 300 W, gpu 1 2 %; GPU 1 idles"
    )
