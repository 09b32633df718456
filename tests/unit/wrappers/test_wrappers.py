"""The wrappers that end in `exec "$@"`, run for real in a node directory that lies in tmp_path.

No container, no MPI, no Slurm: what they set, drop, say and become. guard.sh and sweep.sh end
processes, and sshd.sh starts one: those are for the live tests.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mnrun.files import wrapper, wrappers
from mnrun.nodes import kit
from unit.conftest import ADVERB, Shell, own
from unit.decoys import Decoys
from unit.samples import build, make

BARE = {"PATH": os.environ["PATH"]}
SHELLS = ("sh", "dash", "bash")
WHO = 'set -- $(cat /proc/$$/stat); shift 21; echo "$$ $1"'  # this shell's number and start, as others note them
BY_INTO = ("clean_env.sh", "wait_go.sh", "hold_container.sh", "worker.sh", "stop.sh")


class Node:
    """A node's directory as the guard leaves it, but that `up` is a file, so that it can be read at leisure."""

    def __init__(self, sh: Shell, path: Path) -> None:
        self.sh = sh
        self.path = path
        self._by_into: tuple[str, ...] = BY_INTO

    def fill(self, *ranks: int, launch: str = "", **given: Any) -> None:
        command = () if given.get("shell") else ("./app",)
        plan = make(build(*command, **{"chdir": str(self.path), **given}), *ranks)
        if plan.spec.start.mode == "outside-in":
            self._by_into = (*BY_INTO, "rank.sh")
        (own(self.path) / "bin").mkdir()
        files = kit.files(plan, {"launch.env": launch, "up": ""})
        for name, text in files.items():
            (self.path / name).write_text(text, encoding="utf-8", errors="surrogateescape")
        for program in (self.path / "bin").iterdir():
            program.chmod(0o700)

    def run(self, wrapper: str, *words: str, shell: str = "sh", before: str = "", **how: Any) -> bytes:
        """Run `WRAPPER WORDS` by its own shell, after the lines `before`: by into.sh or by its name, as a launch."""
        entered = ("-c", kit.spoken(kit.INTO), str(self.path), wrapper)
        start = entered if wrapper in self._by_into else (str(self.path / wrapper),)
        return self.sh(before + 'exec "$@"', shell, *start, *words, **how)

    @property
    def said(self) -> str:
        """What would have gone up to the launcher; later words lie over earlier ones, as in no pipe."""
        return (self.path / "up").read_text()


def path_of(place: Path, names: Iterable[str]) -> str:
    """A PATH with these programs alone, in a folder that it makes."""
    place.mkdir()
    for name in names:
        found = shutil.which(name)
        assert found, name
        (place / name).symlink_to(found)
    return str(place)


@pytest.fixture
def node(sh: Shell, tmp_path: Path) -> Node:
    return Node(sh, tmp_path / "mnrun.7-abcdef")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3", "PMIX_RANK": "9"}, "rank 2 3\n"),
        ({"PMIX_RANK": "1", "SLURM_NTASKS": "3", "SLURM_PROCID": "9"}, "rank 1 3\n"),
        ({"PMI_RANK": "1", "PMI_SIZE": "3", "SLURM_PROCID": "9", "SLURM_NTASKS": "9"}, "rank 1 3\n"),
        ({"SLURM_PROCID": "2", "SLURM_NTASKS": "3"}, "rank 2 3\n"),
        ({}, "rank 0 1\n"),
    ],
)
def test_a_rank_says_who_it_is(node: Node, environ: Mapping[str, str], said: str, shell: str) -> None:
    """From the variables of whoever started it."""
    node.fill(1, script="job.sh")
    node.run("rank.sh", "true", environ=environ, shell=shell)
    assert node.said == said


@pytest.mark.parametrize("shell", SHELLS)
def test_a_rank_becomes_the_program_with_its_words_and_variables(node: Node, shell: str) -> None:
    """Byte for byte; a variable that was taken away is away."""
    words = ("a b", "", "$HOME", "it's", '"', "*", "--", "-n", "two\nlines", "ü\udcff")
    node.fill(1, script="job.sh", env=("V=it's $HOME\n`x`",))
    script = 'printf "%s\\0" "$V" "$@"'
    said = node.run("rank.sh", "sh", "-c", script, "x", *words, shell=shell)
    assert [os.fsdecode(word) for word in said.split(b"\0")[:-1]] == ["it's $HOME\n`x`", *words]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("starter", ["mpirun", "srun"])
