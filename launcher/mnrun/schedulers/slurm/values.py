"""Read what sbatch has and mnrun has no option for: words of --slurm, and the SBATCH_* variables."""

from __future__ import annotations

from collections.abc import Mapping

from mnrun.schedulers.vocabulary import Preset, long_options

OPTION = long_options(
    "slurm",
    "sbatch",
    "comment=test",
    synonyms={"exclusive": ("exclusive",), "requeue": ("requeue", "no-requeue")},
    values={"exclusive": ("user", "mcs", "topo")},
)


def _variables(*names: str, ends: str = "") -> dict[str, str]:
    return {f"SBATCH_{name.upper().replace('-', '_')}": f"{name}{ends}" for name in names}


# Variables of sbatch (sbatch(1), INPUT ENVIRONMENT VARIABLES). sbatch puts them above the script's lines.
INPUTS = {
    **{"SBATCH_TIMELIMIT": "time", "SBATCH_ARRAY_INX": "array", "SBATCH_MEM_PER_NODE": "mem"},
    **_variables("account", "constraint", "error", "exclusive", "export", "gpus", "gpus_per_node", "gpus_per_task"),
    **_variables("job_name", "mem_per_cpu", "mem_per_gpu", "output", "partition", "qos", "requeue", "reservation"),
    **_variables("signal", "gres"),
}
FLAGS = ("exclusive", "requeue")  # set if their variable is there, even if that is empty
# Variables of sbatch's options that mnrun has not. A name alone is a flag.
FURTHER = {
    "SBATCH_REQ_SWITCH": "switches=",
    "SBATCH_WAIT_ALL_NODES": "wait-all-nodes=",
    "SBATCH_BURST_BUFFER": "bb=",
    **_variables("acctg-freq", "clusters", "core-spec", "cpus-per-gpu", "delay-boot", "distribution", ends="="),
    **_variables("gpu-bind", "gpu-freq", "gres-flags", "hint", "mem-bind", "threads-per-core", "container", ends="="),
    **_variables("network", "open-mode", "thread-spec", "wckey", ends="="),
    **_variables("no-kill", "no-requeue", "overcommit", "spread-job", "use-min-nodes"),
}
NO_OPTIONS = ("SBATCH_DEBUG", "SBATCH_IGNORE_PBS")


def preset(environ: Mapping[str, str]) -> Preset:
    """Return the options that SBATCH_* variables set. Empty values do not count, but for flags."""
    options = {}
    for variable, name in INPUTS.items():
        if environ.get(variable) or (variable in environ and name in FLAGS):
            options[name] = (variable, "true" if name in FLAGS else environ[variable])
    words = {v: word + (environ[v] if word.endswith("=") else "") for v, word in FURTHER.items() if v in environ}
    if environ.get("SBATCH_EXCLUSIVE") in OPTION.values["exclusive"]:
        words["SBATCH_EXCLUSIVE"] = f"exclusive={environ['SBATCH_EXCLUSIVE']}"
        del options["exclusive"]
    known = {*INPUTS, *FURTHER, *NO_OPTIONS}
    unknown = (name for name in environ if name.startswith("SBATCH_") and environ[name] and name not in known)
    return Preset(options, words, tuple(sorted(unknown)))
