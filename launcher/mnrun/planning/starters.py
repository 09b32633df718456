"""Choose the starter of the ranks by --mode, --launcher and --mpi, and check the numbers that a command names. Pure."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Sequence

from mnrun.config.layers import Settings
from mnrun.errors import Impossible, UsageError
from mnrun.jobspec import JobSpec
from mnrun.model import Layout, Words
from mnrun.mpi import WITHOUT_MPI
from mnrun.nodeset import counted
from mnrun.schedulers import DEFAULT, KNOWN

TORCH_MODULES = ("torch.distributed.run", "torch.distributed.launch")  # python -m …, which are torchrun
FLAGS = ("standalone", "m", "module", "no_python", "virtual_local_rank", "h", "help", "use_env")  # without a value
# The programs by which schedulers start ranks -> the scheduler's name
OF_SCHEDULERS = {scheduler.STARTER: scheduler.TITLE for scheduler in KNOWN.values() if scheduler.STARTER}
BY_SCHEDULER = KNOWN[DEFAULT].STARTER  # the one for --mpi pmix or pmi2
PMI = ("pmix", "pmi2")
PROGRAMS = ("mpirun", "mpiexec", "mpiexec.hydra", "prterun", *OF_SCHEDULERS)  # starters with which a command may begin


def mode(settings: Settings) -> str:
    """Return the mode. For auto, it is inside-out, except for requests that only a scheduler can fulfil."""
    request = str(settings["mode"].value)
    by_scheduler = settings["launcher"].value in OF_SCHEDULERS or settings["mpi"].value in PMI
    return request if request != "auto" else "outside-in" if by_scheduler else "inside-out"


def undecided(settings: Settings, launcher: str) -> Words:
    """Return which of mode, launcher and mpi are open, if an MPI starts the ranks. Any --mpi has one launcher."""
    names: Words = ("mode",) if settings["mpi"].value != "auto" else ("mode", "launcher", "mpi")
    return tuple(name for name in names if settings[name].value == "auto" and launcher not in WITHOUT_MPI)


def launcher(settings: Settings, command: Sequence[str], mode: str) -> str:
    """Return the starter of the ranks: mpirun, unless an option or its value asks for another."""
    request, mpi = str(settings["launcher"].value), str(settings["mpi"].value)
    if request == "auto" and mpi == "auto" and torchrun_words(command) is not None:
        request = "torchrun"
    if request in WITHOUT_MPI:
        return _without_mpi(request, settings)
    by_scheduler = request if request in OF_SCHEDULERS else BY_SCHEDULER
    wanted = by_scheduler if mpi in PMI else request if mpi == "auto" else "mpirun"
    if request not in ("auto", wanted):
        raise Impossible(f"--launcher {request} and --mpi {mpi} exclude each other", f"{mpi} needs --launcher {wanted}")
    if wanted in OF_SCHEDULERS and mode != "outside-in":
        raise Impossible(f"{wanted} starts ranks from outside the containers", "add --mode outside-in")
    return "mpirun" if wanted == "auto" else wanted


def _without_mpi(launcher: str, settings: Settings) -> str:
    if settings["mpi"].value != "auto":
        problem = f"--launcher {launcher} and --mpi {settings['mpi'].value} exclude each other"
        raise Impossible(problem, f"{launcher} starts ranks without an MPI")
    if settings["mode"].value == "outside-in":
        problem = f"{launcher} starts ranks in containers that wait, which outside-in lacks"
        raise Impossible(problem, "use --mode inside-out")
    if launcher in ("torchrun", "ray") and "gpu_bind" in settings:
        problem = f"--gpu-bind cannot be used with {launcher}, whose processes see all of their node's GPUs"
        raise Impossible(problem, "choose a GPU by LOCAL_RANK in the program")
    return launcher


def torchrun_words(command: Sequence[str]) -> Sequence[str] | None:
    """Return the words after torchrun, or after the module of Python that it is. None for another command."""
    name = os.path.basename(command[0]) if command else ""
    if name == "torchrun":
        return command[1:]
    if re.fullmatch(r"python[\d.]*", name) and "-m" in command[:-1]:
        place = command.index("-m") + 1
        if command[place] in TORCH_MODULES and all(word.startswith("-") for word in command[1:place]):
            return command[place + 1 :]
    return None


def check_numbers(spec: JobSpec, layout: Layout) -> None:
    """Raise UsageError if the command names other numbers of nodes or ranks than the launch has. torchrun would wait
    for the missing nodes for 10 minutes, or start several groups."""
    if spec.force:
        return
    command = spec.program.command
    words = torchrun_words(command)
    if words is not None:
        _check_torchrun(dict(_options(words)), spec.resources.ntasks_per_node, layout)
    elif [os.path.basename(word) for word in command[:1]] == ["accelerate"] and "launch" in command[1:2]:
        nodes = next((value for name, value in _options(command[2:], every=True) if name == "num_machines"), "")
        if nodes.isdecimal() and not layout.open and int(nodes) != layout.nnodes:
            raise _other("accelerate launch --num_machines", nodes, counted(layout.nnodes, "node"), f"add -N {nodes}")
    elif spec.program.once:
        _check_mpirun(command, layout)


def _options(words: Sequence[str], every: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the names of options and their values, up to the first other word, or of `every` word."""
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            if every:
                continue
            return
        option, equals, value = word.lstrip("-").partition("=")
        name = option.replace("-", "_")
        if (not equals and name not in FLAGS and not every) or (not equals and every and name == "num_machines"):
            value = next(rest, "")
        yield name, value


