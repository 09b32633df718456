"""The stand-in of PBS ends jobs as the real one was seen to: who hears what, and who lives on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import pytest

from .cells import some
from .stage import LOGIN, Cluster, Desk, wait_for
from .terminal import Terminal

pytestmark = pytest.mark.xdist_group("pbs")

WITNESS = """#!/bin/bash
# witness.sh NAME: logs each signal
n=$1@$(hostname)
for s in HUP INT TERM USR1; do trap "echo $n got $s >> log.$PBS_SEQ" $s; done
echo $n is there >> log.$PBS_SEQ
while :; do sleep 0.1 & wait $!; done
"""
JOB = """#!/bin/bash
#PBS -l select=2:ncpus=1:mpiprocs=1 -l place=scatter
#PBS -j oe
#PBS -k doe
cd $PBS_O_WORKDIR
export PBS_SEQ=${PBS_JOBID%%.*}
trap "echo script got TERM >> log.$PBS_SEQ" TERM
other=$(tail -n 1 $PBS_NODEFILE)
run="cd $PWD; export PBS_SEQ=$PBS_SEQ"
./witness.sh child &
setsid ./witness.sh setsid &
pbsdsh -n 1 -- sh -c "$run; exec ./witness.sh tm" &
ssh -n $other "$run; exec ./witness.sh ssh" &
ssh -n $other "$run; exec /opt/pbs/bin/pbs_attach -j $PBS_JOBID ./witness.sh attached" &
until [ "$(grep -c 'is there' log.$PBS_SEQ)" = 5 ]; do sleep 0.1; done
echo all there >> log.$PBS_SEQ
if [ "$MODE" = ends ]; then exit 5; fi
while :; do sleep 0.1; done
"""
ENDS = {  # how -> more words for its qsub, and what the server keeps of its code
    "deleted": ((), 271),
    "limit": (("-l", "walltime=4"), -29),
    "ends": (("-v", "MODE=ends"), 5),
    "signalled": ((), 266),
    "forced": ((), 265),
}


@pytest.fixture
def cluster(pbs: Cluster) -> Cluster:
    return pbs


@pytest.fixture
def history(cluster: Cluster) -> Iterator[None]:
    cluster.root(LOGIN, "qmgr", "-c", "set server job_history_enable=True")
    yield
    cluster.root(LOGIN, "qmgr", "-c", "set server job_history_enable=False")


@pytest.mark.usefixtures("history")
def test_who_hears_what_at_the_end_of_a_job(cluster: Cluster, desk: Desk) -> None:
    desk.put("witness.sh", WITNESS, 0o755)
    script = desk.put("job.sh", JOB)
    jobs = {how: cluster.alice(["qsub", *words, script], cwd=desk.path).out.strip() for how, (words, _) in ENDS.items()}
    numbers = {how: job.split(".")[0] for how, job in jobs.items()}

    def log(how: str) -> list[str]:
        return desk.read(f"log.{numbers[how]}").decode().splitlines()

    def there(how: str) -> bool:
        return f"log.{numbers[how]}" in desk.names() and "all there" in log(how)

    def over(job: str) -> bool:
        return cluster.alice(["qstat", job]).code == 35

    for how in jobs:
        wait_for(partial(there, how), "there")
    for how, words in {
        "deleted": ["qdel"],
        "signalled": ["qsig", "-s", "USR1"],
        "forced": ["qdel", "-W", "force"],
    }.items():
        assert cluster.alice([*words, jobs[how]]).code == 0
    # the script and its child refuse to go, and the MOM kills them later
    left = cluster.alice(["qstat", jobs["deleted"]])
    assert left.code == 0, left
    for job in jobs.values():
        wait_for(partial(over, job), "over")
    for how, (_, code) in ENDS.items():
        shown = cluster.alice(["qstat", "-x", "-f", jobs[how]]).out
        assert re.search(rf"Exit_status = {code}\n", shown), shown
        heard = {line for line in log(how) if " got " in line}
        warned = {"deleted": "TERM", "limit": "TERM"}.get(how, "")
        names = {line.split()[0] for line in heard if line.endswith(f"got {warned}")}
        # pbsdsh passes TERM on
        assert {name.split("@")[0] for name in names} == ({"script", "child", "tm"} if warned else set()), heard
    found = [p for p in cluster.processes() if any("witness.sh" in word for word in p.argv)]
    pids = {p.pid for p in found}
    alive = [p for p in found if p.parent not in pids]  # a bash that is forked for `sleep` has the words of its parent
    kinds = [(next(word for word in p.argv if word in ("setsid", "ssh")), p) for p in alive]
    assert sorted(kind for kind, _ in kinds) == ["setsid"] * 5 + ["ssh"] * 5
    assert "job killed: walltime" in "".join(desk.read(name).decode() for name in desk.names() if ".o" in name)
    for _, process in kinds:
        process.send(9)


def test_tasks(cluster: Cluster, desk: Desk) -> None:
    """Their input is empty, their words arrive as they are, and their codes come back."""
    lines = [
        "echo data | pbs_tmrsh node01 cat",
        "pbs_tmrsh node01 printf '<%s>' a ' b' '$HOME' '' 'q\"q'; echo",
        "pbs_tmrsh node01 sh -c 'exit 7'; echo code $?",
        "pbs_tmrsh node01 sh -c 'kill -9 $$'; echo code $?",
        "pbs_tmrsh node01 /no/such; echo code $?",
        "pbs_tmrsh node03 true; echo code $?",
        "pbs_tmrsh node01 sh -c 'umask; pwd; ls -d $TMPDIR; cat $PBS_NODEFILE | wc -l'",
        "pbsdsh -n 1 -- sh -c 'kill -9 $$'; echo code $?",
        "echo data | ssh node01 /opt/pbs/bin/pbs_attach -j $PBS_JOBID sh -c 'cat\\;exit\\ 3'; echo code $?",
        "ssh node01 /opt/pbs/bin/pbs_attach -j 99999.login true; echo code $?",
    ]
    script = desk.put("tm.sh", "\n".join(lines))
    words = ["-l", "select=1:ncpus=1:host=node04+1:ncpus=1:host=node01", "-j", "oe", "-k", "doe", "-o", "out"]
    done = cluster.alice(["qsub", "-W", "block=true", *words, script], cwd=desk.path)
    said = desk.read("out").decode()
    assert done.code == 0, (done, said)
    number = done.out.strip()
    assert said.splitlines() == [
        '<a>< b><$HOME><><q"q>',
        "code 7",
        "code 9",
        "pbs_mom, exec of /no/such failed with error: No such file or directory",
        "code 254",
        f'pbs_tmrsh: host "node03" is not a node in job <{number}>',
        "code 255",
        "0077",
        "/home/alice",
        f"/var/tmp/pbs.{number}",
        "2",
        "pbsdsh: task 0x00000000 exit status 265",
        "code 0",
        "data",
        "code 3",
        "/opt/pbs/bin/pbs_attach: tm_attach: no matching job found (17006)",
        "code 1",
    ]


def test_a_terminal(cluster: Cluster, desk: Desk) -> None:
    with Terminal(cluster.argv(LOGIN, "alice", ["qsub", "-I", "-l", "select=1"], desk.path)) as terminal:
        terminal.expect(r"ready")
        terminal.expect(r"\$ ")
        terminal.write("echo $PBS_ENVIRONMENT; tty; pwd; exit 6\n")
        terminal.expect("PBS_INTERACTIVE")
        terminal.expect("/dev/pts/0")
        terminal.expect("completed")
        assert terminal.end() == 0
    with Terminal(cluster.argv(LOGIN, "alice", ["qsub", "-I"], desk.path)) as terminal:
        terminal.expect(r"\$ ")
        terminal.write("sleep 600\n")
        terminal.expect("sleep 600")
        (client,) = [p for p in cluster.processes() if "-I" in p.argv and p.parent and "python" in p.argv[0]]
        client.send(9)
        wait_for(lambda: not cluster.jobs(), "over")


@pytest.mark.parametrize("first", some([True, False], [True]))
def test_a_mom_that_is_started_again(cluster: Cluster, desk: Desk, first: bool) -> None:
    """That of the first node runs its job again. For that of another, all goes on."""
    words = ["-l", "select=1:host=node04+1:host=node01", "-j", "oe", "-o", "/dev/null"]
    job = cluster.alice(["qsub", *words, "--", "/bin/sleep", "300"], cwd=desk.path).out.strip()

    def shown(name: str) -> str:
        found = re.search(rf" {name} = (.*)", cluster.alice(["qstat", "-f", job]).out)
        return found[1] if found else ""

    node = "node04" if first else "node01"
    wait_for(lambda: shown("substate") == "42", "running")
    cluster.root(node, "pkill", "-9", "-f", "sbin/pbs_mom")
    wait_for(lambda: "down: communication closed" in cluster.root(LOGIN, "pbsnodes", "-l"), "down")
    assert shown("job_state") == "R"
    cluster.root(node, "sh", "/etc/rehearsal/pbs.sh", node)
    wait_for(lambda: not cluster.root(LOGIN, "pbsnodes", "-l"), "up")
    wait_for(lambda: shown("run_count") == ("2" if first else "1") and shown("substate") == "42", "on")
    assert cluster.alice(["qdel", job]).code == 0
    for process in cluster.processes():
        if process.argv[0] == "/bin/sleep" and first:
            process.send(9)  # of the first run: a MOM that starts ends nothing
    wait_for(lambda: not cluster.jobs(), "over")
