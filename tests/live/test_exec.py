"""`mnrun exec` and `mnrun why`: a command in the container of a running job, which goes with the job."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from published import checked

from .batch import forget, submit
from .cells import MADE, MAIN, SSH, WAYS, Way, cells, one, some
from .reports import errors, only_line
from .stage import LOGIN, PATIENCE, Cluster, Desk, Job, wait_for
from .terminal import Terminal
from .test_ends import SECONDS, clean_soon
from .test_hostile_user import in_home
from .test_proxy import entered
from .test_startup_files import NASTY

UP = ("sh", "-c", "echo up; exec sleep 3600")
VALUE = 'it\'s\n"$HOME"'
# Prints the processes `sleep 3600` that share this process's files, and so are in its container.
BESIDE = """
for exe in /proc/[0-9]*/cmdline; do
  process=${exe%/cmdline}
  [ "$({ tr '\\0' ' ' <"$exe"; } 2>/dev/null)" != "sleep 3600 " ] ||
    [ "$(readlink "$process/ns/mnt")" != "$(readlink /proc/self/ns/mnt)" ] || echo "$process"
done
"""
# Prints what a command finds around it.
AROUND = f"""
printf '%s|' "$V" "$PWD" "$(id -u)" "$(uname -n)" "$(cat)" "$(grep -c 'NoNewPrivs:.1' /proc/self/status)"
{BESIDE}"""
HOST = Way("inside", "host")
ALONE = tuple(way for way in WAYS if way.image in ("ompi5", "host") or way == SSH)
AXES = {"runtime": (*MADE, "singularity"), "start": ("inside", "mpirun", "srun")}
RUNTIMES = [Way(start, "ompi5", runtime=runtime) for runtime, start in cells(AXES, together=1)]


def stop(cluster: Cluster, how: str) -> None:
    if how == "scancel":
        cluster.alice(["scancel", *cluster.root(LOGIN, "squeue", "-h", "-o", "%i").split()])
        return
    (launcher,) = [found for found in cluster.mnruns() if "exec" not in found.argv]
    launcher.send(getattr(signal, how))


def runs(cluster: Cluster) -> list[tuple[str, ...]]:
    """The live runs that `mnrun status` shows."""
    jobs = checked("status", cluster.alice(["mnrun", "status", "--json"]).out)["jobs"]
    return [(job["name"], job["state"], job["nodelist"]) for job in jobs if "-" in job["id"]]


@contextmanager
def under_way(cluster: Cluster, *words: str, nodes: int = 2) -> Iterator[Job]:
    with cluster.running(cluster.launch(*words, "-x", f"V={VALUE}", "--", *UP, nodes=nodes)) as job:
        job.saying(lambda said: said.out.count("up\n") >= 2 * nodes, "up on all ranks")
        yield job


def enters(cluster: Cluster, *words: str, node: str, boxed: bool = True) -> None:
    """A command finds a rank beside itself, and the job's surroundings; its streams and its code are its own. In a
    container, it gets no privileges from setuid files (S4)."""
    done = cluster.alice(["mnrun", "exec", *words, "--", "sh", "-c", AROUND + "\nexit 7"], b"given")
    assert (done.code, errors(done)) == (7, ""), done
    *around, guarded, beside = done.out.split("|")
    assert guarded == str(int(boxed)), done
    assert around == [VALUE, "/home/alice", "1500", node, "given"], done
    assert beside.strip(), done


@pytest.mark.parametrize("way", some(ALONE, [*MAIN, SSH, HOST]), ids=str)
def test_exec_enters_the_container_of_a_rank(cluster: Cluster, way: Way) -> None:
    with under_way(cluster, *way.words):
        enters(cluster, "--rank", "3", node=cluster.nodes[1], boxed=way.image != "host")
        enters(cluster, "--node", cluster.nodes[1], node=cluster.nodes[1], boxed=way.image != "host")
        enters(cluster, node=cluster.nodes[0], boxed=way.image != "host")
        assert runs(cluster) == [("sh", "RUNNING", "node[01-02]")]
        program = cluster.alice(["mnrun", "exec", "--rank", "2", "--", "sh", "-c", "cat /proc/$MNRUN_RANK_PID/cmdline"])
        assert program.raw == b"sleep\0003600\0", program
        rank = cluster.alice(["mnrun", "exec", "--rank", "1", "--", "env"])
        assert any(line.split("=")[0].endswith("RANK") for line in rank.out.splitlines()), rank
    wait_for(lambda: not runs(cluster), "gone from mnrun status")


SEND = """
[ $(uname -n) = node01 ] && exit 0
head -c 300000 /dev/urandom >/tmp/mine
chmod 640 /tmp/mine
cksum </tmp/mine
exit 5
"""


def spreads_and_copies(cluster: Cluster, desk: Desk) -> None:
    """A command runs on each node and for some ranks, and files go out and in, through the ways of exec."""
    done = cluster.alice(["mnrun", "exec", "--all", "--", "sh", "-c", SEND])
    name, _, check = done.out.strip().partition("| ")
    assert (done.code, name) == (5, cluster.nodes[1]), done
    done = cluster.alice(["mnrun", "exec", "--ranks", "1-3", "--", "sh", "-c", "echo $MNRUN_RANK_PID; uname -n >&2"])
    assert sorted(line.split("|")[0] for line in done.out.splitlines()) == ["1", "2", "3"], done
    assert len(set(done.out.splitlines())) == 3, done
    assert f"3| {cluster.nodes[1]}" in done.err.splitlines(), done
    for source, target in ((f":{cluster.nodes[1]}:/tmp/mine", "."), ("mine", f":{cluster.nodes[0]}:/tmp/")):
        done = cluster.alice(["mnrun", "cp", source, target], cwd=desk.path)
        assert (done.code, errors(done)) == (0, ""), done
    done = cluster.alice(
        ["mnrun", "exec", "--all", "--", "sh", "-c", "cksum </tmp/mine; stat -c %a /tmp/mine; rm /tmp/mine"]
    )
    expected = [f"{node}| {word}" for node in cluster.nodes[:2] for word in (check, "640")]
    assert sorted(done.out.splitlines()) == sorted(expected), done
    missing = cluster.alice(["mnrun", "cp", ":/tmp/mine", "."], cwd=desk.path)
    assert only_line(missing, 2).startswith(f"there is no /tmp/mine on {cluster.nodes[0]}; "), missing
    nowhere = ["mnrun", "cp", "mine", f":{cluster.nodes[1]}:/tmp/my/place/"]
    refused = cluster.alice(nowhere, cwd=desk.path)
    line = only_line(refused, 2).partition("make it: ")[2]
    assert cluster.alice(["sh", "-c", line]).code == 0, refused
    assert cluster.alice(nowhere, cwd=desk.path).code == 0, "the line that was named makes it"
    assert cluster.alice(["mnrun", "exec", "--all", "--", "rm", "-rf", "/tmp/my"]).code == 0


@pytest.mark.parametrize("hosts", [(), ("--hosts", "node[01-02]:2")], ids=["slurm", "hosts"])
def test_commands_on_all_nodes_and_copies(cluster: Cluster, desk: Desk, hosts: tuple[str, ...]) -> None:
    image = ("--image", "/images/ompi5.sif")
    words = ["mnrun", *hosts, *image, "--", *UP] if hosts else cluster.launch(*image, "--", *UP, nodes=2)
    with cluster.running(words) as job:
        job.saying(lambda said: said.out.count("up\n") == 4, "up on all ranks")
        spreads_and_copies(cluster, desk)


@pytest.mark.parametrize("way", RUNTIMES, ids=str)
def test_exec_enters_the_container_of_each_runtime(engines: Cluster, way: Way) -> None:
    with under_way(engines, *way.words) as job:
        enters(engines, "--rank", "2", node=engines.nodes[1])
        enters(engines, node=engines.nodes[0])
        lacking = engines.alice(["mnrun", "exec", "--", "nothing-of-that-name"])
        assert "nothing-of-that-name" in only_line(lacking, 127), lacking
        with engines.running(["mnrun", "exec", "--rank", "3", "--", "sleep", "7200"]):
            wait_for(
                lambda: any("7200" in p.argv for p in engines.processes() if p.node != LOGIN), "asleep beside rank 3"
            )
            begin = time.monotonic()
            stop(engines, "SIGTERM")
            job.end(SECONDS)
        clean_soon(engines, begin)
    assert engines.containers() == []


@pytest.mark.parametrize("how", ["scancel", "SIGKILL", "SIGTERM"])
@pytest.mark.parametrize("way", one(0, ALONE), ids=str)
def test_nothing_of_exec_outlives_the_job(cluster: Cluster, way: Way, how: str) -> None:
    with under_way(cluster, *way.words) as job:
        with cluster.running(["mnrun", "exec", "--rank", "3", "--", "setsid", "sleep", "7200"]):
            wait_for(
                lambda: any("7200" in p.argv for p in cluster.processes() if p.node != LOGIN), "asleep beside rank 3"
            )
            begin = time.monotonic()
            stop(cluster, how)
            job.end(SECONDS)
        clean_soon(cluster, begin, killed=how == "SIGKILL")


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_exec_ends_with_its_caller(cluster: Cluster, how: str) -> None:
    def asleep() -> bool:
        return any("7200" in p.argv for p in cluster.processes() if p.node != LOGIN)

    with under_way(cluster, "--image", "/images/ompi5.sif") as job:
        with cluster.running(["mnrun", "exec", "--rank", "3", "--", "sleep", "7200"]):
            wait_for(asleep, "asleep beside rank 3")
            names = ("mnrun", "srun") if how == "SIGINT" else ("mnrun",)  # a terminal signals the whole group
            callers = [p for p in cluster.processes() if p.node == LOGIN and "7200" in p.argv]
            for caller in callers:
                if any(word.endswith(names) for word in caller.argv[:2]):
                    caller.send(getattr(signal, how))  # the launcher ends its srun as well
            wait_for(lambda: not asleep(), "without the command")
        assert job.process.poll() is None


def test_exec_of_a_submitted_job(cluster: Cluster, desk: Desk) -> None:
    shape = ["-N", "2", "--ntasks-per-node", "2", "-w", ",".join(cluster.nodes[:2]), "--image", "/images/ompi5.sif"]
    number = submit(cluster, desk, *shape, "-J", "stand", "-x", f"V={VALUE}", "--", *UP)
    output = cluster.path(desk.path)
    wait_for(lambda: any(path.read_text().splitlines().count("up") == 4 for path in output.glob("*.out")), "up")
    for words in (
        ["stand", "--rank", "3", "--"],
        ["stand", "--node", cluster.nodes[1], "--"],
        ["--rank", "2", "stand"],
    ):
        done = cluster.alice(["mnrun", "exec", *words, "uname", "-n"])
        assert (done.code, done.out) == (0, f"{cluster.nodes[1]}\n"), done
    assert cluster.alice(["mnrun", "cp", f"stand:{cluster.nodes[1]}:/etc/passwd", "."], cwd=desk.path).code == 0
    done = cluster.alice(["mnrun", "exec", number, "--rank", "3", "--", "sh", "-c", AROUND], b"given")
    assert done.out.split("|")[:5] == [VALUE, desk.path, "1500", cluster.nodes[1], "given"], done
    waiting = submit(cluster, desk, *shape, "-d", f"afterany:{number}", "--", *UP)
    early = cluster.alice(["mnrun", "exec", waiting, "--", "true"])
    assert only_line(early, 2) == f"job {waiting} has not begun; see mnrun status {waiting}"
    assert cluster.alice(["scancel", waiting, number]).code == 0
    assert cluster.alice(["mnrun", "wait", number]).code == 143
    late = cluster.alice(["mnrun", "exec", number, "--", "true"])
    assert only_line(late, 2) == f"job {number} has ended, with code 143; see mnrun why {number}"
    reason = cluster.alice(["mnrun", "why", number])
    assert reason.out.splitlines()[0] == f"job {number}: cancelled, with code 143: job {number} was cancelled", reason
    forget(cluster)


def test_why_of_a_failed_job_names_the_rank(cluster: Cluster, desk: Desk) -> None:
    fail = 'echo "rank $SLURM_PROCID"; [ "$SLURM_PROCID" != 2 ] || { echo "cannot go on" >&2; exit 9; }; exec sleep 60'
    words = ["-N", "2", "--ntasks-per-node", "2", "-w", ",".join(cluster.nodes[:2]), "--image", "/images/ompi5.sif"]
    number = submit(cluster, desk, *words, "--mode", "outside-in", "--launcher", "srun", "--", "sh", "-c", fail)
    assert cluster.alice(["mnrun", "wait", number]).code == 9
    reason = cluster.alice(["mnrun", "why", number])
    first, second = reason.out.splitlines()[:2]
    assert first == f"job {number}: failed, with code 9: rank 2 on {cluster.nodes[1]} exited with 9", reason
    assert second == f"rank 2 on {cluster.nodes[1]} failed first, with code 9", reason
    assert "  cannot go on" in reason.out.splitlines(), reason
    found = checked("why", cluster.alice(["mnrun", "why", "--json", number]).out)
    assert (found["code"], found["first"]["rank"], found["of_rank"]) == (9, 2, False)
    for own in some((["--label"], ["--split-output", f"{desk.path}/ranks"]), (["--label"],)):
        number = submit(cluster, desk, *words, *own, "--launcher", "srun", "--", "sh", "-c", fail)
        assert cluster.alice(["mnrun", "wait", number]).code == 9
        found = checked("why", cluster.alice(["mnrun", "why", "--json", number]).out)
        assert (found["of_rank"], sorted(found["output"])) == (True, ["cannot go on", "rank 2"]), found
    forget(cluster)


def test_exec_with_a_terminal(cluster: Cluster) -> None:
    with under_way(cluster, "--image", "/images/ompi5.sif"):
        words = [
            *("mnrun", "exec", "-t", "--rank", "2", "--", "sh", "-c"),
            "tty; stty size; read -r word; echo got=$word; exit 5",
        ]
        with Terminal(cluster.argv(LOGIN, "alice", words)) as terminal:
            terminal.expect("/dev/pts/")
            terminal.expect("50 200")
            terminal.write("word\n")
            terminal.expect("got=word")
            assert terminal.process.wait(PATIENCE) == 5
        with Terminal(cluster.argv(LOGIN, "alice", ["mnrun", "exec", "--node", cluster.nodes[1]])) as terminal:
            terminal.expect(rf"mnrun:{cluster.nodes[1]}:\S+\$ ")  # the prompt of mnrun shell
            terminal.write("exit 3\n")
            assert terminal.end() == 3
            assert "error" not in terminal.seen, terminal.seen


@pytest.mark.usefixtures("bare")
def test_exec_with_a_terminal_for_dash(cluster: Cluster) -> None:
    """It fails with 2 at its end where it cannot give the terminal back."""
    with under_way(cluster, "--image", "/images/bare.sif", "--launcher", "env", nodes=1):
        for words in ([], ["-t", "--", "sh"]):
            with Terminal(cluster.argv(LOGIN, "alice", ["mnrun", "exec", *words])) as terminal:
                terminal.expect(r"\$ ")
                terminal.write("exit 3\n")
                assert terminal.end() == 3
                assert "tty" not in terminal.seen, terminal.seen


def test_exec_refuses_a_strangers_job(cluster: Cluster) -> None:
    with under_way(cluster, "--image", "/images/ompi5.sif"):
        number = cluster.root(LOGIN, "squeue", "-h", "-o", "%i").strip()
        done = cluster.alice(["mnrun", "exec", number, "--", "id"], user="bob")
        assert f"job {number} is alice's; " in only_line(done, 123), done
        cluster.root(LOGIN, "rm", "-rf", "/home/bob/.mnrun")


@pytest.mark.parametrize("rsh", ["ssh", "paramiko"])
def test_exec_on_hosts(cluster: Cluster, rsh: str) -> None:
    words = [
        "mnrun",
        "--hosts",
        "node[01-02]:2",
        "--rsh",
        rsh,
        "--image",
        "/images/ompi5.sif",
        "-x",
        f"V={VALUE}",
        "--",
        *UP,
    ]
    with cluster.running(words) as job:
        job.saying(lambda said: said.out.count("up\n") == 4, "up on all hosts")
        with in_home(cluster, {".bashrc": NASTY, "readers": ""}):  # (F1)
            enters(cluster, "--rank", "3", node=cluster.nodes[1])
        states = checked("why", cluster.alice(["mnrun", "why", "--json"]).out)["ranks"]
        assert [(rank["rank"], rank["node"], rank["program"]) for rank in states] == [
            *((rank, cluster.nodes[rank // 2], "sleep 3600") for rank in range(4))
        ]
        with cluster.running(["mnrun", "exec", "--rank", "3", "--", "sleep", "7200"]):
            wait_for(
                lambda: any("7200" in p.argv for p in cluster.processes() if p.node != LOGIN), "asleep beside rank 3"
            )
            begin = time.monotonic()
            stop(cluster, "SIGTERM")
            job.end(SECONDS)
            clean_soon(cluster, begin)


def test_exec_on_this_machine(cluster: Cluster, desk: Desk) -> None:
    words = ["mnrun", "--local", "-n", "2", "--image", "/images/ompi5.sif", "-x", f"V={VALUE}", "--", *UP]
    with cluster.running(words) as job:
        job.saying(lambda said: said.out.count("up\n") == 2, "up")
        apart = ("unshare", "--user", "--map-current-user", "--pid", "--fork", "--mount-proc")  # as in a container
        bare = ("-Q", "--local", "--runtime", "host", "--launcher", "env")
        other = cluster.alice([*apart, "mnrun", *bare, "--", "true"])
        assert other.code == 0, other
        (record,) = cluster.path("/home/alice/.mnrun/jobs").glob("*/launch.json")  # (R5) that launch has left it alone
        record.write_text(record.read_text().replace("{", '{"later": [], ', 1))  # (L11) as a newer mnrun may
        enters(cluster, "--rank", "1", node=LOGIN)
        entered(lambda *words: cluster.alice(words), desk, "mnrun", LOGIN)


# In place of gdb, which the nodes lack: it prints the program that it was pointed to.
GDB = """#!/bin/sh
while [ "$1" != -p ]; do shift; done
echo "Reading symbols"
echo "#0 main of $(tr '\\0' ' ' <"/proc/$2/cmdline")"
"""


@pytest.mark.parametrize("way", one(1, ALONE), ids=str)
def test_why_shows_where_ranks_stand(cluster: Cluster, way: Way) -> None:
    def ranks() -> dict[int, Any]:
        done = cluster.alice(["mnrun", "why", "--json"])
        assert done.code == 0, done
        return {rank["rank"]: rank for rank in checked("why", done.out)["ranks"]}

    def stand() -> bool:
        found = ranks()
        states = [found[rank]["state"] for rank in (1, 2, 3)]
        return states == ["S", "S", "T"] and found[0]["cpu"] > 0 == found[1]["cpu"]

    name = "rank=${OMPI_COMM_WORLD_RANK-${PMIX_RANK-${PMI_RANK-$SLURM_PROCID}}}"
    program = f"{name}; echo up; case $rank in 0) exec yes >/dev/null ;; 3) kill -STOP $$ ;; esac; sleep 3600"
    for node in cluster.nodes[:2]:
        cluster.root(
            node, "sh", "-c", f"printf %s {shlex.quote(GDB)} >/usr/local/bin/gdb; chmod 755 /usr/local/bin/gdb"
        )
    try:
        with cluster.running(cluster.launch(*way.words, "--", "sh", "-c", program, nodes=2)) as job:
            job.saying(lambda said: said.out.count("up\n") >= 4, "up on all ranks")
            wait_for(stand, "where they stand", state=lambda: str(ranks()))
            found = ranks()
            assert [found[rank]["program"] for rank in (1, 2)] == ["sleep 3600"] * 2, found
            assert found[2]["stack"] == ["#0 main of sleep 3600 "], found
            table = cluster.alice(["mnrun", "why"])
            assert "stack of ranks 1, 2:\n  #0 main of sleep 3600" in table.out, table
    finally:
        for node in cluster.nodes[:2]:
            cluster.root(node, "rm", "/usr/local/bin/gdb")
