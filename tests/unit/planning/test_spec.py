"""Options and a command to a JobSpec: what is made of them, and what is refused before any cluster is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mnrun.config import layers
from mnrun.errors import Impossible, LaunchError, UsageError
from mnrun.jobspec import JobSpec, Mount, Variable
from mnrun.planning import spec
from mnrun.planning.values import Surroundings
from mnrun.runtimes import RUNTIMES, SHUT_IN
from unit.cases import Cases, given
from unit.samples import build, job_spec, make, setting
from unit.texts import Refused


def refusal(*command: str, **given: Any) -> LaunchError:
    with pytest.raises(LaunchError) as wrong:
        build(*command, **given)
    return wrong.value


def test_a_maximal_job() -> None:
    same: dict[str, Any] = {
        **{"gpus_per_node": "a100:4", "nodelist": "node[01-04]", "exclude": "node07", "mode": "outside-in"},
        **{"launcher": "srun", "mpi": "pmix", "mpi_args": ("--distribution=cyclic",), "bind_to": "core"},
        **{"ports": "3000-4000", "image_cache": "/home/alice/.mnrun/cache", "stage_dir": "/var/tmp"},
        **{"stage_limit": "20%", "keep": True, "force": True, "local": True},
    }
    given: dict[str, Any] = {
        **{"nodes": "4", "ntasks": "14", "ntasks_per_node": "4", "cpus_per_task": "2", "chdir": "sub"},
        **{"bind": ("/data", "in:/in:ro"), "env": ("TOKEN", "A=b=c"), "env_file": ("a.env",), "container_per": "rank"},
        **{"container_args": ("--writable-tmpfs --no-mount 'a b'",), "start_timeout": "5m", "job_dir": "records"},
    }
    environ = {"TOKEN": "secret", "SLURM_JOB_ID": "7", "SLURM_PROCID": "3"}
    job = build("python", "train.py", environ=environ, env_files={"a.env": "X=1\n"}, **same, **given)
    env = {"SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "2", "PYTHONNOUSERSITE": "1", "X": "1", "TOKEN": "secret"}
    explicit = (Variable("TOKEN", "secret"), Variable("A", "b=c"))
    assert job._replace(origins={}, word_origins={}) == job_spec(
        **{"command": ("python", "train.py"), "image": "/home/alice/run/app.sif", "per": "rank", "timeout": 300},
        **{"args": ("--writable-tmpfs", "--no-mount", "a b"), "home": "/home/alice", "cwd": "/home/alice/run"},
        **{"binds": (Mount("/data", "/data"), Mount("/home/alice/run/in", "/in", "ro"))},
        **{"env": (*(Variable(*pair) for pair in env.items()), Variable("A", "b=c")), "explicit": explicit},
        **{"forwarded": ("X", "TOKEN", "A"), "env_files": ("/home/alice/run/a.env",), "chdir": "/home/alice/run/sub"},
        **{"nodes": 4, "ntasks": 14, "ntasks_per_node": 4, "cpus_per_task": 2, "job_dir": "/home/alice/run/records"},
        **same,
    )


def test_what_becomes_of_options(cases: Cases) -> None:
    """Paths are made absolute here, since nodes do not share our current directory. mpirun's own default would put each
    rank, and its threads, on one core."""
    parts: dict[str, Callable[[JobSpec], str]] = {
        "image": lambda job: job.container.image_name,
        "binds": lambda job: " ".join(map(str, job.container.binds)),
        "launcher": lambda job: job.start.launcher,
        "nodelist": lambda job: job.resources.nodelist,
        "binding": lambda job: make(job, 4).spec.start.bind_to,
        "mnrun": lambda job: job.batch.mnrun,
        "records": lambda job: job.job_dir,
    }
    cases(lambda options, part: parts[part](build("./app", **given(options))))


@pytest.mark.parametrize(
    "words", ["", ":/in", "/data:in", "/data:/in:nosuid", "/a,/b", "/a:/x,/b:/y", "/a\n", "/a\r", "2:8"]
)
def test_a_bind_that_is_none(refused: Refused, words: str) -> None:
    with refused(UsageError):
        build("./app", bind=(words,))


def test_home_is_mounted_unless_not_wanted() -> None:
    assert build("./app", no_home=True).container.home == ""
    assert build("./app", no_home=True).program.env == ()
    assert build("./app", environ={"PYTHONNOUSERSITE": ""}).program.env == (Variable("PYTHONNOUSERSITE", ""),)


def test_variables_of_the_job_come_back_to_the_ranks() -> None:
    environ = {
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NAME": "a name",
        "SLURM_ARRAY_TASK_ID": "3",
        "SLURM_RESTART_COUNT": "1",
        "SLURM_JOB_END_TIME": "1795239123",
        "SLURM_SUBMIT_DIR": "/home/alice",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NTASKS": "8",
        "SLURM_JOB_NODELIST": "node[01-02]",
        "PATH": "/bin",
    }
    assert {variable.name for variable in build("./app", no_home=True, environ=environ).program.env} == {
        *("SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_ARRAY_TASK_ID"),
        *("SLURM_RESTART_COUNT", "SLURM_JOB_END_TIME", "SLURM_SUBMIT_DIR"),
    }


@pytest.mark.parametrize(("array", "number"), [("2+5+9%2", "5"), ("0-9", "1"), ("", "2")])
@pytest.mark.parametrize("name", ["SGE_TASK_ID", "LSB_JOBINDEX"])
def test_ranks_see_the_number_of_their_task(name: str, array: str, number: str) -> None:
    """The scheduler has its position. An array of the user's own script has no list of ours."""
    environ = {name: "2", **({"MNRUN_JOB_ARRAY": array} if array else {})}
    (found,) = build("./app", no_home=True, environ=environ).program.env
    assert (found.name, found.value) == (name, number)


