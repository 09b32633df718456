"""The wrapper around each rank (wrappers/ranks/): what it sets, says and becomes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from unit.decoys import Decoys
from unit.wrappers.node import WHO, Node


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
    node.fill(1, mode="outside-in", launcher="srun", force=True)
    node.run("rank.sh", "true", environ=environ, shell=shell)
    assert node.said.startswith(said)


def test_a_rank_becomes_the_program_with_its_words_and_variables(node: Node, shell: str) -> None:
    words = ("a b", "", "$HOME", "it's", '"', "*", "--", "-n", "two\nlines", "ü\udcff")
    node.fill(1, script="job.sh", env=("V=it's $HOME\n`x`",))
    script = 'printf "%s\\0" "$V" "$@"'
    said = node.run("rank.sh", "sh", "-c", script, "x", *words, shell=shell)
    assert [os.fsdecode(word) for word in said.split(b"\0")[:-1]] == ["it's $HOME\n`x`", *words]


def test_a_rank_reads_long_words_from_a_file(node: Node, shell: str) -> None:
    """W2: a line of mpirun with all of them would be too long for a variable."""
    words = ("a b", "", "$HOME", "it's", '"', "*", "--", "-n", "two\nlines", "ü\udcff", *["/a/path"] * 5000)
    node.fill(2, launcher="mpirun", command=("sh", "-c", 'printf "%s\\0" "$@"', "x", *words))
    (node.path / "stdin").touch()
    said = node.run("rank.sh", shell=shell, environ={"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"})
    assert [os.fsdecode(word) for word in said.split(b"\0")[:-1]] == [*words]


@pytest.mark.parametrize("starter", ["mpirun", "srun"])
def test_a_variable_may_be_called_as_one_of_ours(node: Node, shell: str, starter: str) -> None:
    names = ("here", "rank", "size", "code", "image", "name", "real", "node", "word")
    node.fill(1, mode="outside-in", launcher=starter, force=True, env=tuple(f"{name}=mine {name}" for name in names))
    (node.path / "stdin").touch()
    said = node.run("rank.sh", "env", shell=shell, environ={"PMIX_RANK": "0", "SLURM_NTASKS": "1"}).decode()
    assert {f"{name}=mine {name}" for name in names} <= set(said.splitlines())


CATCHES = "import os, signal; signal.signal(10, lambda *_: print('caught')); os.kill(os.getpid(), 10)"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sh", "-c", "kill -USR1 $$; kill -USR2 $$; echo lives"), b"lives\n"),
        ((sys.executable, "-c", CATCHES), b"caught\n"),
    ],
)
def test_a_warning_does_not_end_a_rank_that_does_not_catch_it(
    node: Node, words: tuple[str, ...], said: bytes, shell: str
) -> None:
    node.fill(1, script="job.sh")
    before = f"echo \"mnrun_warnings='USR2 USR1'\" >>{node.path}/job.sh\n"
    assert node.run("rank.sh", *words, shell=shell, before=before) == said


@pytest.mark.parametrize(("launched", "begins"), [({"PRTE_LAUNCHED": "1"}, "late"), ({}, "early")])
def test_a_rank_of_open_mpi_5_waits_for_the_others(
    node: Node, launched: Mapping[str, str], begins: str, shell: str
) -> None:
    node.fill(1, env=("TMOUT=1",))
    there = node.path / "there"
    before = f"""mkfifo {there}; exec 7<>{there}
    (sleep 4; echo >>{node.path}/told; printf '\\n\\n' >&7) &
    """
    script = f"[ -e {node.path}/told ] && echo late || echo early; wait; echo $TMOUT"
    said = node.run("rank.sh", "sh", "-c", script, environ={"PMIX_RANK": "1", **launched}, shell=shell, before=before)
    assert said.decode().split() == [begins, "1"]


@pytest.mark.parametrize(
    ("words", "code"),
    [(("sh", "-c", "exit 7"), 7), (("./none",), 127), (("none-such-word",), 127), (("/etc/passwd",), 126)],
)
def test_a_ranks_code_is_the_programs_or_the_shells(node: Node, words: tuple[str, ...], code: int, shell: str) -> None:
    """126 and 127 as a shell gives them, whatever the starter would make of them."""
    node.fill(1, script="job.sh")
    node.run("rank.sh", *words, code=code, shell=shell)


def test_a_program_that_is_a_pipe(node: Node) -> None:
    """(L4) Nobody waits for a writer."""
    node.fill(1, script="job.sh")
    os.mkfifo(node.path / "pipe", 0o700)
    node.run("rank.sh", f"{node.path}/pipe", code=126)


@pytest.mark.parametrize(("launcher", "rank"), [("mpirun", "0"), ("mpirun", "1"), ("srun", "0")])
def test_a_program_that_is_not_there_is_one_line(node: Node, launcher: str, rank: str, shell: str) -> None:
    node.fill(1, mode="outside-in", launcher=launcher, force=True)
    (node.path / "stdin").touch()
    environ = {"PMIX_RANK": rank, "SLURM_LOCALID": rank, "OMPI_COMM_WORLD_LOCAL_RANK": rank}
    for program in ("/no/such program", "no-such"):
        said = node.run("rank.sh", program, before="exec 2>&1\n", code=127, environ=environ, shell=shell)
        assert said.decode() == f"sh: {program}: not found\n"
    assert (f"ended {rank} 127" in node.said) == (launcher == "srun")


@pytest.mark.parametrize(
    ("text", "word", "said", "code"),
    [
        ("#!/bin/bash\r\ntrue\r\n", "./run", "bad interpreter: its lines end in CR LF", 127),
        ("#! /no/python3 -u\nx\n", "./run", "bad interpreter: /no/python3: not found", 127),
        ("#!/bin/sh\ntrue\n", "run", "not found, but ./run is there", 127),
    ],
)
def test_a_script_that_cannot_start(node: Node, text: str, word: str, said: str, code: int, shell: str) -> None:
    """(F13) The reason, from each starter, and no path of mnrun's."""
    node.fill(1, 1, runtime="podman", chdir=str(node.path))
    (node.path / "stdin").touch()
    (node.path / "run").write_bytes(text.encode())
    (node.path / "run").chmod(0o700)
    os.mkfifo(node.path / "go")
    for wrapper in ("rank.sh", "wait_go.sh"):
        before = f"exec 2>&1; cd {node.path}; exec 9<>go; echo go >&9\n"
        assert node.run(wrapper, word, before=before, code=code, shell=shell).decode() == f"sh: {word}: {said}\n"


