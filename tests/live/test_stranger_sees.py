"""What bob can see of alice's jobs, that he cannot log in, and what he finds after which end: docs/security.md."""

from __future__ import annotations

import signal
import stat
from itertools import product

import pytest

from .cells import SRUN
from .stage import LOGIN, TOP, Cluster, Desk, Result, wait_for
from .stranger import (
    ALICE,
    BARE,
    BARE_SSH,
    FIRST,
    LAIR,
    SECOND,
    SLEEP,
    SRUN_HOST,
    Stranger,
    at_once,
    kill,
    place_of,
    programs,
    undertakers,
    up,
)

NODES = f"{FIRST},{SECOND}"
# All that bob can read of everybody's processes and files.
LOOK = """
    for file in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do tr '\\0' '\\n' <"$file"; done
    find /tmp /dev/shm /var/tmp /home/alice -type f -exec cat {} +
    find /tmp /dev/shm /var/tmp /home/alice
"""
WAYS = {
    "inside-out": BARE_SSH.words,
    "srun": SRUN.words,
    "paramiko": ["--hosts", NODES, "--rsh", "paramiko", *BARE.words],
    "ssh": ["--hosts", NODES, "--rsh", "ssh", *BARE.words],
    "local": ["--local", *BARE.words],
}


# All that Slurm tells bob about everybody's jobs.
ASK = """
    scontrol -dd show job; scontrol show step; squeue -a -o '%all'; sacct -a -P -o ALL
    for job in $(squeue -a -h -o %i); do scontrol write batch_script "$job" -; done
"""


@pytest.mark.parametrize("way", [*WAYS, "submit"])
def test_stranger_sees_words_and_no_values(cluster: Cluster, desk: Desk, bob: Stranger, way: str) -> None:
    """The program's words and the names of the job's files are everybody's; values of variables and keys are not,
    wherever they were written: passed on with -x, in a job file, in the user's configuration (S2). Nor are they for a
    member of her group, whatever her umask is."""
    where = (LOGIN,) if way == "local" else (FIRST, SECOND)
    cluster.alice(["mkdir", "-p", f"{desk.path}/config/mnrun"])
    desk.put("config/mnrun/config.toml", '[env]\nOF_CONFIG = "sesame of a config"\n', 0o600)
    file = desk.put("job.toml", '[env]\nOF_FILE = "sesame of a file"\n', 0o600)
    program = ["--", "sh", "-c", '"$@"; :', "a-visible-word", *SLEEP]
    line = ["env", "SECRET=open sesame", f"XDG_CONFIG_HOME={desk.path}/config"]
    line += ["sh", "-c", 'umask 0; exec "$@"', "sh"]
    if way == "submit":
        words = ["-N", "2", "-w", NODES, "-o", f"{desk.path}/out", *BARE.words, "-x", "SECRET", "-x", "TYPED=sesame 4"]
        handed = cluster.alice([*line, "mnrun", "submit", *words, file, *program])
        assert handed.code == 0, handed
        line = ["env", "MNRUN_SLURM_POLL=1s", "mnrun", "wait", handed.out.strip()]
    else:
        words = [*WAYS[way], "-x", "SECRET", file, *program]
        line += (
            ["mnrun", *words]
            if {"--hosts", "--local"} & {*words}
            else map(str, cluster.launch(*words, nodes=2, tasks=1))
        )
    with cluster.running(line) as job:
        for node in where:
            up(cluster, 1, node)
        (first,) = programs(cluster, where[0])
        with open(f"/proc/{first.pid}/environ", "rb") as environ:
            known = environ.read().split(b"\0")
        values = {b"SECRET=open sesame", b"OF_FILE=sesame of a file", b"OF_CONFIG=sesame of a config"}
        assert values <= set(known), "the test is none: the program lacks a value"
        for node, who in product((LOGIN, *where), (bob, Stranger(cluster, "carol"))):
            seen = who.does(f"{{ {LOOK} }} 2>/dev/null; true", node=node)
            assert "a-visible-word" in seen or node != where[0]
            assert node not in where or place_of(cluster, node) in seen.splitlines()
            assert "sesame" not in seen, (node, who.name)
            assert "PRIVATE KEY" not in seen, (node, who.name)
        told = bob.does(f"{{ {ASK} }} 2>/dev/null; true", node=LOGIN)
        assert {"--hosts", "--local"} & {*words} or "UserId=alice(1500)" in told
        assert "sesame" not in told
        if way == "submit":
            cluster.alice(["scancel", handed.out.strip()])
            job.end()
            forget(cluster)


def listening(cluster: Cluster, node: str) -> list[str]:
    """The ports of alice's sshd there, as everybody can read them."""
    lines = [line.split() for line in cluster.root(node, "cat", "/proc/net/tcp").splitlines()[1:]]
    return [str(int(words[1].split(":")[1], 16)) for words in lines if words[3] == "0A" and words[7] == str(ALICE)]


