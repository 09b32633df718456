"""Who is asked about MPIs, when, and what is remembered."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import Impossible, SchedulerError
from mnrun.images import cache
from mnrun.jobspec import JobSpec, Layer, Origin
from mnrun.model import Layout
from mnrun.nodes import kit
from mnrun.reach.channel import Answer
from mnrun.running import nodes, session
from mnrun.running.probe import Probe, resolve
from mnrun.schedulers.slurm import scheduler as slurm
from mnrun.system import process
from unit.cases import Cases, given
from unit.samples import RECORDED, SITE, build, held
from unit.texts import Refused, Says

FACTS = (RECORDED / "facts.txt").read_text()
NO_MPI = "".join(line for line in FACTS.splitlines(True) if not line.startswith("fact node01 image mpi"))
MPICH = FACTS.replace("openmpi /usr/bin/mpirun mpirun (Open MPI) 4.1.4", "mpich /usr/bin/mpirun HYDRA")


@dataclass
class Node:
    """A node that says what it is told to, and counts the questions."""

    says: str = FACTS
    questions: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, allocation: object, names: object, words: tuple[str, ...], environ: object) -> str:
        self.questions.append(words)
        if not self.says:
            raise SchedulerError("srun: no")
        return self.says


@pytest.fixture
def node(mocker: MockerFixture) -> Node:
    node = Node()
    mocker.patch.object(slurm, "on_each", node)
    return node


@pytest.fixture
def image(tmp_path: Path) -> Path:
    place = tmp_path / "app.sif"
    place.write_text("SIF")
    return place


def of(image: Path, **given: Any) -> Probe:
    spec = build("./app", **{"image": str(image), "image_cache": str(image.parent / "cache"), **given})
    environ = {"PATH": "/bin", "SLURM_CLUSTER_NAME": "one"}
    return Probe(nodes.Held(spec, held("node01", "node02"), SITE, environ), ("node01", "node02"))


def started(probe: Probe) -> tuple[JobSpec, str]:
    return session.resolved(probe.held, Layout(probe.names, (1, 1)))


def test_inside_out_asks_nothing(node: Node, image: Path, says: Says) -> None:
    spec, verdict = started(of(image))
    assert (spec.start.mode, spec.start.undecided) == ("inside-out", ("mode", "launcher", "mpi"))
    assert node.questions == []
    says(verdict)


def test_outside_in_asks_once(node: Node, image: Path) -> None:
    for _ in range(3):
        spec, verdict = resolve(of(image, mode="outside-in"))
        assert (spec.start.launcher, spec.start.mpi, spec.start.undecided) == ("mpirun", "openmpi", ())
        assert verdict is not None
    (words,) = node.questions
    assert words[:4] == ("bash", "--norc", "-p", "-c")
    assert words[-1] == str(image)
    image.write_text("another")
    resolve(of(image, mode="outside-in"))
    resolve(of(image, mode="outside-in", bind=("/usr:/opt/x",)))
    resolve(replaced(of(image, mode="outside-in"), PATH="/opt/mpi/bin"))
    assert len(node.questions) == 4


def test_an_answer_to_another_question_is_not_read(node: Node, image: Path, mocker: MockerFixture) -> None:
    resolve(of(image, mode="outside-in"))
    assert of(image, mode="outside-in").remembered() is not None
    mocker.patch.object(kit, "bundle", return_value="another script")
    assert of(image, mode="outside-in").remembered() is None


def test_a_name_in_a_store_is_asked_each_time(refused: Refused, node: Node) -> None:
    spec = build("./app", mode="outside-in", runtime="docker", image="team/app:1")
    assert resolve(Probe(nodes.Held(spec, held("node01"), SITE, {}), ("node01",)))[0].start.mpi == "openmpi"
    node.says = MPICH
    with refused(Impossible):
        resolve(Probe(nodes.Held(spec, held("node01"), SITE, {}), ("node01",)))


def replaced(probe: Probe, **environ: str) -> Probe:
    probe.held = probe.held._replace(environ={**probe.held.environ, **environ})
    return probe


def test_what_is_remembered_refuses_nothing(refused: Refused, node: Node, image: Path) -> None:
    resolve(of(image, mode="outside-in"))
    with refused(Impossible):
        resolve(of(image, mpi="pmi2"))
    node.says = MPICH
    spec, _ = resolve(of(image, mpi="pmi2"))
    assert (spec.start.launcher, spec.start.mpi, len(node.questions)) == ("srun", "pmi2", 3)


def test_a_plan_asks_and_refuses_nothing(node: Node, image: Path) -> None:
    for _ in range(2):
        spec, verdict = resolve(of(image, mpi="pmi2"), look=True)
        assert verdict is not None
        assert not verdict.chosen.works
        assert spec.start.mpi == "pmi2"
    assert len(node.questions) == 2


def test_auto_follows_what_is_remembered(node: Node, image: Path) -> None:
    node.says = NO_MPI
    resolve(of(image), look=True)
    spec, verdict = started(of(image))
    assert (spec.start.undecided, len(node.questions)) == (("mode", "launcher", "mpi"), 1)
    assert verdict.startswith("verdict: none")


def test_a_plan_without_nodes_has_what_is_remembered(node: Node, image: Path, says: Says) -> None:
    resolve(of(image, mode="outside-in"))
    paper = of(image, mode="outside-in")
    paper.held = paper.held._replace(allocation=None)
    _, verdict = resolve(paper, look=True)
    assert verdict is not None
    assert paper.origin.startswith("as a node reported at 2")
    (image.parent / "cache" / cache.FACTS).rename(image.parent / "away")
    paper = of(image, mode="outside-in")
    paper.held = paper.held._replace(allocation=None)
    assert resolve(paper, look=True)[1] is None
    says(paper.origin)


def test_the_line_that_asks_a_node_asks_the_same(cases: Cases) -> None:
    """`mnrun check` is told nothing of the job itself, and its answer would be another one's."""

    def line(words: str, layer: str) -> str:
        spec = build("./app", image="/app.sif", **given(words))
        origins = {name: Origin.of("there", Layer[layer]) for name in given(words)}
        paper = Probe(nodes.Held(spec._replace(origins={**spec.origins, **origins}), None, SITE, {}), ())
        assert paper.ask() is None
        return paper.origin

    cases(line)