def _other(words: str, value: str, has: str, remedy: str) -> UsageError:
    return UsageError(f"{words} {value}, but this run has {has}", f"{remedy}, or leave the option out")


def _check_torchrun(options: dict[str, str], asked: int | None, layout: Layout) -> None:
    nodes = counted(layout.nnodes, "node")
    if not layout.open and (match := re.fullmatch(r"(\d+)(?::(\d+))?", options.get("nnodes", ""))):
        least, most = int(match[1]), int(match[2] or match[1])
        if not least <= layout.nnodes <= most:
            raise _other("torchrun --nnodes", match[0], nodes, f"add -N {least}")
    if layout.nnodes > 1 and "standalone" in options:
        raise UsageError(f"torchrun --standalone is for one node, and this run has {nodes}", "leave the option out")
    elastic = options.get("rdzv_backend", "static") != "static"  # it numbers the nodes by itself
    if layout.nnodes > 1 and "node_rank" in options and not elastic:
        problem = f"torchrun --node_rank {options['node_rank'] or repr('')} would be the same on all {nodes}"
        raise UsageError(problem, "leave it out: mnrun sets it")
    each = options.get("nproc_per_node", "")
    if each.isdecimal() and (asked or 1) not in (1, int(each)):  # users of schedulers ask for 1, which starts torchrun
        has = f"{asked} ranks on each node"
        raise _other("torchrun --nproc_per_node", each, has, f"write --ntasks-per-node {each}")


def _check_mpirun(command: Words, layout: Layout) -> None:
    """Raise UsageError if an mpirun asks for more ranks than there are slots. Open MPI would refuse to start them."""
    name = os.path.basename(command[0])
    text = " ".join(command).lower()
    if name in OF_SCHEDULERS or re.search(r"oversub|overload| --?h(ost|f)?|machinefile|rankfile| -f ", text):
        return
    numbers = [value for word, value in zip(command, command[1:]) if word in ("-n", "-np", "--np")]
    total = sum(int(number) for number in numbers if number.isdecimal())
    if total > layout.ntasks:
        slots = counted(layout.ntasks, "slot")
        remedy = f"ask for them with mnrun -n {total}, or oversubscribe with --force"
        raise UsageError(f"{name} starts {total} ranks, but this run has {slots}", remedy)
