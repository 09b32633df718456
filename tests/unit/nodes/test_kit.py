"""What a node is given at the start of a job, and that it unpacks there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mnrun import environment
from mnrun.files import folder, lean, wrapper, wrappers
from mnrun.jobspec import Mount, Variable
from mnrun.model import Layout
from mnrun.nodes import kit, sides
from unit.conftest import BOOT, Shell, own
from unit.samples import build, job_spec, make


def unpack(packed: bytes) -> dict[str, str]:
    """Return name -> text of the files in a kit, whose first line must hold their number."""
    files = {}
    number, _, rest = packed.partition(b"\n")
    while rest:
        line, _, rest = rest.partition(b"\n")
        name, size = line.decode().split(" ")
        files[name] = rest[: int(size)].decode("utf-8", "surrogateescape")
        rest = rest[int(size) :]
    assert int(number) == len(files)
    return files


# The wrappers that only some plans use.
OTHERS = {
    *("engine.sh", "engines.sh", "exposed.sh", "ch-run.sh", "hold_container.sh", "join_container.sh"),
    *("gpu_closest.sh", "gpu_numa.sh", "label.sh", "shell.sh"),
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
    """Each byte of each file, whatever a shell would make of it."""
    guard = 'cd "$PWD"; for name in odd empty end bin/ssh; do cmp "$name" "$1/$name" && echo "$name"; done\n'
    (tmp_path / "bin").mkdir()
    for name, text in ODD.items():
        (tmp_path / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    words = kit.guard(str(tmp_path / "node"), (str(tmp_path),))
    said = sh('exec "$@"', *words, stdin=kit.pack({**ODD, "guard.sh": guard}), environ=HERE).decode()
    assert said.split()[2:] == ["odd", "empty", "end", "bin/ssh"]


def test_the_same_contents_make_the_same_pack() -> None:
    """No time stamps: what a node gets depends on the job alone."""
    assert kit.pack({"a": "1", "bin/b": "2"}) == kit.pack({"a": "1", "bin/b": "2"})


def test_a_file_that_got_in_by_mistake_is_noticed() -> None:
    """Every node of a launch is sent the kit down one pipe. The bound is six times its size."""
    assert len(kit.pack(kit.files(make(job_spec(command=("./app",)), 2, 2), {}))) < 256 * 1024


def test_the_kit_has_all_wrappers_and_the_jobs_files() -> None:
    """A wrapper that is added to such a folder travels by itself; mpirun goes by all its names."""
    files = kit.files(make(job_spec(command=("./app",), image="/app.sif"), 2, 1), {"key": "secret"})
    programs = {"ssh", "mpirun", "pipe_ssh.sh", "sbatch"}
    boxed = set(wrappers(*sides.IN_BOX, *sides.BY_MPIRUN, "pipe")) - programs - OTHERS
    shell = set(wrappers(*sides.ON_NODE)) - OTHERS
    boxed |= set(sides.SHARED)
    assert {"guard.sh", "pipe_demux.sh"} < shell and {"rank.sh", "worker.sh", "pipe_serve.sh", "entered.sh"} < boxed
    assert not {"boot.sh", "pull_image.sh", "survey.sh", "deaf.sh"} & (shell | boxed)
    ours = {"job.sh", "rules.sh", "user.env", "key", "layout", "launch.env", "hostfile", "hostfile.hydra"}
    ours |= {"bin/ssh", "bin/mpirun", "bin/mpiexec", "bin/prterun", "out/sbatch", "out/srun"}
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


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, set()),
        ({"runtime": "docker", "image": "app"}, {"engine.sh", "engines.sh", "exposed.sh"}),
        ({"runtime": "charliecloud"}, {"ch-run.sh", "engines.sh", "exposed.sh"}),
        ({"mode": "outside-in", "launcher": "mpirun"}, {"hold_container.sh", "join_container.sh"}),
        ({"gpu_bind": "closest"}, {"gpu_closest.sh", "gpu_numa.sh"}),
        ({"label": True}, {"label.sh"}),
    ],
)
def test_a_node_gets_what_its_plan_uses(given: dict[str, Any], sent: set[str]) -> None:
    """Each file costs every node time."""
    files = kit.files(make(build("./app", **given), 2, 1), {})
    assert OTHERS & {name.rpartition("/")[2] for name in files} == sent


def test_no_two_wrappers_have_the_same_name() -> None:
    """On a node they lie in one directory."""
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


def test_what_the_wrappers_know_of_an_inside_out_job() -> None:
    """job.sh, whole: values in single quotes, whatever is in them."""
    job = job_spec(command=("./app",), image="/app.sif", chdir="/it's here", keep=True, ports="3000-4000")
    assert kit.values(make(job, 2, 1)) == (
        "# shellcheck shell=sh disable=SC2016,SC2034\n"
        "mnrun_id='7-abcdef'\n"
        "mnrun_jobs=''\n"
        "mnrun_nodes='node01,node02'\n"
        "mnrun_cwd='/'\n"
        "mnrun_chdir='/it'\\''s here'\n"
        "mnrun_begin='/it'\\''s here'\n"
        "mnrun_inside='1'\n"
        "mnrun_connect='pipe'\n"
        "mnrun_joined='1'\n"
        "mnrun_beat=''\n"
        "mnrun_silence=''\n"
        "mnrun_runtime='apptainer'\n"
        "mnrun_image='/app.sif'\n"
        "mnrun_home=''\n"
        "mnrun_podman=''\n"
        "mnrun_hardened=''\n"
        "mnrun_starter='auto'\n"
        "mnrun_mpi=''\n"
        "mnrun_by_mpi='1'\n"
        "mnrun_stdin='rank'\n"
        "mnrun_overhear=''\n"
        "mnrun_no_gpu=''\n"
        "mnrun_gpu_bind=''\n"
        "mnrun_judge=''\n"
        "mnrun_ports='3000-4000'\n"
        "mnrun_umask='0022'\n"
        "mnrun_split=''\n"
        "mnrun_label=''\n"
        "mnrun_limited=''\n"
        "mnrun_keep='1'\n"
        f"mnrun_into={environment.quote(kit.spoken('into.sh'))}\n"
        "mnrun_shell=''\n"
    )


def test_what_the_wrappers_know_of_an_outside_in_job() -> None:
    """No connect; who starts the ranks."""
    job = job_spec(command=("./app",), image="/app.sif", mode="outside-in", launcher="srun", mpi="pmix", chdir="/run")
    assert kit.values(make(job, 2, 1)) == (
        "# shellcheck shell=sh disable=SC2016,SC2034\n"
        "mnrun_id='7-abcdef'\n"
        "mnrun_jobs=''\n"
        "mnrun_nodes='node01,node02'\n"
        "mnrun_cwd='/'\n"
        "mnrun_chdir='/run'\n"
        "mnrun_begin='/run'\n"
        "mnrun_inside=''\n"
        "mnrun_connect=''\n"
        "mnrun_joined=''\n"
        "mnrun_beat=''\n"
        "mnrun_silence=''\n"
        "mnrun_runtime='apptainer'\n"
        "mnrun_image='/app.sif'\n"
        "mnrun_home=''\n"
        "mnrun_podman=''\n"
        "mnrun_hardened=''\n"
        "mnrun_starter='srun'\n"
        "mnrun_mpi=''\n"
        "mnrun_by_mpi='1'\n"
        "mnrun_stdin=''\n"
        "mnrun_overhear=''\n"
        "mnrun_no_gpu=''\n"
        "mnrun_gpu_bind=''\n"
        "mnrun_judge='srun --mpi=pmix'\n"
        "mnrun_ports='20000-29999'\n"
        "mnrun_umask='0022'\n"
        "mnrun_split=''\n"
        "mnrun_label=''\n"
        "mnrun_limited=''\n"
        "mnrun_keep=''\n"
        f"mnrun_into={environment.quote(kit.spoken('into.sh'))}\n"
        "mnrun_shell=''\n"
    )


def test_what_every_node_must_have() -> None:
    """Asked on the node, one `KIND<tab>WHAT` a line."""
    job = job_spec(
        command=("./app",),
        image="/a b.sif",
        chdir="/run",
        binds=(Mount("/data"), Mount("/x", "/y")),
        mode="outside-in",
        launcher="mpirun",
    )
    assert kit.files(make(job, 1), {})["needs"] == (
        "program\tapptainer\nimage\t/a b.sif\nprogram\tmpirun\nbind source\t/data\nbind source\t/x\n"
        "working directory\t/run\n"
    )


def test_the_layout_goes_along() -> None:
    """`NODE RANKS`, from which each node knows its own share."""
    assert kit.files(make(job_spec(command=("./app",)), 3, 2), {})["box/layout"] == "node01 3\nnode02 2\n"


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
    """Sibling user namespaces refuse each other's memory; PATH is the image's own business outside-in."""
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


def test_hostfiles_in_both_families_words() -> None:
    """Open MPI counts slots, Hydra ranks."""
    assert kit.hostfiles(Layout(("node02", "node01"), (2, 1))) == {
        "hostfile": "node02 slots=2\nnode01 slots=1\n",
        "hostfile.hydra": "node02:2\nnode01:1\n",
    }


def test_what_a_plain_mpirun_finds_inside() -> None:
    """launch.env, whole: hosts, agent and binding for every MPI, and what the older scripts set."""
    job = job_spec(command=("./app",), image="/app.sif", bind_to="none", forwarded=("A", "B"), force=True)
    plan = make(job, 2, 1)
    assert kit.inside_environment(plan) == (
        "# shellcheck shell=sh source=user.env disable=SC2154\n"
        "PATH='/tmp/mnrun.7-abcdef/box/bin':$PATH\n"
        "export PATH\n"
        "export OMPI_MCA_plm='rsh'\n"
        "export OMPI_MCA_ras='^slurm'\n"
        "export OMPI_MCA_plm_rsh_agent='/tmp/mnrun.7-abcdef/box/bin/ssh'\n"
        "export OMPI_MCA_orte_default_hostfile='/tmp/mnrun.7-abcdef/box/hostfile'\n"
        "export PRTE_MCA_plm='ssh'\n"
        "export PRTE_MCA_ras='^slurm'\n"
        "export PRTE_MCA_plm_ssh_agent='/tmp/mnrun.7-abcdef/box/bin/ssh'\n"
        "export PRTE_MCA_prte_default_hostfile='/tmp/mnrun.7-abcdef/box/hostfile'\n"
        "export OMPI_MCA_orte_keep_fqdn_hostnames='0'\n"
        "export PRTE_MCA_prte_keep_fqdn_hostnames='0'\n"
        "export OMPI_MCA_orte_tmpdir_base='/tmp/mnrun.7-abcdef/box/tmp'\n"
        "export PRTE_MCA_prte_tmpdir_base='/tmp/mnrun.7-abcdef/box/tmp'\n"
        "export OMPI_MCA_odls_base_max_threads='0'\n"
        "export PRTE_MCA_odls_base_max_threads='0'\n"
        "export OMPI_MCA_hwloc_base_binding_policy='none'\n"
        "export PRTE_MCA_hwloc_default_binding_policy='none'\n"
        "export OMPI_MCA_rmaps_base_oversubscribe='1'\n"
        "export PRTE_MCA_rmaps_default_mapping_policy='slot:oversubscribe'\n"
        "export HYDRA_LAUNCHER='ssh'\n"
        "export HYDRA_LAUNCHER_EXEC='/tmp/mnrun.7-abcdef/box/bin/ssh'\n"
        "export HYDRA_RMK='user'\n"
        "export HYDRA_HOST_FILE='/tmp/mnrun.7-abcdef/box/hostfile.hydra'\n"
        "export MV2_ENABLE_AFFINITY='0'\n"
        "export I_MPI_HYDRA_BOOTSTRAP='ssh'\n"
        "export I_MPI_HYDRA_BOOTSTRAP_EXEC='/tmp/mnrun.7-abcdef/box/bin/ssh'\n"
        "export I_MPI_HYDRA_RMK='user'\n"
        "export I_MPI_HYDRA_HOST_FILE='/tmp/mnrun.7-abcdef/box/hostfile.hydra'\n"
        "export I_MPI_PIN='0'\n"
        "export hostlist='node01:2,node02:1'\n"
        "export np='3'\n"
        "export ENVLIST='A,B'\n"
        '. "$mnrun_here/user.env"\n'
    )


HERE = {"SLURMD_NODENAME": "node01"}


@pytest.mark.parametrize("umask", ["000", "022", "077"])
def test_a_node_unpacks_it_and_keeps_the_lease(sh: Shell, tmp_path: Path, umask: str) -> None:
    """The first words on a node take exactly the kit from standard input: what follows is the guard's."""
    guard = "#!/bin/bash\npwd; printf '<%s>' \"$@\"; echo; stat -c '%a %n' . key bin/ssh; cat\n"
    node = tmp_path / "node dir"
    lease = kit.pack({"guard.sh": guard, "key": "secret", "bin/ssh": "x"}) + b"go\nfile x :x:\n"
    words = kit.guard(str(node), ("sh", "a b", "$x"))
    said = sh(f'umask {umask}; exec "$@"', *words, stdin=lease, environ=HERE)
    assert said.decode() == f"here node01\n{node}\n<sh><a b><$x>\n700 .\n600 key\n600 bin/ssh\ngo\nfile x :x:\n"


