"""Without a scheduler: --hosts and --hostfile, by ssh from the login node to the nodes."""

from __future__ import annotations

import hashlib
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from .cells import HELLO, NOSSHD, OMPI4, OMPI5, Way, cells, full, one, some
from .reports import check, errors, mine, only_line, refusal
from .stage import LOGIN, Cluster, Desk, Job, Result, old_file, wait_for
from .stranger import kill
from .test_ends import clean_soon

ALL = "node[01-04]:2"
FOREVER = ("sh", "-c", "echo up >&2; exec sleep 600")
INSIDE, MPIRUN = Way("inside", "ompi5").words, Way("mpirun", "ompi5").words


def launch(
    cluster: Cluster, *words: str | bytes, hosts: str = ALL, stdin: bytes | None = None, cwd: str = ""
) -> Result:
    return cluster.alice(["mnrun", "--hosts", hosts, *words], stdin, cwd=cwd)


@contextmanager
def under_way(cluster: Cluster, *words: str, hosts: str = ALL) -> Iterator[Job]:
    with cluster.running(["mnrun", "--hosts", hosts, *words, "--", *FOREVER]) as job:
        job.saying(lambda said: said.err.count("up\n") == 8, "up on all hosts")
        yield job


@contextmanager
def lost(cluster: Cluster, how: str, node: str) -> Iterator[None]:
    cluster.tool(how, node)
    try:
        yield
    finally:
        cluster.tool("heal", node)


RSHS = ("ssh", "pdsh", "paramiko")
RSH = pytest.mark.parametrize("rsh", RSHS)
WAYS = cells(
    {"rsh": RSHS, "start": ("inside", "mpirun"), "image": ("ompi5", "ompi4", "host"), "connect": ("ssh", "pipe")},
    together=1,  # test_matrix.py has the rest
)


@pytest.mark.parametrize(("rsh", "start", "image", "connect"), WAYS)
def test_hosts_run_a_job(cluster: Cluster, rsh: str, start: str, image: str, connect: str) -> None:
    words = [
        "--rsh",
        rsh,
        "--connect",
        connect,
        *Way(start, image).words,
        "-x",
        "VAR=a b",
        "--",
        HELLO,
        "-e",
        "VAR",
        "-x",
        "7",
    ]
    result = launch(cluster, *words)
    assert result.code == 7, result
    found = check(replace(result, code=0), *cluster.nodes)
    assert {rank.value for rank in found} == {"a b"}, result


@pytest.mark.parametrize("rsh", one(0, RSHS))
def test_hosts_take_and_give_any_bytes(cluster: Cluster, desk: Desk, rsh: str) -> None:
    sent = bytes(range(256)) * 4000
    script = desk.put("job.sh", "#!/bin/sh\necho and >&2\nexec cat\n", 0o755)
    result = launch(cluster, "--rsh", rsh, *INSIDE, "--script", script, hosts="node[01-02]", stdin=sent)
    assert (result.code, result.raw == sent) == (0, True), result.err
    assert "and\n" in result.err, result
    first = 'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then echo "$0"; sha256sum; fi'
    words = ["--rsh", rsh, *INSIDE, "--", "sh", "-c", first, "{node} %h"]
    counted = launch(cluster, *words, hosts="node[01-02]", stdin=sent)
    assert counted.out.split()[:3] == ["{node}", "%h", hashlib.sha256(sent).hexdigest()], counted


@pytest.mark.parametrize("rsh", one(1, RSHS))
def test_hosts_see_no_secret_in_any_command_line(cluster: Cluster, desk: Desk, rsh: str) -> None:
    file = desk.put("env", "SECRET=hunter2hunter2\n")
    words = ["mnrun", "--hosts", ALL, "--rsh", rsh, "--env-file", file, *INSIDE]
    with cluster.running([*words, "--", "sh", "-c", 'echo "$SECRET"; sleep 600']) as job:
        job.saying(lambda said: said.out.count("hunter2hunter2") == 8, "up on all hosts")
        lines = [" ".join(p.argv) for p in cluster.processes()]
    assert len(lines) > 20, lines
    assert [line for line in lines if "hunter2" in line or "PRIVATE" in line] == []


