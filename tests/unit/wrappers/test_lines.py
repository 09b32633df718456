"""Lines that Python programs of several ranks print into one pipe."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mnrun.files import folder
from unit.world import World

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


def run(environ: dict[str, str], ranks: int) -> tuple[bytes, bytes]:
    """Return what ranks print, who share both streams."""
    output, given = os.pipe()
    errors, told = os.pipe()
    ended = [
        subprocess.Popen((sys.executable, "-c", PRINTS, str(rank)), stdout=given, stderr=told, env=environ)
        for rank in range(ranks)
    ]
    os.close(given)
    os.close(told)
    with open(output, "rb") as out, open(errors, "rb") as err:
        said = out.read(), err.read()
    for one in ended:
        one.wait()
    return said


def test_each_line_is_whole_and_none_is_lost(world: World) -> None:
    """A TERM ends each program after its last line."""
    environ = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(LINES), "PYTHONDONTWRITEBYTECODE": "1"}
    with world.allowed():
        out, err = run(environ, 4)
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