@pytest.mark.parametrize("cut", [0, 1, 3, 200])
def test_a_lease_that_ends_too_early_leaves_nothing(sh: Shell, tmp_path: Path, cut: int) -> None:
    """mnrun was killed while it sent the kit: no half of it stays on the node, and no guard starts."""
    lease = kit.pack({"guard.sh": "echo started\n", "big": "".join(map(str, range(5000)))})
    words = kit.guard(str(tmp_path / "node"), ())
    said = sh('"$@" 2>/dev/null || exit 9', *words, stdin=lease[:cut], environ=HERE, code=9).decode()
    assert said == "here node01\n"
    assert not (tmp_path / "node").exists()


def test_one_task_on_a_node_is_enough(sh: Shell, tmp_path: Path) -> None:
    """Where GPUs are granted by the task, a serving step has several on a node: all but the first leave, content."""
    words = kit.guard(str(tmp_path / "node"), ())
    assert sh('"$@"', *words, stdin=kit.pack({}), environ={"SLURM_LOCALID": "1"}) == b""
    assert not (tmp_path / "node").exists()


def test_a_node_directory_that_is_there_is_somebody_elses(sh: Shell, tmp_path: Path) -> None:
    """It is neither used nor removed, and the node says so in one line."""
    node = tmp_path / "node"
    node.mkdir()
    (node / "precious").write_text("x")
    words = kit.guard(str(node), ())
    said = sh('"$@" 2>/dev/null', *words, stdin=kit.pack({}), environ=HERE, code=1)
    assert said.decode() == f"here node01\nfail node01 cannot make {node} on this node: another user has made it\n"
    assert (node / "precious").exists()


