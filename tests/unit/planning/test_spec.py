"""Options and a command to a JobSpec: what is made of them, and what is refused before any cluster is asked."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mnrun.config import layers
from mnrun.errors import Impossible, LaunchError, UsageError
from mnrun.jobspec import JobSpec, Mount, Variable
from mnrun.planning import spec, values
from mnrun.planning.values import Surroundings
from mnrun.runtimes import RUNTIMES
from unit.samples import build, job_spec, make, setting


def refusal(*command: str, **given: Any) -> LaunchError:
    with pytest.raises(LaunchError) as wrong:
        build(*command, **given)
    return wrong.value


def test_a_minimal_job() -> None:
    """An image and a command are enough; everything else has a default."""
    job = dataclasses.replace(build("./app", "-n", "2"), origins={})
    assert job == job_spec(
        command=("./app", "-n", "2"),
        image="/home/alice/run/app.sif",
        home="/home/alice",
        cwd="/home/alice/run",
        chdir="/home/alice/run",
        env=(Variable("PYTHONNOUSERSITE", "1"),),
        launcher="mpirun",
        undecided=("mode", "launcher", "mpi"),
        image_cache="/home/alice/.mnrun/cache",
        stage_dir="/var/tmp",
        stage_limit="20%",
        job_dir="/home/alice/.mnrun/jobs",
    )


def test_a_maximal_job() -> None:
    """Every option has its place."""
    job = build(
        "python",
        "train.py",
        environ={"TOKEN": "secret", "SLURM_JOB_ID": "7", "SLURM_PROCID": "3"},
        env_files={"a.env": "X=1\n"},
        nodes="4",
        ntasks="14",
        ntasks_per_node="4",
        cpus_per_task="2",
        gpus_per_node="a100:4",
        nodelist="node[01-04]",
        exclude="node07",
        bind=("/data", "in:/in:ro"),
        chdir="sub",
        env=("TOKEN", "A=b=c"),
        env_file=("a.env",),
        container_args=("--writable-tmpfs --no-mount 'a b'",),
        container_per="rank",
        mode="outside-in",
        launcher="srun",
        mpi="pmix",
        mpi_args=("--distribution=cyclic",),
        bind_to="core",
        ports="3000-4000",
        start_timeout="5m",
        image_cache="/home/alice/.mnrun/cache",
        stage_dir="/var/tmp",
        stage_limit="20%",
        job_dir="records",
        keep=True,
        force=True,
        local=True,
    )
    assert dataclasses.replace(job, origins={}) == job_spec(
        command=("python", "train.py"),
        mode="outside-in",
        image="/home/alice/run/app.sif",
        args=("--writable-tmpfs", "--no-mount", "a b"),
        per="rank",
        binds=(Mount("/data", "/data"), Mount("/home/alice/run/in", "/in", "ro")),
        home="/home/alice",
        cwd="/home/alice/run",
        chdir="/home/alice/run/sub",
        env=(
            Variable("SLURM_JOB_ID", "7"),
            Variable("SLURM_CPUS_PER_TASK", "2"),
            Variable("PYTHONNOUSERSITE", "1"),
            Variable("X", "1"),
            Variable("TOKEN", "secret"),
            Variable("A", "b=c"),
        ),
        forwarded=("X", "TOKEN", "A"),
        explicit=(Variable("TOKEN", "secret"), Variable("A", "b=c")),
        env_files=("/home/alice/run/a.env",),
        launcher="srun",
        mpi="pmix",
        mpi_args=("--distribution=cyclic",),
        bind_to="core",
        nodes=4,
        ntasks=14,
        ntasks_per_node=4,
        cpus_per_task=2,
        gpus_per_node="a100:4",
        nodelist="node[01-04]",
        exclude="node07",
        local=True,
        ports="3000-4000",
        timeout=300,
        keep=True,
        force=True,
        image_cache="/home/alice/.mnrun/cache",
        stage_dir="/var/tmp",
        stage_limit="20%",
        job_dir="/home/alice/run/records",
    )


def test_the_origin_of_every_value_is_kept() -> None:
    """`plan` can say who decided what."""
    origins = build("./app", nodes="2").origins
    assert {name: str(origins[name]) for name in ("nodes", "image", "mode")} == {
        "nodes": "command line",
        "image": "command line",
        "mode": "built-in",
    }


@pytest.mark.parametrize(
    ("given", "image"),
    [
        ({"image": "/images/a b.sif"}, "/images/a b.sif"),
        ({"image": "../app.sif"}, "/home/alice/app.sif"),
        ({"image": "./tree/"}, "/home/alice/run/tree"),
        ({"image": "app.sif", "runtime": "host"}, ""),
    ],
)
def test_the_image_is_found_from_where_mnrun_was_called(given: dict[str, Any], image: str) -> None:
    """Nodes do not share our current directory, so that a path is made absolute here; host has no image."""
    assert build("./app", **given).container.image_name == image


@pytest.mark.parametrize(
    ("words", "mount"),
    [
        ("/data", Mount("/data", "/data")),
        ("/data:/in", Mount("/data", "/in")),
        ("/data:/in:ro", Mount("/data", "/in", "ro")),
        ("/data::ro", Mount("/data", "/data", "ro")),
        ("/data:", Mount("/data", "/data")),
        ("sub/../in", Mount("/home/alice/run/in", "/home/alice/run/in")),
        ("/with blank:/über", Mount("/with blank", "/über")),
    ],
)
def test_a_bind_is_source_target_options(words: str, mount: Mount) -> None:
    """As Apptainer and Docker spell it; a relative source is ours, a target is absolute."""
    assert build("./app", bind=(words,)).container.binds == (mount,)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "--bind '' is not SRC[:DST[:ro|rw]] with an absolute DST"),
        (":/in", "--bind ':/in' is not SRC[:DST[:ro|rw]] with an absolute DST"),
        ("/data:in", "--bind '/data:in' is not SRC[:DST[:ro|rw]] with an absolute DST"),
        ("/data:/in:nosuid", "--bind '/data:/in:nosuid' is not SRC[:DST[:ro|rw]] with an absolute DST"),
        ("/a,/b", "--bind '/a,/b' has a comma or a control character, which the runtimes cannot mount"),
        ("/a\n", "--bind '/a\\n' has a comma or a control character, which the runtimes cannot mount"),
        ("/a\r", "--bind '/a\\r' has a comma or a control character, which the runtimes cannot mount"),
        ("2:8", "--bind '2:8' is not a path; Slurm's -B is --extra-node-info of salloc"),
    ],
)
def test_a_bind_that_is_none(words: str, said: str) -> None:
    """One line with the word itself; `-B 2:8` is a habit from Slurm."""
    assert str(refusal("./app", bind=(words,))) == said


def test_home_is_mounted_unless_not_wanted() -> None:
    """With it ~/.local must not shadow the image's packages; a user's own setting of that wins."""
    assert build("./app", no_home=True).container.home == ""
    assert build("./app", no_home=True).program.env == ()
    assert build("./app", environ={"PYTHONNOUSERSITE": ""}).program.env == (Variable("PYTHONNOUSERSITE", ""),)


def test_variables_of_the_job_come_back_to_the_ranks() -> None:
    """Facts of the job do, those of a step never do."""
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


def test_the_last_word_on_a_variable_counts() -> None:
    """-x is believed over --env-file, and a later -x over an earlier one; each name goes once."""
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
    """A file replaces variables of weaker layers, and a stronger one replaces those of the file. So does the script,
    whose call has the files before the variables."""
    site = {
        "env": setting(("A=site", "B=site", "!C"), "profile here"),
        "env_file": setting(("f",), "profile here"),
    }
    job = {"env_file": setting(("g",), "job.toml")}
    line = layers.from_command_line({"image": "app.sif", "env": ("D=line",)})
    around = Surroundings("/run", "", {}, {"f": "B=f\nE=f\n", "g": "A=g\nC=g\nD=g\nE=g\n"})
    program = spec.build(layers.merge(layers.builtin(), site, job, line), ("./app",), around).program
    assert {v.name: v.value for v in program.env} == {"A": "g", "B": "site", "C": "g", "D": "line", "E": "g"}
    assert [(v.name, v.value) for v in program.explicit] == [("B", "site"), ("D", "line")]


def test_names_that_were_passed_are_listed_once() -> None:
    """ENVLIST of the older scripts is made of them."""
    assert build("./app", env=("A=1", "A=2", "B=3")).program.forwarded == ("A", "B")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("=x", "-x '=…' is not NAME or NAME=VALUE"),
        ("A-B=x", "-x 'A-B=…' is not NAME or NAME=VALUE"),
        ("1A=x", "-x '1A=…' is not NAME or NAME=VALUE"),
        ("A\n=x", "-x 'A\\n=…' is not NAME or NAME=VALUE"),
        ("UID=1000", "-x UID: it is one of the shell's variables, and cannot be set; use another name"),
        ("mnrun_rank=3", "-x mnrun_rank: it is one of mnrun's variables, and cannot be set; use another name"),
        ("node03", "-x node03: there is no variable node03 here; to leave a node out write --exclude node03"),
    ],
)
def test_a_variable_that_is_none(word: str, said: str) -> None:
    """Slurm's -x is --exclude: a name that is unset here is answered with that."""
    assert str(refusal("./app", env=(word,))) == said


