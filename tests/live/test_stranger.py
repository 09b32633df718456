"""What bob can do to alice's jobs: each finding of a review (A1 to A10), with the planted thing really there."""

from __future__ import annotations

import re
import signal
from contextlib import ExitStack

import pytest

from .cells import HELLO, OMPI5, SRUN, Way
from .reports import check, mine, refusal
from .stage import LOGIN, Cluster, Desk, Process, Result, wait_for
from .stranger import (
    BARE,
    BARE_MPIRUN,
    DIRECTORY,
    FIRST,
    JOB,
    LAIR,
    PLANT,
    SECOND,
    SHM,
    SLEEP,
    SRUN_HOST,
    Stranger,
    bystander,
    found,
    guards,
    inner,
    kill,
    place_of,
    planted,
    programs,
    slow,
    undertakers,
    up,
)

# A1: the job's directory


def submitted(cluster: Cluster, desk: Desk, *words: str) -> Result:
    line = ["mnrun", "submit", "--wait", "-N2", "-w", f"{FIRST},{SECOND}", "-o", "out", "-e", "err", *words]
    done = cluster.alice(line, cwd=desk.path)
    assert {"out", "err"} <= set(desk.names()), done
    cluster.root(LOGIN, "sh", "-c", "rm -rf /home/alice/.mnrun/stage /home/alice/.mnrun/jobs/*")
    return Result(done.code, desk.read("out"), desk.read("err").decode())


def start(cluster: Cluster, desk: Desk, how: str) -> Result:
    if how == "batch":
        return submitted(cluster, desk, *BARE.words, "--", "true")
    if how in ("paramiko", "ssh"):
        hosts = ("--hosts", f"{FIRST},{SECOND}", "--rsh", how)
        return cluster.alice(["mnrun", "-Q", *hosts, *BARE.words, "--", "true"], cwd=desk.path)
    if how == "local":
        return cluster.alice(["mnrun", "-Q", "--local", *BARE.words, "--", "true"], cwd=desk.path)
    way = {"inside-out": BARE, "mpirun": BARE_MPIRUN}[how]
    return cluster.mnrun("-Q", *way.words, "--", "true", nodes=2, tasks=1)


def refused(result: Result, node: str = FIRST) -> None:
    assert (result.code, result.out) == (121, ""), result
    wanted = (f"{node}: cannot make /tmp/mnrun.", "another user has made it")
    assert [line for line in mine(result) if all(text in line for text in wanted)], result


@pytest.mark.parametrize("how", ["inside-out", "mpirun", "batch", "paramiko", "ssh", "local"])
def test_stranger_makes_the_directory_first(cluster: Cluster, bob: Stranger, desk: Desk, how: str) -> None:
    """A1: a directory with a gate, a head and all the rest: nothing of it runs; the launch says who was first."""
    node = LOGIN if how == "local" else FIRST
    with slow(cluster, DIRECTORY, node), bob.watching(PLANT, node=node) as watcher:
        result = start(cluster, desk, how)
        planted(watcher)
    assert bob.ran() == [], result
    refused(result, node)


@pytest.mark.parametrize("how", ["inside-out", "batch", "ssh"])
def test_stranger_leads_to_a_directory_of_hers(cluster: Cluster, bob: Stranger, desk: Desk, how: str) -> None:
    """A1: a link to a directory that alice owns, with a gate in it: that is hers, and yet not this job's."""
    precious = f"{desk.path}/precious"
    cluster.alice(["sh", "-c", 'mkdir "$0" && cd "$0" && echo data >data && mkfifo gate', precious])
    with slow(cluster, DIRECTORY, FIRST), bob.watching(f'ln -s {precious} "$1" && echo planted') as watcher:
        result = start(cluster, desk, how)
        planted(watcher)
    assert sorted(path.name for path in cluster.path(precious).iterdir()) == ["data", "gate"], result
    assert desk.read("precious/data") == b"data\n"
    refused(result)


def test_stranger_leads_to_nowhere(cluster: Cluster, bob: Stranger, desk: Desk) -> None:
    """A1: a link whose end could be made at any time: it is not entered, and the reason is the true one."""
    with slow(cluster, DIRECTORY, FIRST), bob.watching(f'ln -s {LAIR}/later "$1" && echo planted') as watcher:
        result = start(cluster, desk, "inside-out")
        planted(watcher)
    refused(result)


