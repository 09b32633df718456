"""Turn settings and a command into a JobSpec, and check everything that needs no cluster."""

from __future__ import annotations

import os.path
import re
from collections.abc import Sequence
from dataclasses import replace

from mnrun import nodeset
from mnrun.config.layers import Settings
from mnrun.config.options import BY_NAME, OPTIONS, OWN
from mnrun.environment import NAME
from mnrun.errors import Impossible, NoImageError, UsageError
from mnrun.images.reference import is_path, is_reference
from mnrun.jobspec import (
    CLAIM,
    CLAIMING,
    COMMAND_LINE,
    Batch,
    ContainerOptions,
    HostRequest,
    Hosts,
    Image,
    ImageKind,
    JobSpec,
    Layer,
    Mount,
    Origin,
    Program,
    Resources,
    Service,
    Start,
    split_gres,
)
from mnrun.planning import starters, variables
from mnrun.planning.values import Surroundings, Values, gpu_bind, gpus_each, limit, mpi_args, ports, reach, stage_limit
from mnrun.runtimes import DEFAULT, RUNTIMES, SHUT_IN
from mnrun.schedulers.hosts import names


def build(settings: Settings, command: Sequence[str], around: Surroundings, shell: str = "") -> JobSpec:
    """Return the job that is asked for, or a `shell` (Program.prompt) in its place. Raises UsageError or Impossible."""
    values = Values(_without_gpus(settings), around)
    start = _start(values, command)
    program = _program(values, command, shell, start)
    container, hosts = _container(values), _hosts(values, start)
    if RUNTIMES[container.runtime].CONTAINED:
        if start.mode == "outside-in" and not values.flag("force"):
            _refuse_shut_in(values, container)
        if values.flag("no_home"):
            _refuse_home(program, container, around)
    return JobSpec(
        program=program,
        container=container._replace(links=_links(program, container, around)),
        resources=_resources(values, start.launcher),
        start=start,
        hosts=hosts,
        service=Service() if shell else _service(values),
        batch=_batch(values),
        keep=values.flag("keep"),
        force=values.flag("force"),
        quiet=values.flag("quiet"),
        verbose=values.flag("verbose"),
        job_dir=around.of_home(values.text("job_dir")),
        timeline=around.of_home(values.text("timeline")) if values.has("timeline") else "",
        watch=values.number("watch") or 0,
        notify=_notify(values),
        notify_on=values.text("notify_on"),
        job_file=around.job_file,
        profile=values.text("profile"),
        as_given=around.as_given,
        scheduler=values.text("scheduler"),
        poll=values.number("poll") or 30,
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
        mpi="pmix" if launcher in starters.OF_SCHEDULERS and values.text("mpi") == "auto" else values.text("mpi"),
        undecided=starters.undecided(values.settings, launcher),
        mpi_args=mpi_args(values.words("mpi_args")),
        bind_to=values.text("bind_to"),
        connect=values.text("connect"),
        ports=ports(values.text("ports")),
        fabric=values.text("fabric"),
        require=values.text("require"),
        module=values.words("module"),
        timeout=values.number("start_timeout") or 120,
        reach=reach(values.text("reach")),
    )


def _program(values: Values, command: Sequence[str], shell: str, start: Start) -> Program:
    around = values.around
    script = around.on_nodes(values.text("script")) if values.text("script") else ""
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
        cwd=around.on_nodes("."),
        chdir=around.on_nodes(values.text("chdir") or "."),
        umask=around.umask,
        env=variables.merged((*variables.of_the_job(values), *forwarded)),
        forwarded=tuple(dict.fromkeys(v.name for v in forwarded if v.value is not None)),
        explicit=explicit,
        env_files=tuple(around.absolute(path) for path in around.env_files),
        label=values.flag("label"),
        split_output=values.path("split_output"),
    )


