"""The PE of a job, by its shape and the PEs that were seen."""

from __future__ import annotations

from ast import literal_eval

from mnrun.errors import Impossible
from mnrun.model import Layout
from mnrun.schedulers.sge import answers, options
from mnrun.schedulers.writing import Shape, shape
from unit.cases import Cases
from unit.schedulers.sge.test_answers import said
from unit.texts import Refused

PES = {pe["pe_name"]: pe for pe in map(answers.table, said("sp.txt").split("\n\n")) if pe}


def test_the_pe_of_a_job(cases: Cases) -> None:
    """Of so many hosts with so many slots. Without one that suits, the admin has a line."""

    def chosen(size: str, setting: str) -> str:
        return options.choose(Shape(*map(int, size.split())), literal_eval(setting), PES, "")

    cases(chosen)


def test_without_any_pe(cases: Cases) -> None:
    cases(lambda setting, queues: options.choose(Shape(2, 2), setting, {}, queues))


def test_the_pes_of_queues() -> None:
    text = "qname a.q\npe_list mpi-2 \\\n  smp,[@h=mpi-4],[n1=NONE]\nslots 8\nqname b.q\npe_list   NONE\n"
    assert answers.pes(text) == ["mpi-2", "mpi-4", "smp"]


def test_a_plan_away_from_grid_engine_names_a_pe_all_the_same() -> None:
    assert options.choose(Shape(2, 2), "auto", None, "") == "mpi-2"


def test_slots_are_the_cpus_of_the_ranks(refused: Refused) -> None:
    assert shape(Layout(("a", "b"), (2, 2)), 4, "X") == Shape(2, 8)
    with refused(Impossible):
        shape(Layout(("a", "b"), (2, 1)), 1, "X")


def test_a_job_that_may_not_reach_its_nodes_is_refused(refused: Refused) -> None:
    options.refuse_closed("mpi-2", PES["mpi-2"])
    with refused(Impossible):
        options.refuse_closed("loose", PES["loose"])