def test_stranger_leads_to_another_job_of_hers(cluster: Cluster, bob: Stranger, desk: Desk) -> None:
    """A1: a link to the directory of a job of hers that runs: it goes on, and nothing of its own is gone."""
    with cluster.running(cluster.launch(*SRUN_HOST, "--", *SLEEP, nodes=2, tasks=1)):
        up(cluster, 1)
        place = place_of(cluster)
        before = sorted(path.name for path in cluster.path(place, FIRST).iterdir())
        with (
            slow(cluster, DIRECTORY, FIRST),
            bob.watching(f'ln -s {place} "$1" && echo planted', other(place)) as watcher,
        ):
            result = start(cluster, desk, "inside-out")
            planted(watcher)
        refused(result)
        assert found(cluster, *SLEEP), "the other job was ended"
        assert sorted(path.name for path in cluster.path(place, FIRST).iterdir()) == before


def other(place: str) -> str:
    return rf"(?!{re.escape(place)}){JOB}"


# A2, A4: after the end


def lure(cluster: Cluster, process: Process, precious: str) -> str:
    _, session, began = inner(process)
    way = "../../../" + precious.lstrip("/")
    return f"""
        set -eu
        mkdir -p /dev/shm/sharens_instance_X
        chmod 755 /dev/shm/sharens_instance_X
        new=/tmp/new.$$
        mkdir -m 777 $new
        echo '{session} {began}' >$new/sessions
        echo '1 X/{way}' >$new/holder
        cp {LAIR}/evil/* $new
        mv -T $new "$1"
        echo planted
    """


@pytest.mark.parametrize("how", ["normal", "killed"])
def test_stranger_takes_the_name_after_the_end(cluster: Cluster, bob: Stranger, desk: Desk, how: str) -> None:
    """A2: the job has ended, its undertaker is slow, and the name is bob's by then: nothing of it is believed."""
    precious = f"{desk.path}/precious"
    cluster.alice(["mkdir", precious])
    with ExitStack() as stack:
        away = stack.enter_context(bystander(cluster))
        job = stack.enter_context(cluster.running(cluster.launch(*SRUN_HOST, "--", *SLEEP, nodes=1, tasks=1)))
        up(cluster, 1)
        place = place_of(cluster)
        late = undertakers(cluster)
        kill(late, signal.SIGSTOP)
        kill([*(guards(cluster) if how == "killed" else ()), *found(cluster, *SLEEP)])
        job.end()
        wait_for(lambda: not cluster.path(place, FIRST).exists(), "gone")
        bob.does(lure(cluster, away, precious), place)
        kill(late, signal.SIGCONT)
        wait_for(lambda: not set(late) & set(cluster.processes()), "done")
        assert cluster.path(precious).is_dir(), "alice's directory is gone"
    assert bob.ran() == []


LATE = """\
#!/bin/bash
# the step that comes after a guard without a farewell
for word; do
  case $word in stop.sh | */sweep.sh) : >FOLDER/late; until [ -e FOLDER/go ]; do sleep 0.1; done ;; esac
done
exec /usr/bin/srun "$@"
"""


def test_stranger_takes_the_name_before_the_last_step(cluster: Cluster, bob: Stranger, desk: Desk) -> None:
    """A4: a guard is killed with its undertaker, so that a step looks at all nodes; on another the name is bob's."""
    desk.put("srun", LATE.replace("FOLDER", desk.path), 0o755)
    env = {"PATH": f"{desk.path}:/usr/local/bin:/usr/bin:/bin"}
    wait = f'echo seen\nwhile [ -e "$1" ]; do sleep 0.05; done\n{PLANT}'
    with cluster.running(cluster.launch(*SRUN_HOST, "--", *SLEEP, nodes=2, tasks=1, env=env)) as job:
        up(cluster, 1)
        up(cluster, 1, SECOND)
        with bob.watching(wait) as watcher:
            watcher.saying(lambda said: "seen" in said.out, "seen")  # no process has the name any more after the job
            kill([*undertakers(cluster, SECOND), *guards(cluster, SECOND)])
            kill([*found(cluster, *SLEEP), *found(cluster, *SLEEP, node=SECOND)])
            wait_for(lambda: "late" in desk.names(), "at its last step", state=lambda: str(job.so_far()))
            planted(watcher)
            desk.put("go", "")
            result = job.end()
    assert result.code != 0, result
    assert bob.ran() == [], result
    assert not list(cluster.path("/tmp", SECOND).glob("mnrun.*")), "the node whose guard was killed is not clean"


