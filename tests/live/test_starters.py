"""--launcher env and torchrun: ranks that no MPI starts, in containers that need none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .batch import USR1, end, output, submit
from .cells import INSIDE, MPIRUN, NOSSHD, OMPI5, SRUN, SSH, WAYS, Way, full, some
from .reports import mine, refusal
from .stage import LOGIN, Cluster, Desk, wait_for

ENV = ("--launcher", "env")
# What a rank has been told, a line of JSON.
SAY = (
    "import json, os, socket; e = os.environ; s = socket.socket()\n"
    "if e['RANK'] == '0': s.bind((e['MASTER_ADDR'], int(e['MASTER_PORT'])))\n"
    "ours = ('JAX_', 'HOROVOD_', 'MASTER_', 'OMPI_', 'PMIX_')\n"
    "told = {n: e[n] for n in e if n.startswith(ours) or 'RANK' in n or 'SIZE' in n}\n"
    "print(json.dumps({**told, 'node': os.uname().nodename}) + '\\n', end='')"  # in one write
)
PYTHON = ("python3", "-c", SAY)


def told(text: str) -> list[dict[str, str]]:
    return sorted((json.loads(line) for line in text.splitlines()), key=lambda rank: int(rank["RANK"]))


@pytest.mark.parametrize("connect", ["ssh", "pipe"])
def test_env_tells_every_rank_its_place(cluster: Cluster, connect: str) -> None:
    words = (*ENV, "--connect", connect, "--image", OMPI5 if connect == "ssh" else NOSSHD, "-n", "5")
    result = cluster.mnrun(*words, "--", *PYTHON, nodes=3)
    assert result.code == 0, result
    ranks = told(result.out)
    head = cluster.root(LOGIN, "getent", "ahostsv4", "node01").split()[0]
    assert [rank["RANK"] for rank in ranks] == list("01234")
    assert [rank["node"] for rank in ranks] == ["node01", "node01", "node02", "node02", "node03"]
    assert [rank["LOCAL_RANK"] for rank in ranks] == list("01010")
    assert [rank["NODE_RANK"] for rank in ranks] == list("00112")
    assert [rank["LOCAL_WORLD_SIZE"] for rank in ranks] == list("22221")
    assert {rank["WORLD_SIZE"] for rank in ranks} == {"5"}
    for rank in ranks:
        meeting = f"{rank['MASTER_ADDR']}:{rank['MASTER_PORT']}"
        assert rank["JAX_COORDINATOR_ADDRESS"] == meeting == f"{head}:{ranks[0]['MASTER_PORT']}"
        assert (rank["JAX_PROCESS_ID"], rank["JAX_NUM_PROCESSES"]) == (rank["RANK"], "5")
        assert (rank["HOROVOD_RANK"], rank["HOROVOD_SIZE"]) == (rank["RANK"], "5")
        assert (rank["HOROVOD_LOCAL_RANK"], rank["HOROVOD_CROSS_RANK"]) == (rank["LOCAL_RANK"], rank["NODE_RANK"])
        assert not [name for name in rank if name.startswith(("OMPI_COMM", "PMIX_RANK"))], rank


MEET = (
    "import os, socket, time; e = os.environ; place = e['MASTER_ADDR'], int(e['MASTER_PORT'])\n"
    "if e['RANK'] == '0':\n    socket.create_server(place).accept()[0].close()\n"  # it waits, as who ends first
    "while e['RANK'] == '1':\n"
    "    try:\n        exit(socket.create_connection(place).recv(1) != b'')\n"
    "    except OSError:\n        time.sleep(0.1)\n"
)


def test_env_has_enough_of_few_ports(cluster: Cluster) -> None:
    """W8: a connection that has ended holds its port for a minute, and servers can have that port even so."""
    words = [*ENV, "--image", NOSSHD, "--ports", "29600-29601", "--", "python3", "-c", MEET]
    for _ in range(4):
        result = cluster.mnrun(*words, nodes=2, tasks=1)
        assert result.code == 0, result
    serve = (
        "import socket, time; a = [socket.create_server(('', p)) for p in (29600, 29601)]; print('up'); time.sleep(600)"
    )
    with cluster.running(["python3", "-uc", serve], node="node01") as server:
        server.saying(lambda said: "up" in said.out, "up")
        refusal(cluster.mnrun(*words, nodes=2, tasks=1), 121, "no free port in 29600-29601", "--ports")


def test_env_passes_words_and_input_on(cluster: Cluster) -> None:
    nasty = ["a  b", "", "$HOME", "it's", "new\nline\n", "*"]
    text = 'case $RANK in 0) cat ;; 3) printf "<%s>" "$@" ;; *) exec cat ;; esac'
    result = cluster.mnrun(*ENV, "--image", NOSSHD, "--", "sh", "-c", text, "x", *nasty, nodes=2, stdin=b"hello")
    assert result.code == 0, result
    words = "".join(f"<{word}>" for word in nasty)
    assert result.out in (f"hello{words}", f"{words}hello"), result


LONG = """for last; do :; done; printf '%s %s %s;' $# "$1" "${last##*-}" """