@contextmanager
def away(cluster: Cluster, file: str) -> Iterator[None]:
    cluster.root(LOGIN, "mv", file, f"{file}.away")
    try:
        yield
    finally:
        cluster.root(LOGIN, "mv", f"{file}.away", file)


def test_hosts_by_the_ssh_that_everybody_has(cluster: Cluster, desk: Desk) -> None:
    """Nobody needs pdsh or paramiko: `pip install .` is enough. Who asks for one that is not there is told so."""
    desk.put("sitecustomize.py", "import sys\nsys.modules['paramiko'] = None\n")  # as where it is not installed
    mnrun = ["env", f"PYTHONPATH={desk.path}", "mnrun", "--hosts", ALL]
    with away(cluster, "/usr/bin/pdsh"):
        check(cluster.alice([*mnrun, "--image", NOSSHD, "--", HELLO]), *cluster.nodes)
        for rsh in ("pdsh", "paramiko"):
            said = cluster.alice([*mnrun, "--rsh", rsh, *INSIDE, "--", HELLO])
            refusal(said, 122, rsh, "not installed here")


@pytest.fixture
def gate(cluster: Cluster, configured: Callable[[str], None]) -> Iterator[None]:
    """A jump host that drops every login beyond two that have not ended, before twelve names of node01."""
    settings = "/etc/ssh/sshd_config.d/rehearsal.conf"
    cluster.root("node04", "sh", "-c", f"sed 's/^MaxStartups .*/MaxStartups 2:100:2/' {settings} >/run/gate.conf")
    cluster.root("node04", "/usr/sbin/sshd", "-f", "/run/gate.conf", "-p", "2222", "-o", "PidFile=/run/gate.pid")
    configured("Host gate\n  HostName node04\n  Port 2222\nHost far*\n  HostName node01\n  ProxyJump gate\n")
    yield
    cluster.root("node04", "sh", "-c", "kill $(cat /run/gate.pid)")


@pytest.mark.usefixtures("gate")
@pytest.mark.parametrize("rsh", ["ssh", "paramiko"])
def test_hosts_behind_one_jump_host(cluster: Cluster, rsh: str) -> None:
    """One login to it serves them all. Nothing of it is left."""
    plan = cluster.alice(["mnrun", "plan", "--rsh", rsh, "--hosts", "far[01-12]", "--runtime", "host", "--", "true"])
    assert (plan.code, "far12: 1" in plan.out) == (0, True), plan
    wait_for(lambda: not [p for p in cluster.processes() if p.node == LOGIN and p.argv[0] == "ssh"], "without ssh")


def test_hosts_of_a_file_and_part_of_them(cluster: Cluster, desk: Desk) -> None:
    file = desk.put("hosts", "node01 slots=2\nnode02:1\n# no more\nnode03\n")
    words = ["mnrun", "--hostfile", file, *INSIDE]
    check(cluster.alice([*words, "--", HELLO]), spread={"node01": 2, "node02": 1, "node03": 1})
    check(cluster.alice([*words, "--exclude", "node01", "--", HELLO]), spread={"node02": 1, "node03": 1})


def test_hosts_may_be_this_machine(cluster: Cluster) -> None:
    """The launching machine needs no ssh server to be one of them; outside-in not even the program."""
    listening = cluster.root("login", "sh", "-c", "pidof sshd | tr ' ' '\\n' | sort -n | head -n 1").strip()
    cluster.root("login", "kill", listening)
    try:
        with away(cluster, "/usr/sbin/sshd"):
            for way in (INSIDE, MPIRUN):
                result = launch(cluster, *way, "-v", "--", HELLO, hosts="login,node01")
                check(result, spread={"login": 1, "node01": 1})
    finally:
        cluster.root("login", "/usr/sbin/sshd")