def test_a_variable_may_be_called_as_one_of_ours(node: Node, shell: str, starter: str) -> None:
    """Which arrives as it was given, and does not mislead us."""
    names = ("here", "rank", "size", "code", "image", "name", "real", "node", "word")
    node.fill(1, mode="outside-in", launcher=starter, force=True, env=tuple(f"{name}=mine {name}" for name in names))
    (node.path / "stdin").touch()
    said = node.run("rank.sh", "env", shell=shell, environ={"PMIX_RANK": "0", "SLURM_NTASKS": "1"}).decode()
    assert {f"{name}=mine {name}" for name in names} <= set(said.splitlines())


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "code"),
    [(("sh", "-c", "exit 7"), 7), (("./none",), 127), (("none-such-word",), 127), (("/etc/passwd",), 126)],
)
def test_a_ranks_code_is_the_programs_or_the_shells(node: Node, words: tuple[str, ...], code: int, shell: str) -> None:
    """126 and 127 as a shell gives them, whatever the starter would make of them."""
    node.fill(1, script="job.sh")
    node.run("rank.sh", *words, code=code, shell=shell)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("launcher", "rank"), [("mpirun", "0"), ("mpirun", "1"), ("srun", "0")])
def test_a_program_that_is_not_there_is_one_line(node: Node, launcher: str, rank: str, shell: str) -> None:
    """It names no file of mnrun's. Under srun, the launcher is told of the end all the same."""
    node.fill(1, mode="outside-in", launcher=launcher, force=True)
    (node.path / "stdin").touch()
    environ = {"PMIX_RANK": rank, "SLURM_LOCALID": rank, "OMPI_COMM_WORLD_LOCAL_RANK": rank}
    for program in ("/no/such program", "no-such"):
        said = node.run("rank.sh", program, before="exec 2>&1\n", code=127, environ=environ, shell=shell)
        assert said.decode() == f"sh: {program}: not found\n"
    assert (f"ended {rank} 127" in node.said) == (launcher == "srun")