def _container(values: Values) -> ContainerOptions:
    pod, runtime = values.around.pod, values.text("runtime")
    if pod is not None:
        runtime = _in_pods(values)
    elif runtime == "auto":
        runtime = DEFAULT
    if pod is None:
        _rights(values, runtime)
    # where a runtime names its images, the `ubuntu` of a file is no path
    name = values.settings["image"].name if values.has("image") else ""
    reference = name if name and (RUNTIMES[runtime].HAS_STORE or pod == "") else values.text("image")
    binds = tuple(values.around.mount(word) for word in dict.fromkeys(values.words("bind")))
    if values.text("scheduler") != CLAIMING:
        _refuse_claims(binds, values.settings["bind"].origin if binds else "")
    return ContainerOptions(
        image=Image(ImageKind.REFERENCE, reference) if pod == "" else _image(reference, runtime, values.around),
        pull=values.text("pull"),
        pull_timeout=values.number("pull_timeout") or 1800,
        image_cache=values.around.of_home(values.text("image_cache")),
        stage=values.flag("stage"),
        stage_dir=values.path("stage_dir"),
        stage_limit=stage_limit(values.text("stage_limit")),
        runtime=runtime,
        args=values.words("container_args"),
        per=values.text("container_per"),
        privileged=values.flag("privileged"),
        hardened=values.flag("hardened"),
        podman_root=values.path("podman_root"),
        binds=() if pod else binds,
        home="" if values.flag("no_home") or values.around.home == "/" or pod is not None else values.around.home,
        nv=values.flag("nv"),
    )


def _refuse_claims(binds: Sequence[Mount], origin: object) -> None:
    for claim in (str(mount) for mount in binds if mount.source.startswith(CLAIM)):
        remedy = f"name a directory, or use --scheduler {CLAIMING}"
        raise Impossible(f"--bind {claim} ({origin}): only {CLAIMING} has claims for volumes", remedy)


def _in_pods(values: Values) -> str:
    """Return the runtime on nodes that are containers of the image themselves. Raises Impossible or NoImageError."""
    if values.text("runtime") not in ("auto", "host"):
        problem = (
            f"--runtime {values.text('runtime')} ({values.settings['runtime'].origin}): a pod is a container itself"
        )
        raise Impossible(problem, "leave it out")
    if not values.text("image"):
        raise NoImageError("no image", "name one of a registry with --image HOST/NAME:TAG")
    return "host"


def _refuse_shut_in(values: Values, container: ContainerOptions) -> None:
    """Raise Impossible if an option is to keep something from the image. Outside-in, none does: a rank can have mpirun
    and srun start a program on the node, through PMIx or PMI (MPI_Comm_spawn)."""
    asked = [(f"--{name.replace('_', '-')}", name) for name in ("hardened", "no_home") if values.flag(name)]
    asked += [(word, "container_args") for word in container.args if word in SHUT_IN.get(container.runtime, ())]
    for option, name in asked[:1]:
        found = f"{option} ({values.settings[name].origin})"
        problem = f"{found}: outside-in, what starts the ranks runs any program that one names, on the node"
        raise Impossible(problem, "shut the image in with --mode inside-out; --force tries it anyway")


def _refuse_home(program: Program, container: ContainerOptions, around: Surroundings) -> None:
    """Raise Impossible if a directory that is mounted unasked is the home directory, or contains it. A mount of the
    user's may be there in its place."""
    folders = {"chdir": program.chdir, "script": os.path.dirname(program.script), "split-output": program.split_output}
    targets = [mount.target or mount.source for mount in container.binds]
    home = f"{around.real(around.home)}/"
    for option, folder in folders.items():
        if not folder.strip("/") or any(f"{folder}/".startswith(f"{target}/") for target in targets):
            continue
        if home.startswith(f"{around.real(folder)}/"):
            subject = "the working directory" if option == "chdir" else f"the directory of --{option}"
            holds = "is" if home == f"{around.real(folder)}/" else "contains"
            problem = f"--no-home: {subject} would be mounted, and {folder} {holds} the home directory"
            raise Impossible(problem, f"name a directory below the home directory with --{option}")


