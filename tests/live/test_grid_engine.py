"""Grid Engine: its jobs' ranks by qrsh, in every runtime, from every place where a launch begins."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from published import checked

from .batch import SHAPE, from_outside, output, submit, submitted
from .cells import HELLO, INSIDE, MPIRUN, RUNTIMES, Way, cells
from .grid import cluster as cluster
from .grid import forgotten as forgotten
from .reports import check
from .stage import Cluster, Desk, Process, Result, wait_for

pytestmark = [pytest.mark.xdist_group("grid-engine"), pytest.mark.usefixtures("forgotten")]


def in_a_job(cluster: Cluster, desk: Desk, *words: str) -> Result:
    """mnrun in a script of one's own, which asks for slots by Grid Engine's options."""
    directives = "#$ -S /bin/bash -cwd -notify -V -N own -j y -o out -pe mpi-2 4 -q all.q@node01,all.q@node02"
    script = desk.put("own.sh", f"{directives}\nmnrun {shlex.join(words)}\n")
    done = cluster.alice(["qsub", "-sync", "y", script], cwd=desk.path)
    return Result(done.code, desk.read("out"), done.out + done.err)


CATCHES = """import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
raise SystemExit(0 if signal.sigtimedwait([signal.SIGUSR1], 45) else 9)"""


def test_a_signal_before_the_limit(cluster: Cluster, desk: Desk) -> None:
    """At s_rt, Grid Engine 8.1.9 kills a job with a PE."""
    words = ("-t", "1", "--signal", "USR1@50", "--runtime", "host", "--launcher", "env", "--", "python3", "-c", CATCHES)
    result = submitted(cluster, desk, *words)
    assert result.code == 0, result


PLACES = {"job": in_a_job, "submit": submitted, "outside": from_outside}


@pytest.mark.parametrize(
    ("runtime", "begun", "place", "reach"),
    cells({"runtime": RUNTIMES, "begun": ("inside", "mpirun"), "place": tuple(PLACES), "reach": ("qrsh", "call")}),
)
def test_cell(engines: Cluster, desk: Desk, runtime: str, begun: str, place: str, reach: str) -> None:
    image, other = ("host", "") if runtime == "host" else ("ompi5", "" if runtime == "apptainer" else runtime)
    words = [*Way(begun, image, runtime=other).words, "-x", "V=a b", "--", HELLO, "-e", "V", "-x", "7"]
    result = PLACES[place](engines, desk, "--reach", reach, *words)
    assert result.code == 7, result
    # a job has one file for both streams
    said = b"".join(line for line in result.raw.splitlines(True) if line.startswith(b"rank "))
    ranks = check(replace(result, code=0, raw=said), "node01", "node02")
    assert {rank.value for rank in ranks} == {"a b"}, result
    assert engines.containers() == []


@contextmanager
def under_way(cluster: Cluster, desk: Desk, *words: str) -> Iterator[str]:
    """Yield the id of a submitted job whose ranks have all spoken."""
    job = submit(cluster, desk, *SHAPE, *words, "--", HELLO, "-s", "3600")
    wait_for(lambda: output(desk, job).count("rank ") == 4, "running on all ranks", state=lambda: output(desk, job))
    try:
        yield job
    finally:
        cluster.alice(["mnrun", "cancel", job])


def environment(process: Process) -> set[str]:
    """Return the names of the variables that a process began with."""
    pairs = Path(f"/proc/{process.pid}/environ").read_bytes().decode().split("\0")
    return {pair.partition("=")[0] for pair in pairs}


@pytest.mark.parametrize("way", (INSIDE, MPIRUN), ids=str)
def test_mpirun_finds_no_grid_engine(cluster: Cluster, desk: Desk, way: Way) -> None:
    """Its daemons begin through mnrun's own qrsh, of which there is one for each node but the first."""
    with under_way(cluster, desk, *way.words):
        there = cluster.processes()
        named = {
            name: [p for p in there if Path(p.argv[0]).name == name] for name in ("qrsh", "prted", "prterun", "mpirun")
        }
        mpiruns = [*named["prterun"], *named["mpirun"]]
        assert len(named["qrsh"]) == 1 and "prted" not in " ".join(named["qrsh"][0].argv), named
        assert mpiruns and named["prted"] and {p.node for p in named["prted"]}.isdisjoint(p.node for p in mpiruns), (
            named
        )
        for process in (*mpiruns, *named["prted"]):
            assert "PE_HOSTFILE" not in environment(process), process


def test_qrsh_takes_and_gives_any_bytes(cluster: Cluster, desk: Desk) -> None:
    """50 MB each way, and what the node says after the end of its input arrives, too."""
    sent = bytes(range(256)) * 200_000
    with under_way(cluster, desk, *INSIDE.words) as job:
        back = cluster.alice(["mnrun", "exec", job, "--node", "node01", "--", "sh", "-c", "cat; echo the end"], sent)
        assert (back.code, back.raw == sent + b"the end\n") == (0, True), back.err


def test_codes_are_the_programs(cluster: Cluster, desk: Desk) -> None:
    """Grid Engine would start a script with 99 again, and keep one with 100 in its queue."""
    codes = (3, 99, 100, 137)
    line = "cd {}; exec mnrun -N 2 --ntasks-per-node 1 -J code{} --runtime host --launcher env -- sh -c {}"
    with ExitStack() as stack:
        jobs = {
            code: stack.enter_context(
                cluster.running(["sh", "-c", line.format(desk.path, code, shlex.quote(f"exit {code}"))])
            )
            for code in codes
        }
        assert {code: job.end().code for code, job in jobs.items()} == {code: code for code in codes}
    found = checked("status", cluster.alice(["mnrun", "status", "--json"]).out)["jobs"]
    assert {job["name"]: job["code"] for job in found}.items() >= {f"code{code}": code for code in codes}.items(), found
