"""What engine.sh tells docker and podman of this node and this process, with stand-ins for them in PATH,
and what engines.sh makes of what they say. There is no GPU here, nor InfiniBand: only what a node says of them.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mnrun.nodes import kit
from unit.cases import Cases
from unit.conftest import ADVERB, Shell
from unit.decoys import Decoys
from unit.samples import RECORDED, build, make
from unit.wrappers.node import lay

UUIDS = ("GPU-00", "GPU-11", "GPU-22", "GPU-33")
NAMED = {"driver": "driver", "infiniband": "infiniband", "selinux": "selinux", "dockerd": "pid", "cdi": "cdi"}


class Node:
    """A node's directory, what the node has, and stand-ins for its programs."""

    def __init__(self, sh: Shell, path: Path, others: str) -> None:
        self._sh = sh
        self._others = others  # PATH of the node's other programs
        self.path = path / "mnrun.7-abcdef"
        self.has = path / "has"
        self.bin = path / "bin"
        for folder in (self.path, self.has, self.bin):
            folder.mkdir()

    def fill(self, runtime: str, **given: Any) -> None:
        (self.path / "box").unlink(missing_ok=True)
        plan = make(build("./app", **{"runtime": runtime, "image": "app", **given}), 1)
        lay(self.path, kit.files(plan, {"up": ""}))
        with (self.path / "engines.sh").open("a") as file:
            file.writelines(f"mnrun_{name}={self.has / place}\n" for name, place in NAMED.items())

    def program(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o700)

    def run(self, script: str, environ: Mapping[str, str] = {}, code: int = 0) -> list[str]:  # read only
        path = f"{self.bin}:{self._others}"
        words = self._sh(f"cd {self.path}\n{script}", shell="bash", environ={"PATH": path, **environ}, code=code)
        return words.decode().splitlines()

    def told(self, engine: str, environ: Mapping[str, str] = {}) -> list[str]:  # read only
        self.program(engine, """case $1 in info) echo "$INFO" ;; *) printf '%s\\n' "$@" ;; esac""")
        return self.run(f"{ADVERB} ./engine.sh {engine} run --rm app sh", environ)


@pytest.fixture
def node(sh: Shell, tmp_path: Path, decoys: Decoys) -> Node:
    return Node(sh, tmp_path, decoys.without)


def test_docker_runs_as_the_user(node: Node) -> None:
    node.fill("docker")
    words = node.told("docker")
    assert words[0] == "run"
    assert f"--user={os.getuid()}:{os.getgid()}" in words
    assert {f"--group-add={gid}" for gid in os.getgroups()} <= set(words)
    assert words[-3:] == ["--rm", "app", "sh"]
    assert words[1] == "--name"
    assert words[2].startswith("mnrun.7-abcdef.")


def test_only_names_of_variables_are_told(node: Node) -> None:
    node.fill("docker")
    given = {"TMPDIR": "/t", "PMIX_RANK": "1", "SLURM_PROCID": "1", "NCCL_DEBUG": "INFO", "OMPI_X": "two\nlines"}
    words = node.told("docker", {**given, "SECRET": "s", "EDITOR": "vi"})
    told = {words[at + 1] for at, word in enumerate(words) if word == "-e"}
    assert told - {"HOME", "LC_ALL", "LANG"} == set(given)


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_infiniband_goes_in_whole(node: Node, engine: str) -> None:
    node.fill(engine)
    assert not [word for word in node.told(engine) if "--device" in word]
    (node.has / "infiniband").mkdir()
    assert f"--device={node.has}/infiniband" in node.told(engine)


@pytest.mark.parametrize(("hardened", "told"), [(False, True), (True, False)])
def test_selinux_lets_us_read_home(node: Node, hardened: bool, told: bool) -> None:
    node.fill("podman", hardened=hardened)
    (node.has / "selinux").mkdir()
    assert ("--security-opt=label=disable" in node.told("podman")) is told


