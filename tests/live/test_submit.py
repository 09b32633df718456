"""Submitted jobs: the script does what a live run does, with the same words, and nothing of it stays on a node."""

from __future__ import annotations

import json
import time

import pytest

from published import checked

from .batch import USR1, end, forget, output, programs, state, submit
from .cells import HELLO, INSIDE, MAIN, OMPI4, OMPI5, SRUN, Way, one
from .reports import mine, only_line, ranks, refusal
from .stage import LOGIN, TOP, Cluster, Desk, Result, wait_for


def test_submit_shows_what_it_hands_in(cluster: Cluster, desk: Desk) -> None:
    """--dry-run and plan --format sbatch print the script, which is plain bash; nothing is handed in or written."""
    words = ["-N", "2", "--image", OMPI5, "--", HELLO]
    before = [str(path) for path in cluster.path("/home/alice/.mnrun").rglob("*")]
    shown = cluster.alice(["mnrun", "submit", "--dry-run", *words], cwd=desk.path)
    assert shown.code == 0, shown
    assert "#SBATCH --nodes=2" in shown.out, shown
    planned = cluster.alice(["mnrun", "plan", "--format", "sbatch", *words], cwd=desk.path)
    typed = "# Written by mnrun "
    assert [line for line in planned.out.splitlines() if not line.startswith(typed)] == [
        line for line in shown.out.splitlines() if not line.startswith(typed)
    ]
    assert [str(path) for path in cluster.path("/home/alice/.mnrun").rglob("*")] == before


def test_submit_and_be_told(cluster: Cluster, desk: Desk) -> None:
    """The first node of the job runs the command, after the record of the job's end or before it."""
    tell = f'echo "$MNRUN_JOB $MNRUN_EVENT $MNRUN_STATE $MNRUN_CODE" >>{desk.path}/told'
    words = ["-N", "1", "--runtime", "host", "--notify", tell, "--notify-on", "start,end"]
    number = submit(cluster, desk, *words, "--", "sh", "-c", "exit 3")
    told = cluster.path(f"{desk.path}/told")
    wait_for(lambda: told.exists() and told.read_text().count("\n") == 2, "told")
    assert told.read_text().splitlines() == [f"{number} start running ", f"{number} end failed 3"]
    done = cluster.alice(["mnrun", "wait", "--notify", "false", number])
    assert (done.code, "--notify false: " in done.err) == (3, True), done
    forget(cluster)


def test_submit_once_more_and_look_at_what_failed(cluster: Cluster, desk: Desk) -> None:
    """The ranks that had a TERM after the first have not failed. The job runs where it ran before, from any place."""

    def failed(job: str) -> list[str]:
        shown = cluster.alice(["mnrun", "logs", "--failed", job])
        assert shown.code == 0, shown
        return shown.out.splitlines()

    def again(*words: str) -> str:
        done = cluster.alice(["mnrun", "rerun", *words], cwd="/tmp")
        assert done.code == 0, done
        return done.out.strip()

    shape = ["-N", "2", "--ntasks-per-node", "2", "--label", "--runtime", "host", "--launcher", "env", "-x", "A=one"]
    line = 'echo "$A $RANK"; until [ -e $RANK ]; do sleep 0.1; done; exit 3'
    desk.put("2", "")
    case = ["--", "sh", "-c", 'exit "$SLURM_ARRAY_TASK_ID"']
    job = submit(cluster, desk, *shape, "--", "sh", "-c", line)
    array = submit(cluster, desk, "-N", "1", "-a", "0-2", "--runtime", "host", "--launcher", "env", *case)
    other = again(job, "-x", "A=two")
    assert cluster.alice(["mnrun", "wait", job, array, other]).code == 3
    assert failed(job) == ["one 2"]
    some = cluster.alice(["mnrun", "logs", "--ranks", "0,3", job])
    assert sorted(some.out.splitlines()) == ["0: one 0", "3: one 3"], some
    assert (failed(other), "2: two 2\n" in output(desk, other)) == (["two 2"], True)
    assert "#SBATCH --array=1,2 " in again("--dry-run", "--failed", array)
    forget(cluster)


