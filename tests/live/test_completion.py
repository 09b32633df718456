"""The values of words, as bash, zsh and fish complete them on a TAB: jobs, nodes, partitions, images and profiles."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from rehearsal import recipe, trees

from .batch import forget, submit
from .stage import LOGIN, Cluster, Desk, Result, wait_for
from .terminal import Terminal

ASLEEP = ("--name", "tabbed", "-N", "1", "-t", "5", "--runtime", "host", "--launcher", "env", "--", "sleep", "300")
SMALL = "docker://login:5000/small:1"
CACHE = "/home/alice/.mnrun/cache"
# Prints the words with which the last word of a line may go on.
BASH = """
eval "$(mnrun completion bash)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_mnrun_completion mnrun
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = "mnrun completion fish | source; complete --do-complete $argv[1]"
# `list-choices` only shows them, also where there is one.
ZSH = """autoload -U compinit && compinit -u -D; bindkey '^I' list-choices
eval "$(mnrun completion zsh)"; echo re''ady
"""


def in_bash(cluster: Cluster, line: str, *environ: str) -> Result:
    return cluster.alice(["env", *environ, "bash", "-c", BASH, "bash", *line.split(" ")])


@pytest.fixture
def job(cluster: Cluster, desk: Desk) -> Iterator[str]:
    """A job that runs."""
    made = submit(cluster, desk, *ASLEEP)
    wait_for(lambda: cluster.alice(["mnrun", "exec", made, "--", "true"]).code == 0, "running")
    yield made
    cluster.alice(["mnrun", "cancel", made])
    cluster.alice(["mnrun", "wait", made])
    forget(cluster)


@pytest.fixture(scope="module")
def fish(cluster: Cluster) -> None:
    subprocess.run(["cp", "-a", trees.layer("trixie", recipe.FISH) / "usr", cluster.path("/")], check=True)


def test_bash(cluster: Cluster, job: str) -> None:
    for verb in ("logs", "cancel", "exec", "why", "serve --show"):
        assert job in in_bash(cluster, f"mnrun {verb} ").out.split(), verb
    node = cluster.alice(["mnrun", "exec", job, "--", "hostname"]).out.strip()
    values = {
        "mnrun logs tab": ["tabbed"],
        f"mnrun exec {job} --node ": [node],
        "mnrun submit -w node01,": [f"node01,{name}" for name in cluster.nodes[1:]],
        "mnrun run --partition ": ["main"],
        "mnrun nodes -p ": ["main"],
        "mnrun image build base-": ["base-mpich", "base-openmpi"],
        "mnrun run --profile ": [""],
    }
    assert {line: in_bash(cluster, line).out.splitlines() for line in values} == values
    assert f"{job}:" in in_bash(cluster, "mnrun cp ").out.split()


def test_fish(cluster: Cluster, desk: Desk, job: str, fish: None) -> None:
    own = [f"XDG_{kind}_HOME={desk.path}" for kind in ("CONFIG", "DATA", "CACHE", "STATE")]

    def told(line: str) -> list[list[str]]:
        done = cluster.alice(["env", *own, "fish", "--no-config", "-c", FISH, line])
        assert done.err == "", done
        return [word.split("\t") for word in done.out.splitlines()]

    assert [job, "tabbed running"] in told("mnrun logs ")
    assert told("mnrun submit -p ")[0][0] == "main" and "nodes free" in told("mnrun submit -p ")[0][1]
    assert [words[0] for words in told("mnrun plan -w node01,node0")] == [
        f"node01,{name}" for name in cluster.nodes[1:]
    ]


def test_zsh(cluster: Cluster, job: str) -> None:
    with Terminal(cluster.argv(LOGIN, "alice", ["zsh", "-f", "-i"])) as terminal:
        terminal.write(ZSH)
        terminal.expect("ready\n")
        for begin, wanted in {
            f"mnrun logs {job}": "tabbed running",
            "mnrun submit -p ": "main +-- .* nodes free",
        }.items():
            terminal.write(f"{begin}\t")
            terminal.expect(wanted)
            terminal.write("\x15")


def test_a_terminal_of_bash(cluster: Cluster, job: str) -> None:
    """bash cuts a reference at its colons, and --image=NAME at its sign."""
    cluster.tool("registry")
    try:
        assert cluster.alice(["mnrun", "image", "pull", SMALL]).code == 0
        with Terminal(cluster.argv(LOGIN, "alice", ["bash", "--norc", "-i"])) as terminal:
            terminal.write("PS1='$ '; unset HISTFILE; eval \"$(mnrun completion bash)\"; echo re''ady\n")
            terminal.expect("ready\n")
            for begin in ("--image docker:", "--image=docker://login:5", "--image login:5000/"):
                terminal.write(f"mnrun plan {begin}\t")
                terminal.expect(rf"mnrun plan {begin[:8]}{SMALL[9:] if 'login:5000/' in begin else SMALL} ")
                terminal.write("\x15")
            terminal.write(f"mnrun cancel {job}\t\n")
            terminal.expect(f"job {job} was cancelled")
    finally:
        cluster.root(LOGIN, "rm", "-rf", CACHE)


def test_a_scheduler_that_is_silent(cluster: Cluster, desk: Desk, job: str) -> None:
    """The records alone tell of jobs then. Nothing is said, and nothing stays."""
    for name in ("squeue", "sinfo", "scontrol"):
        desk.put(name, "#!/bin/sh\nexec sleep 543\n", 0o755)
    around = (f"PATH={desk.path}:/usr/local/bin:/usr/bin:/bin", "MNRUN_POLL=1", "SLURM_CONF=/etc/slurm/slurm.conf")
    for line, wanted in (("mnrun logs ", [job]), ("mnrun submit -p ", [""])):
        done = in_bash(cluster, line, *around)
        assert (done.out.splitlines(), done.err) == (wanted, ""), done
    assert not any("543" in process.argv for process in cluster.processes())
    broken = in_bash(cluster, "mnrun submit -p ", "MNRUN_SCHEDULER=nonsense", "MNRUN_POLL=often")
    assert (broken.out, broken.err) == ("\n", "")
