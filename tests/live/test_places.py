"""Where mnrun is started: a shell on the login node or on a compute node, srun --pty, a batch script, a terminal."""

from __future__ import annotations

import re
import shlex

import pytest

from .batch import forget
from .cells import HELLO, INSIDE, MAIN, OMPI5, Way, one, some
from .reports import check, mine, only_line
from .stage import LOGIN, Cluster, Desk, Result, wait_for
from .terminal import Terminal, salloc

LINE = re.compile(r"rank (\d) of 8 on (node0\d) sum 36 VAR=")
ASK = ["-N4", "--ntasks-per-node=2", "--gres=gpu:2"]


def eight(terminal: Terminal) -> None:
    found = [terminal.expect(LINE.pattern).groups() for _ in range(8)]
    assert sorted(rank for rank, _ in found) == list("01234567"), terminal.seen
    assert sorted(node for _, node in found) == sorted(["node01", "node02", "node03", "node04"] * 2), terminal.seen


@pytest.mark.parametrize("way", one(1, MAIN), ids=str)
def test_places_a_shell_on_the_login_node(cluster: Cluster, way: Way) -> None:
    """The shell that `salloc` leaves on the login node; several runs from it."""
    run = f"mnrun {' '.join(way.words)} -- {HELLO}"
    result = cluster.alice(["salloc", "-Q", *ASK, "bash"], stdin=f"{run} </dev/null\n{run}\n".encode())
    assert result.code == 0, result
    lines = result.out.splitlines()
    assert len(lines) == 16, result
    assert all(LINE.fullmatch(line) for line in lines), result
    assert len(set(lines)) == 8, result


@pytest.mark.parametrize("way", one(0, MAIN), ids=str)
def test_places_a_shell_whose_job_is_cancelled(cluster: Cluster, way: Way) -> None:
    """salloc sends HUP to a program at its prompt: the reason is the job's end, as without a prompt."""
    with Terminal(cluster.argv(LOGIN, "alice", salloc("-N2", "--ntasks-per-node=2"))) as terminal:
        job = terminal.expect(r"Granted job allocation (\d+)")[1]
        terminal.expect(r"\$ ")  # salloc hands the terminal over to bash only after the nodes are ready
        terminal.write(f"mnrun {' '.join(way.words)} -- {HELLO} -s 3600; echo code=$?\n")
        terminal.expect("rank 3 of 4")
        assert cluster.alice(["scancel", job]).code == 0
        terminal.expect(f"mnrun: job {job} was cancelled")
        terminal.expect("code=143")
        terminal.write("exit\n")
        terminal.end()
    assert cluster.wait_clean(60) == []


@pytest.mark.parametrize("way", one(1, MAIN), ids=str)
def test_places_the_background_of_a_prompt(cluster: Cluster, way: Way) -> None:
    with Terminal(cluster.argv(LOGIN, "alice", salloc("-Q", "-N2"))) as terminal:
        terminal.expect(r"\$ ")
        terminal.write(f"mnrun {' '.join(way.words)} -n 1 -N 1 -- sh -c 'cat; echo no input; sleep 3' &\n")
        terminal.expect("no input\n")
        terminal.write("echo typed-$((1 + 1)); wait; exit\n")
        terminal.expect("typed-2")
        terminal.end()


@pytest.mark.parametrize("way", one(2, MAIN), ids=str)
def test_places_a_shell_on_a_compute_node(cluster: Cluster, way: Way) -> None:
    """The prompt that `salloc` gives on the job's first node (LaunchParameters=use_interactive_step)."""
    with Terminal(cluster.argv(LOGIN, "alice", ["salloc", "-Q", *ASK])) as terminal:
        terminal.expect(r"node01.*\$ ")
        terminal.write(f"mnrun {' '.join(way.words)} -- {HELLO}\n")
        eight(terminal)
        terminal.expect(r"node01.*\$ ")
        terminal.write("exit\n")
        assert terminal.end() == 0


@pytest.mark.parametrize("way", one(0, MAIN), ids=str)
def test_places_srun_pty_bash(cluster: Cluster, way: Way) -> None:
    """`srun --pty bash` within a job: SLURM_NTASKS there is the step's, the job's eight ranks run all the same."""
    with cluster.held(*ASK) as job:
        words = ["env", f"SLURM_JOB_ID={job}", "srun", "-N1", "-n1", "--overlap", "--gres=gpu:2", "--pty", "bash"]
        with Terminal(cluster.argv(LOGIN, "alice", words)) as terminal:
            terminal.expect(r"node01.*\$ ")
            terminal.write("echo tasks:$SLURM_NTASKS; nproc\n")
            terminal.expect("tasks:1")
            terminal.write(f"mnrun {' '.join(way.words)} --ntasks-per-node 2 -- {HELLO}\n")
            eight(terminal)
            terminal.expect(r"node01.*\$ ")
            terminal.write("exit\n")
            assert terminal.end() == 0