def test_a_variable_that_only_the_job_will_have() -> None:
    """A batch job's values are its own: what its modules or its file's lines set need not be here."""
    assert batch("CUDA_HOME", "job.toml line 3").program.env == (Variable("CUDA_HOME", "", inherited=True),)
    assert batch("CUDA_HOME", "command line", module=("cuda",)).program.env == (
        Variable("CUDA_HOME", "", inherited=True),
    )
    with pytest.raises(UsageError, match="-x node03: there is no variable node03 here"):
        batch("node03", "command line")


def batch(word: str, origin: str, **given: object) -> JobSpec:
    said = layers.from_command_line({"image": "app.sif", "no_home": True, **given})
    merged = {**layers.merge(layers.builtin(), said), "env": setting((word,), origin)}
    return spec.build(merged, ["./app"], Surroundings("/run", "/home/alice", {}, {}, batch=True))


def test_a_file_that_names_an_unset_variable_is_named() -> None:
    """The user looks into the file, not at options that were never given."""
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
    """Only the starters' own names count."""
    assert not build(word).program.once


def test_a_script_is_found_from_here_and_takes_the_words() -> None:
    """--script needs no command; what follows are its arguments."""
    job = build("one", "two words", script="bin/job.sh")
    assert (job.program.script, job.program.command) == ("/home/alice/run/bin/job.sh", ("one", "two words"))
    assert build(script="/job.sh").program.command == ()