def _links(program: Program, container: ContainerOptions, around: Surroundings) -> tuple[tuple[str, str], ...]:
    """Return (path, place) of the directories that the container must have, if links in its mounts lead elsewhere."""
    shared = [mount.source for mount in container.binds if mount.target == mount.source]
    mounted = [folder for folder in (container.home, *shared) if folder]
    folders = filter(None, (program.chdir, os.path.dirname(program.script), program.split_output))
    found = {folder: around.behind_links(folder, mounted) for folder in folders}
    return tuple((path, there) for path, there in found.items() if there != path)


def _resources(values: Values, launcher: str) -> Resources:
    if values.text("gpus_per_node") and split_gres(values.text("gres"))[0]:
        raise UsageError("--gpus-per-node, and GPUs in --gres, exclude each other")
    memory = [f"--{name.replace('_', '-')}" for name in ("mem", "mem_per_cpu", "mem_per_gpu") if values.text(name)]
    if len(memory) > 1:  # sbatch(1)
        raise UsageError(f"{' and '.join(memory)} exclude each other")
    _refuse_slots(values)
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
        gpu_bind=gpu_bind(values.text("gpu_bind"), launcher in starters.OF_SCHEDULERS),
        nodelist=values.text("nodelist"),
        exclude=values.text("exclude"),
        alloc=values.flag("alloc") or not values.has("alloc"),
    )


def _refuse_slots(values: Values) -> None:
    """Raise UsageError for numbers of ranks in --nodelist, as mpirun has them in its lists of hosts."""
    text = values.text("nodelist")
    if not re.search(r":\d", text):
        return
    hosts = names.parse(text)
    slots = {host.slots or 1 for host in hosts}
    even = f"write --nodelist {nodeset.fold(host.name for host in hosts)} --ntasks-per-node {min(slots)}"
    problem = f"--nodelist {text} ({values.settings['nodelist'].origin}): nodes have no numbers of ranks here"
    raise UsageError(problem, even if len(slots) == 1 else f"in a job that has these nodes, write --hosts {text}")


def _hosts(values: Values, start: Start) -> Hosts:
    around, hostfile = values.around, values.text("hostfile")
    requests: tuple[HostRequest, ...] = ()
    if values.has("hosts") and values.has("hostfile"):
        raise UsageError("--hosts and --hostfile exclude each other", "name all of them in one")
    if values.has("hosts"):
        requests = names.parse(values.text("hosts"))
    if values.has("hostfile") and around.hostfile is not None:
        requests = names.parse_file(around.hostfile, hostfile)
    local = values.flag("local") or values.text("scheduler") == "local"
    if requests and not around.in_job:
        _refuse_beside_hosts(values, start, local)
    elif values.text("scheduler") == "hosts":
        raise UsageError("--scheduler hosts without hosts", "name them with --hosts, or in a file with --hostfile")
    port = values.number("ssh_port")
    if port is not None and not 0 < port < 65536:
        raise UsageError(f"--ssh-port {port} is not a port")
    return Hosts(
        named=requests,
        in_job=around.in_job,
        hostfile=hostfile,
        ssh_user=values.text("ssh_user"),
        ssh_port=port,
        rsh=values.text("rsh"),
        local=local,
    )


def _service(values: Values) -> Service:
    ready, page, token = values.text("ready"), values.text("page") or "/", values.text("token")
    if ready and not re.fullmatch(r"(http://[A-Za-z0-9_.{}-]+(:(\d{1,5}|\{port\}))?)?(/[!-~]*)?", ready):
        raise UsageError(f"--ready {ready} is neither a path nor a URL", "write /health, or http://{head}:8000/health")
    for option, path in (("page", page), ("busy", values.text("busy").partition(" ")[0])):
        if path and not re.fullmatch(r"/[!-~]*", path):
            raise UsageError(f"--{option} {path} does not begin with a path", "write /, or /PATH")
    if token and not NAME.match(token):
        raise UsageError(f"--token {token} is not the name of a variable")
    timeout = values.number("ready_timeout") or 600
    return Service(ready, timeout, page, token, values.text("busy"), values.number("idle") or 0)