@pytest.mark.parametrize("way", some(WAYS, [INSIDE, MPIRUN, SSH]), ids=str)
def test_words_that_a_glob_gives(cluster: Cluster, desk: Desk, way: Way) -> None:
    """W2: Open MPI gives each rank its whole line in a variable, which may have 128 kB."""
    words = [f"{desk.path}/a/long/name/of/a/sample-{n}" for n in range(9000)]
    result = cluster.mnrun("-Q", *way.words, "--", "sh", "-c", LONG, "x", "it's  one", *words, nodes=2)
    assert (result.code, result.out) == (0, "9001 it's  one 8999;" * 4), result


def test_words_that_a_glob_gives_over_ssh(cluster: Cluster, desk: Desk) -> None:
    """A login shell, which is sshd's, has a line of 128 kB at most."""
    words = [f"{desk.path}/a/long/name/of/a/sample-{n}" for n in range(9000)]
    result = cluster.alice(["mnrun", "--hosts", "node01,node02", "--image", OMPI5, "--", "sh", "-c", LONG, "x", *words])
    assert (result.code, result.out) == (0, f"9000 {words[0]} 8999;" * 2), result


def test_env_ends_all_when_one_fails(cluster: Cluster) -> None:
    text = "[ $RANK != 3 ] || exit 7; trap 'sleep 3; exit 9' TERM; sleep 600 & wait $!; exit 9"
    result = cluster.mnrun(*ENV, "--image", NOSSHD, "--", "sh", "-c", text, nodes=2)
    assert result.code == 7, result


def test_env_is_not_held_by_what_ranks_leave(cluster: Cluster) -> None:
    result = cluster.mnrun(*ENV, "-l", "--image", NOSSHD, "--", "sh", "-c", "setsid sleep 600 & echo done", nodes=2)
    assert (result.code, sorted(result.out.split())) == (0, ["0:", "1:", "2:", "3:", *["done"] * 4]), result


@pytest.mark.parametrize("words", [(), ("-l",)])
def test_env_lines_stay_whole(cluster: Cluster, words: tuple[str, ...]) -> None:
    text = 'for n in $(seq 300); do printf "%s says" $RANK; printf " %s\n" $n; done; seq -f "$RANK has %099.0f" 300'
    result = cluster.mnrun(*ENV, *words, "--image", NOSSHD, "--", "sh", "-c", text, nodes=4, tasks=1, seconds=200)
    assert result.code == 0, result
    lines = [f"{rank} {what}" for rank in range(4) for n in range(1, 301) for what in (f"says {n}", f"has {n:099}")]
    assert sorted(result.out.splitlines()) == sorted(f"{line[0]}: {line}" if words else line for line in lines)


def test_env_in_a_batch_job(cluster: Cluster, desk: Desk) -> None:
    program = desk.put("usr1", USR1.replace("rank=", "rank=$RANK; : "), 0o755)
    job = submit(cluster, desk, "-N", "2", "--ntasks-per-node", "2", *ENV, "--image", OMPI5, "--", program)
    wait_for(lambda: output(desk, job).count("up ") == 4, "up", state=lambda: output(desk, job))
    cluster.root(LOGIN, "scancel", "--batch", "--signal=USR1", job)
    result = end(cluster, desk, job)
    assert result.code == 0, result
    assert sorted(line for line in result.err.splitlines() if line.startswith("got")) == [f"got {n}" for n in range(4)]


@pytest.mark.parametrize(
    ("launcher", "nodes", "tasks"), some([("env", 4, 1), ("torchrun", 4, 1), ("torchrun", 2, 2)], [("torchrun", 2, 2)])
)
def test_pytorch_learns(cluster: Cluster, desk: Desk, launcher: str, nodes: int, tasks: int) -> None:
    """The example of the PyTorch tutorial, in an image with neither MPI nor ssh: gloo, on CPUs."""
    cluster.tool("images", "torch")
    program = desk.put("ddp.py", (Path(__file__).parents[2] / "examples/pytorch/ddp.py").read_bytes())
    words = ["python3", program] if launcher == "env" else [program]
    result = cluster.mnrun(
        "--launcher", launcher, "--image", "/images/torch.sif", "--", *words, nodes=nodes, tasks=tasks, seconds=400
    )
    assert result.code == 0, result
    lines = result.out.splitlines()
    assert "y = 3.00 x -1.00, the same on every rank: True" in lines, result
    found = {line.split(",")[0] for line in lines if line.startswith("rank ")}
    assert found == {f"rank {rank} of 4 on node0{rank // tasks + 1}" for rank in range(4)}, result
    assert any(line.endswith(f", {launcher}") for line in mine(result)), result


def test_torchrun_that_the_image_has_not(cluster: Cluster) -> None:
    result = cluster.mnrun("--image", NOSSHD, "--", "torchrun", "train.py", nodes=2)
    assert result.code == 127, result
    assert "torchrun" in result.err, result


def test_what_goes_with_another_starter_is_refused(cluster: Cluster) -> None:
    result = cluster.mnrun(*ENV, "--mode", "outside-in", "--image", OMPI5, "--", "true", nodes=1)
    refusal(result, 122, "env starts ranks", "--mode inside-out")


@pytest.mark.skipif(not full(), reason="more than a minute of waiting")
def test_a_rank_that_ends_early_does_not_end_the_others(cluster: Cluster) -> None:
    """However long they need: srun's --wait counts from the first rank that ends, although it ends well."""
    late = '[ "$SLURM_PROCID" = 0 ] || { sleep 70; echo late; }'
    result = cluster.mnrun(*SRUN.words, "-n", "2", "--", "sh", "-c", late, nodes=2)
    assert (result.code, result.out) == (0, "late\n"), result
