"""What each MPI's mpirun is told: whole, one table."""

from __future__ import annotations

import pytest

from mnrun import mpi
from mnrun.jobspec import Variable
from mnrun.mpi import MPIS, Places
from mnrun.mpi.openmpi import ranks

PLAIN = Places(agent="/d/bin/ssh", hostfile="/d/hostfile", tmp="/d/tmp")
BOUND = Places(agent="/d/bin/ssh", hostfile="/d/hostfile", tmp="/d/tmp", bind_to="core", oversubscribe=True)

THREADS = {"OMPI_MCA_odls_base_max_threads": "0", "PRTE_MCA_odls_base_max_threads": "0"}
OPENMPI = {
    "OMPI_MCA_plm": "rsh",
    "OMPI_MCA_ras": "^slurm",
    "OMPI_MCA_plm_rsh_agent": "/d/bin/ssh",
    "OMPI_MCA_orte_default_hostfile": "/d/hostfile",
    "PRTE_MCA_plm": "ssh",
    "PRTE_MCA_ras": "^slurm",
    "PRTE_MCA_plm_ssh_agent": "/d/bin/ssh",
    "PRTE_MCA_prte_default_hostfile": "/d/hostfile",
    "OMPI_MCA_orte_keep_fqdn_hostnames": "0",
    "PRTE_MCA_prte_keep_fqdn_hostnames": "0",
    "OMPI_MCA_orte_tmpdir_base": "/d/tmp",
    "PRTE_MCA_prte_tmpdir_base": "/d/tmp",
    **THREADS,
}
OPENMPI_BOUND = {
    "OMPI_MCA_hwloc_base_binding_policy": "core",
    "PRTE_MCA_hwloc_default_binding_policy": "core",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": "slot:oversubscribe",
}
HYDRA = {
    "HYDRA_LAUNCHER": "ssh",
    "HYDRA_LAUNCHER_EXEC": "/d/bin/ssh",
    "HYDRA_RMK": "user",
    "HYDRA_HOST_FILE": "/d/hostfile.hydra",
}
INTEL = {
    "I_MPI_HYDRA_BOOTSTRAP": "ssh",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/d/bin/ssh",
    "I_MPI_HYDRA_RMK": "user",
    "I_MPI_HYDRA_HOST_FILE": "/d/hostfile.hydra",
}
MV2_BOUND = {"MV2_CPU_BINDING_POLICY": "bunch", "MV2_CPU_BINDING_LEVEL": "core"}
TOLD: dict[tuple[str, str], dict[str, str]] = {
    ("openmpi", "plain"): OPENMPI,
    ("openmpi", "bound"): {**OPENMPI, **OPENMPI_BOUND},
    ("mpich", "plain"): HYDRA,
    ("mpich", "bound"): {**HYDRA, "HYDRA_BINDING": "core:1"},
    ("mvapich2", "plain"): {},
    ("mvapich2", "bound"): MV2_BOUND,
    ("intelmpi", "plain"): INTEL,
    ("intelmpi", "bound"): {**INTEL, "I_MPI_PIN_DOMAIN": "core"},
}


@pytest.mark.parametrize("name", MPIS)
@pytest.mark.parametrize(("which", "places"), [("plain", PLAIN), ("bound", BOUND)])
def test_each_mpi_is_told_in_its_own_names(name: str, which: str, places: Places) -> None:
    """Hosts, agent, and that there is no scheduler; binding only where it was asked for."""
    found = MPIS[name].environment(places)
    assert {variable.name: variable.value for variable in found} == TOLD[name, which]


def test_all_mpis_are_told_at_once() -> None:
    """Which one the image has is known only inside it; no two use the same name."""
    names = [variable.name for variable in mpi.environment(BOUND)]
    assert set(names) == {*OPENMPI, *OPENMPI_BOUND, *HYDRA, *INTEL, *MV2_BOUND, "I_MPI_PIN_DOMAIN", "HYDRA_BINDING"}
    assert len(names) == len(set(names))


@pytest.mark.parametrize("version", ["OMPI", "PRTE"])
def test_both_families_of_open_mpi_are_told_the_same(version: str) -> None:
    """Version 4 ignores PRTE_MCA_*, version 5 ignores OMPI_MCA_orte_*: each setting has a twin."""
    assert len([name for name in {**OPENMPI, **OPENMPI_BOUND} if name.startswith(version)]) == 9


@pytest.mark.parametrize(
    ("places", "names"),
    [
        (Places("", "", ""), set()),
        (Places("", "", "", bind_to="none"), {k for k in OPENMPI_BOUND if "hwloc" in k}),
        (Places("", "", "", oversubscribe=True), {k for k in OPENMPI_BOUND if "rmaps" in k}),
    ],
)
def test_ranks_of_the_hosts_mpirun(places: Places, names: set[str]) -> None:
    """Outside-in it is all that the host's mpirun is told by variables of its own."""
    assert set(ranks(places)) == {*THREADS, *names}


@pytest.mark.parametrize("alone", [True, False])
def test_what_a_rank_knows_of_where_it_runs(alone: bool) -> None:
    """Segments lie in the job's own place; siblings in containers of their own leave each other's memory alone."""
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
    two = Places("", "", "", bind_to="core", cores=2)
    assert ranks(two)["OMPI_MCA_rmaps_base_mapping_policy"] == "slot:PE=2"
    assert not [name for name in ranks(two) if name.startswith("PRTE") and "mapping" in name]
    assert MPIS["mpich"].environment(two)[-1] == Variable("HYDRA_BINDING", "core:2")
    assert MPIS["mpich"].environment(Places("", "", "", bind_to="numa", cores=2))[-1] == Variable(
        "HYDRA_BINDING", "numa"
    )


def test_libraries_that_bind_by_themselves_are_told_not_to() -> None:
    """mpirun's own words do not reach them."""
    free = Places("", "", "", bind_to="none")
    told = [MPIS[name].environment(free)[-1] for name in ("mvapich2", "intelmpi")]
    assert told == [Variable("MV2_ENABLE_AFFINITY", "0"), Variable("I_MPI_PIN", "0")]
