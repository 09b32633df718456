"""Submitted jobs: handed in from a desk, looked at, and waited for; nothing of them stays."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .stage import LOGIN, Cluster, Desk, Result, wait_for
from .terminal import Terminal

# The size of a job on two nodes of a batch system.
SIZE = ("-N", "2", "--ntasks-per-node", "2")
SHAPE = (*SIZE, "-w", "node01,node02")
# Says that it is up; tells of every USR1, and goes a second after the first.
USR1 = """\
#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK-$PMIX_RANK}
trap 'echo "got $rank"; got=1' USR1
echo "up $rank"
until [ "${got-}" ]; do sleep 0.1; done
sleep 1
"""


def submit(cluster: Cluster, desk: Desk, *words: str, env: Mapping[str, str] | None = None, **more: Any) -> str:
    """Return the id of the job that was handed in, from the desk."""
    given = ["env", *(f"{name}={value}" for name, value in env.items())] if env else []
    result = cluster.alice([*given, "mnrun", "submit", "-o", "%x-%A_%a-%j.out", *words], cwd=desk.path, **more)
    assert result.code == 0, result
    assert result.out.strip().isdecimal(), result
    return result.out.strip()


def submitted(cluster: Cluster, desk: Desk, *words: str, shape: Sequence[str] = SHAPE) -> Result:
    job = submit(cluster, desk, *shape, *words)
    code = cluster.alice(["mnrun", "wait", job], cwd=desk.path).code
    return Result(code, output(desk, job).encode(), "")


def from_outside(cluster: Cluster, desk: Desk, *words: str, shape: Sequence[str] = SHAPE) -> Result:
    """mnrun where no job is: it submits one, follows it, and returns its code."""
    return cluster.alice(["mnrun", *shape, *words], cwd=desk.path)


def ends_by_ctrl_c(cluster: Cluster, desk: Desk, *words: str) -> None:
    """Interrupt a run that has submitted its job. The job is cancelled."""
    line = ["mnrun", *words, "--", "sh", "-c", "echo up; exec sleep 600"]
    with Terminal(cluster.argv(LOGIN, "alice", line, desk.path)) as terminal:
        job = terminal.expect(r"this is job (\d+)")[1]
        terminal.expect("\nup\n")
        terminal.write("\x03")
        assert terminal.end() == 130
    assert cluster.alice(["mnrun", "wait", job]).code == 143


def state(cluster: Cluster, job: str) -> dict[str, str]:
    said = cluster.root(LOGIN, "scontrol", "-o", "show", "job", job)
    return dict(word.split("=", 1) for word in said.split() if "=" in word)


def output(desk: Desk, job: str) -> str:
    found = [name for name in desk.names() if name.endswith(f"-{job}.out")]
    return "".join(desk.read(name).decode() for name in found)


def programs(text: str | bytes) -> str:
    """Return what the program said, without mnrun's own lines."""
    whole = text if isinstance(text, str) else text.decode()
    return "".join(line for line in whole.splitlines(True) if not line.startswith("mnrun: "))


def end(cluster: Cluster, desk: Desk, job: str, seconds: float = 120) -> Result:
    """Return how it ended, by Slurm's word, and what it said."""
    wait_for(
        lambda: state(cluster, job)["JobState"] not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING"),
        "ended",
        seconds,
        lambda: output(desk, job),
    )
    code, _, signum = state(cluster, job)["ExitCode"].partition(":")
    said = output(desk, job)
    ours = "".join(f"{line}\n" for line in said.splitlines() if line.startswith("rank "))
    forget(cluster)
    return Result(int(code) or 128 * bool(int(signum)) + int(signum), ours.encode(), said)


def forget(cluster: Cluster) -> None:
    """Return what a submitted job keeps in the user's home on purpose."""
    cluster.root(LOGIN, "rm", "-rf", "/home/alice/.mnrun/jobs")


@contextmanager
def of_modules(cluster: Cluster, modules: Mapping[str, str]) -> Iterator[None]:
    """Yield a module system in the profile of every node, with these: name/version -> what its file says."""
    place = "/usr/share/modules/modulefiles"
    lines = ["ln -s modules /etc/profile.d/modules.sh"]
    for name, text in modules.items():
        lines.append(f"mkdir -p {place}/{name.partition('/')[0]}")
        lines.append(f"printf %s {shlex.quote(f'#%Module{chr(10)}{text}')} >{place}/{name}")
    folders = " ".join(sorted({f"{place}/{name.partition('/')[0]}" for name in modules}))
    try:
        for node in (LOGIN, *cluster.nodes):
            cluster.root(node, "sh", "-c", "\n".join(lines))
        yield
    finally:
        for node in (LOGIN, *cluster.nodes):
            cluster.root(node, "sh", "-c", f"rm -rf /etc/profile.d/modules.sh {folders}")


def of_the_site(cluster: Cluster, name: str, text: str, mode: str = "644", owner: str = "root") -> None:
    cluster.root(LOGIN, "sh", "-c", f"printf %s {shlex.quote(text)} >/etc/mnrun/{name}")
    cluster.root(LOGIN, "chmod", mode, f"/etc/mnrun/{name}")
    cluster.root(LOGIN, "chown", owner, f"/etc/mnrun/{name}")
