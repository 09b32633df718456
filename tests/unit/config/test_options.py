"""The one table of options, and what other tools' spellings are answered with."""

from __future__ import annotations

import re

import pytest

from mnrun.config.layers import parse
from mnrun.config.options import BY_FLAG, BY_NAME, COMMON, LIVE, OPTIONS, OWN, PATHS, Option
from mnrun.jobspec import FIELDS, SECTIONS, JobSpec
from mnrun.planning.spec import HANDED_ON
from mnrun.schedulers import OWN as OF_SCHEDULERS

KINDS = {"flag", "text", "number", "choice", "seconds", "list", "words", "env"}
# Options that a JobSpec knows under another name, or that are no part of a job.
each = pytest.mark.parametrize("option", OPTIONS, ids=[option.name for option in OPTIONS])


def test_no_name_and_no_flag_is_used_twice() -> None:
    assert len(BY_NAME) == len(OPTIONS)
    assert len(BY_FLAG) == sum(len(option.flags) for option in OPTIONS)


@each
def test_an_option_is_whole(option: Option) -> None:
    assert option.kind in KINDS
    assert re.fullmatch(r"[A-Zi].*\.", option.help)
    assert bool(option.metavar or option.choices) == option.takes_value
    assert bool(option.choices) == (option.kind == "choice")


@each
def test_an_options_key_is_its_long_name(option: Option) -> None:
    """`--start-timeout` is start_timeout in a job file and MNRUN_START_TIMEOUT in the environment."""
    long = next(flag for flag in option.flags if flag.startswith("--"))
    assert option.name == long[2:].replace("-", "_")
    assert option.variable in (None, f"MNRUN_{option.name.upper()}")
    assert (option.variable is None) == (option.name in ("env", "setup"))


@each
def test_a_default_is_a_value_that_a_person_could_write(option: Option) -> None:
    if option.default is not None:
        parse(option, option.default, "built-in")
    if option.choices:
        assert option.default in option.choices


@each
def test_a_job_knows_every_option(option: Option) -> None:
    """`plan` shows each value that was given, so that a JobSpec must have a place for it."""
    sections = (JobSpec(), *(getattr(JobSpec(), name) for name in SECTIONS))
    fields = {field for section in sections for field in section._fields}
    assert FIELDS.get(option.name, option.name) in {*fields, *HANDED_ON, *OWN, "no_home"}


def test_each_scheduler_has_its_own_option() -> None:
    assert set(OWN) == set(OF_SCHEDULERS)


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        *(("-N", "nodes"), ("-n", "ntasks"), ("-np", "ntasks"), ("-ppn", "ntasks_per_node")),
        *(("--tasks-per-node", "ntasks_per_node"), ("-c", "cpus_per_task"), ("-w", "nodelist"), ("-B", "bind")),
        *(("-D", "chdir"), ("--pwd", "chdir"), ("--workdir", "chdir"), ("-x", "env"), ("-v", "verbose")),
        *(("-Q", "quiet"), ("--gres", "gres"), ("--gpus-per-node", "gpus_per_node")),
    ],
)
def test_flags_that_fingers_know(flag: str, name: str) -> None:
    assert BY_FLAG[flag].name == name


def test_the_shorter_lists_name_options() -> None:
    assert {*COMMON, *PATHS} <= set(BY_NAME)
    assert all(BY_NAME[name].kind in ("text", "list") for name in PATHS)


def test_what_repeats() -> None:
    assert {option.name for option in OPTIONS if option.repeats} == {
        *(
            "bind",
            "env",
            "env_file",
            "container_args",
            "flux",
            "kubernetes",
            "lsf",
            "mpi_args",
            "module",
            "pbs",
            "setup",
            "sge",
            "slurm",
            "ulimit",
        )
    }


@each
def test_the_verbs_of_an_option(option: Option) -> None:
    assert "plan" in option.verbs
    assert not option.batch or "submit" in option.verbs
    if option.batch and option.name not in LIVE:
        assert ("run" in option.verbs) == ("shell" in option.verbs)
    else:
        assert "run" in option.verbs


@each
def test_a_flag_that_is_on_by_default_can_be_taken_back(option: Option) -> None:
    wanted = option.kind == "flag" and (option.batch or option.name in ("alloc", "stage"))
    assert option.negatable == wanted


def test_what_salloc_is_asked_for() -> None:
    """run and shell hand on the options that salloc has, and nothing that needs a script."""
    assert {option.name for option in OPTIONS if option.batch and "shell" in option.verbs} == {
        *("job_name", "partition", "account", "qos", "time", "constraint", "reservation", "exclusive", "licenses"),
        *("mem", "mem_per_cpu", "mem_per_gpu", "gpus", "gpus_per_task"),
    }
