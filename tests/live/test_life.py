"""The life of submitted jobs: their sources, each of their ends as status and wait tell it, and their traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest

from published import checked

from .batch import USR1, forget, of_modules, of_the_site, output, programs, state, submit
from .cells import HELLO, INSIDE, MPIRUN, OMPI5, SRUN
from .reports import check, only_line
from .stage import LOGIN, TOP, Cluster, Desk, Result, below, wait_for
from .terminal import Terminal

MNRUN = ["env", "MNRUN_SLURM_POLL=1s", "mnrun"]
HOME = "/home/alice"


@pytest.fixture(autouse=True)
def no_records_are_left(cluster: Cluster) -> Iterator[None]:
    yield
    forget(cluster)


def ask(cluster: Cluster, *words: str) -> Result:
    return cluster.alice([*MNRUN, *words])


def wait(cluster: Cluster, *jobs: str) -> int:
    """What `mnrun wait` says of jobs, which is no failure of its own."""
    done = ask(cluster, "wait", *jobs)
    assert done.out == "" and all(line.startswith("mnrun: job ") for line in done.err.splitlines()), done
    return done.code


def seen(cluster: Cluster, job: str) -> dict[str, Any]:
    """What `mnrun status` says of a job."""
    done = ask(cluster, "status", "--json", job)
    assert done.code == 0, done
    (one,) = checked("status", done.out)["jobs"]
    return dict(one)


def says(desk: Desk, job: str, text: str) -> bool:
    return text in output(desk, job)


def is_up(desk: Desk, job: str, word: str, count: int) -> None:
    wait_for(lambda: output(desk, job).count(word) == count, "up", state=lambda: output(desk, job))


# Its ends


def test_every_end_of_a_submitted_job(cluster: Cluster, desk: Desk) -> None:
    usr1 = desk.put("usr1", USR1, 0o755)
    shape = ["-N", "2", "--ntasks-per-node", "2", "-t", "10", "--signal", "B:USR1@119"]
    late = [submit(cluster, desk, "-N", "1", *way.words, "--", HELLO, "-s", "3600") for way in (INSIDE, SRUN)]
    warned = [submit(cluster, desk, *shape, *way.words, "--", usr1) for way in (INSIDE, MPIRUN)]
    after = submit(cluster, desk, "-N", "1", "-d", f"afternotok:{late[0]}", *INSIDE.words, "--", "echo", "so be it")
    for job, word, count in (*((job, " sum ", 1) for job in late), *((job, "up ", 4) for job in warned)):
        is_up(desk, job, word, count)
    for job in late:
        running = seen(cluster, job)
        assert (running["state"], running["nodes"], running["code"]) == ("RUNNING", 1, None), running
        assert running["nodelist"] in cluster.nodes and 0 < running["left"] <= 3600, running
    waits = seen(cluster, after)
    assert (waits["state"], waits["why"], waits["code"]) == ("PENDING", f"waits for job {late[0]}", None), waits
    for job in late:
        cluster.root(LOGIN, "scontrol", "update", f"jobid={job}", "EndTime=now+1")
    for job in warned:  # slurmctld looks every 30 seconds: the first look must come before the limit
        cluster.root(LOGIN, "scontrol", "update", f"jobid={job}", "EndTime=now+100")

    _ends_meanwhile(cluster, desk)

    for job in warned:
        assert wait(cluster, job) == 0, output(desk, job)
        told = [line for line in output(desk, job).splitlines() if line.startswith("got ")]
        assert sorted(told) == [f"got {rank}" for rank in range(4)], output(desk, job)
    for job in late:
        assert wait(cluster, job) == 124, output(desk, job)
        ended = seen(cluster, job)
        assert (ended["state"], ended["code"]) == ("TIMEOUT", 124), ended
        heard = partial(says, desk, job, f"mnrun: job {job} reached its time limit of 0")
        wait_for(heard, "told")  # mnrun records the end before it says so
    assert wait(cluster, after) == 0
    assert programs(output(desk, after)) == "so be it\n"
    with Terminal(cluster.argv(LOGIN, "alice", [*MNRUN, "status"])) as terminal:
        terminal.expect(rf"{late[0]}\s+hello\s+\S*timed out\S*\s+node0\d\s.* 124")
        assert terminal.end() == 0


def _ends_meanwhile(cluster: Cluster, desk: Desk) -> None:
    later = submit(cluster, desk, "-N", "1", "--slurm", "begin=now+1hour", *SRUN.words, "--", "true")
    good = submit(cluster, desk, "-N", "2", *SRUN.words, "--", "true")
    bad = submit(cluster, desk, "-N", "2", *INSIDE.words, "--", "sh", "-c", "exit 3")
    gone = submit(cluster, desk, "-N", "2", *MPIRUN.words, "--", HELLO, "-s", "3600")
    waits = seen(cluster, later)
    assert waits["state"] == "PENDING", waits
    assert waits["why"].startswith("starts in 5"), waits
    assert wait(cluster, good, bad) == 3
    for job, words, code in ((good, "COMPLETED", 0), (bad, "FAILED", 3)):
        ended = seen(cluster, job)
        assert (ended["state"], ended["code"], ended["nodes"], ended["left"]) == (words, code, 2, None), ended
    is_up(desk, gone, " sum ", 2)
    assert ask(cluster, "cancel", gone, later).code == 0
    for job in (gone, later):
        assert wait(cluster, job) == 143
        ended = seen(cluster, job)
        assert (ended["state"], ended["code"]) == ("CANCELLED", 143), ended


def test_a_job_that_is_requeued_outside_in(cluster: Cluster, desk: Desk) -> None:
    line = (
        'rank=$OMPI_COMM_WORLD_RANK; [ "${SLURM_RESTART_COUNT:-0}" = 0 ] || { echo "again $rank $(uname -n)"; exit; };'
        'echo "first $rank"; sleep 3600'
    )
    shape = ["-N", "2", "-w", "node[01-02]", "--ntasks-per-node", "2", "--requeue"]
    by_node = ["--mpi-args", "--map-by node"]
    words = ["--split-output", f"{desk.path}/split", *MPIRUN.words, *by_node, "--", "sh", "-c", line]
    job = submit(cluster, desk, *shape, *words)
    place = cluster.path(f"{desk.path}/split")

    def said(folder: str = ".") -> list[str]:
        return [path.read_text() for path in sorted((place / folder).glob("rank.?.out"))]

    first = [f"first {rank}\n" for rank in range(4)]
    wait_for(lambda: said() == first, "running", state=lambda: output(desk, job))
    cluster.root(LOGIN, "scontrol", "requeue", job)
    wait_for(lambda: state(cluster, job)["JobState"] == "PENDING", "requeued")
    waits = seen(cluster, job)
    assert (waits["state"], waits["code"]) == ("PENDING", None), waits
    cluster.root(LOGIN, "scontrol", "update", f"jobid={job}", "StartTime=now+3")  # Slurm lets it wait two minutes
    assert wait(cluster, job) == 0, output(desk, job)
    assert seen(cluster, job)["state"] == "COMPLETED"
    again = [f"again {rank} node0{1 + rank % 2}\n" for rank in range(4)]
    assert (said(), said("start.1")) == (first, again)

    assert ask(cluster, "logs", job, "--rank", "3").out == again[3]
    for node, ranks in (("node01", (0, 2)), ("node02", (1, 3))):
        assert ask(cluster, "logs", job, "--node", node).err == ""
        one = ask(cluster, "logs", job, "--node", node, "-v")
        assert sorted(one.out.splitlines(True)) == [f"[{rank}] {again[rank]}" for rank in ranks], one
        assert {line.split()[1] for line in one.err.splitlines()} == {node}, one
    whole = ask(cluster, "logs", job)
    assert sorted(line for line in whole.out.splitlines(True) if line[0] == "[") == [
        f"[{rank}] {line}" for rank, line in enumerate(again)
    ]
    refused = ask(cluster, "logs", job, "--node", "node03")
    only_line(refused, 2, f"job {job} has no node node03", "node[01-02]")


# What it needs and what it is made from


@contextmanager
def no_python(cluster: Cluster, *nodes: str) -> Iterator[None]:
    """No Python can be run on these nodes."""
    each = "for path in $(readlink -f /usr/bin/python3 /opt/mnrun/venv/bin/python3 | sort -u); do {} $path; done"
    for node in nodes:
        cluster.root(node, "sh", "-c", each.format("mount --bind /dev/null"))
    try:
        assert cluster.alice(["python3", "-c", ""], node=nodes[-1]).code == 126
        yield
    finally:
        for node in nodes:
            cluster.root(node, "sh", "-c", each.format("umount"))


def test_nodes_need_no_python(cluster: Cluster, desk: Desk) -> None:
    with no_python(cluster, "node02"):  # the first one runs mnrun
        where = ["-w", "node[01-02]", "-N", "2"]
        jobs = [submit(cluster, desk, *where, *way.words, "--", HELLO) for way in (INSIDE, SRUN)]
        line = 'echo "task $SLURM_ARRAY_TASK_ID"'
        array = submit(cluster, desk, "-a", "0-1", *where, *INSIDE.words, "-n", "2", "--", "sh", "-c", line)
        assert wait(cluster, *jobs) == 0, [output(desk, job) for job in jobs]
        patient = cluster.alice(["env", "MNRUN_SLURM_POLL=1h", "mnrun", "wait", array])  # by its tasks' records
        assert patient.code == 0, patient
    for job in jobs:
        logs = ask(cluster, "logs", job)
        spoke = "".join(line for line in logs.out.splitlines(True) if line.startswith("rank "))
        check(Result(logs.code, spoke.encode(), logs.err), "node01", "node02", tasks=1)
    for task in range(2):
        assert ask(cluster, "logs", f"{array}_{task}").out.splitlines().count(f"task {task}") == 2
    whole = ask(cluster, "logs", array).out.splitlines()
    assert [whole.count(f"{array}_{task}| task {task}") for task in range(2)] == [2, 2]
    for verb in ("why", "report"):
        only_line(ask(cluster, verb, array), 2, f"job {array} is an array", f"{array}_0, {array}_1")


def test_a_job_file_of_a_vendors_guide(cluster: Cluster, desk: Desk) -> None:
    """sbatch -N 2 -n 8 --ntasks-per-node 4 -p … --gres=gpu:4, two modules, the program: line for line, and it runs."""
    file = (TOP / "tests/unit/golden/vendors-guide/job.toml").read_text()
    for old, new in (('"sxm2"', '"main"'), ('["./sample", "input.dat"]', f'["{HELLO}", "-g"]')):
        assert old in file
        file = file.replace(old, new)
    desk.put("job.toml", f'output = "out"\n{file}')
    shown = cluster.alice(["mnrun", "submit", "--dry-run", "job.toml"], cwd=desk.path)
    lines = [line.partition(" # ")[0].strip() for line in shown.out.splitlines()]
    guide = [
        *("#SBATCH --nodes=2", "#SBATCH --ntasks=8", "#SBATCH --ntasks-per-node=4"),
        *("#SBATCH --partition=main", "#SBATCH --gres=gpu:4"),
        *("module load shared", "module load cuda92/toolkit"),
    ]
    assert [line for line in guide if line not in lines] == [], shown
    places = [lines.index(line) for line in guide[-2:]]
    assert places == sorted(places) and places[-1] < lines.index("mnrun_options=("), shown
    with of_modules(cluster, {"shared/1": "puts stderr shared\n", "cuda92/toolkit": "puts stderr toolkit\n"}):
        handed = cluster.alice(["mnrun", "submit", "job.toml"], cwd=desk.path)
        assert handed.code == 0, handed
        job = handed.out.strip()
        assert wait(cluster, job) == 0, desk.read("out")
    asked = state(cluster, job)
    assert (asked["Partition"], asked["NumNodes"], asked["NumTasks"]) == ("main", "2", "8"), asked
    said = desk.read("out").decode()
    assert said.startswith("shared\ntoolkit\n"), said
    spoke = "".join(line for line in said.splitlines(True) if line.startswith("rank "))
    nodes = sorted({line.split()[5] for line in spoke.splitlines()})
    found = check(Result(0, spoke.encode(), said), *nodes, tasks=4)
    assert (len(nodes), {rank.gpus for rank in found}) == (2, {"0,1,2,3"}), said


def test_every_layer_of_a_submitted_job(cluster: Cluster, desk: Desk, site: str) -> None:
    """Site, profile, user, job file, SBATCH_*, command line: lists add, `!X` takes away, later ones win, in the job."""
    of_the_site(cluster, "config.toml", 'time = "3"\nbind = ["/usr/bin:/of-site:ro"]\nsite.modules = ["base/1"]\n')
    profile = 'match.hostname = "login*"\nbind = ["/usr/lib:/of-profile:ro"]\nsite.modules = ["extra/2", "mpi/3"]\n'
    of_the_site(cluster, "profiles/one.toml", f'{profile}env.FABRIC = {{ value = "ib0", why = "the route" }}\n')
    of_the_site(cluster, "profiles/two.toml", f'{profile}env.FABRIC = "eth0"\n')
    for folder in ("config", "config/mnrun", "data"):
        cluster.root(LOGIN, "install", "-d", "-o", "alice", f"{desk.path}/{folder}")
    desk.put("config/mnrun/config.toml", 'name = "users"\nbind = ["/usr/share:/of-user:ro"]\nenv.WHO = "user"\n')
    command = 'echo "$LOADEDMODULES|$FABRIC|$WHO|$(echo /of-*)"'
    desk.put(
        "job.toml",
        f"command = ['sh', '-c', '{command}']\nimage = '{OMPI5}'\nnodes = 1\nntasks = 1\noutput = 'out'\n"
        "bind = ['!/usr/lib', 'data:/of-job']\nmodules = ['!extra', 'own/4']\ntime = '5'\n"
        "[env]\nLOADEDMODULES = true\n",
    )
    env = {"XDG_CONFIG_HOME": f"{desk.path}/config", "SBATCH_TIMELIMIT": "7", "SBATCH_JOB_NAME": "variables"}
    line = ["env", *(f"{name}={value}" for name, value in env.items()), *MNRUN[1:]]
    words = ["--profile", "one", "-J", "typed"]
    undecided = cluster.alice([*line, "submit", "job.toml"], cwd=desk.path)
    only_line(undecided, 2, "two profiles match this place", "MNRUN_PROFILE")
    shown = cluster.alice([*line, "plan", "--format", "sbatch", "job.toml", *words], cwd=desk.path)
    for wanted in ("--time=7 # SBATCH_TIMELIMIT", "--job-name=typed # command line"):
        assert f"#SBATCH {wanted}" in [" ".join(row.split()) for row in shown.out.splitlines()], shown
    with of_modules(cluster, dict.fromkeys(("base/1", "extra/2", "mpi/3", "own/4"), "")):
        handed = cluster.alice([*line, "submit", "job.toml", *words], cwd=desk.path)
        assert handed.code == 0, handed
        job = handed.out.strip()
        asked = state(cluster, job)
        assert (asked["JobName"], asked["TimeLimit"]) == ("typed", "00:07:00"), asked
        assert wait(cluster, job) == 0, desk.read("out")
    assert programs(desk.read("out")) == "base/1:mpi/3:own/4|ib0|user|/of-job /of-site /of-user\n"


def test_templates_of_ones_own(cluster: Cluster, desk: Desk) -> None:
    ours = (TOP / "sbatch_templates/batch.sh").read_text()
    cluster.root(LOGIN, "install", "-d", "-o", "alice", f"{desk.path}/mine")
    words = ["--templates", "mine", "-N", "1", "-o", "out", "--runtime", "host", "--", "echo", "hello"]
    begin = "\nmnrun_options=("
    assert begin in ours
    desk.put("mine/slurm.sh", ours.replace(begin, f'\necho "of {{{{ title }}}}"{begin}'))
    done = cluster.alice([*MNRUN, "submit", "--wait", *words], cwd=desk.path)
    assert done.code == 0, done
    assert programs(desk.read("out")).splitlines() == ["of echo: 1 node x 1 rank, host", "hello"]
    forget(cluster)
    desk.put("mine/slurm.sh", f"{ours}{{{{ nowhere }}}}\n")
    refused = cluster.alice(["mnrun", "submit", *words], cwd=desk.path)
    only_line(refused, 2, f"{desk.path}/mine/slurm.sh", "'nowhere' is undefined")
    assert not cluster.path(f"{HOME}/.mnrun/jobs").exists()


# What it leaves


def test_no_secret_is_said_or_left(cluster: Cluster, desk: Desk) -> None:
    secret = "the-combination-of-the-safe"
    command = 'echo "is ${#TOKEN} ${#KEY}"; until [ -e go ]; do sleep 0.1; done'
    desk.put("job.toml", f"command = ['sh', '-c', '{command}']\nimage = '{OMPI5}'\nnodes = 2\n[env]\nTOKEN = true\n")
    words = ["job.toml", "-x", "KEY", "--keep", "-v", "-o", "out"]
    line = ["env", f"TOKEN={secret}", f"KEY={secret}", *MNRUN[1:]]
    heard = [cluster.alice([*line, *verb, *words], cwd=desk.path) for verb in (["plan"], ["submit", "--dry-run"])]
    handed = cluster.alice([*line, "submit", *words], cwd=desk.path)
    assert [done.code for done in (*heard, handed)] == [0, 0, 0], (*heard, handed)
    job = handed.out.strip()
    ready = f"is {len(secret)} {len(secret)}\n".encode()
    wait_for(lambda: "out" in desk.names() and desk.read("out").count(ready) == 2, "running")
    assert not [process for process in cluster.processes() if secret in " ".join(process.argv)]
    heard += [handed, *(ask(cluster, *verb, job) for verb in (["status"], ["status", "--json"], ["logs"]))]
    _in_no_file(cluster, secret, running=True)
    desk.put("go", "")
    assert wait(cluster, job) == 0, desk.read("out")
    heard += [ask(cluster, "logs", job, "-v", "--node", node) for node in cluster.nodes]
    for done in heard:
        assert secret not in done.out + done.err, done
    assert secret not in desk.read("out").decode()
    _in_no_file(cluster, secret)
    cluster.wipe()


def _in_no_file(cluster: Cluster, secret: str, running: bool = False) -> None:
    folders = [cluster.path(f"{HOME}/.mnrun")]
    for node in (LOGIN, *cluster.nodes):
        folders += cluster.path("/tmp", node).glob("mnrun*")
    assert len(folders) > 2, "nothing was kept"
    for folder in folders:
        private = running and folder.parent.name == "tmp" and folder.stat().st_mode & 0o077 == 0
        for path in () if private else below(folder):
            with suppress(FileNotFoundError):
                assert not path.is_file() or secret.encode() not in path.read_bytes(), path
