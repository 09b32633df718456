"""Merge layers of option values, and keep the origin of each value:

built-in < site defaults < profile < its partition < user < job file < MNRUN_* < SCHEDULER < command line

SCHEDULER are the scheduler's own variables, such as SBATCH_*.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Union

from mnrun import formats
from mnrun.config.options import BY_NAME, OPTIONS, PATHS, Option
from mnrun.errors import UsageError
from mnrun.jobspec import BUILT_IN, COMMAND_LINE, Layer, Origin, split_gres
from mnrun.near import nearest
from mnrun.schedulers import OWN
from mnrun.schedulers.vocabulary import Preset

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


def recorded(settings: Settings) -> dict[str, dict[str, object]]:
    """Return settings as the JSON of a record has them, but for the built-in ones."""

    def told(origin: Origin) -> list[object]:
        return [origin.text, *sorted(layer.value for layer in origin.layers)]

    return {
        name: {
            "value": setting.value,
            "origin": told(setting.origin),
            "each": [told(origin) for _, origin in setting.words],
            "name": setting.name,
        }
        for name, setting in settings.items()
        if setting.origin != BUILT_IN
    }


def of_record(values: Mapping[str, Mapping[str, Any]]) -> Settings:
    """Return the settings of a record. Raises LookupError, TypeError or ValueError for those of a newer mnrun."""

    def origin(words: Sequence[str]) -> Origin:
        return Origin(str(words[0]), frozenset(map(Layer, words[1:])))

    settings = {}
    for name, entry in values.items():
        value = tuple(map(str, entry["value"])) if BY_NAME[name].repeats else entry["value"]
        if not isinstance(value, (str, int, tuple)):
            raise TypeError(name)
        each = tuple(map(origin, entry["each"]))
        settings[name] = Setting(value, origin(entry["origin"]), each, str(entry["name"]))
    return settings


def builtin() -> Settings:
    return {o.name: Setting(parse(o, o.default, "built-in"), BUILT_IN) for o in OPTIONS if o.default is not None}


def from_environment(environ: Mapping[str, str]) -> Settings:
    """Return the settings of MNRUN_<OPTION> variables. Lists are split at commas. MNRUN_JOB_* are mnrun's own."""
    settings = {}
    for option in OPTIONS:
        variable = next((name for name in option.variables if environ.get(name)), "")
        if variable:
            text = environ[variable]
            raw = text.split(",") if option.kind == "list" else text
            origin = Origin.of(variable, Layer.VARIABLE)
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

    def expanded(word: object) -> str:
        return re.sub(r"^(!?)~(?=[/:]|$)", lambda match: match[1] + home, str(word))

    def typed(name: str, value: Value) -> Value:
        if name not in PATHS:
            return value
        return tuple(map(expanded, value)) if isinstance(value, tuple) else expanded(value)

    return {name: replace(setting, value=typed(name, setting.value)) for name, setting in settings.items()}


def notes(line: Settings, merged: Settings) -> list[str]:
    """Return warnings of values that seem to be meant in another way: as another tool's, or as an option."""
    lines = []
    if "image" in line and merged["runtime"].value == "host":
        lines.append("--image has no effect, since --runtime host runs without containers")
    for word, _ in line["env"].words if "env" in line else ():
        names = _SEVERAL.fullmatch(word)
        if names:
            lines.append(f"-x {names[1]}=…,{names[2]}=… sets {names[1]} alone; for two variables write -x twice")
    for word, origin in merged["env"].words if "env" in merged else ():
        name = word.partition("=")[0]
        if name in BY_NAME and Layer.JOB_FILE in origin.layers:
            lines.append(f"{name} ({origin}) is a variable of the ranks: as an option, it stands above [env]")
    return lines


# As apptainer exec --env takes several variables in one word.
_SEVERAL = re.compile(r"([A-Za-z_]\w*)=[^,=]*,([A-Z_][A-Z0-9_]*)=.*", re.DOTALL)


def from_scheduler(preset: Preset, own: str) -> Settings:
    """Return the settings of a scheduler's own variables. `own` is the option for its further words."""
    settings = {
        name: Setting(parse(BY_NAME[name], value, variable), Origin.of(variable, Layer.SCHEDULER))
        for name, (variable, value) in preset.options.items()
    }
    if preset.words:
        origin = Origin.of(", ".join(preset.words), Layer.SCHEDULER)
        settings[own] = Setting(parse(BY_NAME[own], list(preset.words.values()), origin.text), origin)
    return settings


