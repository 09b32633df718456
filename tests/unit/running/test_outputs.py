"""Where a live run's program writes: names that are Slurm's patterns, and what has no name here."""

from __future__ import annotations

import errno
import os
import queue
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from mnrun.errors import NodeError, UsageError
from mnrun.model import Command, Culprit, Site
from mnrun.running import outputs
from mnrun.system.copied import PART
from mnrun.system.screen import Screen
from unit.cases import Cases
from unit.samples import SITE, build, make
from unit.texts import Refused, Says

ARRAY = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3", "USER": "alice", "SLURM_JOB_NAME": "interactive"}


def test_a_pattern_is_slurms(cases: Cases) -> None:
    """A file for each rank, node or step is something else."""
    cases(lambda pattern: outputs.name("--output", pattern, make(build("./app"), 1), SITE, ARRAY))


def test_without_slurm_a_job_has_our_id() -> None:
    plan = make(build("./app", job_name="mine"), 1)
    assert outputs.name("--error", "%x.%j.%a", plan, Site("local", "local"), {}) == "mine.7-abcdef.4294967294"


@pytest.mark.parametrize(
    ("given", "files"),
    [
        ({}, {}),
        ({"output": "o"}, {"output": "o", "error": "o"}),
        ({"error": "e"}, {"output": None, "error": "e"}),
        ({"output": "o", "error": "e"}, {"output": "o", "error": "e"}),
        ({"output": "o", "error": "o"}, {"output": "o", "error": "o"}),
    ],
)
def test_where_the_program_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], files: dict[str, str | None]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "o").write_text("before")

    def starter(*_: object, output: tuple[int | None, int | None] = (None, None), **__: object) -> Any:
        for fd, text in zip(output, (b"out ", b"err ")):
            if fd is not None:
                os.write(fd, text)

    def opened() -> set[str]:
        paths = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
        return {os.readlink(path) for path in paths if os.path.islink(path)}

    before = opened()
    with outputs.opened(make(build("./app", **given), 1), SITE, {}, starter) as (start, _):
        assert start is not None
        start("run", Command(()), {}, queue.SimpleQueue(), piped=False)
    assert opened() <= before
    for stream, name in files.items():
        if name is not None:
            both = len(set(files.values())) == 1
            assert (tmp_path / name).read_text() == ("out err " if both else f"{stream[:3]} ")


def test_output_that_a_disk_does_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], says: Says
) -> None:
    def full(target: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("mnrun.system.process.write", full)
    monkeypatch.chdir(tmp_path)

    def starter(*_: object, output: tuple[int | None, int | None] = (None, None), **__: object) -> Any:
        for fd in output:
            os.write(fd or -1, b"line\n")

    with outputs.opened(make(build("./app", output="o"), 1), SITE, {}, starter) as (start, written):
        with pytest.raises(NodeError), written.telling(Screen()) as lost:
            start("run", Command(()), {}, queue.SimpleQueue(), piped=False)
            raise NodeError("lost")
        assert written.lines()[-3:] == ["line", "line", ""]
    assert capsys.readouterr().err == f"mnrun: {lost[0]}\n"
    says(lost[0])


def test_a_full_disk_of_the_ranks_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, words in ((errno.ENOSPC, ["no space left on device"]), (errno.EACCES, [])):
        monkeypatch.setattr("tempfile.TemporaryFile", mock.Mock(side_effect=OSError(number, "")))
        with outputs.Written((), (), str(tmp_path)).telling(Screen(quiet=True)) as lost:
            pass
        assert lost == [f"{tmp_path}: {word}: the last output of ranks may be lost" for word in words]


def test_a_file_that_cannot_be_written(refused: Refused, tmp_path: Path) -> None:
    plan = make(build("./app", output=f"{tmp_path}/none/x"), 1)
    with refused(UsageError), outputs.opened(plan, SITE, {}, None):
        pass


def test_a_prompt_writes_to_its_terminal() -> None:
    assert not any(outputs.live_files(build(shell="input", output="x")).values())


def test_what_the_program_wrote_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"before\n")
    with open(path, "ab") as out, open(path, "ab") as err:
        written = outputs.Written((out.fileno(), err.fileno()))
        out.write(b"mnrun: a line\nmnrun: the program of n1 ended\nfirst\n\xff\n")
        out.flush()
        err.write(b"last\n")
        err.flush()
        assert written.lines() == ["mnrun: the program of n1 ended", "first", "\ufffd", "last", ""]
        out.write(b"x" * PART + b"\nend\n")
        out.flush()
        assert written.lines() == ["end", ""]


def test_a_pipe_is_not_read_again() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"text\n")
    assert outputs.Written((writer, -1)).lines() == []
    assert os.read(reader, 9) == b"text\n"
    os.close(reader)
    os.close(writer)


def test_the_files_of_the_rank_that_failed(tmp_path: Path) -> None:
    for rank in (0, 1):
        for stream in ("out", "err"):
            (tmp_path / f"rank.{rank}.{stream}").write_text(f"{stream} of {rank}")
    assert sorted(outputs.lines_of(Culprit(1, "node01"), str(tmp_path))) == ["err of 1", "out of 1"]
    assert outputs.lines_of(Culprit(1, "node01"), str(tmp_path / "none")) == []
    os.mkfifo(tmp_path / "rank.2.out")  # another user's, perhaps, into which nobody writes
    assert outputs.lines_of(Culprit(2, "node01"), str(tmp_path)) == [""]
