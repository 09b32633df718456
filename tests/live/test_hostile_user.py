"""A user whose own files and habits are hostile: it runs all the same, and keys stay private."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from .cells import HELLO, INSIDE, MAIN, MPIRUN, OMPI4, OMPI5, SSH, WAYS, Way, one, turn
from .reports import check, everybody_spoke, refusal
from .stage import LOGIN, Cluster, Desk, below

NOISE = "echo 'hello from a startup file'; echo noise >&2; export PATH=/nowhere; unset LD_LIBRARY_PATH; cd /\n"
SSH_CONFIG = "Host *\n  Port 1\n  User nobody\n  ProxyCommand /bin/false\n  IdentityFile /nowhere\n  BatchMode no\n"


@contextmanager
def in_home(cluster: Cluster, files: dict[str, str], mode: int = 0o644) -> Iterator[None]:
    before: dict[str, bytes | None] = {}
    for name, text in files.items():
        place = cluster.path(f"/home/alice/{name}")
        before[name] = place.read_bytes() if place.exists() else None
        cluster.put(f"/home/alice/{name}", text, mode)
    try:
        yield
    finally:
        for name, content in before.items():
            if content is None:
                cluster.path(f"/home/alice/{name}").unlink()
            else:
                cluster.put(f"/home/alice/{name}", content, 0o600)


@contextmanager
def login_shell(cluster: Cluster, shell: str) -> Iterator[None]:
    nodes = (LOGIN, *cluster.nodes)
    try:
        for node in nodes:
            cluster.root(node, "usermod", "--shell", shell, "alice")
        yield
    finally:
        for node in nodes:
            cluster.root(node, "usermod", "--shell", "/bin/bash", "alice")


@contextmanager
def named(cluster: Cluster, name: str) -> Iterator[None]:
    def rename(old: str, new: str) -> None:
        for node in (LOGIN, *cluster.nodes):
            files = ("/etc/passwd", "/etc/shadow", "/etc/subuid", "/etc/subgid")
            cluster.root(node, "sed", "-i", f"s/^{re.escape(old)}:/{new}:/", *files)

    rename("alice", name)
    try:
        yield
    finally:
        rename(name, "alice")


EACH = turn(1, WAYS, [SSH, Way("inside", "host")], MAIN)


@pytest.mark.parametrize("name", ["alice@ad.example.com", "first last"])
def test_hostile_name(cluster: Cluster, name: str) -> None:
    """B6: sshd and ssh read an @ and a blank in their own ways; in containers, on hosts, and for a rank's own ids."""
    with named(cluster, name):
        for way in (Way("inside", "ompi5", connect="ssh"), Way("inside", "host", connect="ssh")):
            check(cluster.mnrun(*way.words, "--", HELLO, nodes=2), *cluster.nodes[:2])
        for rsh, way in (("paramiko", MPIRUN), ("ssh", INSIDE)):
            words = ["mnrun", "--hosts", "node[01-02]:2", "--rsh", rsh, "--connect", "ssh", *way.words, "--", HELLO]
            check(cluster.alice(words), *cluster.nodes[:2])
        assert cluster.mnrun(*INSIDE.words, "--", "id", "-un", nodes=2, tasks=1).out == f"{name}\n" * 2


# Without a container it is the user's own shell that sshd starts.
BOXED = tuple(way for way in EACH if way.image != "host")


@pytest.mark.parametrize("way", BOXED, ids=str)
def test_hostile_everything(cluster: Cluster, way: Way) -> None:
    """A login shell that no image has, startup files that print and reset PATH, an ~/.ssh/config that leads nowhere."""
    startup = dict.fromkeys((".bashrc", ".profile", ".bash_profile", ".zshrc", ".zshenv", ".bash_login"), NOISE)
    with ExitStack() as stack:
        stack.enter_context(login_shell(cluster, "/usr/bin/zsh"))
        stack.enter_context(in_home(cluster, startup))
        stack.enter_context(in_home(cluster, {".ssh/config": SSH_CONFIG, ".ssh/known_hosts": "garbage\n"}, 0o666))
        result = cluster.mnrun(*way.words, "--", HELLO, env={"SHELL": "/usr/bin/zsh"}, nodes=2)
        check(result, *cluster.nodes[:2])
        assert "noise" not in result.err, result


@pytest.mark.parametrize("way", EACH, ids=str)
def test_hostile_variables(cluster: Cluster, desk: Desk, way: Way) -> None:
    """Variables that change what shells, ssh, Python, Slurm and temporary files do. (W5, W6)"""
    env = {
        "BASH_ENV": desk.put("startup", NOISE),
        "ENV": f"{desk.path}/startup",
        "TMPDIR": "/no/such/directory",
        "CDPATH": "/:/tmp:/home",
        "GREP_OPTIONS": "--color=always",
        "IFS": "mnrun/",
        "POSIXLY_CORRECT": "1",
        "LC_ALL": "xx_YY.nothing",
        "PS4": "$(touch /tmp/pwned)",
        "SHELLOPTS": "xtrace",
        "BASH_FUNC_cd%%": "() { echo hijacked; }",
        "SSH_AUTH_SOCK": "/no/such/socket",
        "PYTHONPATH": desk.path,
        "TMOUT": "2",
        "PYTHONSTARTUP": f"{desk.path}/startup",
        "PYTHONWARNINGS": "error",
        "PYTHONDEVMODE": "1",
        "PYTHONINSPECT": "1",
        "SLURM_DEBUG": "3",
    }
    desk.put("click.py", "raise SystemExit('hijacked')\n")
    result = cluster.mnrun(*way.words, "--", HELLO, "-s", "4", env=env, nodes=2)
    check(result, *cluster.nodes[:2])
    assert not cluster.path("/tmp/pwned", "node01").exists()
    assert not {"hijacked", "Warning"} & {*re.findall(r"hijacked|Warning", result.err)}, result


