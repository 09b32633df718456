"""A job and a layout to steps, and steps to the words that start them: what differs between the modes."""

from __future__ import annotations

import os
import re
import shlex
from typing import Any

import pytest

from mnrun import nodeset
from mnrun.errors import Impossible, UsageError
from mnrun.model import Command, Layout, Phase, Plan
from mnrun.nodes import kit
from mnrun.planning import plan, show
from mnrun.schedulers.hosts import names
from mnrun.schedulers.hosts import steps as hosts
from published import checked
from unit.cases import Cases, given
from unit.conftest import Shell
from unit.samples import SITE, build, changed, job_spec, make
from unit.texts import Refused

INSIDE = {"mode": "inside-out"}
BY_MPIRUN = {"mode": "outside-in", "launcher": "mpirun"}
BY_SRUN = {"mode": "outside-in", "launcher": "srun"}
KINDS: dict[str, dict[str, Any]] = {"inside-out": INSIDE, "by mpirun": BY_MPIRUN, "by srun": BY_SRUN}


def planned(*ranks: int, command: str = "./app", **given: Any) -> Plan:
    return make(build(command, **given), *ranks)


@pytest.mark.parametrize("kind", KINDS)
def test_no_step_has_a_nodes_name(kind: str) -> None:
    launch_plan = planned(2, 1, **KINDS[kind])
    assert not [step for step in launch_plan.steps if re.search(r"node0\d", " ".join(step.argv))]
    paper = plan.make(launch_plan.spec, Layout((), (2, 1)), launch_plan.job)
    assert paper.steps == launch_plan.steps


def test_what_the_master_container_runs(cases: Cases) -> None:
    def runs(options: str, command: str) -> str:
        argv = make(build(*shlex.split(command), **given(options)), 2, 2).step(Phase.RUN).argv
        return " ".join(argv[argv.index("wait_go.sh") + 1 :])

    cases(runs)


@pytest.mark.parametrize(("mpi", "starter"), [("auto", "mpirun"), ("openmpi", "mpirun"), ("mpich", "mpiexec.hydra")])
def test_the_hosts_starter_goes_by_its_own_name(mpi: str, starter: str) -> None:
    launch_plan = planned(2, 1, **BY_MPIRUN, mpi=mpi)
    argv = launch_plan.step(Phase.RUN).argv
    assert argv[argv.index("wait_go.sh") + 1 :][:3] == (starter, "-n", "3")
    assert ("program", starter) in launch_plan.needs


def test_the_summary_fits_a_narrow_terminal(cases: Cases) -> None:
    def summary(options: str, nodes: str, job: str) -> str:
        spec = build("./a-program-with-a-name-of-some-length", **given(options))
        names = nodeset.expand(nodes)
        launch_plan = plan.make(spec, Layout(names, (2,) * len(names)), "job")
        line = plan.summary(launch_plan, job)
        assert len(f"mnrun: {line}") <= 80
        return line

    cases(summary)


def test_who_is_counted_and_who_reads(cases: Cases) -> None:
    """Ranks that we start are counted; mpirun loses standard input, so that it goes around it; srun does not."""

    def told(options: str, command: str) -> str:
        launch_plan = planned(2, 2, command=command, **given(options))
        return f"counted={launch_plan.counted} stdin={launch_plan.stdin}"

    cases(told)


def test_who_shares_a_container(cases: Cases) -> None:
    def told(options: str, ranks: str) -> str:
        launch_plan = planned(*map(int, ranks.split()), **given(options))
        shared = "--sharens" in launch_plan.step(Phase.SERVE).argv
        assert ("instance://sharens_instance_MNRUN_HOLDER" in launch_plan.step(Phase.RUN).argv) == shared
        return f"alone={launch_plan.alone} shared={shared}"

    cases(told)


def test_the_first_node_has_one_container(cases: Cases) -> None:
    def told(options: str) -> str:
        words = given(options)
        command = () if "shell" in words else ("./app",)
        alone, two = make(build(*command, **words), 2), make(build(*command, **words), 1, 1)
        assert alone.joined == two.joined == ("worker.sh" not in alone.step(Phase.SERVE).argv)
        assert "worker.sh" in two.step(Phase.SERVE).argv
        assert not alone.joined or alone.connect == "pipe"
        return f"joined={alone.joined}"

    cases(told)


def test_the_working_directory_is_there(cases: Cases) -> None:
    def mounts(options: str) -> str:
        launch_plan = planned(1, **given(options))
        chdir, argv = launch_plan.spec.program.chdir, launch_plan.step(Phase.RUN).argv
        assert "--pwd" in argv
        return f"mounted={argv.count(f'{chdir}:{chdir}')}"

    cases(mounts)


def test_a_working_directory_behind_a_mount() -> None:
    given: dict[str, Any] = {"chdir": "/work/sub", "bind": ("/data/proj:/work",)}
    for mode, begin in (("inside-out", "/work/sub"), ("outside-in", "/data/proj/sub")):
        launch_plan = planned(1, 1, mode=mode, **given)
        assert launch_plan.needs[-1] == ("working directory", "/data/proj/sub")
        words = launch_plan.step(Phase.SERVE if mode == "inside-out" else Phase.RUN).argv
        assert words[words.index("--pwd") + 1] == "/work/sub"
        assert f"mnrun_begin='{begin}'\n" in kit.values(launch_plan)
    assert planned(1, runtime="host", mode="outside-in", **given).needs[-1] == ("working directory", "/work/sub")


