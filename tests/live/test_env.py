"""What a rank finds about itself: variables, directories, mounts; and what it does not."""

from __future__ import annotations

import re
import shlex

import pytest

from .batch import forget
from .cells import HELLO, INSIDE, MAIN, OMPI5, Way, one, turn
from .reports import check, errors, mine, only_line, shown
from .stage import LOGIN, Cluster, Desk

OTHERS = (Way("inside", "ompi4"), Way("mpirun", "ompi4"), Way("mpirun", "ompi5", "rank"), Way("inside", "mpich"))


def each(number: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("way", turn(number, (*MAIN, *OTHERS), [], MAIN, OTHERS), ids=str)


# Open MPI 4 would take a rank that has these for one of srun's.
OF_SRUN = ("SLURM_JOBID", "SLURM_NODELIST", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_GTIDS")


def standing(rank: int) -> dict[str, str]:
    node, local = str(rank // 2), str(rank % 2)
    return {
        **{"RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": "2", "NODE_RANK": node},
        **{"SLURM_PROCID": str(rank), "SLURM_NTASKS": "4", "SLURM_LOCALID": local, "SLURM_NODEID": node},
        **{"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "node[01-02]", "SLURM_NNODES": "2"},
        **{"SLURM_JOB_NODELIST": "node[01-02]", "SLURM_STEP_TASKS_PER_NODE": "2(x2)", "PYTHONUNBUFFERED": "1"},
    }


def environments(desk: Desk, size: int) -> list[dict[str, str]]:
    def text(word: str) -> str:
        return bytes.fromhex(word).decode("utf-8", "replace")

    return [{text(name): text(value) for name, value in report["env"].items()} for report in shown(desk, size)]


@each(0)
def test_env_of_the_job(cluster: Cluster, desk: Desk, way: Way) -> None:
    """(F6) Each rank has the facts of its job and its place, whoever starts it, and nothing that misleads an MPI."""
    salloc = ["--job-name", "my job"]
    words = [*way.words, "--", desk.program("show.py"), desk.path]
    result = cluster.mnrun(*words, nodes=2, salloc=salloc, cwd=desk.path)
    assert result.code == 0, result
    found = environments(desk, 4)
    assert len({env.get("SLURM_JOB_ID") for env in found}) == 1, found
    for rank, env in enumerate(found):
        assert env["SLURM_JOB_ID"].isdecimal()
        assert env["SLURM_JOB_NAME"] == "my job"
        assert env["SLURM_SUBMIT_DIR"] == desk.path
        wanted = standing(rank)
        assert {name: env.get(name) for name in wanted} == wanted
        if way.start == "inside":
            assert {name: env[name] for name in OF_SRUN if name in env} == {}
    assert len({(env["MASTER_ADDR"], int(env["MASTER_PORT"])) for env in found}) == 1


@pytest.mark.parametrize("image", ["mpich", "ompi4"])
def test_env_of_a_rank_misleads_no_mpi(cluster: Cluster, desk: Desk, image: str) -> None:
    script = desk.put("own", 'PATH=${PATH#*:}; test "$RANK" = mine && $(command -v mpirun) -n 1 /opt/mpi/hello\n')
    words = ("-Q", *Way("inside", image).words, "--launcher", "env", "-x", "RANK=mine", "--", "sh", script)
    result = cluster.mnrun(*words, nodes=2, tasks=1, cwd=desk.path)
    assert (result.code, result.out.count("rank 0 of 1")) == (0, 2), result


def test_env_of_a_python_program_that_waits(cluster: Cluster) -> None:
    code = "import time; print('hello'); time.sleep(600)"
    words = cluster.launch("-Q", *INSIDE.words, "--", "python3", "-c", code, nodes=1, tasks=1)
    with cluster.running(words) as job:
        job.saying(lambda result: result.out == "hello\n", "heard")
        job.process.terminate()


def test_env_of_a_script(cluster: Cluster, desk: Desk) -> None:
    """(F14) One that starts its own ranks has Slurm's variables of a batch script."""
    script = desk.put("own", f'#!/bin/sh\nmpirun -np $SLURM_NTASKS {HELLO}; echo "$SLURM_CPUS_PER_TASK"\n', 0o755)
    result = cluster.mnrun("-Q", *INSIDE.words, "--script", script, "-c", "1", nodes=2, tasks=1, cwd=desk.path)
    assert (result.code, result.out.count(" of 2 on "), result.out.splitlines()[-1]) == (0, 2, "1"), result


def test_env_of_an_array(cluster: Cluster, desk: Desk) -> None:
    program = desk.program("show.py")
    cluster.path(f"{desk.path}/out").mkdir(mode=0o777)
    lines = ["#!/bin/sh"]
    for way in one(0, MAIN):
        place = f"{desk.path}/out/{way}.$SLURM_ARRAY_TASK_ID"
        lines += [f"mkdir {place}", f"mnrun {shlex.join(way.words)} -- {program} {place} || exit 1"]
    script = desk.put("job.sh", "\n".join([*lines, ""]), 0o755)
    out = f"{desk.path}/out/log.%a"
    cluster.path(f"{desk.path}/out").chmod(0o777)
    done = cluster.alice(["sbatch", "-Q", "--wait", "--array=3,5", "-N2", "--ntasks-per-node=1", "-o", out, script])
    assert done.code == 0, (done, [desk.read(f"out/log.{task}").decode() for task in (3, 5)])
    jobs = set()
    for way in one(0, MAIN):
        for task in ("3", "5"):
            for env in environments(Desk(cluster, f"{desk.path}/out/{way}.{task}"), 2):
                assert env["SLURM_ARRAY_TASK_ID"] == task
                assert {env["SLURM_ARRAY_TASK_MIN"], env["SLURM_ARRAY_TASK_MAX"]} == {"3", "5"}
                jobs.add((env["SLURM_ARRAY_JOB_ID"], env["SLURM_JOB_ID"], task))
    assert len({job for job, _, _ in jobs}) == 1, jobs
    assert len({own for _, own, _ in jobs}) == 2, jobs
    for array, _, task in jobs:
        assert f"job {array}_{task}: ".encode() in desk.read(f"out/log.{task}")
    forget(cluster)


@each(1)
def test_env_of_the_host_stays_there(cluster: Cluster, desk: Desk, way: Way) -> None:
    startup = desk.put("startup", "")
    host = {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/host/only",
        "LD_LIBRARY_PATH": "/host/only",
        "LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libm.so.6",
        "PYTHONPATH": "/host/only",
        "PYTHONSTARTUP": startup,
        "BASH_ENV": startup,
        "ENV": startup,
        "BASH_FUNC_module%%": "() {  echo leaked\n}",
        "OPAL_PREFIX": "/usr",
    }
    result = cluster.mnrun(*way.words, "--", desk.program("show.py"), desk.path, nodes=2, env=host)
    assert result.code == 0, result
    for env in environments(desk, 4):
        assert "/host/only" not in env["PATH"].split(":"), env["PATH"]
        for name in host:
            if name != "PATH":
                assert name not in env or host[name] != env[name], (name, env[name])
        assert [name for name in env if name.startswith("BASH_FUNC")] == []


@each(2)
def test_env_that_is_asked_for(cluster: Cluster, desk: Desk, way: Way) -> None:
    """-x NAME, -x NAME=VALUE and --env-file, later ones first; also of names that would stay on the host."""
    listed = desk.put("variables", "# comment\nLISTED=from the file\nBOTH=file\nHOST_ONE\n")
    words = [
        *("--env-file", listed, "-x", "HOST_TWO", "-x", "GIVEN=a=b,c", "-x", "BOTH=line", "-x", "EMPTY="),
        *("-x", "PATH=/mine:/usr/local/bin:/usr/bin:/bin", "-x", "LD_LIBRARY_PATH=/mine"),
    ]
    env = {"HOST_ONE": "1 one", "HOST_TWO": "2 two", "HOST_THREE": "$(touch /tmp/pwned)`touch /tmp/pwned`"}
    result = cluster.mnrun(*way.words, *words, "--", desk.program("show.py"), desk.path, nodes=2, env=env)
    assert result.code == 0, result
    wanted = {
        "LISTED": "from the file",
        "BOTH": "line",
        "HOST_ONE": "1 one",
        "HOST_TWO": "2 two",
        "GIVEN": "a=b,c",
        "EMPTY": "",
    }
    for found in environments(desk, 4):
        assert {name: found.get(name) for name in wanted} == wanted
        assert found["PATH"].endswith("/mine:/usr/local/bin:/usr/bin:/bin"), found["PATH"]
        assert found["LD_LIBRARY_PATH"].split(":")[0] == "/mine", found["LD_LIBRARY_PATH"]
        assert found.get("HOST_THREE") in (None, env["HOST_THREE"])
    for node in (LOGIN, "node01", "node02"):
        assert not cluster.path("/tmp/pwned", node).exists(), node


@each(3)
def test_env_with_home_and_without(cluster: Cluster, desk: Desk, way: Way) -> None:
    """Home is there, and ~/.local of it must not shadow the image's Python; with --no-home it really is not."""
    desk.put("here", "")
    look = 'echo "${PYTHONNOUSERSITE-unset} $(ls $0 2>/dev/null | wc -l) $(id -un) $HOME"'
    line = ["--", "sh", "-c", look, desk.path]
    result = cluster.mnrun(*way.words, *line, nodes=2, tasks=1)
    assert result.out.splitlines() == ["1 1 alice /home/alice"] * 2, result
    words = (*way.words, "--no-home", *([] if way.start == "inside" else ["--force"]))
    at_home = cluster.mnrun(*words, *line, nodes=2, tasks=1)  # where it is the working directory
    only_line(at_home, 122, "--no-home", "/home/alice is the home directory", "--chdir")
    result = cluster.mnrun(*words, *line, nodes=2, tasks=1, cwd="/tmp")
    assert [words.split()[:3] for words in result.out.splitlines()] == [["unset", "0", "alice"]] * 2, result


@each(4)
def test_env_current_directory_elsewhere(cluster: Cluster, way: Way) -> None:
    nodes = (LOGIN, "node01", "node02")
    with cluster.desk(nodes, under="/srv") as desk:
        result = cluster.mnrun(*way.words, "--", "sh", "-c", "pwd; touch made", nodes=2, tasks=1, cwd=desk.path)
        assert (result.code, result.out) == (0, f"{desk.path}\n" * 2), result
        for node in nodes[1:]:
            assert [path.name for path in cluster.path(desk.path, node).iterdir()] == ["made"], node
        for words, place in ((("-D", desk.path), desk.path), (("-D", "/work", "-B", f"{desk.path}:/work"), "/work")):
            result = cluster.mnrun(*way.words, *words, "--", "pwd", nodes=2, tasks=1)
            assert (result.code, result.out) == (0, f"{place}\n" * 2), result


def test_env_current_directory_by_a_link(cluster: Cluster, desk: Desk) -> None:
    cluster.path(f"{desk.path}/real").mkdir()
    cluster.path(f"{desk.path}/link").symlink_to(f"{desk.path}/real")
    for way in MAIN:
        line = f"cd {desk.path}/link && exec mnrun {shlex.join(way.words)} -- pwd"
        result = cluster.alice(["salloc", "-Q", "-N2", "--ntasks-per-node=1", "sh", "-c", line])
        assert result.code == 0, result
        assert result.out in (f"{desk.path}/link\n" * 2, f"{desk.path}/real\n" * 2), result


@pytest.mark.parametrize("place", ["/tmp", "/no/such/" + "long/" * 30])
@pytest.mark.parametrize("image", ["ompi5", "ompi4", "mpich"])
def test_env_a_tmpdir_of_the_users(cluster: Cluster, desk: Desk, image: str, place: str) -> None:
    """F4: ranks have it, and mpirun's daemons do not: jobs whose daemons have equal pids would meet there."""
    line = "echo $TMPDIR; ls /tmp >>$0; exit 7"
    words = [*Way("inside", image).words, "-x", f"TMPDIR={place}", "-x", "XDG_RUNTIME_DIR=/no/such", "--", "sh", "-c"]
    result = cluster.mnrun(*words, line, f"{desk.path}/seen", nodes=2, tasks=1)
    assert (result.code, set(result.out.split())) == (7, {place}), result
    assert not re.search("^(prte|ompi|pmix)", desk.read("seen").decode(), re.MULTILINE)


@each(5)
def test_env_binds(cluster: Cluster, way: Way) -> None:
    """--bind SRC:DST:ro is there and cannot be written to; SRC:DST can; SRC alone is where it was."""
    nodes = (LOGIN, "node01", "node02")
    with cluster.desk(nodes, under="/srv") as desk:
        for node in nodes:
            cluster.put(f"{desk.path}/file", f"of {node}\n", node=node)
        binds = ["-B", f"{desk.path}:/locked:ro", "-B", f"{desk.path}:/open place", "--bind", desk.path]
        line = 'cat /locked/file "$0/file"; touch /locked/no 2>/dev/null || echo read-only; touch "/open place/made"'
        result = cluster.mnrun(*way.words, *binds, "--", "sh", "-c", line, desk.path, nodes=2, tasks=1)
        assert result.code == 0, result
        wanted = [f"of {node}" for node in ("node01", "node02") for _ in range(2)]
        assert sorted(result.out.splitlines()) == sorted([*wanted, *["read-only"] * 2]), result
        for node in nodes[1:]:
            assert sorted(path.name for path in cluster.path(desk.path, node).iterdir()) == ["file", "made"]


@each(6)
def test_env_container_arguments(cluster: Cluster, way: Way) -> None:
    """--container-args reach the runtime as a shell would split them, and may be given more than once."""
    with cluster.desk((LOGIN, "node01"), under="/srv") as desk:
        cluster.put(f"{desk.path}/file", "it is there\n", node="node01")
        words = ["--container-args", f"--bind '{desk.path}:/by hand:ro'", "--container-args", "--bind /usr:/also"]
        line = "cat '/by hand/file' && test -d /also/bin && echo both"
        result = cluster.mnrun(*way.words, *words, "--", "sh", "-c", line, nodes=1, tasks=1)
        assert (result.code, result.out) == (0, "it is there\nboth\n"), result


@each(7)
def test_env_temporary_directory(cluster: Cluster, way: Way) -> None:
    line = 'file=$(mktemp) && echo "$TMPDIR $file $(stat -c %a "$TMPDIR")"'
    result = cluster.mnrun(*way.words, "--", "sh", "-c", line, nodes=2)
    assert result.code == 0, result
    found = [text.split() for text in result.out.splitlines()]
    assert len(found) == 4, result
    for place, file, mode in found:
        assert place.startswith("/tmp/mnrun."), result
        assert (file.startswith(f"{place}/"), mode) == (True, "700"), result


def test_env_of_a_shell_with_job_inputs(cluster: Cluster) -> None:
    """srun's and salloc's own inputs in the launching shell shape no step of ours."""
    inputs = {
        "SLURM_CPU_BIND": "map_cpu:0",
        "SLURM_DISTRIBUTION": "cyclic",
        "SLURM_EXPORT_ENV": "NONE",
        "SLURM_MEM_PER_NODE": "99999999",
        "SLURM_NTASKS_PER_CORE": "1",
        "SLURM_OVERCOMMIT": "1",
        "SLURM_EXACT": "1",
        "SLURM_WHOLE": "1",
        "SLURM_MPI_TYPE": "pmi2",
        "SLURM_WORKING_DIR": "/nowhere",
        "SLURM_STDOUTMODE": "/tmp/lost",
        "SLURM_LABELIO": "1",
        "SRUN_EXPORT_ENV": "NONE",
        "SRUN_CPUS_PER_TASK": "2",
        "SALLOC_PARTITION": "none",
        "SBATCH_PARTITION": "none",
        "PMIX_RANK": "5",
        "PMI_RANK": "5",
        "OMPI_COMM_WORLD_RANK": "5",
        "HYDRA_LAUNCHER_EXTRA_ARGS": "--external-launcher",
    }
    for way in one(1, MAIN):
        check(cluster.mnrun(*way.words, "--", HELLO, env=inputs), *cluster.nodes)


@pytest.mark.parametrize("way", one(1, [INSIDE, Way("mpirun", "ompi4")]), ids=str)
def test_env_keeps_the_user_s_python_packages_out(cluster: Cluster, way: Way) -> None:
    places = [f"/home/alice/.local/lib/python3.{minor}/site-packages" for minor in (11, 13)]
    cluster.root(LOGIN, "sh", "-c", f"install -d -o alice {' '.join(places)}")
    for place in places:
        cluster.put(f"{place}/mpi4py.py", "raise SystemExit('from ~/.local')\n")
    try:
        code = "from mpi4py import MPI; import os; print(os.environ['PYTHONNOUSERSITE'])"
        result = cluster.mnrun(*way.words, "--", "python3", "-c", code, nodes=2, tasks=1)
        assert (result.code, result.out) == (0, "1\n1\n"), result
    finally:
        cluster.root(LOGIN, "rm", "-rf", "/home/alice/.local")


@pytest.mark.parametrize("way", one(0, MAIN), ids=str)
def test_env_of_files(cluster: Cluster, desk: Desk, way: Way) -> None:
    result = cluster.mnrun(*way.words, "--", desk.program("show.py"), desk.path, nodes=2, cwd=desk.path)
    assert result.code == 0, result
    for report, env in zip(shown(desk, 4), environments(desk, 4)):
        assert (env["HOME"], env["PWD"]) == ("/home/alice", desk.path)
        assert report["cwd"] == desk.path
        assert report["uid"] == 1500
        assert ".bashrc" in report["home"]


def test_env_of_mpi_args(cluster: Cluster) -> None:
    """--mpi-args go to mpirun and to srun as they are."""
    for way in (INSIDE, Way("mpirun", "ompi5")):
        result = cluster.mnrun(*way.words, "--mpi-args", "-x 'FOO=two words'", "--", HELLO, "-e", "FOO", nodes=2)
        assert {rank.value for rank in check(result, "node01", "node02")} == {"two words"}, result
    result = cluster.mnrun(*Way("srun", "ompi5").words, "--mpi-args", "--label", "--", HELLO, nodes=2)
    assert result.code == 0, result
    assert re.search(r"^3: rank 3 of 4 on node02", result.out, re.M), result


def test_env_sets_options(cluster: Cluster) -> None:
    env = {"MNRUN_IMAGE": OMPI5, "MNRUN_MODE": "outside-in", "MNRUN_NTASKS_PER_NODE": "1", "MNRUN_NODES": "3"}
    result = cluster.mnrun("--", HELLO, env=env)
    check(result, "node01", "node02", "node03", tasks=1)
    assert "the node's mpirun" in result.err, result
    result = cluster.mnrun("--mode", "inside-out", "-N", "2", "--", HELLO, env=env)
    check(result, "node01", "node02", tasks=1)
    assert "outside-in" not in result.err, result
    quiet = cluster.mnrun("--", HELLO, env={**env, "MNRUN_QUIET": "1"})
    assert errors(quiet) == "", quiet


def test_env_default_mode_says_so(cluster: Cluster) -> None:
    result = cluster.mnrun("--image", OMPI5, "--", HELLO, nodes=1, tasks=1)
    check(result, "node01", tasks=1)
    (line,) = mine(result)
    assert re.fullmatch(r"job \d+: 1 rank on node01, apptainer", line), result