def ssh(cluster: Cluster, who: str, to: str, port: str, *more: str) -> Result:
    options = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "ConnectTimeout=20"]
    flags = [word for option in options for word in ("-o", option)]
    words = [] if "-W" in more else ["id"]
    return cluster.alice(["ssh", *flags, "-p", port, *more, f"{to}@{FIRST}", *words], user=who, node=FIRST)


def port_of_sshd(cluster: Cluster) -> str:
    """The port at which the job's sshd refuses bob."""
    ports = [port for port in listening(cluster, FIRST) if 20000 <= int(port) < 30000]
    answers = {port: ssh(cluster, "bob", "alice", port) for port in ports}
    (port,) = [port for port, said in answers.items() if "Permission denied (publickey)" in said.err]
    assert answers[port].code == 255, answers[port]
    return port


def test_stranger_cannot_log_in(cluster: Cluster, bob: Stranger) -> None:
    """The job's sshd lets in the job's own key alone: none of bob's, none of alice's, nobody as bob; no forwarding."""
    with cluster.running(cluster.launch(*BARE_SSH.words, "--", *SLEEP, nodes=2, tasks=1)):
        up(cluster, 1)
        port = port_of_sshd(cluster)
        for who, to in (("bob", "bob"), ("alice", "alice")):
            said = ssh(cluster, who, to, port)
            assert (said.code, "Permission denied (publickey)" in said.err) == (255, True), said
        key = f"{place_of(cluster)}/box/key"
        config = cluster.root(FIRST, "/usr/sbin/sshd", "-T", "-f", f"{place_of(cluster)}/box/sshd_config").splitlines()
        off = ("passwordauthentication", "allowtcpforwarding", "x11forwarding")
        assert {f"{word} no" for word in off} <= {*config}, config
        assert "uid=1500(alice)" in ssh(cluster, "alice", "alice", port, "-i", key).out
        stolen = ssh(cluster, "bob", "alice", port, "-i", key)
        assert stolen.code == 255, stolen
        through = ssh(cluster, "alice", "alice", port, "-i", key, "-W", "127.0.0.1:22")
        assert through.code == 255 and "administratively prohibited" in through.err, through


# Connections without a login: HOST PORT COUNT. It says how many sshd lets wait, once it has closed all others.
FLOOD = """
import selectors, socket, sys, time
held = selectors.DefaultSelector()
for _ in range(int(sys.argv[3])):
    held.register(socket.create_connection((sys.argv[1], int(sys.argv[2]))), selectors.EVENT_READ)
end = time.monotonic() + 120
while len(held.get_map()) > 100 and time.monotonic() < end:
    for key, _ in held.select(1):
        try:
            there = key.fileobj.recv(4096)
        except ConnectionResetError:
            there = b""
        if not there or there.startswith(b"Not allowed"):
            held.unregister(key.fileobj)
            key.fileobj.close()
print("waiting", len(held.get_map()), flush=True)
time.sleep(600)
"""


def test_stranger_floods_the_sshd(cluster: Cluster, desk: Desk, bob: Stranger) -> None:
    """Idle connections of bob's take little of the job's memory, and other nodes of the job get in past them (S10)."""
    go = f"{desk.path}/go"
    words = f"echo begun; until [ -e {go} ]; do sleep 0.1; done; [ $RANK = 0 ] || exec ssh {FIRST} echo reached"
    with cluster.running(cluster.launch(*BARE_SSH.words, "--", "sh", "-c", words, nodes=2, tasks=1)) as job:
        job.saying(lambda said: said.out.count("begun") == 2, "running")
        flood = ["python3", "-c", FLOOD, FIRST, port_of_sshd(cluster), "300"]
        with cluster.running(flood, node=LOGIN, user=bob.name) as connections:
            waiting = connections.saying(lambda said: "waiting" in said.out, "flooding")
            desk.put("go", b"")
            result = job.end()
    assert (result.code, result.out.split()) == (0, ["begun", "begun", "reached"]), result
    assert int(waiting.out.split()[1]) <= 100, waiting


def keys(cluster: Cluster) -> list[str]:
    """The files of jobs with a private key. The key of `mnrun proxy` is the user's own, and stays."""
    places = "/tmp /dev/shm /var/tmp /home/alice/.mnrun"
    line = (
        f"grep -rl --devices=skip --exclude-dir='mnrun-podman.*' -e '-BEGIN .*PRIVATE KEY' {places} 2>/dev/null; true"
    )
    found = ((node, path) for node in (LOGIN, FIRST, SECOND) for path in cluster.root(node, "sh", "-c", line).split())
    return [f"{node}: {path}" for node, path in found if not path.startswith("/home/alice/.mnrun/ssh/")]


