"""What each MPI's mpirun is told: whole, in mpi.md."""

from __future__ import annotations

import pytest

from mnrun import mpi
from mnrun.jobspec import Variable
from mnrun.mpi import MPIS, Mpirun
from mnrun.mpi.openmpi import ranks
from unit.cases import Cases, given

BOUND = Mpirun(agent="/d/bin/ssh", hostfile="/d/hostfile", tmp="/d/tmp", bind_to="core", oversubscribe=True)


def test_each_mpi_is_told_in_its_own_names(cases: Cases) -> None:
    """Those of the hosts' mpirun are told to ranks alone."""

    def told(name: str, places: str) -> str:
        where = Mpirun(**given(f"agent=/d/bin/ssh hostfile=/d/hostfile tmp=/d/tmp {places}"))
        found = ranks(where) if name == "ranks" else {v.name: v.value for v in MPIS[name].environment(where)}
        return " ".join(f"{variable}={value}" for variable, value in sorted(found.items()))

    cases(told)


def test_all_mpis_are_told_at_once() -> None:
    names = [variable.name for variable in mpi.environment(BOUND)]
    assert set(names) == {variable.name for each in MPIS.values() for variable in each.environment(BOUND)}
    assert len(names) == len(set(names))


@pytest.mark.parametrize("version", ["OMPI", "PRTE"])
def test_both_families_of_open_mpi_are_told_the_same(version: str) -> None:
    assert len([v.name for v in MPIS["openmpi"].environment(BOUND) if v.name.startswith(version)]) == 9


@pytest.mark.parametrize("alone", [True, False])
def test_what_a_rank_knows_of_where_it_runs(alone: bool) -> None:
    own = (
        Variable("OMPI_MCA_btl_sm_backing_directory", "/dev/shm/x"),
        Variable("OMPI_MCA_btl_vader_backing_directory", "/dev/shm/x"),
    )
    apart = (
        Variable("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
        Variable("UCX_POSIX_USE_PROC_LINK", "n"),
        Variable("MV2_SMP_USE_CMA", "0"),
    )
    assert mpi.rank_settings(alone, "/dev/shm/x") == (own + apart if alone else own)


def test_a_rank_of_several_cores_is_bound_to_all_of_them() -> None:
    """-c with --bind-to core; of other units there is one anyway, and Open MPI 5 takes no such variable."""
    two = Mpirun("", "", "", bind_to="core", cores=2)
    assert ranks(two)["OMPI_MCA_rmaps_base_mapping_policy"] == "slot:PE=2"
    assert not [name for name in ranks(two) if name.startswith("PRTE") and "mapping" in name]
    assert MPIS["mpich"].environment(two)[-1] == Variable("HYDRA_BINDING", "core:2")
    assert MPIS["mpich"].environment(Mpirun("", "", "", bind_to="numa", cores=2))[-1] == Variable(
        "HYDRA_BINDING", "numa"
    )


def test_libraries_that_bind_by_themselves_are_told_not_to() -> None:
    free = Mpirun("", "", "", bind_to="none")
    told = [MPIS[name].environment(free)[-1] for name in ("mvapich2", "intelmpi")]
    assert told == [Variable("MV2_ENABLE_AFFINITY", "0"), Variable("I_MPI_PIN", "0")]
