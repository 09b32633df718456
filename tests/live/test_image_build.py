"""Images that `mnrun image build` makes from recipes, and jobs in them. `bare` is built each time."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest

from rehearsal import mirror

from . import built
from .cells import HELLO, OMPI5, full, one, turn
from .reports import check, refusal
from .stage import LOGIN, TOP, Cluster, Desk, wait_for

BASE = "/images/base.sif"
LOCAL = ("--arg", f"base={BASE}")


@pytest.fixture(scope="module", autouse=True)
def base(cluster: Cluster) -> None:
    cluster.tool("images", "base")


def typed(page: str, begin: str) -> str:
    return next(line[2:] for line in (TOP / page).read_text().splitlines() if line.startswith(f"$ {begin} "))


def test_image_build_bare(cluster: Cluster, desk: Desk) -> None:
    build, job = typed("docs/tutorials/first-job.md", "mnrun image build"), typed("README.md", "mnrun -N 2")
    done = cluster.alice([*build.split(), *LOCAL, "-v"], cwd=desk.path)
    assert done.code == 0 and done.out == f"{desk.path}/python.sif\n", done
    assert re.search(r"^\+ .*apt-get install .*python3", done.err, re.MULTILINE), done
    assert re.search(r"^mnrun: built .*/python\.sif, after \d+ s$", done.err, re.MULTILINE), done
    assert desk.names() == ["python.sif"]
    ranks = cluster.alice(["sh", "-c", job], cwd=desk.path)
    assert ranks.code == 0 and sorted(ranks.out.splitlines()) == [f"rank {rank} of 4" for rank in range(4)], ranks
    again = cluster.alice([*build.split(), *LOCAL], cwd=desk.path)
    refusal(again, 2, "python.sif exists", "--force")


def test_image_build_openmpi(cluster: Cluster, desk: Desk) -> None:
    """A program that is compiled for this Open MPI runs in the image, by its mpirun and by ssh."""
    path = built.image(cluster, desk, "base", "base-openmpi")
    check(cluster.mnrun("--image", path, "--bind", "/opt/mpi", "--", HELLO, nodes=2), *cluster.nodes[:2])
    shown = cluster.alice(["mnrun", "image", "inspect", path])
    lines = [line.split(maxsplit=1) for line in shown.out.splitlines()]
    found = {words[0]: words[1] for words in lines if len(words) == 2}
    assert shown.code == 0 and found["MPI"].startswith("Open MPI 5.0.7 (/usr/bin/mpirun)"), shown
    assert found["sshd"].startswith("OpenSSH_10") and found["PMIx"] == "5.0.7" and found["architecture"], shown
    assert found["verdict:"].startswith("inside-out: works"), shown


def test_image_build_mpich(cluster: Cluster, desk: Desk) -> None:
    path = built.image(cluster, desk, "base", "netpipe", "--arg", "mpi=mpich")
    done = cluster.mnrun("--image", path, "--", "NPmpich2", "-u", "64", "-n", "10", "-o", "/dev/null", nodes=2, tasks=1)
    assert done.code == 0 and "Mbps" in done.out + done.err, done


def test_image_build_in_stages(cluster: Cluster, desk: Desk) -> None:
    path = built.image(cluster, desk, "base", "mpi-bandwidth")
    done = cluster.mnrun("--image", path, "--", "mpi_bandwidth", nodes=2, tasks=1)
    assert done.code == 0 and done.out.count("MB/s") == 10 and "1000000 bytes: best" in done.out, done
    without = cluster.mnrun("--image", path, "--launcher", "env", "--", "gcc", nodes=1, tasks=1)
    assert without.code == 127, without


@pytest.mark.skipif(not full(), reason="builds a large image: --full")
def test_image_build_pytorch(cluster: Cluster, desk: Desk) -> None:
    """Debian's PyTorch learns on two nodes."""
    path = built.image(cluster, desk, "programs", "pytorch")
    desk.put("ddp.py", (TOP / "examples/pytorch/ddp.py").read_bytes())
    done = cluster.mnrun(
        "--image", path, "--launcher", "env", "--", "python3", "ddp.py", nodes=2, tasks=1, cwd=desk.path
    )
    assert done.code == 0 and "the same on every rank: True" in done.out, done


