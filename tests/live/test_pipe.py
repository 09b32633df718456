"""The pipe, the default: inside-out with no sshd, no key and no port, in any image that has sh and an MPI."""

from __future__ import annotations

import os
import random
import shlex
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from rehearsal import images, recipe

from .batch import end, submit
from .cells import HELLO, NOSSHD, OMPI5, Way, one
from .reports import check, everybody_spoke, mine
from .stage import Cluster, Desk, Result
from .stranger import kill

PIPED = tuple(Way("inside", image) for image in ("ompi5", "ompi4", "mpich"))


@pytest.fixture(scope="session")
def rare() -> None:
    images.ensure([recipe.BARE, recipe.BUSYBOX, recipe.NEWER])


def run(cluster: Cluster, desk: Desk, text: str, *words: str, image: str = NOSSHD, nodes: int = 2) -> Result:
    path = desk.put("job.sh", f"#!/bin/sh\n{text}\n", 0o755)
    given = ("--connect", "pipe", "--image", image, "--script", path, "--", desk.path, *words)
    return cluster.mnrun(*given, nodes=nodes)


@pytest.fixture
def no_ssh(cluster: Cluster) -> Iterator[None]:
    """No node gets a word of ssh's to another, at whatever port: what it begins with is refused on its way out."""
    chain = "OUTPUT -p tcp -m string --algo bm --string SSH-2.0- -j REJECT --reject-with tcp-reset"
    with ExitStack() as stack:
        for node in cluster.nodes:
            cluster.root(node, "iptables", "-A", *chain.split())
            stack.callback(cluster.root, node, "iptables", "-D", *chain.split())
        for node, other in zip(cluster.nodes, (*cluster.nodes[1:], *cluster.nodes)):
            refused = cluster.alice(["ssh", other, "true"], node=node)
            assert (refused.code, "reset by" in refused.err) == (255, True), refused
        yield


@pytest.mark.usefixtures("no_ssh")
@pytest.mark.parametrize("way", one(1, PIPED), ids=str)
def test_pipe_without_sshd_key_or_port(cluster: Cluster, desk: Desk, way: Way) -> None:
    """Every MPI runs where no node can reach another by ssh; and though these images have sshd, nowhere does one run,
    and there is no key of one."""
    there = "pgrep -x sshd; ls /tmp/mnrun.*/box/key /tmp/mnrun.*/box/hostkey"
    text = f"mpirun {HELLO}\nfor node in node01 node02 node03 node04; do ssh -n $node '{{ {there}; }} 2>&1'; done"
    path = desk.put("job.sh", f"#!/bin/sh\n{text}\n", 0o755)
    result = cluster.mnrun(*way.words, "--script", path)
    lines = result.out.splitlines()
    check(Result(0, "\n".join(line for line in lines if line.startswith("rank ")).encode(), ""), *cluster.nodes)
    rest = [line for line in lines if not line.startswith("rank ")]
    assert len(rest) == 8, result
    assert all("No such file" in line for line in rest), result


@pytest.mark.xdist_group("rare")  # who waits for the same images to be built
@pytest.mark.usefixtures("rare")
@pytest.mark.parametrize("image", ["bare", "busybox", "newer"])
def test_pipe_any_image(cluster: Cluster, image: str) -> None:
    """No openssh, no bash and no user but root; nothing but busybox; a glibc newer than the nodes'."""
    # Open MPI 6, a release candidate there, takes lo for a way to the others
    words = ["-v", "-x", "OMPI_MCA_btl_tcp_if_include=eth0", "--image", f"/images/{image}.sif", "--", HELLO]
    check(cluster.mnrun(*words, nodes=3), *cluster.nodes[:3])


@pytest.mark.xdist_group("rare")
@pytest.mark.usefixtures("rare")
def test_pipe_streams_in_busybox(cluster: Cluster, desk: Desk) -> None:
    text = (
        'seq 30000 | ssh node02 "cat; echo err >&2; exit 3" >"$1/out" 2>"$1/err"; echo $?; seq 30000 | cmp - "$1/out"\n'
        "timeout -s INT 5 ssh -n node02 sleep 600; echo $?; while ssh -n node02 pgrep sleep >/dev/null; do :; done"
    )
    result = run(cluster, desk, text, image="/images/busybox.sif")
    assert (result.code, result.out, desk.read("err")) == (0, "3\n255\n", b"err\n"), result


@pytest.fixture
def directory(cluster: Cluster) -> Iterator[str]:
    place = "/var/tmp/tree"
    offset = "$(apptainer sif list /images/nosshd.sif | sed -n 's/.*|\\([0-9]*\\)-[0-9]* *|FS (Squashfs.*/\\1/p')"
    for node in cluster.nodes[:2]:
        mount = f"mkdir {place} && squashfuse -o allow_other,ro,offset={offset} /images/nosshd.sif {place}"
        cluster.root(node, "sh", "-c", mount)
    yield place
    for node in cluster.nodes[:2]:
        cluster.root(node, "sh", "-c", f"umount {place} && rmdir {place}")


def test_pipe_in_a_read_only_directory(cluster: Cluster, directory: str) -> None:
    """A sandbox, as Apptainer calls it, of somebody else's."""
    check(cluster.mnrun("--image", directory, "--", HELLO, nodes=2), *cluster.nodes[:2])


