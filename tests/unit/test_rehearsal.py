"""The pure parts of the rehearsal cluster; nothing here needs root or touches the machine."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rehearsal import cgroups, cli, enter, host, kube, layer, pbs, recipe, sge, slurm
from rehearsal.errors import Unable
from rehearsal.ground import Ground, look, suited, version
from rehearsal.model import DEBIANS, Cluster, Options


def settings(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_cgroup_of_the_second_kind() -> None:
    """slurmd makes room for itself, since there is no systemd to ask for it."""
    limits = settings(slurm.files("mnrun", Options(cgroup=True), Ground(groups=2))["cgroup.conf"])
    assert (limits["CgroupPlugin"], limits["IgnoreSystemd"], limits["EnableControllers"]) == ("cgroup/v2", "yes", "yes")


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine's control groups of the first kind, as files; a kernel would make them with each folder."""
    for controller in (*cgroups.FIRST, "systemd"):
        (tmp_path / controller).mkdir()
        (tmp_path / controller / "cgroup.procs").touch()
    (tmp_path / "cpu").symlink_to("cpuacct")
    monkeypatch.setattr(cgroups, "MACHINE", tmp_path)
    return tmp_path


def test_a_node_has_a_part_of_each_hierarchy(groups: Path) -> None:
    assert cgroups.kind() == 1
    made = cgroups.make(Cluster("a"), "node01")
    assert sorted(made) == sorted(groups / name / "mnrun.a/node01" for name in (*cgroups.FIRST, "systemd"))
    assert all(folder.is_dir() for folder in made)


def test_control_groups_of_a_crashed_cluster_go_and_others_stay(groups: Path) -> None:
    cgroups.make(Cluster("a-b"), "node01")
    (cgroups.make(Cluster("a"), "node01")[0] / "slurm/uid_1500/job_1/step_0").mkdir(parents=True)
    cgroups.remove(Cluster("a"))
    assert not list(groups.glob("*/mnrun.a"))
    assert len({folder.resolve() for folder in groups.glob("*/mnrun.a-b/node01")}) == 6
    cgroups.remove(Cluster("a"))


def test_a_machine_without_control_groups_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "MACHINE", tmp_path)
    with pytest.raises(Unable, match="freezer, devices"):
        cgroups.kind()
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    assert cgroups.kind() == 2


def test_private_tmp_by_the_name_that_slurm_has_for_it() -> None:
    options = Options(private_tmp=True)
    conf = settings(slurm.conf("c", options, Ground()))
    assert conf["JobContainerType"] == "job_container/tmpfs"
    assert (conf["PrologFlags"], conf["ProctrackType"]) == ("Contain", "proctrack/linuxproc")
    assert "NamespaceType" not in conf
    later = settings(slurm.conf("c", options, Ground(slurm=(26, 5))))
    assert later["NamespaceType"] == "namespace/tmpfs"
    assert "JobContainerType" not in later
    assert "BasePath=/run/" in slurm.files("c", options, Ground())["job_container.conf"]
    assert "job_container.conf" not in slurm.files("c", Options(), Ground())
    both = settings(slurm.conf("c", Options(private_tmp=True, cgroup=True), Ground()))
    assert (both["JobContainerType"], both["ProctrackType"]) == ("job_container/tmpfs", "proctrack/cgroup")


def test_lines_that_a_version_does_not_know_are_left_out() -> None:
    spans = {"New=": ((22, 5), (99, 0)), "Gone=": ((0, 0), (23, 2))}
    text = "Always=1\nNew=2\nGone=3\n"
    assert suited(text, (20, 11), spans) == "Always=1\nGone=3\n"
    assert suited(text, (22, 5), spans) == text
    assert suited(text, (23, 2), spans) == "Always=1\nNew=2\n"


def test_an_older_slurm_and_an_older_sshd_get_what_they_know() -> None:
    bookworm = Ground(slurm=(22, 5), openssh=(9, 2))
    files = layer.files("c", Options(accounting=True), "ssh-ed25519 AAAA login\n", bookworm)
    assert files["/etc/slurm/cgroup.conf"].text == ""
    assert "job_env" in files["/etc/slurm/slurm.conf"].text
    sshd = files["/etc/ssh/sshd_config.d/rehearsal.conf"].text
    assert "PerSourceMaxStartups none\n" in sshd
    assert "PerSourcePenalties" not in sshd
    bullseye = Ground(slurm=(20, 11), openssh=(8, 4))
    files = layer.files("c", Options(accounting=True), "ssh-ed25519 AAAA login\n", bullseye)
    assert "AccountingStoreFlags" not in files["/etc/slurm/slurm.conf"].text
    assert "PerSource" not in files["/etc/ssh/sshd_config.d/rehearsal.conf"].text


