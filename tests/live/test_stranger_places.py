"""What bob leaves where everybody may write: names that a process of alice's could look up by its working directory."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from .batch import forget
from .cells import INSIDE, MAIN, MPIRUN, OMPI5, SRUN, Way, some
from .stage import LOGIN, Cluster, Desk, Result
from .stranger import BARE, FIRST, LAIR, SECOND, SRUN_HOST, Stranger, project

NODES = f"{FIRST},{SECOND}"
# An empty element of either means the working directory (bash(1), PATH; ld.so(8), LD_LIBRARY_PATH).
SEARCHED = ("env", "LD_LIBRARY_PATH=/opt/app/lib:", "PATH=:/usr/local/bin:/usr/bin:/bin:")
# Programs of bob's have the names of all that a node has, and of some that it has not. Two libraries are no libraries:
# a program that looks there does not start.
SOWN = f"""
import os
with open("{LAIR}/program", "w") as file:
    file.write('#!/bin/sh\\n/usr/bin/id >{LAIR}/ran/$$; echo "$0 $*" >>{LAIR}/ran/$$\\n')
os.chmod("{LAIR}/program", 0o755)
names = {{name for place in ("/usr/bin", "/usr/sbin", "/usr/local/bin") for name in os.listdir(place)}}
for place in ("/tmp", "/var/tmp", "/dev/shm"):
    for name in names | {{"nvidia-smi", "rocm-smi", "ibstat", "singularity"}}:
        os.symlink("{LAIR}/program", f"{{place}}/{{name}}")
    for name in ("libtinfo.so.6", "libc.so.6"):
        open(f"{{place}}/{{name}}", "w").write("none")
"""


def test_stranger_is_in_no_working_directory(cluster: Cluster, bob: Stranger, desk: Desk) -> None:
    """(S1) Each way to a node, with a PATH and an LD_LIBRARY_PATH as `export PATH=$PATH:$UNSET` makes them."""
    desk.put("job.sh", "#!/bin/sh\ntrue\n", 0o755)
    held = (*SEARCHED, "salloc", "-Q", "-N2", "-w", NODES, "--ntasks-per-node=1")
    hosts = (*SEARCHED, "mnrun", "-Q", "--hosts", NODES)
    lines = (
        (*held, "mnrun", "-Q", *BARE.words, "--", "true"),
        (*held, "mnrun", "-Q", *MPIRUN.words, "--", "true"),
        (*held, "mnrun", "plan", *SRUN_HOST, "--", "true"),
        (*held, "mnrun", "check"),
        (*held, "srun", "srun_singularity.sh", f"--container={OMPI5}", "--script=./job.sh"),
        (*hosts, "--rsh", "ssh", *BARE.words, "--", "true"),
        (*hosts, "--rsh", "paramiko", *BARE.words, "--", "true"),
        (*SEARCHED, "mnrun", "submit", "--wait", "-N2", "-w", NODES, *BARE.words, "--", "true"),
        (*SEARCHED, "mnrun", "-Q", "--local", *MPIRUN.words, "--", "true"),
        (*held, "mnrun", "clean", "--nodes"),
    )
    more = (
        (*SEARCHED, "mnrun", "check", "--hosts", NODES),
        (*held, "mnrun", "image", "verify", OMPI5),
        (*SEARCHED, "mnrun", "plan", "--hosts", NODES, *MPIRUN.words, "--", "true"),
        (*SEARCHED, "mnrun", "image", "inspect", OMPI5),
    )
    for node in (LOGIN, FIRST, SECOND):
        assert cluster.alice(["/usr/bin/python3", "-c", SOWN], node=node, user="bob").code == 0
    for line in some((*lines, *more), lines):
        result = cluster.alice(line, cwd=desk.path)
        assert bob.ran() == [], result
        assert (result.code, "shared libraries" in result.err) == (0, False), result
    forget(cluster)


def test_stranger_has_a_directory_of_that_name(cluster: Cluster, bob: Stranger) -> None:
    """(S1, F5) A runtime, and the host's mpirun, begin in alice's working directory. On the node, that name is a
    directory of bob's."""
    place = "/var/tmp/work"
    names = "apptainer squashfuse_ll mpirun prterun prted orted srun ssh sh rm uname"
    bob.does(f'mkdir "$1"; for name in {names}; do cp {LAIR}/evil/say "$1/$name"; done; chmod 755 "$1"', place)
    line = [*SEARCHED, "salloc", "-Q", "-N1", "-n1", "-w", FIRST, "mnrun", "-Q"]
    cluster.root(LOGIN, "install", "-d", "-o", "alice", place)
    try:
        hosts = [Way(start, "host").words for start in ("inside", "mpirun", "srun")]
        hosts += [[*hosts[2], "--label"], ["--runtime", "host", "--launcher", "env"]]
        for way in (*(way.words for way in MAIN), *hosts):
            result = cluster.alice([*line, *way, "--", "true"], cwd=place)
            assert (result.code, bob.ran()) == (0, []), result
    finally:
        cluster.root(LOGIN, "rm", "-r", place)