def test_submit_by_hand_what_was_shown_and_edited(cluster: Cluster, desk: Desk) -> None:
    """`mnrun submit --dry-run >x.sh; sbatch x.sh` runs, and so does what a person has changed in it; no profile, user's
    configuration or MNRUN_* variable of the job's counts there, and the other verbs know the job."""
    words = ["-N", "2", "--ntasks-per-node", "2", "-x", "TOKEN", "-o", "out", "--image", OMPI5]
    shown = cluster.alice(
        ["env", "TOKEN=t", "mnrun", "submit", "--dry-run", *words, "--", HELLO, "-e", "V"], cwd=desk.path
    )
    assert shown.code == 0, shown
    assert "#SBATCH --nodes=2 " in shown.out
    edited = shown.out.replace("--nodes=2 ", "--nodes=3 ").replace("  --chdir", "  --env=V=edited\n  --chdir")
    desk.put("x.sh", edited)
    cluster.alice(["mkdir", "-p", f"{desk.path}/config/mnrun"])
    desk.put("config/mnrun/config.toml", "no_such_key = 1\n")
    env = ["env", "TOKEN=t", "MNRUN_IMAGE=/nowhere.sif", f"XDG_CONFIG_HOME={desk.path}/config"]
    handed = cluster.alice([*env, "sbatch", "--parsable", "x.sh"], cwd=desk.path)
    assert handed.code == 0, handed
    job = handed.out.strip()
    assert cluster.alice(["env", "MNRUN_SLURM_POLL=1s", "mnrun", "wait", job]).code == 0, desk.read("out")
    said = [line for line in desk.read("out").decode().splitlines() if line.startswith("rank ")]
    assert len(said) == 6 and all(line.endswith("VAR=edited") for line in said), said
    seen = checked("status", cluster.alice(["mnrun", "status", "--json", job]).out)["jobs"]
    assert [(one["id"], one["name"], one["nodes"], one["code"]) for one in seen] == [(job, "hello", 3, 0)]
    assert said[0] in cluster.alice(["mnrun", "logs", job]).out
    forget(cluster)


def test_submit_where_the_first_node_has_no_mnrun(cluster: Cluster, desk: Desk) -> None:
    job = submit(cluster, desk, "-N", "1", "-w", "node02", "--mnrun", "/nowhere/mnrun", "--image", OMPI5, "--", HELLO)
    result = end(cluster, desk, job)
    assert result.code == 122, result
    assert "mnrun: cannot start /nowhere/mnrun on node02: a submitted job needs mnrun on its first node" in result.err


def test_submit_of_ranks_alone(cluster: Cluster, desk: Desk) -> None:
    """Slurm takes as many nodes as they need."""
    job = submit(cluster, desk, "-n", "12", *INSIDE.words, "--", "uname", "-n")
    result = end(cluster, desk, job)
    assert result.code == 0, result
    nodes = [line for line in output(desk, job).splitlines() if line in cluster.nodes]
    assert len(nodes) == 12 and len(set(nodes)) > 1, result


def test_submit_with_a_choice_of_nodes_and_gpus(cluster: Cluster, desk: Desk) -> None:
    """--constraint, --exclusive, --exclude, -G and --gpus-per-task: Slurm does as it is told, and the ranks see it."""
    hello = [*INSIDE.words, "--", HELLO, "-g"]
    try:
        cluster.root(LOGIN, "scontrol", "update", "nodename=node03", "availablefeatures=ib,big", "activefeatures=big")
        alone = submit(cluster, desk, "-n", "1", "-C", "big", "--exclusive", *hello)
        spread = submit(cluster, desk, "-N", "2", "-G", "4", "--exclude", "node[01,03]", *hello)
        each = submit(cluster, desk, "-w", "node01", "-n", "2", "--gpus-per-task", "1", *hello)
        for job in (alone, spread, each):
            assert cluster.alice(["env", "MNRUN_SLURM_POLL=1s", "mnrun", "wait", job]).code == 0, output(desk, job)
    finally:
        cluster.root(LOGIN, "scontrol", "update", "nodename=node03", "availablefeatures=ib", "activefeatures=ib")
    asked = state(cluster, alone)
    assert (asked["NodeList"], asked["NumCPUs"], asked["OverSubscribe"]) == ("node03", "8", "NO"), asked
    gpus = {
        job: {(rank.host, rank.gpus) for rank in ranks(Result(0, programs(output(desk, job)).encode(), ""))}
        for job in (alone, spread, each)
    }
    assert gpus == {
        alone: {("node03", "0,1,2,3")},  # what is exclusive has all of the node
        spread: {("node02", "0,1"), ("node04", "0,1")},
        each: {("node01", "0,1")},
    }
    forget(cluster)