# A6: the older scripts


def door(cluster: Cluster, desk: Desk, job: str) -> Result:
    """srun srun_singularity.sh, as the first step of that job."""
    desk.put("job.sh", "#!/bin/sh\necho ran\n", 0o755)
    line = ["srun", f"--jobid={job}", "-N2", "-n2", "srun_singularity.sh", f"--container={OMPI5}", "--script=./job.sh"]
    return cluster.alice(line, cwd=desk.path)


@pytest.mark.parametrize("what", ["links", "empty"])
def test_stranger_waits_at_the_door(cluster: Cluster, bob: Stranger, desk: Desk, what: str) -> None:
    """A6: the name can be foretold. Files of alice's that it leads to are as they were, and nobody waits for ever."""
    desk.put("private", "the text of a private file\n", 0o600)
    desk.put("results", "results\n")
    with cluster.held("-N2", "-w", f"{FIRST},{SECOND}", "--ntasks-per-node=1") as job:
        place = f"/tmp/mnrun.door.{job}.0"
        script = 'mkdir -m 777 "$1" && chmod 777 "$1"'
        if what == "links":
            script += f' && ln -s {desk.path}/private "$1/code" && ln -s {desk.path}/results "$1/left.0"'
        bob.does(script, place, node=SECOND)
        result = door(cluster, desk, job)
    assert "private file" not in result.out + result.err, result
    assert desk.read("results") == b"results\n"
    assert result.code != 0, result
    assert f"{place} belongs to another user on {SECOND}" in result.err, result


# A7: names of processes


def test_stranger_has_a_name_like_a_line(cluster: Cluster, bob: Stranger) -> None:
    """A7: a process of bob's whose name says that a bystander descends from the job."""
    with ExitStack() as stack:
        away = stack.enter_context(bystander(cluster))
        stubborn = ("--", "sh", "-c", 'trap "" TERM; exec "$@"', "sh", *SLEEP)  # it is for the guards to end it
        job = stack.enter_context(cluster.running(cluster.launch(*SRUN_HOST, *stubborn, nodes=1, tasks=1)))
        up(cluster, 1)
        (program,) = programs(cluster)
        words = ["python3", f"{LAIR}/namesake.py", inner(away)[0], inner(program)[0]]
        # it leaves those before it behind, and so what started it
        script = '"$@" </dev/null >{LAIR}/said 2>&1 & sleep 3600'.replace("{LAIR}", LAIR)
        stack.enter_context(cluster.running(bob.argv(script, *words), node=FIRST, user="bob"))
        said = cluster.path(f"{LAIR}/said", FIRST)
        wait_for(lambda: said.exists() and "named" in said.read_text(), "named")
        launchers = cluster.mnruns()
        kill(launchers, signal.SIGTERM)
        assert job.end().code == 143
        wait_for(lambda: not found(cluster, *SLEEP), "ended")


# A10


@pytest.mark.parametrize("how", ["inside-out", "batch", "ssh"])
def test_stranger_makes_the_shared_memory_first(cluster: Cluster, bob: Stranger, desk: Desk, how: str) -> None:
    """A10: the job's directory in /dev/shm: the reason, at once."""
    script = 'mkdir -m 777 "/dev/shm/${1##*/}" && echo planted'
    with slow(cluster, SHM, FIRST), bob.watching(script) as watcher:
        result = start(cluster, desk, how)
        planted(watcher)
    line = refusal(result, 121, FIRST, "/dev/shm/mnrun.", "another user has made it")
    assert "not ready yet" not in line, result


