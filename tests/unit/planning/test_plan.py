"""A job and a layout to steps, and steps to the words that start them: what differs between the modes.

The whole words are in golden/; here stands what must hold of them, and what is refused.
"""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any

import pytest

from mnrun.errors import Impossible, UsageError
from mnrun.model import Command, Layout, Phase, Plan, Where
from mnrun.nodes import kit
from mnrun.planning import commands as carry
from mnrun.planning import plan, show, summary
from mnrun.schedulers.hosts import names
from mnrun.schedulers.hosts import steps as hosts
from published import checked
from unit.conftest import Shell
from unit.samples import SITE, build, changed, job_spec, make

INSIDE = {"mode": "inside-out"}
BY_MPIRUN = {"mode": "outside-in", "launcher": "mpirun"}
BY_SRUN = {"mode": "outside-in", "launcher": "srun"}
KINDS: dict[str, dict[str, Any]] = {"inside-out": INSIDE, "by mpirun": BY_MPIRUN, "by srun": BY_SRUN}


def planned(*ranks: int, command: str = "./app", **given: Any) -> Plan:
    return make(build(command, **given), *ranks)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_four_phases(kind: str) -> None:
    """A guard on every node, readiness, the program, and an end whatever happened."""
    steps = planned(2, 2, **KINDS[kind]).steps
    assert sorted(step.phase.value for step in steps) == ["await", "run", "serve", "stop"]
    assert (steps[0].phase, steps[0].where, steps[0].background) == (Phase.SERVE, Where.ALL, True)
    assert steps[-1].phase is Phase.STOP


@pytest.mark.parametrize(
    ("kind", "where"), [("inside-out", Where.HEAD), ("by mpirun", Where.HEAD), ("by srun", Where.RANKS)]
)
def test_where_the_program_starts(kind: str, where: Where) -> None:
    """mpirun on the first node; srun brings the ranks itself."""
    assert planned(2, 2, **KINDS[kind]).step(Phase.RUN).where is where


@pytest.mark.parametrize("kind", KINDS)
def test_no_step_has_a_nodes_name(kind: str) -> None:
    """A plan is complete before anyone holds nodes; names come with carry."""
    launch_plan = planned(2, 1, **KINDS[kind])
    assert not [step for step in launch_plan.steps if re.search(r"node0\d", " ".join(step.argv))]
    paper = plan.make(launch_plan.spec, Layout((), (2, 1)), launch_plan.job)
    assert paper.steps == launch_plan.steps


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_is_pure(kind: str) -> None:
    """Made twice, it is the same."""
    assert planned(2, 1, **KINDS[kind]) == planned(2, 1, **KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_arrives_as_it_was_given(kind: str) -> None:
    """Its words are the last ones, unquoted and unread."""
    words = ("./app", "a b", "$HOME", "--", "-n", "", "it's", "*", "\n", "ü")
    launch_plan = make(build(*words, **KINDS[kind]), 2, 2)
    assert launch_plan.step(Phase.RUN).argv[-len(words) :] == words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "mpirun -n 4 sh /tmp/mnrun.7-abcdef/box/rank.sh ./app"),
        ({"mpi_args": ("--map-by slot",)}, "mpirun -n 4 --map-by slot sh /tmp/mnrun.7-abcdef/box/rank.sh ./app"),
        ({"script": "job.sh"}, "/home/alice/run/job.sh ./app"),
        ({"launcher": "env"}, "sh /tmp/mnrun.7-abcdef/box/start.sh sh /tmp/mnrun.7-abcdef/box/rank.sh ./app"),
        (
            {"launcher": "torchrun"},
            "sh /tmp/mnrun.7-abcdef/box/start.sh sh /tmp/mnrun.7-abcdef/box/rank.sh torchrun --no-python ./app",
        ),
    ],
)
def test_what_the_master_container_runs(given: dict[str, Any], words: str) -> None:
    """mpirun with the layout's ranks, or the user's script once."""
    argv = planned(2, 2, **given).step(Phase.RUN).argv
    assert " ".join(argv[argv.index("wait_go.sh") + 1 :]) == words


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("train.py", "--lr", "1"), ("torchrun", "train.py", "--lr", "1")),
        (("-m", "pkg.train"), ("torchrun", "-m", "pkg.train")),
        (("python", "train.py"), ("torchrun", "--no-python", "python", "train.py")),
        (
            ("/opt/bin/torchrun", "--nproc-per-node", "1", "t.py"),
            ("/opt/bin/torchrun", "--nproc-per-node", "1", "t.py"),
        ),
    ],
)
def test_the_command_as_torchrun_takes_it(command: tuple[str, ...], words: tuple[str, ...]) -> None:
    """It starts files and modules of Python itself; its own options are the user's where he writes torchrun."""
    argv = make(build(*command, launcher="torchrun"), 2, 2).step(Phase.RUN).argv
    assert argv[argv.index("/tmp/mnrun.7-abcdef/box/rank.sh") + 1 :] == words