def test_versions_are_the_trees_own(tmp_path: Path) -> None:
    status = (
        "Package: slurmd\nStatus: install ok installed\nVersion: 22.05.8-4+deb12u3\n\n"
        "Package: openssh-server\nSource: openssh\nVersion: 1:9.2p1-2+deb12u7\nDescription: x\n Version: 7.7\n"
    )
    assert version(status, "slurmd") == (22, 5)
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text(status)
    assert look(tmp_path, Options()) == Ground(slurm=(22, 5), openssh=(9, 2), groups=1)
    with pytest.raises(LookupError):
        version(status, "slurm")
    assert look(tmp_path, Options(private_tmp=True)).slurm == (22, 5)
    (tmp_path / "var/lib/dpkg/status").write_text(status.replace("22.05", "20.11"))
    with pytest.raises(Unable, match=r"needs Slurm 21\.08, and bullseye has 20\.11"):
        look(tmp_path, Options(private_tmp=True, debian="bullseye"))


def test_each_debian_has_a_tree_of_its_own() -> None:
    assert tuple(recipe.NODES) == DEBIANS
    assert len({recipe.key(tree) for tree in recipe.NODES.values()}) == len(DEBIANS)
    assert recipe.NODES["trixie"] is recipe.NODE
    for older in ("bookworm", "bullseye"):
        assert "apptainer.sh" not in recipe.NODES[older].steps
    assert cli.parser().parse_args(["up", "--debian", "bookworm"]).debian == "bookworm"
    with pytest.raises(SystemExit):
        cli.parser().parse_args(["up", "--debian", "potato"])


def test_accounting_adds_its_lines_and_its_file() -> None:
    options = Options(accounting=True)
    assert settings(slurm.conf("c", options, Ground()))["AccountingStorageHost"] == "login"
    private = layer.files("c", options, "ssh-ed25519 AAAA login\n", Ground())["/etc/slurm/slurmdbd.conf"]
    assert (private.mode, private.owner) == (0o600, "slurm")
    assert "/etc/slurm/slurmdbd.conf" not in layer.files("c", Options(), "ssh-ed25519 AAAA login\n", Ground())


def test_grid_engine_has_no_slurm_beside_it() -> None:
    files = layer.files("c", Options(nodes=2, sge=True), "ssh-ed25519 AAAA login\n", Ground())
    assert files["/etc/rehearsal/scheduler"].text == "sge\n"
    assert not [name for name in files if name.startswith("/etc/slurm")]
    assert "hostlist node01 node02\n" in files["/etc/rehearsal/sge/hostgroup"].text
    assert "gpu=4," in files["/etc/rehearsal/sge/host.node02"].text
    rules = {name: files[f"/etc/rehearsal/sge/pe.{name}"].text for name in ("mpi-2", "loose")}
    assert "allocation_rule 2\ncontrol_slaves TRUE\n" in rules["mpi-2"]
    assert "control_slaves FALSE\n" in rules["loose"]
    assert "max_unheard" not in sge.files(Options(sge=True))["global"]
    assert "max_unheard 00:00:20\n" in sge.files(Options(sge=True, impatient=True))["global"]
    with pytest.raises(Unable, match="--private-tmp is a setting of Slurm"):
        Options(sge=True, private_tmp=True)


def test_hosts_of_grid_engine_that_are_lost_take_no_jobs() -> None:
    text = (
        "queuename                      qtype resv/used/tot. load_avg arch          states\n"
        "all.q@node01                   BIP   0/2/8          3.52     lx-amd64      \n"
        "all.q@node02                   BIP   0/0/8          -NA-     -NA-          au\n"
        "     24 0.25000 arr        alice        r     11/27/2026 12:37:59     1 2\n"
    )
    assert sge.states(text) == {"node01": sge.TAKES_JOBS, "node02": "au"}


def test_a_layer_has_a_key_of_its_own_and_leaves_the_trees() -> None:
    keys = {recipe.layer_key(tree, recipe.SGE) for tree in recipe.NODES.values()}
    assert len(keys) == len(DEBIANS)
    assert not keys & {recipe.key(tree) for tree in recipe.NODES.values()}


def test_gpu_stand_ins_are_those_that_boot_makes() -> None:
    boot = (recipe.HERE / "inside/boot.sh").read_text()
    numbers = re.search(r"for gpu in ([\d ]+);", boot)
    assert numbers is not None
    assert [int(word) for word in numbers[1].split()] == list(range(slurm.GPUS))
    # Not copies of /dev/null: who is refused one of those is refused /dev/null.
    assert 'device "nvidia$gpu" 666 195 "$gpu"' in boot
    assert slurm.GRES == "Name=gpu File=/dev/nvidia[0-3]\nName=nvme Count=4\n"


