"""A pipe whose content goes on to a file that cannot be read again, and is kept."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mnrun.schedulers.slurm.client import CLIENT_LINES
from mnrun.system import process
from mnrun.system.copied import PART, Copied
from unit.texts import Says


def test_all_goes_on_and_the_last_part_is_kept() -> None:
    reader, writer = os.pipe()
    copied = Copied(writer)
    os.write(copied.end, b"first\nlast \xff\n")
    copied.close()
    copied.close()
    assert os.read(reader, 99) == b"first\nlast \xff\n"
    assert copied.text == "first\nlast \ufffd\n"
    os.close(reader)
    os.close(writer)


def test_lines_of_the_client_alone_are_left_out() -> None:
    reader, writer = os.pipe()
    copied = Copied(writer, CLIENT_LINES.own)
    os.write(copied.end, b"first\nsrun: error: node01: task 0: Exited with exit code 3\nlast")
    copied.close()
    assert os.read(reader, 99) == b"first\nlast"
    assert copied.text == "first\nlast"
    os.close(reader)
    os.close(writer)


def test_of_much_only_whole_lines_at_the_end_are_kept() -> None:
    target = os.open(os.devnull, os.O_WRONLY)
    copied = Copied(target)
    with os.fdopen(os.dup(copied.end), "wb") as end:
        end.write(b"x" * PART + b"\nend\n")
    copied.close()
    assert copied.text == "end\n"
    os.close(target)


def test_a_reader_that_has_gone_does_not_end_the_program() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    copied = Copied(writer)
    for _ in range(3):
        assert os.write(copied.end, b"line\n") == 5
    copied.close()
    assert copied.text == "line\n" * 3
    os.close(writer)


@pytest.mark.parametrize("end", [Copied.close, Copied.drain])
def test_a_process_that_stays_does_not_delay_the_end(end: Callable[[Copied, float], None]) -> None:
    target = os.open(os.devnull, os.O_WRONLY)
    copied = Copied(target)
    kept = os.dup(copied.end)
    os.write(kept, b"line\n")
    begin = time.monotonic()
    end(copied, 0.2)
    assert time.monotonic() - begin < 20
    assert copied.text == "line\n"
    os.close(kept)
    copied.close()
    os.close(target)


def test_a_slow_reader_gets_everything() -> None:
    reader, writer = os.pipe()
    copied = Copied(writer)
    for size in (65536, 60000):  # a full pipe behind, and one in front
        os.write(copied.end, b"x" * size)
    found: list[int] = []
    begun = threading.Event()

    def read() -> None:
        for pause in (0.4, 0.4):
            time.sleep(pause)
            begun.set()
            found.append(len(os.read(reader, 65536)))

    slow = threading.Thread(target=read)
    slow.start()
    copied.drain(0.05)
    assert begun.is_set()  # so that the rest fits into the pipe
    slow.join()
    assert sum(found) == 125536
    os.close(writer)
    os.close(reader)


class Disk:
    """Stands in for process.write. It takes `room` bytes, and then none."""

    def __init__(self, room: int, number: int = errno.ENOSPC) -> None:
        self._room, self._number = room, number

    def __call__(self, target: int, data: bytes) -> None:
        self._room -= os.write(target, data[: self._room])
        if not self._room:
            raise OSError(self._number, os.strerror(self._number))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, says: Says) -> None:
    """The program goes on, as under srun, and nothing of what it writes later lands behind a hole."""
    monkeypatch.setattr(process, "write", Disk(3, number))
    path = tmp_path / "out"
    with open(path, "wb") as file:
        copied = Copied(file.fileno())
        os.write(copied.end, b"text\n")
        copied.drain()
        says(copied.lost())
        assert copied.lost("out").startswith("out: ")
    assert path.read_bytes() == b"tex"
    assert copied.text == "text\n"


def test_an_error_that_comes_late_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS and quotas may report it only where a file is closed."""
    closed = os.close

    def close(number: int) -> None:
        late = os.path.samestat(os.fstat(number), target)
        closed(number)
        if late:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    with open(tmp_path / "out", "wb") as file:
        target = os.fstat(file.fileno())
        monkeypatch.setattr(os, "close", close)
        copied = Copied(file.fileno())
        os.write(copied.end, b"text\n")
        copied.drain()
        assert "disk quota exceeded: 5 bytes are there" in copied.lost()


def test_what_is_written_is_no_loss(tmp_path: Path) -> None:
    with open(tmp_path / "out", "wb") as file:
        copied = Copied(file.fileno())
        os.write(copied.end, b"text\n")
        copied.drain()
        assert copied.lost() == ""