def test_podman_keeps_its_images_on_the_node(node: Node) -> None:
    """Containers in the job's directory, images in a store that stays; --podman-root says another place."""
    node.fill("podman")
    words = node.told("podman")
    assert words[words.index("--root") + 1] == f"{node.path}/podman/root"
    assert f"additionalimagestore=/tmp/mnrun-podman.{os.getuid()}/root" in words
    node.fill("podman", podman_root="/local/me")
    assert "additionalimagestore=/local/me/root" in node.told("podman")


def test_the_one_open_file_of_pmi2_goes_to_podman(node: Node) -> None:
    node.fill("podman")
    assert "--preserve-fd=5" in node.told("podman", {"PMI_FD": "5"})


WAYS = {
    "hook": ({}, ["--gpus", '"device=GPU-22,GPU-00"']),
    "runtime": ({"INFO": '{"nvidia":{"path":"nvidia-container-runtime"}}'}, ["--runtime=nvidia"]),
    "cdi": (
        {"INFO": '{"CDISpecDirs":["/etc/cdi"]}'},
        ["--device=nvidia.com/gpu=GPU-22", "--device=nvidia.com/gpu=GPU-00"],
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_docker_is_given_the_granted_gpus(node: Node, way: str) -> None:
    node.fill("docker")
    (node.has / "driver").touch()
    node.program("nvidia-smi", f"printf '%s\\n' {' '.join(UUIDS)}")
    if way == "hook":
        node.program("nvidia-container-runtime-hook", "")
    (node.has / "cdi").mkdir()
    (node.has / "cdi/nvidia.yaml").write_text("kind: nvidia.com/gpu\n")
    environ, wanted = WAYS[way]
    words = node.told("docker", {"CUDA_VISIBLE_DEVICES": "2,0", **environ})
    assert "CUDA_VISIBLE_DEVICES=0,1" in words
    assert [word for word in words if word in wanted] == wanted
    assert ("NVIDIA_VISIBLE_DEVICES=GPU-22,GPU-00" in words) is (way == "runtime")


@pytest.mark.parametrize("asked", ["MIG-7,MIG-8", "closest", "MPS"])
def test_where_numbers_mean_nothing_the_container_has_uuids(node: Node, asked: str) -> None:
    """MIG instances have none, the daemon of MPS has its own, and who is nearest is known by UUID."""
    node.fill("docker", **({"gpu_bind": "closest"} if asked == "closest" else {}))
    (node.has / "driver").touch()
    (node.has / "control").touch()
    node.program("nvidia-smi", f"printf '%s\\n' {' '.join(UUIDS)}")
    node.program("nvidia-container-runtime-hook", "")
    mps = {"CUDA_MPS_PIPE_DIRECTORY": str(node.has)} if asked == "MPS" else {}
    words = node.told("docker", {"CUDA_VISIBLE_DEVICES": asked if asked.startswith("MIG") else "2,0", **mps})
    assert f"CUDA_VISIBLE_DEVICES={asked if asked.startswith('MIG') else 'GPU-22,GPU-00'}" in words
    assert (f"type=bind,source={node.has},target={node.has}" in words) is (asked == "MPS")


@pytest.mark.parametrize(
    ("granted", "wanted"),
    [
        ({"CUDA_VISIBLE_DEVICES": "MIG-7"}, ["--device=nvidia.com/gpu=MIG-7"]),
        ({}, []),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, []),
    ],
)
def test_podman_is_given_the_granted_gpus(node: Node, granted: dict[str, str], wanted: list[str]) -> None:
    node.fill("podman")
    (node.has / "driver").touch()
    node.program("nvidia-smi", "echo 'No devices were found'; exit 6")
    (node.has / "cdi").mkdir()
    (node.has / "cdi/nvidia.json").write_text('{"kind": "nvidia.com/gpu"}')
    words = node.told("podman", granted)
    assert [word for word in words if word.startswith("--device")] == wanted
    assert ("NVIDIA_VISIBLE_DEVICES=void" in words) is (not wanted)


def test_gpus_that_nobody_counts_are_those_that_the_step_sees(node: Node) -> None:
    node.fill("docker")
    (node.has / "driver").touch()
    node.program("nvidia-container-runtime-hook", "")
    assert "all" in node.told("docker")
    node.program("nvidia-smi", f"printf '%s\\n' {UUIDS[1]} {UUIDS[2]}")
    words = node.told("docker")
    assert f'"device={UUIDS[1]},{UUIDS[2]}"' in words
    assert not [word for word in words if word.startswith("CUDA_VISIBLE_DEVICES")]


QUERIED = f"""\
[ "$1" = -q ] || {{ printf '%s\\n' GPU-00 GPU-11; exit; }}
for gpu in 00:1 11:3; do
  sed "s/\\(GPU UUID  *: \\).*/\\1GPU-${{gpu%:*}}/; s/\\(Minor Number  *: \\).*/\\1${{gpu#*:}}/" {RECORDED}/gpus/h100.q
done
"""


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ('{"devices": [{"name": "0"}, {"name": "3"}], "kind": "nvidia.com/gpu"}', ["3"]),
        ('devices:\n- name: "3"\n- name: GPU-11\nkind: nvidia.com/gpu\n', ["GPU-11"]),
        ('{"devices":[{"name":"GPU-11"}],"kind":"nvidia.com/gpu"}', ["GPU-11"]),
    ],
)
def test_a_node_whose_cdi_knows_no_uuids(node: Node, spec: str, wanted: list[str]) -> None:
    node.fill("podman")
    (node.has / "driver").touch()
    node.program("nvidia-smi", QUERIED)
    (node.has / "cdi").mkdir()
    (node.has / "cdi/nvidia.yaml").write_text(spec)
    words = node.told("podman", {"CUDA_VISIBLE_DEVICES": "1"})
    assert [word for word in words if word.startswith("--device")] == [f"--device=nvidia.com/gpu={n}" for n in wanted]


