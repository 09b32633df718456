"""S7: what an image does that means no good, where an option keeps it from the user's files."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .batch import forget
from .cells import ENGINES, INSIDE, MPIRUN, SRUN, SSH, Way, some
from .stage import LOGIN, Cluster, Desk, wait_for
from .stranger import ALICE, at_once, kill

# The image's sh. It rewrites each script that it finds, plants pipes, links and scripts in the place of files that a
# guard might read, write or run, and says what only a guard may say. Then it is a shell.
EVIL = r"""#!/bin/bash
evil() {
  local file line="{ echo \"\$0 as \$(id -u) in \$PWD\" >>DESK/ran; } 2>/dev/null || :"
  cd "$1" && [[ -e own && ! -e .evil ]] && : >.evil || return
  for file in *.sh; do { echo "$line"; cat "$file"; } >.new; mv .new "$file"; done
  for file in transport_read.sh sweep.sh undertaker.sh enter.sh why.sh stop.sh clean_env.sh rules.sh pipe_demux.sh; do
    [[ -e $file ]] || echo "$line" >"$file"
  done
  mkfifo pid.{0..3} pid.serve held near sessions holder pmix heard/pipe enter.{1..30000}
  ln -s DESK/secret heard/link
  ln -sf DESK/precious fabric.env; ln -sf DESK/precious master; ln -s DESK/precious own.address
  : >heard/it >"alone.1"$'\n'"bye "
  printf '%s\n' 'bye ' 'gone 0' 'lost x' 'used a b c' 'pid 7 VICTIM' 'pid 7/../8 VICTIM' \
    "ask node02 7.7 run 0 0 :$line:" "answer node02 ../../x out 0-4 aaaa" 1<>up
}
for box in /tmp/mnrun.*/box /tmp/mnrun.*; do (evil "$box"); done >/dev/null 2>&1
exec -a sh /bin/bash "$@"
"""
PROGRAM = ("bash", "-c", "trap 'exit 3' USR1; echo up; sleep 3600 & wait")
APART = ("--no-home", "--chdir", "/")
VICTIM = "7200"  # the time for which a process of hers sleeps that is none of the job's
CONTAINED = (*APART, "--container-args", "--containall")
# --containall takes PMIx's variables from ranks of srun or of the host's mpirun. There, options like these are refused.
OUTSIDE = (*APART, "--container-args", "--contain")
CHARLIECLOUD = (*APART, "--container-args", "--private-tmp")
FORCE = "--force"
CELLS = [
    (INSIDE, CONTAINED),
    (SSH, CONTAINED),
    (SRUN, (*OUTSIDE, FORCE)),
    (MPIRUN, (*OUTSIDE, FORCE)),
    (Way("inside", "ompi5", runtime="singularity"), OUTSIDE),
    (Way("srun", "ompi5", runtime="singularity"), (*OUTSIDE, FORCE)),
    (Way("inside", "ompi5", runtime="docker"), (*APART, "--hardened")),
    (Way("srun", "ompi5", runtime="docker"), (*APART, FORCE)),
    (Way("inside", "ompi5", runtime="podman"), APART),
    (Way("srun", "ompi5", runtime="podman"), (*APART, FORCE)),
    (Way("inside", "ompi5", runtime="charliecloud"), CHARLIECLOUD),
    (Way("srun", "ompi5", runtime="charliecloud"), (*CHARLIECLOUD, FORCE)),
]


@contextmanager
def victim(cluster: Cluster, node: str) -> Iterator[str]:
    script = f'set -- $(cat /proc/$$/stat); echo "$1 ${{22}}"; exec sleep {VICTIM}'
    with cluster.running(["sh", "-c", script], node=node) as process:
        yield process.saying(lambda said: " " in said.out, "asleep").out.strip()


def lives(cluster: Cluster) -> bool:
    return any(VICTIM in process.argv for process in cluster.processes())


@contextmanager
def evil(cluster: Cluster, desk: Desk, *words: str, tasks: int = 1) -> Iterator[list[str | bytes]]:
    desk.put("secret", "top secret\n", 0o600)
    desk.put("precious", "results of years\n")
    with victim(cluster, cluster.nodes[0]) as process:
        place = desk.put("sh", EVIL.replace("DESK", desk.path).replace("VICTIM", process), 0o755)
        yield cluster.launch(*words, "-B", f"{place}:/bin/sh", "--", *PROGRAM, nodes=2, tasks=tasks)
        assert lives(cluster)
    names = desk.names()
    assert "ran" not in names, desk.read("ran").decode()
    assert names == ["precious", "secret", "sh"]
    assert (desk.read("precious"), desk.read("secret")) == (b"results of years\n", b"top secret\n")


@pytest.mark.parametrize(
    ("way", "options"),
    some(CELLS, [CELLS[n] for n in (0, 2, 6, 10)]),
    ids=lambda value: str(value) if isinstance(value, Way) else "",
)
def test_an_evil_image(engines: Cluster, desk: Desk, way: Way, options: list[str]) -> None:
    """S7: nothing of it runs on a node, nothing outside is read, written or signalled, and the job ends as any other.

    Commands enter its containers meanwhile.
    """
    cluster, tasks = engines, 1 if way.start == "inside" else 2  # two share a container
    with evil(cluster, desk, *way.words, *options, tasks=tasks) as line, cluster.running(line) as job:
        job.saying(lambda said: said.out.count("up\n") == 2 * tasks, "up on both nodes")
        entered = cluster.alice(["mnrun", "exec", "--rank", str(tasks), "--", "bash", "-c", "cat; uname -n"], b"given ")
        assert (entered.code, entered.out) == (0, f"given {cluster.nodes[1]}\n"), entered
        assert cluster.alice(["mnrun", "why"]).code == 0
        if way.start == "inside":
            cluster.alice(["scancel", "--signal=USR1", *cluster.root(LOGIN, "squeue", "-h", "-o", "%i").split()])
        else:  # Slurm's signal goes to the host's mpirun, and to a runtime
            kill(cluster.mnruns(), signal.SIGTERM)
        result = job.end()
        assert result.code == (3 if way.start == "inside" else 143), result


def test_an_evil_image_whose_job_is_killed(cluster: Cluster, desk: Desk) -> None:
    """S7: all killed at once. What is left is removed by the next question, and nothing of it runs then either."""

    def left() -> list[Path]:
        return [place for node in cluster.nodes[:2] for place in cluster.path("/tmp", node).glob("mnrun.*-*")]

    with evil(cluster, desk, *INSIDE.words, *CONTAINED) as line:
        with cluster.running(line) as job:
            job.saying(lambda said: said.out.count("up\n") == 2, "up on both nodes")
            launchers = cluster.mnruns()
            kill(launchers, signal.SIGSTOP)  # so that it sends no step after them
            mine = [process for process in cluster.processes() if process.uid == ALICE and process.node != LOGIN]
            at_once([process for process in mine if VICTIM not in process.argv])
            kill(launchers)
            job.end()
        wait_for(lambda: not cluster.root(LOGIN, "squeue", "-h"), "over")
        assert len(left()) == 2
        cleaned = cluster.alice(["salloc", "-Q", "-N2", "-w", ",".join(cluster.nodes[:2]), "mnrun", "clean", "--nodes"])
        assert cleaned.code == 0, cleaned
        assert left() == []
        forget(cluster)


REACHES = """
can() { if sh -c "$2" >/dev/null 2>&1; then echo "$1"; fi; }
can home "cat DESK/secret && : >DESK/new"
for side in /tmp/mnrun.*-*; do can node "[ -e $side/guard.sh ] && : >$side/new"; done
can processes "cat /proc/[0-9]*/cmdline | tr '\\\\0' _ | grep -q 'sleep_[7]200'"
"""
NODE, HOME, OTHERS = {"node"}, {"home"}, {"processes"}
# runtime, options -> the reach of a program in its container inside-out. Outside-in, each sees processes, too.
REACHED: list[tuple[str, tuple[str, ...], set[str]]] = [
    ("apptainer", (), HOME | NODE),
    ("apptainer", APART, NODE),
    ("apptainer", OUTSIDE, set()),
    ("charliecloud", (), HOME | NODE | OTHERS),
    ("charliecloud", APART, NODE | OTHERS),
    ("charliecloud", CHARLIECLOUD, OTHERS),
    *(
        (runtime, options, reach)
        for runtime in ENGINES
        for options, reach in (((), HOME), (APART, set()), ((*APART, "--hardened"), set()))
    ),
]


@pytest.mark.parametrize(("runtime", "options", "reach"), some(REACHED, [REACHED[n] for n in (1, 2, 5, 6)]))
def test_what_an_image_reaches(
    engines: Cluster, desk: Desk, runtime: str, options: tuple[str, ...], reach: set[str]
) -> None:
    """S7: the table of docs/security.md."""
    desk.put("secret", "top secret\n", 0o600)
    with victim(engines, engines.nodes[0]):
        for start, more in ("inside", set()), ("srun", OTHERS):
            words = Way(start, "ompi5", runtime=runtime).words if runtime != "apptainer" else Way(start, "ompi5").words
            program = ("sh", "-c", REACHES.replace("DESK", desk.path))
            line = engines.launch(*words, *options, "--", *program, nodes=1, tasks=1)
            if start == "srun" and options:
                assert engines.alice(line).code == 122
                line = engines.launch(*words, *options, FORCE, "--", *program, nodes=1, tasks=1)
            result = engines.alice(line)
            assert (result.code, {*result.out.split()}) == (0, reach | more), result