@pytest.mark.parametrize(
    ("mode", "launcher", "mpi", "chosen"),
    [
        ("auto", "auto", "auto", "mpirun"),
        ("inside-out", "auto", "openmpi", "mpirun"),
        ("inside-out", "mpirun", "mpich", "mpirun"),
        ("outside-in", "auto", "auto", "mpirun"),
        ("outside-in", "mpirun", "openmpi", "mpirun"),
        ("outside-in", "srun", "auto", "srun"),
        ("outside-in", "auto", "pmix", "srun"),
        ("outside-in", "srun", "pmi2", "srun"),
        ("auto", "auto", "pmix", "srun"),
        ("auto", "auto", "mvapich2", "mpirun"),
        ("inside-out", "env", "auto", "env"),
        ("auto", "torchrun", "auto", "torchrun"),
    ],
)
def test_who_starts_the_ranks(mode: str, launcher: str, mpi: str, chosen: str) -> None:
    """Two questions, two options: pmix and pmi2 are srun's words, the others mpirun's."""
    assert build("./app", mode=mode, launcher=launcher, mpi=mpi).start.launcher == chosen


def test_what_is_left_to_us_of_who_starts_the_ranks() -> None:
    """auto, whoever says it; srun is outside-in by itself."""
    assert build("./app").start.undecided == ("mode", "launcher", "mpi")
    assert build("./app", mode="auto", launcher="srun").start.undecided == ("mode", "mpi")
    assert build("./app", launcher="srun").start.mode == build("./app", mpi="pmi2").start.mode == "outside-in"
    assert build("./app", mode="outside-in", mpi="mpich").start.undecided == ()
    assert build("./app", launcher="env").start.undecided == ()


