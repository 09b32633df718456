"""The wrappers around a container runtime (wrappers/container/): environment, GPUs, the container that ranks share."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from mnrun.files import wrappers
from mnrun.nodes import kit
from unit.conftest import ADVERB, Shell
from unit.wrappers.node import Node, executable, programs


def test_a_rank_waits_for_the_container_that_its_node_s_ranks_share(node: Node) -> None:
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
    node.fill(2, mode="outside-in", launcher="srun")
    script = """
    source ./processes.sh; set -- --join-pid=x; echo x >held; echo 41 42 >holder; source ./join_container.sh
    printf '%s\\0' same=1 PATH=/host gone=1 PWD=/ 'two=a
    b' APPTAINER_BIND= >hold.env
    env -i same=1 PATH=/image 'two=a
    b' "its=it's
    new" APPTAINER_BIND=/tmp APPTAINER_NAME=x /usr/bin/sleep 60 & pid=$!
    until grep -qs APPTAINER_NAME=x /proc/$pid/environ; do sleep 0.01; done # an exec gives it after the new name
    changes $pid; kill $pid
    printf %s "$mnrun_changes"; gone=1; eval "$mnrun_changes"; echo "<$its$PATH${gone-}>"
    """
    said = node.sh(f"cd {node.path}; mnrun_runtime=apptainer\n{script}", shell="bash").decode().splitlines()
    exports = ["export APPTAINER_NAME='x'", "export PATH='/image'", "export its='it'\\''s"]
    assert sorted(line.strip() for line in said) == sorted([*exports, "new'", "unset gone", "<it's", "new/image>"])


def test_each_rank_has_a_file_of_the_image_s_variables(node: Node) -> None:
    """ch-run of one rank may read it while another rank begins. The program's /tmp has none of them."""
    node.fill(2, mode="outside-in", launcher="srun", runtime="charliecloud", image="/app.sqfs")
    executable(node.path / "bin/ch-run", 'echo "$*"')
    executable(node.path / "bin/unsquashfs", "echo A=1")
    script = 'cd "$1"; PATH=$1/bin:$PATH; : >app.sqfs; for rank in 0 1; do ADVERB ./ch-run.sh ch-run app.sqfs --; done'
    environ = {"TMPDIR": str(node.path / "tmp")}
    said = node.sh(script.replace("ADVERB", ADVERB), str(node.path), environ=environ).decode().split()
    files = {word.partition("=")[2] for word in said if word.startswith("--set-env=/")}
    assert len(files) == 2 and {Path(file).read_text() for file in files} == {"A=1\n"}


def test_a_home_that_the_node_lacks(node: Node) -> None:
    node.fill(1, mode="outside-in", launcher="srun", image="/app.sif")
    home = "/home/nobody/none"
    job = node.path / "job.sh"
    job.write_text(re.sub("^mnrun_home=.*$", f"mnrun_home={home}", job.read_text(), flags=re.MULTILINE))
    words = f"--bind {home}:{home} --bind /a:/b image x --bind {home}:{home} --bind"
    said = node.sh(f"cd {node.path}; {ADVERB} ./gpus.sh echo {words}", shell="bash").decode()
    assert said == f"--bind /a:/b image x --bind {home}:{home} --bind\n"


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
    """Apptainer names it by its parent, and a node that lost its power has the numbers again; others' names stay.

    A record from before the node's start goes unless its process lives. A later one stays: that process may not be to
    be seen.
    """
    node.fill(2, mode="outside-in", launcher="srun", force=True)
    script = """
    mkdir hold; HOME=$PWD; name=.apptainer/instances/app/$(uname -n)/$(id -un)/sharens_instance_
    mkdir -p "$name$$" "${name}other"; echo 1 >"/dev/shm/sharens_instance_$$"
    mkdir "${name}999999998" "${name}999999999" "${name}1"; touch -d @0 "${name}other" "${name}999999999" "${name}1"
    bash -p -c "$1" "$PWD" clean_env.sh mpirun hold cat "$PWD/holder" | sed "s/^[0-9]* $$/- -/"
    ls -d "$name"* /dev/shm/sharens_instance_$$
    """
    said = node.sh(f"cd {node.path}\n{script}\n:", kit.spoken(kit.INTO)).decode().splitlines()
    assert [line.rsplit("/", 1)[-1] for line in said] == [
        "- -",
        *(f"sharens_instance_{kept}" for kept in ("1", "999999998", "other")),
    ]