def test_a_node_directory_that_cannot_be_made(sh: Shell, tmp_path: Path) -> None:
    """Nobody has it, and nothing is unpacked elsewhere."""
    words = kit.guard(str(tmp_path / "none/node"), ())
    said = sh('"$@"', *words, stdin=kit.pack({}), environ=HERE, code=1).decode().splitlines()
    why = f"{tmp_path}/none is full, or not writable"
    assert said == ["here node01", f"fail node01 cannot make {tmp_path}/none/node on this node: {why}"]
    assert list(tmp_path.iterdir()) == []


def test_a_node_directory_whose_name_is_a_link_is_somebody_elses(sh: Shell, tmp_path: Path) -> None:
    """Also where it leads nowhere, so that none is made at its other end."""
    (tmp_path / "node").symlink_to(tmp_path / "gone")
    said = sh('"$@"', *kit.guard(str(tmp_path / "node"), ()), stdin=kit.pack({}), environ=HERE, code=1).decode()
    assert said.endswith(f"\nfail node01 cannot make {tmp_path}/node on this node: another user has made it\n")
    assert [path.name for path in tmp_path.iterdir()] == ["node"]


def test_a_node_says_whose_its_directory_is(sh: Shell, tmp_path: Path) -> None:
    """Its name, the node's, the guard's number and start, and the node's boot."""
    guard = 'set -- $(cat /proc/$$/stat); echo "$$ ${22}"; cat own\n'
    said = sh('exec "$@"', *kit.guard(str(tmp_path / "node"), ()), stdin=kit.pack({"guard.sh": guard}), environ=HERE)
    _, who, noted = said.decode().splitlines()
    assert noted == f"{tmp_path}/node node01 {who} {BOOT}"