@pytest.mark.parametrize(("rank", "read"), [("0", b"a\0b\n"), ("1", b"")])
def test_standard_input_goes_to_rank_0_alone(node: Node, rank: str, read: bytes) -> None:
    """From the node's own pipe, since mpirun would lose it."""
    node.fill(1)
    (node.path / "stdin").write_bytes(b"a\0b\n")
    environ = {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": "2"}
    assert node.run("rank.sh", "cat", environ=environ, stdin=b"not this") == read


def test_a_rank_of_srun_reads_its_own_input_where_it_was_told_to_be(node: Node, tmp_path: Path) -> None:
    """srun starts it elsewhere, and hands standard input on by itself."""
    node.fill(1, mode="outside-in", launcher="srun", chdir=str(tmp_path), force=True)
    environ = {"PMIX_RANK": "0", "SLURM_NTASKS": "1"}
    said = node.run("rank.sh", "sh", "-c", "pwd; cat", before="cd /\n", environ=environ, stdin=b"input")
    assert said.decode() == f"{tmp_path}\ninput"


def test_ssh_and_mpirun_are_the_images(node: Node) -> None:
    """Not our own again, where an mpirun has put its place in front of PATH, or ours twice."""
    node.fill(1)
    script = """
    mkdir a b; printf '#!/bin/sh\\necho "${0##*/} $PATH"\\n' | tee b/mpirun >b/ssh; chmod 700 b/*
    PATH=$PWD/a:$PWD/bin:$PWD/b:$PWD/bin:$PATH; ssh node02; mpirun ./app
    """
    ssh, mpirun = node.sh(f"cd {node.path}\n{script}").decode().splitlines()
    assert ssh.startswith(f"ssh {node.path}/a:{node.path}/b:/")
    assert mpirun.startswith(f"mpirun {node.path}/bin:{node.path}/a:{node.path}/b:/")


def test_a_rank_waits_for_the_container_that_its_node_s_ranks_share(node: Node) -> None:
    """And names the process that holds it: Apptainer's after its parent. The command's own words stay as they are."""
    node.fill(2, mode="outside-in", launcher="srun", force=True)
    script = """
    echo "41 $$" >holder; name=/dev/shm/sharens_instance_$$
    join() { ADVERB ./join_container.sh sh -c 'echo "$@"' sh "$@"; }
    join --join-pid=MNRUN_HOLDER MNRUN_HOLDER >ch-run &
    join instance://sharens_instance_MNRUN_HOLDER "a  b" >apptainer &
    sleep 0.2; cat ch-run apptainer; echo none yet; echo 41 7 >held; wait %1; cat ch-run
    cat apptainer; echo not yet; echo 1 >"$name"; wait; rm "$name"; sed "s/$$/42/" apptainer
    """
    said = node.sh(f"cd {node.path}\n{script}".replace("ADVERB", ADVERB)).decode().splitlines()
    assert said == ["none yet", "--join-pid=41 MNRUN_HOLDER", "not yet", "instance://sharens_instance_42 a  b"]


def test_a_rank_gets_the_changes_that_the_runtime_made(node: Node) -> None:
    """Of nsenter's rank: what the container's first process has and its runtime had not, and what it has no more."""
    node.fill(2, mode="outside-in", launcher="srun")
    script = """
    source ./processes.sh; set -- --join-pid=x; echo x >held; echo 41 42 >holder; source ./join_container.sh
    printf '%s\\0' same=1 PATH=/host gone=1 PWD=/ 'two=a
    b' APPTAINER_BIND= >hold.env
    env -i same=1 PATH=/image 'two=a
    b' "its=it's
    new" APPTAINER_BIND=/tmp APPTAINER_NAME=x /usr/bin/sleep 60 & pid=$!
    until [[ -r /proc/$pid/environ && $(</proc/$pid/comm) == sleep ]]; do sleep 0.01; done
    changes $pid >made; kill $pid
    cat made; gone=1; source ./made; echo "<$its$PATH${gone-}>"
    """
    said = node.sh(f"cd {node.path}; mnrun_runtime=apptainer\n{script}", shell="bash").decode().splitlines()
    exports = ["export APPTAINER_NAME='x'", "export PATH='/image'", "export its='it'\\''s"]
    assert sorted(line.strip() for line in said) == sorted([*exports, "new'", "unset gone", "<it's", "new/image>"])


@pytest.mark.parametrize("lives", [True, False])
def test_a_container_of_the_node_s_own_user_is_joined_by_its_name(node: Node, lives: bool) -> None:
    """nsenter may enter a user namespace of ours alone: not a setuid Apptainer's container, nor one that has ended."""
    node.fill(2, mode="outside-in", launcher="srun")
    script = """
    source ./processes.sh; name=/dev/shm/sharens_instance_$$; echo 1 >"$name"; echo "41 $$" >holder; : >hold.env
    began $$; echo "$$ ${2:-$REPLY}" >held
    set -- apptainer -q exec --pwd / instance://sharens_instance_MNRUN_HOLDER sh -c true; source ./join_container.sh
    rm "$name"; echo "${@/$$/PID}"
    """
    words = ("x", *([] if lives else ["7"]))
    said = node.sh(f"cd {node.path}; mnrun_runtime=apptainer\n{script}", *words, shell="bash").decode()
    assert said == "apptainer -q exec --pwd / instance://sharens_instance_PID sh -c true\n"


def test_the_shared_container_is_not_taken_for_one_of_long_ago(node: Node) -> None:
    """Apptainer names it by its parent, and a node that lost its power has the numbers again; others' names stay."""
    node.fill(2, mode="outside-in", launcher="srun", force=True)
    script = """
    mkdir hold; HOME=$PWD; name=.apptainer/instances/app/$(uname -n)/$(id -un)/sharens_instance_
    mkdir -p "$name$$" "${name}other"; echo 1 >"/dev/shm/sharens_instance_$$"
    bash -p -c "$1" "$PWD" clean_env.sh mpirun hold cat holder | sed "s/^[0-9]* $$/- -/"
    ls -d "$name"* /dev/shm/sharens_instance_$$
    """
    said = node.sh(f"cd {node.path}\n{script}\n:", kit.spoken(kit.INTO)).decode().splitlines()
    assert [line.rsplit("/", 1)[-1] for line in said] == ["- -", "sharens_instance_other"]


@pytest.mark.parametrize(
    ("image", "environ", "speaks"),
    [
        ("mpirun (Open MPI) 5.0.7", {"PMIX_RANK": "0"}, ""),
        ("mpirun (Open MPI) 5.0.7", {"PMI_RANK": "0"}, "Open MPI, which needs PMIx"),
        ("HYDRA build details:", {"PMI_RANK": "0"}, ""),
        ("HYDRA build details:", {"PMIX_RANK": "0"}, "MPICH or its kin, which needs PMI"),
        ("Intel(R) MPI Library", {"PMIX_RANK": "0"}, "MPICH or its kin, which needs PMI"),
        ("MVAPICH2 Version 2.3.7", {"PMIX_RANK": "0"}, "MPICH or its kin, which needs PMI"),
        ("something else", {"PMIX_RANK": "0"}, ""),
    ],
)
def test_an_image_that_does_not_suit_the_starter(
    node: Node, tmp_path: Path, decoys: Decoys, image: str, environ: dict[str, str], speaks: str
) -> None:
    """Rank 0 says so before every rank takes itself for 0 of 1."""
    node.fill(1, mode="outside-in", launcher="srun")
    mpirun = tmp_path / "image/mpirun"
    mpirun.parent.mkdir()
    mpirun.write_text(f"#!/bin/sh\necho '{image}'\n")
    mpirun.chmod(0o700)
    environ = {**environ, "PATH": f"{mpirun.parent}:{decoys.without}"}
    node.run("rank.sh", "true", environ=environ, code=1 if speaks else 0)
    assert node.said.startswith(f"fail the image has {speaks}, and srun --mpi=pmix does not" if speaks else "ended 0 0")


@pytest.mark.parametrize(("rank", "watched"), [("0", False), ("1", True)])
def test_a_rank_that_takes_itself_for_the_only_one_leaves_a_trace(node: Node, rank: str, watched: bool) -> None:
    """Open MPI writes the file as rank 0 alone, so that any other's tells; a user's own use of it goes before."""
    node.fill(1, script="job.sh")
    show = 'echo "${OMPI_MCA_mpi_show_mca_params-} ${OMPI_MCA_mpi_show_mca_params_file-}"'
    environ = {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": "2"}
    said = node.run("rank.sh", "sh", "-c", show, environ=environ).decode().strip()
    assert said == (f"api {node.path}/alone.1" if watched else "")
    own = {**environ, "OMPI_MCA_mpi_show_mca_params": "all"}
    assert node.run("rank.sh", "sh", "-c", show, environ=own).decode().strip() == "all"


def test_a_box_drops_what_leaks_and_marks_what_it_starts(node: Node) -> None:
    """The rules of this context; the job's mark; a TMPDIR of its own; its session noted for the guard."""
    node.fill(1)
    (node.path / "sessions").write_text("")
    leaks = {"SLURM_NTASKS": "8", "LD_PRELOAD": "", "PMIX_RANK": "1", "BASH_FUNC_ml%%": "() { :; }", "TMPDIR": "/x"}
    kept = {"CUDA_VISIBLE_DEVICES": "0,1", "ODD": "two\nlines=SLURM_X"}
    found = node.run("clean_env.sh", "inside", "tmp", "env", "-0", shell="bash", environ={**leaks, **kept})
    arrived = dict(pair.decode().split("=", 1) for pair in found.split(b"\0")[:-1])
    assert {name: arrived[name] for name in kept} == kept
    assert (arrived["MNRUN_JOB_ID"], arrived["TMPDIR"]) == ("7-abcdef", f"{node.path}/tmp")
    assert (set(leaks) - {"TMPDIR"}) & set(arrived) == set()
    session = os.getsid(0)  # 0 where its leader is outside of this container: then nothing is noted
    began = session and Path(f"/proc/{session}/stat").read_text().rpartition(") ")[2].split()[19]
    assert (node.path / "sessions").read_text() == (f"{session} {began}\n" if session else "\n")


def test_a_box_names_no_session_that_a_whole_container_has(sh: Shell) -> None:
    """A container's shell whose session began outside of it: what is noted would be everything in there."""
    line = """unshare ${1:+-Ur} -pf --mount-proc true 2>/dev/null || { echo no; exit; }
    exec unshare ${1:+-Ur} -pf --mount-proc bash -c '. "$0" && session && echo "[$REPLY]"' "$2\""""
    found = sh(line, "user" if os.getuid() else "", str(wrappers()["processes.sh"]))
    if found == b"no\n":
        pytest.skip("no namespaces are to be had here")
    assert found == b"[]\n"


@pytest.mark.parametrize(
    ("context", "root", "own", "gds"),
    [
        ("srun", "/jobs/7/.7/_tmp", "", "hash"),
        ("srun-bare", "/jobs/7/.7", "", "hash"),
        ("srun", "/jobs/7/.7/_tmp", "shmem", "shmem"),
        ("srun", "/", "", ""),
        ("mpirun", "/jobs/7/.7/_tmp", "", ""),
    ],
)
def test_ranks_of_srun_in_a_tmp_of_the_jobs_own(node: Node, context: str, root: str, own: str, gds: str) -> None:
    """They do not see what srun's PMIx shares there, and are told to do without; unless somebody has said how."""
    node.fill(1)
    (node.path / "sessions").write_text("")
    (node.path / "mounts").write_text(f"94 78 0:201 {root} /tmp rw,relatime - tmpfs run rw\n")
    box = node.path / "clean_env.sh"
    box.write_text(box.read_text().replace("/proc/self/mountinfo", str(node.path / "mounts")))
    environ = {"SLURM_JOB_ID": "7", **({"PMIX_MCA_gds": own} if own else {})}
    said = node.run("clean_env.sh", context, "tmp", "sh", "-c", "echo ${PMIX_MCA_gds-}", shell="bash", environ=environ)
    assert said.decode().strip() == gds


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("bind", "visible", "wanted"),
    [
        ("per_task:1", None, "1"),
        ("per_task:2", None, ""),
        ("single:2", None, "0"),
        ("per_task:1", "GPU-00,GPU-11", "GPU-11"),
    ],
)
def test_a_rank_gets_its_gpus(node: Node, shell: str, bind: str, visible: str | None, wanted: str) -> None:
    """Without a scheduler nobody has numbered them: they are those of the node's driver, here three."""
    node.fill(2, launcher="env", gpu_bind=bind)
    for gpu in range(3):
        (node.path / f"driver/nvidia/gpus/0000:0{gpu}:00.0").mkdir(parents=True)
    environ = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "mnrun_proc": str(node.path)}
    if visible is not None:
        environ["CUDA_VISIBLE_DEVICES"] = visible
    words = ("rank.sh", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    said = node.run(*words, shell=shell, environ=environ, code=0 if wanted else 1).decode().strip()
    assert said == wanted
    assert ("rank 1 gets no GPU" in node.said) is (not wanted)


GPUS = ("clean_env.sh", "inside", "tmp", "./gpus.sh")


def test_without_a_driver_no_word_of_it(node: Node) -> None:
    """--nv only where an NVIDIA driver is; what Slurm granted goes along by itself."""
    node.fill(1)
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this machine has a driver")
    assert (
        node.run("clean_env.sh", "inside", "tmp", "./gpus.sh", "sh", "-c", 'echo "${APPTAINER_NV-none}"', shell="bash")
        == b"none\n"
    )


def test_gpus_that_are_hidden(node: Node) -> None:
    """Whatever the user's own settings of the runtime say."""
    node.fill(1, no_gpu=True)
    said = node.run(*GPUS, "sh", "-c", 'echo "${APPTAINER_NV-none} $APPTAINER_NO_NV"', shell="bash",
                    environ={"APPTAINER_NV": "1"})  # fmt: skip
    assert said == b"none 1\n"


@pytest.mark.parametrize(
    ("bind", "local", "seen"),
    [
        *(("per_task:1", "0", "4"), ("per_task:1", "3", "7"), ("per_task:2", "1", "6,7"), ("none", "1", "4,5,6,7")),
        *(("single:2", "1", "4"), ("single:2", "2", "5"), ("single:1", "5", "5")),
    ],
)
def test_the_gpus_of_a_rank(node: Node, bind: str, local: str, seen: str) -> None:
    """Those that the scheduler granted on its node, in turn."""
    node.fill(8, gpu_bind=bind)
    (node.path / "stdin").touch()
    environ = {"OMPI_COMM_WORLD_LOCAL_RANK": local, "CUDA_VISIBLE_DEVICES": "4,5,6,7"}
    assert node.run("rank.sh", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", environ=environ).decode() == f"{seen}\n"


@pytest.mark.parametrize(("granted", "count"), [("", "0 GPUs"), ("0", "1 GPU")])
def test_more_ranks_than_gpus(node: Node, granted: str, count: str) -> None:
    """The rank that has none says so, and does not run without."""
    node.fill(2, gpu_bind="per_task:1")
    (node.path / "stdin").touch()
    environ = {"OMPI_COMM_WORLD_RANK": "1", "MPI_LOCALRANKID": "1", "CUDA_VISIBLE_DEVICES": granted}
    node.run("rank.sh", "true", environ=environ, code=1)
    assert f"fail --gpu-bind per_task:1: rank 1 gets no GPU, since its node has {count}" in node.said.splitlines()


def test_the_head_takes_standard_input_around_mpirun(node: Node) -> None:
    """The program of the step reads nothing; the node's pipe gets every byte."""
    node.fill(1, 1, runtime="podman")
    words = ("sh", "-c", "cat; cat ./stdin")
    said = node.run("head.sh", *words, before=f"cd {node.path}; mkfifo stdin\n", shell="bash", stdin=b"a\0b")
    assert said == b"a\0b"


def test_the_master_waits_for_go_and_finds_everything(node: Node, tmp_path: Path) -> None:
    """In the environment of the launch, where the job begins."""
    node.fill(1, 1, runtime="podman", launch="export FOUND=hosts\n", chdir=str(tmp_path))
    before = f"cd {node.path}; mkfifo go; exec 9<>go; (sleep 0.1; echo go >&9) &\n"
    assert node.run("wait_go.sh", "sh", "-c", "echo $FOUND; pwd", before=before).decode() == f"hosts\n{tmp_path}\n"


def test_a_script_that_is_not_there_is_one_line(node: Node) -> None:
    """It names no file of mnrun's."""
    node.fill(1, 1, runtime="podman")
    before = f"exec 2>&1; cd {node.path}; mkfifo go; exec 9<>go; echo go >&9\n"
    assert node.run("wait_go.sh", "/usr/bin/srun.none", "x", before=before, code=127) == (
        b"sh: /usr/bin/srun.none: not found\n"
    )


def test_the_master_ends_with_its_job(node: Node) -> None:
    """Where the guard that holds `go` ends before it was said, nothing starts."""
    node.fill(1, 1, runtime="podman")
    before = f"cd {node.path}; mkfifo go; (exec 9>go) &\n"
    assert node.run("wait_go.sh", "echo", "started", before=before, code=1) == b""


def test_the_heads_container_is_the_one_of_its_node(node: Node) -> None:
    """Other nodes reach it as any other. Its program has the output and the errors of the step."""
    node.fill(1, 1, connect="pipe")
    before = f"cd {node.path}; mkfifo go asks; exec 5<>go 6<>asks 8>&1 9>&1 >log 2>&1; echo go >&5\n"
    script = "echo out; echo errors >&2; [ ! -e /proc/self/fd/8 ] && [ ! -e /proc/self/fd/9 ] || echo open"
    script += "; until grep -q ready up; do :; done; read pid rest <pid.serve; kill -KILL $pid"
    script = f"{script.replace('up;', f'{node.path}/up;').replace('<pid', f'<{node.path}/pid')}"
    assert node.run("wait_go.sh", "sh", "-c", script, before=before).decode() == "out\nerrors\n"
    assert node.said == "ready\n"
    assert (node.path / "log").read_text() == ""
    assert "export PATH=" in (node.path / "session.env").read_text()


@pytest.mark.parametrize(
    ("container", "said"),
    [
        ("echo help; echo FATAL: no >&2; exit 255", "log FATAL: no\ngone 255\n"),
        ("exec 2>&9; : >pid.serve; echo program >&2; exit 7", ""),
    ],
)
def test_a_heads_container_that_cannot_start(node: Node, container: str, said: str) -> None:
    """The runtime's words are its node's reason. The errors of a program that has begun are the user's."""
    node.fill(1, 1)
    code = int(container.split()[-1])
    before = f"cd {node.path}; mkfifo stdin; exec 7<>stdin 2>&1\n"
    shown = node.run("head.sh", "sh", "-c", container, before=before, shell="bash", stdin=b"", code=code)
    assert (node.said, shown) == (said, b"" if said else b"program\n")


@pytest.mark.parametrize("name", ["mpirun", "mpiexec", "prterun"])
def test_plain_mpirun_inside_is_the_images_own(node: Node, tmp_path: Path, name: str) -> None:
    """Found past ours, with its words, and without the scheduler's variables; ours stays first on PATH."""
    node.fill(1)
    image = tmp_path / "image"
    image.mkdir()
    (image / name).write_text('#!/bin/sh\nprintf "<%s>" "$@"; echo "$PATH"; env | grep -cE "^(SLURM_|PMI)" || true\n')
    (image / name).chmod(0o700)
    path = f"{node.path}/bin:{image}:{os.environ['PATH']}"
    environ = {"PATH": path, "SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "PMIX_RANK": "0", "PMI_FD": "3"}
    assert node.run(f"bin/{name}", "-n", "2", "./a b", environ=environ).decode() == f"<-n><2><./a b>{path}\n0\n"


def test_an_image_without_mpirun_says_so(node: Node) -> None:
    """At once, with the PATH that was searched."""
    node.fill(1)
    environ = {"PATH": f"{node.path}/bin:/bin"}
    node.run("bin/prterun", environ=environ, code=127)
    assert node.said.startswith("fail the image has no prterun on its PATH (/bin): ")


def programs(folder: Path, **said: str) -> Path:
    """Programs that say so, by their names."""
    folder.mkdir()
    for name, text in said.items():
        place = folder / name.replace("mpiexec_hydra", "mpiexec.hydra")
        place.write_text(f"#!/bin/sh\necho '{text}' \"$@\"\n")
        place.chmod(0o700)
    return folder


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("asked", "said"),
    [("openmpi", "(Open MPI) 5.0.7 -n 2\n"), ("mpich", "hydra -n 2\n"), ("auto", "(Open MPI) 5.0.7 -n 2\n")],
)
def test_of_two_mpis_the_one_that_was_asked_for(
    node: Node, tmp_path: Path, decoys: Decoys, asked: str, said: str, shell: str
) -> None:
    """--mpi, else the first on PATH."""
    node.fill(1, mpi=asked)
    path = programs(tmp_path / "image", mpirun="(Open MPI) 5.0.7", mpiexec_hydra="hydra")
    ran = node.run("bin/mpirun", "-n", "2", environ={"PATH": f"{node.path}/bin:{path}:{decoys.without}"}, shell=shell)
    assert ran.decode() == said


def test_an_mpi_that_the_image_has_not_is_refused_with_those_that_it_has(
    node: Node, tmp_path: Path, decoys: Decoys
) -> None:
    node.fill(1, mpi="intelmpi")
    path = programs(tmp_path / "image", mpirun="(Open MPI) 5.0.7", mpiexec_hydra="hydra")
    node.run("bin/mpirun", environ={"PATH": f"{node.path}/bin:{path}:{decoys.without}"}, code=127)
    assert node.said.startswith("fail --mpi intelmpi: the image has openmpi ")
    assert f", mpich {tmp_path}/image/mpiexec.hydra" in node.said


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("beside", "kind"), [("", "mpich"), ("mpiname", "mvapich2"), ("impi_info", "intelmpi"), ("mpitune", "intelmpi")]
)
def test_hydras_are_known_by_what_is_beside_them(sh: Shell, tmp_path: Path, beside: str, kind: str, shell: str) -> None:
    """MPICH, MVAPICH2 and Intel MPI all bring one."""
    programs(tmp_path / "bin", mpiexec_hydra="", **({beside: ""} if beside else {}))
    words = (str(wrappers()["mpis.sh"]), f"{tmp_path}/bin/mpiexec.hydra")
    said = sh('. "$1"; mpi_of "$2"', *words, shell=shell)
    assert said.decode() == f"{kind}\n"


def test_ssh_inside_is_the_images_own_with_the_jobs_configuration(node: Node, tmp_path: Path) -> None:
    """Never ~/.ssh; every other word is the caller's."""
    node.fill(1)
    image = tmp_path / "image"
    image.mkdir()
    (image / "ssh").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    (image / "ssh").chmod(0o700)
    environ = {"PATH": f"{node.path}/bin:{image}:{os.environ['PATH']}"}
    said = node.run("bin/ssh", "-x", "node02", "echo 'a b'", environ=environ).decode()
    assert said == f"<-F><{node.path}/ssh_config><-x><node02><echo 'a b'>"


def test_what_ssh_runs_on_a_node_begins_where_the_job_does(node: Node, tmp_path: Path) -> None:
    """With the container's own environment, and the job's above it."""
    node.fill(1, env=("B=job",), chdir=str(tmp_path))
    (node.path / "session.env").write_text("export A='container'\nexport B='container'\n")
    environ = {"SSH_ORIGINAL_COMMAND": 'echo "$A $B"; pwd; exit 5'}
    said = node.run("session.sh", environ=environ, code=5).decode()
    assert said == f"container job\n{tmp_path}\n"


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("LD_LIBRARY_PATH=/usr/lib;export LD_LIBRARY_PATH;/usr/bin/prted --prtemca ess", False),
        ("( PATH=/x; export PATH ; orted -mca ess env", False),
        ("prted --tree-spawn", False),
        ("/opt/openmpi/bin/orted -mca ess env", False),
        ("./sorted -n", True),
        ("run aborted --now; echo imported", True),
    ],
)
def test_only_daemons_lose_the_networks(node: Node, command: str, kept: bool) -> None:
    """B11: theirs are said by their mpirun; a user's program may have such a name within its own."""
    node.fill(1, env=("PRTE_MCA_prte_if_include=eth0",))
    (node.path / "session.env").write_text("")
    path = programs(node.path / "image", sh="")
    (node.path / "image/sh").write_text('#!/bin/bash\necho "$PRTE_MCA_prte_if_include"\n')
    environ = {"SSH_ORIGINAL_COMMAND": command, "PATH": path}
    said = node.run("session.sh", shell="/bin/sh", environ=environ).decode()
    assert said == ("eth0\n" if kept else "\n")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("before", ["unset HOME", "HOME=", "HOME=/elsewhere"])