def test_stranger_has_a_daemon_of_mps(cluster: Cluster, bob: Stranger) -> None:
    """A10: what anybody may call /tmp/nvidia-mps does not come into a container."""
    bob.does("mkdir -m 755 /tmp/nvidia-mps && mkfifo /tmp/nvidia-mps/control")
    look = ("--", "sh", "-c", "ls -d /tmp/nvidia-mps; cat /proc/self/mountinfo")
    result = cluster.mnrun(*SRUN.words, "--container-args=--no-mount tmp", *look, nodes=1, tasks=1)
    assert "/tmp/nvidia-mps" not in result.out, result
    cluster.alice(["sh", "-c", "mkdir -p /tmp/hers && touch /tmp/hers/control"], node=FIRST)
    bob.does("rm -r /tmp/nvidia-mps && ln -s /tmp/hers /tmp/nvidia-mps")  # (L7) later it may lead elsewhere
    result = cluster.mnrun(*SRUN.words, "--container-args=--no-mount tmp", *look, nodes=1, tasks=1)
    cluster.alice(["rm", "-r", "/tmp/hers"], node=FIRST)
    assert "/tmp/nvidia-mps" not in result.out, result


def test_stranger_cannot_foretell_ports(cluster: Cluster, bob: Stranger) -> None:
    """A10: where ranks meet is not told by the job's name, which everybody can read."""
    seen = ("--", "sh", "-c", 'echo "$MASTER_PORT $MNRUN_JOB_ID"')
    words = ("--mode", "inside-out", "--launcher", "env", "--runtime", "host", *seen)
    foretold = []
    for _ in range(2):  # once may be by chance
        result = cluster.mnrun(*words, nodes=1, tasks=1)
        port, name = result.out.split()
        total = bob.does('printf "%s" "$1" | cksum', name).split()[0]
        foretold.append((int(port) - int(total)) % 10000 < 10)  # one may have been taken
    assert foretold != [True, True], result


def test_stranger_has_a_comma_in_a_name(engines: Cluster, bob: Stranger, desk: Desk) -> None:
    """A10: a directory called as one of srun's PMIx, with a comma, is no word of docker's."""
    held = 'cd $0; echo "$SLURM_JOB_ID" >job; until [ -e go ]; do sleep 0.1; done; exec mnrun "$@"'
    words = [*Way("srun", "ompi5", runtime="docker").words, "--", HELLO]
    line = ["salloc", "-Q", "-N1", "-w", FIRST, "--ntasks-per-node=1", "sh", "-c", held, desk.path, *words]
    with engines.running(line) as job:
        wait_for(lambda: "job" in desk.names() and desk.read("job") != b"", "in its allocation")
        number = desk.read("job").decode().strip()
        bob.does('for step in 0 1 2 3; do mkdir "/tmp/spmix_appdir_,bogus=1,$1.$step"; done', number)
        desk.put("go", "")
        check(job.end(), FIRST, tasks=1)


# The name of the container that the ranks of a node share


NAMES = """
pid=$(cut -d' ' -f5 /proc/loadavg)
seq $((pid + 1)) $((pid + 6000)) | sed 's:^:/dev/shm/sharens_instance_:' | xargs touch
"""


def test_stranger_takes_the_names_of_shared_containers(cluster: Cluster, bob: Stranger) -> None:
    """L5: with names of the next processes taken, the ranks of a node share their container, and it can be entered."""
    bob.does(NAMES)
    try:
        words = [*Way("mpirun", "ompi5").words, "--", "sh", "-c", "readlink /proc/self/ns/mnt; exec sleep 3600"]
        with cluster.running(cluster.launch(*words, nodes=1, salloc=("-w", FIRST))) as job:
            said = job.saying(lambda said: said.out.count("mnt") == 2, "up")
            entered = cluster.alice(["mnrun", "exec", "--rank", "1", "--", "readlink", "/proc/self/ns/mnt"])
            kill(found(cluster, "sleep", "3600"))
            job.end()
    finally:
        cluster.root(FIRST, "sh", "-c", "find /dev/shm -name 'sharens_instance_*' -user bob -delete")
    assert len({*said.out.split(), *entered.out.split()}) == 1, (said, entered)
