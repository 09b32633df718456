"""Write a job in the options of a batch system: the parts that do not differ. Runs no command."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mnrun import environment, formats, nodeset
from mnrun.errors import Impossible, UsageError
from mnrun.jobspec import JobSpec, Variable, gpu_count, split_gres
from mnrun.model import Layout, job_name
from mnrun.record import Record
from mnrun.schedulers import common
from mnrun.schedulers.vocabulary import JobId


class Shape(Record):
    """The hosts of a job, and its slots on each."""

    hosts: int
    slots: int

    @property
    def total(self) -> int:
        return self.hosts * self.slots


def shape(layout: Layout, cpus: int, title: str) -> Shape:
    """Return the hosts and slots of a job, whose ranks have `cpus` each. Raises Impossible if hosts differ."""
    if len(set(layout.ranks)) > 1:
        problem = f"{title} gives each node the same number of slots, and the ranks are {layout.ranks}"
        raise Impossible(problem, "ask for the same number on each node: --ntasks-per-node")
    return Shape(layout.nnodes, layout.ranks[0] * max(cpus, 1))


class Request(Record):
    """A job and its shape, for the functions that write its lines. `system` has the settings of the site, and may have
    dialects. `jobs` has the system's ids of those that the job waits for."""

    spec: JobSpec
    layout: Layout
    shape: Shape
    system: str
    dialect: str = ""
    jobs: Mapping[str, str] = {}

    def text(self, name: str) -> str:
        """Return the value of an option, or ""."""
        return str(self.spec.value(name) or "")

    def nodes(self, name: str) -> tuple[str, ...]:
        """Return the names in an option with nodes."""
        return nodeset.expand(self.text(name)) if self.text(name) else ()

    def site(self, key: str, default: str) -> str:
        """Return a setting of the site."""
        return str(self.spec.batch.site.get(self.system, {}).get(key, default))

    @property
    def seconds(self) -> int:
        """Return the time limit, or 0 for none."""
        seconds = formats.seconds(self.text("time")) if self.text("time") else 0
        return int(seconds) if seconds != float("inf") else 0

    @property
    def at_once(self) -> int:
        """Return how many tasks of its array may run at once, or 0 for all."""
        return formats.array(self.text("array")).at_once if self.text("array") else 0

    @property
    def megabytes(self) -> int:
        """Return the memory of a slot, or 0 if the job asks for none."""
        if whole := self.text("mem"):
            return -(-formats.megabytes(whole) // self.shape.slots)
        return formats.megabytes(self.text("mem_per_cpu")) if self.text("mem_per_cpu") else 0

    @property
    def gpus(self) -> int:
        """Return the GPUs of a node."""
        want = self.spec.resources
        return gpu_count(want.gpus_per_task) * self.layout.ranks[0] if want.gpus_per_task else want.gpus_asked


# An option of mnrun's, that of the scheduler's program ("" if the value has it), and its value, or "" for none.
Row = tuple[str, str, Callable[[Request], str]]


def rows(request: Request, table: Sequence[Row], quote: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return (option of the scheduler's program with its value, origin) for each row that has a value."""
    found = []
    for name, flag, write in table:
        value, origin = write(request), str(request.spec.origins.get(name, "built-in"))
        refuse_lines(name, value, origin)
        if value:
            found.append((f"{flag} {quote(value)}" if flag else value, origin))
    return found


class Style(Record):
    """The options in a script of a batch system."""

    sign: str  # the begin of their lines: #$
    quote: Callable[[str], str]  # writes the value of an option
    table: Sequence[Row]
    repeated: Collection[str]  # options that a script may have several times
    ignored: str  # for `warning`
    own: Callable[[str], str] = str  # writes a word of the user's own option
    parts: bool = False  # whether a `repeated` one may not have the same name twice before its values


def lines(request: Request, first: Sequence[tuple[str, str]], style: Style) -> list[tuple[str, str]]:
    """Return (line of the script, origin) for the `first` options, those that the job asks for, and the user's own."""
    found = [*first, *rows(request, style.table, style.quote)]
    written = {re.split("[ =]", line)[0] for line, _ in found} - {*style.repeated}
    written |= {line.partition("=")[0].replace("'", "") for line, _ in found if style.parts}
    found += [(style.own(word), origin) for word, origin in own_words(request.spec, request.system, written)]
    signal = [(warning(request, style.ignored), str(request.spec.origins["signal"]))] if request.text("signal") else []
    return [*((f"{style.sign} {line}", origin) for line, origin in found), *signal]


def gpu_type(request: Request, pattern: str) -> str:
    """Return the type of GPUs that the job asks for, or "". Raises Impossible if the site's words cannot name it."""
    option = "gpus-per-node" if request.text("gpus_per_node") else "gres"
    words = request.text("gpus_per_node") or split_gres(request.text("gres"))[0]
    kind = re.sub("^(gres/)?gpu:?", "", words).rpartition(":")[0]
    if kind and "{type}" not in pattern:
        raise Impossible(f"--{option} {words}: this site names no types of GPUs", "name a number alone")
    return kind


def gpus(request: Request, default: str, of_type: str = "") -> str:
    """Return the site's words for the GPUs of a node, or "" without GPUs. `of_type` are the default ones for a type of
    GPUs. Raises Impossible as gpu_type does."""
    typed = of_type and gpu_type(request, of_type)
    pattern, number = request.site("gpus", of_type if typed else default), request.gpus
    known = {"gpus": str(number), "per_slot": f"{number / request.shape.slots:g}", "type": gpu_type(request, pattern)}
    return filled(pattern, known) if number else ""


def filled(pattern: str, known: Mapping[str, str]) -> str:
    """Return a pattern of the site's profile with the values of its {names}."""
    return re.sub(r"\{(\w+)\}", lambda match: known.get(match[1], match[0]), pattern)


def expression(request: Request, title: str) -> str:
    """Return the features that the job asks for, with & and |. Raises Impossible for numbers of nodes."""
    if re.search(r"[\[\]*]", text := request.text("constraint")):
        raise Impossible(f"--constraint {text}: {title} counts no nodes by features", "join features with & or |")
    return text


def account(request: Request) -> str:
    """Return the account of the job, or "" if the site has it as a project."""
    return request.text("account") if request.site("account", "") != "project" else ""


def project(request: Request) -> str:
    """Return the account of the job if the site has it as a project, or ""."""
    return request.text("account") if request.site("account", "") == "project" else ""


def features(request: Request, title: str) -> list[str]:
    """Return the features that the job asks for. Raises Impossible for alternatives."""
    text = request.text("constraint")
    if re.search(r"[|\[\]*()]", text):
        raise Impossible(f"--constraint {text}: {title} has no alternatives", "name features with & or ,")
    return [name for name in re.split("[&,]", text) if name]


def licenses(request: Request) -> list[tuple[str, str]]:
    """Return (name, number) of each license."""
    items = (item.partition(":") for item in request.text("licenses").split(",") if item)
    return [(name, count or "1") for name, _, count in items]


def warning(request: Request, ignored: str) -> str:
    """Return the line of the script that signals mnrun, which the script becomes, some time before the limit. The
    line's process does not heed the signals in `ignored`, which its scheduler may send. Raises Impossible."""
    name, before = formats.warning(request.text("signal"))
    if not 0 < before < request.seconds:
        problem = f"--signal {request.text('signal')}: the signal comes some time before the limit of --time"
        raise Impossible(problem, f"write --signal {name}@SECONDS, with a longer --time")
    # tail ends with mnrun, and timeout with 124 if mnrun still runs then.
    waits = f"timeout {request.seconds - before} tail --pid=$$ -f /dev/null"
    return f"(trap '' {ignored}; {waits}; [ $? != 124 ] || kill -s {name} $$) &>/dev/null &"


def in_bash(text: str, letters: Mapping[str, str]) -> str:
    """Return the word of bash that names a file, where the scheduler fills in no pattern. `letters` are bash, too."""
    literal = re.sub(r'["$`\\]', r"\\\g<0>", text)
    return f'"{pattern(literal, letters)}"'


# A line of a script behind which `carrying` writes variables, with their names.
CARRIED = "# mnrun submit writes these variables here:"
# Variables that a job has of its own, or that bash sets.
_OF_EACH = ("SSH_*", "TMPDIR", "HOSTNAME", "PWD", "OLDPWD", "SHLVL", "_", *environment.SHELL_VARIABLES)


def carrying(script: str, spec: JobSpec, environ: Mapping[str, str], own: Sequence[str]) -> str:
    """Return the script with the variables of --export, for a scheduler that would show them to everybody. `own` are
    patterns of its own variables."""
    words = exported(spec)
    named = environ if "ALL" in words else [word for word in words if word in environ]
    kept = [Variable(name, environ[name]) for name in named if not environment.matches(name, (*_OF_EACH, *own))]
    kept += [Variable(*word.partition("=")[::2]) for word in words if "=" in word]
    text = environment.exports(one for one in kept if environment.NAME.match(one.name))
    return re.sub(f"^{CARRIED}.*\n", lambda line: line[0] + text, script, count=1, flags=re.MULTILINE)


def evenly(spec: JobSpec) -> Layout:
    """Return the layout of a job without a program, which may name nothing of its shape."""
    want = spec.resources
    nodes = want.nodes or 1
    return Layout((), (want.ntasks_per_node or max((want.ntasks or nodes) // nodes, 1),) * nodes)


def output(spec: JobSpec) -> str:
    """Return the pattern of the file of the job's output. By default, the tasks of an array have the array's number."""
    return spec.batch.text("output") or ("%x-%A_%a.out" if spec.batch.text("array") else "%x-%j.out")


def refuse_lines(name: str, value: str, origin: str) -> None:
    """Raise UsageError if a value is more than its own line of the script: bash would run the rest of it."""
    if re.search(r"[\x00-\x1f\x7f]", value):
        option = f"--{name.replace('_', '-')}"
        problem = f"{option} {value!r} contains a tab, a newline or another control character ({origin})"
        raise UsageError(problem, "name the job with --job-name" if name == "job_name" else "")


def own_words(spec: JobSpec, name: str, written: Collection[str]) -> list[tuple[str, str]]:
    """Return (word, origin) of the scheduler's own option. Raises UsageError for one that the script has `written`:
    an option, or one with the name before its value, such as `-l walltime`."""
    words = [(word, str(spec.word_origins[name, word])) for word in dict.fromkeys(spec.batch.own.get(name, ()))]
    for word, origin in words:
        refuse_lines(name, word, origin)
        names = (word.split()[0], word.partition("=")[0])
        if taken := [one for one in names if one in written or f"--{one}" in written]:
            raise UsageError(f"--{name} {word!r} ({origin}): mnrun sets {taken[0]} itself", "see mnrun plan")
    return words


def named(spec: JobSpec, title: str, bad: str, rule: str) -> str:
    """Return the name of the job, with _ for what matches `bad`. Raises UsageError if the user chose it so."""
    name = job_name(spec)
    if spec.batch.text("job_name") and re.search(bad, name):
        raise UsageError(f"--job-name {name} ({spec.origins['job_name']}): {title} wants {rule}", "choose another name")
    return re.sub(bad, "_", name)


_MAIL = {"BEGIN": "b", "END": "e", "FAIL": "a", "ALL": "bea", "REQUEUE": "a", "TIME_LIMIT": "a"}


def mail(spec: JobSpec) -> str:
    """Return the letters of qsub's -m (POSIX) for --mail-type, or ""."""
    kinds = spec.batch.text("mail_type").upper()
    letters = dict.fromkeys("".join(_MAIL.get(kind, "") for kind in kinds.split(",")))
    return ("".join(letters) or "n") if kinds else ""


def exported(spec: JobSpec) -> list[str]:
    """Return the variables that the job gets by --export, and ALL for those of the submission."""
    words = {"ALL": ["ALL"], "NONE": [], "NIL": []}
    names = (spec.batch.text("export") or "ALL").split(",")
    return [word for name in names for word in words.get(name.upper(), [name])]


def pattern(text: str, letters: Mapping[str, str]) -> str:
    """Return the name of a file with the scheduler's words for mnrun's `letters`, such as j for %j."""
    return re.sub("%(.)", lambda match: letters.get(match[1], match[0]), text)


def refuse_options(spec: JobSpec, title: str, remedies: Mapping[str, str], instead: str) -> None:
    """Raise Impossible for an option that the system has no words for. `remedies` has all of these options, and
    `instead` is that for --gres of other things than GPUs."""
    if other := split_gres(spec.resources.gres)[1]:
        raise Impossible(f"--gres {other} ({spec.origins['gres']}): {title} has resources of other names", instead)
    for name, remedy in remedies.items():
        if spec.value(name):
            option = f"--{name.replace('_', '-')}"
            raise Impossible(f"{option} ({spec.origins[name]}): {title} has no such thing", remedy)


def cpus(request: Request) -> str:
    """Return the assignment of the variable with the CPUs of each rank, or "" if the job asks for none."""
    return f"{common.CPUS}={cpus}" if (cpus := request.text("cpus_per_task")) else ""


# Of dependencies, where a scheduler knows ends alone: mnrun itself looks in the job how the others have ended.
ENDS = ("afterany", "afterok", "afternotok")


def told(spec: JobSpec) -> str:
    """Return the assignment of the variable with these dependencies, with + for a comma, or "" if any end will do."""
    text = spec.batch.text("dependency").replace(",", "+")
    return f"{common.AFTER}={text}" if "ok" in text else ""


def dependencies(spec: JobSpec, rule: str, kinds: Collection[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return (kind, jobs) of each dependency. Raises Impossible with the system's `rule` for other kinds than these,
    for alternatives, and for times after a begin."""
    found = formats.dependencies(text := spec.batch.text("dependency"))
    if re.search("[?+]", text) or any(kind not in ("", *kinds) for kind, _ in found):
        raise Impossible(f"--dependency {text}: {rule}", f"use {', '.join(kinds)}")
    return found


def awaited(spec: JobSpec, title: str, kinds: Collection[str], name: str) -> list[str]:
    """Return the jobs that the job waits for, with its own `name` for others of that name. Raises Impossible."""
    found = dependencies(spec, f"{title} waits for the end of all jobs", (*kinds, "singleton"))
    return [JobId.of(job).number for _, jobs in found for job in jobs or (name,)]
