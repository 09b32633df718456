"""Merge layers of option values, and keep the origin of each value:

built-in < site defaults < profile < its partition < user < job file < MNRUN_* < SBATCH_* < command line
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Union

from mnrun.config import syntax
from mnrun.config.options import BY_NAME, OPTIONS, PATHS, Option
from mnrun.errors import UsageError
from mnrun.jobspec import BUILT_IN, COMMAND_LINE, Layer, Origin, parted

Value = Union[str, int, bool, tuple[str, ...]]


@dataclass(frozen=True)
class Setting:
    """A value of an option, and its origin. For a list, `each` has the origin of every word.

    A file's path of an image also has the `name` that the file has in its place, if that may be an image of a store.
    """

    value: Value
    origin: Origin
    each: tuple[Origin, ...] = field(default=(), compare=False)
    name: str = field(default="", compare=False)

    @property
    def words(self) -> tuple[tuple[str, Origin], ...]:
        """Return a list's words, each with its own origin."""
        value = self.value if isinstance(self.value, tuple) else ()
        return tuple(zip(value, self.each or (self.origin,) * len(value)))

    def having(self, words: Iterable[tuple[str, Origin]]) -> Setting:
        """Return the list with these words in place of its own, each with its own origin."""
        pairs = tuple(words)
        return replace(self, value=tuple(word for word, _ in pairs), each=tuple(origin for _, origin in pairs))


Settings = Mapping[str, Setting]


def builtin() -> Settings:
    return {o.name: Setting(parse(o, o.default, "built-in"), BUILT_IN) for o in OPTIONS if o.default is not None}


def from_environment(environ: Mapping[str, str]) -> Settings:
    """Return the settings of MNRUN_<OPTION> variables. Lists are split at commas. MNRUN_JOB_* are mnrun's own."""
    settings = {}
    for option in OPTIONS:
        text = environ.get(option.variable or "")
        if text:
            raw = text.split(",") if option.kind == "list" else text
            origin = Origin.of(str(option.variable), Layer.VARIABLE)
            settings[option.name] = Setting(parse(option, raw, origin.text), origin)
    return settings


def from_command_line(options: Mapping[str, object]) -> Settings:
    """Return the settings that click collected: strings, lists of strings, True for flags, None if not given."""
    return {
        name: Setting(parse(BY_NAME[name], raw, COMMAND_LINE.text), COMMAND_LINE)
        for name, raw in options.items()
        if raw not in (None, ())  # False is --no-X
    }


