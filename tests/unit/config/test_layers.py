"""Layers of values: how each is read, which one is believed, and what is said of a wrong one."""

from __future__ import annotations

from ast import literal_eval

import pytest

from mnrun.config import layers
from mnrun.config.options import BY_NAME
from mnrun.errors import UsageError
from mnrun.schedulers.slurm import scheduler as slurm
from unit.cases import Cases
from unit.samples import origin, setting
from unit.texts import Refused

MODES = "use one of auto, inside-out, outside-in"


def test_values(cases: Cases) -> None:
    """In the line about a wrong one are option, value and origin, and what would have been right."""
    cases(lambda name, raw: repr(layers.parse(BY_NAME[name], literal_eval(raw), "here")))


def test_built_in_values() -> None:
    assert {name: setting.value for name, setting in layers.builtin().items()} == {
        "pull": "missing",
        "pull_timeout": 1800,
        "stage_dir": "/var/tmp",
        "stage_limit": "20%",
        "image_cache": "~/.mnrun/cache",
        "runtime": "auto",
        "scheduler": "auto",
        "container_per": "auto",
        "mode": "auto",
        "launcher": "auto",
        "mpi": "auto",
        "connect": "auto",
        "fabric": "auto",
        "require": "any",
        "ports": "20000-29999",
        "start_timeout": 120,
        "job_dir": "~/.mnrun/jobs",
        "poll": 30,
        "rsh": "auto",
        "reach": "auto",
    }
    assert {str(setting.origin) for setting in layers.builtin().values()} == {"built-in"}


def test_environment_is_read_by_the_options_names() -> None:
    environ = {
        "MNRUN_NTASKS": "8",
        "MNRUN_IMAGE": "",
        "MNRUN_KEEP": "1",
        "MNRUN_LOCAL": "0",
        "MNRUN_ENV": "A=b",
        "MNRUN_JOB_ID": "7-abcdef",
        "MNRUN_NONSENSE": "x",
        "NTASKS": "9",
    }
    assert layers.from_environment(environ) == {
        "ntasks": setting(8, "MNRUN_NTASKS"),
        "keep": setting(True, "MNRUN_KEEP"),
        "local": setting(False, "MNRUN_LOCAL"),
    }


def test_environment_splits_lists_at_commas() -> None:
    found = layers.from_environment(
        {"MNRUN_BIND": "/a:/b:ro,/my data", "MNRUN_ENV_FILE": "a,b", "MNRUN_SETUP": "f a,b"}
    )
    assert "setup" not in found  # nor may a line of shell be split
    assert found["bind"].value == ("/a:/b:ro", "/my data")
    assert found["env_file"].value == ("a", "b")


def test_environment_splits_words_as_a_shell_does() -> None:
    found = layers.from_environment({"MNRUN_MPI_ARGS": "--mca btl tcp,self --map-by 'ppr:2:node'"})
    assert found["mpi_args"].value == ("--mca", "btl", "tcp,self", "--map-by", "ppr:2:node")


def test_a_wrong_variable_is_named(refused: Refused) -> None:
    with refused(UsageError):
        layers.from_environment({"MNRUN_MODE": "outside"})


def test_command_line_takes_what_was_given() -> None:
    given: dict[str, object] = {
        "nodes": "2",
        "ntasks": None,
        "keep": True,
        "force": None,
        "bind": ("/a", "/b"),
        "env": (),
        "image": "app.sif",
    }
    assert layers.from_command_line(given) == {
        "nodes": setting(2, "command line"),
        "keep": setting(True, "command line"),
        "bind": setting(("/a", "/b"), "command line"),
        "image": setting("app.sif", "command line"),
    }


def test_an_empty_value_on_the_command_line_is_an_error(refused: Refused) -> None:
    """`--image "$UNSET"` is a mistake, not the default."""
    with refused(UsageError):
        layers.from_command_line({"image": ""})


def test_the_later_layer_is_believed() -> None:
    merged = layers.merge(
        layers.builtin(),
        layers.from_environment({"MNRUN_MODE": "inside-out", "MNRUN_NODES": "2", "MNRUN_PORTS": "3000-4000"}),
        layers.from_command_line({"mode": "outside-in", "ntasks": "4"}),
    )
    chosen = {name: merged[name] for name in ("mode", "nodes", "ports", "ntasks", "runtime")}
    assert chosen == {
        "mode": setting("outside-in", "command line"),
        "nodes": setting(2, "MNRUN_NODES"),
        "ports": setting("3000-4000", "MNRUN_PORTS"),
        "ntasks": setting(4, "command line"),
        "runtime": setting("auto", "built-in"),
    }


def test_lists_and_words_add_up() -> None:
    merged = layers.merge(
        layers.from_environment({"MNRUN_BIND": "/site", "MNRUN_CONTAINER_ARGS": "--writable-tmpfs"}),
        layers.from_command_line({"bind": ("/mine",), "container_args": ("--no-mount hostfs",)}),
    )
    assert merged == {
        "bind": setting(("/site", "/mine"), "MNRUN_BIND, command line"),
        "container_args": setting(("--writable-tmpfs", "--no-mount", "hostfs"), "MNRUN_CONTAINER_ARGS, command line"),
    }