def test_the_directory_of_a_script_is_there(cases: Cases) -> None:
    def mounts(options: str) -> str:
        words = given(options)
        folder = os.path.dirname(words["script"])
        return f"mounted={make(build(**words), 1).step(Phase.RUN).argv.count(f'{folder}:{folder}')}"

    cases(mounts)


@pytest.mark.parametrize("target", ["/tmp", "/tmp/", "/"])
def test_a_mount_that_would_hide_our_directory(refused: Refused, target: str) -> None:
    with refused(UsageError):
        planned(1, bind=(f"/scratch:{target}",))
    for fine in (
        {"bind": ("/scratch:/tmp/mine", "/tmp", "/tmp:/tmp:ro")},
        {"bind": ("/x:/tmp",), "runtime": "host"},
        {"bind": ("/scratch:/tmp",), "runtime": "podman", "image": "app"},
    ):
        planned(1, **fine)


@pytest.mark.parametrize(("given", "command"), [({"script": "job.sh"}, "./app"), ({}, "/opt/bin/mpirun")])
def test_what_has_no_master_container(refused: Refused, given: dict[str, Any], command: str) -> None:
    with refused(Impossible):
        planned(1, command=command, **BY_MPIRUN, **given)


@pytest.mark.parametrize(("mpi", "launcher"), [("pmi2", "srun"), ("mpich", "mpirun")])
def test_what_needs_an_open_file(refused: Refused, mpi: str, launcher: str) -> None:
    """dockerd hands none on; podman does."""
    given = {"mode": "outside-in", "mpi": mpi, "launcher": launcher, "image": "app:1"}
    with refused(Impossible):
        planned(1, runtime="docker", **given)
    planned(1, runtime="podman", **given)


def test_two_jobs_have_nothing_in_common_on_a_node() -> None:
    one, other = (plan.make(build("./app"), Layout(("node01",), (1,)), job) for job in ("7-aaaaaa", "7-bbbbbb"))
    assert one.node_dir != other.node_dir
    assert "7-bbbbbb" not in repr(one.steps)
    assert len(one.node_dir) < 40, "a Unix socket's path below it has room for 108 bytes"


def test_what_has_no_effect_is_said(cases: Cases) -> None:
    def notes(options: str) -> str:
        job = build("./app", **given(options))
        elsewhere = changed(job, origins=dict.fromkeys(job.origins, "profile here"))
        if "stage" in options and "image" not in options:
            assert make(elsewhere, 1, 1).notes == ()
        return "; ".join(make(job, 1, 1).notes)

    cases(notes)


def test_outside_in_on_hosts_by_ssh_or_by_the_pipe() -> None:
    for connect, way in (("auto", "pipe"), ("ssh", "ssh"), ("pipe", "pipe")):
        given: dict[str, Any] = {"mode": "outside-in", "connect": connect}
        assert make(build("./app", **given, hosts="n1,n2"), 1, 1).connect == way
        assert make(build("./app", **given), 1, 1).connect == ""


@pytest.mark.parametrize("option", ["chdir", "split_output"])
@pytest.mark.parametrize("path", ["/scratch/a,b", "/scratch/a:b", "/scratch/a\nb"])
def test_a_directory_that_no_runtime_can_mount(refused: Refused, option: str, path: str) -> None:
    """B11: `out,a:b` would be another directory of the node's, in the container at another place."""
    own: dict[str, Any] = {option: path}
    with refused(UsageError):
        make(build("./app", **own), 1)
    make(build("./app", runtime="host", **own), 1)


@pytest.mark.parametrize("kind", KINDS)
def test_our_scripts_in_a_word_are_shown_by_their_names(kind: str) -> None:
    launch_plan = planned(2, 2, **KINDS[kind])
    judgement = show.Judgement(None, "", launch_plan.spec)
    names = ("boot.sh", "await.sh", "into.sh")
    text, data = show.as_text(launch_plan, SITE, judgement, True), show.as_json(launch_plan, SITE, judgement)
    assert all(f"-c '<{name}>' /tmp/mnrun.7-abcdef " in text for name in names)
    assert "mnrun_back" not in text
    said = [word for step in checked("plan", data)["steps"] for word in step["argv"]]
    assert all(any(word.endswith(kit.spoken(name)) for word in said) for name in names)


def test_steps_are_shown_when_asked_for() -> None:
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
        (list(kit.of_scheduler(launch_plan.step(Phase.SERVE).argv, "")), ["node01", "node02"]),
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


@pytest.mark.parametrize(
    "way", [{}, {"launcher": "env"}, {"mode": "outside-in", "launcher": "srun"}, {"launcher": "ray"}]
)
def test_words_that_are_too_long_for_a_line(way: dict[str, Any]) -> None:
    """W2"""
    words = ["./app", *(f"sample-{n}" for n in range(5000))]
    plan = make(build(*words, **way), 2, 2)
    in_line = way.get("launcher") == "ray"
    assert ("sample-7" in plan.step(Phase.RUN).argv, plan.words) == (in_line, () if in_line else tuple(words))
    assert make(build(*words[:2000], **way), 2, 2).words == ()
