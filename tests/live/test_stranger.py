"""Another user of the same nodes: what bob can do to alice's jobs, and see of them.

A name in /tmp belongs to who makes it first, and the names of a job are in the list of processes. Where bob must be
quicker than alice her command waits for him, on her side of the race: who wins by luck here wins somewhere.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from .cells import INSIDE, MPIRUN, OMPI5, SRUN, Way
from .reports import check, mine, refusal
from .stage import LOGIN, TOP, USERS, Cluster, Desk, Job, Process, Result, wait_for

pytestmark = pytest.mark.live

LAIR = "/var/tmp/lair"  # bob's, on each node
ALICE, BOB = USERS
JOB = r"/tmp/mnrun\.[0-9a-z]+-[0-9a-z]+"  # the job's directory
PULL = r"/tmp/mnrun\.pull\.\d+\.\d+"
FIRST, SECOND = "node01", "node02"
BARE, BARE_MPIRUN = Way("inside", "host"), Way("mpirun", "host")
SLEEP = ("sleep", "3601")  # a program, to be told from a bystander
BYSTANDER = ("sleep", "3599")
OPEN = "login:5000"

# What lies in a directory of bob's under each name that anything of ours has ever been run by.
EVIL = f'#!/bin/sh\n{{ id; echo "$0 $*"; }} >"{LAIR}/ran/$$.$(date +%N)"\n'
# What it takes to be taken for a job's directory, made beside and renamed, and so complete at once.
PLANT = f"""
set -eu
new=/tmp/new.$$
mkdir -m 777 "$new"
chmod 777 "$new" # whatever the umask
cd "$new"
cp {LAIR}/evil/* .
mkfifo -m 666 stdin up go
echo "$1 $(uname -n) $$ 1" >own
chmod 666 own
mkfifo -m 666 gate
chmod 666 gate
mv -T "$new" "$1"
echo planted
"""


@dataclass(frozen=True)
class Stranger:
    """Bob, with a folder on each node."""

    cluster: Cluster

    def argv(self, script: str, *words: str) -> list[str]:
        return ["sh", "-c", script, "bob", *words]

    def does(self, script: str, *words: str, node: str = FIRST) -> str:
        """A script of bob's, which must succeed."""
        done = self.cluster.alice(self.argv(script, *words), node=node, user="bob")
        assert done.code == 0, done
        return done.out

    @contextmanager
    def watching(self, script: str, pattern: str = JOB, node: str = FIRST, suffix: str = "") -> Iterator[Job]:
        """As soon as such a name is in the list of processes bob's script runs with it."""
        script = f'set -- "$1{suffix}"\n{script}'
        words = ["python3", f"{LAIR}/watcher.py", pattern, *self.argv(script)]
        with self.cluster.running(words, node=node, user="bob") as job:
            yield job

    def ran(self) -> list[str]:
        """What code of bob's said when somebody ran it."""
        places = [self.cluster.path(f"{LAIR}/ran", node) for node in (LOGIN, *self.cluster.nodes)]
        return [path.read_text() for place in places for path in place.iterdir()]


@pytest.fixture
def bob(cluster: Cluster) -> Iterator[Stranger]:
    names = {path.name for path in (TOP / "wrappers").glob("*.sh")} | {"pour", "say"}
    # of earlier versions, and later ones
    names |= {"guard.sh", "head.sh", "box.sh", "go.sh", "node.sh", "rank.sh", "sweep.sh", "stop.sh", "undertaker.sh"}
    everywhere = (LOGIN, *cluster.nodes)
    watcher = (Path(__file__).parent / "programs" / "watcher.py").read_bytes()
    namesake = (Path(__file__).parent / "programs" / "namesake.py").read_bytes()
    for node in everywhere:
        cluster.root(node, "install", "-d", "-o", "bob", LAIR, f"{LAIR}/evil")
        cluster.root(node, "install", "-d", "-o", "bob", "-m", "777", f"{LAIR}/ran")
        cluster.put(f"{LAIR}/watcher.py", watcher, 0o755, node, BOB)
        cluster.put(f"{LAIR}/namesake.py", namesake, 0o755, node, BOB)
        for name in names:
            cluster.put(f"{LAIR}/evil/{name}", EVIL, 0o755, node, BOB)
    yield Stranger(cluster)
    for process in cluster.processes():
        if process.uid == BOB:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
    for node in everywhere:
        cluster.root(node, "sh", "-c", f"rm -rf {LAIR}; find /tmp /dev/shm /var/tmp -depth -user bob -delete")


# Whatever alice makes below such a name waits, half a minute at most, until somebody has been quicker.
SLOW = """\
#!/bin/sh
for last; do :; done
case $last in
  /tmp/mnrun.pull.* | /tmp/mnrun.*/*) ;;
  PATTERN) i=0; until [ -e "$last" ] || [ -L "$last" ] || [ "$i" = 300 ]; do sleep 0.1; i=$((i + 1)); done ;;