def test_stranger_may_write_where_ranks_do(cluster: Cluster, stranger: Stranger, desk: Desk) -> None:
    """(F4) The names of the ranks' files are mnrun's: it makes each anew, and goes through no link and no pipe."""
    desk.put("victim", "precious\n")
    plants = 'cd "$1"; mkdir -m 777 ranks; ln -s "$2/victim" ranks/rank.0.out; ln -s "$2/none" ranks/rank.0.err'
    plants += "; mkfifo -m 666 ranks/rank.1.out ranks/rank.1.err"
    for way in some(MAIN, [INSIDE, SRUN]):
        with project(cluster, stranger.name) as shared:
            stranger.does(plants, shared, desk.path, node=LOGIN)
            words = ("--split-output", f"{shared}/ranks", "--", "sh", "-c", "echo out; echo err >&2")
            result = cluster.mnrun(*way.words, *words, nodes=1)
            said = {
                path.name: (path.is_symlink(), path.read_text()) for path in cluster.path(f"{shared}/ranks").iterdir()
            }
        assert result.code == 0, result
        wanted = {f"rank.{rank}.{stream}": (False, f"{stream}\n") for rank in range(2) for stream in ("out", "err")}
        assert (said, desk.names(), desk.read("victim")) == (wanted, ["victim"], b"precious\n")


# Records below a directory of several users

# Directories of the next jobs, with links under the names of records.
TRAPS = """
cd "$1"
for job in $(seq "$2" "$(($2 + 9))"); do
  mkdir -p "$job/0"
  for name in submitted .submitted.new script .script.new 0/begun 0/.begun.new 0/log 0/outcome 0/.outcome.new; do
    ln -s "$3" "$job/$name"
  done
  chmod 777 "$job" "$job/0"
done
"""


def submit(cluster: Cluster, desk: Desk, base: str, *words: str) -> Result:
    options = ("--job-dir", base, *words, "-N1", "-w", FIRST, *BARE.words)
    return cluster.alice(["mnrun", "submit", *options, "--", "sh", "-c", "echo ran >ran"], cwd=desk.path)


@pytest.fixture
def commons(cluster: Cluster) -> Iterator[str]:
    base = "/home/commons"
    cluster.root(LOGIN, "install", "-d", "-m", "1777", base)
    yield base
    cluster.root(LOGIN, "rm", "-rf", base)
    forget(cluster)


def test_stranger_foretells_the_records(cluster: Cluster, bob: Stranger, desk: Desk, commons: str) -> None:
    """(S6) The next jobs have directories of bob's there: nothing is written through his links, and nothing runs."""
    desk.put("results", "results\n")
    assert submit(cluster, desk, commons, "--wait").code == 0, "a directory with the sticky bit is fine"
    assert desk.read("ran") == b"ran\n"
    cluster.alice(["rm", f"{desk.path}/ran"])
    (first,) = [path.name for path in cluster.path(commons).iterdir()]
    bob.does(TRAPS, commons, str(int(first) + 1), f"{desk.path}/results", node=LOGIN)
    refused = submit(cluster, desk, commons)
    assert refused.code == 2, refused
    assert f"{commons}/{int(first) + 1}: it belongs to another user" in refused.err, refused
    job = str(int(first) + 2)  # handed in by hand, so that the node refuses
    script = submit(cluster, desk, commons, "--dry-run").out
    desk.put("job.sh", script)
    line = ("sbatch", "-Q", "--wait", "-N1", "-w", FIRST, "-o", "out", "-e", "err", "job.sh")
    assert cluster.alice(line, cwd=desk.path).code == 121, desk.read("err")
    assert f"{commons}/{job}: it belongs to another user" in desk.read("err").decode()
    assert desk.read("results") == b"results\n"
    assert "ran" not in desk.names()
    bob.does('cd "$1/$2" && rm 0/begun 0/outcome && echo "$3" | tee 0/begun >0/outcome', commons, job, LIE, node=LOGIN)
    seen = cluster.alice(["mnrun", "status", "--job-dir", commons])
    assert "a lie" not in seen.out, seen
    assert cluster.alice(["mnrun", "wait", "--job-dir", commons, job]).code == 121
    bob.does(LAUNCH, commons, job, LIE, node=LOGIN)
    for verb in ("logs", "why", "exec", "report", "status", "cancel"):
        asked = [job, *(("--", "touch", f"{desk.path}/ran") if verb == "exec" else ())]
        seen = cluster.alice(["mnrun", verb, "--job-dir", commons, *asked])
        assert not re.search("a lie|Traceback", seen.out + seen.err), f"{verb}: {seen}"
        assert "ran" not in desk.names(), f"{verb}: {seen}"
        assert seen.code != 0 or verb != "exec", seen


# A launch under way, in the job's directory and in one of a live run.
LAUNCH = """
    cd "$1" && rm -f "$2/0/outcome" "$2/submitted" && mkdir -m 777 "$2-aaaaaa"
    for place in "$2/0" "$2-aaaaaa"; do
        echo '{"job": "'$2'-aaaaaa", "scheduler": "slurm", "number": "'$2'", "node_dir": "/tmp/mnrun.'$2'-aaaaaa", \
            "nodes": ["node01"], "title": "a lie"}' >"$place/launch.json"
        echo "$3" >"$place/log"
        echo "1 1 login" >"$place/launcher"
        chmod 666 "$place"/*
    done
"""
LIE = '{"time": 4000000000, "code": 0, "why": "a lie"}'


def test_records_where_only_a_group_of_ones_own_may_write(cluster: Cluster, desk: Desk, commons: str) -> None:
    """(S6) That is nobody else."""
    cluster.root(LOGIN, "install", "-d", "-m", "775", "-o", "alice", "-g", "alice", commons)
    live = cluster.mnrun("-Q", "--job-dir", commons, *BARE.words, "--", "true", nodes=1, tasks=1)
    assert live.code == 0, live
