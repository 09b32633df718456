"""Turn settings and a command into a JobSpec, and check everything that needs no cluster."""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from dataclasses import replace

from mnrun.config.layers import Settings
from mnrun.config.options import BY_NAME, OPTIONS
from mnrun.errors import Impossible, NoImageError, UsageError
from mnrun.images.reference import is_path, is_reference
from mnrun.jobspec import (
    COMMAND_LINE,
    Batch,
    ContainerOptions,
    HostRequest,
    Hosts,
    Image,
    ImageKind,
    JobSpec,
    Layer,
    Origin,
    Program,
    Resources,
    Start,
    parted,
)
from mnrun.planning import starters, variables
from mnrun.planning.values import (
    Surroundings,
    Values,
    absolute,
    expanded,
    gpu_bind,
    gpus_each,
    limit,
    mount,
    mpi_args,
    of_home,
    place,
    ports,
    room,
)
from mnrun.runtimes import DEFAULT, RUNTIMES
from mnrun.schedulers.hosts import names


def build(settings: Settings, command: Sequence[str], around: Surroundings, shell: str = "") -> JobSpec:
    """Return the job that is asked for, or a `shell` (Program.prompt) in its place. Raises UsageError or Impossible."""
    values = Values(_without_gpus(settings), around)
    start = _start(values, command)
    program = _program(values, command, shell, start)
    container, hosts = _container(values), _hosts(values, start)
    return JobSpec(
        program=program,
        container=replace(container, places=_places(program, container, around)),
        resources=_resources(values, start.launcher),
        start=start,
        hosts=hosts,
        batch=_batch(values),
        keep=values.flag("keep"),
        force=values.flag("force"),
        quiet=values.flag("quiet"),
        verbose=values.flag("verbose"),
        job_dir=of_home(values.text("job_dir"), around),
        timeline=of_home(values.text("timeline"), around) if values.has("timeline") else "",
        job_file=around.job_file,
        profile=values.text("profile"),
        as_given=around.as_given,
        slurm_poll=values.number("slurm_poll") or 30,
        origins={name: setting.origin for name, setting in values.settings.items()},
        word_origins=_word_origins(values.settings),
        setup_origins=tuple(origin for _, origin in values.settings["setup"].words) if values.has("setup") else (),
    )


def _start(values: Values, command: Sequence[str]) -> Start:
    mode = starters.mode(values.settings)
    launcher = starters.launcher(values.settings, command, mode)
    return Start(
        mode=mode,
        launcher=launcher,
        mpi="pmix" if launcher == "srun" and values.text("mpi") == "auto" else values.text("mpi"),
        undecided=starters.undecided(values.settings, launcher),
        mpi_args=mpi_args(values.words("mpi_args")),
        bind_to=values.text("bind_to") or _default_binding(values.settings),
        connect=values.text("connect"),
        ports=ports(values.text("ports")),
        fabric=values.text("fabric"),
        require=values.text("require"),
        module=values.words("module"),
        timeout=values.number("start_timeout") or 120,
    )


def _program(values: Values, command: Sequence[str], shell: str, start: Start) -> Program:
    script, around = values.path("script"), values.around
    if shell:
        _refuse_beside_a_shell(script, command, start.mode)
    elif not script and not command:
        raise UsageError("no command", "write it after the options: mnrun --image app.sif -- ./app")
    forwarded, explicit = variables.given(values)
    return Program(
        command=tuple(command),
        script=script,
        once=bool(command) and os.path.basename(command[0]) in starters.PROGRAMS,
        prompt=shell,
        cwd=around.cwd,
        chdir=absolute(values.text("chdir") or ".", around),
        umask=around.umask,
        env=variables.merged((*variables.of_the_job(values), *forwarded)),
        forwarded=tuple(dict.fromkeys(v.name for v in forwarded if v.value is not None)),
        explicit=explicit,
        env_files=tuple(absolute(path, around) for path in around.env_files),
        label=values.flag("label"),
        split_output=values.path("split_output"),
    )


