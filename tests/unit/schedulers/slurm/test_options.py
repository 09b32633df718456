"""A job in the options of sbatch, and what Slurm refuses of it. test_script.py and the golden texts have the rest."""

from __future__ import annotations

import pytest

from mnrun.errors import SchedulerError
from mnrun.model import Fault, Site
from mnrun.planning import layout
from mnrun.schedulers.queue import PartitionNode
from mnrun.schedulers.slurm import options
from mnrun.schedulers.slurm.details import Details
from mnrun.schedulers.vocabulary import NodeState
from unit.cases import Cases, given
from unit.samples import build


def test_which_option_sbatch_means(cases: Cases) -> None:
    def remedy(said: str, words: str) -> str:
        job = build("./app", **given(f"mode=inside-out {words}"))
        return options.refusal(f"sbatch: error: {said}", job).remedy

    cases(remedy)


def test_more_time_than_there_is(cases: Cases) -> None:
    """Slurm reads 10 and 10:00 as minutes, and 1-02 as a day and two hours. One partition that allows it is enough."""
    places = (("main", True, "10:00"), ("long", False, "1-02:00:00"), ("endless", False, "infinite"))
    nodes = [
        PartitionNode(name, default, "n1", NodeState.FREE, 0, 0, 2, 2, True, limit) for name, default, limit in places
    ]

    def doubts(words: str) -> list[str]:
        found = options.doubts(build("./app", **given(words)), lambda: nodes)
        assert {fault.code for fault in found} <= {"time"}
        return [fault.text for fault in found]

    cases(doubts)


def test_a_job_with_more_nodes_than_there_are(cases: Cases) -> None:
    """Of the partition that salloc takes by itself, too."""
    places = (*(("main", True, f"n{n}") for n in range(2)), *(("wide", False, f"w{n}") for n in range(3)))
    its = [PartitionNode(name, main, node, NodeState.FREE, 0, 0, 2, 2, True, "1:00") for name, main, node in places]

    def told(words: str, variables: str) -> str:
        job, environ = build("./app", **given(words)), given(variables)
        doubts = options.doubts(job, lambda: its, environ)
        assert {fault.code for fault in doubts} <= {"nodes"}
        return "".join(fault.text for fault in doubts)

    cases(told)


def test_the_time_there_is_without_an_answer() -> None:
    def nodes() -> list[PartitionNode]:
        raise SchedulerError("sinfo did not answer")

    def never() -> list[PartitionNode]:
        raise AssertionError

    assert options.doubts(build("./app", time="10"), nodes) == []
    assert options.doubts(build("./app", nodes="1"), never) == []


def test_ranks_are_even_where_they_can_be(cases: Cases) -> None:
    cases(lambda words: " ".join(options.request(build("./app", **given(words)), ())))


def test_gpus_where_steps_cannot_share_them(cases: Cases) -> None:
    def told(words: str, gpus: str) -> str:
        job = build("./app", **given(words))
        counts = {f"node{number}": int(count) for number, count in enumerate(gpus.split())}
        site = Site("slurm", "7", Details((22, 5)), gpus=counts)
        options.refuse(job, site)
        options.refuse(job, site._replace(details=Details((20, 11))))
        return "it works in 20.11"

    cases(told)


def test_a_word_of_slurms_that_mnrun_writes_itself(cases: Cases) -> None:
    """sbatch would take the last of two directives, and the job would have other nodes than its plan."""

    def directives(words: str) -> str:
        job = build("./app", **given(words))
        return " ".join(line.split()[1] for line, _ in options.directives(job, layout.lay_out(job, None), {}))

    cases(directives)


def test_the_shape_of_a_job(cases: Cases) -> None:
    def shape(words: str) -> str:
        job = build("./app", **given(words))
        lines = [line.split()[1] for line, _ in options.directives(job, layout.lay_out(job, None), {})]
        return " ".join(word for word in lines if word.startswith(("--nodes", "--ntasks")))

    cases(shape)


@pytest.mark.parametrize(
    ("export", "lost"),
    [("NONE", "A, B"), ("B,HOME=/x", "A"), ("b=1,A=2", "B"), ("ALL", ""), ("all,C=1", ""), ("A,B", ""), ("", "")],
)
def test_variables_that_a_batch_job_will_not_have(export: str, lost: str) -> None:
    job = build("./app", env=("A", "B", "C=3"), export=export, environ={"A": "1", "B": "2"})
    said = f"--export {export} (command line) keeps {lost} from the job; add it there, or write -x {lost[:1]}=VALUE"
    assert options.doubts(job, list) == ([Fault("export", said)] if lost else [])
    assert options.doubts(job, list, {"HOME": "/x"}) == []
    set_later = build("./app", env=("A",), export=export, setup=("export A=2",), environ={"A": "1"})
    assert options.doubts(set_later, list) == []
