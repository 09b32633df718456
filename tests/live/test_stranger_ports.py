"""What bob can start as alice by the ports of MPI's daemons: docs/security.md."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .cells import Way
from .stage import Cluster, Desk, wait_for
from .stranger import ALICE, BOB, FIRST, LAIR, SECOND, Stranger

THIRD = "node03"
TOOL = Path(__file__).parent / "programs" / "pmix_tool.py"
# PMIx's security `native` believes the user ID that a tool has. In a user namespace, bob has the one that he likes.
ASK = f"""
mark=$1
shift
for uri; do
    unshare --user --map-user={ALICE} --map-group={ALICE} env PMIX_MCA_psec=native PMIX_MCA_gds=hash \\
        timeout 5 python3 {LAIR}/pmix_tool.py "$uri" "echo >>$mark" &
done
wait
"""
DAEMON = re.compile('"(mpirun|orterun|orted|prterun|prted)"')
PROGRAM = '/opt/mpi/hello && touch "$1/up.$RANK" && until [ -e "$1/go" ]; do sleep 0.1; done'


def uris(cluster: Cluster, bob: Stranger, node: str) -> list[str]:
    """Return the URI of each port of Open MPI's daemon there, as if all were PMIx's."""
    argv = bob.does("ps -eo args", node=SECOND)
    (name,) = set(re.findall(r'ess_base_(?:nspace|jobid) "?([^\s"]+)', argv))
    rank, address = int(node == SECOND), cluster.model.options().address(node)
    lines = cluster.root(node, "ss", "-Htln4p").splitlines()
    places = [line.split()[3].replace("0.0.0.0", address) for line in lines if DAEMON.search(line)]
    return [f"{name}.{rank};tcp4://{place}" for place in places]


def starts(cluster: Cluster, desk: Desk, bob: Stranger, by: str, of: str) -> bool:
    """Whether bob, on one node, starts a program as alice by one of her ports of another, or of the same."""
    reached = [uri for uri in uris(cluster, bob, of) if ("127.0.0.1" in uri) is (by == of)]
    assert reached, "the daemons have a port for each other, and PMIx has one"
    mark = f"{by}.{of}"
    said = bob.does(ASK, f"{desk.path}/{mark}", *reached, node=by)
    if "0" in said.split():
        wait_for(lambda: mark in desk.names(), "there")
    return mark in desk.names()


MUNGE = ("-x", "PMIX_MCA_psec=munge", "--bind", "/run/munge")
CELLS = {
    "inside-ompi5": (Way("inside", "ompi5"), ()),
    "mpirun-ompi5": (Way("mpirun", "ompi5"), ()),
    "inside-ompi4": (Way("inside", "ompi4"), ()),
    "inside-ompi5-munge": (Way("inside", "ompi5"), MUNGE),
}


@pytest.mark.parametrize("cell", CELLS)
def test_stranger_of_another_node_starts_nothing_by_pmix(
    cluster: Cluster, desk: Desk, bob: Stranger, cell: str
) -> None:
    """Nor does he end the job. On a node of the job he starts programs where alice uses Open MPI 5 without munge, since
    PMIx asks for no proof (openpmix#91). This shows that he asks as he should."""
    way, more = CELLS[cell]
    for node in (FIRST, SECOND, THIRD):
        cluster.put(f"{LAIR}/pmix_tool.py", TOOL.read_bytes(), node=node)
    line = cluster.launch(*way.words, *more, "--", "sh", "-c", PROGRAM, "sh", desk.path, nodes=2, tasks=1)
    with cluster.running(line) as job:
        wait_for(lambda: {"up.0", "up.1"} <= set(desk.names()), "up")
        with ThreadPoolExecutor() as pool:
            far = [(SECOND, FIRST), (THIRD, FIRST), (FIRST, SECOND), (THIRD, SECOND)]
            assert not any(pool.map(lambda pair: starts(cluster, desk, bob, *pair), far)), desk.names()
        if more:
            assert not starts(cluster, desk, bob, FIRST, FIRST)
        elif way.image == "ompi5":
            assert starts(cluster, desk, bob, FIRST, FIRST)
        desk.put("go", "")
        assert job.end().code == 0
    assert not [name for name in desk.names() if name.startswith("node") and (more or name != f"{FIRST}.{FIRST}")]


def test_check_says_who_else_is_there(cluster: Cluster, bob: Stranger) -> None:
    line = ["mnrun", "check", "-N", "2", "-w", f"{FIRST},{SECOND}", "--json"]
    with cluster.running(["sleep", "3600"], node=SECOND, user="bob"):
        wait_for(lambda: any(process.uid == BOB and process.node == SECOND for process in cluster.processes()), "up")
        found = json.loads(cluster.alice(line).out)["findings"]
    assert [(one["node"], one["state"]) for one in found if one["subject"] == "users"] == [(SECOND, "partly")]