def test_torchrun_is_a_starter_of_its_own() -> None:
    """Asked for by the command alone; what it starts has its node's GPUs."""
    assert build("/usr/local/bin/torchrun", "train.py").start.launcher == "torchrun"
    assert build("torchrun", "train.py", launcher="env").start.launcher == "env"
    assert "LOCAL_RANK in the program" in str(refusal("train.py", launcher="torchrun", gpu_bind="single:1"))


@pytest.mark.parametrize(
    ("mode", "launcher", "mpi", "said"),
    [
        (
            "outside-in",
            "mpirun",
            "pmix",
            "--launcher mpirun and --mpi pmix exclude each other; pmix needs --launcher srun",
        ),
        (
            "outside-in",
            "srun",
            "openmpi",
            "--launcher srun and --mpi openmpi exclude each other; openmpi needs --launcher mpirun",
        ),
        ("inside-out", "srun", "auto", "srun starts ranks from outside the containers; add --mode outside-in"),
        ("inside-out", "auto", "pmi2", "srun starts ranks from outside the containers; add --mode outside-in"),
        ("auto", "env", "mpich", "--launcher env and --mpi mpich exclude each other; env starts ranks without an MPI"),
        (
            "outside-in",
            "torchrun",
            "auto",
            "torchrun starts ranks in containers that wait, which outside-in lacks; use --mode inside-out",
        ),
    ],
)
def test_starters_that_do_not_go_together(mode: str, launcher: str, mpi: str, said: str) -> None:
    """Refused before anything starts, with what would go."""
    wrong = refusal("./app", mode=mode, launcher=launcher, mpi=mpi)
    assert (str(wrong), wrong.code) == (said, Impossible.code)


@pytest.mark.parametrize(
    ("given", "binding"),
    [
        ({}, ""),
        ({"gpus_per_node": "4"}, "none"),
        ({"gres": "gpu:4"}, "none"),
        ({"cpus_per_task": "2"}, "none"),
        ({"cpus_per_task": "2", "bind_to": "core"}, "core"),
        ({"bind_to": "socket"}, "socket"),
    ],
)
def test_binding_is_left_alone_but_with_gpus_or_threads(given: dict[str, Any], binding: str) -> None:
    """mpirun's own default would put each rank, and its threads, on one core."""
    assert build("./app", **given).start.bind_to == binding


@pytest.mark.parametrize(
    ("given", "program"),
    [("~/venv/bin/mnrun", "/home/alice/venv/bin/mnrun"), ("mnrun", "mnrun"), ("/opt/mnrun", "/opt/mnrun")],
)
def test_where_mnrun_is(given: str, program: str) -> None:
    """The batch script quotes it, so that no shell reads its ~. A bare name is looked up on the node's PATH."""
    assert build("./app", mnrun=given).batch.mnrun == program


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({}, "/home/alice/.mnrun/jobs"),
        ({"job_dir": "/scratch/jobs/"}, "/scratch/jobs"),
        ({"job_dir": "jobs"}, "/home/alice/run/jobs"),
        ({"job_dir": "~/jobs"}, "/home/alice/jobs"),
    ],
)
def test_where_records_go(given: dict[str, Any], path: str) -> None:
    """~ means home here too: it may come from a variable, which no shell has read."""
    assert build("./app", **given).job_dir == path