def _container(values: Values) -> ContainerOptions:
    runtime = DEFAULT if values.text("runtime") == "auto" else values.text("runtime")
    _rights(values, runtime)
    return ContainerOptions(
        image=_image(_reference(values, runtime), runtime, values.around),
        pull=values.text("pull"),
        pull_timeout=values.number("pull_timeout") or 1800,
        image_cache=of_home(values.text("image_cache"), values.around),
        stage=values.flag("stage"),
        stage_dir=values.path("stage_dir"),
        stage_limit=room(values.text("stage_limit")),
        runtime=runtime,
        args=values.words("container_args"),
        per=values.text("container_per"),
        privileged=values.flag("privileged"),
        hardened=values.flag("hardened"),
        podman_root=values.path("podman_root"),
        binds=tuple(mount(word, values.around) for word in dict.fromkeys(values.words("bind"))),
        home="" if values.flag("no_home") or values.around.home == "/" else values.around.home,
        nv=values.flag("nv"),
    )


def _places(program: Program, container: ContainerOptions, around: Surroundings) -> tuple[tuple[str, str], ...]:
    """Return (path, place) of the directories that the container must have, if links in its mounts lead elsewhere."""
    shared = [mount.source for mount in container.binds if mount.target == mount.source]
    mounted = [folder for folder in (container.home, *shared) if folder]
    folders = filter(None, (program.chdir, os.path.dirname(program.script), program.split_output))
    found = {folder: place(folder, mounted, around) for folder in folders}
    return tuple((path, there) for path, there in found.items() if there != path)


def _resources(values: Values, launcher: str) -> Resources:
    if values.text("gpus_per_node") and parted(values.text("gres"))[0]:
        raise UsageError("--gpus-per-node, and GPUs in --gres, exclude each other")
    return Resources(
        nodes=values.number("nodes"),
        ntasks=values.number("ntasks"),
        ntasks_per_node=values.number("ntasks_per_node"),
        cpus_per_task=values.number("cpus_per_task"),
        gres=values.text("gres"),
        gpus_per_node=gpus_each("--gpus-per-node", values.text("gpus_per_node")),
        gpus=gpus_each("--gpus", values.text("gpus")),
        gpus_per_task=gpus_each("--gpus-per-task", values.text("gpus_per_task")),
        no_gpu=values.flag("no_gpu"),
        gpu_bind=gpu_bind(values.text("gpu_bind"), launcher),
        nodelist=values.text("nodelist"),
        exclude=values.text("exclude"),
        alloc=values.flag("alloc") or not values.has("alloc"),
    )


def _hosts(values: Values, start: Start) -> Hosts:
    """Return the hosts without a scheduler, and the way to reach them."""
    around, hostfile = values.around, values.text("hostfile")
    requests: tuple[HostRequest, ...] = ()
    if values.has("hosts") and values.has("hostfile"):
        raise UsageError("--hosts and --hostfile exclude each other", "name all of them in one")
    if values.has("hosts"):
        requests = names.parse(values.text("hosts"))
    if values.has("hostfile") and around.hostfile is not None:
        requests = names.parse_file(around.hostfile, hostfile)
    if requests:
        _refuse_beside_hosts(values, start)
    port = values.number("ssh_port")
    if port is not None and not 0 < port < 65536:
        raise UsageError(f"--ssh-port {port} is not a port")
    return Hosts(
        names=requests,
        hostfile=hostfile,
        ssh_user=values.text("ssh_user"),
        ssh_port=port,
        rsh=values.text("rsh"),
        local=values.flag("local"),
    )


def _refuse_beside_hosts(values: Values, start: Start) -> None:
    if values.flag("local"):
        raise UsageError("--local and --hosts exclude each other")
    if start.launcher == "srun":
        raise Impossible("--launcher srun needs a Slurm allocation", "with --hosts use --launcher mpirun")
    modules = values.settings["module"].words if values.has("module") else ()
    if any(origin.layers & {Layer.COMMAND_LINE, Layer.JOB_FILE} for _, origin in modules):
        problem = "--module has no effect on the machines of --hosts"
        raise Impossible(problem, "load the module in their ~/.bashrc")


# Options with a meaning of their own for mnrun. sbatch gets all others of its section as they are.
_READ = ("gpus", "gpus_per_task", "slurm", "setup", "ulimit", "mnrun", "templates")
HANDED_ON = tuple(option.name for option in OPTIONS if option.batch and option.name not in _READ)