def test_submit_uneven_ranks_by_srun(cluster: Cluster, desk: Desk) -> None:
    job = submit(cluster, desk, "-N", "3", "-n", "7", "--mode", "outside-in", "--launcher", "srun",
                 "--image", OMPI5, "--", HELLO)  # fmt: skip
    result = end(cluster, desk, job)
    assert result.code == 0, result
    assert len(ranks(result)) == 7, result
    assert {rank.total for rank in ranks(result)} == {28}, result


def test_submit_a_job_that_is_not_ready(cluster: Cluster, desk: Desk) -> None:
    """A node that cannot take part is named, at once, with our code; and nodes whose images differ."""
    path = "/var/tmp/local.sif"
    words = ["-N", "2", "-w", "node[01-02]", "--image", path, "--", HELLO]
    try:
        cluster.root("node01", "ln", "-s", OMPI5, path)
        lacking = end(cluster, desk, submit(cluster, desk, *words))
        cluster.root("node02", "ln", "-s", OMPI4, path)
        differing = end(cluster, desk, submit(cluster, desk, *words))
    finally:
        for node in cluster.nodes[:2]:
            cluster.root(node, "rm", "-f", path)
    assert lacking.code == differing.code == 121, (lacking, differing)
    assert f"mnrun: 1 of 2 nodes not ready: node02: the image {path} is not there" in lacking.err, lacking
    assert f"mnrun: {path} is not the same on all nodes: node0" in differing.err, differing


@pytest.mark.parametrize("way", one(1, MAIN), ids=str)
def test_submit_and_scancel(cluster: Cluster, desk: Desk, way: Way) -> None:
    job = submit(cluster, desk, "-N", "4", "--ntasks-per-node", "2", *way.words, "--", HELLO, "-s", "3600")
    wait_for(lambda: output(desk, job).count(" sum ") == 8, "running", state=lambda: output(desk, job))
    begin = time.monotonic()
    cluster.root(LOGIN, "scancel", job)
    end(cluster, desk, job)
    left = cluster.wait_clean(60, besides="desk.")
    assert not left, f"after {time.monotonic() - begin:.0f} s: {left}"


def test_submit_and_killed_outright(cluster: Cluster, desk: Desk) -> None:
    ways = (Way("inside", "ompi5", connect="ssh"), SRUN)
    jobs = [submit(cluster, desk, "-N", "2", *way.words, "--", HELLO, "-s", "3600") for way in ways]
    wait_for(lambda: all(output(desk, job).count(" sum ") == 2 for job in jobs), "running")
    node = state(cluster, jobs[0])["BatchHost"]
    keys = "grep -rlsI 'BEGIN OPENSSH PRIVATE KEY' /tmp /dev/shm /var/tmp"
    assert cluster.root(node, "sh", "-c", keys).splitlines()
    cluster.root(LOGIN, "scancel", "-s", "KILL", "--batch", *jobs)
    for job in jobs:
        assert cluster.alice(["env", "MNRUN_SLURM_POLL=1s", "mnrun", "wait", job]).code == 137, output(desk, job)
    forget(cluster)
    left = cluster.wait_clean(60, besides="desk.")
    assert not left, left
    assert cluster.root(node, "sh", "-c", f"{keys} || :") == ""


def test_submit_an_array_and_cancel_its_last_task(cluster: Cluster, desk: Desk) -> None:
    """B8: Slurm gives that one the array's own id, and says of it what it says of each: it ends by the first word."""
    deaf = 'trap "" TERM; echo up; while :; do sleep 1; done'  # it ends when mnrun has it ended, and not by itself
    array = submit(cluster, desk, "-a", "0-1", "-N", "1", *INSIDE.words, "--", "sh", "-c", deaf)

    def said(task: int) -> str:
        return "".join(desk.read(name).decode() for name in desk.names() if f"-{array}_{task}-" in name)

    wait_for(lambda: "up" in said(0) and "up" in said(1), "running", state=lambda: said(0) + said(1))
    known = cluster.root(LOGIN, "scontrol", "-o", "show", "job", array).splitlines()
    assert {line.split()[2] for line in known} == {"ArrayTaskId=1", "ArrayTaskId=0"}, known
    cluster.root(LOGIN, "scancel", f"{array}_1")
    wait_for(lambda: f"job {array}_1 was cancelled" in said(1), "cancelled", state=lambda: said(1))
    cluster.root(LOGIN, "scancel", array)
    for task in range(2):
        done = cluster.alice(["env", "MNRUN_SLURM_POLL=1s", "mnrun", "wait", f"{array}_{task}"])
        assert done.code == 143, done
    forget(cluster)