esac
exec "/usr/bin/${0##*/}" "$@"
"""
DIRECTORY, LEASE, SHM = "/tmp/mnrun.*-*", "/tmp/mnrun.*.lease", "/dev/shm/mnrun.*"


@contextmanager
def slow(cluster: Cluster, pattern: str, *nodes: str) -> Iterator[None]:
    """Nodes on which alice makes such names after everybody else."""
    programs = ("/usr/local/bin/mkdir", "/usr/local/bin/mkfifo")
    try:
        for node in nodes:
            for program in programs:
                cluster.put(program, SLOW.replace("PATTERN", pattern), 0o755, node)
        yield
    finally:
        for node in nodes:
            cluster.root(node, "rm", "-f", *programs)


def inner(process: Process) -> tuple[str, str, str]:
    """The number of a process as its node knows it, that of its session, and when it began."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    began = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()[19]
    numbers = {line.split(":")[0]: line.split()[-1] for line in status.splitlines() if line.startswith("NS")}
    return numbers["NSpid"], numbers["NSsid"], began


def found(cluster: Cluster, *wanted: str, node: str = FIRST) -> list[Process]:
    """Alice's processes there with all these in their command."""
    mine_ = [process for process in cluster.processes() if process.node == node and process.uid == ALICE]
    return [process for process in mine_ if all(word in " ".join(process.argv) for word in wanted)]


def undertakers(cluster: Cluster, node: str = FIRST) -> list[Process]:
    every = [process for process in found(cluster, "/tmp/mnrun.", node=node) if process.argv[:2] == ("bash", "-p")]
    return [p for p in every if p.argv[2:3] == ("./undertaker.sh",) or p.argv[3:4] == ("watch",)]


def guards(cluster: Cluster, node: str = FIRST) -> list[Process]:
    return [p for p in found(cluster, "bash -p ./guard.sh", node=node) if p.argv[0] == "bash"] or [
        p for p in found(cluster, "bash -p", "/guard.sh", node=node)
    ]


def kill(processes: Sequence[Process], signum: int = signal.SIGKILL) -> None:
    assert processes
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signum)


@contextmanager
def bystander(cluster: Cluster, node: str = FIRST) -> Iterator[Process]:
    """A process of alice's that has nothing to do with any job; it must outlive what is done meanwhile."""
    with cluster.running(BYSTANDER, node=node) as job:
        wait_for(lambda: bool(found(cluster, *BYSTANDER, node=node)), "there")
        (process,) = [p for p in found(cluster, *BYSTANDER, node=node) if p.argv == BYSTANDER]
        yield process
        assert job.process.poll() is None, "the bystander was killed"
        assert process in cluster.processes(), "the bystander was killed"


def up(cluster: Cluster, count: int, node: str = FIRST) -> None:
    """So many of alice's programs run there."""
    wait_for(lambda: len(found(cluster, *SLEEP, node=node)) >= count, "running")


def planted(job: Job) -> None:
    job.saying(lambda said: "planted" in said.out, "planted")


def place_of(cluster: Cluster, node: str = FIRST) -> str:
    """The job's directory there."""
    (name,) = [path.name for path in cluster.path("/tmp", node).glob("mnrun.*-*") if path.stat().st_uid == ALICE]
    return f"/tmp/{name}"