def test_merging_changes_no_layer() -> None:
    below = layers.from_command_line({"bind": ("/a",)})
    layers.merge(below, layers.from_command_line({"bind": ("/b",)}))
    assert below == {"bind": setting(("/a",), "command line")}


def test_two_layers(cases: Cases) -> None:
    def merged(below: str, above: str) -> dict[str, object]:
        first, second = (
            {name: setting(value, text) for name, value in literal_eval(layer).items()}
            for layer, text in ((below, "below"), (above, "above"))
        )
        return {name: (one.value, one.origin.text) for name, one in layers.merge(first, second).items()}

    cases(merged)


def test_who_asks_in_other_words_means_it_instead() -> None:
    site = {name: setting("8", "site") for name in ("gpus_per_node", "mem", "partition")}
    merged = layers.merge(site, layers.from_command_line({"gres": "gpu:2", "mem_per_cpu": "2G"}))
    assert {name: setting.value for name, setting in merged.items()} == {
        **{"partition": "8", "gres": "gpu:2", "mem_per_cpu": "2G"}
    }
    both = layers.merge(site, layers.from_command_line({"gres": "gpu:2", "gpus_per_node": "2"}))
    assert {"gres", "gpus_per_node"} <= set(both)  # said in one breath: refused later


def test_the_line_above_a_file(cases: Cases) -> None:
    def merged(below: str, above: str) -> dict[str, object]:
        site = {name: setting(value, "site") for name, value in literal_eval(below).items()}
        found = layers.merge(site, layers.from_command_line(literal_eval(above)))
        return {name: each.value for name, each in found.items()}

    cases(merged)


def test_sbatchs_own_variables() -> None:
    environ = {
        "SBATCH_PARTITION": "gpu",
        "SBATCH_TIMELIMIT": "1:00:00",
        "SBATCH_ARRAY_INX": "0-3",
        "SBATCH_MEM_PER_NODE": "1G",
        "SBATCH_EXCLUSIVE": "",
        "SBATCH_REQ_SWITCH": "1",
        "SBATCH_WCKEY": "a b",
        "SBATCH_OVERCOMMIT": "",
        "SBATCH_NONSENSE": "x",
        "SLURM_PARTITION": "no",
    }
    assert layers.from_scheduler(slurm.preset(environ), "slurm") == {
        "partition": setting("gpu", "SBATCH_PARTITION"),
        "time": setting("1:00:00", "SBATCH_TIMELIMIT"),
        "array": setting("0-3", "SBATCH_ARRAY_INX"),
        "mem": setting("1G", "SBATCH_MEM_PER_NODE"),
        "exclusive": setting(True, "SBATCH_EXCLUSIVE"),
        "slurm": setting(
            ("switches=1", "wckey=a b", "overcommit"), "SBATCH_REQ_SWITCH, SBATCH_WCKEY, SBATCH_OVERCOMMIT"
        ),
    }


@pytest.mark.parametrize(
    ("name", "raw"),
    [("job_name", "a\nb"), ("partition", "a\tb"), ("slurm", ("comment=a\n#SBATCH -A b",)), ("module", ("a\nb",))],
)
def test_a_line_of_a_script_is_one_line(refused: Refused, name: str, raw: object) -> None:
    with refused(UsageError):
        layers.parse(BY_NAME[name], raw, "here")


def test_each_word_of_a_list_knows_where_it_came_from() -> None:
    site = {"module": setting(("a", "b"), "site"), "bind": setting(("/x",), "site")}
    merged = layers.merge(site, {"module": setting(("!a", "c", "d"), "job.toml line 1", ("l1", "l2", "l3"))})
    assert merged["module"].words == (("b", origin("site")), ("c", origin("l2")), ("d", origin("l3")))
    assert merged["bind"].words == (("/x", origin("site")),)
    assert setting("x", "site").words == ()


def test_a_line_takes_back_what_a_layer_below_says() -> None:
    """`--no-exclusive`, and an empty value of what is sbatch's."""
    below = {"exclusive": setting(True, "job.toml"), "constraint": setting("a100", "job.toml")}
    merged = layers.merge(below, layers.from_command_line({"exclusive": False, "constraint": ""}))
    assert (merged["exclusive"].value, merged["constraint"].value) == (False, "")


def test_sbatchs_variables_are_not_lost() -> None:
    environ = {"SBATCH_ACCOUNT": "", "SBATCH_EXCLUSIVE": "user", "SBATCH_THREADS_PER_CORE": "1", "SBATCH_NEW": "x"}
    environ.update(SBATCH_WAIT="1", SBATCH_WAIT_ALL_NODES="1")
    found = layers.from_scheduler(slurm.preset(environ), "slurm")
    assert set(found) == {"slurm"}
    assert set(found["slurm"].value) == {"threads-per-core=1", "exclusive=user", "wait-all-nodes=1"}  # type: ignore[arg-type]
    assert slurm.preset(environ).unknown == ("SBATCH_NEW", "SBATCH_WAIT")
