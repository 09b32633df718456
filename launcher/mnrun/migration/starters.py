"""Read the options of programs that start ranks, and say them in mnrun's words. Pure.

Sources: mpirun(1) of Open MPI 4.1 and 5.0, `mpiexec.hydra -help` of MPICH 4.2 and of Intel MPI 2021, and TACC's user
guides for ibrun.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mnrun.errors import Impossible

PROGRAMS = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "ibrun")
# Option -> its fate: the word of mnrun's that it becomes, `-` for not needed, `args` for --mpi-args, or a case of _put.
_ONE = {
    **dict.fromkeys(("n", "np", "c"), "-n"),
    **dict.fromkeys(("npernode", "N", "ppn", "perhost"), "--ntasks-per-node"),
    **dict.fromkeys(("x", "genvlist", "envlist"), "each"),
    **dict.fromkeys(("hostfile", "machinefile", "f", "H", "host", "hosts"), "nodes"),
    **dict.fromkeys(("launcher", "bootstrap", "rmk", "launcher-exec", "prefix"), "-"),
    **dict.fromkeys(("wd", "wdir"), "-D"),
    **dict.fromkeys(("rank-by", "rankfile", "cpu-set", "cpu-list", "iface", "tune"), "args"),
    "bind-to": "--bind-to",
    "map-by": "mapped",
}
_TWO = {
    **dict.fromkeys(("genv", "env"), "pair"),
    **dict.fromkeys(("mca", "gmca", "prtemca", "pmixmca"), "mca"),
}
_NONE = {
    **dict.fromkeys(("genvall", "envall", "allow-run-as-root", "nolocal"), "-"),
    **dict.fromkeys(("oversubscribe",), "--force"),
    **dict.fromkeys(("tag-output", "prepend-rank", "l"), "--label"),
    **dict.fromkeys(("report-bindings", "display-map", "display-allocation", "use-hwthread-cpus"), "args"),
    "pernode": "pernode",
    "q": "-",
    "quiet": "-",
}
_UNITS = ("none", "core", "hwthread", "socket", "numa", "l3cache", "package", "board")


@dataclass
class Ranks:
    """The options for ranks, in mnrun's words. `notes` say what is different, and `rest` is the program's line."""

    options: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rest: tuple[str, ...] = ()


def read(words: Sequence[str], own: Callable[[str], bool] = bool) -> Ranks:
    """Return the options of a line. `own` tells whether a value is the scheduler's list of nodes. Raises Impossible."""
    ranks, rest = Ranks(), list(words[1:])
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word.lstrip("-").partition("=")
        count = next((count for count, table in enumerate((_NONE, _ONE, _TWO)) if name in table), None)
        taken = [value] if equals else rest[: count or 0]
        if count is None or len(taken) != count or (name == "o" and words[0] == "ibrun"):
            raise Impossible(f"{words[0]} {word} is not known", "mnrun run --help-all lists mnrun's options")
        del rest[: 0 if equals else count]
        _put(ranks, (_NONE, _ONE, _TWO)[count], name, taken, own)
    if ":" in rest:
        raise Impossible(f"{words[0]} starts several programs", "use --script FILE, with this line in it")
    ranks.rest = tuple(rest)
    return ranks


def _put(ranks: Ranks, table: Mapping[str, str], name: str, values: Sequence[str], own: Callable[[str], bool]) -> None:
    fate, options = table[name], ranks.options
    dashes = "-" if len(name) == 1 else "--"
    if fate == "each":
        names = values[0].split(",") if name != "x" else values
        names = [each for each in names if each not in ("PATH", "LD_LIBRARY_PATH")]  # the image has its own
        options.extend(part for each in names for part in ("-x", each))
    elif fate == "pair":
        options.extend(("-x", "=".join(values)))
    elif fate == "pernode":
        options.extend(("--ntasks-per-node", "1"))
    elif fate == "nodes":
        if not own(values[0]):
            ranks.notes.append(f"mnrun takes all nodes of the job, and not those of {dashes}{name}")
    elif fate == "mca" and re.match(r"plm_|rmaps_base_oversub|orte_tmpdir", values[0]):
        pass
    elif fate == "mapped" and (each := re.fullmatch(r"ppr:(.+):node", values[0])):
        options.extend(("--ntasks-per-node", each[1]))
    elif fate in ("args", "mapped", "mca") or (fate == "--bind-to" and values[0] not in _UNITS):
        options.extend(("--mpi-args", " ".join((f"{dashes}{name}", *values))))
    elif fate != "-":
        options.extend((fate, *values))
