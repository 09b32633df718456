"""Hosts that no scheduler gives: how they are reached, and that they have one image. Their transports are played."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from mnrun.environment import assignments
from mnrun.errors import DeadlineError, Impossible, NodeError
from mnrun.model import Words
from mnrun.nodes import kit
from mnrun.reach.channel import Answer
from mnrun.running import hosts as machines
from mnrun.schedulers.hosts import names, remote, ssh
from mnrun.schedulers.hosts.steps import HostFacts
from mnrun.system import process
from mnrun.system.screen import Screen
from unit.cases import Cases
from unit.conftest import Shell
from unit.samples import changed, job_spec
from unit.texts import Refused

JOB = job_spec(command=("./app",), image="/app.sif", hosts=names.parse("a,b"))


def test_by_what_hosts_are_reached(cases: Cases, mocker: MockerFixture) -> None:
    mocker.patch.object(ssh, "connected", side_effect=lambda spec, kind=None: "pdsh" if kind else "ssh")
    mocker.patch.object(remote, "connected", return_value="paramiko")

    def reached(here: str, asked: str) -> object:
        mocker.patch.object(process, "has", side_effect=here.split().__contains__)
        mocker.patch("importlib.util.find_spec", side_effect=lambda name: name in here or None)
        return machines._transport(changed(JOB, rsh=asked), {})

    cases(reached)


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
    transport: Any = Transport(a="1" * 64, b="1" * 64)
    machines._one_image(transport, {"a": file(5, "7.1"), "b": file(5, "7.1")}, JOB, Screen())
    machines._one_image(
        transport, {"a": HostFacts(image="directory"), "b": HostFacts(image="directory")}, JOB, Screen()
    )
    assert transport.asked == []
    machines._one_image(transport, {"a": file(5, "7.1"), "b": file(5, "8.2")}, JOB, Screen())
    assert transport.asked == [("a", "b")]


@pytest.mark.parametrize(
    "found",
    [
        {"a": file(5, "7.1"), "b": HostFacts()},
        {"a": file(5, "7.1"), "b": file(6, "8.2")},
        {"a": file(5, "7.1"), "b": file(5, "8.2")},
        {"a": file(5, "7.1"), "b": HostFacts(image="directory")},
    ],
)
def test_images_that_differ(refused: Refused, found: Mapping[str, HostFacts]) -> None:
    transport: Any = Transport(a="1" * 64, b="2" * 64)
    with refused(NodeError):
        machines._one_image(transport, found, JOB, Screen())


@pytest.mark.parametrize(("modes", "works"), [((0o700, 0o700), True), ((0o777, 0o700), False), ((0o700, 0o755), False)])
def test_a_cache_that_others_could_change(sh: Shell, tmp_path: Path, modes: tuple[int, int], works: bool) -> None:
    top = tmp_path / "mnrun.alice"
    for folder, mode in zip((top, top / "images"), modes):
        folder.mkdir()
        folder.chmod(mode)
    staged(sh, top, works)


def test_a_cache_that_is_a_link(sh: Shell, tmp_path: Path) -> None:
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


def script(top: Path, content: bytes) -> tuple[str, Path]:
    """Return stage_image.sh for an image, and the place of its copy below this directory."""
    copy = top / "images" / f"sha256-{hashlib.sha256(content).hexdigest()}.sif"
    return kit.probe(kit.STAGE, assignments({"mnrun_copy": copy, "mnrun_size": len(content)})), copy


def staged(sh: Shell, top: Path, works: bool) -> None:
    text, copy = script(top, b"image")
    said = sh(text, "1G", "me.7", "look", "/nowhere", shell="bash", code=0 if works else 1).split()
    assert said[0] == (b"lacks" if works else b"fail")
    if works:
        sh(text, "1G", "me.7", "take", shell="bash", stdin=b"image")
        assert sh(text, "1G", "me.7", "look", "/nowhere", shell="bash").startswith(b"image ")
        assert (list(copy.parent.iterdir()), copy.read_bytes()) == ([copy], b"image")


def test_a_host_that_has_the_image_at_its_path(sh: Shell, tmp_path: Path) -> None:
    text, copy = script(tmp_path / "mnrun.alice", b"image")
    here = tmp_path / "app.sif"
    for content, word in ((b"other", b"lacks"), (b"image", b"image"), (b"egami", b"lacks")):
        here.write_bytes(content)
        assert sh(text, "1G", "me.7", "look", str(here), shell="bash").split()[0] == word
        assert copy.is_symlink() == (word == b"image")


def test_a_disk_that_is_full(sh: Shell, tmp_path: Path) -> None:
    content = b"image" * 10000
    text, copy = script(tmp_path / "mnrun.alice", content)
    said = sh(f"trap '' XFSZ; ulimit -f 1\n{text}", "1G", "me.7", "take", shell="bash", stdin=content, code=1)  # 1 kB
    words = f"cannot write to {copy.parent}: File too large; name another with --stage-dir"
    assert said.decode().splitlines()[-1].split(" ", 2)[2] == words
    assert list(copy.parent.iterdir()) == []


def test_a_plan_copies_nothing(tmp_path: Path) -> None:
    image = tmp_path / "app.sif"
    image.write_bytes(b"image")
    job = changed(JOB, image=str(image), stage=True, stage_dir="/disk", ssh_user="bob")
    made = machines._stage(Transport(), job, tmp_path, Screen(), look=True)  # type: ignore[arg-type]
    assert made.container.image_name == f"/disk/mnrun.bob/images/sha256-{hashlib.sha256(b'image').hexdigest()}.sif"


def test_the_hosts_have_a_home_of_their_own(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
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
    with refused(Impossible):
        machines._at_home(job, apart)


def test_hosts_that_did_not_answer(refused: Refused) -> None:
    machines.refuse_silent({"a": Answer(0, "", "noise", late=True)})
    full, late, gone = Answer(1, "", "no\nspace\n"), Answer(137, "", "", late=True), Answer(None, "", "")
    for answers in ({"a": full, "b": gone}, {"a": Answer(0, "", ""), "b": full, "c": late}):
        with refused(NodeError):
            machines.refuse_silent(answers)


def test_an_image_that_takes_long(refused: Refused, mocker: MockerFixture) -> None:
    transport = mocker.Mock()
    transport.ask.return_value = {"a": Answer(0, "1", ""), "b": Answer(None, "", "", late=True)}
    with refused(DeadlineError):
        machines._one_image(transport, {"a": file(5, "7.1"), "b": file(5, "8.2")}, JOB, Screen())