def _batch(values: Values) -> Batch:
    return Batch(
        options={
            name: values.flag(name) if BY_NAME[name].kind == "flag" else values.text(name)
            for name in HANDED_ON
            if values.has(name)
        },
        slurm=values.words("slurm"),
        setup=values.words("setup"),
        ulimit=tuple(limit(word) for word in values.words("ulimit")),
        mnrun=expanded(values.text("mnrun"), values.around),
        templates=values.path("templates"),
    )


def _word_origins(settings: Settings) -> dict[tuple[str, str], Origin]:
    """Return (option, a word of it) -> origin of that word. The words of env stay out, since they may be secrets."""
    return {
        (name, word): origin for name, setting in settings.items() if name != "env" for word, origin in setting.words
    }


def _refuse_beside_a_shell(script: str, command: Sequence[str], mode: str) -> None:
    if script or command:
        subject = "--script" if script else repr(command[0])
        raise UsageError(
            f"mnrun shell takes no command, but found {subject}", "run it with mnrun run, or type it at the prompt"
        )
    if mode == "outside-in":
        raise Impossible("a shell runs in the first node's container, which outside-in lacks", "use --mode inside-out")


def _reference(values: Values, runtime: str) -> str:
    """Return the image as a runtime takes it: where the runtime names its images, a file's `ubuntu` is no path."""
    name = values.settings["image"].name if values.has("image") else ""
    return name if name and RUNTIMES[runtime].NAMED else values.text("image")


def _image(reference: str, runtime: str, around: Surroundings) -> Image | None:
    room = RUNTIMES[runtime]
    if not room.CONTAINED:
        return None
    if not reference:
        raise NoImageError("no image", "name one with --image FILE, or run without containers: --runtime host")
    there = around.there(absolute(reference, around))
    if not room.NAMED and not is_reference(reference, there):
        return Image(ImageKind.FILE, absolute(reference, around))
    if room.NAMED and there and is_path(reference):
        problem = f"--image {reference} is a file, and {runtime} takes the name of an image"
        raise UsageError(problem, "use --runtime apptainer for a file")
    refusal = room.refuse(reference)
    if refusal is not None:
        raise refusal
    return Image(ImageKind.REFERENCE, room.address(reference))


def _rights(values: Values, runtime: str) -> None:
    rights = [name for name in ("privileged", "hardened") if values.flag(name)]
    if len(rights) > 1:
        raise UsageError("--privileged and --hardened exclude each other")
    if rights and not RUNTIMES[runtime].NAMED:
        engines = " and ".join(name for name, module in RUNTIMES.items() if module.NAMED)
        raise Impossible(f"--{rights[0]} works only with {engines}, and the runtime is {runtime}", "leave it out")


def _default_binding(settings: Settings) -> str:
    """Return `none` for jobs with GPUs or -c, since by default mpirun binds each rank to one core."""
    names = ("gpus_per_node", "gpus", "gpus_per_task", "cpus_per_task")
    gpus = "gres" in settings and parted(str(settings["gres"].value))[0]
    return "none" if gpus or any(name in settings for name in names) else ""


def _without_gpus(settings: Settings) -> Settings:
    """Return the settings without GPUs if --no-gpu is set. Raise UsageError if the command line asks for both."""
    if "no_gpu" not in settings or not settings["no_gpu"].value:
        return settings
    of_gpus = ("gpus_per_node", "gpus", "gpus_per_task", "gpu_bind", "mem_per_gpu", "nv")
    beside = [name for name in of_gpus if name in settings]
    gpus, others = parted(str(settings["gres"].value)) if "gres" in settings else ("", "")
    if gpus:
        beside.append("gres")
    for name in beside:
        if settings[name].origin == settings["no_gpu"].origin == COMMAND_LINE:
            raise UsageError(f"--no-gpu and --{name.replace('_', '-')} exclude each other")
    kept = {"gres": replace(settings["gres"], value=others)} if gpus and others else {}
    return {name: setting for name, setting in settings.items() if name not in beside} | kept
