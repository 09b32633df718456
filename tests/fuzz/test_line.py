"""The command line, and the options of every layer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from mnrun.cli.words.verbs import VERBS
from mnrun.config import layers
from mnrun.config.options import BY_NAME, OPTIONS, Option
from mnrun.errors import BUG
from mnrun.planning import layout
from mnrun.schedulers.slurm import values
from unit.samples import build, held
from unit.typed import Launched, Terminal
from unit.typed import job as job
from unit.typed import mnrun as mnrun

from .cases import CONTROL, answer, cases
from .texts import NUMBERS, TEXT, WORD, texts

FLAGS = sorted({flag for option in OPTIONS for flag in option.flags})
VALUES = (
    *("2", "4-8", "1:00:00", "app.sif", "docker://ubuntu:24.04", "node[01-02]", "gpu:2", "A=1", "/a:/b:ro", "srun"),
    "64G",
)
TYPED = st.one_of(
    st.sampled_from(FLAGS),
    st.sampled_from(VALUES),
    texts("-n=2", "--nodes=2", "-np", "--image=app.sif", "-it", "--rm"),
    st.sampled_from(["--", "./app", "mpirun", "python3", "docker", "run", "exec", "srun", "job.toml", *VERBS]),
)


@cases(
    cost=4,
    words=st.lists(TYPED.filter(lambda word: "\0" not in word), max_size=8),
    verb=st.sampled_from(["run", "plan"]),
)
def test_any_line_is_a_job_or_refused(mnrun: Terminal, job: Launched, words: list[str], verb: str) -> None:
    job.plans.clear()
    job.screens.clear()
    said = mnrun(verb, *words)
    assert said.code != BUG, said.err
    if {"-h", "--help", "--help-all"} & set(words):
        return
    for line in said.err.splitlines():
        assert line.startswith("mnrun: "), said.err
        assert not CONTROL.search(line)
    assert said.code == 0 or (said.err and not job.plans)


@cases(option=st.sampled_from(OPTIONS), text=st.one_of(TEXT, st.sampled_from(VALUES), st.sampled_from(NUMBERS)))
def test_any_value_of_an_option_is_one_or_refused(option: Option, text: str) -> None:
    raw = [text] if option.repeats else text
    value = answer(lambda: layers.parse(option, raw, "here"), 2)
    if isinstance(value, int) and option.kind == "number":
        assert layers.parse(option, str(value), "here") == value > 0
    environ = {option.variable: text} if option.variable else {}
    answer(lambda: layers.from_environment(environ), 2)


@cases(name=st.sampled_from(sorted({*values.INPUTS, *values.FURTHER})), text=TEXT, other=st.booleans())
def test_any_variable_of_sbatch_is_an_option_or_refused(name: str, text: str, other: bool) -> None:
    environ = {name: text, **({"SBATCH_EXCLUSIVE": "user"} if other else {})}
    answer(lambda: layers.from_scheduler(values.preset(environ), "slurm"), 2)


SIZES = (
    *("nodes", "ntasks", "ntasks_per_node", "cpus_per_task", "gpus_per_node", "gpus_per_task", "gpus", "nodelist"),
    *("gres", "hosts", "bind", "env", "chdir", "module", "ulimit", "ports", "job_name", "signal", "time", "slurm"),
    "exclude",
)


@cases(
    given=st.dictionaries(
        st.sampled_from(SIZES), st.one_of(TEXT, st.sampled_from(VALUES), st.integers(1, 9).map(str)), max_size=4
    ),
    nodes=st.integers(1, 6),
)
def test_any_request_has_a_layout_or_is_refused(given: dict[str, str], nodes: int) -> None:
    words: Any = {name: (value,) if BY_NAME[name].repeats else value for name, value in given.items()}
    spec = answer(lambda: build("./app", **words), 2, 122)
    if spec is None:
        return
    allocation = held(*(f"node{number:02}" for number in range(1, nodes + 1)), gpus=2)
    for here in (allocation, None):
        laid = answer(lambda: layout.lay_out(spec, here), 2, 122)  # noqa: B023  # called at once
        if laid is not None:
            assert laid.ntasks == sum(laid.ranks) >= 1
            assert all(rank >= 1 for rank in laid.ranks)
            assert spec.resources.ntasks in (None, laid.ntasks)


@pytest.mark.parametrize("verb", ["plan", "run"])
@cases(cost=10, text=TEXT)
def test_any_text_may_be_a_job_file_on_the_line(
    mnrun: Terminal, job: Launched, tmp_path: Path, verb: str, text: str
) -> None:
    (tmp_path / "job.toml").write_text(f"image = 'app.sif'\n{text}", encoding="utf-8", errors="surrogateescape")
    said = mnrun(verb, "job.toml", "--", "./app")
    assert said.code in (0, 2, 122), said.err
    assert said.code == 0 or said.err.splitlines()[-1].startswith("mnrun: ")


@cases(words=st.lists(WORD, min_size=1, max_size=8))
def test_words_of_the_program_reach_the_plan_as_they_are(mnrun: Terminal, job: Launched, words: list[str]) -> None:
    job.plans.clear()
    said = mnrun("run", "--image", "/app.sif", "--force", "--", "/bin/app", *words)
    assert said.code == 0, said.err
    assert job.plan.spec.program.command == ("/bin/app", *words)
    assert os.sep == "/"
