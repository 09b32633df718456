"""The older scripts by their names, called just as people call them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from .cells import HELLO, OMPI5, one
from .reports import check
from .stage import LOGIN, Cluster, Desk, Result, wait_for
from .stranger import kill

DOOR = "srun_singularity.sh"
TWO = ("-N2", "-w", "node01,node02")


def call(
    cluster: Cluster, desk: Desk, text: str, *words: str, salloc: Sequence[str] = TWO, srun: Sequence[str] = ()
) -> Result:
    """`salloc …; srun srun_singularity.sh …` in alice's folder, with a script of these lines."""
    desk.put("job.sh", f"#!/bin/bash\n{text}\n", 0o755)
    line = [DOOR, f"--container={OMPI5}", "--script=./job.sh", *words]
    return cluster.alice(["salloc", "-Q", *salloc, "srun", *srun, *line], cwd=desk.path)


def notes(result: Result) -> list[str]:
    return [line for line in result.err.splitlines() if line.startswith(f"{DOOR}: ")]


def nothing_lies_about(cluster: Cluster) -> None:
    for node in cluster.nodes:
        assert not list(cluster.path("/tmp", node).glob("mnrun.door.*")), node


def test_front_door_with_a_plain_mpirun(cluster: Cluster, desk: Desk) -> None:
    check(call(cluster, desk, f"mpirun {HELLO}"), "node01", "node02", tasks=1)
    nothing_lies_about(cluster)


def test_front_door_in_a_batch_script_on_four_nodes(cluster: Cluster, desk: Desk) -> None:
    desk.put("job.sh", f"#!/bin/bash\nmpirun {HELLO}\n", 0o755)
    batch = desk.put("batch.sh", f"#!/bin/bash\nsrun {DOOR} --container={OMPI5} --script=./job.sh\n")
    words = ["sbatch", "-Q", "--wait", "-N4", "--ntasks-per-node=1", "-o", "out", "-e", "err", batch]
    done = cluster.alice(words, cwd=desk.path)
    check(Result(done.code, desk.read("out"), desk.read("err").decode()), *cluster.nodes, tasks=1)
    nothing_lies_about(cluster)


def test_front_door_with_all_its_options(cluster: Cluster, desk: Desk) -> None:
    data = f"{desk.path}/data"
    cluster.alice(["mkdir", data])
    text = f"""
        echo "$hostlist $np $ENVLIST $ONE $TWO"; printf '<%s>' "$@"; echo
        test -d /data/var && test -d {data} && echo mounted
        evars=; for evar in ${{ENVLIST//,/ }}; do evars="-x $evar $evars"; done
        mpirun $evars -H $hostlist -np $np --bind-to none {HELLO} -e TWO
        exit 3
    """
    words = ["--slots_per_node=2", f"--datamnts={data},/srv", "--envlist=ONE,TWO,NEITHER", "--epochs=3", "a b"]
    words += ["--singopts=-B /var:/data/var", "--iname=mine", "--sshconfigdir=/x", "--sshdport=12345", "--script_help"]
    env = ["env", "ONE=1", "TWO=x = 'y'"]
    desk.put("job.sh", f"#!/bin/bash\n{text}\n", 0o755)
    line = [DOOR, f"--container={OMPI5}", "--script=job.sh", *words]
    result = cluster.alice([*env, "salloc", "-Q", *TWO, "srun", *line], cwd=desk.path)
    assert result.code == 3, result
    lines = result.out.splitlines()
    assert lines[:3] == ["node01:2,node02:2 4 ONE,TWO 1 x = 'y'", "<--epochs=3><a b><--help>", "mounted"], result
    ranks = Result(0, "\n".join(lines[3:]).encode(), result.err)
    assert {rank.value for rank in check(ranks, "node01", "node02")} == {"x = 'y'"}
    said = notes(result)
    assert len(said) == 4, result
    for name, line_ in zip(("NEITHER", "--iname", "--sshconfigdir", "--sshdport"), said):
        assert name in line_, result


