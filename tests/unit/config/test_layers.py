"""Layers of values: how each is read, which one is believed, and what is said of a wrong one."""

from __future__ import annotations

import pytest

from mnrun.config import layers
from mnrun.config.options import BY_NAME
from mnrun.errors import UsageError
from unit.samples import origin, setting

MODES = "use one of auto, inside-out, outside-in"


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [
        ("nodes", "4", 4),
        ("nodes", "0004", 4),
        ("image", "a b.sif", "a b.sif"),
        ("mode", "outside-in", "outside-in"),
        ("keep", True, True),
        ("keep", "1", True),
        ("signal", "B:usr1@120", "B:usr1@120"),
        ("signal", "10", "10"),
        ("signal", "", ""),
        ("keep", "Yes", True),
        ("keep", "0", False),
        ("keep", "no", False),
        ("bind", "/a", ("/a",)),
        ("bind", ("/a", "/b:/c:ro"), ("/a", "/b:/c:ro")),
        ("env", ("A=b=c d", "B"), ("A=b=c d", "B")),
        ("mpi_args", ("--map-by slot", "--mca 'a b'"), ("--map-by", "slot", "--mca", "a b")),
        ("mpi_args", (r"\$HOME \"",), ("$HOME", '"')),
        ("container_args", ("",), ()),
        ("start_timeout", "120", 120),
        ("start_timeout", "90s", 90),
        ("start_timeout", "2m", 120),
        ("start_timeout", "1h", 3600),
    ],
)
def test_parse_reads_what_a_person_wrote(name: str, raw: object, value: object) -> None:
    """Each kind of option has its own reading."""
    assert layers.parse(BY_NAME[name], raw, "here") == value


@pytest.mark.parametrize(
    ("name", "raw", "said"),
    [
        ("nodes", "four", "--nodes 'four' is not a positive number (here)"),
        ("nodes", "0", "--nodes '0' is not a positive number (here)"),
        ("nodes", "-1", "--nodes '-1' is not a positive number (here)"),
        (
            "nodes",
            "2-4",
            "--nodes 2-4: mnrun places ranks before Slurm chooses a number (here); "
            "write --nodes 2; a live run uses what Slurm grants: salloc -N 2-4 mnrun …",
        ),
        ("ntasks", "2-4", "--ntasks '2-4' is not a positive number (here)"),
        ("ntasks", "p", "--ntasks 'p' is not a positive number (here)"),
        ("ntasks", "", "--ntasks '' is not a positive number (here)"),
        ("ntasks_per_node", "1.5", "--ntasks-per-node '1.5' is not a positive number (here)"),
        ("image", "", "--image is empty (here)"),
        ("mode", "inside_out", f"--mode 'inside_out' is unknown (here); did you mean inside-out? {MODES}"),
        ("mode", "outsidein", f"--mode 'outsidein' is unknown (here); did you mean outside-in? {MODES}"),
        ("mode", "", "--mode '' is unknown (here); use one of auto, inside-out, outside-in"),
        (
            "runtime",
            "balloon",
            "--runtime 'balloon' is unknown (here); "
            "use one of auto, apptainer, singularity, docker, podman, charliecloud, host",
        ),
        (
            "mpi",
            "pmi1",
            "--mpi 'pmi1' is unknown (here); did you mean pmix? "
            "use one of auto, openmpi, mpich, mvapich2, intelmpi, pmix, pmi2",
        ),
        (
            "signal",
            "foo@120",
            "--signal foo@120: mnrun does not forward this signal to programs (here); "
            "use one of TERM, INT, HUP, QUIT, USR1, USR2, ALRM, CONT, as USR1@120",
        ),
        ("keep", "maybe", "--keep 'maybe' is neither true nor false (here)"),
        ("mpi_args", ("a", "it's"), '--mpi-args "it\'s": no closing quotation (here)'),
        ("start_timeout", "0", "--start-timeout '0' is not a time (here); write 120s, 5m or 1h"),
        ("start_timeout", "1:30", "--start-timeout '1:30' is not a time (here); write 120s, 5m or 1h"),
        ("start_timeout", "-5", "--start-timeout '-5' is not a time (here); write 120s, 5m or 1h"),
    ],
)
def test_parse_says_what_is_wrong_with_a_value(name: str, raw: object, said: str) -> None:
    """Option, value and origin are in the line, and what would have been right."""
    with pytest.raises(UsageError) as wrong:
        layers.parse(BY_NAME[name], raw, "here")
    assert str(wrong.value) == said
    assert wrong.value.code == 2


def test_built_in_values() -> None:
    """What holds when nobody says anything."""
    assert {name: setting.value for name, setting in layers.builtin().items()} == {
        "pull": "missing",
        "pull_timeout": 1800,
        "stage_dir": "/var/tmp",
        "stage_limit": "20%",
        "image_cache": "~/.mnrun/cache",
        "runtime": "auto",
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
        "slurm_poll": 30,
        "rsh": "auto",
    }
    assert {str(setting.origin) for setting in layers.builtin().values()} == {"built-in"}


