"""Every container runtime in both modes: docker, podman, Charliecloud, and Apptainer under its older name."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from published import checked

from .cells import ENGINES, HELLO, MADE, Way, cells, full, one, some
from .reports import check, only_line, ranks, refusal, shown
from .stage import LOGIN, TOP, Cluster, Desk, wait_for
from .test_ends import FOREVER, SECONDS, act, clean_soon, start

CELLS = cells(
    {
        "runtime": (*MADE, "singularity"),
        "start": ("inside", "mpirun", "srun"),
        "image": ("ompi5", "ompi4", "mpich") if full() else ("ompi5",),
    },
    lambda runtime, start, image: (
        (runtime != "singularity" or start == "inside" or full())
        and (image != "mpich" or runtime in ("podman", "charliecloud"))
    ),  # an open file, by which MPICH's starters speak, is what these two have to hand on
    together=1,  # test_matrix.py has the rest
)
BATCH = one(3, tuple(itertools.product(ENGINES, ("inside", "mpirun", "srun"))))
ENDS = cells(
    {
        "runtime": MADE,
        "start": ("inside", "mpirun", "srun"),
        "how": ("SIGKILL", "kill srun", "SIGTERM"),
    },
    always=[("docker", "mpirun", "kill srun"), ("podman", "inside", "kill srun")],
    together=1,  # test_matrix.py kills mnrun in all of them
)
# In place of an image's Open MPI: its mpirun cannot be executed, and the node's Hydra is there.
MPICH_ALONE = (
    "-B",
    "/etc/hostname:/usr/bin/mpirun.openmpi",
    "-B",
    "/usr/bin/mpiexec.hydra:/opt/mpich/bin/mpiexec.hydra",
)


@pytest.mark.parametrize("way", [Way(start, image, runtime=runtime) for runtime, start, image in CELLS], ids=str)
def test_runtime_starts_every_rank_as_it_should(engines: Cluster, desk: Desk, way: Way) -> None:
    value, given = "a 'b' $c\n\"d\",;*=é", bytes(range(256)) * 1000
    show = desk.program("show.py")
    both = f'"$0" {desk.path} "$1" >&2 && exec {HELLO} -x 7'
    words = [*way.words, "-x", "V=" + value, "--", "sh", "-c", both, show, "x y"]
    result = engines.mnrun(*words, cwd=desk.path, stdin=given, env={"LD_PRELOAD": "/nowhere.so"})
    assert result.code == 7, result
    assert [(rank.rank, rank.size, rank.total) for rank in ranks(result)] == [(r, 8, 36) for r in range(8)], result
    found = shown(desk, 8)
    assert sorted(report["host"] for report in found) == sorted(engines.nodes * 2)
    for report in found:
        env = {bytes.fromhex(name): bytes.fromhex(text) for name, text in report["env"].items()}
        assert env[b"V"] == value.encode()
        assert (env[b"HOME"], report["cwd"], report["uid"]) == (b"/home/alice", desk.path, 1500)
        assert report["no_new_privs"]  # S4
        assert desk.path.rpartition("/")[2] in report["home"]
        assert b"LD_PRELOAD" not in env
        assert env.get(b"IMAGE_SAYS", b"none") == (way.image.encode() if way.runtime in ENGINES else b"none")
    assert found[0]["stdin"] == [len(given), hashlib.sha256(given).hexdigest()]
    assert {report["stdin"][0] for report in found[1:]} == {0}


@pytest.mark.parametrize(("runtime", "begun", "how"), ENDS)
def test_runtime_ends_with_its_job(engines: Cluster, runtime: str, begun: str, how: str) -> None:
    """Whoever is killed: no process, no container, no volume (L1) and no file of the job stays on a node."""
    way = Way(begun, "ompi5", runtime=runtime)
    volume = ["--container-args=--volume=/anonymous"] if runtime in ENGINES else []
    with engines.running(engines.launch(*way.words, *volume, "--", *FOREVER)) as job:
        start(engines, job)
        if runtime in ENGINES:
            assert len(engines.containers()) >= 4
        begin = time.monotonic()
        act(engines, how, job)
        job.end(SECONDS)
        clean_soon(engines, begin, killed=how == "SIGKILL")
    if runtime in ENGINES:
        assert engines.containers() == []


@pytest.mark.parametrize(("runtime", "begun"), BATCH)
def test_runtime_in_a_batch_script(engines: Cluster, desk: Desk, runtime: str, begun: str) -> None:
    way = Way(begun, "ompi5", runtime=runtime)
    shape = ["-N", "4", "--ntasks-per-node", "2", "-w", ",".join(engines.nodes)]
    handed = engines.alice(["mnrun", "submit", "-o", "out", *shape, *way.words, "--", HELLO, "-x", "3"], cwd=desk.path)
    assert handed.code == 0, handed
    outcome = engines.path(f"/home/alice/.mnrun/jobs/{handed.out.strip()}/0/outcome")
    wait_for(outcome.exists, "ended", state=lambda: str(desk.names()))
    assert json.loads(outcome.read_text())["code"] == 3, desk.read("out")
    said = [line for line in desk.read("out").decode().splitlines() if line.startswith("rank ")]
    assert sorted(line.split()[5] for line in said) == sorted(engines.nodes * 2), said
    engines.root(LOGIN, "rm", "-rf", "/home/alice/.mnrun/stage", "/home/alice/.mnrun/jobs")
    assert engines.containers() == []


@pytest.mark.parametrize("runtime", some(ENGINES, ["docker"]))
def test_runtime_with_a_shell_and_with_labels(engines: Cluster, runtime: str) -> None:
    """Commands on a pipe to `mnrun shell`, whose mpirun reaches all nodes; srun's ranks, each by its number."""
    image = ["--runtime", runtime, "--image", "localhost/ompi5"]
    typed = engines.mnrun("shell", *image, nodes=2, stdin=f"mpirun {HELLO}; exit 4".encode())
    assert typed.code == 4, typed
    assert sorted(rank.host for rank in ranks(typed)) == sorted([*engines.nodes[:2]] * 2), typed
    words = [*Way("srun", "ompi5", runtime=runtime).words, "-l", "--", "sh", "-c", "echo out; echo err >&2"]
    labelled = engines.mnrun(*words, nodes=2)
    assert (labelled.code, sorted(labelled.out.splitlines())) == (0, [f"{n}: out" for n in range(4)]), labelled
    assert {f"{n}: err" for n in range(4)} <= set(labelled.err.splitlines()), labelled


