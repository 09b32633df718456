"""What a container shows of the nodes' files: the home, the working directory behind a link, relative paths."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .cells import MADE, OMPI5, Way, cells, one
from .stage import LOGIN, Cluster, Desk

RUNTIMES = ("", *MADE, "singularity")
WAYS = [
    Way(start, "ompi5", runtime=runtime)
    for runtime, start in cells({"runtime": RUNTIMES, "start": ("inside", "mpirun", "srun")}, together=1)
]
ELSEWHERE = "/elsewhere/alice"


@pytest.fixture
def beyond(engines: Cluster, desk: Desk) -> Iterator[str]:
    for node in (LOGIN, *engines.nodes):
        engines.root(node, "sh", "-c", f"mkdir -p {ELSEWHERE}/run && chown -R alice: {ELSEWHERE}")
    assert engines.alice(["ln", "-s", ELSEWHERE, f"{desk.path}/scratch"]).code == 0
    yield f"{desk.path}/scratch/run"
    for node in (LOGIN, *engines.nodes):
        engines.root(node, "rm", "-rf", "/elsewhere")


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_working_directory_behind_a_link(engines: Cluster, beyond: str, way: Way) -> None:
    """F2: it starts there, and PWD has the path that was typed."""
    line = engines.launch(*way.words, "--", "sh", "-c", 'echo "$PWD $(pwd -P)"', nodes=1, tasks=1)
    result = engines.alice(["sh", "-c", 'cd "$0" && exec "$@"', beyond, *line])  # as in a shell, with PWD
    assert (result.code, result.out) == (0, f"{beyond} {ELSEWHERE}/run\n"), result


def test_a_script_and_outputs_behind_a_link(engines: Cluster, beyond: str) -> None:
    """F2: --script, --split-output and -D lead out of the home, too."""
    engines.put(f"{ELSEWHERE}/run/job.sh", "#!/bin/sh\npwd\n", 0o755, node=engines.nodes[0])
    image = ["--image", OMPI5]
    script = engines.mnrun(*image, "--script", f"{beyond}/job.sh", nodes=1, tasks=1, cwd="/home/alice")
    assert (script.code, script.out) == (0, "/home/alice\n"), script
    split = engines.mnrun(*image, "-D", beyond, "--split-output", f"{beyond}/out", "--", "pwd", nodes=1, tasks=1)
    assert split.code == 0, split
    assert engines.path(f"{ELSEWHERE}/run/out/rank.0.out", engines.nodes[0]).read_text() == f"{ELSEWHERE}/run\n"


# Words that bring the directory data to /mnt and the variable GIVEN, in the terms of each runtime.
RELATIVE = {
    "": "--env-file vars.env --bind data:/mnt",
    "singularity": "--env-file vars.env -B data:/mnt",
    "docker": "--env-file vars.env -v ./data:/mnt",
    "podman": "--env-file=vars.env --mount type=bind,src=data,dst=/mnt",
    "charliecloud": "-b data:/mnt --set-env=vars.env",
}


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_relative_paths_of_the_runtimes_options(engines: Cluster, desk: Desk, way: Way) -> None:
    """F8: they begin where mnrun was typed, wherever the program begins."""
    desk.put("vars.env", "GIVEN=yes\n")
    assert engines.alice(["mkdir", "data"], cwd=desk.path).code == 0
    desk.put("data/file", "found\n")
    words = [*way.words, "-D", "/home/alice", "--container-args", RELATIVE[way.runtime]]
    look = ["--", "sh", "-c", 'echo "$GIVEN $PWD"; cat /mnt/file']
    result = engines.mnrun(*words, *look, nodes=1, tasks=1, cwd=desk.path)
    assert (result.code, result.out) == (0, "yes /home/alice\nfound\n"), result


def test_relative_paths_where_a_node_lacks_the_directory(engines: Cluster) -> None:
    """F8: no engine makes an empty directory for them. Apptainer's variable is read where mnrun was typed, too."""
    with engines.desk() as home, engines.desk(under="/tmp") as away:
        docker = [*Way("inside", "ompi5", runtime="docker").words, "-D", home.path]
        words = [*docker, "--container-args", "-v ./data:/mnt", "--", "touch", f"{home.path}/ran"]
        result = engines.mnrun(*words, nodes=1, tasks=1, cwd=away.path)
        assert (result.code, home.names()) == (121, []), result
        home.put("file", "found\n")
        bound = engines.mnrun(
            *("--image", OMPI5, "--", "cat", "/mnt/file"),
            nodes=1,
            tasks=1,
            cwd=home.path,
            env={"APPTAINER_BIND": ".:/mnt"},
        )
        assert (bound.code, bound.out) == (0, "found\n"), bound


CONF = "/etc/apptainer/apptainer.conf"
NONE = (
    "s/^mount home = yes/mount home = no/; s/^mount dev = yes/mount dev = minimal/; s/^mount tmp = yes/mount tmp = no/"
)
AS_ROOT = [f"{mpi}_ALLOW_RUN_AS_ROOT{sure}" for mpi in ("OMPI", "PRTE") for sure in ("", "_CONFIRM")]
WITHOUT: dict[str, tuple[list[str], dict[str, str]]] = {
    "site": ([], {}),
    "NO_HOME": ([], {"APPTAINER_NO_HOME": "1"}),
    "CONTAIN": ([], {"APPTAINER_CONTAIN": "1"}),
    # Open MPI starts as root only where it is told so, twice.
    "fakeroot": (["--container-args=--fakeroot", *(f"--env={name}=1" for name in AS_ROOT)], {}),
    "contain": (["--container-args=--contain"], {}),  # outside-in, mnrun would refuse it
}
ALL = [(without, start) for without in WITHOUT for start in ("inside", "mpirun", "srun")]


@pytest.mark.parametrize(
    ("without", "start"),
    [*cells({"without": tuple(WITHOUT), "start": ("inside", "mpirun", "srun")}, together=1), one(0, ALL)[0]],
)
def test_without_the_mounts_of_apptainer(cluster: Cluster, desk: Desk, without: str, start: str) -> None:
    """F9: the program is in its directory, sees its home, and has the node's shared memory."""
    words, env = WITHOUT[without]
    node = cluster.nodes[0]
    if without == "site":
        cluster.root(node, "sed", "-i.kept", "-e", NONE, CONF)
    try:
        look = 'pwd; stat -c %i "$OMPI_MCA_btl_sm_backing_directory/../own" "$OMPI_MCA_btl_sm_backing_directory/own"'
        look += "; stat -f -c %T $OMPI_MCA_btl_sm_backing_directory; test -d /home/alice/.ssh"
        force = [] if start == "inside" else ["--force"]
        words = [*Way(start, "ompi5").words, *words, *force, "--", "sh", "-c", look]
        result = cluster.mnrun(*words, nodes=1, tasks=1, cwd=desk.path, env=env)
    finally:
        if without == "site":
            cluster.root(node, "mv", f"{CONF}.kept", CONF)
    assert result.code == 0, result
    here, first, second, kind = result.out.split()
    assert (here, first != second, kind) == (desk.path, True, "tmpfs"), result
