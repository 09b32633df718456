"""Read the lines of srun and sbatch that pyxis's users write, and say them in mnrun's words. Pure.

Sources: args.c and README.md of pyxis 0.24.0, srun(1) and sbatch(1) of Slurm 26.11.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from mnrun.errors import Impossible, UsageError
from mnrun.record import Record
from mnrun.schedulers.slurm.foreign import FOREIGN
from mnrun.schedulers.slurm.wording import text
from mnrun.schedulers.vocabulary import Script, Shimmed

PROGRAMS = ("srun", "sbatch", "enroot")
FRONT: str = text("front.sh")

# Options by what becomes of them. A name ends with = before a value, and with ? before one that may be left out.
# pyxis's. The fate of each is in docs/howto/pyxis.md.
_PYXIS = """
container-image= container-mounts= container-workdir= container-name= container-save= container-mount-home
no-container-mount-home container-remap-root no-container-remap-root container-entrypoint no-container-entrypoint
container-entrypoint-log container-writable container-readonly container-env= container-unshare=
"""
_ALIKE = "nodes= ntasks= ntasks-per-node= cpus-per-task= nodelist= exclude= output= error= gpu-bind= label quiet"
# Requests for nodes: mnrun has them, too. In a job, they have no effect.
_REQUESTS = """
account= partition= qos= time= constraint= reservation= licenses= mem= mem-per-cpu= mem-per-gpu= gpus= gpus-per-node=
gpus-per-task= gres= job-name= exclusive?
"""
# Requests that mnrun has not. In a job, they have no effect.
_OF_JOBS = """
acctg-freq= begin= bb= bbf= cluster-constraint= clusters= comment= contiguous cores-per-socket= cpus-per-gpu= deadline=
delay-boot= dependency= extra-node-info= gpus-per-socket= gres-flags= hold mail-type= mail-user= mcs-label= mincpus=
nice? power= priority= profile= reboot signal= sockets-per-node= spread-job switches= threads-per-core= time-min= tmp=
use-min-nodes wckey=
"""
# mnrun does so by itself, or a step of mnrun's has no use for it.
_NEEDLESS = """
disable-status exact immediate? kill-on-bad-exit? mpi= no-kill? open-mode= overcommit oversubscribe overlap propagate?
quit-on-interrupt resv-ports? slurmd-debug= threads= unbuffered verbose wait=
"""
_READ = "chdir= cpu-bind= export= input= jobid= pty?"
_REFUSED = """
bcast? bcast-exclude= compress? container= container-id= core-spec= cpu-freq= distribution= epilog= export-file=
external-launcher gpu-freq= het-group= hint= mem-bind= multi-prog network= no-allocate ntasks-per-core= ntasks-per-gpu=
ntasks-per-socket= oom-kill-step? preserve-env prolog= relative= send-libs? stepmgr task-epilog= task-prolog=
thread-spec= tree-width= tres-bind= tres-per-task= x11?
"""


def _takes(names: str) -> dict[str, str]:
    """Return name -> "", = or ? of a list of options."""
    return {word.rstrip("=?"): word[-1] if word[-1] in "=?" else "" for word in names.split()}


PYXIS = _takes(_PYXIS)
SRUN = _takes(" ".join((_PYXIS, _ALIKE, _REQUESTS, _OF_JOBS, _NEEDLESS, _READ, _REFUSED, "help usage version")))
# Those of sbatch go to sbatch, so only their values matter.
SBATCH = {**SRUN, **_takes(FOREIGN.passed), **_takes("array= wrap= wait parsable test-only requeue no-requeue")}
ALIKE, REQUESTS, OF_JOBS, NEEDLESS = (frozenset(_takes(names)) for names in (_ALIKE, _REQUESTS, _OF_JOBS, _NEEDLESS))
_LETTERS = dict(
    re.findall(
        r"(.)=(\S+)",
        """
    A=account b=begin B=extra-node-info c=cpus-per-task C=constraint d=dependency D=chdir e=error E=preserve-env G=gpus
    h=help H=hold i=input I=immediate J=job-name k=no-kill K=kill-on-bad-exit l=label L=licenses m=distribution
    M=clusters n=ntasks N=nodes o=output O=overcommit p=partition q=qos Q=quiet r=relative s=oversubscribe S=core-spec
    t=time T=threads u=unbuffered v=verbose V=version w=nodelist W=wait x=exclude X=disable-status Z=no-allocate
    """,
    )
)
_SBATCH_LETTERS = {**_LETTERS, "a": "array", "F": "nodefile"}
_REMEDIES = {
    "container-entrypoint": "write what the entry point does in front of the command",
    "container-save": "build an image: mnrun image build",
    "container-unshare": "leave it out: containers share the node's network, IPC and name",
    "cpu-bind": "use none, cores, threads, sockets or ldoms",
    "export": "use --export=ALL,NAME=VALUE",
    "het-group": "give each part a job of its own",
    "input": "write srun … </path/to/file",
    "relative": "use -w NODE",
    "ntasks-per-gpu": "use --ntasks-per-node N",
    "distribution": "leave it out: ranks are numbered node by node",
}
_PROPAGATION = ("bind", "rbind", "private", "rprivate", "slave", "rslave", "shared", "rshared", "nosuid", "nodev")
_BINDINGS = {"none": "none", "no": "none", "cores": "core", "threads": "hwthread", "sockets": "socket", "ldoms": "numa"}
_SHELLS = re.compile(r"(.*/)?(ba|da|k|z)?sh")
_TRUE, _FALSE = ("1", "true", "yes", "y"), ("0", "false", "no", "n")  # config.c, parse_bool


class Given(Record):
    """An option as it was typed, and its value."""

    name: str
    value: str


def shimmed(words: Sequence[str], environ: Mapping[str, str]) -> Shimmed | None:
    """Return the step of a line of srun's without its first word, or None for a line that is srun's own matter. Raises
    UsageError, or Impossible by the name of the option that cannot be."""
    given, command = parsed(words, SRUN, _LETTERS)
    ours = {one.name for one in given} & {*PYXIS}
    given = [*given, *_of_variables(environ, ours)]
    values = {one.name: one.value for one in given}  # the last one counts
    if not {"container-image", "container-name"} & {*values}:
        if ours:
            raise UsageError(f"srun --{sorted(ours)[0]} without --container-image", "add --container-image IMAGE")
        return None
    in_job = "SLURM_JOB_ID" in environ or "jobid" in values
    options = [word for one in given for word in _option(one, values, in_job, environ)]
    if not {"ntasks", "ntasks-per-node"} & {*values} and not {"SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"} & {*environ}:
        options += ["--ntasks-per-node", "1"]  # srun's default
    if "container-remap-root" in values and "mpi" not in values:
        options += ["--launcher", "env"]  # mpirun refuses to start as root
    if {"container-remap-root", "no-container-mount-home"} <= {*values}:
        options += ["-x", "HOME=/root"]  # that of the container's own /etc/passwd
    if "pty" in values and not (len(command) in (1, 2) and _SHELLS.fullmatch(command[0])):
        raise Impossible("srun --pty with this command", "write --pty bash, and type the command at the prompt")
    name, _, flag = values.get("container-name", "").partition(":")
    traits = {"container-writable": "writable", "container-readonly": "read-only", "container-remap-root": "root"}
    return Shimmed(
        options=tuple(options),
        container=tuple(word for one in given for word in _container(one, environ)),
        command=tuple(command),
        prompt="pty" in values,
        traits=frozenset(trait for option, trait in traits.items() if option in values),
        name=name,
        flag=flag or "auto",
        single=values.get("ntasks") == "1",
        job=values.get("jobid", ""),
        chdir=values.get("container-workdir", ""),
        node=values.get("nodelist", ""),
        output=values.get("output", ""),
        error=values.get("error", ""),
    )


def parsed(words: Sequence[str], takes: Mapping[str, str], letters: Mapping[str, str]) -> tuple[list[Given], list[str]]:
    """Return the options at the begin of a line, and the words behind them, as getopt_long(3) reads them. An unknown
    option, of a plug-in of the site's, has its value in the same word."""
    given: list[Given] = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            typed, equals, value = word[2:].partition("=")
            begun = [name for name in takes if name.startswith(typed)]
            name = begun[0] if len(begun) == 1 else typed
            follows = takes.get(name) == "=" and not equals and rest
            given.append(Given(name, rest.pop(0) if follows else value))
            continue
        for place, letter in enumerate(word[1:], 2):
            name, attached = letters.get(letter, letter), word[place:]
            if how := takes.get(name):
                follows = how == "=" and not attached and rest
                given.append(Given(name, rest.pop(0) if follows else attached.removeprefix("=")))
                break
            given.append(Given(name, ""))
    return given, rest