@pytest.mark.parametrize(("mpi", "starter"), [("auto", "mpirun"), ("openmpi", "mpirun"), ("mpich", "mpiexec.hydra")])
def test_the_hosts_starter_goes_by_its_own_name(mpi: str, starter: str) -> None:
    """Outside-in it must be on the nodes, and it is what starts the ranks."""
    launch_plan = planned(2, 1, **BY_MPIRUN, mpi=mpi)
    argv = launch_plan.step(Phase.RUN).argv
    assert argv[argv.index("wait_go.sh") + 1 :][:3] == (starter, "-n", "3")
    assert ("program", starter) in launch_plan.needs


def test_an_mpirun_of_the_users_own_is_not_started_by_ours() -> None:
    """It runs once, and says so."""
    launch_plan = make(build("mpirun", "-n", "3", "./app"), 2, 2)
    assert launch_plan.step(Phase.RUN).argv[-4:] == ("mpirun", "-n", "3", "./app")
    assert launch_plan.step(Phase.RUN).argv.count("mpirun") == 1
    assert summary.of_plan(launch_plan).endswith("inside-out, apptainer, mpirun starts its own ranks")


@pytest.mark.parametrize(
    ("given", "command", "counted", "stdin"),
    [
        (INSIDE, "./app", True, "rank"),
        ({**INSIDE, "script": "job.sh"}, "./app", False, ""),
        (INSIDE, "mpirun", False, ""),
        (BY_MPIRUN, "./app", True, "rank"),
        (BY_SRUN, "./app", True, ""),
        ({**INSIDE, "launcher": "env"}, "./app", True, "rank"),
        ({**INSIDE, "launcher": "torchrun"}, "./app", False, "rank"),
    ],
)
def test_who_is_counted_and_who_reads(given: dict[str, Any], command: str, counted: bool, stdin: str) -> None:
    """Ranks that we start are counted; mpirun loses standard input, so that it goes around it; srun does not."""
    launch_plan = planned(2, 2, command=command, **given)
    assert (launch_plan.counted, launch_plan.stdin) == (counted, stdin)


@pytest.mark.parametrize(
    ("given", "ranks", "shared", "alone"),
    [
        (INSIDE, (2, 2), False, False),
        (BY_SRUN, (1, 1), False, False),
        (BY_SRUN, (2, 1), True, False),
        ({**BY_SRUN, "container_per": "rank"}, (2, 1), False, True),
        ({**BY_SRUN, "container_per": "node"}, (1, 1), True, False),
        ({**BY_MPIRUN, "container_per": "rank"}, (1, 1), False, False),
        ({**BY_MPIRUN, "runtime": "host"}, (2, 2), False, False),
    ],
)
def test_who_shares_a_container(given: dict[str, Any], ranks: tuple[int, ...], shared: bool, alone: bool) -> None:
    """A node's ranks do where there are several, unless asked otherwise."""
    launch_plan = planned(*ranks, **given)
    assert launch_plan.alone == alone
    assert ("--sharens" in launch_plan.step(Phase.SERVE).argv) == shared
    assert ("instance://sharens_instance_MNRUN_HOLDER" in launch_plan.step(Phase.RUN).argv) == shared