def test_front_door_in_a_step_that_has_everything(cluster: Cluster, desk: Desk) -> None:
    salloc = [*TWO, "--exclusive", "--ntasks-per-node=2"]
    result = call(cluster, desk, f"mpirun {HELLO}", salloc=salloc, srun=["--gres=gpu:4"])
    check(result, "node01", "node02", tasks=4)
    nothing_lies_about(cluster)


def test_front_door_on_some_nodes(cluster: Cluster, desk: Desk) -> None:
    assert call(cluster, desk, "echo $hostlist; uname -n", srun=["-N1", "-n1", "-w", "node02"]).out == (
        "node02:1\nnode02\n"
    )
    assert call(cluster, desk, "echo $hostlist", "--nodelist=node[02]").out == "node02:1\n"


def test_front_door_without_a_path(cluster: Cluster, desk: Desk) -> None:
    desk.put("job.sh", "#!/bin/sh\necho here\n", 0o755)
    line = [f"/usr/local/bin/{DOOR}", f"--container={OMPI5}", f"--script={desk.path}/job.sh"]
    result = cluster.alice(["salloc", "-Q", *TWO, "env", "PATH=/usr/bin:/bin", "srun", *line])
    assert (result.code, result.out) == (0, "here\n"), result


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((f"--container={OMPI5}",), "no script: name one with --script=FILE"),
        (("--script=job.sh",), "no image: name one with --container=FILE"),
        (("--container", OMPI5), "--container has no value: write --container=VALUE"),
    ],
)
def test_front_door_refuses(cluster: Cluster, words: tuple[str, ...], said: str) -> None:
    result = cluster.alice(["salloc", "-Q", *TWO, "srun", DOOR, *words])
    assert (result.code, notes(result)) == (2, [f"{DOOR}: {said}"]), result


def test_front_door_shows_its_usage(cluster: Cluster) -> None:
    for door, image in (("srun_singularity.sh", "a SIF file"), ("srun_docker.sh", "an image's name")):
        result = cluster.alice([door, "--help"])
        assert (result.code, result.err) == (0, ""), result
        assert result.out.startswith(f"usage: srun {door} --container="), result
        assert f"--container=IMAGE      {image}" in result.out, result
    result = cluster.alice(["pdsh_docker.sh", "--help"])
    assert result.out.startswith("usage: pdsh -w $NODES NODES=$NODES pdsh_docker.sh --noderank=%n --container="), result


@pytest.mark.parametrize("how", one(2, ["scancel", "the step", "kill -9"]))
def test_front_door_that_is_ended(cluster: Cluster, desk: Desk, how: str) -> None:
    desk.put("job.sh", "#!/bin/sh\necho up\nsleep 600\n", 0o755)
    line = ["salloc", "-Q", *TWO, "srun", DOOR, f"--container={OMPI5}", f"--script={desk.path}/job.sh"]
    with cluster.running(line) as job:
        job.saying(lambda result: "up" in result.out, "up")
        if how == "kill -9":
            first = [p for p in cluster.processes() if p.node == "node01" and any(DOOR in word for word in p.argv[:3])]
            kill(first)
        elif how == "the step":
            number = cluster.root(LOGIN, "squeue", "-h", "-o", "%i").strip()
            cluster.root(LOGIN, "scancel", f"{number}.0")
        else:
            cluster.root(LOGIN, "scancel", "-u", "alice")
        assert job.end().code != 0
    wait_for(lambda: not cluster.root(LOGIN, "squeue", "-h"), "gone")
    # its launcher may be killed with it, and that one's records are cleared by the next
    cluster.root(LOGIN, "sh", "-c", "rm -rf /home/alice/.mnrun/jobs/*")


def test_front_door_of_pdsh(cluster: Cluster, desk: Desk) -> None:
    desk.put("job.sh", f"#!/bin/bash\nmpirun {HELLO}\n", 0o755)
    line = f"PDSH_RCMD_TYPE=ssh pdsh -N -w $NODES NODES=$NODES pdsh_singularity.sh --noderank=%n --container={OMPI5} "
    line += "--script=job.sh --dockname=mine --workingdir=$PWD"
    result = cluster.alice(["env", "NODES=node01,node02", "bash", "-c", line], cwd=desk.path)
    check(result, "node01", "node02", tasks=1)
    assert result.err.count("--dockname has no effect now") == 1, result