def test_submit_an_array_and_a_chain(cluster: Cluster, desk: Desk) -> None:
    words = ["-N", "1", "--image", OMPI5, "--"]
    array = submit(cluster, desk, "-a", "0-3%2", *words, "sh", "-c", "echo task $SLURM_ARRAY_TASK_ID")
    after = submit(cluster, desk, "-d", f"afterok:{array}", *words, "echo", "after")
    wait_for(lambda: "after" in output(desk, after), "after", state=lambda: str(desk.names()))
    said = [programs(desk.read(name)).strip() for name in desk.names() if f"-{array}_" in name]
    assert sorted(said) == [f"task {n}" for n in range(4)]
    jobs = cluster.path("/home/alice/.mnrun/jobs")
    for number in range(4):
        assert json.loads((jobs / f"{array}_{number}" / "0" / "outcome").read_text())["code"] == 0
    end(cluster, desk, after)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-p", "none"), ("there is no partition none (--partition: command line)",)),
        (("--gpus-per-node", "9"), ("a node of main has at most", "--gpus-per-node (command line)")),
        (("-N", "9"), ("--nodes (command line)",)),
        (("-d", "afterok:999999"), ("999999", "--dependency: command line")),
    ],
)
def test_submit_what_sbatch_refuses(
    cluster: Cluster, desk: Desk, words: tuple[str, ...], said: tuple[str, ...]
) -> None:
    result = cluster.alice(["mnrun", "submit", *words, "--image", OMPI5, "--", HELLO], cwd=desk.path)
    refusal(result, 123, *said)
    assert not list(cluster.path("/home/alice/.mnrun").glob("jobs/stage/*"))


@pytest.mark.parametrize("way", one(2, MAIN), ids=str)
def test_split_output(cluster: Cluster, desk: Desk, way: Way) -> None:
    words = ["--split-output", f"{desk.path}/split", *way.words, "--", HELLO]
    live = cluster.mnrun(*words, nodes=2)
    assert (live.code, live.out) == (0, ""), live
    names = [f"rank.{rank}.{stream}" for rank in range(4) for stream in ("err", "out")]
    place = cluster.path(f"{desk.path}/split")
    assert sorted(path.name for path in place.iterdir()) == names
    for rank in range(4):
        assert (place / f"rank.{rank}.out").read_text().startswith(f"rank {rank} of 4 "), rank


def test_submit_from_a_job_file(cluster: Cluster, desk: Desk) -> None:
    desk.put(
        "job.toml",
        'name = "greet"\ncommand = ["/opt/mpi/hello", "-e", "V"]\noutput = "%x.out"\n[container]\n'
        'image = "${IMAGES}/ompi5.sif"\n[resources]\nnodes = 2\nntasks_per_node = 2\ntime = "10"\n'
        '[env]\nV = "a b"\nTOKEN = true\n[slurm]\ncomment = "hi there"\n',
    )
    env = ["env", "IMAGES=/images", "TOKEN=s3cret", "SBATCH_TIMELIMIT=7"]
    shown = cluster.alice([*env, "mnrun", "submit", "--dry-run", "job.toml"], cwd=desk.path)
    lines = [" ".join(line.split()) for line in shown.out.splitlines()]
    for line in ("--nodes=2 # job.toml line 7", "--time=7 # SBATCH_TIMELIMIT",
                 f"--output={desk.path}/%x.out # job.toml line 3",
                 "'--comment=hi there' # job.toml line 14"):  # fmt: skip
        assert f"#SBATCH {line}" in lines, shown
    handed = cluster.alice([*env, "mnrun", "submit", "job.toml"], cwd=desk.path)
    assert handed.code == 0, handed
    job = handed.out.strip()
    wait_for(lambda: state(cluster, job)["JobState"] == "COMPLETED", "completed")
    assert (state(cluster, job)["TimeLimit"], state(cluster, job)["Comment"]) == ("00:07:00", "hi")
    said = programs(desk.read("greet.out")).splitlines()
    assert [line.endswith("VAR=a b") for line in said] == [True] * 4, said
    live = cluster.alice(["salloc", "-Q", "-N2", "--ntasks-per-node=2", *env, "mnrun", "job.toml", "-Q"], cwd=desk.path)
    assert sorted(line.partition(" on ")[0] for line in live.out.splitlines()) == sorted(
        line.partition(" on ")[0] for line in said
    ), live
    forget(cluster)