@pytest.mark.parametrize("begun", some(("inside", "mpirun", "srun"), ["srun"]))
def test_runtime_charliecloud_with_a_squashfs_file(engines: Cluster, desk: Desk, begun: str) -> None:
    image = f"{desk.path}/ompi5.sqfs"
    engines.root(LOGIN, "mksquashfs", "/images/ompi5", image, "-quiet", "-no-progress", "-comp", "lz4")
    result = engines.mnrun(*Way(begun, "ompi5", runtime="charliecloud").words[:-1], image, "--", HELLO, nodes=2)
    check(result, *engines.nodes[:2])


def test_runtime_docker_hangs(engines: Cluster) -> None:
    """A dockerd that does not answer holds nobody up: it is named, and the job's processes end without it."""
    with engines.running(engines.launch(*Way("inside", "ompi5", runtime="docker").words, "--", *FOREVER)) as job:
        start(engines, job)
        engines.root("node02", "pkill", "-STOP", "-x", "dockerd")
        try:
            act(engines, "SIGTERM", job)
            result = job.end(SECONDS)
        finally:
            engines.root("node02", "pkill", "-CONT", "-x", "dockerd")
    assert "on node02" in result.err, result
    assert "docker does not answer" in result.err, result
    wait_for(lambda: engines.containers() == [], "free of containers")


@contextmanager
def changed(cluster: Cluster, node: str, do: str, undo: str) -> Iterator[None]:
    cluster.root(node, "sh", "-c", do)
    try:
        yield
    finally:
        cluster.root(node, "sh", "-c", undo)


