"""Open MPI 4 (ORTE) and 5 (PRRTE).

Version 4 ignores PRTE_MCA_*. Version 5 ignores OMPI_MCA_orte_* and OMPI_MCA_plm_rsh_* in the environment. So both
families are set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mnrun.jobspec import Variable
from mnrun.mpi.mpirun import Mpirun

NAME = "Open MPI"
STARTER = "mpirun"

# The components that ask a scheduler for nodes. The hostfile names the nodes, and an image lacks the files that Grid
# Engine's would read. A name that a version lacks does no harm (seen with 4.1.4 and 5.0.7; 5 has pbs in place of tm).
NO_SCHEDULER = "^slurm,gridengine,tm,pbs,lsf"


def environment(mpirun: Mpirun) -> tuple[Variable, ...]:
    settings = {
        "OMPI_MCA_plm": "rsh",
        "OMPI_MCA_ras": NO_SCHEDULER,
        "OMPI_MCA_plm_rsh_agent": mpirun.agent,
        "OMPI_MCA_orte_default_hostfile": mpirun.hostfile,
        "PRTE_MCA_plm": "ssh",
        "PRTE_MCA_ras": NO_SCHEDULER,
        "PRTE_MCA_plm_ssh_agent": mpirun.agent,
        "PRTE_MCA_prte_default_hostfile": mpirun.hostfile,
        # Slurm's names of nodes are often short. By default, PRRTE on a host with a long name uses ssh to reach itself.
        # Names that differ after their first dot alone would be one node.
        "OMPI_MCA_orte_keep_fqdn_hostnames": "1" if mpirun.alike else "0",
        "PRTE_MCA_prte_keep_fqdn_hostnames": "1" if mpirun.alike else "0",
    }
    # In the user's TMPDIR, daemons of two jobs with equal pids in their namespaces would share a directory.
    settings |= {"OMPI_MCA_orte_tmpdir_base": mpirun.tmp, "PRTE_MCA_prte_tmpdir_base": mpirun.tmp}
    settings.update(ranks(mpirun))
    return tuple(Variable(name, value) for name, value in settings.items())


def ranks(mpirun: Mpirun) -> dict[str, str]:
    """Return the settings by which mpirun starts ranks, in both modes."""
    # A daemon may miss the end of a rank that another of its threads has just started. Then mpirun never ends. Version
    # 5 has such threads on every node but the first, and version 4 from 32 ranks on a node (seen with 5.0.7 and 4.1.4).
    settings = {"OMPI_MCA_odls_base_max_threads": "0", "PRTE_MCA_odls_base_max_threads": "0"}
    # PMIx's server of version 5 believes any user who reaches it (docs/security.md). It serves this node alone, but the
    # one of mpirun listens on an address of the network by default (openpmix, pmix_ptl_base_setup_listener).
    settings["PMIX_MCA_ptl_base_if_include"] = "lo"
    if mpirun.bind_to:
        settings["OMPI_MCA_hwloc_base_binding_policy"] = mpirun.bind_to
        settings["PRTE_MCA_hwloc_default_binding_policy"] = mpirun.bind_to
    if mpirun.bind_to == "core" and mpirun.cores > 1:
        # By default, each rank gets one core. PRRTE takes PE= on its command line only (note in planning/plan.py).
        settings["OMPI_MCA_rmaps_base_mapping_policy"] = f"slot:PE={mpirun.cores}"
    if mpirun.oversubscribe:
        settings["OMPI_MCA_rmaps_base_oversubscribe"] = "1"
        # without `slot`, PRRTE 3 puts all ranks on the first node
        settings["PRTE_MCA_rmaps_default_mapping_policy"] = "slot:oversubscribe"
    return settings


def without_cma() -> tuple[Variable, ...]:
    # Open MPI 4.1 would hang on large messages. Version 5 copies twice by itself.
    return (Variable("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),)


def server(nodes: Sequence[str], jobs: Mapping[str, str]) -> tuple[Variable, ...]:
    """Return the variables by which Open MPI 4 finds its server under the host's Open MPI 5 (its schizo/slurm). Without
    them, a rank is rank 0 of 1. `jobs` are the ids of the jobs around it."""
    job = jobs.get("SLURM_JOB_ID", "0")
    values = {"SLURM_JOBID": job, "SLURM_STEP_ID": "0", "SLURM_NODELIST": ",".join(nodes)}
    return tuple(Variable(name, value) for name, value in values.items())