def forget(cluster: Cluster) -> None:
    cluster.root(LOGIN, "sh", "-c", "rm -rf /home/alice/.mnrun/jobs/*")


@pytest.mark.parametrize("end", ["failing rank", "SIGINT", "scancel", "SIGKILL"])
def test_stranger_finds_no_key_afterwards(cluster: Cluster, end: str) -> None:
    with cluster.running(cluster.launch(*BARE_SSH.words, "--", *SLEEP, nodes=2, tasks=1)) as job:
        up(cluster, 1)
        up(cluster, 1, SECOND)
        assert len([line for line in keys(cluster) if "/mnrun." in line]) >= 4, "the test is none"
        if end == "failing rank":
            kill(programs(cluster, SECOND))
        elif end == "scancel":
            cluster.root(LOGIN, "scancel", "-u", "alice")
        else:
            kill(cluster.mnruns(), getattr(signal, end))
        job.end()
        wait_for(lambda: keys(cluster) == [], "without keys", 90)
        for node in (FIRST, SECOND):
            places = [cluster.path(folder, node) for folder in ("/tmp", "/dev/shm")]
            wait_for(lambda places=places: not any(any(p.glob("mnrun.*-*")) for p in places), "clean", 90)  # type: ignore[misc]
    forget(cluster)


def slain(cluster: Cluster) -> str:
    """The number of a job whose processes are all killed at once, as Slurm does with a step that is out of memory."""
    with cluster.running(cluster.launch(*BARE_SSH.words, "--", *SLEEP, nodes=2, tasks=1)) as job:
        up(cluster, 1)
        up(cluster, 1, SECOND)
        kill(cluster.mnruns(), signal.SIGSTOP)  # so that it sends no step after them
        number = cluster.root(LOGIN, "squeue", "-h", "-o", "%i").strip()
        there = [*undertakers(cluster), *undertakers(cluster, SECOND)]
        there += [process for process in cluster.processes() if process.uid == ALICE and process.node != LOGIN]
        at_once(there)
        kill(cluster.mnruns())
        job.end()
    for process in cluster.processes():
        if process.uid == ALICE:
            process.send(signal.SIGKILL)
    wait_for(lambda: not cluster.root(LOGIN, "squeue", "-h"), "over")
    forget(cluster)
    return number


# Names of the same job: links to a directory of alice's, and a directory that has all that a job's has.
LURE = f"""
    ln -s "$2" "$1link"
    ln -s "$2" "/dev/shm/${{1##*/}}link"
    mkdir "$1mine"
    cp {LAIR}/evil/* "$1mine"
    echo "$1mine $(uname -n) 1 1" >"$1mine/own"
"""


@pytest.mark.parametrize("then", ["launch", "clean", "epilog"])
def test_stranger_finds_what_was_slain(cluster: Cluster, bob: Stranger, desk: Desk, then: str) -> None:
    desk.put("own", "hers\n")
    number = slain(cluster)
    left = {node: place_of(cluster, node) for node in (FIRST, SECOND)}
    for node, place in left.items():
        status = cluster.path(place, node).stat()
        assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (ALICE, 0o700)
        assert "PRIVATE KEY" not in bob.does(f"{{ {LOOK} }} 2>/dev/null; true", node=node)
        bob.does('mkdir "$1-bob" && ! rmdir "$1" 2>/dev/null && ! mv "$1" "$1-away" 2>/dev/null', place, node=node)
        bob.does(LURE, place, desk.path, node=node)
    if then == "launch":
        result = cluster.mnrun(*SRUN_HOST, "--", "sleep", "2", nodes=2, tasks=1)
    elif then == "clean":
        result = cluster.alice(["salloc", "-Q", "-N2", "mnrun", "clean", "--nodes"])
        assert f"removed {left[FIRST]}" in result.out, result
    else:
        epilog = (TOP / "examples/epilog/epilog.sh").read_text()
        for node in left:
            cluster.root(node, "env", f"SLURM_JOB_ID={number}", f"SLURM_JOB_UID={ALICE}", "bash", "-c", epilog)
        result = Result(0, b"", "")
    assert result.code == 0, result
    for node, place in left.items():
        wait_for(lambda node=node, place=place: not cluster.path(place, node).exists(), "gone")  # type: ignore[misc]
        assert cluster.path(f"{place}-bob", node).exists(), "it was not alice's to remove"
        assert cluster.path(f"{place}mine/own", node).exists(), "it was not alice's to remove"
        left_there = [path.name for path in cluster.path("/dev/shm", node).glob("mnrun.*")]
        assert left_there == [f"{place.rpartition('/')[2]}link"]
    assert (bob.ran(), desk.names()) == ([], ["own"])