def test_a_box_drops_what_leaks_and_marks_what_it_starts(node: Node) -> None:
    node.fill(1)
    (node.path / "sessions").write_text("")
    leaks = {"SLURM_NTASKS": "8", "LD_PRELOAD": "", "PMIX_RANK": "1", "BASH_FUNC_ml%%": "() { :; }", "TMPDIR": "/x"}
    leaks.update(UID="7", EUID="7", SHELLOPTS="hashall", BASHOPTS="cmdhist")  # which end an image's bash
    kept = {"CUDA_VISIBLE_DEVICES": "0,1", "ODD": "two\nlines=SLURM_X"}
    found = node.run("clean_env.sh", "inside", "tmp", "env", "-0", shell="bash", environ={**leaks, **kept})
    arrived = dict(pair.decode().split("=", 1) for pair in found.split(b"\0")[:-1])
    assert {name: arrived[name] for name in kept} == kept
    assert (arrived["MNRUN_JOB_ID"], arrived["TMPDIR"]) == ("7-abcdef", f"{node.path}/box/tmp")
    assert (set(leaks) - {"TMPDIR"}) & set(arrived) == set()
    session = os.getsid(0)  # 0 where its leader is outside of this container: then nothing is noted
    began = session and Path(f"/proc/{session}/stat").read_text().rpartition(") ")[2].split()[19]
    assert (node.path / "sessions").read_text() == (f"{session} {began}\n" if session else "\n")


@pytest.mark.parametrize("given", [":{}", "{}:", ":{}:::/none:", "{}"])
def test_a_runtime_finds_nothing_by_its_working_directory(node: Node, given: str) -> None:
    """(S1) Whoever the directory of that name belongs to on this node."""
    node.fill(1)
    environ = {"PATH": given.format(os.environ["PATH"])}
    found = node.run("clean_env.sh", "srun", "tmp", "env", "-0", shell="bash", environ=environ)
    arrived = dict(pair.decode().split("=", 1) for pair in found.split(b"\0")[:-1])
    left = [part for part in environ["PATH"].split(":") if part]
    assert arrived["PATH"].split(":")[-len(left) :] == left and "" not in arrived["PATH"].split(":")


POSIX = {"POSIXLY_CORRECT": "1"}  # which bash follows, too


def test_a_box_keeps_a_variable_that_bash_follows(node: Node) -> None:
    node.fill(1)
    (node.path / "look.sh").write_text("[[ ! -o posix ]] || echo posix\n")
    words = ("clean_env.sh", "inside", "tmp", "./look.sh", "sh", "-c", 'echo "$POSIXLY_CORRECT"')
    assert node.run(*words, shell="bash", environ=POSIX) == b"1\n"


def test_an_engine_gets_a_variable_that_bash_follows(node: Node, tmp_path: Path) -> None:
    node.fill(1, runtime="podman")
    path = f"{programs(tmp_path / 'bin', podman='')}:{os.environ['PATH']}"
    words = ("clean_env.sh", "inside", "tmp", "./engine.sh", "podman", "run", "app")
    assert b" -e POSIXLY_CORRECT " in node.run(*words, shell="bash", environ={**POSIX, "PATH": path})


def test_a_signal_does_not_end_a_head_in_posix_mode(node: Node) -> None:
    node.fill(1, 1, runtime="podman")
    before = f"cd {node.path}; mkfifo stdin; exec 7<>stdin; export head=$$\n"
    program = 'kill -s USR1 "$head"; sleep 0.3; echo "$POSIXLY_CORRECT"; exit 3'
    said = node.run("head.sh", "sh", "-c", program, before=before, shell="bash", environ=POSIX, code=3)
    assert said == b"1\n"


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
    node.fill(1, mode="outside-in", launcher=context.partition("-")[0])
    (node.path / "sessions").write_text("")
    (node.path / "mounts").write_text(f"94 78 0:201 {root} /tmp rw,relatime - tmpfs run rw\n")
    for box in node.path.glob("step.sh"):
        box.write_text(box.read_text().replace("/proc/self/mountinfo", str(node.path / "mounts")))
    environ = {"SLURM_JOB_ID": "7", **({"PMIX_MCA_gds": own} if own else {})}
    said = node.run("clean_env.sh", context, "tmp", "sh", "-c", "echo ${PMIX_MCA_gds-}", shell="bash", environ=environ)
    assert said.decode().strip() == gds


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
    node.fill(1, no_gpu=True)
    said = node.run(*GPUS, "sh", "-c", 'echo "${APPTAINER_NV-none} $APPTAINER_NO_NV"', shell="bash",
                    environ={"APPTAINER_NV": "1"})  # fmt: skip
    assert said == b"none 1\n"


def test_the_head_takes_standard_input_around_mpirun(node: Node) -> None:
    node.fill(1, 1, runtime="podman")
    words = ("sh", "-c", "cat; cat ./stdin")
    said = node.run("head.sh", *words, before=f"cd {node.path}; mkfifo stdin\n", shell="bash", stdin=b"a\0b")
    assert said == b"a\0b"


@pytest.mark.parametrize(
    ("container", "said"),
    [
        ("echo help; echo FATAL: no >&2; exit 255", "log FATAL: no\ngone 255\n"),
        ("exec 2>&9; : >pid.serve; echo program >&2; exit 7", ""),
    ],
)
def test_a_heads_container_that_cannot_start(node: Node, container: str, said: str) -> None:
    node.fill(1, 1)
    code = int(container.split()[-1])
    before = f"cd {node.path}; mkfifo stdin; exec 7<>stdin 2>&1\n"
    shown = node.run("head.sh", "sh", "-c", container, before=before, shell="bash", stdin=b"", code=code)
    assert (node.said, shown) == (said, b"" if said else b"program\n")