def test_submit_with_limits_and_lines(cluster: Cluster, desk: Desk) -> None:
    words = ["--ulimit", "nofile=512", "--setup", "export FROM_SETUP='a line'", "-x", "FROM_SETUP"]
    line = 'echo "$(ulimit -n) $FROM_SETUP"'
    handed = cluster.alice(
        ["mnrun", "submit", "-o", "%j.out", "-N", "2", *words, *INSIDE.words,
         "--", "sh", "-c", line], cwd=desk.path)  # fmt: skip
    assert handed.code == 0, handed
    result = end(cluster, desk, handed.out.strip())
    assert (result.code, programs(desk.read(f"{handed.out.strip()}.out"))) == (0, "512 a line\n" * 2), result


def test_every_golden_script_is_taken(cluster: Cluster, desk: Desk) -> None:
    """sbatch itself has read the whole texts that are kept beside the unit tests, with all that they ask for."""
    scripts = sorted((TOP / "tests/unit/golden").glob("*/script.sh"))
    assert len(scripts) >= 8
    reserved = ["users=alice", "starttime=now", "duration=60", "nodes=node[01-02]"]
    for path in scripts:
        desk.put("script", path.read_bytes())
        test = ["sbatch", "--test-only", "-p", "main", f"{desk.path}/script"]
        if b"--reservation=beamtime" not in desk.read("script"):
            tested = cluster.alice(test)
        else:
            cluster.root(LOGIN, "scontrol", "create", "reservation", "reservationname=beamtime", *reserved)
            tested = cluster.alice(test)
            cluster.root(LOGIN, "scontrol", "delete", "reservationname=beamtime")
        assert tested.code == 0, f"{path}: {tested}"


def test_submit_and_follow(cluster: Cluster, desk: Desk) -> None:
    program = desk.put("usr1", USR1.replace("sleep 1", "sleep 2; exit 3"), 0o755)
    job = submit(cluster, desk, "-N", "2", *INSIDE.words, "--", program)
    with cluster.running(["mnrun", "logs", "-f", job]) as logs:
        logs.saying(lambda result: result.out.count("up ") == 2, "up")
        (seen,) = checked("status", cluster.alice(["mnrun", "status", "--json", job]).out)["jobs"]
        assert (seen["state"], seen["nodes"], seen["name"]) == ("RUNNING", 2, "usr1"), seen
        sent = cluster.alice(["mnrun", "cancel", "-s", "USR1", job])
        assert sent.code == 0, sent
        assert cluster.alice(["mnrun", "wait", job]).code == 3
        said = logs.end()
    assert said.code == 0, said
    assert "got 0" in said.out, said
    end(cluster, desk, job)


def test_submit_and_wait_at_once(cluster: Cluster, desk: Desk) -> None:
    words = ["mnrun", "submit", "--wait", "-o", "out", "-N", "1", *INSIDE.words, "--", "sh", "-c", "exit 7"]
    result = cluster.alice(words, cwd=desk.path)
    assert result.code == 7, result
    assert result.out.strip().isdecimal(), result
    end(cluster, desk, result.out.strip())