def test_a_kit_that_breaks_off_ends_its_node(sh: Shell, tmp_path: Path) -> None:
    """Under pdsh the lease is a FIFO that never ends, also where nobody writes to it any more."""
    mkfifo = 'mkfifo lease; exec 7<>lease; printf "2\\njob.sh 100\\nonly half" >&7; exec "$@" <&7'
    boot = kit.guard(str(tmp_path / "node"), ())
    assert sh(mkfifo, *boot, environ={**HERE, "MNRUN_WAIT": "1"}, code=1) == b"here node01\n"
    assert not (tmp_path / "node").exists()


def test_a_kit_for_which_there_is_no_room(sh: Shell, tmp_path: Path) -> None:
    """The node says so, and nothing stays. A limit plays the full disk."""
    lease = kit.pack({"guard.sh": "echo started\n", "big": "x" * 100000})
    words = kit.guard(str(tmp_path / "node"), ())
    script = "trap '' XFSZ; ulimit -f 16; exec \"$@\""
    said = sh(script, *words, shell="bash", stdin=lease, environ=HERE, code=1).decode().splitlines()
    assert said[0] == "here node01"
    assert said[1] == f"fail node01 cannot write the kit to {tmp_path}/node on this node: {tmp_path} is full"
    assert not (tmp_path / "node").exists()