def test_places_srun_pty_bash_by_itself(cluster: Cluster) -> None:
    """A job that `srun --pty bash` itself asked for: its nodes, its two tasks on each of them, its GPUs."""
    with Terminal(cluster.argv(LOGIN, "alice", ["srun", *ASK, "--pty", "bash"])) as terminal:
        terminal.expect(r"node01.*\$ ")
        for way in one(0, MAIN):
            terminal.write(f"mnrun {' '.join(way.words)} -- {HELLO} -g\n")
            found = [terminal.expect(r"rank (\d) of 8 on (node0\d) sum 36 VAR= gpus=(\S+)").groups() for _ in range(8)]
            assert sorted(node for _, node, _ in found) == sorted(list(cluster.nodes) * 2), terminal.seen
            assert {gpus for _, _, gpus in found} == {"0,1"}, terminal.seen
            terminal.expect(r"node01.*\$ ")
        terminal.write("exit\n")
        assert terminal.end() == 0


def test_places_a_node_that_is_not_the_first(cluster: Cluster) -> None:
    """A shell by ssh on some node of the job, with nothing but SLURM_JOB_ID."""
    with cluster.held(*ASK) as job:
        for way in one(1, MAIN):
            line = ["env", f"SLURM_JOB_ID={job}", "mnrun", *way.words, "--ntasks-per-node", "2", "--", HELLO]
            check(cluster.alice(line, node="node03"), *cluster.nodes)


def batch(cluster: Cluster, desk: Desk, script: str, *sbatch: str) -> Result:
    path = desk.put("job.sh", f"#!/bin/bash\n{script}", 0o755)
    cluster.alice(["sbatch", "--wait", "-Q", *ASK, "-o", f"{desk.path}/out", "-e", f"{desk.path}/err", *sbatch, path])
    code = cluster.root(
        LOGIN, "sh", "-c", "scontrol show job -o | tail -n 1 | sed 's/.* ExitCode=\\([0-9]*\\):.*/\\1/'"
    )
    forget(cluster)
    return Result(int(code), desk.read("out"), desk.read("err").decode())


@pytest.mark.parametrize("way", one(2, MAIN), ids=str)
def test_places_a_batch_script(cluster: Cluster, desk: Desk, way: Way) -> None:
    run = f"mnrun {' '.join(way.words)} -- {HELLO}"
    check(batch(cluster, desk, f"exec {run}\n"), *cluster.nodes)
    result = batch(cluster, desk, f"{run} -x 7\ncode=$?\necho code $code >&2\nexit $code\n")
    assert "code 7" in result.err, result
    assert result.code == 7, result
    assert "\x1b" not in result.err, result  # plain lines in a log file


def test_places_a_batch_script_that_is_cancelled(cluster: Cluster, desk: Desk) -> None:
    path = desk.put("job.sh", f"#!/bin/bash\nmnrun {' '.join(INSIDE.words)} -- {HELLO} -s 3600\n", 0o755)
    line = ["sbatch", "--parsable", *ASK, "-o", f"{desk.path}/out", "-e", f"{desk.path}/err", path]
    number = cluster.alice(line).out.strip()
    wait_for(lambda: "out" in desk.names() and desk.read("out").count(b"\n") == 8, "running")
    assert cluster.alice(["scancel", number]).code == 0
    wait_for(lambda: not cluster.processes(), "without processes")
    wait_for(lambda: not any("mnrun." in line for line in cluster.leftovers()), "clean")
    forget(cluster)


def test_places_within_a_pipeline(cluster: Cluster) -> None:
    """`generate | mnrun … | consume`, as in any shell."""
    run = f"seq 100000 | mnrun {' '.join(INSIDE.words)} -n 1 -N 1 -- cat | sha256sum; seq 100000 | sha256sum"
    result = cluster.alice(["salloc", "-Q", "-N2", "bash", "-c", run])
    assert result.code == 0, result
    first, second = result.out.splitlines()
    assert first == second, result


def test_places_a_terminal_shows_progress(cluster: Cluster) -> None:
    line = cluster.launch(*INSIDE.words, "--", HELLO)
    with Terminal(cluster.argv(LOGIN, "alice", line)) as terminal:
        terminal.expect(r"\d/4")
        eight(terminal)
        assert terminal.end() == 0


def test_places_a_terminal_passes_keys_on(cluster: Cluster) -> None:
    line = cluster.launch(*INSIDE.words, "-n", "1", "-N", "1", "--", "sh", "-c", "cat; echo that was all")
    with Terminal(cluster.argv(LOGIN, "alice", line)) as terminal:
        terminal.expect("mnrun:")
        terminal.write("hello there\n")
        terminal.expect("hello there")
        terminal.expect("hello there")  # the echo, and cat's
        terminal.write("\x04")
        terminal.expect("that was all")
        assert terminal.end() == 0


@pytest.mark.parametrize("way", some(MAIN, [INSIDE]), ids=str)
def test_places_a_machine_without_slurm(cluster: Cluster, way: Way) -> None:
    if way.start == "srun":
        return
    result = cluster.alice(["mnrun", "--local", *way.words, "-n", "2", "--", HELLO], node="node02")
    check(result, spread={"node02": 2})