@pytest.mark.parametrize("mask", ["0000", "0077"])
@pytest.mark.parametrize("way", one(1, MAIN), ids=str)
def test_hostile_umask(cluster: Cluster, way: Way, mask: str) -> None:
    words = [str(word) for word in cluster.launch(*way.words, "--", HELLO, "-s", "3600")]
    with cluster.running(["sh", "-c", f'umask {mask}; exec "$@"', "sh", *words]) as job:
        job.saying(everybody_spoke(8), "running")
        seen = 0
        for node in cluster.nodes:
            for top in (*cluster.path("/tmp", node).glob("mnrun.*"), *cluster.path("/dev/shm", node).glob("mnrun.*")):
                for path in (top, *below(top)):
                    if path.is_symlink():
                        continue
                    with suppress(FileNotFoundError):  # the job goes on
                        mode = path.lstat().st_mode
                        above = [folder.lstat().st_mode for folder in path.parents if top in (folder, *folder.parents)]
                        private = mode & 0o077 == 0 or any(folder & 0o077 == 0 for folder in above)
                        assert private, f"{node}: {path} has mode {stat.filemode(mode)}"
                        if path.is_file() and b"PRIVATE KEY" in path.read_bytes():
                            assert mode & 0o7777 == 0o600, path
                            seen += 1
        assert seen == (8 if way.start == "inside" else 0)  # the user's and the host's, on each node
        (records,) = cluster.path("/home/alice/.mnrun/jobs").iterdir()
        assert records.stat().st_mode & 0o777 == 0o700
        for path in below(records):
            with suppress(FileNotFoundError):
                assert path.stat().st_mode & 0o077 == 0, path


def test_hostile_home_is_not_touched(cluster: Cluster) -> None:
    """~/.ssh is as it was: no key is added, no host is remembered."""

    def state() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in cluster.path("/home/alice/.ssh").iterdir()}

    before = state()
    check(cluster.mnrun(*INSIDE.words, "--", HELLO), *cluster.nodes)
    assert state() == before


@pytest.mark.parametrize("image", one(0, [OMPI5, OMPI4]))
def test_hostile_home_is_not_needed(cluster: Cluster, image: str) -> None:
    for mode in ("inside-out", "outside-in"):
        words = ["--mode", mode, "--image", image, "--no-home", "--chdir", "/tmp"]
        words += ["--force"] if mode == "outside-in" else []
        check(cluster.mnrun(*words, "--", HELLO, nodes=2), *cluster.nodes[:2])
        result = cluster.mnrun(*words, "--", "sh", "-c", "ls -A /home/alice 2>/dev/null; echo; pwd", nodes=1, tasks=1)
        assert (result.code, result.out) == (0, "\n/tmp\n"), result


def test_hostile_cache_of_somebody_else(cluster: Cluster) -> None:
    cluster.root("node01", "install", "-d", "-m", "777", "-o", "bob", "/var/tmp/mnrun.alice")
    try:
        result = cluster.alice(["mnrun", "--hosts", "node01,node02", "--stage", "--image", OMPI5, "--", HELLO])
    finally:
        for node in cluster.nodes[:2]:
            cluster.root(node, "rm", "-rf", "/var/tmp/mnrun.alice")
    refusal(result, 121, "1 of 2 hosts", "node01: /var/tmp/mnrun.alice/images is not", "mode 0700")


def test_hostile_stdin_closed(cluster: Cluster) -> None:
    """Standard input closed, as cron and some daemons leave it."""
    for way in one(1, MAIN):
        words = [str(word) for word in cluster.launch(*way.words, "--", HELLO, nodes=2)]
        check(cluster.alice(["sh", "-c", 'exec "$@" <&-', "sh", *words]), *cluster.nodes[:2])


def test_hostile_signals_ignored(cluster: Cluster) -> None:
    """Started with nohup, or with SIGINT ignored as a shell does for `&`."""
    words = [str(word) for word in cluster.launch(*INSIDE.words, "--", HELLO)]
    check(cluster.alice(["sh", "-c", 'trap "" HUP INT; "$@"', "sh", *words]), *cluster.nodes)


@pytest.mark.parametrize("way", one(0, MAIN), ids=str)
def test_hostile_umask_of_the_program(cluster: Cluster, way: Way) -> None:
    for mask in ("0002", "0027"):
        words = [str(word) for word in cluster.launch(*way.words, "--", "sh", "-c", "umask")]
        result = cluster.alice(["sh", "-c", f'umask {mask}; exec "$@"', "sh", *words])
        assert result.code == 0, result
        assert result.out.splitlines() == [mask] * 8, result


@pytest.mark.parametrize("image", one(1, [OMPI5, OMPI4]))
def test_hostile_files_and_ssh_within(cluster: Cluster, image: str) -> None:
    """`ssh NODE COMMAND` of the user's own, in the container: no startup file prints into it or leads it astray."""
    with login_shell(cluster, "/usr/bin/zsh"), in_home(cluster, {".bashrc": NOISE, ".profile": NOISE}):
        line = ["--image", image, "--script", "/bin/sh", "--", "-c", "ssh node02 'uname -n; pwd; command -v mpirun'"]
        result = cluster.mnrun(*line, nodes=2, tasks=1)
    assert result.code == 0, result
    host, where, mpirun = result.out.splitlines()
    assert (host, where) == ("node02", "/home/alice"), result
    assert mpirun.endswith("/bin/mpirun"), result