def test_environment_is_read_by_the_options_names() -> None:
    """MNRUN_ + the long name, whatever the verb; an empty variable is none; others are left alone."""
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
    """As APPTAINER_BIND: a path may have blanks in it, and no comma."""
    found = layers.from_environment(
        {"MNRUN_BIND": "/a:/b:ro,/my data", "MNRUN_ENV_FILE": "a,b", "MNRUN_SETUP": "f a,b"}
    )
    assert "setup" not in found  # nor may a line of shell be split
    assert found["bind"].value == ("/a:/b:ro", "/my data")
    assert found["env_file"].value == ("a", "b")


def test_environment_splits_words_as_a_shell_does() -> None:
    """Words are not a list: mpirun's own values have commas in them."""
    found = layers.from_environment({"MNRUN_MPI_ARGS": "--mca btl tcp,self --map-by 'ppr:2:node'"})
    assert found["mpi_args"].value == ("--mca", "btl", "tcp,self", "--map-by", "ppr:2:node")


def test_a_wrong_variable_is_named() -> None:
    """The line says which variable holds the wrong value."""
    with pytest.raises(UsageError) as wrong:
        layers.from_environment({"MNRUN_MODE": "outside"})
    assert str(wrong.value) == "--mode 'outside' is unknown (MNRUN_MODE); did you mean outside-in? " + MODES


def test_command_line_takes_what_was_given() -> None:
    """click hands None and () for what was not."""
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


def test_an_empty_value_on_the_command_line_is_an_error() -> None:
    """`--image "$UNSET"` is a mistake, not the default."""
    with pytest.raises(UsageError, match=r"^--image is empty \(command line\)$"):
        layers.from_command_line({"image": ""})


def test_the_later_layer_is_believed() -> None:
    """built-in < environment < command line, each value with where it came from."""
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
    """The site's binds stay when a user adds one; both origins are named."""
    merged = layers.merge(
        layers.from_environment({"MNRUN_BIND": "/site", "MNRUN_CONTAINER_ARGS": "--writable-tmpfs"}),
        layers.from_command_line({"bind": ("/mine",), "container_args": ("--no-mount hostfs",)}),
    )
    assert merged == {
        "bind": setting(("/site", "/mine"), "MNRUN_BIND, command line"),
        "container_args": setting(("--writable-tmpfs", "--no-mount", "hostfs"), "MNRUN_CONTAINER_ARGS, command line"),
    }


def test_merging_changes_no_layer() -> None:
    """Layers are read, never written."""
    below = layers.from_command_line({"bind": ("/a",)})
    layers.merge(below, layers.from_command_line({"bind": ("/b",)}))
    assert below == {"bind": setting(("/a",), "command line")}


@pytest.mark.parametrize(
    ("name", "below", "above", "left"),
    [
        ("bind", ("/a:/b:ro", "/c"), ("!/a",), ("/c",)),
        ("bind", ("/a:/b", "/a/b"), ("!/a", "/a:/z"), ("/a/b", "/a:/z")),
        ("bind", ("/a",), ("!/nowhere",), ("/a",)),
        ("module", ("cuda/12.4", "gcc"), ("!cuda",), ("gcc",)),
        ("module", ("cuda/12.4", "cuda/11"), ("!cuda/11",), ("cuda/12.4",)),
        ("slurm", ("switches=1@30:00", "spread-job"), ("!switches", "!spread-job"), ()),
        ("ulimit", ("memlock=unlimited",), ("!memlock",), ()),
        ("setup", ("module purge", "! false"), ("!module purge",), ("! false",)),
        ("setup", ("a",), ("! grep -q x file",), ("a", "! grep -q x file")),
        ("container_args", ("--nv", "--writable-tmpfs"), ("!--nv",), ("--writable-tmpfs",)),
        ("mpi_args", ("--x",), ("!y",), ("--x", "!y")),
        ("env", ("A=1", "B=2", "A=3"), ("!A",), ("B=2", "!A")),
        ("env", ("A=1", "!B"), ("B=2",), ("A=1", "!B", "B=2")),
        ("env", (), ("!HOST",), ("!HOST",)),
    ],
)
def test_what_a_layer_takes_away(
    name: str, below: tuple[str, ...], above: tuple[str, ...], left: tuple[str, ...]
) -> None:
    """By path, variable or module; a variable of the surrounding job too, and a line of shell never by accident."""
    merged = layers.merge({name: setting(below, "below")}, {name: setting(above, "above")})
    assert merged[name] == setting(left, "below, above")


def test_who_asks_in_other_words_means_it_instead() -> None:
    """A site's gpus_per_node or mem does not stand in the way of a user's gres or mem_per_cpu."""
    site = {name: setting("8", "site") for name in ("gpus_per_node", "mem", "partition")}
    merged = layers.merge(site, layers.from_command_line({"gres": "gpu:2", "mem_per_cpu": "2G"}))
    assert {name: setting.value for name, setting in merged.items()} == {
        **{"partition": "8", "gres": "gpu:2", "mem_per_cpu": "2G"},
    }
    both = layers.merge(site, layers.from_command_line({"gres": "gpu:2", "gpus_per_node": "2"}))
    assert {"gres", "gpus_per_node"} <= set(both)  # said in one breath: refused later


