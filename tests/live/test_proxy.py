"""`mnrun proxy` and `mnrun ssh-config`: ssh, scp, rsync and a tunnel into a running job, with no open port."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from .batch import forget, submit
from .cells import MADE, OMPI5, Way, cells, full
from .reports import errors, only_line
from .stage import LOGIN, Cluster, Desk, Job, Result, wait_for
from .test_ends import SECONDS
from .test_hostile_user import in_home
from .test_startup_files import NASTY

PORT = 8931
# A service on the loopback interface of a node, of which the first rank gets the port, and one on a Unix socket.
SERVICE = f"""
import http.server as server, os, socketserver, threading, time
class Page(server.BaseHTTPRequestHandler):
    address_string = log_message = lambda *_: ""
    def do_GET(self):
        self.wfile.write(b"HTTP/1.0 200 OK\\r\\n\\r\\n" + b"x" * 100000)
for make in (lambda: server.ThreadingHTTPServer(("127.0.0.1", {PORT}), Page),
             lambda: socketserver.ThreadingUnixStreamServer(os.environ["TMPDIR"] + "/page.sock", Page)):
    try:
        threading.Thread(target=make().serve_forever, daemon=True).start()
    except OSError:
        pass
os.write(1, ("up %s %s\\n" % (os.uname().nodename, os.environ["TMPDIR"])).encode())
time.sleep(3600)
"""
SERVE = ("--", "python3", "-c", SERVICE)
ASK = b"GET / HTTP/1.0\r\n\r\n"
WHERE = "uname -n; pwd; id -u; if [ $MNRUN_RANK_PID ]; then echo boxed; fi; exit 7"
RUNTIMES = [
    Way(start, "ompi5", runtime=runtime)
    for runtime, start in cells({"runtime": MADE, "start": ("inside", "mpirun")}, together=1)
]


def by_ssh(cluster: Cluster, desk: Desk) -> Callable[..., Result]:
    """Return a function that runs ssh or scp with the lines of `mnrun ssh-config`."""
    desk.put("config", cluster.alice(["mnrun", "ssh-config"]).out)

    def run(program: str, *words: str, stdin: bytes | None = None) -> Result:
        return cluster.alice([program, "-F", "config", *words], stdin, cwd=desk.path)

    return run


def entered(run: Callable[..., Result], desk: Desk, name: str, node: str, home: str = "~") -> None:
    """ssh enters a job whose name these lines of `mnrun ssh-config` know, and has its words, bytes and code."""
    desk.put("config", run("mnrun", "ssh-config").out.replace("~", home))
    done = run("ssh", "-F", f"{desk.path}/config", name, "uname -n; head -c 100000 /dev/zero | wc -c; exit 7")
    assert (done.code, done.out.split(), errors(done)) == (7, [node, "100000"], ""), done


def enters(cluster: Cluster, desk: Desk, name: str, node: str, cwd: str = "/home/alice") -> None:
    """ssh and scp enter a job by its name, with their bytes and codes. Nobody listens for it."""
    by, before = by_ssh(cluster, desk), listening(cluster, node)
    done = by("ssh", name, WHERE)
    assert (done.code, errors(done)) == (7, ""), done
    assert done.out.split() == [node, cwd, "1500", "boxed"], done
    sent = os.urandom(1_000_000)
    desk.put("sent", sent)
    assert by("ssh", name, "cat", stdin=sent).raw == sent
    for words in (("sent", f"{name}:/tmp/proxied"), (f"{name}:/tmp/proxied", "came")):
        copied = by("scp", "-q", *words)
        assert (copied.code, errors(copied)) == (0, ""), copied
    assert desk.read("came") == sent
    assert by("ssh", name, "rm", "/tmp/proxied").code == 0
    with cluster.running(["ssh", "-F", f"{desk.path}/config", name, "echo begun; exec sleep 7200"]) as there:
        there.saying(lambda said: "begun" in said.out, "begun")
        assert listening(cluster, node) == before


def listening(cluster: Cluster, node: str) -> set[str]:
    """Return the addresses at which a node listens."""
    lines = map(str.split, cluster.root(node, "cat", "/proc/net/tcp", "/proc/net/tcp6").splitlines())
    return {line[1] for line in lines if line[3] == "0A"}


def tunnels(cluster: Cluster, desk: Desk, name: str, socket: str) -> None:
    """A page of the node's loopback interface comes through `ssh -L`, and through plain connections."""
    by_ssh(cluster, desk)
    ask = "import urllib.request; print(len(urllib.request.urlopen('http://localhost:18931/', timeout=30).read()))"
    way = f"18931:localhost:{PORT}"
    tunnel = ["ssh", "-F", f"{desk.path}/config", "-N", "-o", "ExitOnForwardFailure=yes", "-L", way, name]
    with cluster.running(tunnel):
        wait_for(lambda: cluster.alice(["python3", "-c", ask]).out == "100000\n", "a page through ssh -L", SECONDS)
    for place in (("--port", str(PORT)), ("--socket", socket)):
        plain = cluster.alice(["mnrun", "proxy", name, *place], ASK)
        assert (plain.code, errors(plain)) == (0, ""), plain
        assert plain.raw.endswith(b"\r\n\r\n" + b"x" * 100000), plain


