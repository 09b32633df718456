"""Decide which variables of the surrounding job reach a container, and how the job's own variables get in.

Values never travel through `apptainer --env` (splits at commas), `--env-file` or APPTAINERENV_* (a shell in the
container evaluates both). A wrapper inside reads a file of single-quoted `export` lines, with mode 0600.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mnrun.errors import UsageError
from mnrun.jobspec import Variable

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

# The number of a scheduler's job. A process with another one is another job's. processes.sh and start_node.sh have
# these names, too.
JOB_IDS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")

INSIDE = "inside"  # inside-out: the containers of the serving step and the master container
MPIRUN = "mpirun"  # outside-in: a rank started by the host's mpirun
SRUN = "srun"  # outside-in: a rank started by srun, whose SLURM_* describe its own step
CONTEXTS = (INSIDE, MPIRUN, SRUN)
BARE = "-bare"  # suffix for the same without a container, with the host's files


@dataclass(frozen=True)
class Rule:
    """A rule that removes variables that match `pattern` in `contexts`, because of `why`.

    `boxed` rules apply only in a container, whose files are not the host's.
    """

    pattern: str
    contexts: tuple[str, ...]
    why: str
    boxed: bool = False


OF_HOSTS = ("MNRUN_NODE", "MNRUN_WAIT")  # a guard's variables on hosts without a scheduler
_INNER_MPIRUN = (INSIDE,)  # mpirun in the container must not see the surrounding scheduler
_MODULE = "a module system sets it, and the image lacks that"

RULES: tuple[Rule, ...] = (
    Rule(
        "SLURM_*", (INSIDE, MPIRUN), "mpirun would start its daemons by srun, and ranks would see another step's values"
    ),
    Rule("SRUN_*", CONTEXTS, "inputs of srun"),
    Rule("SBATCH_*", CONTEXTS, "inputs of sbatch"),
    Rule("SALLOC_*", CONTEXTS, "inputs of salloc"),
    *(
        Rule(name, CONTEXTS, "mnrun sets it for its guard, and an mnrun inside the job must not see it")
        for name in OF_HOSTS
    ),
    *(Rule(name, (INSIDE,), "bash declares it read-only, so an image's sh cannot read it back") for name in READ_ONLY),
    Rule("SSH_CLIENT", CONTEXTS, "by it, each `bash -c` of the program would read ~/.bashrc (bash, SSH_SOURCE_BASHRC)"),
    Rule("SSH2_CLIENT", CONTEXTS, "as SSH_CLIENT"),
    Rule("HOSTNAME", CONTEXTS, "it names the machine where mnrun runs, and not the node"),
    Rule("PMI_*", _INNER_MPIRUN, "an MPI program would behave as a rank of the surrounding step"),
    Rule("PMI2_*", _INNER_MPIRUN, "as PMI_*"),
    Rule("PMIX_*", _INNER_MPIRUN, "as PMI_*"),
    Rule("OMPI_COMM_WORLD_*", _INNER_MPIRUN, "a surrounding mpirun sets it for its ranks"),
    Rule("OMPI_UNIVERSE_SIZE", _INNER_MPIRUN, "a surrounding mpirun sets it"),
    Rule("OMPI_MCA_ess*", _INNER_MPIRUN, "a surrounding mpirun sets it"),
    Rule("OMPI_MCA_orte_*", _INNER_MPIRUN, "a surrounding mpirun sets it"),
    Rule("OMPI_MCA_prte_*", _INNER_MPIRUN, "a surrounding mpirun sets it"),
    Rule("PRTE_MCA_prte_*", _INNER_MPIRUN, "a surrounding mpirun sets it"),
    Rule("MPI_LOCAL*", _INNER_MPIRUN, "a surrounding Hydra sets it for its ranks"),
    Rule("HYDI_*", _INNER_MPIRUN, "a surrounding Hydra sets it"),
    Rule("MV2_COMM_WORLD_*", _INNER_MPIRUN, "a surrounding MVAPICH2 sets it for its ranks"),
    Rule("MPIRUN_RANK", _INNER_MPIRUN, "as MV2_COMM_WORLD_*"),
    Rule("MPISPAWN_*", _INNER_MPIRUN, "as MV2_COMM_WORLD_*"),
    Rule("OMPI_MCA_plm*", _INNER_MPIRUN, "Slurm sets plm_slurm_args=--external-launcher"),
    Rule("OMPI_MCA_ras*", _INNER_MPIRUN, "the hostfile names the nodes"),
    Rule("PRTE_MCA_plm*", _INNER_MPIRUN, "as OMPI_MCA_plm*"),
    Rule("PRTE_MCA_ras*", _INNER_MPIRUN, "as OMPI_MCA_ras*"),
    Rule("HYDRA_BOOTSTRAP*", _INNER_MPIRUN, "Slurm sets it to slurm"),
    Rule("HYDRA_LAUNCHER*", _INNER_MPIRUN, "Slurm sets HYDRA_LAUNCHER_EXTRA_ARGS"),
    Rule("HYDRA_RMK", _INNER_MPIRUN, "the hostfile names the nodes"),
    Rule("HYDRA_HOST_FILE", _INNER_MPIRUN, "as HYDRA_RMK"),
    Rule("I_MPI_HYDRA_*", _INNER_MPIRUN, "Slurm sets the bootstrap to slurm"),
    Rule("I_MPI_PERHOST", _INNER_MPIRUN, "the hostfile gives the number of ranks"),
    Rule("I_MPI_PMI_LIBRARY", _INNER_MPIRUN, "Intel MPI's mpirun brings its own library, and this one is the host's"),
    Rule("I_MPI_ROOT", CONTEXTS, "it names the host's Intel MPI", True),
    Rule("PBS_*", _INNER_MPIRUN, "mpirun would ask that scheduler for hosts"),
    Rule("PE_HOSTFILE", _INNER_MPIRUN, "as PBS_*, for Grid Engine"),
    Rule("SGE_*", _INNER_MPIRUN, "as PBS_*, for Grid Engine"),
    Rule("LSB_*", _INNER_MPIRUN, "as PBS_*, for LSF"),
    Rule("LSF_*", _INNER_MPIRUN, "as PBS_*, for LSF"),
    Rule("COBALT_*", _INNER_MPIRUN, "as PBS_*"),
    Rule("FLUX_*", _INNER_MPIRUN, "as PBS_*"),
    Rule(
        "OMPI_MCA_mca_base_component_path",
        CONTEXTS,
        "the host's Open MPI 5 exports it; an image with 4 then finds no components",
        True,
    ),
    Rule("OPAL_PREFIX", CONTEXTS, "it names the host's Open MPI", True),
    Rule("PMIX_PREFIX", (MPIRUN, SRUN), "it names the host's PMIx", True),
    Rule("PRTE_PREFIX", CONTEXTS, "it names the host's PRRTE", True),
    Rule("LD_LIBRARY_PATH", CONTEXTS, "it names the host's libraries", True),
    Rule("LD_PRELOAD", CONTEXTS, "it names the host's libraries, for example XALT's", True),
    Rule("PYTHONPATH", CONTEXTS, "it names the host's Python packages", True),
    Rule("PYTHONHOME", CONTEXTS, "it names the host's Python", True),
    Rule("PYTHONSTARTUP", CONTEXTS, "it names the host's Python", True),
    Rule("BASH_ENV", CONTEXTS, _MODULE, True),
    Rule("ENV", CONTEXTS, _MODULE, True),
    Rule("BASH_FUNC_*", CONTEXTS, _MODULE, True),
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
SETTINGS = ("SLURM_CONF*", "SLURM_CLUSTER*", "PMIX_MCA_*")

# The variables that docker and podman get, by name. All others in their containers are the image's own. A variable
# that a rule above removes does not come back here.
PASSED = (
    *("MNRUN_*", "TMPDIR", "HOME", "USER", "LOGNAME", "LANG", "LC_*", "TZ", "TERM"),
    *("SLURM_*", "PMI_*", "PMI2_*", "PMIX_*", "PRTE_*", "OMPI_*", "OPAL_*", "MPI_*", "MPICH_*", "MPIR_*", "HYDRA_*"),
    *(
        "HYDI_*",
        "I_MPI_*",
        "MV2_*",
        "UCX_*",
        "FI_*",
        "PSM2_*",
        "PSM3_*",
        "NCCL_*",
        "GLOO_*",
        "TP_*",
        "OMP_*",
        "CUDA_*",
        "ROCR_*",
    ),
    *("GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK", "http_proxy", "https_proxy", "no_proxy"),
)

# The variables for pulling from a registry: credentials, proxies, and directories with space.
OF_REGISTRIES = (
    *("APPTAINER_DOCKER_*", "SINGULARITY_DOCKER_*", "APPTAINER_TMPDIR", "SINGULARITY_TMPDIR"),
    *("CH_IMAGE_USERNAME", "CH_IMAGE_PASSWORD"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
)

# The job's variables that a rank gets back: they are the same for every rank of every step.
GIVEN_BACK = (
    "SLURM_JOB_ID",
    "SLURM_JOB_NAME",
    "SLURM_ARRAY_*",
    "SLURM_RESTART_COUNT",
    "SLURM_JOB_END_TIME",
    "SLURM_SUBMIT_DIR",
    "SLURM_CPUS_PER_TASK",
)

# The SLURM_* variables that srun may read: no others shape mnrun's steps.
SRUN_KEEPS = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CONF*", "SLURM_CLUSTER*", "SLURM_HET*", "SLURM_DEBUG*")


# Variables that would shape mnrun's steps, or make a rank join a surrounding mpirun.
SRUN_DROPS = (
    "SRUN_*",
    "OMPI_COMM_WORLD_*",
    "PMIX_RANK",
    "PMIX_NAMESPACE",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_FD",
    "PMI_PORT",
    *OF_HOSTS,
)


def dropped(name: str, context: str) -> bool:
    """Return whether the variable `name` is removed in `context`."""
    return any(context in _contexts(rule) and fnmatch.fnmatchcase(name, rule.pattern) for rule in RULES)


def _contexts(rule: Rule) -> tuple[str, ...]:
    return rule.contexts if rule.boxed else (*rule.contexts, *(context + BARE for context in rule.contexts))


def _leaking() -> tuple[str, ...]:
    """Return the patterns of variables that another job must not get: those of a surrounding scheduler or MPI."""
    rules = (rule for rule in RULES if rule.contexts in (_INNER_MPIRUN, (INSIDE, MPIRUN)) and not rule.boxed)
    return (*OWN, *(rule.pattern for rule in rules if rule.pattern not in READ_ONLY))


def for_another_job(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` without what belongs to the job around it, if that is one of mnrun's: its mark, its place, and
    its directories, which end with it."""
    if "MNRUN_JOB_ID" not in environ:
        return dict(environ)
    place = f"/mnrun.{environ['MNRUN_JOB_ID']}"  # the end of its directories' names
    path = [part for part in environ.get("PATH", "").split(":") if place not in part]
    leaking = _leaking()
    rest = {n: v for n, v in environ.items() if not _leaks(n, leaking) and place not in v.partition(":")[0]}
    return {**rest, **({"PATH": ":".join(path)} if "PATH" in environ else {})}


