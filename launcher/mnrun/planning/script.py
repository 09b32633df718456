"""A plan as a batch script that stands alone: bash and our wrappers, no Python on the nodes. Pure.

The script runs the very words that `mnrun plan` shows. What is known only in the job stands in
them as a name of ours, which becomes a variable of the script's here, and in the files that the
nodes are sent is filled in by wrappers/walk.sh.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

from mnrun import __version__, connect, environment
from mnrun.files import render
from mnrun.model import JobSpec, Layout, Phase, Plan, Site, Words
from mnrun.mpi import PMI
from mnrun.network import facts
from mnrun.nodes import kit
from mnrun.planning.commands import carry
from mnrun.planning.plan import with_image
from mnrun.schedulers.slurm import steps
from mnrun.schedulers.slurm.steps import EACH, HEAD, MARK, NODES

JOB = f"{MARK}JOB"  # our id of the launch
SLURM_JOB = f"{MARK}SLURM"
HOSTS = f"{MARK}HOSTS"
IMAGE = f"{MARK}PULLED"  # what PREPARE finds

_VARIABLES = {
    f"/tmp/mnrun.{JOB}": "$mnrun_here",
    JOB: "$mnrun_id",
    HEAD: "$mnrun_head",
    EACH: "$mnrun_each",
    NODES: "$mnrun_nodes",
    IMAGE: "$mnrun_image",
    PMI: "$mnrun_pmi",
}

# The script's names for what a node is told in one word.
_SPOKEN = {kit.BOOT: "mnrun_boot", kit.FETCH: "mnrun_fetch", kit.AWAIT: "mnrun_until_go", kit.INTO: "mnrun_into"}


@dataclass(frozen=True)
class Script:
    """A script's text, and the files that it finds in its stage: name -> text."""

    text: str
    stage: Mapping[str, str]


@dataclass(frozen=True)
class Line:
    """A line of the script, and why it is there."""

    text: str
    why: str


def write(plan: Plan, where: Site, stage: str, source: str) -> Script:
    """The script of `plan`, whose wrappers will lie in the directory `stage`; `source` says where it comes from."""
    spec = plan.spec
    plan = with_image(plan, IMAGE) if spec.by_reference else plan
    carried = {command.step.phase: command.argv for command in carry(plan, where)}
    inside = spec.mode == "inside-out"
    text = render(
        "slurm.sh",
        spec.templates,
        title=_one_line(_title(plan)),
        version=__version__,
        source=_one_line(source),
        directives=_aligned([Line(f"#SBATCH {text}", why) for text, why in steps.directives(spec, plan.layout)]),
        setup=_aligned(_setup(spec)),
        stage=shlex.quote(stage),
        jobs=shlex.quote(spec.job_dir),
        ranks=" ".join(map(str, plan.layout.ranks)),
        variables=_aligned(_variables(plan)),
        inherited=_aligned([Line(f'"{v.name}${{{v.name}+=${v.name}}}"', v.why) for v in spec.env if v.inherited]),
        fabric=_aligned([Line(environment.quote(f"{v.name}={v.value}"), v.why) for v in spec.learned.env]),
        inside="1" if inside else "",
        connect=spec.connect if inside else "",
        split=shlex.quote(spec.split_output),
        require="" if spec.require == "any" else spec.require,
        counted="1" if plan.counted else "",
        prepare=_words(carried[Phase.PREPARE]) if spec.by_reference else "",
        image=shlex.quote(spec.image),
        pull_timeout=spec.pull_timeout,
        exports=_aligned(
            [Line(f"export {v.name}={shlex.quote(v.value or '')}", v.why) for v in steps.for_clients(plan)]
        ),
        serve=_words(carried[Phase.SERVE]),
        asking=_words(carried.get(Phase.ASK, ())),
        run=_words(carried[Phase.RUN]),
        sweep=_words(carried[Phase.STOP]),
        early=_is_early(plan),
        start_timeout=spec.start_timeout,
    )
    return Script(text, _stage(plan, where, inside))


def on_paper(layout: Layout) -> Layout:
    """The layout with names that stand for nodes which nobody holds yet."""
    return replace(layout, nodes=(NODES,) * layout.nnodes)


def _is_early(plan: Plan) -> bool:
    """Whether the program's step starts before all nodes are ready, and waits for go."""
    phases = [step.phase for step in plan.steps]
    return phases.index(Phase.RUN) < phases.index(Phase.AWAIT)


