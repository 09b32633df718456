"""Hosts that no scheduler gives: how they are reached, and that they have one image. Their transports are played."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import DeadlineError, Impossible, NodeError
from mnrun.files import wrapper
from mnrun.model import Words
from mnrun.running import hosts as machines
from mnrun.schedulers.hosts import names, pdsh, remote
from mnrun.schedulers.hosts.channel import Answer
from mnrun.schedulers.hosts.facts import HostFacts
from mnrun.system import process
from mnrun.system.screen import Screen
from unit.conftest import Shell
from unit.samples import changed, job_spec

JOB = job_spec(command=("./app",), image="/app.sif", hosts=names.parse("a,b"))


@dataclass
class Here:
    """What this machine has."""

    pdsh: bool = True
    sshd: bool = True  # in the image
    local: bool = False  # one of the hosts is this machine
    jump: str = ""  # the jump host before them


@pytest.fixture
def here(mocker: MockerFixture) -> Here:
    found = Here()
    mocker.patch.object(process, "has", side_effect=lambda name: found.pdsh)
    mocker.patch.object(remote, "places", side_effect=lambda job: [remote.Place("a", "a", jump=found.jump)])
    mocker.patch.object(remote, "is_here", side_effect=lambda place: found.local)
    mocker.patch.object(machines, "_has_sshd", side_effect=lambda job, environ: found.sshd)
    assert pdsh.installed()
    return found


@pytest.mark.parametrize(
    ("known", "asked", "rsh", "connect"),
    [
        (Here(), {}, "pdsh", "ssh"),
        (Here(), {"connect": "ssh"}, "pdsh", "ssh"),
        (Here(sshd=False), {}, "paramiko", "auto"),
        (Here(sshd=False), {"connect": "ssh"}, "pdsh", "ssh"),  # who asks for it is told where it is not
        (Here(sshd=False), {"mode": "outside-in"}, "pdsh", "ssh"),  # it needs none
        (Here(), {"mode": "outside-in", "connect": "pipe"}, "paramiko", "pipe"),
        (Here(local=True), {"mode": "outside-in"}, "paramiko", "auto"),  # which has perhaps no sshd at all
        (Here(), {"connect": "pipe"}, "paramiko", "pipe"),
        (Here(pdsh=False), {}, "paramiko", "auto"),
        (Here(local=True), {}, "paramiko", "auto"),
        (Here(jump="gate"), {}, "paramiko", "auto"),
        (Here(jump="gate"), {"rsh": "pdsh"}, "pdsh", "ssh"),
        (Here(), {"rsh": "paramiko"}, "paramiko", "auto"),
        (Here(sshd=False), {"rsh": "pdsh"}, "pdsh", "ssh"),
    ],
)
def test_by_pdsh_or_by_paramiko(here: Here, known: Here, asked: Mapping[str, Any], rsh: str, connect: str) -> None:
    """pdsh where it is there and its want of standard input does no harm."""
    here.__dict__.update(known.__dict__)
    job = machines._by_pdsh(changed(JOB, **asked), {})
    assert (job.hosts.rsh, job.start.connect) == (rsh, connect)


def test_pdsh_that_cannot_be(here: Here) -> None:
    """Refused, with what works instead."""
    with pytest.raises(Impossible, match="pdsh closes standard input, which --connect pipe needs"):
        machines._by_pdsh(changed(JOB, rsh="pdsh", connect="pipe"), {})
    here.pdsh = False
    with pytest.raises(Impossible, match="pdsh is not installed here; install it, or use --rsh paramiko"):
        machines._by_pdsh(changed(JOB, rsh="pdsh"), {})


class Transport:
    """Answers questions after the sum of an image."""

    def __init__(self, **sums: str) -> None:
        self.sums = sums
        self.asked: list[tuple[str, ...]] = []

    def ask(self, words: Words, given: bytes = b"", only: Sequence[str] = (), seconds: float = 0) -> dict[str, Answer]:
        self.asked.append(tuple(only))
        assert seconds == JOB.container.pull_timeout
        return {node: Answer(0, f"{self.sums[node]}  /app.sif\n", "") for node in only}


def file(size: int, changed: str) -> HostFacts:
    return HostFacts(image=changed, size=size)


def test_one_image_on_all_hosts() -> None:
    """Nobody reads it whole where a look at it tells, or where all are directories."""
    transport: Any = Transport(a="1" * 64, b="1" * 64)
    machines._one_image(transport, {"a": file(5, "7.1"), "b": file(5, "7.1")}, JOB, Screen())
    machines._one_image(
        transport, {"a": HostFacts(image="directory"), "b": HostFacts(image="directory")}, JOB, Screen()
    )
    assert transport.asked == []
    machines._one_image(transport, {"a": file(5, "7.1"), "b": file(5, "8.2")}, JOB, Screen())
    assert transport.asked == [("a", "b")]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"a": file(5, "7.1"), "b": HostFacts()}, "/app.sif is not there, or cannot be read, on b"),
        (
            {"a": file(5, "7.1"), "b": file(6, "8.2")},
            "/app.sif is not the same on all hosts: a: 5 bytes; b: 6 bytes",
        ),
        (
            {"a": file(5, "7.1"), "b": file(5, "8.2")},
            "/app.sif is not the same on all hosts: a: sha256 111111111111…; b: sha256 222222222222…",
        ),
        (
            {"a": file(5, "7.1"), "b": HostFacts(image="directory")},
            "/app.sif is not the same on all hosts: a: a file; b: a directory",
        ),
    ],
)
def test_images_that_differ(found: Mapping[str, HostFacts], said: str) -> None:
    """The hosts by name, and the option that copies one to all."""
    transport: Any = Transport(a="1" * 64, b="2" * 64)
    with pytest.raises(NodeError) as wrong:
        machines._one_image(transport, found, JOB, Screen())
    assert str(wrong.value) == f"{said}; copy one to all hosts: --stage"


@pytest.mark.parametrize(("modes", "works"), [((0o700, 0o700), True), ((0o777, 0o700), False), ((0o700, 0o755), False)])
def test_a_cache_that_others_could_change(sh: Shell, tmp_path: Path, modes: tuple[int, int], works: bool) -> None:
    """It is refused, and so is what is in it: neither the directory above nor itself may be anybody else's."""
    top = tmp_path / "mnrun.alice"
    for folder, mode in zip((top, top / "images"), modes):
        folder.mkdir()
        folder.chmod(mode)
    staged(sh, top, works)