def test_a_home_where_nobody_has_set_one(sh: Shell, shell: str, before: str) -> None:
    """B11: as a login would set it, also under `set -u`; one that is set stays."""
    said = sh(f'set -eu; {before}; . "$1"; exec env', str(wrappers()["home.sh"]), shell=shell).decode()
    own = "/elsewhere" if "elsewhere" in before else pwd.getpwuid(os.getuid()).pw_dir
    assert f"HOME={own}" in said.splitlines()


def test_everybody_is_somebody_in_the_container(node: Node) -> None:
    """root, nobody and the user with /bin/sh: sshd refuses a shell that the image lacks."""
    node.fill(1)
    script = f"cd {node.path}; set -euo pipefail; source ./names.sh; source ./users.sh; users"
    node.sh(script, shell="bash", environ={"HOME": "/home/alice"})
    entries = [line.split(":") for line in (node.path / "etc.passwd").read_text().splitlines()]
    assert [entry[0] for entry in entries[:2]] == ["root", "nobody"]
    assert entries[2][2:4] == [str(os.getuid()), str(os.getgid())]
    assert entries[2][5:] == ["/home/alice", "/bin/sh"]
    groups = {line.split(":")[2] for line in (node.path / "etc.group").read_text().splitlines()}
    assert {str(os.getgid()), "0", "65534"} <= groups


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("exit 0", 0, ""),
        ("exit 9", 9, ""),
        ("kill -SEGV $$", 139, ""),
        ("kill -TERM $$", 143, ""),
        ("kill -TERM $PPID $$", 143, " told"),
    ],
)
def test_a_rank_of_srun_tells_how_it_ended(node: Node, command: str, code: int, told: str, shell: str) -> None:
    """Whichever signal both were sent, and without a word of the shell's own; a TERM to both is srun's."""
    node.fill(1, mode="outside-in", launcher="srun", force=True)
    environ = {"PMIX_RANK": "5", "SLURM_NTASKS": "8"}
    script = f"{WHO}; echo said >&2; {command}"
    said = node.run("rank.sh", "sh", "-c", script, before="exec 2>&1\n", shell=shell, environ=environ, code=code)
    noted = (node.path / "pid.5").read_text().split()
    assert said.decode() == f"{' '.join(noted)}\nsaid\n"
    assert node.said == f"ended 5 {code}{told}\n"