def test_the_last_word_on_a_variable_counts() -> None:
    job = build(
        "./app",
        no_home=True,
        environ={"C": "here"},
        env_files={"f": "A=file\nB=file\n"},
        env_file=("f",),
        env=("A=1", "C", "A=2"),
    )
    assert job.program.env == (Variable("A", "2"), Variable("B", "file"), Variable("C", "here"))


def test_a_layers_variables_and_files_stay_in_its_place() -> None:
    site = {"env": setting(("A=site", "B=site", "!C"), "profile here"), "env_file": setting(("f",), "profile here")}
    job = {"env_file": setting(("g",), "job.toml")}
    line = layers.from_command_line({"image": "app.sif", "env": ("D=line",)})
    around = Surroundings("/run", "", {}, {"f": "B=f\nE=f\n", "g": "A=g\nC=g\nD=g\nE=g\n"})
    program = spec.build(layers.merge(layers.builtin(), site, job, line), ("./app",), around).program
    assert {v.name: v.value for v in program.env} == {"A": "g", "B": "site", "C": "g", "D": "line", "E": "g"}
    assert [(v.name, v.value) for v in program.explicit] == [("B", "site"), ("D", "line")]


@pytest.mark.parametrize("word", ["=x", "A-B=x", "1A=x", "A\n=x", "UID=1000", "mnrun_rank=3", "node03"])
def test_a_variable_that_is_none(refused: Refused, word: str) -> None:
    with refused(UsageError):
        build("./app", env=(word,))


def test_a_variable_that_only_the_job_will_have(refused: Refused) -> None:
    assert batch("CUDA_HOME", "job.toml line 3").program.env == (Variable("CUDA_HOME", "", inherited=True),)
    assert batch("CUDA_HOME", "command line", module=("cuda",)).program.env == (
        Variable("CUDA_HOME", "", inherited=True),
    )
    with refused(UsageError):
        batch("node03", "command line")


def batch(word: str, origin: str, **given: object) -> JobSpec:
    said = layers.from_command_line({"image": "app.sif", "no_home": True, **given})
    merged = {**layers.merge(layers.builtin(), said), "env": setting((word,), origin)}
    return spec.build(merged, ["./app"], Surroundings("/run", "/home/alice", {}, {}, batch=True))