STREAMS = """
dir=$1
ssh -x -q -T -o BatchMode=yes -p 22 -l me -i /k node02 -n 'uname -n; exit 7'; echo "code $?"
ssh -qn me@node02 printf '%s,' "'a  b'" '"$((1+1))"' "';'" "'*'" "'ü\\\\n'"; echo
ssh -n node02 'echo err >&2; echo out' 2>"$dir/err"
echo hello | ssh node02 'cat; echo end'
echo 'uname -n; echo typed' | ssh node02
ssh node02 cat </dev/null; echo "null $?"
ssh -n nowhere true; echo "code $?"
ssh -n node02 'kill -9 $$'; echo "code $?"
ssh -n "$(getent hosts node02 | cut -d' ' -f1)" uname -n
ssh -n localhost uname -n
ssh -f node02 "until [ -e '$dir/seen' ]; do sleep 0.1; done; echo late >'$dir/done'"; echo "behind $?"
touch "$dir/seen"
until [ -s "$dir/done" ]; do sleep 0.1; done; cat "$dir/done"
ssh -n node02 "echo $(head -c 9000 /dev/zero | tr '\\0' x)" | wc -c
ssh -n node02 yes | head -n 1
ssh node02 "tee '$dir/there'" <"$dir/data" >"$dir/back"; echo "code $?"
cat "$dir/data" | ssh node02 true; echo "unread $?"
"""
SAID = """\
node02
code 7
a  b,2,;,*,ü\\n,
out
hello
end
node02
typed
null 0
code 255
code 137
node02
node01
behind 0
late
9001
y
code 0
unread 0
"""


def test_pipe_words_and_streams(cluster: Cluster, desk: Desk) -> None:
    """ssh's options, words, exit codes; output and errors apart; 1 MB of all bytes there and back."""
    data = random.Random(5).randbytes(1_000_000)
    desk.put("data", data)
    result = run(cluster, desk, STREAMS)
    assert (result.code, result.out) == (0, SAID), result
    assert "ssh: nowhere is not a node of this job, which has node01,node02" in result.err.splitlines(), result
    assert desk.read("err") == b"err\n"
    assert desk.read("there") == desk.read("back") == data


EIGHT = """
ssh -n node02 'yes' >/dev/null & stopped=$!
until ssh -n node02 'pgrep -x yes' >/dev/null; do :; done
kill -STOP $stopped
for n in 1 2 3 4 5 6 7; do ssh -n node02 "seq 20000; echo $n" >"$1/out.$n" & last="$last $!"; done
for pid in $last; do wait $pid || echo "code $?"; done
kill -TERM $stopped; kill -CONT $stopped; wait $stopped; echo "killed $?"
ssh -n node02 'sleep 600 & sleep 700' & far=$!
until ssh -n node02 'pgrep -x sleep | wc -l' | grep -qx 2; do :; done
kill $far; wait $far; echo "killed $?"
while ssh -n node02 'pgrep -x "sleep|yes"' >/dev/null; do :; done
ls -d /tmp/mnrun.*/box/ask.?????? 2>/dev/null || :
"""


def test_pipe_eight_at_once_of_which_one_is_slow(cluster: Cluster, desk: Desk) -> None:
    result = run(cluster, desk, EIGHT)
    assert (result.code, result.out) == (0, "killed 255\nkilled 255\n"), result
    numbers = b"".join(b"%d\n" % n for n in range(1, 20001))
    for n in range(1, 8):
        assert desk.read(f"out.{n}") == numbers + b"%d\n" % n


def test_pipe_a_worker_that_dies_is_named(cluster: Cluster) -> None:
    words = cluster.launch("--connect", "pipe", "--image", OMPI5, "--", HELLO, "-s", "3600", nodes=3)
    with cluster.running(words) as job:
        job.saying(everybody_spoke(6), "running on all ranks")
        there = [p for p in cluster.processes() if p.node == "node03"]
        serving = [p for p in there if (os.path.basename(p.argv[0]), p.argv[-1]) == ("sh", "worker.sh")]
        assert serving, cluster.processes()
        kill(serving)
        result = job.end()
    assert result.code == 121, result
    assert any(line.startswith("node03: its container ended with") for line in mine(result)), result


def test_pipe_submitted(cluster: Cluster, desk: Desk) -> None:
    text = f'mpirun {HELLO}; seq 9000 | ssh node02 "cat; echo err >&2; exit 3" >"$1/out" 2>"$1/err"; echo $? >"$1/code"'
    path = desk.put("job.sh", f"#!/bin/sh\n{text}\n", 0o755)
    words = ["-N", "3", "--ntasks-per-node", "2", "-w", "node[01-03]", "--image", NOSSHD]
    job = submit(cluster, desk, *words, "--script", path, "--", desk.path)
    result = end(cluster, desk, job)
    check(result, *cluster.nodes[:3])
    assert desk.read("out") == b"".join(b"%d\n" % n for n in range(1, 9001))
    assert (desk.read("err"), desk.read("code")) == (b"err\n", b"3\n"), shlex.quote(str(result))