def of_home(settings: Settings, home: str) -> Settings:
    """Return the settings with the home directory for a leading `~` of a path: no shell expands it after `=`."""

    def expanded(word: str) -> str:
        return re.sub(r"^(!?)~(?=[/:]|$)", lambda match: match[1] + home, word)

    def typed(value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple(expanded(word) for word in value)
        return expanded(value) if isinstance(value, str) else value

    return {
        name: replace(setting, value=typed(setting.value)) if name in PATHS else setting
        for name, setting in settings.items()
    }


def notes(line: Settings, merged: Settings) -> list[str]:
    """Return warnings of values on the command line that have another meaning than another tool's, or none."""
    lines = []
    if "image" in line and merged["runtime"].value == "host":
        lines.append("--image has no effect, since --runtime host runs without containers")
    for word, _ in line["env"].words if "env" in line else ():
        names = _SEVERAL.fullmatch(word)
        if names:
            lines.append(f"-x {names[1]}=…,{names[2]}=… sets {names[1]} alone; for two variables write -x twice")
    return lines


# As apptainer exec --env takes several variables in one word.
_SEVERAL = re.compile(r"([A-Za-z_]\w*)=[^,=]*,([A-Z_][A-Z0-9_]*)=.*", re.DOTALL)


# Variables of sbatch (sbatch(1), INPUT ENVIRONMENT VARIABLES). sbatch puts them above the script's lines.
SBATCH = {
    "SBATCH_TIMELIMIT": "time",
    "SBATCH_ARRAY_INX": "array",
    "SBATCH_MEM_PER_NODE": "mem",
    **{
        f"SBATCH_{name.upper()}": name
        for name in (
            *(
                "account",
                "constraint",
                "error",
                "exclusive",
                "export",
                "gpus",
                "gpus_per_node",
                "gpus_per_task",
                "job_name",
            ),
            *("mem_per_cpu", "mem_per_gpu", "output", "partition", "qos", "requeue", "reservation", "signal", "gres"),
        )
    },
}
# Variables of sbatch's options that mnrun has not. A name alone is a flag.
SBATCH_REST = {
    "SBATCH_REQ_SWITCH": "switches=",
    "SBATCH_WAIT_ALL_NODES": "wait-all-nodes=",
    "SBATCH_BURST_BUFFER": "bb=",
    **{
        f"SBATCH_{name.upper().replace('-', '_')}": f"{name}="
        for name in (
            *("acctg-freq", "clusters", "core-spec", "cpus-per-gpu", "delay-boot", "distribution", "gpu-bind"),
            *(
                "gpu-freq",
                "gres-flags",
                "hint",
                "mem-bind",
                "threads-per-core",
                "container",
                "network",
                "open-mode",
                "thread-spec",
                "wckey",
            ),
        )
    },
    **{
        f"SBATCH_{name.upper().replace('-', '_')}": name
        for name in ("no-kill", "no-requeue", "overcommit", "spread-job", "use-min-nodes")
    },
}


EXCLUSIVE = ("user", "mcs", "topo")  # values of --exclusive for which mnrun has no words of its own


def from_sbatch(environ: Mapping[str, str]) -> Settings:
    """Return the settings of SBATCH_* variables. A flag is set if its variable is there. Other empty values do not
    count."""
    settings = {}
    for variable, name in SBATCH.items():
        if environ.get(variable) or (variable in environ and BY_NAME[name].kind == "flag"):
            option = BY_NAME[name]
            raw = "true" if option.kind == "flag" else environ[variable]
            settings[name] = Setting(parse(option, raw, variable), Origin.of(variable, Layer.SBATCH))
    rest = {v: word + (environ[v] if word.endswith("=") else "") for v, word in SBATCH_REST.items() if v in environ}
    if environ.get("SBATCH_EXCLUSIVE") in EXCLUSIVE:
        rest["SBATCH_EXCLUSIVE"] = f"exclusive={environ['SBATCH_EXCLUSIVE']}"
        del settings["exclusive"]
    if rest:
        origin = Origin.of(", ".join(rest), Layer.SBATCH)
        settings["slurm"] = Setting(parse(BY_NAME["slurm"], list(rest.values()), origin.text), origin)
    return settings


def unknown_of_sbatch(environ: Mapping[str, str]) -> list[str]:
    """Return the SBATCH_* variables that shape a job, and that this mnrun does not know."""
    names = {*SBATCH, *SBATCH_REST, "SBATCH_DEBUG", "SBATCH_IGNORE_PBS"}
    return sorted(name for name in environ if name.startswith("SBATCH_") and environ[name] and name not in names)


# Options for the same thing: one of them in a layer replaces the others in the layers below.
RIVALS = (
    ("gres", "gpus_per_node", "gpus"),
    ("mem", "mem_per_cpu", "mem_per_gpu"),
    ("hosts", "hostfile", "local"),
)
GPUS = ("gres", "gpus_per_node", "gpus", "gpus_per_task")  # requests, which replace a --no-gpu below
# Options -> the words of --slurm for the same thing.
WORDS = {"exclusive": ("exclusive",), "requeue": ("requeue", "no-requeue")}


def merge(*layers: Settings) -> dict[str, Setting]:
    """Return the merged layers. A later layer wins, lists and words add up, and `!X` removes X."""
    merged: dict[str, Setting] = {}
    for level, layer in enumerate(layers):
        merged = _without_rivals(merged, layer)
        for name, setting in layer.items():
            if BY_NAME[name].repeats:
                setting = _added(merged.get(name), setting, BY_NAME[name], level)
            merged[name] = setting
    return merged


def _without_rivals(below: Settings, layer: Settings) -> dict[str, Setting]:
    """Return the lower settings without the rivals of those in `layer`.

    Of --gres, GPUs and `none` are rivals. `local = false` is none.
    """
    rest = _without_words(below, layer)
    gres = str(layer["gres"].value) if "gres" in layer else ""
    given = {name for name in layer if name != "gres" or parted(gres)[0] or gres == "none"}
    if "local" in layer and not layer["local"].value:
        given.remove("local")
    if "no_gpu" not in layer and gres != "none" and any(name in given and layer[name].value for name in GPUS):
        rest.pop("no_gpu", None)
    for rivals in RIVALS:
        if given & set(rivals):
            for name in set(rivals) & set(rest) - set(layer):
                _drop(rest, name)
    return rest


def without_gpus(merged: Settings, layers: Set[Layer]) -> dict[str, Setting]:
    """Return the settings without requests for GPUs of these layers alone. Other resources of --gres stay."""
    rest = dict(merged)
    for name in GPUS:
        if name in rest and rest[name].origin.layers <= layers:
            _drop(rest, name)
    return rest


def _drop(settings: dict[str, Setting], name: str) -> None:
    """Remove a setting. Of --gres, the resources that are no GPUs stay."""
    setting = settings.pop(name)
    others = parted(str(setting.value))[1] if name == "gres" else ""
    if others:
        settings[name] = replace(setting, value=others)


def _without_words(below: Settings, layer: Settings) -> dict[str, Setting]:
    """Return the lower settings without the words of --slurm that contradict `layer`, and without options that its
    words contradict."""
    rest = dict(below)
    typed = {word.partition("=")[0] for word, _ in layer["slurm"].words} if "slurm" in layer else set()
    for name, synonyms in WORDS.items():
        if name in layer and "slurm" in rest:
            slurm = rest["slurm"]
            rest["slurm"] = slurm.having(pair for pair in slurm.words if pair[0].partition("=")[0] not in synonyms)
        elif typed & set(synonyms):
            rest.pop(name, None)
    return rest


def _added(below: Setting | None, above: Setting, option: Option, level: int) -> Setting:
    words = below.words if below is not None else ()
    for word, origin in ((word, replace(origin, level=level)) for word, origin in above.words):
        others = tuple(old for old in words if not _is(option, old[0], word[1:])) if word.startswith("!") else words
        if option.kind == "env" and word.startswith("!"):
            words = (
                *others,
                (word, origin),
            )  # this also removes the job's own variable, not only those of lower layers
        elif others != words or (word.startswith("!") and option.kind == "list" and option.name != "setup"):
            words = others
        else:
            words = (*words, (word, origin))  # `! grep -q x` is a line of shell
    origin = below.origin + above.origin if below is not None else above.origin
    return Setting((), origin).having(words)


def _is(option: Option, word: str, name: str) -> bool:
    """Return whether `!name` means `word`: the whole word, or its variable, path or module without its value."""
    if word == name:
        return True
    ends = {"env": "=", "bind": ":", "slurm": "=", "ulimit": "=", "module": "/"}.get(option.name)
    return ends is not None and word.partition(ends)[0] == name


def parse(option: Option, raw: object, origin: str) -> Value:
    """Return the typed value of a person's text. Raises UsageError with option, value and origin."""
    name = next(flag for flag in option.flags if flag.startswith("--"))
    if option.kind == "flag":
        return _flag(name, raw, origin)
    if option.repeats:
        words = [str(word) for word in (raw if isinstance(raw, (list, tuple)) else (raw,))]
        if option.name in ("slurm", "module", "ulimit"):
            _refuse_control(name, words, origin)
        if option.name == "slurm":
            words = [syntax.long_option(word, origin) for word in words]
        return _split(name, words, origin) if option.kind == "words" else tuple(words)
    text = str(raw)
    if option.kind == "number":
        if re.fullmatch(r"\d+-\d+", text) and option.name == "nodes":
            least = text.partition("-")[0]
            hint = f"write {name} {least}; a live run uses what Slurm grants: salloc -N {text} mnrun …"
            raise UsageError(f"{name} {text}: mnrun places ranks before Slurm chooses a number ({origin})", hint)
        if not re.fullmatch(r"0*[1-9]\d{0,8}", text, re.ASCII):
            raise UsageError(f"{name} {text!r} is not a positive number ({origin})")
        return int(text)
    if option.kind == "seconds":
        return _seconds(name, text, origin)
    if option.choices and text not in option.choices:
        import difflib

        near = (
            ["host"]
            if (option.name, text) == ("runtime", "none")
            else difflib.get_close_matches(text, option.choices, 1)
        )
        hint = (f"did you mean {near[0]}? " if near else "") + "use one of " + ", ".join(option.choices)
        raise UsageError(f"{name} {text!r} is unknown ({origin})", hint)
    if not text and not option.batch:  # an empty value takes back that of a layer below
        raise UsageError(f"{name} is empty ({origin})")
    if option.batch:
        _refuse_control(name, [text], origin)
        syntax.refuse(option.name, text, origin)
    if option.name == "signal" and text:
        _refuse_signal(text, origin)
    return text


# Signals that a job's script passes on to the program (jobs/batch.py), with Linux's numbers.
PASSED = {"TERM": 15, "INT": 2, "HUP": 1, "QUIT": 3, "USR1": 10, "USR2": 12, "ALRM": 14, "CONT": 18}


def passed(text: str) -> str:
    """Return the name of such a signal in Slurm's spellings USR1, SIGUSR1, usr1 or 10. Return "" for any other."""
    name = re.sub("^SIG", "", text.upper())
    return next((signal for signal, number in PASSED.items() if name in (signal, str(number))), "")


def _refuse_signal(text: str, origin: str) -> None:
    if not passed(re.sub(r"^[RB]+:|@.*$", "", text, flags=re.IGNORECASE)):
        problem = f"--signal {text}: mnrun does not forward this signal to programs ({origin})"
        raise UsageError(problem, f"use one of {', '.join(PASSED)}, as USR1@120")


def _refuse_control(name: str, words: Sequence[str], origin: str) -> None:
    """Raise UsageError at a control character: a directive of a batch script is one line, and a tab in a name is a
    mistake."""
    for word in words:
        if re.search(r"[\x00-\x1f\x7f]", word):
            raise UsageError(f"{name} {word!r} contains a tab, a newline or another control character ({origin})")


def _flag(name: str, raw: object, origin: str) -> bool:
    text = str(raw).lower()
    if text in ("true", "1", "yes"):
        return True
    if text in ("false", "0", "no"):
        return False
    raise UsageError(f"{name} {raw!r} is neither true nor false ({origin})")


def _split(name: str, lines: Sequence[str], origin: str) -> tuple[str, ...]:
    words: list[str] = []
    for line in lines:
        try:
            words += shlex.split(line)
        except ValueError as error:
            raise UsageError(f"{name} {line!r}: {str(error).lower()} ({origin})") from None
    return tuple(words)


def _seconds(name: str, text: str, origin: str) -> int:
    match = re.fullmatch(r"0*([1-9]\d{0,8})(s|m|h|)", text, re.ASCII)
    if not match:
        raise UsageError(f"{name} {text!r} is not a time ({origin})", "write 120s, 5m or 1h")
    return int(match[1]) * {"s": 1, "": 1, "m": 60, "h": 3600}[match[2]]
