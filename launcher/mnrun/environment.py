"""Decide which variables of the surrounding job reach a container, and how the job's own variables get in.

Values never travel through `apptainer --env` (splits at commas), `--env-file` or APPTAINERENV_* (a shell in the
container evaluates both). A wrapper inside reads a file of single-quoted `export` lines, with mode 0600.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence

from mnrun.errors import UsageError
from mnrun.jobspec import Variable
from mnrun.record import Record

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

# Variables that bash sets itself and declares read-only, and those whose assignment it ignores, or reads as a number
# (bash(1), Shell Variables). No shell passes them on with their value. A wrong OPTIND ends dash.
# A changed IFS would split the words of the wrappers elsewhere.
READ_ONLY = ("BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID")
SHELL_VARIABLES = (
    *(*READ_ONLY, "IFS", "OPTIND", "LINENO", "RANDOM", "SECONDS"),
    *("BASHPID", "DIRSTACK", "FUNCNAME", "GROUPS", "HISTCMD", "EPOCHSECONDS", "EPOCHREALTIME", "SRANDOM"),
    *("BASH_COMMAND", "BASH_SUBSHELL", "BASH_ARGV", "BASH_ALIASES", "BASH_CMDS", "BASH_LINENO", "BASH_SOURCE"),
)

# Variables of the wrappers around a program, and the mark of a job's processes.
MNRUN_VARIABLES = ("mnrun_", "MNRUN_JOB_ID")

# Variables of schedulers without a package here.
OTHER_SCHEDULERS = ("COBALT_*",)

INSIDE = "inside"  # inside-out: the containers of the serving step and the master container
MPIRUN = "mpirun"  # outside-in: a rank started by the host's mpirun
SCHEDULER = "scheduler"  # outside-in: a rank started by the scheduler, whose variables describe its own step
CONTEXTS = (INSIDE, MPIRUN, SCHEDULER)
BARE = "-bare"  # suffix for the same without a container, with the host's files


class Rule(Record):
    """A rule: variables that match `pattern` go in `contexts`, because of `why`; if `contained`, only in containers."""

    pattern: str
    contexts: tuple[str, ...]
    why: str
    contained: bool = False


class Variables(Record):
    """The variables of one scheduler: the rules that remove them, and patterns of names.

    `settings` match a rule, and may reach another job all the same. `passed` reach the containers of docker and podman.
    `given_back` reach the ranks: they are the same for every rank of every step. `job_ids` have the number of a job.
    `task` has the position of a task in its array, from 1 on. `cpus` has the CPUs of each rank. `first_rank` have 0 for
    a program that runs once. `each_rank` is sh: it sets those of a rank, by the values of ranks/place.sh.
    """

    rules: tuple[Rule, ...] = ()
    settings: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    given_back: tuple[str, ...] = ()
    job_ids: tuple[str, ...] = ()
    task: str = ""
    cpus: str = ""
    first_rank: tuple[str, ...] = ()
    each_rank: str = ""


OF_HOSTS = ("MNRUN_NODE",)  # a guard's variable on hosts without a scheduler
_INNER_MPIRUN = (INSIDE,)  # mpirun in the container must not see the surrounding scheduler
_OF_MPIS = (
    *("OMPI_COMM_WORLD_*", "OMPI_UNIVERSE_SIZE", "OMPI_MCA_ess*", "OMPI_MCA_orte_*", "OMPI_MCA_prte_*"),
    *("PRTE_MCA_prte_*", "MPI_LOCAL*", "HYDI_*", "MV2_COMM_WORLD_*", "MPIRUN_RANK", "MPISPAWN_*"),
)
_WAYS = ("OMPI_MCA_plm*", "PRTE_MCA_plm*", "HYDRA_BOOTSTRAP*", "HYDRA_LAUNCHER*", "I_MPI_HYDRA_*")
_NODES = ("OMPI_MCA_ras*", "PRTE_MCA_ras*", "HYDRA_RMK", "HYDRA_HOST_FILE", "I_MPI_PERHOST")
_OF_THE_HOST = (
    *("I_MPI_ROOT", "OPAL_PREFIX", "PRTE_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD"),
    *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP"),
)


def _each(patterns: Iterable[str], contexts: tuple[str, ...], why: str, contained: bool = False) -> tuple[Rule, ...]:
    return tuple(Rule(pattern, contexts, why, contained) for pattern in patterns)


RULES: tuple[Rule, ...] = (
    *_each(OF_HOSTS, CONTEXTS, "mnrun sets it for its guard, and an mnrun inside the job must not see it"),
    *_each(READ_ONLY, (INSIDE,), "bash declares it read-only, so an image's sh cannot read it back"),
    # bash, SSH_SOURCE_BASHRC
    *_each(("SSH_CLIENT", "SSH2_CLIENT"), CONTEXTS, "by it, each `bash -c` of the program would read ~/.bashrc"),
    Rule("HOSTNAME", CONTEXTS, "it names the machine where mnrun runs, and not the node"),
    *_each(("PMI_*", "PMI2_*", "PMIX_*"), _INNER_MPIRUN, "a program would behave as a rank of the surrounding step"),
    *_each(_OF_MPIS, _INNER_MPIRUN, "a surrounding mpirun sets it, or sets it for its ranks"),
    *_each(_WAYS, _INNER_MPIRUN, "a scheduler sets its own way to the nodes"),
    *_each(_NODES, _INNER_MPIRUN, "the hostfile names the nodes, and the number of ranks on each"),
    Rule("I_MPI_PMI_LIBRARY", _INNER_MPIRUN, "Intel MPI's mpirun brings its own library, and this one is the host's"),
    *_each(OTHER_SCHEDULERS, _INNER_MPIRUN, "mpirun would ask that scheduler for hosts"),
    *_each(_OF_THE_HOST, CONTEXTS, "it names the host's MPI, libraries (such as XALT's) or Python", True),
    Rule("PMIX_PREFIX", (MPIRUN, SCHEDULER), "it names the host's PMIx", True),
    # The host's Open MPI 5 exports it.
    Rule("OMPI_MCA_mca_base_component_path", CONTEXTS, "an image with Open MPI 4 would find no components", True),
    *_each(("BASH_ENV", "ENV", "BASH_FUNC_*"), CONTEXTS, "a module system sets it, and the image lacks that", True),
)

# The variables that tell a rank its place, and a script of the older tools the nodes (place.sh, start_node.sh, kit.py).
PLACES = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "PET_*"),
    *("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "HOROVOD_*RANK", "HOROVOD_*SIZE"),
    *("hostlist", "np", "ENVLIST"),
)
# The variables of a job that another one must not get, if a program hands it in. The others are those of the rules.
OWN = ("MNRUN_JOB_ID", "MNRUN_JOB_START", "MNRUN_RANK_PID", *PLACES)
# The variables that match a rule, and are settings.
SETTINGS = ("PMIX_MCA_*",)

# The variables that docker and podman get, by name. All others in their containers are the image's own. A variable
# that a rule above removes does not come back here.
PASSED = (
    *("MNRUN_*", "TMPDIR", "HOME", "USER", "LOGNAME", "LANG", "LC_*", "TZ", "TERM"),
    *("PMI_*", "PMI2_*", "PMIX_*", "PRTE_*", "OMPI_*", "OPAL_*", "MPI_*", "MPICH_*", "MPIR_*", "HYDRA_*"),
    *("HYDI_*", "I_MPI_*", "MV2_*", "UCX_*", "FI_*", "PSM2_*", "PSM3_*", "NCCL_*", "GLOO_*", "TP_*", "OMP_*"),
    *("CUDA_*", "ROCR_*", "HIP_*"),
    *("GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK", "http_proxy", "https_proxy", "no_proxy"),
)

# The variables for pulling from a registry: credentials, proxies, and directories with space.
OF_REGISTRIES = (
    *("APPTAINER_DOCKER_*", "SINGULARITY_DOCKER_*", "APPTAINER_TMPDIR", "SINGULARITY_TMPDIR"),
    *("CH_IMAGE_USERNAME", "CH_IMAGE_PASSWORD"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
)


def dropped(name: str, context: str, rules: Iterable[Rule]) -> bool:
    """Return whether one of the rules removes the variable `name` in `context`."""
    return any(context in _contexts(rule) and _fits(name, rule.pattern) for rule in rules)


def all_rules(tables: Iterable[Variables]) -> tuple[Rule, ...]:
    """Return the rules of these schedulers, and those for every launch."""
    return (*(rule for table in tables for rule in table.rules), *RULES)


def _contexts(rule: Rule) -> tuple[str, ...]:
    return rule.contexts if rule.contained else (*rule.contexts, *(context + BARE for context in rule.contexts))


def _leaking(tables: Iterable[Variables]) -> tuple[str, ...]:
    """Return the patterns of variables that another job must not get: those of a surrounding scheduler or MPI."""
    inner = (_INNER_MPIRUN, (INSIDE, MPIRUN))
    rules = (rule for rule in all_rules(tables) if rule.contexts in inner and not rule.contained)
    return (*OWN, *(rule.pattern for rule in rules if rule.pattern not in READ_ONLY))


def for_another_job(environ: Mapping[str, str], tables: Sequence[Variables]) -> dict[str, str]:
    """Return `environ` without what belongs to the job around it, if that is one of mnrun's: its mark, its place, and
    its directories, which end with it."""
    if "MNRUN_JOB_ID" not in environ:
        return dict(environ)
    place = f"/mnrun.{environ['MNRUN_JOB_ID']}"  # the end of its directories' names
    path = [part for part in environ.get("PATH", "").split(":") if place not in part]
    leaking, settings = _leaking(tables), _settings(tables)
    leaks = (name for name in environ if matches(name, leaking) and not matches(name, settings))
    gone = {*leaks, *(name for name, value in environ.items() if place in value.partition(":")[0])}
    rest = {name: value for name, value in environ.items() if name not in gone}
    return {**rest, **({"PATH": ":".join(path)} if "PATH" in environ else {})}


def _settings(tables: Iterable[Variables]) -> tuple[str, ...]:
    return (*(name for table in tables for name in table.settings), *SETTINGS)


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(_fits(name, pattern) for pattern in patterns)


def _fits(name: str, pattern: str) -> bool:
    """Return whether a name fits a pattern of fnmatch. That compiles each, and those of variables have one `*`."""
    head, star, tail = pattern.partition("*")
    if not set("*?[").isdisjoint(head + tail):
        return fnmatch.fnmatchcase(name, pattern)
    if not star:
        return name == pattern
    return name.startswith(head) and name.endswith(tail) and len(name) >= len(head) + len(tail)


def given_back(environ: Mapping[str, str], tables: Iterable[Variables], cpus: int | None = None) -> dict[str, str]:
    """Return the job's variables that its ranks get back. `cpus` is the number for each rank that the launch names."""
    found: dict[str, str] = {}
    for table in tables:
        found.update({name: value for name, value in environ.items() if matches(name, table.given_back)})
        if cpus and table.cpus and any(name in found for name in table.job_ids):
            found[table.cpus] = str(cpus)
    return found