@pytest.fixture
def configured(cluster: Cluster) -> Iterator[Callable[[str], None]]:
    """Writes alice's ~/.ssh/config; what is in her ~/.ssh afterwards is what was there."""
    folder = cluster.path("/home/alice/.ssh")
    keys = (folder / "authorized_keys").read_bytes()

    def write(text: str) -> None:
        cluster.put("/home/alice/.ssh/config", text, 0o600)

    yield write
    (folder / "authorized_keys").write_bytes(keys)
    (folder / "config").unlink(missing_ok=True)


@pytest.fixture
def locked(cluster: Cluster, desk: Desk, configured: object) -> str:
    """A key with a passphrase, by which alice may log in everywhere; `ask` beside it tells ssh-add the passphrase."""
    make = f"ssh-keygen -q -t ed25519 -N secret -f {desk.path}/locked"
    done = cluster.alice(["sh", "-c", f"{make} && cat {desk.path}/locked.pub >>~/.ssh/authorized_keys"])
    assert done.code == 0, done
    desk.put("ask", "#!/bin/sh\necho secret\n", 0o755)
    return f"{desk.path}/locked"


@RSH
def test_hosts_out_of_reach_are_named_at_once(
    cluster: Cluster, desk: Desk, configured: Callable[[str], None], locked: str, rsh: str
) -> None:
    known = desk.put("known", "")
    another = desk.put("another", f"node02 {' '.join(desk.read('locked.pub').decode().split()[:2])}\n")
    files = "  UserKnownHostsFile {0}\n  GlobalKnownHostsFile {0}\n"
    configured(
        f"Host node03\n{files.format(known)}Host node02\n{files.format(another)}Host node04\n  Port 9\n"
        f"Host locked\n  HostName node01\n  IdentityFile {locked}\n  IdentitiesOnly yes\n"
    )
    words = ["--rsh", rsh, *INSIDE, "--", HELLO]
    said = only_line(launch(cluster, *words, hosts="node[01-04],nowhere,locked"), 121, "5 of 6 hosts")
    assert "node02: its host key has CHANGED (ask its admin" in said
    assert "node03: its host key is not known here" in said
    assert "ssh-keyscan node03" in said
    assert "node04: no ssh server answers" in said
    assert "nowhere: there is no host of that name" in said
    assert "locked: the key for it has a passphrase (ssh-add it" in said


@pytest.mark.parametrize("rsh", one(2, RSHS))
def test_hosts_as_ssh_is_configured(
    cluster: Cluster, desk: Desk, configured: Callable[[str], None], locked: str, rsh: str
) -> None:
    """ProxyJump and ProxyCommand of ~/.ssh/config, and a key with a passphrase that an agent holds."""
    configured(
        "Host far1\n  HostName node01\n  ProxyJump node04\n"
        "Host far2\n  HostName node02\n  ProxyCommand ssh -W %h:%p node04 2>/dev/null\n"
        f"  IdentityFile {locked}\n  IdentitiesOnly yes\n"
    )
    job = f"mnrun --rsh {rsh} --hosts far1:2,far2:2 {' '.join(INSIDE)} -- {HELLO}"
    add = f"SSH_ASKPASS={desk.path}/ask SSH_ASKPASS_REQUIRE=force ssh-add -q {locked} </dev/null"
    check(cluster.alice(["ssh-agent", "sh", "-c", f"{add} && {job} && kill $SSH_AGENT_PID"]), "node01", "node02")


@pytest.mark.parametrize(
    ("words", "why"),
    [(("--ssh-user", "bob"), "the login was refused"), (("--ssh-port", "23"), "no ssh server answers")],
)
def test_hosts_that_refuse_us(cluster: Cluster, words: tuple[str, ...], why: str) -> None:
    only_line(launch(cluster, *words, *INSIDE, "--", HELLO), 121, "4 of 4 hosts", f"node[01-04]: {why}", words[0])


@pytest.fixture
def second(cluster: Cluster) -> Iterator[None]:
    """A second ssh server on two hosts, at port 2222, where alice may log in as bob."""
    keys = cluster.path("/home/bob/.ssh/authorized_keys")
    before = keys.read_bytes()
    keys.write_bytes(before + cluster.path("/home/alice/.ssh/authorized_keys").read_bytes())
    for node in cluster.nodes[:2]:
        cluster.root(node, "/usr/sbin/sshd", "-p", "2222", "-o", "PidFile=/run/second.pid")
    yield
    keys.write_bytes(before)
    for node in cluster.nodes[:2]:
        cluster.root(node, "sh", "-c", "kill $(cat /run/second.pid)")