@pytest.mark.parametrize(
    ("below", "above", "left"),
    [
        ({"gres": "nvme:1"}, {"gpus_per_node": "4"}, {"gres": "nvme:1", "gpus_per_node": "4"}),
        ({"gres": "gpu:2,nvme:1"}, {"gpus": "8"}, {"gres": "nvme:1", "gpus": "8"}),
        ({"gpus_per_node": "4"}, {"gres": "nvme:1"}, {"gres": "nvme:1", "gpus_per_node": "4"}),
        ({"gpus_per_node": "4"}, {"gres": "gpu:1,nvme:1"}, {"gres": "gpu:1,nvme:1"}),
        ({"gpus_per_node": "4"}, {"gres": "none"}, {"gres": "none"}),
    ],
)
def test_only_gpus_are_rivals(below: dict[str, str], above: dict[str, str], left: dict[str, str]) -> None:
    """A site's local disk stays beside a user's GPUs."""
    site = {name: setting(value, "site") for name, value in below.items()}
    merged = layers.merge(site, layers.from_command_line(above))
    assert {name: each.value for name, each in merged.items()} == left


@pytest.mark.parametrize(
    ("below", "above", "left"),
    [
        ({"no_gpu": True}, {"gpus_per_node": "4"}, {"gpus_per_node": "4"}),
        ({"no_gpu": True}, {"gres": "gpu:1"}, {"gres": "gpu:1"}),
        ({"no_gpu": True}, {"gpus_per_task": "1"}, {"gpus_per_task": "1"}),
        ({"no_gpu": True}, {"gres": "nvme:1"}, {"no_gpu": True, "gres": "nvme:1"}),
        ({"no_gpu": True}, {"gres": "none"}, {"no_gpu": True, "gres": "none"}),
        ({"no_gpu": True}, {"gpus": ""}, {"no_gpu": True, "gpus": ""}),
        ({"no_gpu": True}, {"gpus": "4", "no_gpu": True}, {"gpus": "4", "no_gpu": True}),
        ({"slurm": ("exclusive=user", "nice=5")}, {"exclusive": False}, {"slurm": ("nice=5",), "exclusive": False}),
        ({"slurm": ("no-requeue",)}, {"requeue": True}, {"slurm": (), "requeue": True}),
        ({"exclusive": True}, {"slurm": ("exclusive=user",)}, {"slurm": ("exclusive=user",)}),
        ({"requeue": True}, {"slurm": ("no-requeue",)}, {"slurm": ("no-requeue",)}),
        ({"requeue": True}, {"slurm": ("nice",)}, {"requeue": True, "slurm": ("nice",)}),
        ({"hosts": "a,b"}, {"local": True}, {"local": True}),
        ({"hostfile": "/h"}, {"local": True}, {"local": True}),
        ({"local": True}, {"hosts": "a"}, {"hosts": "a"}),
        ({"hostfile": "/h"}, {"hosts": "a"}, {"hosts": "a"}),
        ({"hosts": "a"}, {"local": False}, {"hosts": "a", "local": False}),
    ],
)
def test_a_stronger_layer_contradicts(
    below: dict[str, layers.Value], above: dict[str, object], left: dict[str, object]
) -> None:
    """Its own request stays alone."""
    site = {name: setting(value, "site") for name, value in below.items()}
    merged = layers.merge(site, layers.from_command_line(above))
    assert {name: each.value for name, each in merged.items()} == left


def test_sbatchs_own_variables() -> None:
    """Each is our option of that meaning; those of options that are none of ours go to --slurm as they are."""
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
    assert layers.from_sbatch(environ) == {
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
def test_a_line_of_a_script_is_one_line(name: str, raw: object) -> None:
    """Nothing that is written into a script's line may begin another."""
    with pytest.raises(UsageError, match="contains a tab, a newline or another control character"):
        layers.parse(BY_NAME[name], raw, "here")


def test_each_word_of_a_list_knows_where_it_came_from() -> None:
    """A script says it of every module, and not of all of them together."""
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
    """An empty one is none; what is unknown is named."""
    environ = {"SBATCH_ACCOUNT": "", "SBATCH_EXCLUSIVE": "user", "SBATCH_THREADS_PER_CORE": "1", "SBATCH_NEW": "x"}
    environ.update(SBATCH_WAIT="1", SBATCH_WAIT_ALL_NODES="1")
    found = layers.from_sbatch(environ)
    assert set(found) == {"slurm"}
    assert set(found["slurm"].value) == {"threads-per-core=1", "exclusive=user", "wait-all-nodes=1"}  # type: ignore[arg-type]
    assert layers.unknown_of_sbatch(environ) == ["SBATCH_NEW", "SBATCH_WAIT"]