def test_where_podman_keeps_images() -> None:
    """The nodes know no directory of this shell's."""
    assert build("./app", image="ubuntu:24.04", runtime="podman", podman_root="store").container.podman_root == (
        "/home/alice/run/store"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"image": None}, "no image; name one with --image FILE, or run without containers: --runtime host"),
        (
            {"image": "ubuntu"},
            "--image ubuntu is not a file here, and names no registry; write ./ubuntu or docker://ubuntu",
        ),
        ({"gres": "gpu:2", "gpus_per_node": "2"}, "--gpus-per-node, and GPUs in --gres, exclude each other"),
        ({"gpus_per_node": "a100"}, "--gpus-per-node 'a100' is not [TYPE:]NUMBER"),
        ({"gpus_per_node": "a100:"}, "--gpus-per-node 'a100:' is not [TYPE:]NUMBER"),
        ({"gpus_per_node": "-1"}, "--gpus-per-node '-1' is not [TYPE:]NUMBER"),
        ({"gpus_per_node": "a100:3,"}, "--gpus-per-node 'a100:3,' is not [TYPE:]NUMBER"),
        ({"gpus": "a100:3,h100:5"}, "--gpus 'a100:3,h100:5' is not [TYPE:]NUMBER"),
        *(
            (
                {"stage_limit": wrong},
                f"--stage-limit {wrong!r} is not a size; write 50G, or 20% for a share of the disk",
            )
            for wrong in ("50", "0G", "101%", "0%", "G", "1.5T")
        ),
        ({"ports": "22-80"}, "--ports '22-80' is not FROM-TO with 1024 <= FROM <= TO <= 65535"),
        ({"ports": "4000-3000"}, "--ports '4000-3000' is not FROM-TO with 1024 <= FROM <= TO <= 65535"),
        ({"ports": "3000-70000"}, "--ports '3000-70000' is not FROM-TO with 1024 <= FROM <= TO <= 65535"),
        ({"ports": "3000"}, "--ports '3000' is not FROM-TO with 1024 <= FROM <= TO <= 65535"),
    ],
)
def test_what_is_refused_without_asking_a_cluster(given: dict[str, Any], said: str) -> None:
    """One clear line, with the value."""
    assert str(refusal("./app", **given)) == said


def test_no_command() -> None:
    """The commonest mistake gets a whole example."""
    wrong = refusal()
    assert str(wrong) == "no command; write it after the options: mnrun --image app.sif -- ./app"
    assert isinstance(wrong, UsageError)


def test_one_port_is_a_range() -> None:
    """A firewall may let a single one through."""
    assert build("./app", ports="40000-40000").start.ports == "40000-40000"


def test_a_variable_that_is_taken_away() -> None:
    """Also one of ours, and one that the host has; its name is not passed on."""
    job = build("./app", env=("A=1", "!A", "!PYTHONNOUSERSITE", "!HOST", "B=1"), environ={"HOST": "x"})
    assert {v.name: v.value for v in job.program.env} == {"A": None, "PYTHONNOUSERSITE": None, "HOST": None, "B": "1"}
    assert job.program.forwarded == ("B",)