def test_a_key_covers_packages_steps_and_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, without = recipe.key(recipe.NODE), recipe.key(recipe.BASE)
    assert re.fullmatch(r"[0-9a-f]{16}", before)
    assert recipe.key(recipe.NODE) == before
    assert recipe.key(replace(recipe.NODE, packages=(*recipe.NODE.packages, "docker.io"))) != before
    assert recipe.key(replace(recipe.NODE, steps=recipe.NODE.steps[1:])) != before
    (tmp_path / "other.c").write_text("int main(void) { return 0; }\n")
    monkeypatch.setattr(recipe, "PROGRAMS", tmp_path)
    assert recipe.key(recipe.NODE) != before
    assert recipe.key(recipe.BASE) == without  # it has no MPI, and none of the programs


def test_an_image_made_from_another_changes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = recipe.key(recipe.NOSSHD)
    assert recipe.key(replace(recipe.NOSSHD, base=recipe.OMPI4)) != before
    assert recipe.key(replace(recipe.NOSSHD, step="bare.sh")) != before


@pytest.mark.parametrize("name", ["", "A", "a.b", "../x", "-a", "a" * 40])
def test_names_that_would_confuse_paths_are_refused(name: str) -> None:
    with pytest.raises(Unable):
        Cluster(name)


def test_no_cluster_owns_anothers_networks() -> None:
    assert not Cluster("a-b").netns("login").startswith(Cluster("a").netns(""))


def test_pip_gets_the_machines_registry_but_none_of_its_paths(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = https://index.example/simple\nfind-links = /opt/wheels\n"
        "extra-index-url =\n    file:///opt/simple\n    https://more.example/simple\n"
    )
    environ = {"HOME": str(tmp_path), "PIP_CONFIG_FILE": str(file), "PIP_DEFAULT_TIMEOUT": "180"}
    found = host.pip_settings(environ)
    assert found["PIP_INDEX_URL"] == "https://index.example/simple"
    assert found["PIP_EXTRA_INDEX_URL"] == "https://more.example/simple"
    assert found["PIP_DEFAULT_TIMEOUT"] == "180"
    assert "PIP_FIND_LINKS" not in found


def test_exec_gives_a_login_and_leaves_words_alone() -> None:
    nasty = ["printf", "%s", "a b", "$(x)", "ü;'\"\n", "--", "-n"]
    line = enter.words(nasty, "alice", None, "dumb")
    assert line[-len(nasty) :] == nasty
    assert {"HOME=/home/alice", "USER=alice", "LANG=C.UTF-8"} <= set(line)
    with pytest.raises(Unable):
        enter.words(["true"], "dora", None, "dumb")


def test_pbs_has_no_slurm_beside_it() -> None:
    files = layer.files("c", Options(nodes=2, pbs=True), "ssh-ed25519 AAAA login\n", Ground())
    assert files["/etc/rehearsal/scheduler"].text == "pbs\n"
    assert not [path for path in files if "slurm" in path]
    assert files["/opt/pbs/bin/qsub"].mode == 0o755
    assert files["/etc/rehearsal/pbs"].text.splitlines()[0] == "node01 node02"
    assert pbs.states("Connection refused") == {}
    with pytest.raises(Unable, match="one scheduler"):
        Options(pbs=True, sge=True)
    with pytest.raises(Unable, match="setting of Slurm"):
        Options(pbs=True, accounting=True)


def test_kubernetes_has_no_slurm_beside_it() -> None:
    files = layer.files("c", Options(nodes=2, kube=True), "ssh-ed25519 AAAA login\n", Ground())
    assert files["/etc/rehearsal/scheduler"].text == "kube\n"
    assert not [path for path in files if "slurm" in path]
    assert files["/usr/local/sbin/runc-plain"].mode == 0o755
    assert files["/etc/rehearsal/kube/tokens"].mode == 0o600  # whoever reads them is anybody
    assert files["/etc/rehearsal/kube/pods"].text.splitlines()[1] == "node02 10.98.2.0/24 10.77.0.3"
    assert "grace=40\n" in files["/etc/rehearsal/kube/settings"].text
    assert kube.states("node01   Ready    <none>   13s   v1.20.2\n") == {"node01": kube.TAKES_JOBS}
    assert kube.states("The connection to the server was refused") == {}
    with pytest.raises(Unable, match="one scheduler"):
        Options(kube=True, sge=True)


def test_compiled_programs_have_a_key_of_their_own() -> None:
    script = recipe.PROGRAMS_OF[recipe.KUBE]
    assert recipe.programs_key(script) != recipe.layer_key(recipe.NODE, recipe.KUBE)
    assert (recipe.HERE / "build" / script).exists()
