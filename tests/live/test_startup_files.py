"""Files that the user's shells read on the nodes: they may print, read, sleep and change things, and end the shell."""

from __future__ import annotations

import pytest

from .cells import INSIDE, MPIRUN, Way
from .stage import LOGIN, Cluster
from .test_hostile_user import in_home

# Each reading tells who has started the shell.
NASTY = """read -r parent </proc/$PPID/comm; echo "$parent" >>/home/alice/readers
echo welcome; echo noise >&2; printf 42
read -r -t 0.1 _ || :
cd /tmp; umask 000; trap "" USR1; sleep 0.1; set -e
"""
HOSTS = ("mnrun", "-Q", "--hosts", "node[01-02]:1")
PROGRAM = ("--", "bash", "-c", 'echo "out $PWD"; exit 7')
REACHED = {
    "paramiko": (*HOSTS, "--rsh", "paramiko", *INSIDE.words, "--chdir", "/home/alice", *PROGRAM),
    "ssh": (*HOSTS, "--rsh", "ssh", *INSIDE.words, "--chdir", "/home/alice", *PROGRAM),
    "pdsh": (*HOSTS, "--rsh", "pdsh", *MPIRUN.words, "--chdir", "/home/alice", *PROGRAM),
    "pdsh-host": (*HOSTS, "--rsh", "pdsh", *Way("inside", "host").words, "--chdir", "/home/alice", *PROGRAM),
}
LINE = "mnrun -Q --runtime host --launcher env --chdir /home/alice"
BELOW = {"local": f"{LINE} --local", "salloc": f"salloc -Q -N2 {LINE}", "ssh": f"salloc -Q -N2 {LINE} --connect ssh"}


@pytest.mark.parametrize("way", REACHED)
def test_hosts_whose_shells_read_a_nasty_file(cluster: Cluster, way: str) -> None:
    """(F1) The program's own output and code arrive, and no shell but those of ssh's connections has read the file."""
    with in_home(cluster, {".bashrc": NASTY, "readers": ""}):
        result = cluster.alice(REACHED[way])
        readers = cluster.path("/home/alice/readers").read_text().split()
    assert result.code == 7, result
    assert set(result.out.splitlines()) == {"out /home/alice"}, result
    assert "noise" not in result.err, result
    assert {reader.partition("-")[0] for reader in readers} == {"sshd"}, readers


@pytest.mark.parametrize("way", BELOW)
def test_a_launch_from_a_shell_that_reads_a_nasty_file(cluster: Cluster, way: str) -> None:
    """(F1) As by `ssh login '…'`: that shell reads the file, and no other does."""
    with in_home(cluster, {".bashrc": NASTY, "readers": ""}):
        result = cluster.alice(["ssh", LOGIN, f"exec {BELOW[way]} -- bash -c 'echo \"out $PWD\"; exit 7'"])
        readers = cluster.path("/home/alice/readers").read_text().split()
    assert result.code == 7, result
    assert result.out.startswith("welcome\n42out "), result
    assert set(result.out.split()[1:]) <= {"42out", "out", "/home/alice", "/tmp"}, result
    assert len(readers) == 1, readers


def test_a_file_that_ends_the_shell(cluster: Cluster) -> None:
    """(F1) The message names the code, and where to look. Nothing has begun."""
    with in_home(cluster, {".bashrc": "exit 3\n"}):
        for rsh in ("ssh", "paramiko", "pdsh"):
            result = cluster.alice([*HOSTS, "--rsh", rsh, "--runtime", "host", *PROGRAM])
            assert (result.code, result.out) == (121, ""), result
            assert "its login shell ended with 3" in result.err, result