def test_a_file_that_names_an_unset_variable_is_named() -> None:
    said = str(refusal("./app", env_files={"job.env": "A=1\nNOT_SET\n"}, env_file=("job.env",)))
    assert said.startswith("--env-file job.env")
    assert "NOT_SET" in said
    assert "--exclude" not in said


@pytest.mark.parametrize("word", ["mpirun", "mpiexec", "prterun", "srun", "/opt/bin/mpirun", "mpiexec.hydra"])
def test_a_command_that_starts_its_own_ranks_runs_once(word: str) -> None:
    """People's habit: `mnrun … mpirun ./app` is never one mpirun per rank."""
    assert build(word, "-n", "4", "./app").program.once


@pytest.mark.parametrize("word", ["./app", "mpirun.sh", "my-mpirun", "python"])
def test_any_other_command_is_every_rank(word: str) -> None:
    assert not build(word).program.once


def test_a_script_is_found_from_here_and_takes_the_words() -> None:
    job = build("one", "two words", script="bin/job.sh")
    assert (job.program.script, job.program.command) == ("/home/alice/run/bin/job.sh", ("one", "two words"))
    assert build(script="/job.sh").program.command == ()


def test_what_is_left_to_us_of_who_starts_the_ranks() -> None:
    """auto, whoever says it; srun is outside-in by itself."""
    assert build("./app").start.undecided == ("mode", "launcher", "mpi")
    assert build("./app", mode="auto", launcher="srun").start.undecided == ("mode", "mpi")
    assert build("./app", launcher="srun").start.mode == build("./app", mpi="pmi2").start.mode == "outside-in"
    assert build("./app", mode="outside-in", mpi="mpich").start.undecided == ()
    assert build("./app", launcher="env").start.undecided == ()


def test_torchrun_is_a_starter_of_its_own() -> None:
    assert build("/usr/local/bin/torchrun", "train.py").start.launcher == "torchrun"
    assert build("torchrun", "train.py", launcher="env").start.launcher == "env"
    assert "LOCAL_RANK in the program" in str(refusal("train.py", launcher="torchrun", gpu_bind="single:1"))
    assert "see all of their node's GPUs" in str(refusal("train.py", launcher="ray", gpu_bind="single:1"))


def test_a_variable_that_is_taken_away() -> None:
    job = build("./app", env=("A=1", "!A", "!PYTHONNOUSERSITE", "!HOST", "B=1"), environ={"HOST": "x"})
    assert {v.name: v.value for v in job.program.env} == {"A": None, "PYTHONNOUSERSITE": None, "HOST": None, "B": "1"}
    assert job.program.forwarded == ("B",)


def test_a_variable_that_a_job_file_passes_on_and_nobody_set(refused: Refused) -> None:
    merged = layers.merge(
        layers.builtin(), {"image": setting("/a.sif", "x"), "env": setting(("TOKEN",), "job.toml line 7")}
    )
    with refused(UsageError):
        spec.build(merged, ("./app",), Surroundings("/", "/home/alice", {}, {}))


def test_gpus_are_hidden() -> None:
    """Ranks cannot find any; what a site says of GPUs below is of no matter."""
    site = {"gpus_per_node": setting("4", "profile here"), "nv": setting(True, "profile here")}
    words = layers.from_command_line({"image": "app.sif", "no_gpu": True})
    job = spec.build(layers.merge(layers.builtin(), site, words), ("./app",), Surroundings("/run", "/home/a", {}, {}))
    assert (job.resources.no_gpu, job.resources.gpus_per_node, job.container.nv, job.start.bind_to) == (
        True,
        "",
        False,
        "",
    )
    assert [v.value for v in job.program.env if v.name.endswith("_VISIBLE_DEVICES")] == ["-1"] * 3


@pytest.mark.parametrize(
    "given", [{"gres": "gpu:2"}, {"gpus_per_node": "2"}, {"gpu_bind": "per_task:1"}, {"nv": True}, {"gpus": "2"}]
)
def test_gpus_are_not_hidden_and_asked_for(refused: Refused, given: dict[str, Any]) -> None:
    with refused(UsageError):
        build("./app", no_gpu=True, **given)
    assert build("./app", no_gpu=True, gres="tmp:1").resources.gres == "tmp:1"