def test_a_lease_for_which_there_is_no_room(sh: Shell, tmp_path: Path) -> None:
    """A full disk may have room for a directory and a FIFO, and none for a file. A limit plays it."""
    place = f"{tmp_path}/node.lease"
    text = kit.spoken(kit.LEASE).replace("sleep 3", "sleep 0.1")
    words = ("bash", "-p", "-c", text, place, "echo", "began")
    said = sh("trap '' XFSZ; ulimit -f 0; exec \"$@\"", *words, shell="bash", environ={"MNRUN_NODE": "node01"}, code=1)
    assert said.decode() == f"fail node01 cannot write to {place} on this node: {tmp_path} is full\n"
    assert list(tmp_path.iterdir()) == []


def test_a_script_that_a_node_fetches_has_all_of_bash(sh: Shell) -> None:
    """Older bashes have no process substitution in posix mode, which a variable of the user's brings."""
    posix = {**HERE, "POSIXLY_CORRECT": "1"}
    script = '[[ ! -o posix ]] && echo "$0 $*"\n'
    said = sh('exec "$@"', *kit.fetch("x.sh", ("a b",)), stdin=f"{len(script)}\n{script}".encode(), environ=posix)
    assert said == b"here node01\nx.sh a b\n"


@pytest.mark.parametrize("lost", range(1, 26, 4))
def test_a_script_that_breaks_off_on_its_way(sh: Shell, lost: int) -> None:
    """Nothing of it runs, wherever it ends."""
    script = "echo é\necho ö\necho evil\n".encode()
    words = ('exec "$@"', *kit.fetch("x.sh", ()))
    given = b"%d\n%s" % (len(script), script)
    for locale in ("C", "C.UTF-8"):
        environ = {**HERE, "LC_ALL": locale}
        assert sh(*words, stdin=given, environ=environ).decode() == "here node01\né\nö\nevil\n"
        assert sh(*words, stdin=given[:-lost], environ=environ, code=1) == b"here node01\n"


@pytest.mark.parametrize(
    "damaged", [b"evil\n", b"a[$(echo evil >/proc/$$/fd/1)]\n", b"1\necho evil\n", b"1\n../evil 4\nevil"]
)
def test_a_kit_that_is_none(sh: Shell, tmp_path: Path, damaged: bytes) -> None:
    """A text that is no kit writes no file."""
    words = kit.guard(str(tmp_path / "node"), ())
    said = sh('exec "$@"', *words, stdin=damaged, environ=HERE, code=1).decode()
    assert said == "here node01\nfail node01 the kit was damaged on its way to this node\n"
    assert not (tmp_path / "node").exists()


@pytest.mark.parametrize(
    ("version", "old"), [("3 2", True), ("4 2", True), ("4 3", True), ("4 4", False), ("5 0", False), ("10 1", False)]
)
def test_an_old_bash_is_refused_by_name(sh: Shell, tmp_path: Path, version: str, old: bool) -> None:
    """Nothing stays. A bash's own version cannot be set: its variable has another name here."""
    text = kit.spoken(kit.BOOT)
    assert "BASH_VERSINFO[" in text
    words = ("bash", "-p", "-c", f"played=({version})\n{text.replace('BASH_VERSINFO', 'played')}", f"{tmp_path}/node")
    lease = tmp_path / "node.lease"  # of pdsh (lease.sh)
    lease.mkdir()
    said = sh('exec "$@"', *words, stdin=kit.pack({"guard.sh": "echo began; ls"}), environ=HERE, code=1 if old else 0)
    assert not old or not lease.exists()  # else the undertaker removes it soon
    line, *files = said.decode().splitlines()[1:]
    assert re.sub("bash [0-9][^ ]* ", "bash X ", line) == (
        "fail node01 bash X is too old: mnrun needs 4.4 or newer on the nodes" if old else "began"
    )
    assert files == ([] if old else ["bin", "box", "guard.sh", "own", "steady"])
    assert not old or not (tmp_path / "node").exists()


def test_the_head_waits_for_its_node(sh: Shell, tmp_path: Path) -> None:
    """It begins once the guard has made `open`, with the job's mark, and its words arrive as they are."""
    node = own(tmp_path / "mnrun.7-abcdef")
    (node / "head.sh").write_text('printf \'<%s>\' "$MNRUN_JOB_ID" "$@"\n')
    script = f'(sleep 0.1; : >{node}/open) & exec "$@"'
    assert sh(script, *kit.head(str(node), ("sh", "a b", "$x;"))) == b"<7-abcdef><sh><a b><$x;>"
    assert {path.name for path in node.iterdir()} == {"own", "open", "head.sh", "gate"}
