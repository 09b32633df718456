"""A job in the options of bsub."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnrun.planning.layout import lay_out
from mnrun.schedulers.lsf import options
from unit.cases import Cases, given
from unit.conftest import Shell
from unit.samples import build, changed


def written(words: str, **site: str) -> list[str]:
    spec = changed(build("./app", **{"nodes": "2", "ntasks_per_node": "2", **given(words)}), site={"lsf": site})
    return [line for line, _ in options.directives(spec, lay_out(spec, None))]


def test_lines_of_the_script(cases: Cases) -> None:
    """docs/reference/words.md has a line of each option. These are the cases beyond it."""
    cases(lambda words: "; ".join(line.removeprefix("#BSUB ") for line in written(words)))


def test_the_words_of_a_site() -> None:
    lines = written("mem=4G gpus_per_node=a100:2", memory="mem={slot}MB", gpus="num={gpus}:mode=shared:gmodel={type}")
    assert '#BSUB -R "rusage[mem=2048MB]"' in lines
    assert "#BSUB -gpu num=2:mode=shared:gmodel=a100" in lines


@pytest.mark.parametrize(
    ("words", "out", "err"),
    [
        ("output=%x-%j.out", "app-7.out", ""),
        ("output=%A_%a.log array=0-1", "7_2.log", ""),
        ("output='$(touch x)`y`\"%j.out'", '$(touch x)`y`"7.out', ""),
        ("output=a%%b error=%j.err", "a%b", "7.err"),
    ],
)
def test_the_script_itself_opens_its_files(sh: Shell, tmp_path: Path, words: str, out: str, err: str) -> None:
    (line,) = (line for line in written(words) if line.startswith("exec"))
    sh(f"{line}\necho out; echo err >&2", shell="bash", environ={"LSB_JOBID": "7", "LSB_JOBINDEX": "2"})
    texts = {out: "out\n", err: "err\n"} if err else {out: "out\nerr\n"}
    assert {name: (tmp_path / name).read_text() for name in texts} == texts
