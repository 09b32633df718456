"""A pipe whose content goes on to a file that cannot be read again, and is kept."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import pytest

from mnrun.system.client import EXITED
from mnrun.system.copied import PART, Copied


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
    copied = Copied(writer, EXITED)
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
    """Also what waits in full pipes at the end."""
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
