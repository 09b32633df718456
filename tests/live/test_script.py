"""--script: the user's own script, once in the master container, where a plain mpirun and ssh simply work."""

from __future__ import annotations

import shlex

import pytest

from .cells import HELLO, IMAGES, INSIDE, OMPI5, Way, cells, one, some
from .reports import OURS, check, mine, refusal
from .stage import LOGIN, Cluster, Desk, Result

INSIDE_IMAGES = tuple(Way("inside", image) for image in ("ompi5", "ompi4", "mpich"))


def run(cluster: Cluster, desk: Desk, text: str, *words: str, way: Way = INSIDE, **more: object) -> Result:
    """Run a script of these lines on 4 nodes with 2 slots each, or as `more` says."""
    path = desk.put("job.sh", f"#!/bin/sh\n{text}\n", 0o755)
    return cluster.mnrun(*way.words, "--script", path, *words, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", one(0, INSIDE_IMAGES), ids=str)
def test_script_with_a_plain_mpirun(cluster: Cluster, desk: Desk, way: Way) -> None:
    result = run(cluster, desk, f"mpirun {HELLO} -e FOO", "-x", "FOO=a 'b' $c", way=way)
    assert {rank.value for rank in check(result, *cluster.nodes)} == {"a 'b' $c"}


@pytest.mark.parametrize(
    ("image", "name"), one(2, cells({"image": ("ompi5", "ompi4", "mpich"), "name": ("mpirun", "mpiexec")}, together=1))
)
def test_script_with_several_mpiruns(cluster: Cluster, desk: Desk, image: str, name: str) -> None:
    text = f"set +e\n{name} -n 3 {HELLO} -x 5\necho code $?\n{name} {HELLO} && echo code $?"
    result = run(cluster, desk, text, way=Way("inside", image))
    assert result.code == 0, result
    lines = result.out.splitlines()
    assert lines[3] == "code 5", result
    assert lines[-1] == "code 0", result
    assert len(lines) == 3 + 1 + 8 + 1, result


def test_script_that_hands_on_a_variable(cluster: Cluster, desk: Desk) -> None:
    """mpirun -x of Open MPI 4, which refuses it beside the list that gives ranks the job's SLURM_JOB_ID."""
    text = f"export FOO=bar\nmpirun -x FOO {HELLO} -e FOO\nmpirun -x FOO -n 1 printenv SLURM_JOB_ID >&2"
    result = run(cluster, desk, text, way=Way("inside", "ompi4"))
    assert {rank.value for rank in check(result, *cluster.nodes)} == {"bar"}
    assert any(line.isdecimal() for line in result.err.splitlines()), result


def test_script_runs_once_on_the_first_node(cluster: Cluster, desk: Desk) -> None:
    result = run(
        cluster, desk, 'uname -n; pwd; printf "%s\\n" "$#" "$@"', "one", "-n", "t w o", "--", "$x", cwd=desk.path
    )
    assert (result.code, result.out) == (0, f"node01\n{desk.path}\n5\none\n-n\nt w o\n--\n$x\n"), result


def test_script_and_options(cluster: Cluster, desk: Desk) -> None:
    result = run(cluster, desk, 'echo "$FOO $np" "$@"', "-x", "FOO=bar", "-N", "2", "--", "-x", "A", nodes=4)
    assert (result.code, result.out) == (0, "bar 4 -x A\n"), result


def test_script_elsewhere(cluster: Cluster) -> None:
    with cluster.desk((LOGIN, "node01"), under="/srv") as desk:
        for node in (LOGIN, "node01"):
            cluster.put(f"{desk.path}/lines", "echo beside\n", node=node)
            cluster.put(f"{desk.path}/job.sh", '#!/bin/sh\n. "${0%/*}/lines"\n', 0o755, node)
        result = cluster.mnrun(*INSIDE.words, "--script", f"{desk.path}/job.sh", nodes=1)
    assert (result.code, result.out) == (0, "beside\n"), result


def test_script_named_from_here(cluster: Cluster, desk: Desk) -> None:
    desk.put("mine.sh", "#!/bin/sh\necho here\n", 0o755)
    result = cluster.mnrun(*INSIDE.words, "--script", "mine.sh", nodes=1, cwd=desk.path)
    assert (result.code, result.out) == (0, "here\n"), result


def test_script_knows_what_older_scripts_knew(cluster: Cluster, desk: Desk) -> None:
    variables = desk.put("variables", "LISTED=1\nOTHER=2\n")
    text = 'echo "$hostlist"; echo "$np"; echo "$ENVLIST"'
    result = run(cluster, desk, text, "--env-file", variables, "-x", "FOO=bar", "-x", "HOME", "-N", "3", "-n", "5")
    assert result.code == 0, result
    assert result.out.splitlines() == ["node01:2,node02:2,node03:1", "5", "LISTED,OTHER,FOO,HOME"], result
    assert check_hostlist(cluster, desk).out == "node01:2,node02:2,node03:2,node04:2\n"


def check_hostlist(cluster: Cluster, desk: Desk) -> Result:
    return run(cluster, desk, 'echo "$hostlist"')


@pytest.mark.parametrize("way", one(1, INSIDE_IMAGES), ids=str)
def test_script_reaches_nodes_by_ssh(cluster: Cluster, desk: Desk, way: Way) -> None:
    """ssh NODE COMMAND: on that node, in the container, with directory, environment, input and exit code."""
    text = """
        for node in node01 node02 node03 node04; do
            ssh $node 'echo "$(uname -n) $(pwd) $FOO $SLURM_JOB_ID"; test -x /opt/mpi/hello; exit 7'
            echo "code $?"
        done
        echo "through the pipe" | ssh node03 cat
        ssh node02 'kill -9 $$'; [ $? -ne 0 ] && echo "not 0"
        ssh node02 echo "two  words" '$((1 + 1))'
        ssh node99 true 2>/dev/null || echo "no node99"
    """
    result = run(cluster, desk, text, "-x", "FOO=a'b c", way=way, cwd=desk.path)
    assert result.code == 0, result
    lines = result.out.splitlines()
    for number, node in enumerate(cluster.nodes):
        host, where, *foo, job = lines[2 * number].split(" ")
        assert (host, where, foo) == (node, desk.path, ["a'b", "c"]), result
        assert job.isdecimal(), result
        assert lines[2 * number + 1] == "code 7", result
    assert lines[8:] == ["through the pipe", "not 0", "two words 2", "no node99"], result


@pytest.mark.parametrize("way", one(2, INSIDE_IMAGES), ids=str)
def test_ranks_reach_nodes_by_ssh(cluster: Cluster, desk: Desk, way: Way) -> None:
    line = "for node in node01 node02; do ssh $node 'echo $FOO from $(uname -n) in $(pwd)'; done; ssh node02 exit 9"
    words = ["-x", "FOO=bar", "--", "sh", "-c", f"{line}; echo code $?"]
    result = cluster.mnrun(*way.words, *words, nodes=2, tasks=1, cwd=desk.path)
    assert result.code == 0, result
    each = [f"bar from node01 in {desk.path}", f"bar from node02 in {desk.path}", "code 9"]
    assert sorted(result.out.splitlines()) == sorted(each * 2), result


@pytest.mark.parametrize("way", one(0, INSIDE_IMAGES[:2]), ids=str)
def test_script_has_the_job_and_mpirun_has_not(cluster: Cluster, desk: Desk, way: Way) -> None:
    text = """
        echo "$SLURM_JOB_ID $SLURM_JOB_NAME ${SLURM_PROCID-unset}"
        mpirun -n 1 sh -c 'tr "\\0" "\\n" </proc/$PPID/environ'
    """
    result = run(cluster, desk, text, way=way, salloc=("-J", "name"))
    assert result.code == 0, result
    script, *mpirun = result.out.splitlines()
    job, *rest = script.split()
    assert (job.isdecimal(), rest) == (True, ["name", "0"]), result
    names = {line.partition("=")[0] for line in mpirun}
    assert "HOME" in names, result
    assert [name for name in names if name.startswith(("SLURM_", "PMI_", "PMI2_", "PMIX_RANK"))] == [], result


@pytest.mark.parametrize("way", one(1, INSIDE_IMAGES[:2]), ids=str)
def test_script_gives_ranks_their_job(cluster: Cluster, desk: Desk, way: Way) -> None:
    result = run(cluster, desk, f"echo $SLURM_JOB_ID; mpirun {HELLO} -e SLURM_JOB_ID", way=way)
    assert result.code == 0, result
    job, _, found = result.out.partition("\n")
    values = {rank.value for rank in check(Result(0, found.encode(), result.err), *cluster.nodes)}
    assert values == {job}, result


def test_script_reads_the_users_input(cluster: Cluster, desk: Desk) -> None:
    data = bytes(range(256)) * 4000
    result = run(cluster, desk, "exec cat", stdin=data)
    assert result.code == 0, result
    assert result.raw == data


@pytest.mark.parametrize("code", some([0, 1, 7, 255], [0, 255]))
def test_script_ends_with_its_own_code(cluster: Cluster, desk: Desk, code: int) -> None:
    result = run(cluster, desk, f"mpirun -n 2 false; exit {code}", nodes=1)
    assert result.code == code, result
    assert "Traceback" not in result.err, result


def test_script_ended_by_a_signal(cluster: Cluster, desk: Desk) -> None:
    """128 + n."""
    assert run(cluster, desk, "kill -9 $$", nodes=1).code == 137


@pytest.mark.parametrize("there", ["nowhere", "not executable"])
def test_script_that_cannot_run(cluster: Cluster, desk: Desk, there: str) -> None:
    path = f"{desk.path}/job.sh"
    if there != "nowhere":
        desk.put("job.sh", "#!/bin/sh\necho ran\n", 0o644)
    result = cluster.mnrun(*INSIDE.words, "--script", path, nodes=2)
    line = refusal(result, (2, 126, 127, *OURS), path)
    assert len([said for said in mine(result) if path in said]) == 1, (line, result)


@pytest.mark.parametrize(
    ("image", "command"),
    one(
        1,
        cells(
            {"image": ("ompi5", "ompi4", "mpich"), "command": ("mpirun", "mpiexec -n 8", "/usr/bin/env mpirun")},
            together=1,
        ),
    ),
)
def test_command_that_starts_its_own_ranks(cluster: Cluster, image: str, command: str) -> None:
    way, words = Way("inside", image), command.split()
    if words[0].endswith("env"):
        result = cluster.mnrun(*way.words, "--script", *words, HELLO)
    else:
        result = cluster.mnrun(*way.words, "--", *words, HELLO)
        assert any(f": {words[0]} on node" in line for line in mine(result)), result
    check(result, *cluster.nodes)


def test_script_of_one_machine(cluster: Cluster, desk: Desk) -> None:
    path = desk.put("job.sh", f'#!/bin/sh\necho "$hostlist $np"\nmpirun {HELLO}\nssh {LOGIN} exit 3\n', 0o755)
    for image in (["--image", OMPI5], ["--image", IMAGES["ompi4"]]):
        result = cluster.alice(["mnrun", "--local", *image, "-n", "2", "--script", path])
        assert result.code == 3, result
        assert result.out.splitlines()[0] == f"{LOGIN}:2 2", result
        assert len(result.out.splitlines()) == 3, result


def test_script_without_a_container(cluster: Cluster, desk: Desk) -> None:
    result = run(cluster, desk, f"mpirun {HELLO}; ssh node03 uname -n >&2", way=Way("inside", "host"))
    check(result, *cluster.nodes)
    assert "node03" in result.err.splitlines(), shlex.quote(result.err)


def test_script_of_people_who_write_srun(cluster: Cluster) -> None:
    """The image's own srun runs by its path: once, inside, where there is none."""
    result = cluster.mnrun(*INSIDE.words, "--", "/usr/bin/srun", HELLO, nodes=2)
    assert result.code == 127, result
    assert "sh: /usr/bin/srun: not found" in result.err.splitlines(), result
    assert any(": srun on node" in line for line in mine(result)), result


def test_script_by_many_ssh_at_once(cluster: Cluster, desk: Desk) -> None:
    body = "for i in $(seq 10); do for n in 1 2 3 4; do ssh node0$n echo $i.$n & done; done; wait\n"
    script = desk.put("job", f"#!/bin/sh\n{body}", 0o755)
    result = cluster.mnrun(*INSIDE.words, "--script", script)
    assert result.code == 0, result
    assert sorted(result.out.split()) == sorted(f"{i}.{n}" for i in range(1, 11) for n in range(1, 5)), result


def test_script_with_mpiruns_side_by_side(cluster: Cluster, desk: Desk) -> None:
    body = f"mpirun {HELLO} >{desk.path}/one & mpirun {HELLO} >{desk.path}/two & wait\n"
    script = desk.put("job", f"#!/bin/sh\n{body}", 0o755)
    result = cluster.mnrun(*INSIDE.words, "--script", script)
    assert result.code == 0, result
    for name in ("one", "two"):
        assert desk.read(name).count(b" of 8 on ") == 8, (name, desk.read(name), result)


def test_script_of_its_own_hostfile(cluster: Cluster) -> None:
    result = cluster.mnrun("--image", OMPI5, "--", "mpirun", "--host", "node02:2,node04:1", HELLO)
    check(result, spread={"node02": 2, "node04": 1})