def test_a_cache_that_is_a_link(sh: Shell, tmp_path: Path) -> None:
    """Whoever made it may let it lead elsewhere; one that is made anew is the user's alone."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(0o700)
    top = tmp_path / "mnrun.alice"
    top.symlink_to(elsewhere)
    staged(sh, top, works=False)
    top.unlink()
    staged(sh, top, works=True)
    assert [folder.stat().st_mode & 0o777 for folder in (top, top / "images")] == [0o700, 0o700]
    shared = tmp_path / "shared"  # by a group, whose directories have its name
    shared.mkdir()
    shared.chmod(0o2755)
    staged(sh, shared / "mnrun.me", works=True)


def staged(sh: Shell, top: Path, works: bool) -> None:
    """store_image.sh's look at an image there, and then the image itself; or its refusal."""
    text, digest = wrapper("exposed.sh") + wrapper("store_image.sh"), hashlib.sha256(b"image").hexdigest()
    path = str(top / "images" / f"{digest}.sif")
    said = sh(text, "look", path, digest, "/nowhere", shell="bash", code=0 if works else 1)
    assert said == (b"want\n" if works else b"")
    if works:
        sh(text, "take", path, digest, shell="bash", stdin=b"image")
        assert sh(text, "look", path, digest, "/nowhere", shell="bash") == b"have\n"