def _title(plan: Plan) -> str:
    spec, layout = plan.spec, plan.layout
    ranks = "-".join(str(count) for count in sorted(set(layout.ranks)))
    inside = {"env": "mnrun starts the ranks inside the image", "torchrun": "torchrun runs inside the image"}
    if spec.mode == "inside-out":
        how = inside.get(plan.starter, "mpirun runs inside the image")
    else:
        how = f"the host's {plan.starter} starts the ranks"
    return f"{steps.job_name(spec)}: {layout.nnodes} nodes x {ranks} ranks, {spec.mode} ({how}), {spec.runtime}"


# As a live run's (system/modules.py); what the profile says otherwise is no matter.
_MODULES = "type module >/dev/null 2>&1 || [ ! -r /etc/profile ] || . /etc/profile >/dev/null 2>&1 || :"


def _setup(spec: JobSpec) -> list[Line]:
    modules = [Line(f"module load {shlex.quote(name)}", spec.word_origins["module", name]) for name in spec.module]
    modules = [Line(_MODULES, "where a login shell has it"), *modules] if modules else []
    limits = []
    for limit in spec.ulimit:
        name, _, value = limit.partition("=")
        limits.append(Line(f"ulimit -{steps.ULIMITS[name]} {shlex.quote(value)}", spec.word_origins["ulimit", limit]))
    return [*modules, *limits, *_lines(spec)]


def _lines(spec: JobSpec) -> list[Line]:
    """The user's own, as they are: where they come from stands above them, since a comment
    behind a line, or between two, may stand in the middle of a word or a document of theirs."""
    found: list[Line] = []
    above = ""
    for text, origin in zip(spec.setup, spec.setup_origins):
        if origin != above:
            found.append(Line(f"# setup: {_one_line(origin)}", ""))
        found.append(Line(text, ""))
        above = origin
    return found


def _variables(plan: Plan) -> list[Line]:
    """NAME=VALUE of every rank, NAME alone for what is taken away; what is the job's own is found in the job."""
    lines = []
    for variable in plan.spec.env:
        if variable.value is None:
            lines.append(Line(variable.name, f"taken away: {variable.why}"))
        elif not variable.inherited and not environment.is_given_back(variable.name):
            lines.append(Line(shlex.quote(f"{variable.name}={variable.value}"), variable.why))
    return lines


def _stage(plan: Plan, where: Site, inside: bool) -> dict[str, str]:
    """The nodes' files as they are before there is a job, walk.sh, and what it fills in."""
    bare = replace(plan, spec=replace(plan.spec, env=()))
    launch = (
        kit.inside_environment(bare, Layout((HOSTS,), (plan.layout.ntasks,)))
        if inside
        else kit.outside_environment(plan, steps.launch_environment(plan, where))
    )
    nodes = {f"kit/{name}": text for name, text in kit.files(bare, {"launch.env": launch}).items() if name != "layout"}
    for kind, names in (("NIC", plan.spec.learned.nics), ("HCA", plan.spec.learned.hcas)):
        nodes["kit/needs"] += "".join(f"{kind}\t{name}\n" for name in names)
    words = environment.assignments({variable: kit.spoken(name) for name, variable in _SPOKEN.items()})
    small = "".join(
        f"  {environment.quote(f'{name} {least} {line}')}\n" for name, (least, line) in facts.limits().items()
    )
    own = {**kit.walker(), "words.sh": f"{environment.srun_script()}{words}mnrun_limits=(\n{small})\n"}
    if plan.spec.by_reference:
        own.update(kit.pullers())
    if inside and connect.keyed(plan.spec.connect):
        own.update(connect.ssh.files(plan.node_dir, ()))
    return {**own, **nodes}


def _words(argv: Words) -> str:
    """The words of a command, for bash, with the script's variables in them."""
    spoken = {kit.spoken(name): f'"${variable}"' for name, variable in _SPOKEN.items()}
    return " ".join(spoken.get(word) or _word(word) for word in argv)


def _word(word: str) -> str:
    if not any(name in word for name in _VARIABLES):
        return shlex.quote(word)
    for special in '\\"`$':
        word = word.replace(special, f"\\{special}")
    for name, variable in _VARIABLES.items():
        word = word.replace(name, variable)
    return f'"{word}"'


def _one_line(text: str) -> str:
    """For a comment, whatever is in it."""
    return re.sub(r"[\x00-\x1f\x7f]+", " ", text)


def _aligned(lines: list[Line]) -> list[str]:
    """Each with its reason as a comment, in one column as far as that goes."""
    lines = [replace(line, why=_one_line(line.why)) for line in lines]
    width = max((len(line.text) for line in lines if line.why and len(line.text) <= 60), default=0)
    return [f"{line.text:<{width}}  # {line.why}" if line.why else line.text for line in lines]