def test_a_word_that_comes_in_parts_is_heard_whole(sh: Shell) -> None:
    """However long a busy machine takes over it: the beat, which comes between, takes none of it away."""
    text = wrapper("guard.sh")
    forward = text[text.index("forward() {") :].partition("\n}\n")[0]
    script = f"""deaf() {{ :; }}; network() {{ :; }}; user_name() {{ :; }}; mnrun_node=n1 mnrun_beat=0.1
{forward}
}}
mkfifo up; exec {{mnrun_up}}<>up; forward >said &
printf 'ra' >&"$mnrun_up"; until grep -q alive said; do :; done
printf 'nk 3 8\nbye \n' >&"$mnrun_up"; wait; cat said"""
    said = sh(script, shell="bash").decode().splitlines()
    assert [line for line in said if line != "alive n1 "] == ["rank n1 3 8", "bye n1 "]


def test_facts_come_many_to_a_line(sh: Shell) -> None:
    """B3: each was a line of its own, of which a large job has hundreds of thousands. None is longer than what srun
    keeps together (pipe_frames.sh), and none is lost."""
    text = wrapper("guard.sh")
    network = text[text.index("network() {") :].partition("\n}\n")[0]
    facts = [f"gid mlx5_{number % 8} port=1 index={number} gid={'x' * (number % 60)}" for number in range(150)]
    script = f"""mnrun_node=n1
{network}
}}
printf '%s\\n' "$@" >facts; echo 'cat facts' >network_facts.sh; network"""
    said = sh(script, *facts, shell="bash").decode().splitlines()
    assert max(map(len, said)) < 1024
    assert len(said) < 12
    assert "\t".join(line.removeprefix("fact n1 ") for line in said).split("\t") == facts