def there(cluster: Cluster) -> list[str]:
    """Return the processes of connections on the nodes."""
    words = ("7200", "sshd-session", "sshd: ", "proxy.config")
    return [str(p) for p in cluster.processes() if p.node != LOGIN and any(word in " ".join(p.argv) for word in words)]


def ends_with_its_caller(cluster: Cluster, desk: Desk, name: str) -> None:
    """kill -9 of the proxy, or of ssh, leaves nothing on the node, and the job runs on."""
    by, before = by_ssh(cluster, desk), set(there(cluster))
    for program in ("mnrun", "ssh"):
        with cluster.running(["ssh", "-F", f"{desk.path}/config", name, "echo begun; exec sleep 7200"]) as session:
            session.saying(lambda said: "begun" in said.out, "begun")
            assert set(there(cluster)) - before
            for caller in cluster.processes():
                name_of, line = [Path(word).name for word in caller.argv[:3]], " ".join(caller.argv)
                chosen = (
                    name_of[1:] == ["mnrun", "proxy"] if program == "mnrun" else name_of[0] == "ssh" and "7200" in line
                )
                if caller.node == LOGIN and chosen:
                    caller.send(signal.SIGKILL)
            what = f"without the connection of a {program} that was killed"
            wait_for(lambda: not set(there(cluster)) - before, what, SECONDS, lambda: "\n".join(there(cluster)))
    assert by("ssh", name, "true").code == 0


@contextmanager
def a_policy(cluster: Cluster) -> Iterator[None]:
    """A profile refuses ssh into jobs."""
    profile = 'match.hostname = "*"\npolicy.proxy = "ask hpc-help"\n'
    place = "/home/alice/.config"
    cluster.alice(
        ["sh", "-c", f'mkdir -p {place}/mnrun/profiles; echo "$0" >{place}/mnrun/profiles/here.toml', profile]
    )
    try:
        yield
    finally:
        cluster.root(LOGIN, "rm", "-r", place)


@contextmanager
def up(cluster: Cluster, line: Sequence[str | bytes], ranks: int = 4) -> Iterator[tuple[Job, str]]:
    """Yield a job of two nodes whose service runs, and the path of its Unix socket."""
    with cluster.running(line) as job:
        said = job.saying(lambda said: said.out.count("up ") >= ranks, "up on all ranks")
        yield job, socket_of(said.out, cluster.nodes[0])


def socket_of(said: str, node: str) -> str:
    """Return the path of the service's Unix socket on a node. Ranks of two nodes have other directories."""
    found = re.search(rf"up {node} (\S+)", said)
    assert found, said
    return f"{found[1]}/page.sock"


def test_ssh_enters_a_job_and_goes_with_it(cluster: Cluster, desk: Desk) -> None:
    with up(cluster, cluster.launch("--image", OMPI5, *SERVE, nodes=2)) as (job, socket):
        number = cluster.root(LOGIN, "squeue", "-h", "-o", "%i").strip()
        with in_home(cluster, {".bashrc": NASTY, "readers": ""}):
            enters(cluster, desk, f"mnrun-{number}", cluster.nodes[0])
        tunnels(cluster, desk, "mnrun", socket)
        ends_with_its_caller(cluster, desk, "mnrun")
        second = cluster.alice(["mnrun", "proxy", "--node", cluster.nodes[1], "--port", "9"], b"")
        assert f"nothing answers at 9 of {cluster.nodes[1]}" in only_line(second, 1)
        assert f"job {number} is alice's; " in only_line(cluster.alice(["mnrun", "proxy", number], user="bob"), 123)
        cluster.root(LOGIN, "rm", "-rf", "/home/bob/.mnrun")
        with a_policy(cluster):
            assert "ask hpc-help" in only_line(cluster.alice(["mnrun", "proxy", number]), 122)
        with cluster.running(["ssh", "-F", f"{desk.path}/config", "mnrun", "echo begun; exec sleep 7200"]) as session:
            session.saying(lambda said: "begun" in said.out, "begun")
            cluster.alice(["scancel", number])
            job.end(SECONDS)
            assert session.end(SECONDS).code == 255
        assert cluster.wait_clean(SECONDS, "desk.") == []