@RSH
@pytest.mark.usefixtures("second")
def test_hosts_as_another_user_at_another_port(cluster: Cluster, rsh: str) -> None:
    there = "[ -r ~/.ssh/authorized_keys ] && echo $(id -un) $HOME"
    words = ["--rsh", rsh, "--ssh-user", "bob", "--ssh-port", "2222", "--chdir", "/tmp", *INSIDE]
    result = launch(cluster, *words, "--", "sh", "-c", there, hosts="node01,node02")
    assert (result.code, result.out) == (0, "bob /home/bob\n" * 2), result


def test_hosts_with_busy_gpus_are_named(cluster: Cluster) -> None:
    script = """#!/bin/sh
case $1 in
  -L) echo "GPU 0: Some GPU (UUID: GPU-aaa)"; echo "GPU 1: Some GPU (UUID: GPU-bbb)" ;;
  -q) printf '%s\\n' 'GPU 00000000:01:00.0' ' Processes : None' 'GPU 00000000:02:00.0' \\
    ' Process ID : 1' ' Type : C' ' Name : /usr/bin/python3' ;;
esac
"""
    places = [cluster.path("/usr/local/bin/nvidia-smi", node) for node in ("node01", "node02")]
    for node in ("node01", "node02"):
        cluster.put("/usr/local/bin/nvidia-smi", script, 0o755, node)
    places.append(old_file(cluster, "node01"))
    try:
        result = launch(cluster, "-v", *INSIDE, "--", HELLO, hosts="node[01-02]")
    finally:
        for place in places:
            place.unlink()
    check(result, "node01", "node02")
    assert "node01: not free: GPU 1 (/usr/bin/python3, process 1, another user's)" in result.err, result
    assert "/dev/shm/nccl-old" in errors(result) and "node02: not free: 1" not in errors(result), result
    assert "one per GPU" in result.err, result


def test_hosts_that_share_nothing(variant: Callable[..., Cluster]) -> None:
    apart = variant(2, "--separate-home")
    hosts = "login:2,node[01-02]:1"
    spread = {"login": 2, "node01": 1, "node02": 1}
    with apart.desk(("login", "node01", "node02"), under="/srv") as desk:
        image = f"{desk.path}/app.sif"
        words = ["mnrun", "--hosts", hosts, "--image", image]
        assert apart.alice(["cp", OMPI5, image]).code == 0
        said = refusal(
            apart.alice([*words, "--", HELLO]), 121, image, "is not there, or cannot be read, on node[01-02]"
        )
        assert "--stage" in said, said
        for node in ("node01", "node02"):
            assert apart.alice(["cp", OMPI4, image], node=node).code == 0
        refusal(apart.alice([*words, "--", HELLO]), 121, image, "not the same on all hosts", "node[01-02]:", "--stage")
        assert apart.alice(["sh", "-c", f"cp {OMPI5} {image}; printf x >>{image}"], node="node02").code == 0
        refusal(apart.alice([*words, "--", HELLO]), 121, "not the same on all hosts", "node01:", "node02:", "bytes")
        check(apart.alice([*words, "--stage", "--", HELLO]), spread=spread)
        again = apart.alice([*words, "--stage", "--mode", "outside-in", "--", HELLO])
        check(again, spread=spread)
        assert "copied" not in again.err, again
        apart.alice(["mkdir", f"{desk.path}/work"])
        missing = apart.alice([*words, "--stage", "--chdir", f"{desk.path}/work", "--", HELLO])
        refusal(missing, 121, "node[01-02]", f"the working directory {desk.path}/work is not there")
        for node in ("login", "node01", "node02"):
            apart.root(node, "rm", "-r", "/var/tmp/mnrun.alice")