def test_a_serving_container_has_pids_of_its_own() -> None:
    """When its first process ends the kernel ends all others; ranks of a node must see each other instead."""
    assert "--pid" in planned(1, 1).step(Phase.SERVE).argv
    assert "--pid" in planned(1, 1).step(Phase.RUN).argv
    assert "--pid" not in planned(2, **BY_SRUN).step(Phase.RUN).argv


@pytest.mark.parametrize(
    ("given", "joined"),
    [
        ({}, True),
        ({"connect": "ssh"}, True),
        ({"shell": "terminal"}, False),
        ({"shell": "input"}, True),
        ({"runtime": "docker"}, False),
        ({"runtime": "podman"}, False),
        ({"runtime": "host"}, True),
    ],
)
def test_the_first_node_has_one_container(given: dict[str, Any], joined: bool) -> None:
    """On a single node none waits beside that of mpirun, and no key is made."""
    command = () if "shell" in given else ("./app",)
    alone, two = make(build(*command, **given), 2), make(build(*command, **given), 1, 1)
    assert (alone.joined, two.joined) == (joined, joined)
    assert "worker.sh" in two.step(Phase.SERVE).argv
    assert ("worker.sh" not in alone.step(Phase.SERVE).argv) == joined
    assert not joined or alone.connect == "pipe"


@pytest.mark.parametrize(
    ("given", "mounted"),
    [
        ({}, False),
        ({"chdir": "/home/alice"}, True),
        ({"chdir": "/home/alicia"}, True),
        ({"chdir": "/scratch"}, True),
        ({"no_home": True}, True),
        ({"chdir": "/"}, False),
        ({"chdir": "/work/sub", "bind": ("/data/proj:/work",)}, False),
    ],
)
def test_the_working_directory_is_there(given: dict[str, Any], mounted: bool) -> None:
    """Mounted once, by itself where home does not bring it."""
    launch_plan = planned(1, **given)
    chdir = launch_plan.spec.program.chdir
    assert launch_plan.step(Phase.RUN).argv.count(f"{chdir}:{chdir}") == mounted
    assert "--pwd" in launch_plan.step(Phase.RUN).argv


def test_a_working_directory_behind_a_mount() -> None:
    """The container starts in it, and the node must have what is mounted there. The host's mpirun begins there, too."""
    given: dict[str, Any] = {"chdir": "/work/sub", "bind": ("/data/proj:/work",)}
    for mode, begin in (("inside-out", "/work/sub"), ("outside-in", "/data/proj/sub")):
        launch_plan = planned(1, 1, mode=mode, **given)
        assert launch_plan.needs[-1] == ("working directory", "/data/proj/sub")
        words = launch_plan.step(Phase.SERVE if mode == "inside-out" else Phase.RUN).argv
        assert words[words.index("--pwd") + 1] == "/work/sub"
        assert f"mnrun_begin='{begin}'\n" in kit.values(launch_plan)
    assert planned(1, runtime="host", mode="outside-in", **given).needs[-1] == ("working directory", "/work/sub")


@pytest.mark.parametrize(
    ("given", "mounted"),
    [
        ({"script": "/proj/bin/job.sh"}, True),
        ({"script": "/home/alice/job.sh"}, True),
        ({"script": "/proj/bin/job.sh", "chdir": "/proj"}, False),
        ({"script": "/proj/bin/job.sh", "bind": ("/proj",)}, False),
        ({"script": "/job.sh"}, False),
        ({"script": "/bin/sh"}, False),
        ({"script": "/usr/local/bin/job.sh"}, False),
    ],
)
def test_the_directory_of_a_script_is_there(given: dict[str, Any], mounted: bool) -> None:
    """With what lies beside the script, but never in the place of the image's own directories."""
    launch_plan = make(build(**given), 1)
    folder = os.path.dirname(given["script"])
    assert launch_plan.step(Phase.RUN).argv.count(f"{folder}:{folder}") == mounted


