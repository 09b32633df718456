"""What a node is given at the start of a job, and that it unpacks there."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from mnrun.files import folder, lean, wrapper, wrappers
from mnrun.jobspec import Variable
from mnrun.model import JobHere
from mnrun.nodes import kit, sides
from mnrun.schedulers.slurm import scheduler as slurm
from unit.cases import Cases, given
from unit.conftest import BOOT, Shell, own
from unit.samples import build, job_spec, make
from unit.texts import Says


def guard_words(place: str, container: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words by which Slurm starts a guard."""
    return kit.of_scheduler(kit.guard(place, container), slurm.ON_NODE)


def fetch_words(script: str, words: tuple[str, ...]) -> tuple[str, ...]:
    return kit.of_scheduler(kit.fetch(script, words), slurm.ON_NODE)


def unpack(packed: bytes) -> dict[str, str]:
    """Return name -> text of the files in a kit, whose first line must hold the size of their list."""
    files = {}
    listed, _, rest = packed.partition(b"\n")
    names, rest = rest[: int(listed)], rest[int(listed) :]
    for line in names.decode().splitlines():
        name, size = line.split(" ")
        files[name] = rest[: int(size)].decode("utf-8", "surrogateescape")
        rest = rest[int(size) :]
    assert not rest
    return files


# The wrappers that only some plans use.
OTHERS = {
    *("engine.sh", "engines.sh", "exposed.sh", "ch-run.sh", "hold_container.sh", "join_container.sh"),
    *("gpu_closest.sh", "gpu_numa.sh", "gpu_users.sh", "label.sh", "shell.sh", "ray.sh"),
    *("attend.sh", "fill.sh"),
}
ODD = {
    "key": "secret\n",
    "bin/ssh": "#!/bin/sh\n",
    "odd": "it's ü 漢\\\n\udcff$x `y` %s\n",
    "empty": "",
    "end": " no newline ",
}


def test_a_pack_is_its_files_and_their_sizes() -> None:
    assert unpack(kit.pack(ODD)) == ODD


