"""Show a plan as text for people, and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from mnrun import nodeset, versioned
from mnrun.jobspec import BUILT_IN, JobSpec
from mnrun.model import MARK, Command, Fault, Plan, Site, Where
from mnrun.nodes import kit
from mnrun.planning.commands import carry
from mnrun.schedulers import SCHEDULERS

if TYPE_CHECKING:
    from mnrun.planning.compatibility import Verdict


@dataclass(frozen=True)
class Judgement:
    """A verdict, if there is one, and the source of the facts on node and image. A fault of the job outweighs it."""

    verdict: Verdict | None
    origin: str
    spec: JobSpec
    networks: Sequence[str] = ()  # the ranks' settings for networks
    faults: Sequence[Fault] = ()

    @property
    def shown(self) -> ShownVerdict:
        surest = sorted(self.faults, key=lambda fault: not fault.sure)
        method = self.verdict.chosen if self.verdict else None
        if method and not method.works and not any(fault.sure for fault in surest):
            return ShownVerdict(False, "mpi", str(method))
        if surest:
            return ShownVerdict(False if surest[0].sure else None, surest[0].code, surest[0].text)
        if method is None or not method.judged:
            return ShownVerdict(None, "unknown", str(method or self.origin))
        return ShownVerdict(True, "works", str(method))

    @property
    def lines(self) -> list[str]:
        lines = [f"{'  ' if place else 'verdict: '}{fault.text}" for place, fault in enumerate(self.faults)]
        first, *rest = self._of_mpi
        mpi = [first.replace("verdict", "MPI") if lines else first, *rest]
        return [*lines, *mpi, *(["networks:"] if self.networks else []), *(f"  {line}" for line in self.networks)]

    @property
    def _of_mpi(self) -> list[str]:
        if self.verdict is None:
            from mnrun.planning.compatibility import single_copy

            return [f"verdict: none, {self.origin}", f"  {single_copy(self.spec)}"]
        chosen = self.verdict.chosen
        others = [method for method in self.verdict.methods if method is not chosen]
        return [
            f"verdict: {chosen}",
            *(f"  {line}" for line in (*self.verdict.notes, *(f"else {method}" for method in others), self.origin)),
        ]


@dataclass(frozen=True)
class ShownLayout:
    """The ranks on nodes."""

    nodes: Annotated[tuple[str, ...], "the nodes; empty if the scheduler is to choose them"]
    ranks: Annotated[tuple[int, ...], "the ranks on each node; or one number of all ranks if it chooses the nodes"]
    why_nodes: Annotated[str, "the reason for these nodes"]
    why_ranks: Annotated[str, "the reason for these ranks"]


@dataclass(frozen=True)
class ShownStep:
    """A step of the launch."""

    phase: Annotated[str, "the name of the step"]
    where: Annotated[
        str, "`here` in mnrun itself, `head` on the first node, `all` on every node, or `ranks` for each rank"
    ]
    why: Annotated[str, "its purpose"]
    argv: Annotated[tuple[str, ...], "the words that start it; empty if mnrun starts none"]
    nodes: Annotated[tuple[str, ...], "the hosts on which mnrun starts it by itself; empty under a scheduler"]


@dataclass(frozen=True)
class ShownValue:
    """The value of an option."""

    value: Annotated[str, "the value; of variables only their names"]
    origin: Annotated[str, "the place that has set it"]


@dataclass(frozen=True)
class ShownVerdict:
    """Whether the job will work."""

    ok: Annotated[bool | None, "whether it will work; null if that is unknown"]
    reason: Annotated[
        str,
        "`works`, `unknown`, `mpi` (image and node do not fit), or the fault: `image`, `bind-source`, "
        "`working-directory`, `script`, `program`, `job-directory`, `nodes`, `time`",
    ]
    text: Annotated[str, "the reason for people"]


@dataclass(frozen=True)
class ShownPlan:
    """The plan of a launch."""

    job: Annotated[str, "an id for the launch"]
    mode: Annotated[str, "`inside-out` or `outside-in`"]
    layout: Annotated[ShownLayout, "the ranks on nodes"]
    steps: Annotated[tuple[ShownStep, ...], "mnrun's internals, which may change without a new version"]
    values: Annotated[Mapping[str, ShownValue], "one for each option, by its name"]
    notes: Annotated[tuple[str, ...], "lines for people"]
    verdict: Annotated[tuple[str, ...], "lines for people: whether it will work"]
    judgement: Annotated[ShownVerdict, "the same for programs"]


def as_text(plan: Plan, site: Site, judgement: Judgement, commands: bool = False) -> str:
    """Return nodes, ranks, the verdict and the values that somebody set. --verbose adds the steps. `commands` also adds
    the words that start each step, and every default."""
    from mnrun.planning.compatibility import FINE
    from mnrun.planning.plan import begin

    steps = _steps(plan, site, commands) if commands or plan.spec.verbose else []
    verdict = [line for line in judgement.lines if steps or not line.strip().startswith(FINE)]
    lines = [
        f"ranks: {plan.layout.ntasks} ({plan.layout.why_ranks})",
        f"nodes: {'as many as the ranks need' if plan.layout.open else plan.layout.nnodes} ({plan.layout.why_nodes})",
        *(f"  {node}: {ranks}" for node, ranks in zip(plan.layout.nodes, plan.layout.ranks)),
        f"start: {plan.spec.start.mode}, {plan.spec.container.runtime}, {begin(plan)}",
        *verdict,
        *(f"note: {note}" for note in plan.notes),
        "",
        *_assignments(plan, commands),
        *(["", *steps] if steps else [f"{nodeset.counted(len(plan.steps), 'step')}, which -v shows"]),
    ]
    return "\n".join(lines) + "\n"


def _assignments(plan: Plan, every: bool) -> list[str]:
    values = {name: shown for name, shown in _values(plan).items() if every or plan.spec.origins[name] != BUILT_IN}
    rest = len(plan.spec.origins) - len(values)
    more = [f"{nodeset.counted(rest, 'default')}, which --commands shows"] if rest else []
    return [*(f"{name} = {shown.value}    # {shown.origin}" for name, shown in values.items()), *more]


def _steps(plan: Plan, site: Site, commands: bool) -> list[str]:
    lines = []
    words = carry(plan, site) if commands else {}
    for number, step in enumerate(plan.steps, 1):
        where = "" if step.where is Where.HERE else f" on {step.where.value}"
        lines.append(f"{number}. {step.phase.value}{where}: {step.why}")
        if step.phase in words:
            line = kit.typed(_shown(words[step.phase]), SCHEDULERS[site.scheduler].CLIENT)
            lines.append(f"   {line}" + (" &" if step.background else ""))
    return lines


def as_json(plan: Plan, site: Site, judgement: Judgement) -> str:
    commands, layout = carry(plan, site), plan.layout
    words = {phase: _shown(command) for phase, command in commands.items()}
    steps = ((step, words.get(step.phase, Command(()))) for step in plan.steps)
    shown = ShownPlan(
        job=plan.job,
        mode=plan.spec.start.mode,
        layout=ShownLayout(layout.nodes, layout.ranks, layout.why_nodes, layout.why_ranks),
        steps=tuple(
            ShownStep(s.phase.value, s.where.value, s.why, command.argv, command.nodes) for s, command in steps
        ),
        values=_values(plan),
        notes=tuple(plan.notes),
        verdict=tuple(judgement.lines),
        judgement=judgement.shown,
    )
    return versioned.text(shown, 2)


def _shown(command: Command) -> Command:
    return command._replace(argv=tuple(map(_printable, command.argv)))


def _printable(word: str) -> str:
    return word.replace(MARK, MARK[1:])


def _values(plan: Plan) -> dict[str, ShownValue]:
    """Return option -> its value. The values of -x stay out, since they may be secrets."""
    spec = plan.spec
    values = {}
    for name, origin in spec.origins.items():
        if name in ("env", "env_file"):
            text = " ".join(spec.program.forwarded)
        elif name == "hosts":
            text = ",".join(map(str, spec.hosts.named))
        elif name == "no_home":
            text = str(not spec.container.home).lower()
        else:
            value = spec.value(name)
            text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            text = text.lower() if isinstance(value, bool) else text
        values[name] = ShownValue(_printable(text), str(origin))
    return values