@pytest.mark.parametrize("target", ["/tmp", "/tmp/", "/"])
def test_a_mount_that_would_hide_our_directory(target: str) -> None:
    """An engine sorts its mounts, and so hides nothing."""
    with pytest.raises(UsageError) as wrong:
        planned(1, bind=(f"/scratch:{target}",))
    assert str(wrong.value) == (
        f"--bind /scratch:{target} hides mnrun's own directory in {target}; "
        "mount it elsewhere: --bind /scratch:/scratch -x TMPDIR=/scratch"
    )
    for fine in (
        {"bind": ("/scratch:/tmp/mine", "/tmp", "/tmp:/tmp:ro")},
        {"bind": ("/x:/tmp",), "runtime": "host"},
        {"bind": ("/scratch:/tmp",), "runtime": "podman", "image": "app"},
    ):
        planned(1, **fine)


def test_a_users_mounts_come_after_ours() -> None:
    """So that his can lie above them."""
    argv = planned(1, bind=("/data:/etc/group",)).step(Phase.RUN).argv
    binds = [argv[place + 1] for place, word in enumerate(argv) if word == "--bind"]
    assert binds == [
        "/home/alice:/home/alice",
        "/tmp/mnrun.7-abcdef/box:/tmp/mnrun.7-abcdef/box",
        "/dev/shm/mnrun.7-abcdef:/tmp/mnrun.7-abcdef/box/shm",
        "/tmp/mnrun.7-abcdef/etc.passwd:/etc/passwd",
        "/tmp/mnrun.7-abcdef/etc.group:/etc/group",
        "/data:/etc/group",
    ]


@pytest.mark.parametrize(
    ("given", "command", "said"),
    [
        (
            {"script": "job.sh"},
            "./app",
            "--script runs once in the first node's container, which outside-in lacks; use --mode inside-out",
        ),
        (
            {},
            "/opt/bin/mpirun",
            "/opt/bin/mpirun runs once in the first node's container, which outside-in lacks; use --mode inside-out",
        ),
    ],
)
def test_what_has_no_master_container(given: dict[str, Any], command: str, said: str) -> None:
    """Outside-in there is none."""
    with pytest.raises(Impossible) as wrong:
        planned(1, command=command, **BY_MPIRUN, **given)
    assert str(wrong.value) == said


@pytest.mark.parametrize(("mpi", "launcher"), [("pmi2", "srun"), ("mpich", "mpirun")])
def test_what_needs_an_open_file(mpi: str, launcher: str) -> None:
    """dockerd hands none on; podman does."""
    given = {"mode": "outside-in", "mpi": mpi, "launcher": launcher, "image": "app:1"}
    with pytest.raises(Impossible, match=r"open file, which docker does not pass on .*--mode inside-out"):
        planned(1, runtime="docker", **given)
    planned(1, runtime="podman", **given)


@pytest.mark.parametrize(
    ("given", "notes"),
    [
        ({}, ()),
        (INSIDE, ()),
        (BY_SRUN, ()),
        ({**INSIDE, "launcher": "env", "mpi_args": ("-v",)}, ("--mpi-args: no effect on ranks that no MPI starts",)),
        ({**INSIDE, "launcher": "env", "script": "x"}, ("--launcher env: no effect on ranks that you start yourself",)),
        (
            {**INSIDE, "script": "x", "split_output": "out", "mpi_args": ("-v",)},
            tuple(f"--{name}: no effect on ranks that your own mpirun starts" for name in ("split-output", "mpi-args")),
        ),
    ],
)
def test_notes_are_about_options_without_effect(given: dict[str, Any], notes: tuple[str, ...]) -> None:
    """A run that takes every option as it is prints none."""
    assert planned(1, **given).notes == notes


def test_two_jobs_have_nothing_in_common_on_a_node() -> None:
    """Every path of ours has the job's own name in it."""
    one, other = (plan.make(build("./app"), Layout(("node01",), (1,)), job) for job in ("7-aaaaaa", "7-bbbbbb"))
    assert one.node_dir != other.node_dir
    assert "7-bbbbbb" not in repr(one.steps)
    assert len(one.node_dir) < 40, "a Unix socket's path below it has room for 108 bytes"