def test_places_without_an_allocation_the_line_to_type(cluster: Cluster) -> None:
    words = [
        "--no-alloc",
        "-N",
        "4",
        "--ntasks-per-node",
        "2",
        "--image",
        OMPI5,
        "-x",
        "FOO",
        "--",
        "sh",
        "-c",
        'exec "$0" -e FOO',
        HELLO,
    ]
    foo = ["env", "FOO=two words; $HOME"]
    result = cluster.alice([*foo, "mnrun", *words])
    assert result.code == 2, result
    assert result.out == "", result
    (line,) = (line.strip() for line in result.err.splitlines() if line.strip().startswith("salloc"))
    again = cluster.alice([*foo, "bash", "-c", line])
    assert {rank.value for rank in check(again, *cluster.nodes)} == {"two words; $HOME"}


def test_places_a_step_that_is_no_terminal(cluster: Cluster) -> None:
    """`srun -n1 mnrun …` in a job, as scripts do it."""
    for way in one(2, MAIN):
        line = ["salloc", "-Q", *ASK, "srun", "-N1", "-n1", "mnrun", *way.words, "--ntasks-per-node", "2", "--", HELLO]
        check(cluster.alice(line), *cluster.nodes)


def test_places_a_heterogeneous_job(cluster: Cluster, desk: Desk) -> None:
    """(F7) The ranks are those of the first component, as srun's, in a shell, a script and a step of it."""
    words = ["mnrun", "--launcher", "env", "--runtime", "host", "--", "sh", "-c", "echo rank"]
    said = "heterogeneous, and mnrun uses the first of its 2 components"
    for first, ranks_ in ((["-N1", "-n2"], 2), (["-N1", "-n1", "--exclusive"], 1)):
        result = cluster.alice(["salloc", "-Q", *first, ":", "-N1", "-n2", *words])
        assert (result.code, result.out, said in result.err) == (0, "rank\n" * ranks_, True), result
    lines = [f"#!/bin/bash\n#SBATCH -N1 -n2\n#SBATCH hetjob\n#SBATCH -N1 -n1\n{shlex.join(words)}"]
    desk.put("x.sh", "\n".join([*lines, "echo step", f"srun -n1 {shlex.join(words)}"]))
    assert cluster.alice(["sbatch", "--wait", "-o", "out", "x.sh"], cwd=desk.path).code == 0
    told = [line for line in desk.read("out").decode().splitlines() if line in ("rank", "step")]
    assert told == ["rank", "rank", "step", "rank"]
    forget(cluster)


def test_places_two_launches_at_once_in_one_job(cluster: Cluster) -> None:
    for way in one(0, MAIN):
        run = f"mnrun -Q {' '.join(way.words)} -- {HELLO} -s 1"
        result = cluster.alice(["salloc", "-Q", *ASK, "sh", "-c", f"{run} & {run} & wait"])
        lines = sorted(result.out.splitlines())
        assert (len(lines), lines[0::2]) == (16, lines[1::2]), result


@pytest.mark.parametrize("image", [("--runtime", "host"), ("--image", OMPI5)], ids=["host", "image"])
@pytest.mark.parametrize("mode", one(1, ["inside-out", "outside-in"]))
def test_places_local(cluster: Cluster, image: tuple[str, ...], mode: str) -> None:
    line = ["mnrun", "--local", "--mode", mode, *image, "-n", "2", "--", HELLO]
    check(cluster.alice(line), spread={LOGIN: 2})


def test_places_local_within_a_job(cluster: Cluster) -> None:
    check(cluster.mnrun("--local", "--image", OMPI5, "-n", "2", "--", HELLO), spread={LOGIN: 2})


@pytest.mark.parametrize("image", [("--runtime", "host"), ("--image", OMPI5)], ids=["host", "image"])
def test_places_where_there_is_no_slurm(cluster: Cluster, desk: Desk, image: tuple[str, ...]) -> None:
    """A machine with no sbatch on its PATH is no Slurm site: mnrun runs right here, and says so."""
    folder = f"{desk.path}/bin"
    slurm = "sbatch srun salloc scontrol squeue sinfo scancel"
    make = f"mkdir {folder} && ln -s /usr/bin/* /usr/local/bin/mnrun {folder} && cd {folder} && rm -f {slurm}"
    assert cluster.alice(["sh", "-c", make]).code == 0
    result = cluster.alice(["env", f"PATH={folder}", "mnrun", "-v", *image, "-n", "2", "--", HELLO])
    check(result, spread={LOGIN: 2})
    assert any("this machine" in said for said in mine(result)), result


def test_places_a_job_that_is_over(cluster: Cluster) -> None:
    with cluster.held("-N1") as job:
        pass
    wait_for(lambda: cluster.root(LOGIN, "squeue", "-h", "-o", "%i").split() == [], "over")
    for number in (job, "987654"):
        result = cluster.alice(["env", f"SLURM_JOB_ID={number}", "mnrun", *INSIDE.words, "--", HELLO])
        line = only_line(result, 123)
        assert number in line or "job id" in line, result
