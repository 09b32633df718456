"""The wrappers in the container of a node that waits for mpirun (wrappers/inside/, ssh/ and lib/)."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

import pytest

from mnrun.files import wrappers
from mnrun.schedulers.slurm import wording
from unit.conftest import Shell
from unit.decoys import Decoys
from unit.texts import Says
from unit.wrappers.node import Node, executable, path_of, programs


def test_ssh_and_mpirun_are_the_images(node: Node) -> None:
    node.fill(1, 1, connect="ssh")
    script = """
    mkdir a b; printf '#!/bin/sh\\necho "${0##*/} $PATH"\\n' | tee b/mpirun >b/ssh; chmod 700 b/*
    PATH=$PWD/a:$PWD/bin:$PWD/b:$PWD/bin:$PATH; ssh node02; mpirun ./app
    """
    ssh, mpirun = node.sh(f"cd {node.path}\n{script}").decode().splitlines()
    assert ssh.startswith(f"ssh {node.path}/a:{node.path}/b:/")
    assert mpirun.startswith(f"mpirun {node.path}/bin:{node.path}/a:{node.path}/b:/")


def test_the_master_waits_for_go_and_finds_everything(node: Node, tmp_path: Path) -> None:
    node.fill(1, 1, runtime="podman", launch="export FOUND=hosts\n", chdir=str(tmp_path))
    before = f"cd {node.path}; mkfifo go; exec 9<>go; (sleep 0.1; echo go >&9) &\n"
    assert node.run("wait_go.sh", "sh", "-c", "echo $FOUND; pwd", before=before).decode() == f"hosts\n{tmp_path}\n"


@pytest.mark.parametrize("path", [":{}", "{}:", "/none::{}"])
def test_the_hosts_mpirun_is_none_of_the_working_directory(node: Node, tmp_path: Path, path: str) -> None:
    """An empty element of PATH means that directory, in which another user may have put programs (F5)."""
    begin = tmp_path / "theirs"
    programs(begin, mpirun="theirs", id="theirs")
    node.fill(2, 2, mode="outside-in", launcher="mpirun", force=True, chdir=str(begin))
    before = f"cd {node.path}; mkfifo go; (echo go >go) & cd - >/dev/null\n"
    own = programs(tmp_path / "own", mpirun="host")
    environ = {"PATH": path.format(f"{own}:{os.environ['PATH']}"), "LD_LIBRARY_PATH": ":/none"}
    said = node.run("wait_go.sh", "mpirun", "./app", before=before, environ=environ)
    assert said.decode() == "host ./app\n"


@pytest.mark.parametrize(
    ("given", "left"), [("", ""), (":", ""), ("/a", "/a"), (":/a", "/a"), ("/a::/b b:", "/a:/b b"), (":::/a", "/a")]
)
def test_lists_of_directories_lose_their_empty_elements(sh: Shell, given: str, left: str, shell: str) -> None:
    script = 'set -eu; . "$1"; mnrun_search; exec env'
    environ = {"LD_LIBRARY_PATH": given, "PATH": f"{given}:{os.environ['PATH']}:"}
    said = sh(script, str(wrappers()["search.sh"]), environ=environ, shell=shell).decode().splitlines()
    assert {f"LD_LIBRARY_PATH={left}", f"PATH={left}{':' if left else ''}{os.environ['PATH']}"} <= set(said)


def test_variables_that_bash_cannot_read_back(node: Node, shell: str) -> None:
    node.fill(1, 1, connect="pipe")
    environ = {"UID": "5", "PPID": "7", "SHELLOPTS": "posix", "KEPT": "here"}
    node.run("worker.sh", environ=environ, shell=shell)
    line = f"exec {shell.replace('bash', 'bash --posix')} {node.path}/session.sh"
    said = node.sh(line, environ={"SSH_ORIGINAL_COMMAND": "echo $KEPT"})
    assert said.decode() == "here\n"


@pytest.mark.parametrize("lacks", ["base64", "cat", "dd", "grep", "mkfifo", "rm", "tr"])
def test_an_image_that_cannot_use_the_pipe(node: Node, tmp_path: Path, lacks: str, says: Says) -> None:
    """(R1) A node says so before anything starts. A single node needs none of them."""
    node.fill(1, 1, connect="pipe")
    path = path_of(tmp_path / "few", {"sh", "base64", "cat", "dd", "grep", "mkfifo", "rm", "tr"} - {lacks})
    node.run("worker.sh", environ={"PATH": path}, code=1)
    says(node.said)


def test_a_single_node_with_a_shell_alone(node: Node, tmp_path: Path) -> None:
    """(R1)"""
    node.fill(2, connect="pipe")
    node.run("worker.sh", environ={"PATH": path_of(tmp_path / "few", ["sh"])})
    assert node.said == "ready\n"


def test_a_script_that_is_not_there_is_one_line(node: Node) -> None:
    node.fill(1, 1, runtime="podman")
    before = f"exec 2>&1; cd {node.path}; mkfifo go; exec 9<>go; echo go >&9\n"
    assert node.run("wait_go.sh", "/usr/bin/srun.none", "x", before=before, code=127) == (
        b"sh: /usr/bin/srun.none: not found\n"
    )


def test_the_master_ends_with_its_job(node: Node) -> None:
    node.fill(1, 1, runtime="podman")
    before = f"cd {node.path}; mkfifo go; (exec 9>go) &\n"
    assert node.run("wait_go.sh", "echo", "started", before=before, code=1) == b""


def test_the_heads_container_is_the_one_of_its_node(node: Node) -> None:
    node.fill(1, 1, connect="pipe")
    before = f"cd {node.path}; mkfifo go asks; exec 5<>go 6<>asks 8>&1 9>&1 >log 2>&1; echo go >&5\n"
    script = "echo out; echo errors >&2; [ ! -e /proc/self/fd/8 ] && [ ! -e /proc/self/fd/9 ] || echo open"
    script += f"; exec 3<>{node.path}/up; read word pid rest <&3; read ready <&3; echo $word $ready; kill -KILL $pid"
    assert node.run("wait_go.sh", "sh", "-c", script, before=before).decode() == "out\nerrors\nserve ready\n"
    assert (node.path / "log").read_text() == ""
    assert "export PATH=" in (node.path / "session.env").read_text()


@pytest.mark.parametrize("name", ["mpirun", "mpiexec", "prterun"])
def test_plain_mpirun_inside_is_the_images_own(node: Node, tmp_path: Path, name: str, shell: str) -> None:
    node.fill(1)
    image = tmp_path / "image"
    image.mkdir()
    (image / name).write_text('#!/bin/sh\nprintf "<%s>" "$@"; echo "$PATH"; env -u KEPT | grep -E "^(SLURM_|PMI)"\n')
    (image / name).chmod(0o700)
    path = f"{node.path}/bin:{image}:{os.environ['PATH']}"
    environ = {"PATH": path, "SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "PMIX_RANK": "0", "PMI_FD": "3"}
    environ |= {"SLURM_JOB_NAME": "it's\n*\nexport SLURM_X='1'", "KEPT": "two\nSLURM_JOB_ID=8 'x'"}
    environ |= {"PMIX_MCA_gds": "hash"}  # a setting
    line = f'printf "%s" "$KEPT"; exec {shell.replace("bash", "bash --posix")} {node.path}/bin/{name} -n 2 "./a b"'
    said = node.sh(f"cd {node.path}; {line}", environ=environ).decode()
    assert said == f"{environ['KEPT']}<-n><2><./a b>{path}\nPMIX_MCA_gds=hash\n"


def test_sbatch_hands_on_nothing_of_the_job(node: Node, tmp_path: Path, shell: str) -> None:
    """("R2") The new job outlives it. It would look in directories that have gone, and take itself for a rank."""
    node.fill(1)
    seen = "env -0 | grep -zvE '^(SHLVL|OLDPWD|_)=' | LC_ALL=C sort -z | tr '\\0' '|'"
    executable(tmp_path / "image/sbatch", f'printf "<%s>" "$@"; {seen}')
    path = f"{tmp_path}/image:{os.environ['PATH']}"
    bare = {"HOME": "/h", "A": "two\nRANK=8\nTMPDIR='x'", "PMIX_MCA_gds": "hash", "SLURM_CONF": "/c", "SBATCH_QOS": "q"}
    ours = {
        "MNRUN_JOB_ID": "7-abcdef",
        "TMPDIR": f"{node.path}/tmp",
        "PMIX_RANK": "0",
        "SLURM_JOB_ID": "7",
        "RANK": "0",
    }
    ours |= {"OMPI_MCA_x_directory": f"/dev/shm/{node.path.name}", "HOROVOD_LOCAL_RANK": "0", "PET_NNODES": "1"}

    def handed_in(sbatch: str, environ: Mapping[str, str]) -> bytes:
        line = f"cd /; exec {shell.replace('bash', 'bash --posix')} {sbatch} -N2 'a b'"
        return node.sh(line, environ=environ)

    inner = {**bare, **ours, "PATH": f"{node.path}/out:{node.path}/bin:{path}"}
    outer = {**bare, "PATH": path}
    assert handed_in(f"{node.path}/out/sbatch", inner) == handed_in(f"{tmp_path}/image/sbatch", outer)


def test_srun_names_no_directory_of_the_job(node: Node, tmp_path: Path, shell: str) -> None:
    """("S1") A step's node may lack them, and another user may make them there. The step is still this job's."""
    node.fill(1)
    executable(tmp_path / "image/srun", 'printf "<%s>" "$@" "$PATH" "${TMPDIR-none}" "$MNRUN_JOB_ID" "$RANK"')
    path = f"{tmp_path}/image:{os.environ['PATH']}"
    environ = {
        "PATH": f"{node.path}/out:{node.path}/bin:{path}",
        "TMPDIR": f"{node.path}/tmp",
        "MNRUN_JOB_ID": "7-abcdef",
    }
    line = f"cd /; exec {shell.replace('bash', 'bash --posix')} {node.path}/out/srun -N2 'a b'"
    said = node.sh(line, environ={**environ, "RANK": "0"}).decode()
    assert said == f"<-N2><a b><{path}><none><7-abcdef><0>"


def daemons(node: Node, tmp_path: Path, real: str) -> str:
    """Make the node's srun `real`, and return the line by which the host's mpirun starts its daemons with it."""
    node.fill(2, 2, mode="outside-in", launcher="mpirun")
    executable(node.path / "out/srun", wording.text("daemons.sh").partition("\n")[2])
    executable(tmp_path / "real/srun", real)
    return f"PATH={node.path}/out:{tmp_path}/real:$PATH; srun --nodes=1 prted --prtemca a '\"b\"' c"


@pytest.mark.parametrize(("end", "said"), [(0, ""), (137, "srun: error: node02: task 0: Killed\n")])
def test_the_errors_of_mpiruns_daemons_are_kept(node: Node, tmp_path: Path, end: int, said: str) -> None:
    """PRRTE 3 ends with 0 where they are killed."""
    line = daemons(node, tmp_path, f'printf "<%s>" "$@" "$PATH"; cat; printf "{said}" >&2; exit {end}')
    out = node.sh(f"echo input | ({line} 2>/dev/null)", code=end).decode()
    assert out.startswith('<--nodes=1><prted><--prtemca><a><"b"><c><') and out.endswith(">input\n")
    assert f"{node.path}/out" not in out
    assert (node.path / "daemons").read_text() == said


def test_errors_of_daemons_that_mpirun_shows(node: Node, tmp_path: Path) -> None:
    """As with --debug-daemons."""
    assert node.sh(f"({daemons(node, tmp_path, 'echo error >&2; exit 5')}) 2>&1", code=5) == b"error\n"
    assert not (node.path / "daemons").exists()


@pytest.mark.parametrize(
    ("end", "said"), [("exit 5", ""), ("kill -ABRT $$", "srun: error: srun: task 0: ended with 134\n")]
)
def test_a_signal_reaches_the_srun_of_mpirun(node: Node, tmp_path: Path, end: str, said: str) -> None:
    real = f"trap '{end}' TERM; kill -TERM $PPID; while :; do sleep 0.01; done"
    node.sh(f"{daemons(node, tmp_path, real)} 2>/dev/null", code=134 if said else 5)
    assert (node.path / "daemons").read_text() == said


def test_other_lines_of_srun_are_srun(node: Node, tmp_path: Path) -> None:
    daemons(node, tmp_path, 'echo "$$ $1"; exit 3')
    said = node.sh(f"PATH={node.path}/out:{tmp_path}/real:$PATH; echo $$; exec srun --version", code=3).decode()
    first, second = said.splitlines()
    assert (second, (node.path / "daemons").exists()) == (f"{first} --version", False)


def mpirun(node: Node, real: Path, words: str, environ: Mapping[str, str], shell: str = "sh") -> str:
    """What the image's mpirun says, a link to `real`, when `mpirun WORDS` is called in the container."""
    (real.parent / "mpirun").symlink_to(real.name)
    path = f"{node.path}/bin:{real.parent}:{os.environ['PATH']}"
    line = f"cd {node.path}; exec {shell.replace('bash', 'bash --posix')} {node.path}/bin/mpirun {words}"
    return node.sh(line, environ={"PATH": path, **environ}).decode()


@pytest.mark.parametrize(
    ("starter", "words", "said"),
    [
        ("orterun", "-n 1 -x A ./a : ./b", "<-x><S=1 *><-x><T=><-n><1><-x><A><./a><:><-x><S=1 *><-x><T=><./b>none"),
        ("orterun", "-n 1 ./a", "<-n><1><./a>S=1 *;T="),
        ("prterun", "-x A ./a", "<-x><A><./a>S=1 *;T="),
        ("prterun", "./hydra a", "<./hydra><a>S=1 *;T="),
    ],
)
def test_open_mpi_4_gets_one_kind_of_list(
    node: Node, tmp_path: Path, starter: str, words: str, said: str, shell: str
) -> None:
    node.fill(1)
    executable(tmp_path / "image" / starter, 'printf "<%s>" "$@"; printf %s "${OMPI_MCA_mca_base_env_list-none}"')
    (node.path / "session.env").write_text("export CUDA_VISIBLE_DEVICES='0'\n")
    environ = {"OMPI_MCA_mca_base_env_list": "S=1 *;T=", "CUDA_VISIBLE_DEVICES": "0"}
    assert mpirun(node, tmp_path / "image" / starter, words, environ, shell) == said


def test_hydra_gets_no_words_of_open_mpi(node: Node, tmp_path: Path) -> None:
    node.fill(1)
    image = programs(tmp_path / "image", mpiexec_hydra="ran", orterun="")
    environ = {"OMPI_MCA_mca_base_env_list": "S=1"}
    assert mpirun(node, image / "mpiexec.hydra", "./app -x 3", environ) == "ran ./app -x 3\n"


def test_an_image_without_mpirun_says_so(node: Node) -> None:
    node.fill(1)
    environ = {"PATH": f"{node.path}/bin:/bin"}
    node.run("bin/prterun", environ=environ, code=127)
    assert node.said.startswith("fail the image has no prterun on its PATH (/bin): ")


@pytest.mark.parametrize(
    ("asked", "said"),
    [("openmpi", "(Open MPI) 5.0.7 -n 2\n"), ("mpich", "hydra -n 2\n"), ("auto", "(Open MPI) 5.0.7 -n 2\n")],
)
def test_of_two_mpis_the_one_that_was_asked_for(
    node: Node, tmp_path: Path, decoys: Decoys, asked: str, said: str, shell: str
) -> None:
    node.fill(1, mpi=asked)
    path = programs(tmp_path / "image", mpirun="(Open MPI) 5.0.7", mpiexec_hydra="hydra")
    ran = node.run("bin/mpirun", "-n", "2", environ={"PATH": f"{node.path}/bin:{path}:{decoys.without}"}, shell=shell)
    assert ran.decode() == said


@pytest.mark.parametrize("name", ["mpirun", "mpiexec"])
def test_an_mpi_for_modules_is_found_outside_path(
    node: Node, tmp_path: Path, decoys: Decoys, name: str, shell: str
) -> None:
    node.fill(1, launcher="auto")
    path = programs(tmp_path / "openmpi", mpiexec_hydra="hydra")
    executable(path / "mpirun", 'echo "(Open MPI) 4.1.1 $PATH" "$@"')
    environ = {"PATH": f"{node.path}/bin:{decoys.without}", "mnrun_places": f"/nowhere:{path}"}
    ran = node.run(f"bin/{name}", "-n", "1", "sh", f"{node.path}/rank.sh", "true", environ=environ, shell=shell)
    assert ran.decode() == (
        f"(Open MPI) 4.1.1 {node.path}/bin:{path}:{decoys.without} -n 1 sh {node.path}/rank.sh true\n"
    )
    assert not node.said


@pytest.mark.parametrize(
    ("words", "changed", "given"),
    [
        ("./app", "", "-genvlist {names} ./app"),
        ("-genv A=1 ./app", "", "-genvlist {names} -genv A=1 ./app"),
        ("-genvall ./app", "", "-genvall ./app"),
        ("--genvlist=A ./app", "", "--genvlist=A ./app"),
        ("./app", "CUDA_VISIBLE_DEVICES=2", "./app"),
    ],
)
def test_hydra_leaves_each_node_its_gpus(
    node: Node, tmp_path: Path, words: str, changed: str, given: str, shell: str
) -> None:
    node.fill(1)
    (node.path / "session.env").write_text("export CUDA_VISIBLE_DEVICES='0,1' A='x'\n")
    hydra = tmp_path / "image/mpiexec.hydra"
    executable(hydra, 'case $2 in *,*) list=$2; shift 2; set -- -genvlist "{names}" "$@" ;; esac\n'
        'echo "$@"; echo ",${list-}," | grep -o ",CUDA_VISIBLE_DEVICES,\\|,KEPT," || :')  # fmt: skip
    environ = {"CUDA_VISIBLE_DEVICES": "0,1", "KEPT": "a\nb", **(dict([changed.split("=")]) if changed else {})}
    said = mpirun(node, hydra, words, environ, shell).splitlines()
    assert said == [given, *([",KEPT,"] if "{names}" in given else [])]


def test_an_mpi_that_the_image_has_not_is_refused_with_those_that_it_has(
    node: Node, tmp_path: Path, decoys: Decoys
) -> None:
    node.fill(1, mpi="intelmpi")
    path = programs(tmp_path / "image", mpirun="(Open MPI) 5.0.7", mpiexec_hydra="hydra")
    node.run("bin/mpirun", environ={"PATH": f"{node.path}/bin:{path}:{decoys.without}"}, code=127)
    assert node.said.startswith("fail --mpi intelmpi: the image has openmpi ")
    assert f", mpich {tmp_path}/image/mpiexec.hydra" in node.said


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
    node.fill(1, 1, connect="ssh")
    image = tmp_path / "image"
    image.mkdir()
    (image / "ssh").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    (image / "ssh").chmod(0o700)
    environ = {"PATH": f"{node.path}/bin:{image}:{os.environ['PATH']}"}
    said = node.run("bin/ssh", "-x", "node02", "echo 'a b'", environ=environ).decode()
    assert said == f"<-F><{node.path}/ssh_config><-x><node02><echo 'a b'>"


def test_what_ssh_runs_on_a_node_begins_where_the_job_does(node: Node, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("before", ["unset HOME", "HOME=", "HOME=/elsewhere"])
def test_a_home_where_nobody_has_set_one(sh: Shell, shell: str, before: str) -> None:
    """B11: as a login would set it, also under `set -u`; one that is set stays."""
    said = sh(f'set -eu; {before}; . "$1"; exec env', str(wrappers()["home.sh"]), shell=shell).decode()
    own = "/elsewhere" if "elsewhere" in before else pwd.getpwuid(os.getuid()).pw_dir
    assert f"HOME={own}" in said.splitlines()
