"""Lines that Python programs of several ranks print into one pipe."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tty
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from mnrun.files import folder
from unit.world import World

Channel = Callable[[], tuple[int, int]]
LINES = folder("wrappers") / "ranks" / "lines"
PRINTS = """
import os, sys
for number in range(500):
    print("rank", sys.argv[1], "of", number)
print("10 %", end="\\r")
print("part", end="", flush=True)
sys.stdout.buffer.write(b"\\0\\xff\\n")
print(*sys.path[:1], os.environ.get("OWN", "-"), file=sys.stderr)
print("last")
os.kill(os.getpid(), 15)
"""


def terminal() -> tuple[int, int]:
    """Return both ends of a terminal that changes no byte."""
    output, given = os.openpty()
    tty.setraw(given)
    return output, given


def everything(end: int) -> bytes:
    """Return all that is written, until nobody can write any more, which is an error of a terminal's (EIO)."""
    said = b""
    with suppress(OSError):
        while block := os.read(end, 4096):
            said += block
    os.close(end)
    return said


def run(environ: dict[str, str], ranks: int, channel: Channel = os.pipe) -> tuple[bytes, bytes]:
    """Return what ranks print, who share both streams."""
    output, given = channel()
    errors, told = os.pipe()
    ended = [
        subprocess.Popen((sys.executable, "-c", PRINTS, str(rank)), stdout=given, stderr=told, env=environ)
        for rank in range(ranks)
    ]
    os.close(given)
    os.close(told)
    said = everything(output), everything(errors)
    for one in ended:
        one.wait()
    return said


@pytest.mark.parametrize("channel", [os.pipe, terminal])
def test_each_line_is_whole_and_none_is_lost(world: World, channel: Channel) -> None:
    """A TERM ends each program after its last line."""
    environ = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(LINES), "PYTHONDONTWRITEBYTECODE": "1"}
    with world.allowed():
        out, err = run(environ, 4, channel)
    whole = set(re.findall(rb"rank (\d) of (\d+)\n", out))  # a part of a line may precede another rank's line
    assert len(whole) == 2000
    assert out.count(b"10 %\r") == out.count(b"part") == out.count(b"\0\xff\n") == 4
    assert out.count(b"last\n") == 4
    assert set(err.decode().splitlines()) == {" -"}, "no directory of ours is left on sys.path"


@pytest.mark.parametrize("unbuffered", ["1", ""])
def test_a_sitecustomize_of_the_image_runs_too(world: World, tmp_path: Path, unbuffered: str) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\nos.environ['OWN'] = 'mine'\n")
    environ = {**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONPATH": f"{LINES}:{tmp_path}"}
    with world.allowed():
        out, err = run({**environ, "PYTHONDONTWRITEBYTECODE": "1"}, 1)
    assert err.decode().split() == ["mine"]
    assert (b"last\n" in out) == bool(unbuffered)