@pytest.mark.parametrize(("rank", "read"), [("0", b"a\0b\n"), ("1", b"")])
def test_standard_input_goes_to_rank_0_alone(node: Node, rank: str, read: bytes) -> None:
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
    node.fill(1, mode="outside-in", launcher="srun")
    mpirun = tmp_path / "image/mpirun"
    mpirun.parent.mkdir()
    mpirun.write_text(f"#!/bin/sh\necho '{image}'\n")
    mpirun.chmod(0o700)
    environ = {**environ, "PATH": f"{mpirun.parent}:{decoys.without}"}
    node.run("rank.sh", "true", environ=environ, code=1 if speaks else 0)
    assert node.said.startswith(
        f"fail the image has {speaks}, and srun --mpi=pmix does not" if speaks else "rank 0 1\nended 0 0"
    )


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


@pytest.mark.parametrize(
    ("bind", "local", "seen"),
    [
        *(("per_task:1", "0", "4"), ("per_task:1", "3", "7"), ("per_task:2", "1", "6,7"), ("none", "1", "4,5,6,7")),
        *(("single:2", "1", "4"), ("single:2", "2", "5"), ("single:1", "5", "5")),
    ],
)
def test_the_gpus_of_a_rank(node: Node, bind: str, local: str, seen: str) -> None:
    node.fill(8, gpu_bind=bind)
    (node.path / "stdin").touch()
    environ = {"OMPI_COMM_WORLD_LOCAL_RANK": local, "CUDA_VISIBLE_DEVICES": "4,5,6,7"}
    assert node.run("rank.sh", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", environ=environ).decode() == f"{seen}\n"


@pytest.mark.parametrize(("granted", "count"), [("", "0 GPUs"), ("0", "1 GPU")])
def test_more_ranks_than_gpus(node: Node, granted: str, count: str) -> None:
    node.fill(2, gpu_bind="per_task:1")
    (node.path / "stdin").touch()
    environ = {"OMPI_COMM_WORLD_RANK": "1", "MPI_LOCALRANKID": "1", "CUDA_VISIBLE_DEVICES": granted}
    node.run("rank.sh", "true", environ=environ, code=1)
    assert f"fail --gpu-bind per_task:1: rank 1 gets no GPU, since its node has {count}" in node.said.splitlines()


# A command that puts something where the output of rank 0 will be, and whether that is taken away.
PLANTS = {
    "a file of an earlier run": ("echo old >", True),
    "a link to a file": ("ln -s ../victim", True),
    "a link to nothing": ("ln -s ../none", True),
    "a pipe": ("mkfifo", True),
    "a directory": ("mkdir", False),
}


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("stream", ["out", "err"])
def test_the_output_of_a_rank_is_a_file_of_its_own(node: Node, plant: str, stream: str, shell: str) -> None:
    split = node.path / "split"
    node.fill(1, split_output=str(split))
    split.mkdir()
    (node.path / "victim").write_text("precious\n")
    (node.path / "stdin").touch()
    made, goes = PLANTS[plant]
    node.sh(f"cd {split}; {made} rank.0.{stream}")
    node.run("rank.sh", "sh", "-c", "echo to out; echo to err >&2", shell=shell, code=0 if goes else 1)
    assert (node.path / "victim").read_text() == "precious\n"
    assert not (node.path / "none").exists()
    if goes:
        files = [split / "rank.0.out", split / "rank.0.err"]
        assert [(file.is_symlink(), file.read_text()) for file in files] == [(False, "to out\n"), (False, "to err\n")]
    else:
        assert "fail --split-output: rank 0 cannot make" in node.said


@pytest.mark.parametrize("number", [8, 9])
def test_the_open_file_of_slurms_pmi2_stays_open(node: Node, tmp_path: Path, number: int, shell: str) -> None:
    node.fill(1, mode="outside-in", launcher="srun", force=True)
    (tmp_path / "pmi").write_text("from pmi\n")
    before = f"cd {node.path}; exec {number}<{tmp_path}/pmi\n"
    environ = {"PMI_FD": str(number), "PMI_RANK": "0", "SLURM_PROCID": "0"}
    said = node.run("rank.sh", "sh", "-c", f"cat <&{number}", before=before, environ=environ, shell=shell)
    assert said.decode() == "from pmi\n"


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
    assert said.decode() == f"{node.processes['pid.5']}\nsaid\n"
    assert node.said == f"rank 5 8\nended 5 {code}{told}\n"
