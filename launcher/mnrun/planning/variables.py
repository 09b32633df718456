"""Collect the variables of every rank: the job's own, those of --env-file, and those of -x."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mnrun import environment
from mnrun.errors import UsageError
from mnrun.jobspec import COMMAND_LINE, Layer, Origin, Variable
from mnrun.model import OfSchedulers, Plan
from mnrun.planning.values import Surroundings, Values
from mnrun.schedulers import BATCH, KNOWN, NAMED, VARIABLES, arrays


def of_the_job(values: Values) -> tuple[Variable, ...]:
    environ = values.around.environ
    given_back = environment.given_back(environ, VARIABLES, values.number("cpus_per_task"))
    for name in {table.task for table in VARIABLES}.intersection(given_back):
        given_back[name] = arrays.number(given_back[name], environ.get(arrays.VARIABLE, ""))
    variables = [Variable(*pair) for pair in given_back.items()]
    if values.around.home and not values.flag("no_home"):
        why = "packages in ~/.local must not hide the image's"
        variables.append(Variable("PYTHONNOUSERSITE", environ.get("PYTHONNOUSERSITE", "1"), why=why))
    if values.flag("no_gpu"):
        variables += [Variable(name, "-1", why="--no-gpu: no GPU has this number") for name in _GPU_LISTS]
    return tuple(variables)


def of_schedulers(plan: Plan) -> OfSchedulers:
    """Return the schedulers' variables, as the nodes of this launch need them."""
    env, names = plan.spec.program.env, environment.job_ids(VARIABLES)
    rules = [rule for table in VARIABLES for rule in table.rules]
    ranks: str = ""
    script: tuple[Variable, ...] = ()
    for scheduler in KNOWN.values():
        table, shared = scheduler.VARIABLES, scheduler.of_ranks(plan)
        if shared:
            ranks += environment.exports(shared) + table.each_rank
            script += (*shared, *(Variable(name, "0") for name in table.first_rank))
    return OfSchedulers(
        marks=names,
        submits=tuple(dict.fromkeys(one.SUBMIT.split()[0] for name, one in KNOWN.items() if name not in NAMED)),
        files=BATCH[_starting(plan.starter)].for_ranks(plan) if plan.by_scheduler else {},
        rules=environment.rules_script(VARIABLES),
        jobs=tuple(f"{v.name}={v.value}" for v in env if v.name in names and v.value),
        ranks=f"# shellcheck shell=sh disable=SC2154\n{ranks}" if ranks else "",
        script=script,
        hidden=tuple(v for v in env if environment.dropped(v.name, environment.INSIDE, rules)),
    )


def _starting(starter: str) -> str:
    """Return the name of the scheduler with this client."""
    return next(name for name, scheduler in KNOWN.items() if starter == scheduler.STARTER)


_GPU_LISTS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def given(values: Values) -> tuple[tuple[Variable, ...], tuple[Variable, ...]]:
    """Return the rank variables of --env-file and -x in order of strength, and those set by -x (for the batch script).
    In one layer, -x is stronger than a file."""
    files, words = list(_of_files(values)), list(_explicit(values))
    stronger = {variable.name: level for level, variable in files}
    ordered = sorted([*files, *words], key=lambda entry: entry[0])
    explicit = [variable for level, variable in words if level >= stronger.get(variable.name, level)]
    return tuple(variable for _, variable in ordered), merged(explicit)


def _of_files(values: Values) -> Iterator[tuple[int, Variable]]:
    around = values.around
    for path, origin in values.settings["env_file"].words if values.has("env_file") else ():
        for entry in environment.read_file(around.env_files[path], path):
            if around.batch and entry.value is None and entry.name not in around.environ:
                continue  # the job reports it if it has none either
            option = f"--env-file {path}"
            # a pipe of the shell has no name of its own (bash(1), Process Substitution)
            named = COMMAND_LINE if path.startswith("/dev/fd/") else replace(COMMAND_LINE, text=option)
            yield origin.level, _value_of(entry.name, entry.value, around, option, named)


def _explicit(values: Values) -> Iterator[tuple[int, Variable]]:
    around = values.around
    for word, origin in values.settings["env"].words if values.has("env") else ():
        if word.startswith("!") and environment.NAME.match(word[1:]):
            yield origin.level, Variable(word[1:], None, why=str(origin))
            continue
        name, equals, value = word.partition("=")
        _refuse_name(name, word, equals)
        typed = Layer.COMMAND_LINE in origin.layers
        later = around.batch and (not typed or values.has("module") or values.has("setup"))
        if later and not equals and name not in around.environ:
            # the job reports it if it has none either
            yield origin.level, Variable(name, "", inherited=True, why=str(origin))
        else:
            yield origin.level, _value_of(name, value if equals else None, around, "-x", origin)


def _refuse_name(name: str, word: str, equals: str) -> None:
    if not environment.NAME.match(name):
        hint = "" if equals else f"to leave nodes out write --exclude {word}"
        shown = f"{name}=…" if equals else word  # the value may be a secret
        raise UsageError(f"-x {shown!r} is not NAME or NAME=VALUE", hint)
    if environment.owner(name):
        raise UsageError(
            f"-x {name}: it is one of {environment.owner(name)} variables, and cannot be set", "use another name"
        )


def merged(variables: Sequence[Variable]) -> tuple[Variable, ...]:
    """Return each name once, with its last value."""
    return tuple({variable.name: variable for variable in variables}.values())


def _value_of(name: str, value: str | None, around: Surroundings, option: str, origin: Origin) -> Variable:
    if value is None and name not in around.environ:
        if Layer.COMMAND_LINE not in origin.layers:
            raise UsageError(
                f"env.{name}: there is no variable {name} here ({origin})", f'set it, or write {name} = "VALUE"'
            )
        hint = f"write {option} {name}=VALUE"
        hint += f", or --exclude {name} to leave a node out" if option == "-x" else ""
        raise UsageError(f"{option} {name}: there is no variable {name} here", hint)
    if value is None:
        return Variable(name, around.environ[name], inherited=True, why=str(origin))
    return Variable(name, value, why=reason(around.whys.get(f"{name}={value}", ""), str(origin)))


def reason(why: str, origin: str) -> str:
    """Return why a variable has its value, and the origin of that reason."""
    return f"{why} ({origin})" if why else origin
