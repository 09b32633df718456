"""The cache of converted images: what may go, and what is let alone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.attach import user
from mnrun.errors import UsageError
from mnrun.images import cache
from mnrun.schedulers.queue import Job, Snapshot
from mnrun.schedulers.slurm import scheduler as slurm
from mnrun.schedulers.vocabulary import JobState
from unit.texts import Refused, Says
from unit.typed import Complaint, Terminal

DAY = 86400.0
NOW = time.time()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two references of one image, which was used 40 days ago, and one of another, of today."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "refs").mkdir()
    for digest, days in (("1", 40.0), ("2", 0.0)):
        path = tmp_path / f"sha256-{digest}.sif"
        path.write_bytes(b"x" * 2_000_000)
        aged(path, days)
    for name, digest in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / "refs" / name).write_text(f"sha256:{digest} key 7-ab docker://{name}\n")
    return tmp_path


def aged(path: Path, days: float) -> None:
    os.utime(path, (NOW - days * DAY,) * 2)


def there(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())


def test_images(place: Path) -> None:
    (place / "refs" / "c").write_text("sha256:2 key 7-ab\n")
    first, second = cache.images(place)
    assert (first.path.name, first.names, first.size) == ("sha256-1.sif", ("docker://a", "docker://b"), 2_000_000)
    assert (second.path.name, second.names) == ("sha256-2.sif", ())


def test_images_of_charliecloud(place: Path) -> None:
    """One digest is a file for each kind of runtime. References without a scheme are Charliecloud's."""
    (place / "refs" / "site_app_1-7").write_text("sha256:1 - 7-ab site/app:1\n")
    assert cache.find(place, "site/app:1") is None
    packed = place / "sha256-1.sqfs"
    packed.write_text("")
    assert cache.find(place, "site/app:1") == packed
    assert [cache.find(place, f"{name}@sha256:1") for name in ("docker://x", "x")] == [place / "sha256-1.sif", packed]
    assert cache.find(place, "x@sha256:2") is None
    held = {image.path.name: image.names for image in cache.images(place)}
    assert held["sha256-1.sqfs"] == ("site/app:1",) and held["sha256-1.sif"] == ("docker://a", "docker://b")
    (place / "sha256-1.sif").unlink()
    (place / cache.SUMS).mkdir()
    for image in ("sha256-1.sif", "sha256-1.sqfs"):
        (place / cache.SUMS / image).touch()
        cache.doubt(place / image)
    cache.tidy(place, NOW - DAY)
    assert {path.name for path in (place / cache.SUMS).iterdir()} == {"sha256-1.sqfs", "sha256-1.sqfs.doubt"}
    assert {path.name for path in (place / "refs").iterdir()} == {"c", "site_app_1-7"}


@pytest.mark.parametrize(
    ("jobs", "asked", "before"),
    [
        ((), NOW, NOW - 2 * DAY),
        ((), NOW - 2 * DAY, NOW - 2 * DAY - cache.HOUR),
        ((Job("7", "", JobState.RUNNING, start=NOW - 50 * DAY),), NOW, NOW - 50 * DAY - cache.HOUR),
        ((Job("7", "", JobState.COMPLETED, start=NOW - 50 * DAY), Job("8", "", JobState.PENDING)), NOW, NOW - 2 * DAY),
    ],
    ids=["no jobs", "an old answer", "a job that runs", "one that has ended, one that waits"],
)
def test_no_image_of_a_job_goes(jobs: tuple[Job, ...], asked: float, before: float) -> None:
    assert cache.unneeded(NOW - 2 * DAY, jobs, asked) == before


def test_an_image_that_is_taken_meanwhile(place: Path) -> None:
    old = cache.images(place)[0]
    aged(old.path, 0)
    assert not cache.remove(old, NOW - DAY)
    assert cache.images(place)[0].path.exists() and len(there(place)) == 5


def test_what_conversions_left(place: Path) -> None:
    for name, days in (("dead", 2.0), ("b", 0.0)):
        lock = place / "refs" / f"{name}.lock"
        (lock / "tree").mkdir(parents=True)
        (lock / "tree" / "half").write_text("")
        (lock / "tree").chmod(0o500)
        (lock / "beat").write_text("1")
        for path in (lock / "beat", lock):
            aged(path, days)
    (place / "sha256-1.sif").unlink()
    cache.tidy(place, NOW - DAY)
    assert there(place) == ["refs/b", "refs/b.lock/beat", "refs/b.lock/tree/half", "refs/c", "sha256-2.sif"]
    (place / "refs" / "b.lock" / "tree").chmod(0o700)


def test_layers_of_pulls_that_were_cut_off(place: Path) -> None:
    for name, beats in (("dead", False), ("b", True)):
        layers = place / "refs" / f"{name}.layers"
        layers.mkdir()
        (layers / "5").write_text("")
        aged(layers, 2)
        if beats:
            lock = place / "refs" / f"{name}.lock"
            lock.mkdir()
            (lock / "beat").write_text("1")
    cache.tidy(place, NOW - DAY)
    assert [path.name for path in sorted((place / "refs").glob("*.layers"))] == ["b.layers"]