def test_a_variable_that_a_job_file_passes_on_and_nobody_set() -> None:
    """The hint is not that of the command line."""
    merged = layers.merge(
        layers.builtin(), {"image": setting("/a.sif", "x"), "env": setting(("TOKEN",), "job.toml line 7")}
    )
    with pytest.raises(UsageError) as wrong:
        spec.build(merged, ("./app",), Surroundings("/", "/home/alice", {}, {}))
    assert str(wrong.value) == (
        'env.TOKEN: there is no variable TOKEN here (job.toml line 7); set it, or write TOKEN = "VALUE"'
    )


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
def test_gpus_are_not_hidden_and_asked_for(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"--no-gpu and --{next(iter(given)).replace('_', '-')} exclude each other"):
        build("./app", no_gpu=True, **given)
    assert build("./app", no_gpu=True, gres="tmp:1").resources.gres == "tmp:1"


def test_other_resources_stay_without_gpus() -> None:
    """Those that a profile names beside its GPUs."""
    site = {"gres": setting("gpu:2,tmp:1", "profile here")}
    settings = layers.merge(layers.builtin(), site, layers.from_command_line({"image": "a.sif", "no_gpu": True}))
    job = spec.build(settings, ("./app",), Surroundings("/run", "/home/a", {}, {}))
    assert job.resources.gres == "tmp:1"


@pytest.mark.parametrize("bind", ["verbose,closest", "map_gpu:0,1", "per_task", "single:0"])
def test_what_only_srun_can_bind(bind: str) -> None:
    with pytest.raises(Impossible, match=rf"only srun can do --gpu-bind {bind}; .* per_task:GPUS"):
        build("./app", gpu_bind=bind)
    assert build("./app", gpu_bind=bind, mode="outside-in", launcher="srun").resources.gpu_bind == bind


@pytest.mark.parametrize("option", ["privileged", "hardened"])
@pytest.mark.parametrize("runtime", ["apptainer", "charliecloud", "host"])
def test_rights_are_of_docker_and_podman(option: str, runtime: str) -> None:
    """Elsewhere nothing would come of them."""
    given: dict[str, Any] = {option: True}
    with pytest.raises(
        Impossible, match=rf"--{option} works only with docker and podman, and the runtime is {runtime}"
    ):
        build("./app", **given, runtime=runtime)
    assert build("./app", **given, runtime="podman").value(option)


def test_rights_of_a_runtime_that_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names every runtime with a store."""
    monkeypatch.setitem(RUNTIMES, "invented", RUNTIMES["docker"])
    with pytest.raises(Impossible, match="works only with docker and podman and invented, and"):
        build("./app", privileged=True)


def test_modules_are_not_the_hosts() -> None:
    """Asked for by this job: refused; by the site, for every job: said that they are not loaded."""
    with pytest.raises(
        Impossible, match=r"--module has no effect on the machines of --hosts; load the module in their ~/.bashrc"
    ):
        build("./app", module=["apptainer"], hosts="n1")
    merged = layers.merge(
        layers.builtin(),
        {"module": setting(("apptainer",), "profile here")},
        layers.from_command_line({"image": "app.sif", "hosts": "n1"}),
    )
    job = spec.build(merged, ("./app",), Surroundings("/home/alice/run", "/home/alice", {}, {}))
    said = "module load apptainer: not done, since it would change only this machine"
    assert said in make(job, 1).notes


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("/home/alice/scratch/run", "/scratch/alice/run"),  # which is a link too, but no mount hides it
        ("/home/alice/scratch", "/scratch/alice"),
        ("/home/alice/inner/run", "/home/alice/data/run"),
        ("/home/alice/relative/run", "/home/data/run"),
        ("/home/alice/loop/run", "/home/alice/loop/run"),
        ("/home/alice", "/home/alice"),
        ("/proj/link/run", "/proj/link/run"),
        ("/shared/link/run", "/elsewhere/run"),
    ],
)
def test_a_directory_behind_a_link(path: str, there: str) -> None:
    """F2: what a link in a mounted directory leads to is mounted, too."""
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
    around = Surroundings(path, "/home/alice", {}, {}, link=lambda name: links.get(name, ""))
    assert values.place(path, ["/home/alice", "/shared"], around) == there
