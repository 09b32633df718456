"""Turn settings and a command into a JobSpec, and check everything that needs no cluster."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mnrun import environment
from mnrun.config.layers import RIVALS, Settings
from mnrun.errors import Impossible, UsageError
from mnrun.images.reference import is_reference
from mnrun.model import Asked, JobSpec, Mount, Variable
from mnrun.planning import starters
from mnrun.runtimes import DEFAULT, RUNTIMES
from mnrun.schedulers.hosts import names
from mnrun.schedulers.slurm.steps import ULIMITS

_TEXTS = (
    *("job_name", "partition", "account", "qos", "time", "constraint", "reservation", "licenses", "mem", "mem_per_cpu"),
    *("mem_per_gpu", "array", "dependency", "mail_type", "mail_user", "signal", "export", "output", "error", "profile"),
    *("container_per", "podman_root", "fabric", "require", "mnrun"),
)
_FLAGS = (
    *("local", "stage", "keep", "force", "quiet", "verbose", "exclusive", "requeue", "privileged", "hardened"),
    *("label", "no_gpu", "nv"),
)


@dataclass(frozen=True)
class Surroundings:
    """The facts on the launching process that shape a job."""

    cwd: str
    home: str
    environ: Mapping[str, str]
    env_files: Mapping[str, str]  # path -> text
    umask: str = "0022"
    whys: Mapping[str, str] = field(default_factory=dict)  # NAME=VALUE -> why
    job_file: str = ""
    hostfile: str | None = None  # its text
    batch: bool = False  # for a batch job, whose variables get their values in the job
    as_given: bool = False  # by a batch script
    there: Callable[[str], bool] = lambda path: False  # returns whether a path exists on this machine


def build(settings: Settings, command: Sequence[str], around: Surroundings, shell: str = "") -> JobSpec:
    """Return the job that is asked for, or a `shell` (JobSpec.shell) in its place. Raises UsageError or Impossible."""
    settings = _without_gpus(settings)

    def get(name: str) -> object:
        return settings[name].value if name in settings else None

    def text(name: str) -> str:
        return str(get(name) or "")

    script = text("script")
    mode = starters.mode(settings)
    if shell:
        _refuse_beside_a_shell(script, command, mode)
    elif not script and not command:
        raise UsageError("no command", "write it after the options: mnrun --image app.sif -- ./app")
    runtime = DEFAULT if text("runtime") == "auto" else text("runtime")
    _rights(settings, runtime)
    home = "" if get("no_home") else around.home
    launcher = starters.launcher(settings, command, mode)
    return JobSpec(
        command=tuple(command),
        script=_absolute(script, around) if script else "",
        once=bool(command) and os.path.basename(command[0]) in starters.PROGRAMS,
        shell=shell,
        mode=mode,
        image=_image(text("image"), runtime, around),
        runtime=runtime,
        container_args=_words(get("container_args")),
        binds=tuple(_mount(word, around) for word in _words(get("bind"))),
        home=home,
        chdir=_absolute(text("chdir") or ".", around),
        umask=around.umask,
        **_variables(settings, around, home),
        launcher=launcher,
        mpi="pmix" if launcher == "srun" and text("mpi") == "auto" else text("mpi"),
        left=starters.left(settings, launcher),
        mpi_args=_words(get("mpi_args")),
        bind_to=text("bind_to") or _default_binding(settings),
        connect=text("connect"),
        nodes=_number(get("nodes")),
        ntasks=_number(get("ntasks")),
        ntasks_per_node=_number(get("ntasks_per_node")),
        cpus_per_task=_number(get("cpus_per_task")),
        **_of_gpus(settings, launcher),
        nodelist=text("nodelist"),
        exclude=text("exclude"),
        **_rest(settings, around),
        **_hosts(settings, around),
        ports=_ports(text("ports")),
        start_timeout=_number(get("start_timeout")) or 120,
        job_dir=_of_home(text("job_dir"), around),
        job_file=around.job_file,
        as_given=around.as_given,
        slurm_poll=_number(get("slurm_poll")) or 30,
        origins={name: setting.origin for name, setting in settings.items()},
        word_origins=_word_origins(settings),
        setup_origins=tuple(origin for _, origin in settings["setup"].words) if "setup" in settings else (),
    )


def _rest(settings: Settings, around: Surroundings) -> dict[str, Any]:
    """Return the flags, the texts that stay as they are, and the values that only a batch script needs."""
    values = {name: setting.value for name, setting in settings.items()}
    found: dict[str, Any] = {name: str(values.get(name, "")) for name in _TEXTS}
    found.update({name: bool(values.get(name)) for name in _FLAGS})
    found.update({name: _words(values.get(name)) for name in ("slurm", "module", "setup")})
    for name in ("templates", "split_output"):
        found[name] = _absolute(str(values[name]), around) if name in values else ""
    found.update(
        pull=values["pull"],
        pull_timeout=values["pull_timeout"],
        image_cache=_of_home(str(values["image_cache"]), around),
    )
    return {**found, "ulimit": tuple(_limit(word) for word in _words(values.get("ulimit")))}


def _hosts(settings: Settings, around: Surroundings) -> dict[str, Any]:
    """Return the hosts without a scheduler, and the way to reach them."""
    said = {name: settings[name].value for name in _OF_HOSTS if name in settings}
    named: tuple[Asked, ...] = ()
    if "hosts" in said and "hostfile" in said:
        raise UsageError("--hosts and --hostfile exclude each other", "name all of them in one")
    if "hosts" in said:
        named = names.parse(str(said["hosts"]))
    if "hostfile" in said and around.hostfile is not None:
        named = names.parse_file(around.hostfile, str(said["hostfile"]))
    if named and "local" in settings:
        raise UsageError("--local and --hosts exclude each other")
    if named and "srun" in (settings["launcher"].value, starters.launcher(settings, (), starters.mode(settings))):
        raise Impossible("--launcher srun needs a Slurm allocation", "with --hosts use --launcher mpirun")
    if named and "module" in settings:
        origins = {origin for _, origin in settings["module"].words}
        if any(origin == "command line" or origin.startswith(f"{around.job_file} line") for origin in origins):
            what = "--module has no effect on the machines of --hosts"
            raise Impossible(what, "load the module in their ~/.bashrc")
    port = _number(said.get("ssh_port"))
    if port is not None and not 0 < port < 65536:
        raise UsageError(f"--ssh-port {port} is not a port")
    texts = {name: str(said.get(name, "")) for name in ("hostfile", "ssh_user", "rsh")}
    return {"hosts": named, "ssh_port": port, **texts}


_OF_HOSTS = ("hosts", "hostfile", "ssh_user", "ssh_port", "rsh")


def _word_origins(settings: Settings) -> dict[tuple[str, str], str]:
    """Return (option, a word of it) -> origin of that word. The words of env stay out, since they may be secrets."""
    return {(name, word): origin for name, said in settings.items() if name != "env" for word, origin in said.words}


def _refuse_beside_a_shell(script: str, command: Sequence[str], mode: str) -> None:
    if script or command:
        what = "--script" if script else repr(command[0])
        raise UsageError(
            f"mnrun shell takes no command, but found {what}", "run it with mnrun run, or type it at the prompt"
        )
    if mode == "outside-in":
        raise Impossible("a shell runs in the first node's container, which outside-in lacks", "use --mode inside-out")


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _words(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _absolute(path: str, around: Surroundings) -> str:
    # Not realpath: the target of a link may differ on the node.
    return os.path.normpath(os.path.join(around.cwd, path))


def _of_home(path: str, around: Surroundings) -> str:
    return _absolute(re.sub(r"^~/", lambda _: around.home + "/", path), around)


def _image(reference: str, runtime: str, around: Surroundings) -> str:
    room = RUNTIMES[runtime]
    if not room.CONTAINED:
        return ""
    if not reference:
        raise UsageError("no image", "name one with --image FILE, or run without containers: --runtime host")
    if not room.NAMED and not is_reference(reference, around.there(_absolute(reference, around))):
        return _absolute(reference, around)
    refusal = room.refuse(reference)
    if refusal is not None:
        raise refusal
    return room.address(reference)


def _rights(settings: Settings, runtime: str) -> None:
    asked = [name for name in ("privileged", "hardened") if name in settings and settings[name].value]
    if len(asked) > 1:
        raise UsageError("--privileged and --hardened exclude each other")
    if asked and not RUNTIMES[runtime].NAMED:
        raise Impossible(
            f"--{asked[0]} works only with docker and podman, and the runtime is {runtime}", "leave it out"
        )


def _mount(word: str, around: Surroundings) -> Mount:
    source, _, rest = word.partition(":")
    target, _, options = rest.partition(":")
    if re.fullmatch(r"[\d:,-]+", word):
        raise UsageError(f"--bind {word!r} is not a path", "Slurm's -B is --extra-node-info of salloc")
    if not source or (target and not target.startswith("/")) or options not in ("", "ro", "rw"):
        raise UsageError(f"--bind {word!r} is not SRC[:DST[:ro|rw]] with an absolute DST")
    if "," in word or "\n" in word:
        raise UsageError(f"--bind {word!r} has a comma or a newline, which the runtimes cannot mount")
    return Mount(_absolute(source, around), target or _absolute(source, around), options)


def _variables(settings: Settings, around: Surroundings, home: str) -> dict[str, Any]:
    """Return the variables of every rank, and the names among them that were asked for."""
    asked_env = _merged(_asked_env(settings, around))
    passed = (*_of_files(around), *asked_env)
    no_gpu = "no_gpu" in settings and bool(settings["no_gpu"].value)
    return {
        "env": _merged((*_of_the_job(around, home, no_gpu), *passed)),
        "passed": tuple(dict.fromkeys(v.name for v in passed if v.value is not None)),
        "asked_env": asked_env,
        "env_files": tuple(_absolute(path, around) for path in around.env_files),
    }


def _of_the_job(around: Surroundings, home: str, no_gpu: bool) -> tuple[Variable, ...]:
    """Return the scheduler's variables that ranks get back, and mnrun's own settings."""
    variables = [Variable(*pair) for pair in environment.given_back(around.environ).items()]
    if home:
        why = "packages in ~/.local must not hide the image's"
        variables.append(Variable("PYTHONNOUSERSITE", around.environ.get("PYTHONNOUSERSITE", "1"), why=why))
    if no_gpu:
        variables += [Variable(name, "-1", why="--no-gpu: no GPU has this number") for name in _GPU_LISTS]
    return tuple(variables)


_GPU_LISTS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def _of_files(around: Surroundings) -> Iterator[Variable]:
    """Yield the variables of --env-file."""
    for path, content in around.env_files.items():
        for found in environment.read_file(content, path):
            if around.batch and found.value is None and found.name not in around.environ:
                continue  # the job reports it if it has none either
            yield _value_of(found.name, found.value, around, f"--env-file {path}")


def _asked_env(settings: Settings, around: Surroundings) -> tuple[Variable, ...]:
    """Return the variables of -x."""
    variables: list[Variable] = []
    for word, origin in settings["env"].words if "env" in settings else ():
        if word.startswith("!") and environment.NAME.match(word[1:]):
            variables.append(Variable(word[1:], None, why=origin))
            continue
        name, equals, value = word.partition("=")
        if not environment.NAME.match(name):
            hint = "" if equals else f"to leave nodes out write --exclude {word}"
            shown = f"{name}=…" if equals else word  # the value may be a secret
            raise UsageError(f"-x {shown!r} is not NAME or NAME=VALUE", hint)
        if environment.owner(name):
            raise UsageError(
                f"-x {name}: it is one of {environment.owner(name)} variables, and cannot be set", "use another name"
            )
        later = around.batch and ("command line" not in origin or "module" in settings or "setup" in settings)
        if later and not equals and name not in around.environ:
            variables.append(Variable(name, "", inherited=True, why=origin))  # the job reports it if it has none either
            continue
        variables.append(_value_of(name, value if equals else None, around, "-x", origin))
    return tuple(variables)


def _merged(variables: Sequence[Variable]) -> tuple[Variable, ...]:
    """Return each name once, with its last value."""
    found: dict[str, Variable] = {}
    for variable in variables:
        found[variable.name] = variable
    return tuple(found.values())


def _value_of(name: str, value: str | None, around: Surroundings, asked: str, why: str = "") -> Variable:
    if value is None and name not in around.environ:
        if asked == "-x" and "command line" not in why:
            raise UsageError(
                f"env.{name}: there is no variable {name} here ({why})", f'set it, or write {name} = "VALUE"'
            )
        hint = f"to leave a node out write --exclude {name}" if asked == "-x" else f"write {name}=VALUE"
        raise UsageError(f"{asked} {name}: there is no variable {name} here", hint)
    if value is None:
        return Variable(name, around.environ[name], inherited=True, why=why or asked)
    return Variable(name, value, why=reason(around.whys.get(f"{name}={value}", ""), why or asked))


def reason(why: str, origin: str) -> str:
    """Return why a variable has its value, and the origin of that reason."""
    return f"{why} ({origin})" if why else origin


def _default_binding(settings: Settings) -> str:
    """Return `none` for jobs with GPUs or -c, since by default mpirun binds each rank to one core."""
    for name in ("gpus_per_node", "gres", "gpus", "gpus_per_task", "cpus_per_task"):
        if name in settings:
            return "none"
    return ""


def _without_gpus(settings: Settings) -> Settings:
    """Return the settings without GPUs if --no-gpu is set. Raise UsageError if the command line asks for both."""
    if "no_gpu" not in settings or not settings["no_gpu"].value:
        return settings
    of_gpus = ("gpus_per_node", "gpus", "gpus_per_task", "gpu_bind", "mem_per_gpu", "nv")
    beside = [name for name in of_gpus if name in settings]
    if "gres" in settings and re.search(r"\bgpu\b", str(settings["gres"].value)):
        beside.append("gres")
    for name in beside:
        if settings[name].origin == settings["no_gpu"].origin == "command line":
            raise UsageError(f"--no-gpu and --{name.replace('_', '-')} exclude each other")
    return {name: setting for name, setting in settings.items() if name not in beside}


def _of_gpus(settings: Settings, launcher: str) -> dict[str, Any]:
    said = {name: str(settings[name].value) if name in settings else "" for name in (*RIVALS[0], *_EACH_RANKS)}
    return {
        "gres": said["gres"],
        "gpus_per_node": _gpus(said["gpus_per_node"], said["gres"]),
        "gpus": _gpus_each("--gpus", said["gpus"]),
        "gpus_per_task": _gpus_each("--gpus-per-task", said["gpus_per_task"]),
        "gpu_bind": _gpu_bind(said["gpu_bind"], launcher),
    }


_EACH_RANKS = ("gpus_per_task", "gpu_bind")


def _gpu_bind(text: str, launcher: str) -> str:
    """Return the value of --gpu-bind: any for srun, and a value that mnrun has too for other starters."""
    if not text or launcher == "srun":
        return text
    if not re.fullmatch(r"none|closest|(single|per_task):[1-9]\d{0,3}", text):
        raise Impossible(
            f"only srun can do --gpu-bind {text}",
            "use --launcher srun, or none, closest, single:RANKS or per_task:GPUS",
        )
    return text


def _gpus(text: str, gres: str) -> str:
    if text and gres:
        raise UsageError("--gres and --gpus-per-node exclude each other")
    return _gpus_each("--gpus-per-node", text)


def _gpus_each(option: str, text: str) -> str:
    if text and not text.rpartition(":")[2].isdecimal():
        raise UsageError(f"{option} {text!r} is not [TYPE:]NUMBER")
    return text


def _limit(word: str) -> str:
    name, _, value = word.partition("=")
    if name not in ULIMITS or not re.fullmatch(r"\d+|unlimited|hard|soft", value):
        raise UsageError(
            f"--ulimit {word!r} is not NAME=NUMBER or NAME=unlimited", f"NAME is one of {', '.join(ULIMITS)}"
        )
    return word


def _ports(text: str) -> str:
    match = re.fullmatch(r"(\d+)-(\d+)", text)
    if not match or not 1024 <= int(match[1]) <= int(match[2]) <= 65535:
        raise UsageError(f"--ports {text!r} is not FROM-TO with 1024 <= FROM <= TO <= 65535")
    return text