def job_ids(tables: Iterable[Variables]) -> tuple[str, ...]:
    """Return the names of the variables that have the number of a scheduler's job."""
    return tuple(name for table in tables for name in table.job_ids)


def of_registries(environ: Mapping[str, str]) -> tuple[Variable, ...]:
    """Return the variables set on this machine for pulling an image."""
    names = (name for name in environ if matches(name, OF_REGISTRIES))
    return tuple(Variable(name, environ[name]) for name in sorted(names) if NAME.match(name))


def rules_script(tables: Sequence[Variables]) -> str:
    """Return functions for bash. `removed` sets the pattern of the variables that a context loses, and `passed` tests a
    name. Any sh may call the others: `leaks` tests whether another job must not get the variable of a name, and
    `of_scheduler` whether it is a scheduler's."""
    patterns: dict[tuple[tuple[str, ...], bool], list[str]] = {}
    for rule in all_rules(tables):
        patterns.setdefault((rule.contexts, rule.contained), []).append(rule.pattern)
    lines = [
        "# shellcheck shell=bash disable=SC2034",
        "# Written by mnrun from its table of rules.",
        "removed() { # CONTEXT: Set mnrun_removed to the pattern of the variables that are removed in CONTEXT",
        "  mnrun_removed=''",
    ]
    for (contexts, contained), group in patterns.items():
        names = " | ".join(context if contained else f"{context}*" for context in contexts)
        lines.append(f"  case $1 in {names}) mnrun_removed+='|{'|'.join(group)}' ;; esac")
    lines += ['  mnrun_removed="@(${mnrun_removed#?})"', "}", ""]
    of_tables = (*PASSED, *(name for table in tables for name in table.passed))
    of_schedulers = (*(rule.pattern for table in tables for rule in table.rules), *OTHER_SCHEDULERS)
    not_leaking = f"    {' | '.join(_settings(tables))}) return 1 ;;"
    lines += _test("passed", "into docker's and podman's containers", of_tables)
    lines += _test("leaks", "into a job that a program hands in", _leaking(tables), not_leaking)
    lines += _test("of_scheduler", "which the image's mpirun must not see", of_schedulers)
    return "\n".join(lines)