REFUSED = {
    "dockerd off": (
        "docker",
        "mv /run/docker.sock /run/away",
        "mv /run/away /run/docker.sock",
        "dockerd is not running",
    ),
    "no podman": (
        "podman",
        "mv /usr/bin/podman /usr/bin/away",
        "mv /usr/bin/away /usr/bin/podman",
        "podman is not installed",
    ),
    "no subuid": (
        "podman",
        "mv /etc/subuid /etc/away",
        "mv /etc/away /etc/subuid",
        "alice has no subordinate ids here",
    ),
    "no image": (
        "docker",
        "docker tag localhost/ompi5 localhost/kept && docker rmi localhost/ompi5",
        "docker tag localhost/kept localhost/ompi5 && docker rmi localhost/kept",
        "docker has no image localhost/ompi5 on this node",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_runtime_is_not_ready_on_a_node(engines: Cluster, why: str) -> None:
    runtime, do, undo, said = REFUSED[why]
    with changed(engines, "node02", do, undo):
        words = Way("inside", "ompi5", runtime=runtime).words
        result = engines.mnrun(*words, "--", HELLO, nodes=2)
    assert result.code == 121, result
    assert f"1 of 2 nodes not ready: node02: {said}" in result.err.splitlines()[-1], result


def test_runtime_docker_for_who_may_not(engines: Cluster) -> None:
    """bob is not in docker's group: all nodes say so, in one line."""
    words = Way("inside", "ompi5", runtime="docker").words
    result = engines.mnrun(*words, "--", HELLO, nodes=2, user="bob")
    assert result.code == 121, result
    last = result.err.splitlines()[-1]
    assert "2 of 2 nodes not ready: node[01-02]: bob may not use docker here" in last, result
    assert "--runtime podman" in last, result


ROOTLESS = """\
export XDG_RUNTIME_DIR=/tmp/rootless HOME=/tmp/rootless PATH=/usr/sbin:$PATH
mkdir -m 700 $HOME
exec sh /usr/share/docker.io/contrib/dockerd-rootless.sh --iptables=false --ip6tables=false --bridge=none \
  --storage-driver=vfs
"""


def test_runtime_docker_without_root(engines: Cluster) -> None:
    """A dockerd of alice's own on node02, whose network is not the node's: refused with the reason."""
    socket = "unix:///tmp/rootless/docker.sock"
    tap = "mkdir -p /dev/net && mknod -m 666 /dev/net/tun c 10 200"
    with (
        changed(engines, "node02", tap, "rm -rf /dev/net /tmp/rootless"),
        engines.running(["bash", "-c", ROOTLESS], node="node02") as daemon,
    ):
        asking = ["docker", "--host", socket, "info", "--format", "{{.SecurityOptions}}"]
        wait_for(
            lambda: "rootless" in engines.alice(asking, node="node02").out, "up", state=lambda: str(daemon.so_far())
        )
        words = [*Way("inside", "ompi5", runtime="docker").words, "--", HELLO]
        result = engines.mnrun(*words, nodes=1, salloc=["-w", "node02"], env={"DOCKER_HOST": socket})
        engines.root("node02", "sh", "-c", "kill $(cat /tmp/rootless/dockerd-rootless/child_pid)")
        daemon.end()
    refusal(
        result,
        121,
        "node02: docker 26.1 is rootless here, and uses the node's network only from 29.5 on",
        "--runtime podman",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--runtime", "docker", "--image", "localhost/ompi5", "--mpi", "pmi2"],
            "the image has Open MPI, which needs pmix",
        ),
        (["--runtime", "docker", "--image", "localhost/not-there", "--mpi", "pmi2"], "--mpi pmix"),
        (["--runtime", "docker", "--image", "localhost/ompi5", "--container-per", "node"], "--container-per rank"),
        (["--runtime", "docker", "--image", "localhost/ompi5", *MPICH_ALONE], "MPICH uses an open file"),
        (["--image", "/images/ompi5.sif", "--privileged"], "the runtime is apptainer"),
        (["--runtime", "charliecloud", "--image", "/images/ompi5", "-B", "/tmp:/in:ro"], "read-only"),
    ],
)
def test_runtime_refuses_what_cannot_work(engines: Cluster, words: list[str], said: str) -> None:
    only_line(engines.mnrun("--mode", "outside-in", *words, "--", HELLO, nodes=1), 122, said)


def test_runtime_hardened(engines: Cluster) -> None:
    look = "grep -hE '^(CapBnd|NoNewPrivs)' /proc/self/status >&2; exec " + HELLO
    for runtime in ENGINES:
        words = [*Way("inside", "ompi5", runtime=runtime).words, "--hardened", "--", "sh", "-c", look]
        result = engines.mnrun(*words, nodes=2)
        check(result, *engines.nodes[:2])
        assert result.err.count("CapBnd:\t0000000000000000") == 4, result
        assert result.err.count("NoNewPrivs:\t1") == 4, result


# A setuid file as an image may have it, and an image whose sh does not answer root.
EVIL = """
cp /usr/bin/bash /usr/local/bin/helper && chmod 4755 /usr/local/bin/helper
cat >/tmp/Dockerfile <<'END'
FROM localhost/ompi5
RUN cp /bin/bash /bin/first && printf '#!/bin/first\\n[ $UID != 0 ] && exec /bin/first "$@"' >/bin/sh.new
RUN chmod 755 /bin/sh.new
RUN ["mv", "/bin/sh.new", "/bin/sh"]
VOLUME /data
END
docker build -q --network=none -t localhost/evil - </tmp/Dockerfile; rm /tmp/Dockerfile
"""
SEEK = "helper -p -c 'id -u; : >$HOME/owned; chown 0:0 $HOME/owned 2>/dev/null' || true; stat -c %u ~/owned; rm ~/owned"


