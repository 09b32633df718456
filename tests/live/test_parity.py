"""A submitted job makes the calls of a live run, and its ranks find and say the same."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import product

import pytest

from .batch import end, output, submit
from .cells import HELLO, INSIDE, MAIN, MPIRUN, Way, some
from .stage import TOP, Cluster, Desk

# Before Slurm's own on PATH: notes its words, and becomes it.
RECORDER = """\
#!/bin/bash
printf '%s\\0' "$@" >"$CALLS/srun.$(date +%s%N).$$"
exec /usr/bin/srun "$@"
"""
# A rank that notes its environment before it says who it is.
PROGRAM = f"""\
#!/bin/sh
env -0 >"$CALLS/env.${{OMPI_COMM_WORLD_RANK-$PMIX_RANK}}"
exec {HELLO} "$@"
"""

OTHERS = ("hostlist", "np", "key")  # what scripts of the older tools find set; and Apptainer's own script takes away
# Every name that stands for a value in a script of ours is a user's to export.
WRAPPERS = [path.read_text() for folder in ("wrappers", "sbatch_templates") for path in (TOP / folder).rglob("*.*")]
NAMES = re.findall(r"\$\{?[#!]?([a-z_]+)|\b([a-z_]+)=|\blocal ([a-z_]+)", "\n".join(WRAPPERS))
THEIRS = {
    name: f"their {name}" for name in set().union(*NAMES) - {"", "_"} if name not in OTHERS and "mnrun" not in name
}

# What is each launch's own in the words of a call: our id, mpirun's process and where it listens.
OWN = (
    (r"mnrun\.\d+-\w+", "mnrun.ID"),
    (r"prterun-(\w+)-\d+@", r"prterun-\1-PID@"),
    (r"tcp://[\d.]+:\d+:\d+", "tcp://HEAD"),
)
# Slurm names the batch script's environment so; and salloc does not say when its job ends.
SLURMS = {"ENVIRONMENT", "SLURM_JOB_END_TIME"}
# The rank that came first made its node's container.
FIRST = {"APPTAINER_SHARENS_MASTER", "SINGULARITY_SHARENS_MASTER"}
# Numbers and names of this job, this step, these processes and connections, and of the shells around them.
EACH = re.compile(
    r"(CALLS|SHLVL|MNRUN_JOB_ID|MASTER_PORT|(APPTAINER|SINGULARITY)_INSTANCE|(SLURM|PMIX|SSH)_.*|OMPI_(ARGV|FILE_LOCATION)"
    r"|OMPI_MCA_(mca_base_env_list|orte_precondition_transports|plm_slurm_args))\Z"
)


def calls(cluster: Cluster, place: str) -> list[list[str]]:
    """The words of every srun, whoever called it, without what is each launch's own, and without questions."""

    def plain(word: str) -> str:
        for own, name in OWN:
            word = re.sub(own, name, word)
        return word

    paths = sorted(cluster.path(place).glob("srun.*"))
    made = [path.read_text().split("\0")[:-1] for path in paths]
    asking = {"mpi_node.sh", "--mpi=list", "--test-only", "--version"}
    made = [words for words in made if not asking & set(words)]
    return sorted([plain(word) for word in words] for words in made)


def found(cluster: Cluster, place: str, rank: int) -> dict[str, str]:
    """A rank's environment, without what Slurm has in one of the two ways alone."""
    pairs = cluster.path(f"{place}/env.{rank}").read_text().split("\0")[:-1]
    variables = dict(pair.split("=", 1) for pair in pairs)
    return {n: re.sub(*OWN[0], v) for n, v in variables.items() if n not in SLURMS | FIRST}


def common(variables: Mapping[str, str]) -> dict[str, str]:
    same = {name: value for name, value in variables.items() if not EACH.match(name)}
    return {**same, **({"ENVLIST": ",".join(sorted(same["ENVLIST"].split(",")))} if "ENVLIST" in same else {})}


def said(text: str) -> list[str]:
    return sorted(line for line in text.splitlines() if line.startswith("rank "))


@pytest.mark.parametrize(("way", "code"), some([*product(MAIN, (0, 3))], [(INSIDE, 0), (MPIRUN, 3)]), ids=str)
def test_submit_is_a_run(cluster: Cluster, desk: Desk, way: Way, code: int) -> None:
    """The same calls of srun, our own and mpirun's; the same ranks on the same nodes with the same environment, whose
    values arrive byte for byte, whatever their names; the same exit code; and no secret in any file of ours."""
    desk.put("srun", RECORDER, 0o755)
    program = desk.put("hello", PROGRAM, 0o755)
    given = ["V=a 'b' $c:,;*=é", "SECRET", "job_chdir=/x", "here=there", "name"]
    asked = [word for name in given for word in ("-x", name)]
    words = [*asked, *way.words, "--", program, "-e", "V", "-x", str(code)]
    shape = ["-N", "4", "--ntasks-per-node", "2", "-w", ",".join(cluster.nodes)]
    places = {"live": f"{desk.path}/live", "script": f"{desk.path}/script"}
    assert cluster.alice(["mkdir", *places.values()]).code == 0
    shared = {**THEIRS, "SECRET": "x y", "PATH": f"{desk.path}:/usr/local/bin:/usr/bin:/bin"}
    env = {name: {**shared, "CALLS": place} for name, place in places.items()}
    live = cluster.mnrun(*words, env=env["live"], cwd=desk.path)
    job = submit(cluster, desk, *shape, *words, env=env["script"])
    assert cluster.alice(["mnrun", "wait", job]).code == code == live.code, (output(desk, job), live)
    kept = cluster.path("/home/alice/.mnrun")
    assert json.loads((kept / "jobs" / job / "0" / "outcome").read_text())["code"] == code
    assert not [path for path in kept.rglob("*") if path.is_file() and b"x y" in path.read_bytes()]
    result = end(cluster, desk, job)
    assert result.code == code, result
    assert said(result.err) == said(live.out) != [], (result, live)
    made = calls(cluster, places["live"])
    assert len(made) >= 2, made  # at least the guards and the program
    assert calls(cluster, places["script"]) == made
    for rank in range(8):
        alone, submitted = (found(cluster, places[name], rank) for name in ("live", "script"))
        assert submitted.keys() == alone.keys(), submitted.keys() ^ alone.keys()
        assert common(submitted) == common(alone), rank
        wanted = {**THEIRS, "job_chdir": "/x", "here": "there"}
        assert {name: alone.get(name) for name in wanted} == wanted, rank