def test_hosts_are_no_batch_job(cluster: Cluster) -> None:
    refusal(cluster.alice(["mnrun", "submit", "--hosts", ALL, *INSIDE, "--", HELLO]), 122, "-w node[01-04]")
    refusal(cluster.mnrun("--hosts", ALL, *INSIDE, "--", HELLO, nodes=1), 122, "node01")


@pytest.mark.parametrize(("rsh", "words"), [("paramiko", MPIRUN), ("ssh", INSIDE)], ids=["paramiko", "ssh"])
def test_hosts_are_left_clean_when_mnrun_is_killed(cluster: Cluster, rsh: str, words: list[str]) -> None:
    with under_way(cluster, "--rsh", rsh, *words):
        kill(cluster.mnruns())
        clean_soon(cluster, time.monotonic(), killed=True)


def test_hosts_of_a_run_that_is_cancelled_by_its_name(cluster: Cluster) -> None:
    """There is no scheduler to end it. A signal goes to its program."""
    program = ("sh", "-c", "trap 'echo told >&2' USR1; echo up >&2; while :; do sleep 0.1; done")
    with cluster.running(
        ["mnrun", "--hosts", ALL, "-J", "remote", *INSIDE, "--launcher", "env", "--", *program]
    ) as job:
        job.saying(lambda said: said.err.count("up\n") == 8, "up on all hosts")
        told = json.loads(cluster.alice(["mnrun", "report", "--json", "remote"]).out)["about"]
        assert (told["name"], told["state"]) == ("remote", "RUNNING")
        assert cluster.alice(["mnrun", "cancel", "-s", "USR1", "remote"]).code == 0
        job.saying(lambda said: said.err.count("told\n") == 8, "told on all hosts")
        assert cluster.alice(["mnrun", "cancel", "remote"]).code == 0
        assert job.end().code == 143
    clean_soon(cluster, time.monotonic())


@pytest.mark.skipif(not full(), reason="more than a minute of waiting")
@RSH
def test_hosts_of_a_launcher_that_was_stopped(cluster: Cluster, rsh: str) -> None:
    """B5: Ctrl-Z for more than the half minute after which a silent host is lost: they are not silent, and the job ends
    as it would have."""
    program = ("sh", "-c", "echo up >&2; sleep 75; exit 3")
    with cluster.running(["mnrun", "--hosts", ALL, "--rsh", rsh, *INSIDE, "--", *program]) as job:
        job.saying(lambda said: said.err.count("up\n") == 8, "up on all hosts")
        launcher = cluster.launcher()
        launcher.send(signal.SIGSTOP)
        time.sleep(36)
        launcher.send(signal.SIGCONT)
        result = job.end()
    assert result.code == 3, result
    assert "no answer from it" not in result.err, result


@pytest.mark.parametrize("rsh", some(RSHS, ("ssh",)))
def test_hosts_of_which_one_dies(cluster: Cluster, rsh: str) -> None:
    with under_way(cluster, "--rsh", rsh, *INSIDE) as job, lost(cluster, "kill", "node03"):
        result = job.end()
        # Guards that nobody tells end by themselves, but only after two minutes.
        wait_for(lambda: all(p.node == LOGIN for p in cluster.processes()), "without processes", 60)
    assert result.code == 121, result
    assert "node03" in mine(result)[-1], result


@pytest.mark.skipif(not full(), reason="two minutes")
@RSH
def test_hosts_that_are_sixty_four(variant: Callable[..., Cluster], rsh: str) -> None:
    many = variant(64)
    words = ["mnrun", "--hosts", "node[01-64]", "--rsh", rsh, "--start-timeout", "300", *INSIDE, "--", HELLO]
    check(many.alice(words, seconds=400), *many.nodes, tasks=1)


@pytest.mark.skipif(not full(), reason="half a minute, and much as the one before")
@RSH
def test_hosts_of_which_one_is_cut_off(cluster: Cluster, rsh: str) -> None:
    with under_way(cluster, "--rsh", rsh, *MPIRUN) as job, lost(cluster, "cut", "node03"):
        result = job.end()
        assert [p for p in cluster.processes() if p.node == "node03"], "the test is none: nothing lived on"
    assert result.code == 121, result
    assert "node03" in mine(result)[-1], result