# A1: the job's directory


def submitted(cluster: Cluster, desk: Desk, *words: str) -> Result:
    """A batch job, from its start to its end; what it wrote stands where a launch would have said it."""
    line = ["mnrun", "submit", "--wait", "-N2", "-w", f"{FIRST},{SECOND}", "-o", "out", "-e", "err", *words]
    done = cluster.alice(line, cwd=desk.path)
    assert {"out", "err"} <= set(desk.names()), done
    cluster.root(LOGIN, "sh", "-c", "rm -rf /home/alice/.mnrun/stage /home/alice/.mnrun/jobs/*")
    return Result(done.code, desk.read("out"), desk.read("err").decode())


def start(cluster: Cluster, desk: Desk, how: str) -> Result:
    """A short job on both nodes."""
    if how == "batch":
        return submitted(cluster, desk, *BARE.words, "--", "true")
    way = {"inside-out": BARE, "mpirun": BARE_MPIRUN}[how]
    return cluster.mnrun("-Q", *way.words, "--", "true", nodes=2, tasks=1)


@pytest.mark.parametrize("how", ["inside-out", "mpirun", "batch"])
def test_stranger_makes_the_directory_first(cluster: Cluster, bob: Stranger, desk: Desk, how: str) -> None:
    """A1: a directory with a gate, a head and all the rest: nothing of it runs, and the launch says who was first."""
    with slow(cluster, DIRECTORY, FIRST), bob.watching(PLANT) as watcher:
        result = start(cluster, desk, how)
        planted(watcher)
    assert bob.ran() == [], result
    refusal(result, 121, FIRST, "somebody else has made it")


@pytest.mark.parametrize("how", ["inside-out", "batch"])
def test_stranger_leads_to_a_directory_of_hers(cluster: Cluster, bob: Stranger, desk: Desk, how: str) -> None:
    """A1: a link to a directory that alice owns, with a gate in it: that is hers, and yet not this job's."""
    precious = f"{desk.path}/precious"
    cluster.alice(["sh", "-c", 'mkdir "$0" && cd "$0" && echo data >data && mkfifo gate', precious])
    with slow(cluster, DIRECTORY, FIRST), bob.watching(f'ln -s {precious} "$1" && echo planted') as watcher:
        result = start(cluster, desk, how)
        planted(watcher)
    assert sorted(path.name for path in cluster.path(precious).iterdir()) == ["data", "gate"], result
    assert desk.read("precious/data") == b"data\n"
    refusal(result, 121, FIRST, "somebody else has made it")


def test_stranger_leads_to_nowhere(cluster: Cluster, bob: Stranger, desk: Desk) -> None:
    """A1: a link whose end could be made at any time: the directory is not entered by it, and the reason is the true one."""
    with slow(cluster, DIRECTORY, FIRST), bob.watching(f'ln -s {LAIR}/later "$1" && echo planted') as watcher:
        result = start(cluster, desk, "inside-out")
        planted(watcher)
    refusal(result, 121, FIRST, "somebody else has made it")


def test_stranger_leads_to_another_job_of_hers(cluster: Cluster, bob: Stranger, desk: Desk) -> None:
    """A1: a link to the directory of a job of hers that runs: it goes on, and nothing of its own is gone."""
    with cluster.running(cluster.launch(*SRUN_HOST, "--", *SLEEP, nodes=2, tasks=1)):
        up(cluster, 1)
        place = place_of(cluster)
        before = sorted(path.name for path in cluster.path(place, FIRST).iterdir())
        with slow(cluster, DIRECTORY, FIRST), bob.watching(f'ln -s {place} "$1" && echo planted', other(place)) as watcher:
            result = start(cluster, desk, "inside-out")
            planted(watcher)
        refusal(result, 121, FIRST, "somebody else has made it")
        assert found(cluster, *SLEEP), "the other job was ended"
        assert sorted(path.name for path in cluster.path(place, FIRST).iterdir()) == before


SRUN_HOST = ("--mode", "outside-in", "--launcher", "srun", "--runtime", "host")