def test_image_build_of_ones_own(cluster: Cluster, desk: Desk) -> None:
    """A definition in a directory, that copies a file beside it, with an argument of Apptainer's."""
    desk.put("note", "from the note\n")
    text = f"Bootstrap: localimage\nFrom: {BASE}\n%files\n  note /note\n%post\n  echo '{{{{ WORD }}}}' >>/note\n"
    desk.put("app.def", text)
    done = cluster.alice(["mnrun", "image", "build", ".", "--arg", "WORD=hi", "-o", "a.sif"], cwd=desk.path)
    assert done.code == 0 and "app.def" in done.err, done
    ran = cluster.mnrun("--image", f"{desk.path}/a.sif", "--", "cat", "/note", nodes=1, tasks=1)
    assert ran.out == "from the note\nhi\n", ran


OWN = """\
Stage0 += baseimage(image=USERARG["base"], _bootstrap=USERARG["bootstrap"], _docker_env=False, _distro="ubuntu24")
Stage0 += shell(commands=["echo made >/made"])
"""


@pytest.mark.skipif(not full(), reason="copies a part of Debian's archive: --full")
def test_image_build_by_debootstrap(cluster: Cluster, desk: Desk) -> None:
    """An ordinary user installs a Debian from the archive of this machine's apt, and a job runs in it."""
    archive, sources = mirror.ensure("trixie"), cluster.path("/etc/apt/sources.list", "node01")
    given = sources.read_text()
    desk.put("own.py", OWN)
    words = ["mnrun", "image", "build", "own.py", "--arg", "base=debootstrap:trixie", "-o", "new.sif"]
    try:
        sources.write_text(f"deb file:{archive} trixie main\n")
        done = cluster.alice(words, node="node01", cwd=desk.path, seconds=300)
    finally:
        sources.write_text(given)
    assert done.code == 0, done
    ran = cluster.mnrun(
        "--image", f"{desk.path}/new.sif", "--", "cat", "/etc/debian_version", "/made", nodes=2, tasks=1
    )
    assert ran.code == 0 and ran.out.count("13.") == ran.out.count("made") == 2, ran


FAILURES = {
    "a package": ((*LOCAL, "--arg", "packages=nosuch"), 125, ("`DEBIAN_FRONTEND", "Unable to locate package nosuch")),
    "no way out": ((), 125, ("no such host", "--arg base=FILE")),
    "no image": (("--arg", "base=/etc/passwd"), 125, ("image format not recognized",)),
    "no base": (("--arg", "base=/none.sif"), 2, ("base=/none.sif does not exist",)),
    "no argument": (("--arg", "mpi=openmpi"), 2, ("bare has no build argument mpi; it has base, packages",)),
}


@pytest.mark.parametrize("case", FAILURES)
def test_image_build_fails(cluster: Cluster, desk: Desk, case: str) -> None:
    words, code, said = FAILURES[case]
    done = cluster.alice(["mnrun", "image", "build", "bare", *words, "-Q", "-o", f"{desk.path}/a.sif"])
    refusal(done, code, *said)
    assert desk.names() == []


@pytest.fixture
def slow(desk: Desk) -> Iterator[str]:
    yield desk.put("slow.def", f"Bootstrap: localimage\nFrom: {BASE}\n%post\n  sleep 600\n")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_image_build_is_stopped(cluster: Cluster, desk: Desk, slow: str, signum: signal.Signals) -> None:
    def sleeps() -> bool:
        return any(process.argv[:1] == ("sleep",) for process in cluster.processes())

    words = ["mnrun", "image", "build", slow, "-o", f"{desk.path}/a.sif"]
    with cluster.running(words) as job:
        wait_for(sleeps, "building", state=lambda: str(job.so_far()))
        refusal(cluster.alice(words), 2, "another process builds")
        cluster.launcher().send(signum)
        assert job.end().code == 128 + signum
    wait_for(lambda: not cluster.processes(), "free of processes")
    assert not list(cluster.path("/tmp").iterdir())
    assert signum == signal.SIGKILL or desk.names() == ["slow.def"]
    desk.put("slow.def", f"Bootstrap: localimage\nFrom: {BASE}\n")
    done = cluster.alice(words)
    assert done.code == 0 and desk.names() == ["a.sif", "slow.def"], done