# Options for the same thing: one of them in a layer replaces the others in the layers below.
RIVALS = (("gres", "gpus_per_node", "gpus"), ("mem", "mem_per_cpu", "mem_per_gpu"), ("hosts", "hostfile", "local"))
GPUS = ("gres", "gpus_per_node", "gpus", "gpus_per_task")  # requests, which replace a --no-gpu below


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
    """Return the lower settings without rivals of `layer`'s: of --gres, GPUs and `none`; not `local = false`."""
    rest = _without_words(below, layer)
    gres = str(layer["gres"].value) if "gres" in layer else ""
    given = {name for name in layer if name != "gres" or split_gres(gres)[0] or gres == "none"}
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
    others = split_gres(str(setting.value))[1] if name == "gres" else ""
    if others:
        settings[name] = replace(setting, value=others)


def _without_words(below: Settings, layer: Settings) -> dict[str, Setting]:
    """Return the lower settings without the schedulers' own words that contradict `layer`, and without options that its
    words contradict."""
    rest = dict(below)
    for own in OWN.values():
        typed = {word.partition(own.ends)[0] for word, _ in layer[own.name].words} if own.name in layer else set()
        for name, synonyms in own.synonyms.items():
            if name in layer and own.name in rest:
                words = rest[own.name].words
                kept = [pair for pair in words if pair[0].partition(own.ends)[0] not in synonyms]
                rest[own.name] = rest[own.name].having(kept)
            elif typed & set(synonyms):
                rest.pop(name, None)
    return rest


def _added(below: Setting | None, above: Setting, option: Option, level: int) -> Setting:
    words = below.words if below is not None else ()
    for word, origin in above.words:
        entry = (word, replace(origin, level=level))
        others = tuple(old for old in words if not _is(option, old[0], word[1:])) if word.startswith("!") else words
        if option.kind == "env" and word.startswith("!"):  # this removes the job's own variable, too
            words = (*others, entry)
        elif others != words or (word.startswith("!") and option.kind == "list" and option.name != "setup"):
            words = others
        else:
            words = (*words, entry)  # `! grep -q x` is a line of shell
    origin = below.origin + above.origin if below is not None else above.origin
    return Setting((), origin).having(words)


def _is(option: Option, word: str, name: str) -> bool:
    """Return whether `!name` means `word`: the whole word, or its variable, path or module without its value."""
    if word == name:
        return True
    ends = {"env": "=", "bind": ":", "ulimit": "=", "module": "/", **{own.name: own.ends for own in OWN.values()}}
    end = ends.get(option.name)
    return end is not None and word.partition(end)[0] == name


def parse(option: Option, raw: object, origin: str) -> Value:
    """Return the typed value of a person's text. Raises UsageError with option, value and origin."""
    name = f"--{option.name.replace('_', '-')}"
    if option.kind == "flag":
        return _flag(name, raw, origin)
    if option.repeats:
        words = [str(word) for word in (raw if isinstance(raw, (list, tuple)) else (raw,))]
        if option.name in ("module", "ulimit", *OWN):
            _refuse_control(name, words, origin)
        if option.name in OWN:
            words = [OWN[option.name].word(word, origin) for word in words]
        return _split(name, words, origin) if option.kind == "words" else tuple(words)
    text = str(raw)
    if option.kind == "number":
        if re.fullmatch(r"\d+-\d+", text) and option.name == "nodes":
            least = text.partition("-")[0]
            problem = f"{name} {text}: mnrun places ranks before the scheduler chooses a number ({origin})"
            raise UsageError(problem, f"write {name} {least}; inside a job, mnrun uses all of its nodes")
        if not re.fullmatch(r"0*[1-9]\d{0,8}", text, re.ASCII):
            raise UsageError(f"{name} {text!r} is not a positive number ({origin})")
        return int(text)
    if option.kind == "seconds":
        return _seconds(name, text, origin)
    if option.choices and text not in option.choices:
        meant = "host" if (option.name, text) == ("runtime", "none") else text
        near = nearest(meant, option.choices)
        hint = (f"did you mean {near}? " if near else "") + "use one of " + ", ".join(option.choices)
        raise UsageError(f"{name} {text!r} is unknown ({origin})", hint)
    if not text and not option.batch:  # an empty value takes back that of a layer below
        raise UsageError(f"{name} is empty ({origin})")
    if option.batch:
        _refuse_control(name, [text], origin)
        text = formats.read(option.name, text, origin)
    if option.name == "signal" and text:
        formats.refuse_signal(text, origin)
    return text


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