def test_gpus_that_cannot_be_given_are_an_error(node: Node) -> None:
    for engine, wanted in (
        ("podman", "install nvidia-container-toolkit"),
        ("docker", "dockerd does not read this node's CDI"),
    ):
        node.fill(engine)
        (node.has / "driver").touch()
        node.program(engine, "[ $1 = info ] || echo started")
        assert node.run(f"{ADVERB} ./engine.sh {engine} run app", {"CUDA_VISIBLE_DEVICES": "0"}, code=125) == []
        assert wanted in (node.path / "up").read_text()
        (node.has / "cdi").mkdir(exist_ok=True)
        (node.has / "cdi/nvidia.yaml").write_text("kind: nvidia.com/gpu\n")


def test_whether_docker_can_be_used(cases: Cases, node: Node) -> None:
    """By what its `info` says. The user is called alice in the answers."""
    node.fill("docker")

    def said(script: str) -> str:
        node.program("docker", script)
        lines = node.run("source ./job.sh; source ./engines.sh; if usable; then echo usable; fi")
        return re.sub(rf"\b{re.escape(getpass.getuser())}\b", "alice", " ".join(lines))

    cases(said)


def test_a_runtime_that_nobody_can_test(node: Node) -> None:
    """One that was added without a branch in usable fails by its name, and no program called `info` is run."""
    node.fill("docker")
    for name in ("invented", "info"):
        node.program(name, f"echo x >>{node.has}/asked")
    (line,) = node.run("source ./job.sh; mnrun_runtime=invented; source ./engines.sh; usable", code=1)
    assert line.startswith("mnrun cannot test invented on a node: ")
    assert not (node.has / "asked").exists()


def test_who_is_root_inside_a_rootless_docker_is_the_user(node: Node) -> None:
    node.fill("docker")
    (node.path / "rootless").touch()
    assert "--user=0:0" in node.told("docker")


PULL = """\
coproc pull { bash -p ./pull_image.sh store localhost/app missing "$STORE" "7-$$" podman; }
while read -r word rest; do
  echo "$word $rest"
  if [[ $word == image ]]; then eval "exec ${pull[1]}>&-"; fi  # its lease
done <&"${pull[0]}"
"""