@pytest.mark.parametrize("kind", KINDS)
def test_carry_puts_the_schedulers_words_in_front(kind: str) -> None:
    """One command for each step that starts something; the step's own words unchanged behind."""
    launch_plan = planned(2, 2, **KINDS[kind])
    commands = carry.carry(launch_plan, SITE)
    assert list(commands) == [s.phase for s in launch_plan.steps if s.where is not Where.HERE]
    for phase, command in commands.items():
        words = launch_plan.step(phase).argv
        assert command.argv[0] == "srun"
        assert command.argv[len(command.argv) - len(words) :] == words
        assert command.nodes == ()


def test_carry_without_a_scheduler() -> None:
    """The step's words are all there is."""
    launch_plan = planned(2)
    local = dataclasses.replace(SITE, scheduler="local")
    assert carry.carry(launch_plan, local) == {
        s.phase: Command(s.argv) for s in launch_plan.steps if s.where is not Where.HERE
    }


def test_host_is_the_same_job_without_containers() -> None:
    """The baseline: the same steps, no runtime's word in them, and nothing that a node would need of one."""
    launch_plan = make(job_spec(command=("./app",), runtime="host", chdir="/run"), 2, 2)
    assert "apptainer" not in repr(launch_plan.steps)
    assert launch_plan.needs == (("working directory", "/run"),)
    assert "inside-bare" in launch_plan.step(Phase.RUN).argv


@pytest.mark.parametrize(
    ("given", "notes"),
    [
        ({"stage": True, "ssh_port": "22"}, ["--ssh-port: no effect without --hosts"]),
        ({"stage": True, "local": True}, ["--stage: no effect on this machine alone"]),
        ({"stage": False, "image": "docker://app:1"}, []),
        ({"rsh": "pdsh", "ssh_user": "bob"}, ["--rsh, --ssh-user: no effect without --hosts"]),
        ({"rsh": "pdsh", "ssh_user": "bob", "hosts": "n1"}, []),
        ({"stage": True, "hosts": "n1"}, []),
        ({"stage": True, "stage_limit": "1G", "hosts": "n1"}, ["--stage-limit: no effect with --hosts"]),
        (
            {"stage": True, "hosts": "n1", "image": "docker://app:1"},
            ["--stage: no effect here, since only an image file is copied"],
        ),
        ({"mode": "outside-in", "connect": "pipe", "hosts": "n1"}, []),
        (
            {"mode": "outside-in", "connect": "pipe"},
            ["--connect: no effect outside-in, where the scheduler starts what runs on the nodes"],
        ),
    ],
)
def test_what_has_no_effect_is_said(given: dict[str, Any], notes: list[str]) -> None:
    """Of what this job asks for; nothing of what is only a default."""
    job = build("./app", **{"mode": "inside-out", **given})
    assert list(make(job, 1, 1).notes) == notes
    elsewhere = changed(job, origins=dict.fromkeys(job.origins, "profile here"))
    if "image" not in given:
        assert make(elsewhere, 1, 1).notes == ()


def test_outside_in_on_hosts_by_ssh_or_by_the_pipe() -> None:
    """As asked for, by default the pipe; with a scheduler there is nothing to connect."""
    for connect, way in (("auto", "pipe"), ("ssh", "ssh"), ("pipe", "pipe")):
        given: dict[str, Any] = {"mode": "outside-in", "connect": connect}
        assert make(build("./app", **given, hosts="n1,n2"), 1, 1).connect == way
        assert make(build("./app", **given), 1, 1).connect == ""


@pytest.mark.parametrize("option", ["chdir", "split_output"])
@pytest.mark.parametrize("path", ["/scratch/a,b", "/scratch/a:b", "/scratch/a\nb"])
def test_a_directory_that_no_runtime_can_mount(option: str, path: str) -> None:
    """B11: `out,a:b` would be another directory of the node's, in the container at another place."""
    own: dict[str, Any] = {option: path}
    with pytest.raises(UsageError, match="has a comma, a colon or a newline, so that it cannot be mounted") as wrong:
        make(build("./app", **own), 1)
    assert wrong.value.remedy == f"name another with --{option.replace('_', '-')}"
    make(build("./app", runtime="host", **own), 1)


