"""B10: hosts on which the user's login shell is not sh's kin: what reaches a program is what was typed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import product

import pytest

from .cells import HELLO, INSIDE, MPIRUN, OMPI5, some
from .reports import check
from .stage import LOGIN, Cluster, Desk
from .test_hostile_user import login_shell

HOSTS = ("--hosts", "node[01-02]:1")
ANY = (
    *("a!b", "!!", "two\nlines", "end\n", "it's", '"', "$HOME", "back\\slash\\", "\\!", "`x`", "*", "", "%h"),
    *("{node}", "ü"),
)
FIRST = '[ "${OMPI_COMM_WORLD_RANK:-${RANK:-0}}" != 0 ] || '
SHOW = ("sh", "-c", FIRST + 'printf "%s\\0" "$@"', "sh")
SUM = ("sh", "-c", FIRST + 'printf "%s\\n" "$@" | sha256sum', "sh")  # Open MPI 5 mixes up output of more than 64 kB
BASH, TCSH, ZSH = "/bin/bash", "/bin/tcsh", "/usr/bin/zsh"
EACH = tuple(product((TCSH, ZSH, BASH), ("ssh", "paramiko", "pdsh")))


@pytest.fixture
def shell(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[str]:
    """Alice's, on all nodes; tcsh reads a file of hers that sets what `!` means for it."""
    cluster.root(LOGIN, "test", "-x", request.param)
    with login_shell(cluster, request.param):
        cluster.put("/home/alice/.cshrc", "set history = 100\nset prompt = '> '\n")
        try:
            yield request.param
        finally:
            cluster.path("/home/alice/.cshrc").unlink()


@pytest.mark.parametrize(("shell", "rsh"), some(EACH, [(TCSH, "pdsh"), (ZSH, "ssh")]), indirect=["shell"])
def test_words_on_hosts_of_any_login_shell(cluster: Cluster, desk: Desk, shell: str, rsh: str) -> None:
    for way in (INSIDE, MPIRUN):
        words = ["mnrun", *HOSTS, "--rsh", rsh, "--connect", "ssh", *way.words]
        check(cluster.alice([*words, "--", HELLO]), *cluster.nodes[:2], tasks=1)
        said = cluster.alice([*words, "--", *SHOW, *ANY])
        assert said.code == 0, said
        assert said.raw.split(b"\0")[:-1] == [word.encode() for word in ANY], said
    sent = bytes(range(256)) * 1000
    script = desk.put("job.sh", "#!/bin/sh\nexec sha256sum\n", 0o755)
    summed = cluster.alice(["mnrun", *HOSTS, "--rsh", rsh, *INSIDE.words, "--script", script], sent)
    assert summed.out.split()[:1] == [hashlib.sha256(sent).hexdigest()], summed
    for launcher, number in (("mpirun", 4000), ("env", 25000)):  # Open MPI itself takes no more than 128 kB
        many = [f"/data/run/{place:06}.root" for place in range(number)]
        words = ["mnrun", *HOSTS, "--rsh", rsh, *INSIDE.words, "--launcher", launcher, "--", *SUM, *many]
        summed = cluster.alice(words)
        assert summed.code == 0, summed
        assert summed.out.split()[:1] == [hashlib.sha256("".join(f"{word}\n" for word in many).encode()).hexdigest()], (
            summed
        )


@pytest.mark.parametrize("shell", some((TCSH, ZSH, BASH), (TCSH, ZSH)), indirect=True)
def test_an_image_for_hosts_of_any_login_shell(cluster: Cluster, shell: str) -> None:
    """--stage and the verdict, whose scripts are of many lines; and `mnrun check`."""
    try:
        result = cluster.alice(["mnrun", *HOSTS, "--stage", "-v", "--image", OMPI5, "--", HELLO])
        check(result, *cluster.nodes[:2], tasks=1)
        for word in ("Event not found", "Unmatched", "not found"):
            assert word not in result.err, result
        surveyed = cluster.alice(["mnrun", "check", *HOSTS])
        assert surveyed.code == 0, surveyed
        assert "node[01-02]" in surveyed.out, surveyed
    finally:
        for node in cluster.nodes[:2]:
            cluster.root(node, "rm", "-rf", "/var/tmp/mnrun.alice")
