"""The cluster that the live tests share, and the check after each that nothing is left.

MNRUN_TEST_CLUSTER=NAME   use this running cluster as it is, and leave it up (or NAME,NAME,…: one for each scheduler)
--full                    every cell of every matrix, not a pairwise choice
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from rehearsal import images, model, recipe, trees, unpacked
from unit.texts import Expected

from . import autopsy, matrix
from .cells import ENGINES, full
from .stage import LOGIN, TOOL, TOP, Cluster, Desk, wait_for
from .stranger import Stranger, lair

HERE = Path(__file__).parent
SECONDS_TO_CLEAN = 120.0  # says "never", not "slow"
WATCH = pytest.StashKey[autopsy.Watch]()
LAST_WORDS: list[str] = []  # of this process, which cannot go on
# Each worker of pytest-xdist has clusters of its own.
NAME = "mnrun-live" + os.environ.get("PYTEST_XDIST_WORKER", "").replace("gw", "-w")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run every cell of the matrices")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[WATCH] = autopsy.Watch()
    if config.getoption("--full"):
        os.environ["MNRUN_TEST_FULL"] = "1"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Add the state of the machine to the report of a failed test."""
    report = (yield).get_result()
    if report.failed:
        report.sections.append(("the machine", item.config.stash[WATCH].machine()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Each standstill of the machine is told. With --full docs/testing.md says what has come of every cell, in this run
    or, where it left it out, before."""
    for line in config.stash[WATCH].still:
        terminalreporter.write_line(line)
    if not config.getoption("--full") or config.option.collectonly:
        return
    now: dict[str, bool] = {}
    for kind in ("passed", "failed", "error"):  # what passed and could not be cleaned up has not
        now.update({report.nodeid: kind == "passed" for report in terminalreporter.stats.get(kind, ())})
    chosen = config.option.keyword or config.option.markexpr or config.getoption("lf", False)
    whole = exitstatus in (0, 1) and not chosen and not any("::" in word for word in config.args)
    if now:
        matrix.write_all(TOP / "docs/testing.md", matrix.remember(trees.cache() / "results.json", now, whole))


def needs_engines(item: pytest.Item) -> bool:
    """Whether docker or podman must be on the nodes: it asks for `engines`, and is no cell of another runtime."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    runtime = given.get("runtime", getattr(given.get("way"), "runtime", ENGINES[0]))
    return "engines" in getattr(item, "fixturenames", ()) and runtime in ENGINES


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark this folder's tests. Of those that a module test_site_….py takes from others, keep one cell each.

    --full keeps all cells. Those that need docker and podman are one group, so that one cluster alone has them.
    """
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("live")
        if needs_engines(item):
            item.add_marker(pytest.mark.xdist_group("engines"))
    if config.getoption("--full"):
        return
    cells: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        name = item.module.__name__
        if ".test_site_" in name and item.function.__module__ != name:
            cells.setdefault((name, item.originalname), []).append(item)
    others = {
        id(item) for turn, each in enumerate(cells.values()) for item in each if item is not each[turn % len(each)]
    }
    config.hook.pytest_deselected(items=[item for item in items if id(item) in others])
    items[:] = [item for item in items if id(item) not in others]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """What failed is remembered as a run without pytest-xdist will call it, so that --last-failed finds it there."""
    if LAST_WORDS and hasattr(session.config, "workeroutput"):
        session.config.workeroutput["last words"] = LAST_WORDS[0]
    cache = session.config.cache
    if cache and not hasattr(session.config, "workerinput"):
        cache.set("cache/lastfailed", {matrix.plain(nodeid): True for nodeid in cache.get("cache/lastfailed", {})})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker that cannot go on says why. pytest-xdist knows only that it was interrupted."""
    said = getattr(node, "workeroutput", {}).get("last words")
    if said:
        node.config.pluginmanager.get_plugin("terminalreporter").write_line(f"\n{node.gateway.id}: {said}")


def tool(name: str, *words: str) -> None:
    done = subprocess.run([str(TOOL), "--name", name, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        LAST_WORDS.append(f"scripts/cluster --name {name} {' '.join(words)}:\n{done.stdout}{done.stderr}")
        pytest.exit(LAST_WORDS[0], 2)


@contextmanager
def up(name: str, nodes: int, *variants: str) -> Iterator[Cluster]:
    """Yield a cluster of our own, from its start to its end."""
    tool(name, "down")
    tool(name, "up", "-n", str(nodes), *variants)
    try:
        yield Cluster(name)
    finally:
        tool(name, "down")


@contextmanager
def given_or_up(variable: str, name: str, nodes: int, *variants: str) -> Iterator[Cluster]:
    """Yield the cluster with this scheduler that an environment variable names, with mnrun of this checkout, or else
    one of our own."""
    names = filter(None, os.environ.get(variable, "").split(","))
    scheduler = next((word[2:] for word in variants if word in ("--sge", "--pbs", "--kube")), "slurm")
    given = next((name for name in names if model.Cluster(name).options().scheduler == scheduler), "")
    if given:
        tool(given, "install")
        yield Cluster(given)
        return
    with up(name, nodes, *variants) as ours:
        yield ours


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Four nodes, with mnrun of this checkout. With --full, many tests wait until Slurm calls a lost node down."""
    with given_or_up("MNRUN_TEST_CLUSTER", NAME, 4, *(["--impatient"] if full() else [])) as ours:
        unpacked.ensure(images.shelf_of_all(), "ompi5")  # for Charliecloud
        yield ours


@pytest.fixture(scope="session")
def bare() -> str:
    """An image with no openssh, no bash and no user but root."""
    images.ensure([recipe.BARE])
    return f"/images/{recipe.BARE.name}.sif"


@pytest.fixture(scope="session")
def grid() -> Iterator[Cluster]:
    """Four nodes of Grid Engine. A module whose `cluster` is this one is of the group grid-engine."""
    with given_or_up("MNRUN_TEST_CLUSTER", f"{NAME}-ge", 4, "--sge", "--impatient") as ours:
        yield ours


@pytest.fixture(scope="session")
def pbs() -> Iterator[Cluster]:
    """Four nodes of the stand-in of PBS. A module whose `cluster` is this one is of the group pbs."""
    with given_or_up("MNRUN_TEST_CLUSTER", f"{NAME}-pbs", 4, "--pbs") as ours:
        yield ours


@pytest.fixture(scope="session")
def kube() -> Iterator[Cluster]:
    """Two nodes of Kubernetes, whose programs are compiled once. A module whose `cluster` is this one is of the
    group kube."""
    with given_or_up("MNRUN_TEST_CLUSTER", f"{NAME}-kube", 2, "--kube", "--impatient") as ours:
        may = ["kubectl", "auth", "can-i", "create", "configmaps", "-n", "lab"]  # the server learns of rights later
        wait_for(lambda: ours.alice(may).code == 0, "allowed", 60)
        yield ours


@pytest.fixture
def engines(request: pytest.FixtureRequest, cluster: Cluster) -> Cluster:
    """The cluster, for a test of a runtime: with docker and podman, which have an image, unless it is another."""
    # not so before the first of them, nor on a node whose power a test has taken since
    nodes = cluster.nodes if needs_engines(request.node) else ()
    if not all(cluster.path("/run/docker.sock", node).exists() for node in nodes):
        tool(cluster.name, "engines", *(("ompi5", "ompi4", "mpich") if full() else ("ompi5",)))
        cluster.settle()  # podman leaves a process of its own
    return cluster


@pytest.fixture
def variant() -> Iterator[Callable[..., Cluster]]:
    """Bring up another cluster for this test alone: `variant(4, "--affinity")`, `variant(2, "--debian=bookworm")`."""
    with ExitStack() as stack:
        yield lambda nodes, *options: stack.enter_context(clean(nodes, *options))


@contextmanager
def clean(nodes: int, *options: str) -> Iterator[Cluster]:
    """Yield a cluster of a variant, on which nothing may be left either."""
    kind = sha256(" ".join(options).encode()).hexdigest()[:6]  # names are short, and there may be many options
    with up(f"{NAME}-{nodes}-{kind}", nodes, *options) as ours:
        yield ours
        left = ours.wait_clean(SECONDS_TO_CLEAN)
        assert not left, "left behind:\n" + "\n".join(left)


@pytest.fixture
def desk(cluster: Cluster) -> Iterator[Desk]:
    """Yield a folder in alice's home, seen by all nodes."""
    with cluster.desk() as desk:
        yield desk


@pytest.fixture
def expected(request: pytest.FixtureRequest) -> Expected:
    """Compares a text with a file, or rewrites the file under `--accept`."""
    return Expected(bool(request.config.getoption("--accept")))


@pytest.fixture
def bob(cluster: Cluster) -> Iterator[Stranger]:
    """Another user, who means no good."""
    with lair(cluster) as bob:
        yield bob


@pytest.fixture(params=["bob", "carol"])
def stranger(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Stranger]:
    """Bob, and carol, who is in a group with alice."""
    with lair(cluster, request.param) as stranger:
        yield stranger


@pytest.fixture
def unmarked(cluster: Cluster) -> Iterator[None]:
    """Remove the marks of stranger.py's image at the end."""
    yield
    for node in (LOGIN, *cluster.nodes):
        cluster.root(node, "rm", "-rf", "/tmp/evil", "/var/tmp/own")


@pytest.fixture
def site(cluster: Cluster) -> Iterator[str]:
    """/etc/mnrun of the login node, empty and root's; gone at the end."""
    cluster.root(LOGIN, "install", "-d", "-m", "755", "/etc/mnrun", "/etc/mnrun/profiles")
    yield "/etc/mnrun"
    cluster.root(LOGIN, "rm", "-rf", "/etc/mnrun")


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test: no process of the users, no file of theirs in any node, no job, all nodes idle."""
    shared: Cluster = request.getfixturevalue("cluster")
    yield
    left = shared.wait_clean(SECONDS_TO_CLEAN)
    if left:
        shared.wipe()
        pytest.fail("left behind:\n" + "\n".join(left))