@pytest.mark.parametrize("kind", KINDS)
def test_our_scripts_in_a_word_are_shown_by_their_names(kind: str) -> None:
    """A person reads which they are; a program is given the words as they are."""
    launch_plan = planned(2, 2, **KINDS[kind])
    judgement = show.Judgement(None, "", launch_plan.spec)
    names = ("boot.sh", "into.sh") if kind == "by srun" else ("boot.sh", "await.sh", "into.sh")
    text, data = show.as_text(launch_plan, SITE, judgement, True), show.as_json(launch_plan, SITE, judgement)
    assert all(f"-c '<{name}>' /tmp/mnrun.7-abcdef " in text for name in names)
    assert "mnrun_back" not in text
    said = [word for step in checked("plan", data)["steps"] for word in step["argv"]]
    assert all(kit.spoken(name) in said for name in names)


def test_steps_are_shown_when_asked_for() -> None:
    """With -v without their words, and with --commands with them. A verdict that asks for nothing is a detail, too."""
    plain, verbose = planned(2, 2), planned(2, 2, verbose=True)
    texts = [
        show.as_text(launch_plan, SITE, show.Judgement(None, "", launch_plan.spec), commands)
        for launch_plan, commands in ((plain, False), (verbose, False), (plain, True))
    ]
    assert ["serve on all: a guard" in text for text in texts] == [False, True, True]
    assert ["single copy: on" in text for text in texts] == [False, True, True]
    assert ["'<boot.sh>'" in text for text in texts] == [False, False, True]
    assert texts[0].endswith("\n4 steps, which -v shows\n")


def test_a_plan_of_hosts_names_them() -> None:
    """For a person by what reaches them, ssh or pdsh; a program is given the nodes and a step's own words."""
    launch_plan = make(job_spec(command=("./app", "100%"), runtime="host", hosts=names.parse("node01,node02")), 1, 1)
    judgement = show.Judgement(None, "", launch_plan.spec)
    text, data = (
        show.as_text(launch_plan, hosts.SITE, judgement, True),
        show.as_json(launch_plan, hosts.SITE, judgement),
    )
    assert (
        """   pdsh -R ssh -w 'node[01-02]' "env MNRUN_NODE=%h bash --norc -p -c '<boot.sh>' /tmp/mnrun.7-abcdef """
        in text
    )
    assert """   ssh node01 "env MNRUN_NODE=node01 bash --norc -p -c '<await.sh>' /tmp/mnrun.7-abcdef """ in text
    shown = {step["phase"]: step for step in checked("plan", data)["steps"]}
    assert [(shown[phase]["argv"], shown[phase]["nodes"]) for phase in ("serve", "await", "run")] == [
        (list(launch_plan.step(Phase.SERVE).argv), ["node01", "node02"]),
        ([], []),
        (list(launch_plan.step(Phase.RUN).argv), ["node01"]),
    ]
    steps = checked("plan", show.as_json(launch_plan, SITE, judgement))["steps"]
    assert [step["nodes"] for step in steps] == [[]] * len(steps)


@pytest.mark.parametrize("word", ["plain", "it's", "$HOME", 'a "b"', "`x`", "back\\slash", "!", "100%h"])
@pytest.mark.parametrize("nodes", [("n1",), ("n1", "n2")])
def test_a_typed_command_has_its_words_on_the_host(sh: Shell, nodes: tuple[str, ...], word: str) -> None:
    """Our shell reads the line, and then the login shell there; pdsh makes a % of %%."""
    line = kit.typed(Command(("printf", r"%s\0", word), nodes))
    client = """ssh() { eval "$2"; }; pdsh() { eval "$(printf %s "$5" | sed 's/%h/n1/; s/%%/%/g')"; }"""
    assert sh(f"{client}; {line}").decode() == f"{word}\0"