def other(place: str) -> str:
    """A job's directory, but not this one."""
    return rf"(?!{re.escape(place)}){JOB}"


# A2, A4: after the end


def lure(cluster: Cluster, process: Process, precious: str) -> str:
    """A directory of the job's name that tells its undertaker whom to kill, and what to remove."""
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
    """A2: the job has ended, its undertaker is slow, and the name is bob's by then: nothing that he wrote is believed."""
    precious = f"{desk.path}/precious"
    cluster.alice(["mkdir", precious])
    with ExitStack() as stack:
        away = stack.enter_context(bystander(cluster))
        job = stack.enter_context(cluster.running(cluster.launch(*SRUN_HOST, "--", *SLEEP, nodes=1, tasks=1)))
        up(cluster, 1)
        place = place_of(cluster)
        late = undertakers(cluster)
        kill(late, signal.SIGSTOP)
        kill(guards(cluster) if how == "killed" else found(cluster, *SLEEP))
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
    """A4: one node's guard is killed with its undertaker, so that a step looks at all nodes; on another the name is bob's."""
    desk.put("srun", LATE.replace("FOLDER", desk.path), 0o755)
    env = {"PATH": f"{desk.path}:/usr/local/bin:/usr/bin:/bin"}
    wait = f'while [ -e "$1" ]; do sleep 0.05; done\n{PLANT}'
    with cluster.running(cluster.launch(*SRUN_HOST, "--", *SLEEP, nodes=2, tasks=1, env=env)) as job:
        up(cluster, 1)
        up(cluster, 1, SECOND)
        with bob.watching(wait) as watcher:
            kill([*undertakers(cluster, SECOND), *guards(cluster, SECOND)])
            wait_for(lambda: "late" in desk.names(), "at its last step", state=lambda: str(job.so_far()))
            planted(watcher)
            desk.put("go", "")
            result = job.end()
    assert result.code != 0, result
    assert bob.ran() == [], result
    assert not list(cluster.path("/tmp", SECOND).glob("mnrun.*")), "the node whose guard was killed is not clean"


# A3, A8, A9: images


PACK = """\
#!/bin/sh
: >/tmp/packing
until [ -e /tmp/packing.go ]; do sleep 0.1; done
exec /usr/local/bin/mksquashfs.away "$@"
"""


@contextmanager
def packing(cluster: Cluster, node: str) -> Iterator[None]:
    """A node that converts images once it is told to."""
    cluster.root(node, "mv", "/usr/local/bin/mksquashfs", "/usr/local/bin/mksquashfs.away")
    cluster.put("/usr/local/bin/mksquashfs", PACK, 0o755, node)
    try:
        yield
    finally:
        cluster.root(node, "mv", "/usr/local/bin/mksquashfs.away", "/usr/local/bin/mksquashfs")
        cluster.root(node, "rm", "-f", "/tmp/packing", "/tmp/packing.go")


@pytest.fixture
def registry(cluster: Cluster) -> None:
    cluster.tool("registry")


