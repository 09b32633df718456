"""`mnrun shell`: a prompt in the master container, from its allocation to the end of everything."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from .cells import HELLO, OMPI4, OMPI5, some
from .reports import check, mine, refusal
from .stage import LOGIN, Cluster, Result, wait_for
from .terminal import Terminal

PROMPT = r"mnrun:node01:\S+\$ "
TWO = ["-N2", "--nodelist=node01,node02"]
PARAMIKO, SSH = (["--hosts", "node01,node02", "--rsh", rsh] for rsh in ("paramiko", "ssh"))
SECONDS = 120.0


@contextmanager
def prompt(cluster: Cluster, *words: str, env: tuple[str, ...] = ()) -> Iterator[Terminal]:
    """At the prompt of `mnrun shell WORDS`, in the Open MPI 5 image."""
    line = ["env", *env, "mnrun", "shell", "--image", OMPI5, *words]
    with Terminal(cluster.argv(LOGIN, "alice", line)) as terminal:
        terminal.expect(PROMPT)
        yield terminal


def two(terminal: Terminal) -> None:
    found = [terminal.expect(r"rank (\d) of 2 on (node0\d) sum 3").groups() for _ in range(2)]
    assert sorted(node for _, node in found) == ["node01", "node02"], terminal.seen


def mpirun(terminal: Terminal) -> None:
    terminal.write(f"mpirun {HELLO}\n")
    two(terminal)
    terminal.expect(PROMPT)


def test_shell_from_nothing_to_nothing(cluster: Cluster) -> None:
    """Nodes as asked for, a prompt in which plain mpirun and ssh work; at exit its code, and all is given back."""
    with prompt(cluster, *TWO, "--mem", "3G", "-t", "8:00:00", "-x", "FOO=it's") as terminal:
        assert cluster.root(LOGIN, "squeue", "-h", "-o", "%D %m %l") == "2 3G 8:00:00\n"
        mpirun(terminal)
        terminal.write("ssh node02 'uname -n; echo $FOO'; tty; echo $np $0\n")
        terminal.expect(r"node02\s+it's\s+/dev/pts/\d+\s+2 bash")
        terminal.write("ssh node02\n")
        terminal.expect(r"\$ ")
        terminal.write("echo in $(uname -n); exit 5\n")
        terminal.expect(r"in node02\s")
        terminal.write("false\n")
        terminal.expect(PROMPT)
        terminal.write("exit 7\n")
        assert terminal.end() == 7
        assert "error" not in terminal.seen, terminal.seen
        assert "no effect" not in terminal.seen, terminal.seen  # of what salloc was asked for
        wait_for(lambda: not cluster.root(LOGIN, "squeue", "-h"), "given back")


def test_shell_keys_are_for_the_program_in_it(cluster: Cluster) -> None:
    with prompt(cluster, *TWO) as terminal:
        for line in ("sleep 600", f"mpirun {HELLO} -s 600"):
            terminal.write(f"{line}\n")
            if "mpirun" in line:
                two(terminal)
            else:
                wait_for(lambda: any(p.argv == ("sleep", "600") for p in cluster.processes()), "asleep")
            terminal.write("\x03")
            terminal.expect(PROMPT)
            terminal.write("echo code:$?\n")
            # mpirun's is 1 where it has ended its ranks by itself
            assert terminal.expect(r"code:(\d+)")[1] in ("130", "1"), terminal.seen
            terminal.expect(PROMPT)
        terminal.write("sleep 602\n")
        wait_for(lambda: any(p.argv == ("sleep", "602") for p in cluster.processes()), "asleep")
        terminal.write("\x1a")
        terminal.expect("Stopped")
        terminal.expect(PROMPT)
        terminal.write('kill -9 %1; until [ -z "$(jobs -s)" ]; do sleep 0.1; done\n')
        terminal.expect(PROMPT)
        terminal.write("\x04")
        assert terminal.end() == 0


def test_shell_knows_the_size_of_its_window(cluster: Cluster) -> None:
    with prompt(cluster, *TWO) as terminal:
        program = "trap 'echo new: $(stty size); exit' WINCH; echo old: $(stty size); while :; do sleep 0.1; done"
        terminal.write(f'sh -c "{program}"\n'.replace("$", "\\$"))
        terminal.expect("old: 50 200")
        terminal.resize(30, 80)
        terminal.expect("new: 30 80")
        terminal.expect(PROMPT)
        terminal.write("exit\n")
        assert terminal.end() == 0


def test_shell_in_an_allocation(cluster: Cluster) -> None:
    with cluster.held(*TWO) as job:
        with prompt(cluster, "--mem", "1G", "-t", "5", env=(f"SLURM_JOB_ID={job}",)) as terminal:
            assert "--time, --mem: no effect here" in terminal.seen.replace("--mem, --time", "--time, --mem")
            mpirun(terminal)
            terminal.write("exit\n")
            assert terminal.end() == 0
        assert job in cluster.root(LOGIN, "squeue", "-h", "-o", "%i"), "the allocation was not ours to end"


def test_shell_in_the_shell_of_salloc(cluster: Cluster) -> None:
    with Terminal(cluster.argv(LOGIN, "alice", ["salloc", "-Q", *TWO])) as terminal:
        terminal.expect(r"node01.*\$ ")
        terminal.write(f"mnrun shell --image {OMPI4}\n")
        terminal.expect(PROMPT)
        mpirun(terminal)
        terminal.write("exit\n")
        terminal.expect(r"alice@node01.*\$ ")
        terminal.write("stty -a | grep -ow -e '-*isig'; exit\n")
        terminal.expect(r"(?<![-'\w])isig\s")
        assert terminal.end() == 0


@pytest.mark.parametrize("words", [PARAMIKO, SSH], ids=["paramiko", "ssh"])
def test_shell_on_hosts(cluster: Cluster, words: list[str]) -> None:
    with prompt(cluster, *words) as terminal:
        mpirun(terminal)
        terminal.write("ssh node02 uname -n; tty; stty size\n")
        terminal.expect(r"node02\s+/dev/pts/\d+\s+50 200")
        terminal.expect(PROMPT)
        terminal.resize(30, 80)
        terminal.write('until [ "$(stty size)" = "30 80" ]; do sleep 0.1; done; sleep 600\n')
        wait_for(lambda: any(p.argv == ("sleep", "600") for p in cluster.processes()), "asleep")
        terminal.write("\x03")
        terminal.expect(PROMPT)
        terminal.write("exit 7\n")
        assert terminal.end() == 7
        assert "closed" not in terminal.seen, terminal.seen


SSH_ENDS = ("close", "SIGTERM", "SIGKILL")
ENDS = [("close", TWO), ("SIGKILL", TWO), ("scancel", TWO), ("SIGKILL", PARAMIKO)]
MORE = [("SIGTERM", TWO), *((how, PARAMIKO) for how in ("close", "SIGTERM")), *((how, SSH) for how in SSH_ENDS)]


@pytest.mark.parametrize(
    ("how", "where"), some([*ENDS, *MORE], ENDS), ids=lambda it: it if isinstance(it, str) else it[-1]
)
def test_shell_that_is_ended_from_outside(cluster: Cluster, how: str, where: list[str]) -> None:
    line = f"mnrun shell --image {OMPI5} {' '.join(where)}; echo code:$?; stty -a | grep -ow -e '-*isig'; exit"
    with Terminal(cluster.argv(LOGIN, "alice", ["bash", "--norc"])) as terminal:
        terminal.expect(r"\$ ")
        terminal.write(f"{line}\n")
        terminal.expect(PROMPT)
        terminal.write("setsid sleep 600 & sleep 601\n")
        wait_for(lambda: any(p.argv == ("sleep", "601") for p in cluster.processes()), "asleep")
        begin = time.monotonic()
        if how == "close":
            terminal.hang_up()
        elif how == "scancel":
            cluster.root(LOGIN, "scancel", "-u", "alice")
        else:
            cluster.launcher().send(getattr(signal, how))
        if how != "close":
            code = terminal.expect(r"code:(\d+)", SECONDS)[1]
            assert code == ("137" if how == "SIGKILL" else "143"), terminal.seen
            terminal.expect(r"(?<![-'\w])isig\s")
            terminal.end()
    if how == "SIGKILL":
        for place in cluster.path("/home/alice/.mnrun/jobs").iterdir():
            shutil.rmtree(place)
    left = cluster.wait_clean(SECONDS)
    assert not left, f"after {time.monotonic() - begin:.0f} s there is still:\n" + "\n".join(left)


def test_shell_ended_while_it_waits_for_nodes(cluster: Cluster) -> None:
    with cluster.held("-N", str(len(cluster.nodes)), "--exclusive"):
        line = ["mnrun", "shell", "--image", OMPI5, "-N2"]
        with Terminal(cluster.argv(LOGIN, "alice", line)) as terminal:
            terminal.expect("queued and waiting")
            terminal.write("\x03")
            assert terminal.end() == 130
        wait_for(lambda: len(cluster.root(LOGIN, "squeue", "-h").splitlines()) == 1, "withdrawn")


@pytest.mark.parametrize("words", [("--image", OMPI5), ("--runtime", "host")], ids=lambda words: words[-1])
def test_shell_reads_commands_from_a_pipe(cluster: Cluster, words: tuple[str, ...]) -> None:
    text = f"mpirun {HELLO} </dev/null\nread -r line\nhere\necho $line >&2\nexit 5\n"
    result = cluster.alice(["mnrun", "shell", *words, *TWO], stdin=text.encode())
    assert "srun:" not in result.err, result
    assert result.code == 5, result
    check(Result(0, result.raw, result.err), "node01", "node02", tasks=1)
    assert "here" in result.err.splitlines(), result
    assert "srun: error" not in result.err, result


def test_shell_of_one_machine(cluster: Cluster) -> None:
    line = ["mnrun", "shell", "--local", "-n", "2", "--image", OMPI5]
    with Terminal(cluster.argv(LOGIN, "alice", line)) as terminal:
        terminal.expect(r"mnrun:login:\S+\$ ")
        terminal.write(f"mpirun {HELLO}\n")
        for _ in range(2):
            terminal.expect(r"rank \d of 2 on login sum 3")
        terminal.expect(r"mnrun:login:\S+\$ ")
        terminal.write("sleep 600\n")
        wait_for(lambda: any(p.argv == ("sleep", "600") for p in cluster.processes()), "asleep")
        terminal.write("\x03")
        terminal.expect(r"mnrun:login:\S+\$ ")
        terminal.write("exit 3\n")
        assert terminal.end() == 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--mode", "outside-in"), 122, "a shell runs in the first node's container"),
        (("--", "./app"), 2, "mnrun shell takes no command, but found './app'"),
        (("--script", "job.sh"), 2, "mnrun shell takes no command, but found --script"),
        (("-p", "nowhere"), 123, "there is no partition nowhere"),
        (("-N", "99"), 123, "--nodes (command line) asks for 99"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_shell_that_is_refused(cluster: Cluster, words: tuple[str, ...], code: int, said: str) -> None:
    result = cluster.alice(["mnrun", "shell", "--image", OMPI5, *words])
    refusal(result, code, said)
    assert len(mine(result)) == (2 if code == 123 else 1), result