def test_other_resources_stay_without_gpus() -> None:
    site = {"gres": setting("gpu:2,tmp:1", "profile here")}
    settings = layers.merge(layers.builtin(), site, layers.from_command_line({"image": "a.sif", "no_gpu": True}))
    job = spec.build(settings, ("./app",), Surroundings("/run", "/home/a", {}, {}))
    assert job.resources.gres == "tmp:1"


@pytest.mark.parametrize("bind", ["verbose,closest", "map_gpu:0,1", "per_task", "single:0"])
def test_what_only_srun_can_bind(refused: Refused, bind: str) -> None:
    with refused(Impossible):
        build("./app", gpu_bind=bind)
    assert build("./app", gpu_bind=bind, mode="outside-in", launcher="srun").resources.gpu_bind == bind


@pytest.mark.parametrize("option", ["privileged", "hardened"])
@pytest.mark.parametrize("runtime", ["apptainer", "charliecloud", "host"])
def test_rights_are_of_docker_and_podman(refused: Refused, option: str, runtime: str) -> None:
    """Elsewhere nothing would come of them."""
    given: dict[str, Any] = {option: True}
    with refused(Impossible):
        build("./app", **given, runtime=runtime)
    assert build("./app", **given, runtime="podman").value(option)


SHUT = [
    ("podman", {"hardened": True}),
    *((runtime, {"no_home": True}) for runtime in RUNTIMES if RUNTIMES[runtime].CONTAINED),
    *((runtime, {"container_args": (word,)}) for runtime, words in SHUT_IN.items() for word in sorted(words)),
]


@pytest.mark.parametrize(("runtime", "option"), SHUT, ids=lambda value: str(value))
def test_nothing_is_shut_in_by_what_the_node_starts(refused: Refused, runtime: str, option: dict[str, Any]) -> None:
    """F2: a rank tells mpirun or srun what to start (MPI_Comm_spawn), and these are on the node."""
    given: dict[str, Any] = {"runtime": runtime, **option}
    with refused(Impossible):
        build("./app", **given, mode="outside-in")
    forced = build("./app", **given, mode="outside-in", force=True)
    assert forced.container == build("./app", **given).container


def test_other_words_of_a_runtime_go_outside_in() -> None:
    """For docker, -c is the weight of its CPUs. Without a container, --no-home keeps nothing out."""
    assert build("./app", runtime="docker", container_args=("-c", "512"), mode="outside-in")
    assert build("./app", runtime="host", no_home=True, mode="outside-in")


def test_rights_of_a_runtime_that_is_added(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUNTIMES, "invented", RUNTIMES["docker"])
    with refused(Impossible):
        build("./app", privileged=True)


def test_modules_are_not_the_hosts(refused: Refused) -> None:
    with refused(Impossible):
        build("./app", module=["apptainer"], hosts="n1")
    merged = layers.merge(
        layers.builtin(),
        {"module": setting(("apptainer",), "profile here")},
        layers.from_command_line({"image": "app.sif", "hosts": "n1"}),
    )
    job = spec.build(merged, ("./app",), Surroundings("/home/alice/run", "/home/alice", {}, {}))
    said = "module load apptainer: not done, since it would change only this machine"
    assert said in make(job, 1).notes


def test_a_directory_behind_a_link(cases: Cases) -> None:
    """F2: what a link in a mounted directory leads to is mounted, too. No mount hides a link behind it."""
    links = {
        "/home/alice/scratch": "/scratch/alice",
        "/scratch/alice": "/lustre/alice",
        "/home/alice/inner": "data",
        "/home/alice/relative": "../data",
        "/home/alice/loop": "loop",
        "/home/alice": "/export/alice",
        "/proj/link": "/elsewhere",
        "/shared/link": "/elsewhere",
    }

    def there(path: str) -> str:
        around = Surroundings(path, "/home/alice", {}, {}, link=lambda name: links.get(name, ""))
        return around.behind_links(path, ["/home/alice", "/shared"])

    cases(there)