def test_a_node_writes_what_was_packed(sh: Shell, tmp_path: Path) -> None:
    guard = 'cd "$PWD"; for name in odd empty end bin/ssh; do cmp "$name" "$1/$name" && echo "$name"; done\n'
    (tmp_path / "bin").mkdir()
    for name, text in ODD.items():
        (tmp_path / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    words = guard_words(str(tmp_path / "node"), (str(tmp_path),))
    said = sh('exec "$@"', *words, stdin=kit.pack({**ODD, "guard.sh": guard}), environ=HERE).decode()
    assert said.split()[2:] == ["odd", "empty", "end", "bin/ssh"]


def test_only_a_job_that_is_watched_gets_the_sampler() -> None:
    assert "sample.sh" not in kit.files(make(build("./app"), 1), {})
    files = kit.files(make(build("./app", watch=10), 1), {})
    assert files["sample.sh"] == lean(wrapper("sample.sh"))
    assert "mnrun_watch='10'\n" in files["job.sh"]


def test_the_same_contents_make_the_same_pack() -> None:
    assert kit.pack({"a": "1", "bin/b": "2"}) == kit.pack({"a": "1", "bin/b": "2"})


def test_a_file_that_got_in_by_mistake_is_noticed() -> None:
    assert len(kit.pack(kit.files(make(job_spec(command=("./app",)), 2, 2), {}))) < 256 * 1024


def test_the_kit_has_all_wrappers_and_the_jobs_files() -> None:
    files = kit.files(make(job_spec(command=("./app",), image="/app.sif"), 2, 1), {"key": "secret"})
    programs = {"ssh", "mpirun", "pipe_ssh.sh", "sbatch", "sitecustomize.py"}
    boxed = set(wrappers(*sides.IN_BOX, *sides.BY_MPIRUN, "pipe")) - programs - OTHERS
    shell = set(wrappers(*sides.ON_NODE)) - OTHERS
    boxed |= set(sides.SHARED)
    assert {"guard.sh", "pipe_demux.sh"} < shell and {"rank.sh", "worker.sh", "pipe_serve.sh", "entered.sh"} < boxed
    assert not {"boot.sh", "pull_image.sh", "survey.sh", "deaf.sh"} & (shell | boxed)
    ours = {"job.sh", "rules.sh", "user.env", "key", "layout", "launch.env", "hostfile", "hostfile.hydra"}
    ours |= {"bin/ssh", "bin/mpirun", "bin/mpiexec", "bin/prterun", "out/sbatch", "out/srun"}
    ours |= {"lines/sitecustomize.py"}
    assert set(files) == shell | {"job.sh", "rules.sh", "needs"} | {f"box/{name}" for name in boxed | ours}
    assert all(files[name] == lean(wrapper(name)) for name in shell)
    assert all(files[f"box/{name}"] == lean(wrapper(name)) for name in boxed)
    assert files["box/bin/mpirun"] == lean(wrapper("mpirun"))
    assert files["box/bin/mpiexec"] == files["box/bin/prterun"] == '#!/bin/sh\n. "${0%/*}/mpirun"\n'


def test_only_the_node_has_what_the_node_runs() -> None:
    """S7: of all that a container may change, nothing runs on the node. A few scripts lie on both sides."""
    files = kit.files(make(build("./app"), 2, 1), {})
    names = {name for name in files if "/" not in name and name.endswith(".sh")}
    assert {name for name in names if f"box/{name}" in files} == {*sides.SHARED, "job.sh", "rules.sh"}


def test_outside_in_the_commands_of_mpirun_are_the_nodes() -> None:
    """S7: a rank's container has none of mpirun's files, no key among them."""
    job = build("./app", mode="outside-in", launcher="mpirun", hosts="node01:2,node02:1", connect="ssh")
    files = kit.files(make(job, 2, 1), {"key": "secret"})
    on_node = {"key", "hostfile", "user.env", "worker.sh", "session.sh", "sshd.sh", "bin/ssh", "wait_go.sh"}
    assert on_node <= set(files)
    assert not {f"box/{name}" for name in on_node - {"user.env"}} & set(files)


def test_a_node_gets_what_its_plan_uses(cases: Cases) -> None:
    def sent(options: str) -> str:
        files = kit.files(make(build("./app", **given(options)), 2, 1), {})
        return " ".join(sorted(OTHERS & {name.rpartition("/")[2] for name in files}))

    cases(sent)


def test_a_node_without_gpus_is_not_asked_for_them() -> None:
    plan = make(build("./app"), 2, 1)
    sent = [
        "gpu_users.sh" in kit.files(plan._replace(layout=replace(plan.layout, gpus=gpus)), {})
        for gpus in ((0, 2), (0, 0))
    ]
    assert sent == [True, False]


def test_no_two_wrappers_have_the_same_name() -> None:
    files = [path.name for path in folder("wrappers").rglob("*") if path.is_file()]
    assert sorted(files) == sorted(set(files))


@pytest.mark.parametrize(
    ("connect", "sent", "program"),
    [("ssh", "sshd.sh", "ssh"), ("pipe", "pipe_serve.sh", "pipe_ssh.sh"), ("auto", "pipe_serve.sh", "pipe_ssh.sh")],
)
def test_a_node_gets_one_way_to_the_others(connect: str, sent: str, program: str) -> None:
    files = kit.files(make(job_spec(command=("./app",), image="/app.sif", connect=connect), 2, 1), {})
    assert {"box/sshd.sh", "box/pipe_serve.sh"} & set(files) == {f"box/{sent}"}
    assert files["box/bin/ssh"] == lean(wrapper(program))


def test_the_values_of_a_job_are_words_of_a_shell() -> None:
    """They are in single quotes, whatever is in them. The golden kits have all of them."""
    job = job_spec(command=("./app",), image="/app.sif", chdir="/it's here")
    assert "mnrun_begin='/it'\\''s here'\n" in kit.values(make(job, 2, 1))


def test_who_starts_the_ranks_has_no_name_of_a_schedulers_own() -> None:
    """The message to a rank that does not suit it has one."""
    job = job_spec(command=("./app",), image="/app.sif", mode="outside-in", launcher="srun", mpi="pmix")
    said = kit.values(make(job, 2, 1))
    assert "mnrun_starter='scheduler'\n" in said
    assert "mnrun_judge='srun --mpi=pmix'\n" in said


def test_what_a_job_of_a_scheduler_is_known_by() -> None:
    here = JobHere("JOB_ID", "7", "sge.7", ("USR2", "TERM"))
    job = job_spec(command=("./app",), env=(Variable("PBS_JOBID", "8"),))
    said = kit.values(make(job, 2, 1), here)
    for name, value in {"warnings": "USR2 TERM", "jobs": "JOB_ID=7 PBS_JOBID=8", "group": "sge.7"}.items():
        assert f"mnrun_{name}='{value}'\n" in said
    assert re.search(r"mnrun_marks='([^']*\|)?JOB_ID[|']", said)


def test_variables_of_the_ranks() -> None:
    """user.env, whole: ours first, so that the user's are believed; his PATH keeps our ssh in front."""
    variables = (Variable("A", "it's"), Variable("PATH", "/opt/bin:/bin"), Variable("B", None))
    job = job_spec(command=("./app",), image="/app.sif", env=variables)
    assert kit.files(make(job, 1, 1), {})["box/user.env"] == (
        f"{kit.FABRIC}{kit.UNBUFFERED}"
        "export OMPI_MCA_btl_sm_backing_directory='/tmp/mnrun.7-abcdef/box/shm'\n"
        "export OMPI_MCA_btl_vader_backing_directory='/tmp/mnrun.7-abcdef/box/shm'\n"
        "export A='it'\\''s'\n"
        "export PATH='/tmp/mnrun.7-abcdef/box/bin:/opt/bin:/bin'\n"
        "unset B\n"
    )


def test_variables_of_ranks_that_are_alone_in_their_containers() -> None:
    job = job_spec(
        command=("./app",),
        image="/app.sif",
        mode="outside-in",
        launcher="srun",
        per="rank",
        env=(Variable("PATH", "/bin"),),
    )
    assert kit.files(make(job, 2, 2), {})["box/user.env"] == (
        f"{kit.FABRIC}{kit.UNBUFFERED}"
        "export OMPI_MCA_btl_sm_backing_directory='/tmp/mnrun.7-abcdef/box/shm'\n"
        "export OMPI_MCA_btl_vader_backing_directory='/tmp/mnrun.7-abcdef/box/shm'\n"
        "export OMPI_MCA_btl_vader_single_copy_mechanism='none'\n"
        "export UCX_POSIX_USE_PROC_LINK='n'\n"
        "export MV2_SMP_USE_CMA='0'\n"
        "export PATH='/bin'\n"
    )


HERE = {"SLURMD_NODENAME": "node01"}


@pytest.mark.parametrize("umask", ["000", "022", "077"])
def test_a_node_unpacks_it_and_keeps_the_lease(sh: Shell, tmp_path: Path, umask: str) -> None:
    guard = "#!/bin/bash\npwd; printf '<%s>' \"$@\"; echo; stat -c '%a %n' . key bin/ssh; cat\n"
    node = tmp_path / "node dir"
    lease = kit.pack({"guard.sh": guard, "key": "secret", "bin/ssh": "x"}) + b"go\nfile x :x:\n"
    words = guard_words(str(node), ("sh", "a b", "$x"))
    said = sh(f'umask {umask}; exec "$@"', *words, stdin=lease, environ=HERE)
    assert said.decode() == f"here node01\n{node}\n<sh><a b><$x>\n700 .\n600 key\n600 bin/ssh\ngo\nfile x :x:\n"


@pytest.mark.parametrize("cut", [0, 1, 3, 200])
def test_a_lease_that_ends_too_early_leaves_nothing(sh: Shell, tmp_path: Path, cut: int) -> None:
    lease = kit.pack({"guard.sh": "echo started\n", "big": "".join(map(str, range(5000)))})
    words = guard_words(str(tmp_path / "node"), ())
    said = sh('"$@" 2>/dev/null || exit 9', *words, stdin=lease[:cut], environ=HERE, code=9).decode()
    assert said == "here node01\n"
    assert not (tmp_path / "node").exists()


def test_one_task_on_a_node_is_enough(sh: Shell, tmp_path: Path) -> None:
    words = guard_words(str(tmp_path / "node"), ())
    assert sh('"$@"', *words, stdin=kit.pack({}), environ={"SLURM_LOCALID": "1"}) == b""
    assert not (tmp_path / "node").exists()


def test_a_node_directory_that_is_there_is_somebody_elses(sh: Shell, tmp_path: Path, says: Says) -> None:
    node = tmp_path / "node"
    node.mkdir()
    (node / "precious").write_text("x")
    words = guard_words(str(node), ())
    said = sh('"$@" 2>/dev/null', *words, stdin=kit.pack({}), environ=HERE, code=1)
    says(said.decode())
    assert (node / "precious").exists()


def test_a_node_directory_that_cannot_be_made(sh: Shell, tmp_path: Path, says: Says) -> None:
    words = guard_words(str(tmp_path / "none/node"), ())
    said = sh('"$@"', *words, stdin=kit.pack({}), environ=HERE, code=1).decode().splitlines()
    says("\n".join(said))
    assert list(tmp_path.iterdir()) == []


def test_a_node_directory_whose_name_is_a_link_is_somebody_elses(sh: Shell, tmp_path: Path, says: Says) -> None:
    (tmp_path / "node").symlink_to(tmp_path / "gone")
    said = sh('"$@"', *guard_words(str(tmp_path / "node"), ()), stdin=kit.pack({}), environ=HERE, code=1).decode()
    says(said)
    assert [path.name for path in tmp_path.iterdir()] == ["node"]


def test_a_node_says_whose_its_directory_is(sh: Shell, tmp_path: Path) -> None:
    guard = 'set -- $(cat /proc/$$/stat); echo "$$ ${22}"; cat own\n'
    said = sh('exec "$@"', *guard_words(str(tmp_path / "node"), ()), stdin=kit.pack({"guard.sh": guard}), environ=HERE)
    _, who, noted = said.decode().splitlines()
    assert noted == f"{tmp_path}/node node01 {who} {BOOT}"


def test_a_kit_that_breaks_off_ends_its_node(sh: Shell, tmp_path: Path) -> None:
    boot = guard_words(str(tmp_path / "node"), ())
    assert sh('exec "$@"', *boot, stdin=b"11\njob.sh 100\nonly half", environ=HERE, code=1) == b"here node01\n"
    assert not (tmp_path / "node").exists()


def test_a_kit_for_which_there_is_no_room(sh: Shell, tmp_path: Path, says: Says) -> None:
    lease = kit.pack({"guard.sh": "echo started\n", "big": "x" * 100000})
    words = guard_words(str(tmp_path / "node"), ())
    script = "trap '' XFSZ; ulimit -f 16; exec \"$@\""
    said = sh(script, *words, shell="bash", stdin=lease, environ=HERE, code=1).decode().splitlines()
    says("\n".join(said[:2]))
    assert not (tmp_path / "node").exists()


def test_a_script_that_a_node_fetches_has_all_of_bash(sh: Shell) -> None:
    posix = {**HERE, "POSIXLY_CORRECT": "1"}
    script = '[[ ! -o posix ]] && echo "$0 $*"\n'
    said = sh('exec "$@"', *fetch_words("x.sh", ("a b",)), stdin=f"{len(script)}\n{script}".encode(), environ=posix)
    assert said == b"here node01\nx.sh a b\n"


@pytest.mark.parametrize("lost", range(1, 26, 4))
def test_a_script_that_breaks_off_on_its_way(sh: Shell, lost: int) -> None:
    script = "echo é\necho ö\necho evil\n".encode()
    words = ('exec "$@"', *fetch_words("x.sh", ()))
    given = b"%d\n%s" % (len(script), script)
    for locale in ("C", "C.UTF-8"):
        environ = {**HERE, "LC_ALL": locale}
        assert sh(*words, stdin=given, environ=environ).decode() == "here node01\né\nö\nevil\n"
        assert sh(*words, stdin=given[:-lost], environ=environ, code=1) == b"here node01\n"


@pytest.mark.parametrize(
    "damaged", [b"evil\n", b"a[$(echo evil >/proc/$$/fd/1)]\n", b"10\necho evil\n", b"10\n../evil 4\nevil"]
)
def test_a_kit_that_is_none(sh: Shell, tmp_path: Path, damaged: bytes, says: Says) -> None:
    words = guard_words(str(tmp_path / "node"), ())
    said = sh('exec "$@"', *words, stdin=damaged, environ=HERE, code=1).decode()
    says(said)
    assert not (tmp_path / "node").exists()


@pytest.mark.parametrize(
    ("version", "old"), [("3 2", True), ("4 2", True), ("4 3", True), ("4 4", False), ("5 0", False), ("10 1", False)]
)
def test_an_old_bash_is_refused_by_name(sh: Shell, tmp_path: Path, version: str, old: bool) -> None:
    (text,) = kit.of_scheduler((kit.spoken(kit.BOOT),), slurm.ON_NODE)
    assert "BASH_VERSINFO[" in text
    words = ("bash", "-p", "-c", f"played=({version})\n{text.replace('BASH_VERSINFO', 'played')}", f"{tmp_path}/node")
    said = sh('exec "$@"', *words, stdin=kit.pack({"guard.sh": "echo began; ls"}), environ=HERE, code=1 if old else 0)
    line, *files = said.decode().splitlines()[1:]
    assert re.sub("bash [0-9][^ ]* ", "bash X ", line) == (
        "fail node01 bash X is too old: mnrun needs 4.4 or newer on the nodes" if old else "began"
    )
    assert files == ([] if old else ["bin", "box", "guard.sh", "out", "own", "steady"])
    assert not old or not (tmp_path / "node").exists()


def test_the_head_waits_for_its_node(sh: Shell, tmp_path: Path) -> None:
    node = own(tmp_path / "mnrun.7-abcdef")
    (node / "head.sh").write_text('printf \'<%s>\' "$MNRUN_JOB_ID" "$@"\n')
    script = f'(sleep 0.1; : >{node}/open) & exec "$@"'
    assert sh(script, *kit.awaiting(str(node), "head.sh", "sh", "a b", "$x;")) == b"<7-abcdef><sh><a b><$x;>"
    assert {path.name for path in node.iterdir()} == {"own", "open", "head.sh", "gate"}