@pytest.mark.parametrize("says", ["", "srun: error\n"])
def test_a_node_that_does_not_say_is_no_reason_to_end(node: Node, image: Path, says: str) -> None:
    node.says = says
    spec, verdict = resolve(of(image, launcher="srun"))
    assert (verdict, spec.start.launcher, spec.start.mpi) == (None, "srun", "pmix")


def test_what_is_old_or_anothers_is_not_believed(node: Node, image: Path, mocker: MockerFixture) -> None:
    resolve(of(image, mode="outside-in"))
    mocker.patch("time.time", return_value=9e9)
    assert of(image, mode="outside-in").remembered() is None
    mocker.stopall()
    mocker.patch("os.getuid", return_value=4711)
    assert of(image, mode="outside-in").remembered() is None


def test_this_machine_is_asked_without_a_scheduler(image: Path, mocker: MockerFixture) -> None:
    ask = mocker.patch.object(process, "ask", return_value=FACTS)
    probe = of(image, mode="outside-in")
    probe.held = probe.held._replace(site=SITE._replace(scheduler="local"))
    assert resolve(probe)[0].start.mpi == "openmpi"
    ask.assert_called_once()


def test_hosts_are_asked_by_their_transport(image: Path, mocker: MockerFixture) -> None:
    probe = of(image, mode="outside-in")
    transport = mocker.Mock()
    probe.held = probe.held._replace(transport=transport)
    transport.ask.return_value = {"node01": Answer(0, FACTS, "")}
    assert resolve(probe)[0].start.mpi == "openmpi"
    assert transport.ask.call_args.kwargs == {"only": ("node01",), "seconds": process.PROBE}


def words_of(spec: JobSpec) -> tuple[str, ...]:
    return Probe(nodes.Held(spec, held("node01"), SITE, {}), ("node01",))._container()


def test_the_image_is_asked_as_the_job_will_have_it(tmp_path: Path) -> None:
    assert words_of(build("./app", runtime="host")) == ("env",)
    spec = build("./app", bind=("/usr:/x",), env=("PATH=/x/bin",))
    assert words_of(spec)[-3:] == ("/home/alice/run/app.sif", "env", "PATH=/x/bin")
    assert "/usr:/x" in words_of(spec)
    assert "--pull=never" in words_of(build("./app", runtime="docker", image="team/app:1"))
    spec = build("./app", image="docker://team/app:1", image_cache=str(tmp_path))
    assert words_of(spec) == ()
    file = tmp_path / f"sha256-{'a' * 64}.sif"
    file.touch()
    (tmp_path / "refs").mkdir()
    (tmp_path / "refs" / "docker___team_app_1-123").write_text(f"sha256:{'a' * 64} key job docker://team/app:1\n")
    assert words_of(spec)[-1] == str(file)


def test_a_script_follows_what_is_remembered(node: Node, image: Path) -> None:
    paper = of(image, launcher="srun")
    paper.held = paper.held._replace(allocation=None)
    assert resolve(paper) == (paper.held.spec, None)
    node.says = MPICH
    resolve(of(image, launcher="srun"))
    assert resolve(paper)[0].start.mpi == "pmi2"
    assert len(node.questions) == 1
    wrong = of(image, mpi="pmix")
    wrong.held = wrong.held._replace(allocation=None)
    assert resolve(wrong)[0] == wrong.held.spec  # not refused by hearsay


def test_the_nodes_of_a_job_tell_of_networks(node: Node, image: Path) -> None:
    said = []
    for number in (1, 2):
        own = (
            *("nic eth0 kind=physical state=up", f"address eth0 10.77.0.{number}/24", "route 10.77.0.0/24 dev eth0"),
            *("nic docker0 kind=bridge state=up", "address docker0 172.17.0.1/16"),
        )
        said += [*(f"fact node0{number} {line}" for line in own), f"fact node0{number} node address 10.77.0.{number}"]
    node.says = "\n".join(said)
    told = of(image).networks()
    assert any(
        "OMPI_MCA_btl_tcp_if_include" in line and "not docker0 (172.17.0.1 on every node)" in line for line in told
    )
    assert len(node.questions) == 1
    assert of(image, fabric="off").networks() == []


def test_nodes_that_say_nothing_of_networks(node: Node, image: Path) -> None:
    node.says = ""
    assert of(image).networks() == []