def test_what_cannot_be_tidied_stays(place: Path, mocker: MockerFixture) -> None:
    lock = place / "refs" / "dead.lock"
    lock.mkdir()
    aged(lock, 2)
    (place / "sha256-1.sif").unlink()
    mocker.patch.object(Path, "rename", side_effect=OSError(30, "Read-only file system"))
    cache.tidy(place, NOW - DAY)
    assert there(place) == ["refs/c", "sha256-2.sif"] and lock.is_dir()
    mocker.stopall()
    mocker.patch.object(Path, "unlink", side_effect=PermissionError(13, "Permission denied"))
    (place / "sha256-2.sif.gone").write_text("")
    aged(place / "sha256-2.sif.gone", 2)
    (place / "sha256-2.sif").rename(place / "elsewhere")
    cache.tidy(place, NOW - DAY)
    assert "refs/c" in there(place) and not lock.exists()


def test_a_cache_without_images(place: Path, mocker: MockerFixture, capsys: pytest.CaptureFixture[str]) -> None:
    for path in place.rglob("*"):
        if path.is_file():
            path.unlink()
    lock = place / "refs" / "a.lock"
    lock.mkdir()
    (lock / "half.sif").write_text("")
    aged(lock, 41)
    mnrun = Terminal(mocker, capsys)
    mnrun("clean", "--images", "--image-cache", str(place), "--dry-run")
    assert lock.exists()
    done = mnrun("clean", "--images", "--image-cache", str(place))
    assert done.err.splitlines()[-1] == f"mnrun: 0 of 0 images removed from {place}"
    assert not list((place / "refs").iterdir())


def test_an_image_without_a_tag(
    place: Path, mocker: MockerFixture, capsys: pytest.CaptureFixture[str], says: Says
) -> None:
    for name in ("a", "b"):
        (place / "refs" / name).unlink()
    mocker.patch.object(slurm, "is_here", return_value=False)
    said = Terminal(mocker, capsys)("clean", "--images", "--image-cache", str(place)).out
    says(said)


def test_another_ones_cache(refused: Refused, place: Path, mocker: MockerFixture) -> None:
    assert cache.owned(place) and not cache.owned(place / "none")
    mocker.patch("os.getuid", return_value=12345)
    with refused(UsageError):
        cache.owned(place)


def test_a_cache_that_others_may_have_filled(refused: Refused, place: Path) -> None:
    """(S3) Nothing of it is found, recalled or remembered."""
    (place / "refs" / "docker___site_app_1-7").write_text("sha256:1 - 7-ab docker://site/app:1\n")
    answer = cache.fact(place, ("what",))
    cache.remember(answer, "an answer")
    assert cache.find(place, "docker://site/app:1") and cache.recalled(answer)[0] == "an answer"
    place.chmod(0o777)
    assert cache.find(place, "docker://site/app:1") is None and cache.recalled(answer) == ("", 0.0)
    cache.remember(answer, "another")
    assert answer.read_text() == "an answer"
    with refused(UsageError):
        cache.owned(place)


def test_a_cache_that_cannot_be_entered(refused: Refused, place: Path) -> None:
    with refused(UsageError):
        cache.owned(place / ("x" * 300))


def test_clean_images(
    place: Path, mocker: MockerFixture, capsys: pytest.CaptureFixture[str], complaint: Complaint, says: Says
) -> None:
    queue = mocker.Mock()
    mocker.patch.object(user, "queue", return_value=queue)
    mocker.patch.object(slurm, "is_here", return_value=True)
    mnrun = Terminal(mocker, capsys)
    line = f"{place}/sha256-1.sif: docker://a, docker://b, 2 MB, unused for 40 days\n"
    words = ("clean", "--images", "--image-cache", str(place))
    queue.jobs.return_value = Snapshot((Job("7", "", JobState.RUNNING, start=NOW - 41 * DAY),), NOW)
    assert mnrun(*words).out == ""
    queue.jobs.return_value = Snapshot((), NOW)
    shown = mnrun(*words, "--dry-run")
    assert (shown.out, len(there(place))) == (f"would remove {line}", 5)
    says(shown.err)
    assert mnrun(*words).out == f"removed {line}"
    assert there(place) == ["refs/c", "sha256-2.sif"]
    queue.reset_mock()
    says(mnrun(*words).err)
    assert not queue.jobs.called
    complaint(mnrun(*words, "--older", "x"))


def test_a_first_answer_makes_a_private_cache(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        cache.remember(cache.fact(tmp_path / "group/cache", ("what",)), "an answer")
    finally:
        os.umask(before)
    made = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700, 0o700, 0o700]


def test_a_first_answer_makes_a_private_place_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(L9) ~/.mnrun has the records of jobs, too."""
    monkeypatch.setenv("HOME", str(tmp_path))
    before = os.umask(0)
    try:
        cache.remember(cache.fact(tmp_path / ".mnrun/cache", ("what",)), "an answer")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_dir()] == [0o700, 0o700, 0o700]


def test_a_link_is_removed_and_not_what_it_names(tmp_path: Path) -> None:
    kept, link = tmp_path / "kept", tmp_path / "link"
    (kept / "folder").mkdir(parents=True)
    (kept / "folder").chmod(0o755)
    link.symlink_to(kept)
    cache.delete(link)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (kept / "folder").stat().st_mode & 0o777 == 0o755


def test_an_answer_has_a_file_of_its_own(tmp_path: Path) -> None:
    """Its name is the same for each process, and that of no other question."""
    files = [cache.fact(tmp_path, question) for question in (("a", "b"), ("a", "c"), ("ab",), ("a", "b"))]
    assert files[0] == files[3] and len(set(files)) == 3
    assert files[0].name == "3135cd83d1e04443a4f2733ee937ce92"
