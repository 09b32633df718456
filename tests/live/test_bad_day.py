"""The lines of bad_day.md, typed one by one in a real cluster: each has the end that stands below it.

    $ LINE        alice types this to bash, on the login node, in a folder of her own
      CODE        the exit code
      WORDS       the last lines, of both streams

Lines that begin with `#` are not shown: they prepare what a line needs. The paragraph below a heading may say "In a
job of N nodes", which all lines of the chapter share, and "/full is a small disk". Ids, times and paths of one run are
replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from unit.texts import Expected

from .batch import forget
from .cells import MPICH, OMPI5
from .stage import LOGIN, Cluster, Desk

DOCUMENT = Path(__file__).with_name("bad_day.md")
CHAPTERS = re.findall(r"^## .*?(?=^## |\Z)", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^    ([$#]) (.*)\n((?:      .*\n)*)", re.MULTILINE)
JOB = re.compile(r"In a job of (\d) nodes?")
SHOWN = 4  # last lines
CHANGES = (
    (r"/home/alice/desk\.\d+", "DIR"),
    (r"\b(\d+|local)-[a-z0-9_]{6}\b", "ID"),
    (r"\b([Jj]ob|STEP|JOB|allocation) \d+(\.\d+)?", r"\1 ID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "TIME"),
    (r"\b\d+:\d\d(:\d\d)?\b", "TIME"),
    (r"(?<=logs -f )\d+", "ID"),
    (r"(?<=\S) {2,}", "  "),  # columns are as wide as their widest word
)
FILES = {
    # interrupted FILE COMMAND…: press Ctrl-C once FILE is there
    "interrupted": 'set -m; file=$1; shift; "$@" & until [ -e "$file" ]; do sleep 0.05; done; kill -INT $!; wait $!'
}


def run(cluster: Cluster, desk: Desk, line: str, job: str) -> str:
    held = [f"SLURM_JOB_ID={job}"] if job else []
    names = [f"OMPI5={OMPI5}", f"MPICH={MPICH}", f"PATH={desk.path}/bin:/usr/local/bin:/usr/bin:/bin"]
    shell = f"{{ {line}\n}} 2>&1 | cat; exit ${{PIPESTATUS[0]}}"
    done = cluster.alice(["env", *held, *names, "bash", "-c", shell], cwd=desk.path)
    words = done.out
    for pattern, change in CHANGES:
        words = re.sub(pattern, change, words)
    return "".join(f"      {text}".rstrip() + "\n" for text in (str(done.code), *words.splitlines()[-SHOWN:]))


@contextmanager
def small_disk(cluster: Cluster) -> Iterator[None]:
    try:
        for node in (LOGIN, cluster.nodes[0]):
            cluster.root(node, "sh", "-c", "mkdir -p /full && mount -t tmpfs -o size=64k,mode=1777 none /full")
        yield
    finally:
        for node in (LOGIN, cluster.nodes[0]):
            cluster.alice(["sh", "-c", "umount -l /full; rmdir /full"], node=node, user="root")


@pytest.fixture
def prepared(desk: Desk) -> Desk:
    desk.cluster.alice(["mkdir", f"{desk.path}/bin"])
    for name, text in FILES.items():
        desk.put(f"bin/{name}", f"#!/bin/bash\n{text}\n", 0o755)
    return desk


@pytest.mark.parametrize("chapter", CHAPTERS, ids=[text.splitlines()[0][3:] for text in CHAPTERS])
def test_every_line_has_its_end(cluster: Cluster, prepared: Desk, chapter: str, expected: Expected) -> None:
    """`--accept` writes the answers anew: read each of them before you commit it."""
    setting = re.split(r"    [$#] ", chapter, maxsplit=1)[0]
    nodes = JOB.search(setting)
    with ExitStack() as stack:
        if "/full is a small disk" in setting:
            stack.enter_context(small_disk(cluster))
        job = stack.enter_context(cluster.held(f"-N{nodes[1]}")) if nodes else ""

        def answered(row: re.Match[str]) -> str:
            answer = run(cluster, prepared, row[2], job)
            assert row[1] == "$" or answer.startswith("      0\n"), f"{row[2]}: {answer}"
            return f"    {row[1]} {row[2]}\n{answer if row[1] == '$' else ''}"

        now = ROW.sub(answered, chapter)
    forget(cluster)
    expected(DOCUMENT, DOCUMENT.read_text(encoding="utf-8").replace(chapter, now))