def _leaks(name: str, leaking: Iterable[str]) -> bool:
    def matches(patterns: Iterable[str]) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    return matches(leaking) and not matches(SETTINGS)


def for_srun(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` without srun's inputs: they leak from the surrounding job and would shape mnrun's steps."""

    def stays(name: str) -> bool:
        if not fnmatch.fnmatchcase(name, "SLURM_*"):
            return not any(fnmatch.fnmatchcase(name, pattern) for pattern in SRUN_DROPS)
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in SRUN_KEEPS)

    return {name: value for name, value in environ.items() if stays(name)}


def is_given_back(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in GIVEN_BACK)


def given_back(environ: Mapping[str, str], cpus: int | None = None) -> dict[str, str]:
    """Return the job's variables that its ranks get back. `cpus` is the number for each rank that the launch names."""
    found = {name: value for name, value in environ.items() if is_given_back(name)}
    return {**found, "SLURM_CPUS_PER_TASK": str(cpus)} if cpus and "SLURM_JOB_ID" in found else found


def of_registries(environ: Mapping[str, str]) -> tuple[Variable, ...]:
    """Return the variables set on this machine for pulling an image."""
    names = (name for name in environ if any(fnmatch.fnmatchcase(name, pattern) for pattern in OF_REGISTRIES))
    return tuple(Variable(name, environ[name]) for name in sorted(names) if NAME.match(name))


def rules_script() -> str:
    """Return functions for bash. `removed` sets the pattern of the variables that a context loses, and `passed` tests a
    name. `leaks`, which any sh may call, tests whether another job must not get the variable of a name."""
    patterns: dict[tuple[tuple[str, ...], bool], list[str]] = {}
    for rule in RULES:
        patterns.setdefault((rule.contexts, rule.boxed), []).append(rule.pattern)
    lines = [
        "# shellcheck shell=bash disable=SC2034",
        "# Written by mnrun from its table of rules.",
        "removed() { # CONTEXT: Set mnrun_removed to the pattern of the variables that are removed in CONTEXT",
        "  mnrun_removed=''",
    ]
    for (contexts, boxed), group in patterns.items():
        names = " | ".join(context if boxed else f"{context}*" for context in contexts)
        lines.append(f"  case $1 in {names}) mnrun_removed+='|{'|'.join(group)}' ;; esac")
    lines += ['  mnrun_removed="@(${mnrun_removed#?})"', "}", ""]
    lines += ["passed() { # NAME, into docker's and podman's containers", "  case $1 in"]
    lines += [f"    {' | '.join(PASSED)}) ;;", "    *) return 1 ;;", "  esac", "}", ""]
    lines += ["leaks() { # NAME, into a job that a program hands in", "  case $1 in"]
    lines += [f"    {' | '.join(SETTINGS)}) return 1 ;;", f"    {' | '.join(_leaking())}) ;;", "    *) return 1 ;;"]
    return "\n".join([*lines, "  esac", "}", ""])


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