def _notify(values: Values) -> str:
    if way := values.text("notify"):
        from mnrun.jobs import notices

        notices.check(way, values.text("notify_on"))
    return way


def _refuse_beside_hosts(values: Values, start: Start, local: bool) -> None:
    if local:
        raise UsageError("--local and --hosts exclude each other")
    if title := starters.OF_SCHEDULERS.get(start.launcher):
        problem = f"--launcher {start.launcher} needs a {title} allocation"
        raise Impossible(problem, "with --hosts use --launcher mpirun")
    modules = values.settings["module"].words if values.has("module") else ()
    if any(origin.layers & {Layer.COMMAND_LINE, Layer.JOB_FILE} for _, origin in modules):
        problem = "--module has no effect on the machines of --hosts"
        raise Impossible(problem, "load the module in their ~/.bashrc")


# Options with a meaning of their own for mnrun. A scheduler gets all others of its section as they are.
_READ = ("gpus", "gpus_per_task", *OWN, "setup", "ulimit", "mnrun", "templates")
HANDED_ON = tuple(option.name for option in OPTIONS if option.batch and option.name not in _READ)


def _batch(values: Values) -> Batch:
    return Batch(
        options={
            name: values.flag(name) if BY_NAME[name].kind == "flag" else values.text(name)
            for name in HANDED_ON
            if values.has(name)
        },
        own={name: values.words(name) for name in OWN if values.has(name)},
        site=values.around.site,
        setup=values.words("setup"),
        ulimit=tuple(limit(word) for word in values.words("ulimit")),
        mnrun=values.around.expanded(values.text("mnrun")),
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


def _image(reference: str, runtime: str, around: Surroundings) -> Image | None:
    module = RUNTIMES[runtime]
    if not module.CONTAINED:
        return None
    if not reference:
        raise NoImageError("no image", "name one with --image FILE, or run without containers: --runtime host")
    there = around.there(around.absolute(reference))
    if not module.HAS_STORE and not is_reference(reference, there):
        return Image(ImageKind.FILE, around.absolute(reference))
    if module.HAS_STORE and there and is_path(reference):
        problem = f"--image {reference} is a file, and {runtime} takes the name of an image"
        raise UsageError(problem, "use --runtime apptainer for a file")
    return Image(ImageKind.REFERENCE, module.address(reference))


def _rights(values: Values, runtime: str) -> None:
    rights = [name for name in ("privileged", "hardened") if values.flag(name)]
    if len(rights) > 1:
        raise UsageError("--privileged and --hardened exclude each other")
    if rights and not RUNTIMES[runtime].HAS_STORE:
        engines = " and ".join(name for name, module in RUNTIMES.items() if module.HAS_STORE)
        raise Impossible(f"--{rights[0]} works only with {engines}, and the runtime is {runtime}", "leave it out")


def _without_gpus(settings: Settings) -> Settings:
    """Return the settings without GPUs if --no-gpu is set. Raise UsageError if the command line asks for both."""
    if "no_gpu" not in settings or not settings["no_gpu"].value:
        return settings
    of_gpus = ("gpus_per_node", "gpus", "gpus_per_task", "gpu_bind", "mem_per_gpu", "nv")
    beside = [name for name in of_gpus if name in settings]
    gpus, others = split_gres(str(settings["gres"].value)) if "gres" in settings else ("", "")
    if gpus:
        beside.append("gres")
    for name in beside:
        if settings[name].origin == settings["no_gpu"].origin == COMMAND_LINE:
            raise UsageError(f"--no-gpu and --{name.replace('_', '-')} exclude each other")
    kept = {"gres": replace(settings["gres"], value=others)} if gpus and others else {}
    return {name: setting for name, setting in settings.items() if name not in beside} | kept