def test_stranger_takes_the_name_of_a_pull(cluster: Cluster, bob: Stranger, registry: None) -> None:
    """A3: one node has the image and another not yet; the first one's spare directory is bob's by then, with a group of 1."""
    again = 'until [ -e "$1" ]; do sleep 0.02; done; while [ -e "$1" ]; do sleep 0.05; done\n'
    again += 'mkdir -m 755 "$1" && echo 1 >"$1/group" && echo planted'
    words = ("-Q", *SRUN.words[:4], "--image", f"{OPEN}/small:1", "--image-cache", "/var/tmp/own", "--", "cat")
    try:
        with ExitStack() as stack:
            stack.enter_context(packing(cluster, SECOND))
            watcher = stack.enter_context(bob.watching(again, PULL))
            stack.enter_context(bystander(cluster))
            line = cluster.launch(*words, "/etc/version", nodes=2, tasks=1)
            job = stack.enter_context(cluster.running(line))
            planted(watcher)
            wait_for(lambda: cluster.path("/tmp/packing", SECOND).exists(), "packing", state=lambda: str(job.so_far()))
            cluster.put("/tmp/packing.go", "", node=SECOND)
            result = job.end()
            assert (result.code, result.out.split()) == (0, ["1", "1"]), result
    finally:
        for node in cluster.nodes:
            cluster.root(node, "rm", "-rf", "/var/tmp/own")


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_stranger_has_made_podmans_store(cluster: Cluster, bob: Stranger, verb: str) -> None:
    """A8: podman is not asked about images in a directory that others could fill, nor is anything written there."""
    store = f"/tmp/mnrun-podman.{ALICE}"
    words = ["mnrun", verb, "--mode", "outside-in", "--runtime", "podman", "--image", "localhost/ompi5", "--", "true"]
    saved = f"{store}.saved"
    cluster.root(FIRST, "sh", "-c", f"[ ! -e {store} ] || mv {store} {saved}")
    try:
        bob.does(f"mkdir -m 777 {store} && chmod 777 {store}")
        result = cluster.alice(["salloc", "-Q", "-N1", "-w", FIRST, *words])
        inside = sorted(path.name for path in cluster.path(store, FIRST).rglob("*"))
    finally:
        cluster.root(FIRST, "sh", "-c", f"rm -rf {store}; [ ! -e {saved} ] || mv {saved} {store}")
    assert inside == [], result
    assert f"{store} cannot be made or is not ours" in result.out + result.err, result


def planted_cache(cluster: Cluster, bob: Stranger, place: str, reference: str) -> None:
    """A cache in which a reference is known, by an image of somebody's choice: ompi5."""
    digest = "b" * 64
    name = re.sub(r"[^A-Za-z0-9._-]", "_", reference)
    script = """
        umask 022
        mkdir -p "$1/refs" && cp "$2" "$1/sha256-$3.sif"
        echo "sha256:$3 key job $4" >"$1/refs/$5-$(echo "$4" | cksum | cut -d' ' -f1)"
    """
    for node in cluster.nodes:
        bob.does(script, place, OMPI5, digest, reference, name, node=node)


@pytest.mark.parametrize("by", ["tag", "digest"])
def test_stranger_has_filled_the_cache(cluster: Cluster, bob: Stranger, by: str) -> None:
    """A9: what an image cache of somebody else's holds is not believed, whether by a tag or by a digest."""
    place = f"{LAIR}/cache"
    reference = f"docker://{OPEN}/small:1" if by == "tag" else f"docker://{OPEN}/small@sha256:{'b' * 64}"
    planted_cache(cluster, bob, place, reference)
    words = ("-Q", *SRUN.words[:4], "--image-cache", place, "--image", reference, "--", "true")
    refusal(cluster.mnrun(*words, nodes=2, tasks=1), 121, f"{place} is not ours", "--image-cache")


def test_stranger_may_write_where_the_cache_is(cluster: Cluster, bob: Stranger) -> None:
    """A9: a cache of alice's in a directory of everybody's, who could give its name to another."""
    place = f"{LAIR}/open/cache"
    for node in cluster.nodes:
        bob.does(f"mkdir -m 777 {LAIR}/open && chmod 777 {LAIR}/open", node=node)
        assert cluster.alice(["mkdir", place], node=node).code == 0
    words = ("-Q", *SRUN.words[:4], "--image-cache", place, "--image", f"{OPEN}/small:1", "--", "true")
    refusal(cluster.mnrun(*words, nodes=2, tasks=1), 121, f"anybody may write to {LAIR}/open", "--image-cache")


# A5: pdsh's lease


TAPS = {
    "pipe": 'mkfifo -m 666 "$1" && chmod 666 "$1" && echo planted && exec cat "$1" >{LAIR}/stolen',
    "directory": """
        set -eu
        new=/tmp/new.$$
        mkdir -m 777 $new && chmod 777 $new && cd $new
        mkfifo -m 666 pipe && chmod 666 pipe
        echo 'exec cat >pipe' >pour
        echo 'echo "$1" 1<>pipe' >say
        echo "$1" >own
        mv -T $new "$1"
        echo planted
        exec cat "$1/pipe" >{LAIR}/stolen
    """,
}