def test_a_disk_that_is_full(sh: Shell, tmp_path: Path) -> None:
    """Nothing of the copy stays, and the remedy is said."""
    text = wrapper("exposed.sh") + wrapper("store_image.sh")
    folder = tmp_path / "mnrun.alice/images"
    path, limit = str(folder / "sha256-0.sif"), "trap '' XFSZ; ulimit -f 1\n"  # 1 kB
    said = sh(f"exec 2>&1\n{limit}{text}", "take", path, "0", shell="bash", stdin=b"image" * 10000, code=1)
    assert said.decode() == f"{folder}: File too large; name another directory with --stage-dir\n"
    assert list(folder.iterdir()) == []


def test_a_plan_copies_nothing(tmp_path: Path) -> None:
    """It shows where the image would be, and asks no host."""
    image = tmp_path / "app.sif"
    image.write_bytes(b"image")
    job = changed(JOB, image=str(image), stage=True, stage_dir="/disk", ssh_user="bob")
    made = machines._stage(Transport(), job, tmp_path, Screen(), look=True)  # type: ignore[arg-type]
    assert made.container.image_name == f"/disk/mnrun.bob/images/sha256-{hashlib.sha256(b'image').hexdigest()}.sif"


def test_the_hosts_have_a_home_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user's, or elsewhere: it is what containers are given, and where the cache is."""
    monkeypatch.setenv("HOME", "/home/alice")
    job = changed(JOB, home="/home/alice", image_cache="/home/alice/.mnrun/cache", runtime="docker")
    bobs, hers = HostFacts(home="/home/bob"), HostFacts(home="/home/alice")
    made = machines._at_home(job, {"a": bobs, "b": bobs})
    assert (made.container.home, made.container.image_cache) == ("/home/bob", "/home/bob/.mnrun/cache")
    assert machines._at_home(job, {"a": hers, "b": HostFacts()}) == job
    assert machines._at_home(changed(job, home=""), {"a": bobs, "b": bobs}).container.home == ""
    apart = {"a": hers, "b": bobs}
    mounted = machines._at_home(changed(job, runtime="apptainer"), apart)  # apptainer mounts each one's
    assert mounted.container.home == "/home/alice"
    with pytest.raises(Impossible, match=r"a: /home/alice; b: /home/bob; leave it out with --no-home"):
        machines._at_home(job, apart)


def test_hosts_that_did_not_answer() -> None:
    """All at once, with what they said. A host that was reached is not called out of reach."""
    machines.refuse_silent({"a": Answer(0, "", "noise", late=True)})
    full, late, gone = Answer(1, "", "no\nspace\n"), Answer(137, "", "", late=True), Answer(None, "", "")
    for answers, said in (
        ({"a": full, "b": gone}, "1 of 2 hosts cannot be reached: b: the command ended without a message"),
        (
            {"a": Answer(0, "", ""), "b": full, "c": late},
            "failed on 2 of 3 hosts: b: no space; c: the command did not end in time",
        ),
    ):
        with pytest.raises(NodeError) as wrong:
            machines.refuse_silent(answers)
        assert str(wrong.value) == said


def test_an_image_that_takes_long(mocker: MockerFixture) -> None:
    """To read it takes as long as --pull-timeout allows, and not as long as a short question."""
    transport = mocker.Mock()
    transport.ask.return_value = {"a": Answer(0, "1", ""), "b": Answer(None, "", "", late=True)}
    with pytest.raises(DeadlineError) as wrong:
        machines._one_image(transport, {"a": file(5, "7.1"), "b": file(5, "8.2")}, JOB, Screen())
    assert str(wrong.value) == "/app.sif is not ready after 1800 s on b; --pull-timeout allows more time"


def test_gpus_that_others_use(capsys: pytest.CaptureFixture[str]) -> None:
    """A warning for each host that has such."""
    busy = ("GPU 0 (python, process 7)", "GPU 1 (X, process 8)")
    machines._warn_of_busy({"a": HostFacts(gpus=2, busy=busy), "b": HostFacts(gpus=2)}, Screen())
    assert capsys.readouterr().err == ("mnrun: warning: a: not free: GPU 0 (python, process 7), GPU 1 (X, process 8)\n")