def test_submit_warns_of_files_and_names_the_output(cluster: Cluster, desk: Desk) -> None:
    desk.put("job.sh", "#!/bin/sh\n")
    words = ["--image", "/etc/passwd", "--bind", f"{desk.path}/none:/d", "--script", "job.sh"]
    held = cluster.alice(["mnrun", "submit", "--slurm", "--hold", "-N", "1", *words], cwd=desk.path)
    assert held.code == 0, held
    warnings = [line.removeprefix("warning: the ") for line in mine(held)[:-1]]
    assert [line.partition(";")[0] for line in warnings] == [
        "image /etc/passwd is not a container image (SIF, squashfs or directory) on this machine",
        f"bind source {desk.path}/none is not on this machine",
        f"script {desk.path}/job.sh cannot be executed on this machine (chmod +x)",
    ]
    cluster.alice(["scancel", held.out.strip()])
    handed = cluster.alice(["mnrun", "submit", "-N", "1", *INSIDE.words, "--", "./none"], cwd=desk.path)
    job = handed.out.strip()
    warning, said = mine(handed)
    assert warning.startswith(f"warning: the program {desk.path}/none is not on this machine; the job will fail")
    assert said == f"output: none-{job}.out; follow it: mnrun logs -f {job}"
    logs = cluster.alice(said.partition("follow it: ")[2].split())
    assert logs.code == 0 and "none" in logs.out, logs
    end(cluster, desk, job)


@pytest.mark.parametrize(
    "words",
    [
        ("-t", "1-12:30"),
        ("-t", "5:30"),
        ("-t", "infinite"),
        ("--mem", "100MB"),
        ("--mem", "1G"),
        ("-a", "[0-3]%2"),
        ("-a", "1,3-9:2"),
        ("-d", "singleton"),
        ("--slurm", "--switches=1@30:00"),
    ],
)
def test_submit_takes_what_slurm_takes(cluster: Cluster, desk: Desk, words: tuple[str, ...]) -> None:
    """Slurm reads these formats, so that mnrun must not refuse them."""
    dry = cluster.alice(["mnrun", "submit", "--dry-run", "-N", "2", *words, *INSIDE.words, "--", "hostname"])
    assert dry.code == 0, dry
    desk.put("script", dry.out)
    tested = cluster.alice(["sbatch", "--test-only", f"{desk.path}/script"])
    assert tested.code == 0, tested


def test_submit_where_slurm_cannot_write(cluster: Cluster, desk: Desk) -> None:
    """(W1) What this machine sees is refused. Of the rest, Slurm tells `signal 53`, in which nobody sees the cause."""
    line = [
        "env",
        "MNRUN_SLURM_POLL=1s",
        "mnrun",
        "submit",
        "--wait",
        "-N",
        "1",
        "--runtime",
        "host",
        "--launcher",
        "env",
    ]
    for words in (["-o", f"{desk.path}/"], ["-e", "/root/%j"]):
        refused = cluster.alice([*line, *words, "--", "true"], cwd=desk.path)
        assert (refused.code, refused.out) == (2, ""), refused
    assert cluster.alice([*line, "-o", "new/out", "--", "echo", "hi"], cwd=desk.path).code == 0
    assert b"hi" in desk.read("new/out")
    failed = cluster.alice([*line, "-o", "/nowhere/out", "--", "true"], cwd=desk.path)
    assert failed.code == 123, failed
    assert "--output" in failed.err.splitlines()[-1], failed
    assert "--output" in cluster.alice(["mnrun", "why", failed.out.strip()]).out
    logs = cluster.alice(["mnrun", "logs", failed.out.strip()])
    assert "Traceback" not in logs.err, logs
    forget(cluster)


def test_submit_of_a_mistyped_image(cluster: Cluster, desk: Desk) -> None:
    words = ["-N", "1", "--image", "/images/omp5.sif", "--", "true"]
    jobs = cluster.root(LOGIN, "squeue", "-h")
    for verb in ("submit", "run"):
        line = only_line(cluster.alice(["mnrun", verb, *words], cwd=desk.path), 2, "there is no image /images/omp5.sif")
        assert "did you mean /images/ompi5.sif? --force" in line
    only_line(cluster.alice(["mnrun", "submit", "--image", "./app.sif", "--", "true"], cwd=desk.path), 2, desk.path)
    assert cluster.root(LOGIN, "squeue", "-h") == jobs
    forced = cluster.alice(["mnrun", "submit", "--force", "--slurm", "--hold", *words], cwd=desk.path)
    assert forced.code == 0, forced
    cluster.alice(["scancel", forced.out.strip()])
    forget(cluster)