def test_image_build_as_root(cluster: Cluster) -> None:
    done = cluster.alice(["mnrun", "image", "build", "bare", *LOCAL, "-o", "/tmp/a.sif"], user="root")
    refusal(done, 122, "apptainer build is not run as root", "as an ordinary user")


@pytest.mark.parametrize("builder", turn(0, ["docker", "podman", "buildah"], ["buildah"], ["docker", "podman"]))
def test_image_build_for_a_store(engines: Cluster, desk: Desk, builder: str) -> None:
    """A Dockerfile becomes an image of the store from which jobs on that node run. buildah uses podman's."""
    desk.put("Dockerfile", f"FROM localhost/ompi5\nRUN echo {builder} >/made\n")
    words = ["mnrun", "image", "build", "Dockerfile", "--builder", builder, "--tag", f"localhost/{builder}"]
    done = engines.alice(words, node="node01", cwd=desk.path)
    assert done.code == 0 and done.out == f"localhost/{builder}\n", done
    runtime = "podman" if builder == "buildah" else builder
    job = ("--runtime", runtime, "--image", f"localhost/{builder}", "--launcher", "env", "--", "cat", "/made")
    ran = engines.mnrun(*job, nodes=1, tasks=1)
    assert ran.code == 0 and ran.out == f"{builder}\n", ran
    desk.put("Dockerfile", "FROM localhost/ompi5\nRUN nosuch\n")
    wrong = engines.alice([*words, "-Q"], node="node01", cwd=desk.path)
    refusal(wrong, 125, "`RUN nosuch`: /bin/sh: 1: nosuch: not found")
    engines.root("node01", "rm", "-rf", "/run/user/1500")  # podman's own, where no login has made it


@pytest.mark.parametrize("engine", one(1, ["docker", "podman"]))
def test_image_convert(engines: Cluster, desk: Desk, engine: str) -> None:
    variables = "export PLAIN='two words'\n  export NASTY='a \"b\" $'"
    desk.put("app.def", f"Bootstrap: localimage\nFrom: {OMPI5}\n%environment\n  {variables}\n")
    convert = ["mnrun", "image", "convert", "--store", engine]
    steps = (
        ["mnrun", "image", "build", "app.def", "-o", "app.sif"],
        [*convert, "app.sif", "--tag", "localhost/app:1"],
        [*convert, "localhost/app:1", "-o", "again.sif"],
    )
    for words in steps:
        done = engines.alice(words, node="node01", cwd=desk.path)
        assert done.code == 0 and done.out.strip().endswith(words[-1]), done
    assert desk.names() == ["again.sif", "app.def", "app.sif"]
    # Apptainer 1.4 adds backslashes to the quotes of an image of a store.
    images = {
        ("--runtime", engine, "--image", "localhost/app:1"): 'a "b" $',
        ("--image", f"{desk.path}/again.sif"): None,
    }
    for image, nasty in images.items():
        check(engines.mnrun(*image, "--", HELLO, nodes=1), "node01")
        show = ("--launcher", "env", "--", "sh", "-c", 'echo "$PLAIN"; echo "$NASTY"')
        plain, other = engines.mnrun(*image, *show, nodes=1, tasks=1).out.splitlines()
        assert plain == "two words" and nasty in (None, other), other
    unknown = engines.alice([*convert, "nosuch", "-o", "x.sif"], node="node01", cwd=desk.path)
    refusal(unknown, 125, f"{engine} has no image nosuch on this node")
    refusal(engines.alice([*convert, "nosuch", "--tag", "x"], node="node01"), 2, "nosuch does not exist")
    engines.root(LOGIN, "rm", "-rf", "/home/alice/.cache")  # podman's own