def _of_variables(environ: Mapping[str, str], typed: set[str]) -> Iterator[Given]:
    """Yield the options of the variables PYXIS_*, which count where the line has no such option."""
    for name, takes in PYXIS.items():
        value = environ.get(f"PYXIS_{name.upper().replace('-', '_')}", "")
        opposite = {"container-writable": "container-readonly"}.get(name, f"no-{name}")
        back = {"container-readonly": "container-writable"}.get(name, opposite)
        if not value or {name, opposite, back} & typed:
            continue
        if takes:
            yield Given(name, value)
        elif value in _TRUE or (value in _FALSE and back in PYXIS):
            yield Given(name if value in _TRUE else back, "")


def _option(one: Given, values: Mapping[str, str], in_job: bool, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return mnrun's words for an option of srun's own."""
    name, value = one
    if name in PYXIS or name in NEEDLESS or (in_job and name in OF_JOBS):
        if name == "kill-on-bad-exit" and value == "0":
            raise _refused(one, "mnrun ends all ranks when one fails")
        plain = name == "mpi" and value == "none"
        return ("--launcher", "env") if plain else ()
    if name in REQUESTS and in_job:
        return ("--gpu-bind", f"per_task:{value}") if name == "gpus-per-task" and "gpu-bind" not in values else ()
    if name == "output" and value in ("none", "/dev/null"):
        return ("--output", "/dev/null")
    if name in ALIKE or name in REQUESTS:
        return (f"--{name}", value) if value else (f"--{name}",)
    if name == "chdir":
        return () if "container-workdir" in values else ("--chdir", value)
    if name == "cpu-bind" and (binding := _BINDINGS.get(value.rpartition(",")[2])):
        return ("--bind-to", binding)
    if name == "export" and (exported := _exported(value)) is not None:
        return exported
    if name == "pty" or (name == "jobid" and ("container-name" in values or value == environ.get("SLURM_JOB_ID"))):
        return ()
    if name in ("help", "usage", "version"):
        raise UsageError(f"--{name} beside --container-image", f"write srun --{name}")
    raise _refused(one)


def _refused(one: Given, remedy: str = "") -> Impossible:
    typed = f"--{one.name}={one.value}" if one.value else f"--{one.name}"
    known = _REMEDIES.get(one.name) or FOREIGN.answers.get(one.name)
    return Impossible(f"srun {typed} cannot be where mnrun runs the container", remedy or known or "leave it out")


def _exported(value: str) -> tuple[str, ...] | None:
    """Return the words for srun --export, or None for one that takes variables away."""
    names = value.split(",")
    if "ALL" not in names and value:
        return None
    return tuple(word for name in names if "=" in name for word in ("-x", name))


def _container(one: Given, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return mnrun's words for an option of pyxis's that shapes the container. Raises UsageError or Impossible."""
    name, value = one
    if name in ("container-save", "container-entrypoint", "container-unshare"):
        raise _refused(one)
    if name == "container-image":
        return ("--image", image(value))
    if name == "container-mounts":
        return tuple(word for mount in value.split(",") for word in ("--bind", _mount(mount)))
    if name == "container-workdir":
        return ("--chdir", value)
    if name == "container-env":
        return tuple(word for each in value.split(",") if each in environ for word in ("-x", each))
    return ("--no-home",) if name == "no-container-mount-home" else ()


def help_text() -> str:
    """Return pyxis's part of `srun --help`: tools ask there whether a site has pyxis."""
    return "".join(f"      [pyxis] --{name}{'=VALUE' * (takes == '=')}\n" for name, takes in PYXIS.items())


def listed(words: Sequence[str], running: Sequence[tuple[str, str, int]]) -> str | None:
    """Return the answer to a line of enroot's about the named containers that run here: job, name and process number
    of each. None is for a line that enroot itself must answer. A removed container is gone with its job in any case."""
    if not words or words[0] not in ("list", "remove"):
        return None
    shown = [(f"pyxis_{job}_{name}", f" {pid} mnrun") for job, name, pid in running if words[0] == "list"]
    if words[1:]:
        shown.insert(0, ("NAME", " PID COMM"))
    return "".join(f"{name}{rest if words[1:] else ''}\n" for name, rest in shown) if words[0] == "list" else ""


def image(word: str) -> str:
    """Return an image of enroot's as mnrun names it: [docker://][USER@][REGISTRY#]NAME[:TAG], or a path. The user's
    name goes: a runtime finds the password by the registry alone."""
    scheme, found, rest = word.partition("://")
    if found and scheme != "docker":
        raise Impossible(f"--container-image {word}: images of a daemon", "use mnrun --runtime docker --image NAME")
    if not found and (word[:1] in "/." or word.endswith((".sqsh", ".sif"))):
        return word
    name = re.sub(r"^[^/#@]+@(?=[^@]*#)", "", rest if found else word).replace("#", "/")
    return f"docker://{name}"


def _mount(word: str) -> str:
    """Return a mount of pyxis's, SRC[:DST[:FLAG+FLAG]], as mnrun has it. Runtimes choose the propagation themselves."""
    source, target, flags = (*word.split(":", 2), "", "")[:3]
    if source in ("tmpfs", "umount") or not source:
        what = f"a mount of {source}" if source else "no source"
        raise Impossible(f"--container-mounts {word}: {what}", "name a directory of the nodes as SRC:DST")
    kept = [flag for flag in flags.split("+") if flag not in _PROPAGATION and not flag.startswith("x-") and flag]
    if odd := [flag for flag in kept if flag not in ("ro", "rw")]:
        raise Impossible(f"--container-mounts {word}: the flag {odd[0]}", "leave it out; ro and rw are known")
    place = target if target.startswith("/") or not target else f"/{target.removeprefix('./')}"
    return ":".join(filter(None, (source, place or (source if kept else ""), *kept[:1])))


def around(directives: Sequence[str]) -> dict[str, str]:
    """Return the variables that `shimmed` reads, in a job with these options of sbatch's."""
    given = {one.name: one.value for one in parsed(directives, SBATCH, _SBATCH_LETTERS)[0]}
    names = {"SLURM_NTASKS": "ntasks", "SLURM_NTASKS_PER_NODE": "ntasks-per-node"}
    return {"SLURM_JOB_ID": "", **{name: given[option] for name, option in names.items() if option in given}}


def script_of(words: Sequence[str]) -> Script:
    """Return a line of sbatch's, without its first word, in its parts."""
    given, rest = parsed(words, SBATCH, _SBATCH_LETTERS)
    own, container = _sorted(given)
    reads = not rest and not {"wrap", "help", "usage", "version"} & {one.name for one in given}
    return Script(own, rest[0] if rest else "", reads, tuple(rest[1:]), container)


def _sorted(given: Sequence[Given]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of other options, and those of pyxis's."""
    typed = [(one.name in PYXIS, f"--{one.name}={one.value}" if one.value else f"--{one.name}") for one in given]
    return tuple(word for ours, word in typed if not ours), tuple(word for ours, word in typed if ours)


def within(
    script: str, container: Sequence[str], call: Sequence[str], environ: Mapping[str, str], name: str
) -> str | None:
    """Return a batch script whose commands run once, in the container of its first node. pyxis does so for a script
    with --container-image. Return None for a script without one."""
    lines = script.splitlines(keepends=True)
    end = next((place for place, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    head, body = lines[:end], "".join(lines[end:])
    options = list(container)
    for place, line in enumerate(head):
        if line.startswith("#SBATCH") and "container-" in line:
            own, taken = _sorted(parsed(shlex.split(line[7:], comments=True), SBATCH, _SBATCH_LETTERS)[0])
            options += taken
            if taken:
                head[place] = f"#SBATCH {shlex.join(own)}\n" if own else f"# {line}"
    asked = shimmed([*options, "true"], {**environ, "SLURM_JOB_ID": ""}) if options else None
    if asked is None:
        return None
    shell = lines[0][2:].split() if lines[0].startswith("#!") else []
    if not shell or not re.fullmatch(r"(.*/)?((ba|da|k|z)?sh|python[\d.]*)", shell[-1 if "env" in shell[0] else 0]):
        raise Impossible("sbatch --container-image with this script", "begin it with #!/bin/bash or #!/bin/sh")
    head.insert(1, f"#SBATCH --job-name={shlex.quote(name or 'sbatch')}\n")  # as for the script itself
    again = (*call, "shim", "--", "srun", "-N1", "-n1", "--mpi=none", *options, *shell, "-c", body, "slurm_script")
    return "".join([*head, f'exec {shlex.join(again)} "$@"\n'])