def _test(name: str, use: str, patterns: Iterable[str], *first: str) -> list[str]:
    """Return the function of sh that tests whether a name is among these patterns, after the cases in `first`."""
    begin = (f"{name}() {{ # NAME, {use}", "  case $1 in", *first)
    return [*begin, f"    {' | '.join(patterns)}) ;;", "    *) return 1 ;;", "  esac", "}", ""]


def quote(value: str) -> str:
    """Return `value` for a shell, always in single quotes, so that the shell reads no part of it as code."""
    return "'" + value.replace("'", "'\\''") + "'"


def exports(variables: Iterable[Variable]) -> str:
    """Return `export NAME='value'` lines, and `unset NAME` lines for removed variables."""
    return "".join(f"unset {v.name}\n" if v.value is None else f"export {v.name}={quote(v.value)}\n" for v in variables)


def assignments(values: Mapping[str, object]) -> str:
    """Return `name='value'` lines for mnrun's wrappers."""
    return "".join(f"{name}={quote(str(value))}\n" for name, value in values.items())


def owner(name: str) -> str:
    """Return the owner of a variable that no user can set, or "" if the user can set it."""
    return "the shell's" if name in SHELL_VARIABLES else "mnrun's" if name.startswith(MNRUN_VARIABLES) else ""