def test_front_door_of_pdsh_that_is_killed(cluster: Cluster, desk: Desk) -> None:
    desk.put("job.sh", "#!/bin/sh\necho up\nexec sleep 600\n", 0o755)
    line = f"cd {desk.path}; NODES=node01,node02 PDSH_RCMD_TYPE=ssh; export NODES PDSH_RCMD_TYPE; "
    line += f"exec pdsh -w $NODES NODES=$NODES pdsh_singularity.sh --noderank=%n --container={OMPI5} "
    line += "--script=job.sh --workingdir=$PWD"
    with cluster.running(["bash", "-c", line]) as job:
        job.saying(lambda result: "up" in result.out, "up")
        names = ("pdsh", "ssh")
        kill([p for p in cluster.processes() if p.node == LOGIN and p.argv[0].rpartition("/")[2] in names])
        wait_for(lambda: not [p for p in cluster.processes() if p.node != LOGIN], "ended on the hosts", 120)


DOCKED = """\
#!/bin/bash
echo "$hostlist $np $ENVLIST $ONE $DOCKED"; printf '<%s>' "$@"; echo
pwd; grep CapBnd /proc/self/status; cat /proc/1/comm
mpirun -x DOCKED /opt/mpi/hello -e DOCKED >&2
exit 3
"""
DOCKED_WORDS = (
    "--container=localhost/ompi5",
    "--script=./job.sh",
    "--privileged",
    "--dockname=mine",
    "--ibdevices=/dev/x",
)


def docked(desk: Desk, result: Result, *lines: str) -> None:
    """Said in a privileged container of docker's, with what --dockopts gave it, and by a rank on each of two nodes."""
    said = [line.removeprefix("node01: ") for line in result.out.splitlines()]
    assert said[:3] == [*lines, desk.path] and said[4] == "docker-init", result
    assert int(said[3].split()[1], 16) >> 21 & 1, result  # CAP_SYS_ADMIN
    ranks = re.findall(r"\brank (\d+ of .*)", result.err)
    assert sorted(ranks) == [f"{n} of 2 on node0{n + 1} sum 3 VAR=yes" for n in range(2)], result
    for option in ("--dockname", "--ibdevices"):
        assert result.err.count(f"{option} has no effect now") == 1, result


def test_front_door_of_docker(engines: Cluster, desk: Desk) -> None:
    desk.put("job.sh", DOCKED, 0o755)
    line = ["srun_docker.sh", *DOCKED_WORDS, "--dockopts=-e DOCKED=yes", "--envlist=ONE", "--epochs=3", "a b"]
    result = engines.alice(["env", "ONE=1", "salloc", "-Q", *TWO, "srun", *line], cwd=desk.path)
    assert result.code == 3, result
    docked(desk, result, "node01:1,node02:1 2 ONE 1 yes", "<--epochs=3><a b>")
    assert engines.containers() == []


def test_front_door_of_pdsh_and_docker(engines: Cluster, desk: Desk) -> None:
    """pdsh_docker.sh, likewise; pdsh is told the code, and says it with -S."""
    desk.put("job.sh", DOCKED, 0o755)
    words = " ".join((*DOCKED_WORDS, "--dockopts='\"-e DOCKED=yes\"'", "--workingdir=$PWD --epochs=3"))
    line = f"PDSH_RCMD_TYPE=ssh pdsh -S -w $NODES NODES=$NODES pdsh_docker.sh --noderank=%n {words}"
    result = engines.alice(["env", "NODES=node01,node02", "bash", "-c", line], cwd=desk.path)
    assert result.code == 3, result
    docked(desk, result, "node01:1,node02:1 2   yes", "<--epochs=3>")
    assert engines.containers() == []