def test_runtime_docker_gives_no_image_the_nodes_root(engines: Cluster) -> None:
    """S4: a setuid file of the image stays the user's, inside-out and in a rank's own container, and so does the
    container that is asked about its MPI."""
    with changed(engines, "node01", EVIL, "rm /usr/local/bin/helper; docker rmi localhost/evil"):
        for begun in ("inside", "srun"):
            words = [*Way(begun, "ompi5", runtime="docker").words, "-B", "/usr/local/bin/helper"]
            result = engines.mnrun(*words, "--", "sh", "-c", SEEK, nodes=1, tasks=1)
            assert (result.code, result.out.split()) == (0, ["1500", "1500"]), result
            assert engines.containers() == []  # L1
        asked = engines.alice(["mnrun", "image", "inspect", "--runtime", "docker", "localhost/evil"], node="node01")
    assert (asked.code, "Open MPI" in asked.out) == (0, True), asked


@pytest.mark.parametrize("runtime", ENGINES)
def test_runtime_tells_of_its_store(engines: Cluster, runtime: str) -> None:
    """The size and the digest of an image."""
    words = ["mnrun", "image", "inspect", "--json", "--runtime", runtime, "localhost/ompi5"]
    found = checked("image inspect", engines.alice(words, node="node01").out)
    engines.root(LOGIN, "rm", "-rf", "/home/alice/.config")  # podman makes it
    assert found["size"] > 50e6 and re.fullmatch("sha256:[0-9a-f]{64}", found["digest"]), found


CDI = """\
cdiVersion: "0.5.0"
kind: nvidia.com/gpu
devices:
- {name: "0", containerEdits: {env: [ONE=by number], deviceNodes: [{path: /dev/nvidia0}]}}
- {name: GPU-11, containerEdits: {env: [TWO=by UUID], deviceNodes: [{path: /dev/nvidia1}]}}
"""
SMI = """\
#!/bin/sh
[ "$1" = -q ] || exec printf '%s\\n' GPU-00 GPU-11 GPU-22 GPU-33
printf '    GPU UUID       : GPU-00\\n    Minor Number   : 0\\n'
"""
DRIVER = (
    "mount -t tmpfs none /proc/driver && mkdir -p /etc/cdi /proc/driver/nvidia && touch /proc/driver/nvidia/version"
)


def test_runtime_podman_gives_the_granted_gpus(engines: Cluster) -> None:
    with changed(engines, "node01", DRIVER, "umount /proc/driver; rm -rf /etc/cdi /usr/local/bin/nvidia-smi"):
        engines.put("/etc/cdi/nvidia.yaml", CDI, node="node01")
        engines.put("/usr/local/bin/nvidia-smi", SMI, 0o755, node="node01")
        look = "echo $ONE, $TWO, $CUDA_VISIBLE_DEVICES; ls /dev/nvidia*"
        words = [*Way("srun", "ompi5", runtime="podman").words, "--", "sh", "-c", look]
        result = engines.mnrun(*words, nodes=1, tasks=1, salloc=["-w", "node01", "--gpus-per-node=2"])
    assert result.out.splitlines() == ["by number, by UUID, 0,1", "/dev/nvidia0", "/dev/nvidia1"], result


def test_runtime_epilog(engines: Cluster) -> None:
    """The epilog of examples/ takes the containers of its job away, with their volumes (L1), and those of no other."""
    run = "docker run -d --volume=/anonymous --network=host --entrypoint sleep --label mnrun.job={} localhost/ompi5 600"
    engines.root("node01", "sh", "-c", " && ".join(run.format(label) for label in ("998-ab", "999-ab", "999")))
    epilog = (TOP / "examples/epilog/epilog.sh").read_text()
    engines.root("node01", "env", "SLURM_JOB_ID=999", "SLURM_JOB_UID=1500", "bash", "-c", epilog)
    left = engines.root("node01", "docker", "ps", "-a", "--format", '{{.Label "mnrun.job"}}')
    volumes = engines.root("node01", "docker", "volume", "ls", "-q")
    engines.root("node01", "sh", "-c", "docker rm -fv $(docker ps -aq)")
    assert len(volumes.split()) == 1
    assert left.split() == ["998-ab"]