def test_podman_copies_an_image_for_the_users_ids_before_it_says_that_it_is_there(node: Node) -> None:
    node.fill("podman")
    (node.path / "pull_image.sh").write_text(kit.probe(kit.PULL, "mnrun_beat= mnrun_silence=\n"))
    node.program("getsubids", "exit 0")
    node.program(
        "podman", """echo "$*" >>"$STORE.asked"; case "$*" in *' create '*) echo box ;; *) echo 1234 ;; esac"""
    )
    given = {"STORE": str(node.has / "store"), "MNRUN_NODE": "node01"}
    first, second = node.run(PULL, given), node.run(PULL, given)
    assert [line.split()[:3] for line in first] == [["pulling", "node01", "copied"], first[-1].split()[:3]], first
    assert first[-1].startswith("image node01 sha256:") and first[-1].endswith(" 1234") and second == first[-1:]
    asked = (node.has / "store.asked").read_text()
    assert asked.count(" create --userns=keep-id 1234 true\n") == 1, asked


def test_docker_cannot_serve_a_tmp_of_the_jobs_own(cases: Cases, node: Node) -> None:
    """The first is of Slurm 22.05, the second of 24.11."""
    node.fill("docker")
    node.program("docker", """echo '{"ServerVersion":"26.1.5"}'""")
    names = f"mnrun_job_value=7 mnrun_mounts={node.has}/mounts"

    def said(root: str) -> str:
        (node.has / "mounts").write_text(f"97 88 0:131 {root} /tmp rw,relatime - tmpfs run rw,mode=755\n")
        lines = node.run(f"source ./job.sh; source ./engines.sh; {names}; if usable; then echo usable; fi")
        return " ".join(lines)

    cases(said)


@pytest.mark.parametrize(("version", "new"), [("3.0.1", False), ("3.1.2", False), ("3.2.0", True), ("5.4.2", True)])
def test_a_podman_without_keep_groups_is_refused(node: Node, version: str, new: bool) -> None:
    node.fill("podman")
    node.program("getsubids", "exit 0")
    node.program("podman", f'echo x >>{node.has}/asked; echo "podman version {version}"')
    script = f"source ./job.sh; mnrun_podman={node.has}/store; source ./engines.sh; usable"
    for _ in range(2):
        said = node.run(script, code=0 if new else 1)
        assert said == [] if new else "is too old on this node" in said[0]
    assert (node.has / "asked").read_text().count("x") == (1 if new else 2)


def test_a_store_of_another_driver_is_refused(node: Node) -> None:
    """podman 4.3 made it as vfs by itself, and its database remembers; the job's containers need overlay."""
    node.fill("podman")
    node.program("getsubids", "exit 0")
    node.program("podman", "echo podman version 4.3.1")
    (node.has / "store/root/vfs-images").mkdir(parents=True)
    script = f"source ./job.sh; mnrun_podman={node.has}/store; source ./engines.sh"
    (line,) = node.run(f"{script}; usable", code=1)
    assert "podman unshare rm -rf" in line
    assert "--storage-driver=overlay" in node.run(f'{script}; printf "%s\\n" "${{mnrun_engine[@]}}"')


def test_podman_in_a_tmp_of_the_jobs_own(node: Node, tmp_path: Path) -> None:
    """Slurm 24.11 opens it for the user alone, and a container's root is another there."""
    node.fill("podman")
    node.program("getsubids", "exit 0")
    node.program("podman", "echo podman version 5.4.2")
    (node.has / "mounts").write_text("94 78 0:201 /jobs/7/.7/_tmp /tmp rw,relatime - tmpfs run rw,mode=755\n")
    tmp = node.has / "tmp"
    tmp.mkdir(mode=0o700)
    names = f"mnrun_podman={node.has}/store; source ./engines.sh; mnrun_mounts={node.has}/mounts mnrun_tmp={tmp}"
    node.run(f"source ./job.sh; mnrun_job_value=8 {names}; usable")
    assert tmp.stat().st_mode & 0o777 == 0o700
    node.run(f"source ./job.sh; mnrun_job_value=7 {names}; usable")
    assert tmp.stat().st_mode & 0o777 == 0o711