@pytest.mark.skipif(not full(), reason="--full proxy")
def test_files_and_shell_of_the_node(cluster: Cluster, desk: Desk) -> None:
    """An image without an sftp-server gives the files of the node, and says so."""
    idle = ("--image", "/images/slim.sif", "--", "sh", "-c", "echo up $(uname -n) /; exec sleep 3600")
    with up(cluster, cluster.launch(*idle, nodes=2, tasks=1), 2):
        by = by_ssh(cluster, desk)
        outside = ("-o", "ProxyCommand=mnrun proxy --outside %n")
        assert by("ssh", *outside, "mnrun", WHERE).out.split() == [cluster.nodes[0], "/home/alice", "1500"]
        desk.put("sent", "some\n")
        for words in ((), outside):
            copied = by("scp", "-q", *words, "sent", f"mnrun:{desk.path}/came")
            assert copied.code == 0, copied
            assert ("the image has no sftp-server" in errors(copied)) == (words == ()), copied
            assert desk.read("came") == b"some\n"
        rsync = ["rsync", "-e", f"ssh -F config {outside[0]} '{outside[1]}'", "sent", f"mnrun:{desk.path}/synced"]
        done = cluster.alice(rsync, cwd=desk.path)
        assert (done.code, desk.read("synced")) == (0, b"some\n"), done


@pytest.mark.skipif(not full(), reason="--full proxy")
def test_ssh_enters_a_job_on_hosts(cluster: Cluster, desk: Desk) -> None:
    line = ["mnrun", "--hosts", ",".join(f"{node}:2" for node in cluster.nodes[:2]), "--image", OMPI5, *SERVE]
    with up(cluster, line) as (_, socket):
        enters(cluster, desk, "mnrun", cluster.nodes[0])
        tunnels(cluster, desk, "mnrun", socket)
        ends_with_its_caller(cluster, desk, "mnrun")


@pytest.mark.xdist_group("grid-engine")
def test_ssh_enters_a_job_of_grid_engine(grid: Cluster) -> None:
    """Grid Engine deletes a job if one of its clients is killed, but not by a kill of mnrun or ssh."""
    with grid.desk() as desk:
        # It takes as many clients into a node as the job has slots there, and counts an ended one for a moment.
        words = ("-N", "2", "--ntasks-per-node", "2", "-c", "2", "-t", "5", "--image", OMPI5)
        job = submit(grid, desk, *words, *SERVE)
        wait_for(lambda: grid.alice(["mnrun", "logs", job]).out.count("up ") == 4, "up")
        node = grid.alice(["mnrun", "exec", job, "--", "uname", "-n"]).out.strip()
        socket = socket_of(grid.alice(["mnrun", "logs", job]).out, node)
        enters(grid, desk, f"mnrun-{job}", node, desk.path)
        tunnels(grid, desk, f"mnrun-{job}", socket)
        ends_with_its_caller(grid, desk, f"mnrun-{job}")
        assert f"job {job} is alice's; " in only_line(grid.alice(["mnrun", "proxy", job], user="bob"), 123)
        assert grid.alice(["mnrun", "cancel", job]).code == 0
        assert grid.alice(["mnrun", "wait", job]).code == 143
        wait_for(lambda: not there(grid), "without a connection")
        forget(grid)


@pytest.mark.skipif(not full(), reason="--full proxy")
@pytest.mark.parametrize("way", RUNTIMES, ids=str)
def test_ssh_enters_the_container_of_each_runtime(engines: Cluster, way: Way) -> None:
    with engines.desk() as desk, up(engines, engines.launch(*way.words, *SERVE, nodes=2)) as (_, socket):
        enters(engines, desk, "mnrun", engines.nodes[0])
        tunnels(engines, desk, "mnrun", socket)