def masked(words: Iterable[str]) -> list[str]:
    """Return the typed words without the values of -x, which may be secrets."""
    result: list[str] = []
    before_command = True
    for word in words:
        before_command = before_command and word != "--"
        option = next((option for option in ("-x", "--env=") if word.startswith(option)), "")
        name, equals, _ = word[len(option) :].partition("=")
        is_value = option or (result and result[-1] in ("-x", "--env"))
        result.append(f"{option}{name}=…" if before_command and equals and NAME.match(name) and is_value else word)
    return result


def read_file(text: str, path: str) -> tuple[Variable, ...]:
    """Return the variables of an --env-file: NAME=VALUE or NAME lines, with values unchanged, as docker reads them.

    In a text that ends with NUL, each entry does, as `env -0` writes them. Raises UsageError with the line's number if
    a line is neither.
    """
    variables = []
    lines = text[:-1].split("\0") if text.endswith("\0") else text.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not NAME.match(name):
            word = repr(f"{name}=…" if equals else name)  # the value may be a secret
            raise UsageError(f"{path}, line {number}: {word} is not NAME=VALUE")
        if "\0" in value:
            raise UsageError(f"{path}, line {number}: {name} contains a NUL character", "remove it")
        if owner(name):
            raise UsageError(f"{path}, line {number}: {name} is one of {owner(name)} variables, and cannot be set")
        variables.append(Variable(name, value if equals else None))
    return tuple(variables)
