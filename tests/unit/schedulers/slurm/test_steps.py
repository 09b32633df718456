"""Slurm's words in front of a step."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from mnrun.errors import Impossible
from mnrun.jobspec import Variable
from mnrun.model import NODES, Layout, Listed, Plan, Site, Where
from mnrun.planning import plan
from mnrun.schedulers.slurm import steps, variables
from mnrun.schedulers.slurm.details import Details
from unit.samples import SITE, job_spec, make, recorded
from unit.texts import Refused


def outside(*ranks: int, **wanted: object) -> Plan:
    words = {
        "command": ("./app",),
        "image": "/app.sif",
        "mode": "outside-in",
        "launcher": "srun",
        "mpi": "pmix",
        **wanted,
    }
    return make(job_spec(**words), *ranks)


# the request, ranks, the job's GPUs on each node -> the GPUs of every step
SHAPES: dict[str, tuple[dict[str, object], tuple[int, ...], tuple[int, ...], str]] = {
    "even": ({}, (2, 2, 2), (0, 0, 0), ""),
    "uneven": ({}, (2, 2, 1), (0, 0, 0), ""),
    "one node": ({}, (8,), (4,), "gpu:4"),
    "GPUs held": ({}, (2, 2), (4, 4), "gpu:4"),
    "GPUs asked for": ({"gpus_per_node": "a100:2"}, (2, 2), (4, 4), "gpu:a100:2"),
    "GPUs of two types": ({"gpus_per_node": "a100:1,h100:2"}, (1,), (3,), "gpu:a100:1,gpu:h100:2"),
    "hidden": ({"no_gpu": True}, (2, 2), (2, 4), "none"),
    "other resources asked for": ({"gres": "gpu:1,tmp:2"}, (1, 1), (4, 4), "gpu:1,tmp:2"),
    "GPUs by number, and others": ({"gres": "tmp:2", "gpus_per_node": "1"}, (1, 1), (4, 4), "gpu:1,tmp:2"),
    "other resources beside the GPUs of the job": ({"gres": "tmp:2"}, (1, 1), (4, 4), "gpu:4,tmp:2"),
    "other resources and no GPU": ({"gres": "tmp:2", "no_gpu": True}, (1, 1), (4, 4), "tmp:2"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_which_nodes_how_many_tasks_with_which_gpus(shape: str) -> None:
    wanted, ranks, gpus, gres = SHAPES[shape]
    count = len(ranks)
    nodes = f"node[01-{count:02}]" if count > 1 else "node01"
    words = {
        Where.HEAD: "--nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist=node01",
        Where.ALL: f"--nodes={count} --ntasks={count} --ntasks-per-node=1 --nodelist={nodes}",
        Where.RANKS: f"--nodes={count} --ntasks={sum(ranks)} --ntasks-per-node={ranks[0]} --nodelist={nodes}",
    }
    if shape == "uneven":
        words[Where.RANKS] = "--ntasks=5 --distribution=arbitrary --nodelist=node[01-02]*2,node03*1"
    names = [f"node{number:02}" for number in range(1, count + 1)]
    site = Site("slurm", "7", Details((24, 11)), gpus=dict(zip(names, gpus)))
    for where, expected in words.items():
        said = steps.srun(where, outside(*ranks, **wanted), site)
        assert " ".join(said[3 : said.index("--mem=0")]) == expected + (f" --gres={gres}" if gres else "")


def test_what_stands_around_the_shape() -> None:
    job = outside(2, 2)
    start, after = ("srun", "--quiet", "--overlap"), ("--mem=0", "--cpu-bind=none", "--gpu-bind=none")
    for where, rest in {
        Where.HEAD: ("--mpi=none", "--input=0", "--export=ALL", "--chdir=/", "--kill-on-bad-exit=0", "--wait=0"),
        Where.ALL: ("--mpi=none", "--input=all", "--export=ALL", "--chdir=/", "--kill-on-bad-exit=0", "--wait=0"),
        Where.RANKS: ("--mpi=pmix", "--input=0", "--export=ALL", "--chdir=/", "--kill-on-bad-exit=1", "--wait=0"),
    }.items():
        said = steps.srun(where, job, SITE)
        assert said[:3] == start
        assert said[said.index("--mem=0") :] == (*after, *rest)


def test_only_ranks_are_bound_to_gpus() -> None:
    job = outside(2, 2, gpu_bind="closest")
    assert [f"--gpu-bind={how}" in steps.srun(where, job, SITE) for where, how in (
        (Where.HEAD, "none"), (Where.ALL, "none"), (Where.RANKS, "closest"),
    )] == [True] * 3  # fmt: skip


def test_ranks_with_everything_asked_for() -> None:
    """The user's own words come last, so that they are believed."""
    job = outside(2, 2, mpi="pmi2", cpus_per_task=2, bind_to="core", mpi_args=("--distribution=cyclic",))
    job = job._replace(layout=replace(job.layout, overcommit=True))
    assert steps.srun(Where.RANKS, job, Site("slurm", "7", Details((24, 11)))) == (
        *("srun", "--quiet", "--overlap", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2"),
        *("--nodelist=node[01-02]", "--mem=0", "--cpu-bind=cores", "--gpu-bind=none", "--mpi=pmi2", "--input=0"),
        *("--export=ALL", "--chdir=/", "--kill-on-bad-exit=1", "--wait=0", "--cpus-per-task=2"),
        *("--overcommit", "--distribution=cyclic"),
    )


def test_names_whose_last_part_is_alike() -> None:
    """Slurm 22.05 refuses r1i[0-1]n0."""
    assert "--nodelist=r1i0n0,r1i1n0" in steps.once_each(("r1i0n0", "r1i1n0"), 0)


def test_before_anyone_holds_nodes() -> None:
    words = {"command": ("./app",), "image": "/app.sif", "mode": "outside-in", "launcher": "srun", "mpi": "pmix"}
    paper = plan.make(job_spec(**words), Layout((), (2, 2, 1)), "JOB-abcdef")
    for where, shape in {
        Where.HEAD: ("--nodes=1", "--ntasks=1", "--ntasks-per-node=1", f"--nodelist={steps.HEAD}"),
        Where.ALL: ("--nodes=3", "--ntasks=3", "--ntasks-per-node=1", f"--nodelist={NODES}"),
        Where.RANKS: ("--ntasks=5", "--distribution=arbitrary", f"--nodelist={steps.EACH}"),
    }.items():
        assert steps.srun(where, paper, SITE)[3 : 3 + len(shape)] == shape


UNEVEN = Site("slurm", "87", Details((24, 11)), gpus={"node01": 3, "node02": 1, "node03": 1})


def test_a_serving_step_holds_all_gpus_where_nodes_have_different_numbers() -> None:
    """`salloc -N3 --gpus=5`: Slurm gives a step the same number on each node or some to each task; kit.BOOT
    lets all but one task on each node leave at once."""
    said = steps.srun(Where.ALL, outside(3, 1, 1), UNEVEN)
    shape = [word for word in said[3 : said.index("--mem=0")] if word != "--overcommit"]
    assert shape == [
        *("--ntasks=5", "--distribution=arbitrary", "--nodelist=node01*3,node[02-03]*1"),
        "--gpus-per-task=1",
    ]


def test_a_serving_step_may_have_more_tasks_than_the_job_has_cpus() -> None:
    assert "--overcommit" in steps.srun(Where.ALL, outside(3, 1, 1), UNEVEN)


def test_ranks_say_which_gpus_also_where_nodes_have_different_numbers() -> None:
    said = steps.srun(Where.RANKS, outside(3, 1, 1), UNEVEN)
    assert [word for word in said if word.startswith(("--gres=", "--gpus"))]


def test_other_resources_do_not_take_the_gpus_where_nodes_have_different_numbers() -> None:
    for ranks in ((3, 1, 1), (1, 1, 1)):
        said = steps.srun(Where.RANKS, outside(*ranks, gres="nvme:1"), UNEVEN)
        assert said == steps.srun(Where.RANKS, outside(*ranks), UNEVEN)


@pytest.mark.parametrize(
    ("version", "absent"),
    [((24, 11), set()), ((21, 8), set()), ((20, 11), {"--gpu-bind=none"}), ((20, 2), {"--gpu-bind=none", "--overlap"})],
)
@pytest.mark.parametrize("where", [Where.HEAD, Where.ALL, Where.RANKS])
def test_flags_are_written_only_where_the_version_has_them(
    where: Where, version: tuple[int, int], absent: set[str]
) -> None:
    """An srun that does not know a word refuses the whole step."""
    job = outside(2, 2)
    newest = steps.srun(where, job, SITE)
    assert steps.srun(where, job, Site("slurm", "7", Details(version))) == tuple(w for w in newest if w not in absent)


@pytest.mark.parametrize(
    ("bind_to", "word"),
    [
        *(("", "none"), ("none", "none"), ("core", "cores"), ("socket", "sockets"), ("hwthread", "threads")),
        ("rank", "rank"),
    ],
)
def test_binding_in_slurms_words(bind_to: str, word: str) -> None:
    """--bind-to is mpirun's word; srun calls the same units otherwise. Only ranks are bound."""
    job = outside(2, bind_to=bind_to)
    assert f"--cpu-bind={word}" in steps.srun(Where.RANKS, job, SITE)
    assert "--cpu-bind=none" in steps.srun(Where.ALL, job, SITE)


@pytest.mark.parametrize(
    ("ranks", "text"),
    [((1,), "1"), ((2, 2, 2, 1), "2(x3),1"), ((4, 1, 1, 1), "4,1(x3)"), ((1, 2, 1), "1,2,1"), ((8,) * 64, "8(x64)")],
)
def test_tasks_per_node(ranks: tuple[int, ...], text: str) -> None:
    assert variables.tasks_per_node(ranks) == text


def test_what_the_hosts_mpirun_must_see() -> None:
    site = Site("slurm", "7", Details((24, 11), "--external-launcher"))
    found = steps.launch_environment(outside(2, 2, 1, launcher="mpirun"), site)
    assert {v.name: v.value for v in found if v.value is not None} == {
        "SLURM_JOBID": "7",
        "SLURM_JOB_ID": "7",
        "SLURM_NODELIST": "node[01-03]",
        "SLURM_JOB_NODELIST": "node[01-03]",
        "SLURM_NNODES": "3",
        "SLURM_JOB_NUM_NODES": "3",
        "SLURM_NTASKS": "5",
        "SLURM_NPROCS": "5",
        "SLURM_TASKS_PER_NODE": "2(x2),1",
        "SLURM_OVERLAP": "1",
        "SLURM_MEM_PER_NODE": "0",
        "PRTE_MCA_plm_slurm_args": "--external-launcher",
        "OMPI_MCA_plm_slurm_args": "--external-launcher",
    }
    gone = {v.name for v in found if v.value is None}
    assert {"SLURM_STEP_ID", "SLURM_CPU_BIND", "SLURM_TRES_PER_TASK", "SLURM_GPUS_PER_NODE"} <= gone


def test_mpiruns_daemons_have_the_same_gpus_as_our_steps() -> None:
    """Their srun is PRRTE's own: it hears of GPUs by its environment alone."""
    site = Site("slurm", "7", Details((24, 11)), gpus={"node01": 4, "node02": 4})
    for asked, gpus in (("", "4"), ("2", "2"), ("a100:2", "a100:2")):
        found = steps.launch_environment(outside(2, 2, launcher="mpirun", gpus_per_node=asked), site)
        assert Variable("SLURM_GPUS_PER_NODE", gpus) in found
        assert Variable("SLURM_GPUS_PER_NODE", None) not in found
    for gres, gpus in (("gpu", "1"), ("gpu:2,nvme:1", "2"), ("gpu:a100:1,gres/gpu:h100:2", "a100:1,h100:2")):
        found = steps.launch_environment(outside(2, 2, launcher="mpirun", gres=gres), site)
        assert Variable("SLURM_GPUS_PER_NODE", gpus) in found


def test_a_real_jobs_environment_shapes_no_step_of_ours() -> None:
    _, environ = recorded("in_step")
    kept = steps.client_environment(
        {**environ, "PATH": "/bin", "SLURM_CPU_BIND": "none"}, outside(1, launcher="mpirun")
    )
    assert kept == {
        "HYDRA_BOOTSTRAP": "slurm",
        "HYDRA_LAUNCHER_EXTRA_ARGS": "--external-launcher",
        "I_MPI_HYDRA_BOOTSTRAP": "slurm",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "--external-launcher",
        "OMPI_MCA_plm_slurm_args": "--external-launcher",
        "PATH": "/bin",
        "PRTE_MCA_plm_slurm_args": "--external-launcher",
        "SLURMD_DEBUG": "2",
        "SLURMD_NODENAME": "node01",
        "SLURM_CLUSTER_NAME": "mnrun",
        "SLURM_CONF": "/etc/slurm/slurm.conf",
        "SLURM_JOBID": "94",
        "SLURM_JOB_ID": "94",
    }


@pytest.mark.parametrize(
    ("wanted", "fence"),
    [
        ({"launcher": "srun", "mpi": "pmix"}, "ring"),
        ({"launcher": "srun", "mpi": "pmi2"}, None),
        ({"launcher": "mpirun", "mpi": "auto"}, None),
    ],
)
def test_the_fence_that_open_mpi_needs_under_pmix(wanted: dict[str, str], fence: str | None) -> None:
    assert steps.client_environment({}, outside(2, 2, **wanted)).get("SLURM_PMIX_FENCE") == fence


def uneven(nodes: int, each: int) -> Plan:
    return outside(*(each,) * (nodes - 1), each - 1)


@pytest.mark.parametrize(("nodes", "each"), [(128, 128), (4000, 65)])
def test_uneven_ranks_of_many_nodes(nodes: int, each: int) -> None:
    """B2: Linux takes no word longer than 131072 bytes; every rank's node stands in a file."""
    said = steps.srun(Where.RANKS, uneven(nodes, each), SITE)
    assert max(map(len, said)) < 1000
    (listed,) = [word for word in said if isinstance(word, Listed)]
    names = listed.text.replace(",", "").splitlines()
    assert (len(names), names[0], names[-1]) == (nodes * each - 1, "node01", f"node{nodes:02}")
    assert Counter(names)[f"node{nodes:02}"] == each - 1


def test_more_uneven_ranks_than_srun_takes(refused: Refused) -> None:
    """B2: `srun: fatal: _parse_range_list: Too many ranges`, on a real one with a list of 512000."""
    with refused(Impossible):
        steps.srun(Where.RANKS, uneven(4000, 128), SITE)
    assert "--ntasks=512000" in steps.srun(Where.RANKS, outside(*(128,) * 4000), SITE)


def test_a_serving_step_with_uneven_gpus_of_many_nodes() -> None:
    """B2: as many tasks as GPUs, whose nodes are listed as those of ranks."""
    gpus = {f"node{number:02}": 8 - (number == 4000) for number in range(1, 4001)}
    said = steps.srun(Where.ALL, outside(*(1,) * 4000), SITE._replace(gpus=gpus))
    (listed,) = [word for word in said if isinstance(word, Listed)]
    assert (max(map(len, said)) < 1000, len(listed.text.splitlines())) == (True, 31999)