@pytest.mark.parametrize("tap", TAPS)
def test_stranger_taps_the_lease(cluster: Cluster, bob: Stranger, tap: str) -> None:
    """A5: by pdsh the job's keys and values go into a pipe on each host: never into one of bob's."""
    hosts = f"{FIRST},{SECOND}"
    words = ["mnrun", "-Q", "--hosts", hosts, "--rsh", "pdsh", "--start-timeout", "40s", *BARE.words, "--", "true"]
    script = TAPS[tap].replace("{LAIR}", LAIR)
    with slow(cluster, LEASE, FIRST), bob.watching(script, rf"{JOB}(?=\.lease)", suffix=".lease") as watcher:
        result = cluster.alice(["env", "SECRET=open sesame", *words])
        planted(watcher)
    stolen = cluster.path(f"{LAIR}/stolen", FIRST)
    assert not stolen.exists() or stolen.read_bytes() == b"", result
    assert bob.ran() == [], result
    refusal(result, 121, FIRST)


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
    with cluster.held("-Q", "-N2", "-w", f"{FIRST},{SECOND}", "--ntasks-per-node=1") as job:
        place = f"/tmp/mnrun.door.{job}.0"
        script = 'mkdir -m 777 "$1" && chmod 777 "$1"'
        if what == "links":
            script += f' && ln -s {desk.path}/private "$1/code" && ln -s {desk.path}/results "$1/left.0"'
        bob.does(script, place, node=SECOND)
        result = door(cluster, desk, job)
    assert "private file" not in result.out + result.err, result
    assert desk.read("results") == b"results\n"
    assert result.code != 0, result
    assert f"{place} is somebody else's on {SECOND}" in result.err, result


# A7: names of processes


def test_stranger_has_a_name_like_a_line(cluster: Cluster, bob: Stranger) -> None:
    """A7: a process of bob's whose name says that a bystander descends from the job."""
    with ExitStack() as stack:
        away = stack.enter_context(bystander(cluster))
        job = stack.enter_context(cluster.running(cluster.launch(*SRUN_HOST, "--", *SLEEP, nodes=1, tasks=1)))
        up(cluster, 1)
        (program,) = [p for p in found(cluster, *SLEEP) if p.argv == SLEEP]
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


def test_stranger_makes_the_shared_memory_first(cluster: Cluster, bob: Stranger) -> None:
    """A10: the job's directory in /dev/shm: the reason, at once."""
    script = 'mkdir "/dev/shm/${1##*/}" && echo planted'
    with slow(cluster, SHM, FIRST), bob.watching(script) as watcher:
        result = cluster.mnrun("-Q", "--start-timeout", "100s", *BARE.words, "--", "true", nodes=2, tasks=1)
        planted(watcher)
    line = refusal(result, 121, FIRST, "/dev/shm/mnrun.", "somebody else has made it")
    assert "not ready" not in line, result


def test_stranger_has_a_daemon_of_mps(cluster: Cluster, bob: Stranger) -> None:
    """A10: what anybody may call /tmp/nvidia-mps does not come into a container."""
    bob.does("mkdir -m 755 /tmp/nvidia-mps && mkfifo /tmp/nvidia-mps/control")
    look = ("--", "sh", "-c", "ls -d /tmp/nvidia-mps; cat /proc/self/mountinfo")
    result = cluster.mnrun(*SRUN.words, "--container-args=--no-mount tmp", *look, nodes=1, tasks=1)
    assert "/tmp/nvidia-mps" not in result.out, result


def test_stranger_cannot_foretell_ports(cluster: Cluster, bob: Stranger) -> None:
    """A10: where ranks meet is not told by the job's name, which everybody can read."""
    seen = ("--", "sh", "-c", 'echo "$MASTER_PORT $MNRUN_JOB_ID"')
    words = ("--mode", "inside-out", "--launcher", "env", "--runtime", "host", *seen)
    result = cluster.mnrun(*words, nodes=1, tasks=1)
    port, name = result.out.split()
    total = bob.does('printf "%s" "$1" | cksum', name).split()[0]
    assert int(port) != 20000 + int(total) % 10000, result
