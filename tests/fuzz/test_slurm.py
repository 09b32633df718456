"""What Slurm's commands answer."""

from __future__ import annotations

import json
import time
from dataclasses import asdict

from hypothesis import strategies as st

from mnrun import formats
from mnrun.schedulers.queue import Job
from mnrun.schedulers.slurm import answers, reasons, scontrol
from mnrun.schedulers.vocabulary import span
from unit.samples import RECORDED, recorded

from .cases import answer, cases
from .texts import HOST, TEXT, near, texts

SAID = RECORDED / "answers"
JOBS = tuple(
    recorded(name)[0] for name in ("plain", "gpus", "het", "uneven", "comment") if (RECORDED / f"{name}.txt").exists()
)
LINE = {name: (SAID / f"{name}.txt").read_text().splitlines() for name in ("squeue", "sacct", "sinfo")}
VARIABLES = st.dictionaries(st.sampled_from(["SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_STEP_ID"]), TEXT)


def told(job: Job) -> None:
    """Fail if nothing could be said about the job."""
    assert json.loads(json.dumps(asdict(job))) is not None
    assert reasons.sentence(job, time.time())
    assert job.covers(job.id)
    assert job.covers("7_3") is not None
    assert span(int(job.end - job.start)) is not None


@cases(text=near(JOBS), environ=VARIABLES)
def test_any_answer_of_scontrol_is_a_job_or_refused(text: str, environ: dict[str, str]) -> None:
    found = answer(lambda: scontrol.allocation(scontrol.of_job("82", text), environ), 123)
    assert found is None or (found.nodes and all(node.cpus >= 1 and node.gpus >= 0 for node in found.nodes))


@cases(name=TEXT, comment=TEXT)
def test_no_name_and_no_comment_of_a_job_changes_its_nodes(name: str, comment: str) -> None:
    """scontrol prints both as they are, but for line ends."""
    text, environ = recorded("plain")
    plain = scontrol.allocation(text, environ)
    name, comment = ("".join(word.splitlines()) for word in (name, comment))
    odd = text.replace("JobName=interactive", f"JobName={name}").rstrip("\n") + f"Comment={comment} \n"
    assert scontrol.allocation(odd, environ) == plain


@cases(text=texts("slurm 24.11.5", "slurm-wlm 22.05.8", "slurm 26.05.0-0rc1"))
def test_any_text_is_a_version_or_refused(text: str) -> None:
    answer(lambda: scontrol.version(text), 123)


@cases(line=near(LINE["squeue"]))
def test_any_columns_of_squeue_are_jobs(line: str) -> None:
    for job in answers.squeue_columns(line):
        told(job)


@cases(name=HOST, state=st.sampled_from(["RUNNING", "PENDING"]), job=TEXT, nodes=st.integers(0, 9999))
def test_a_column_comes_back(name: str, state: str, job: str, nodes: int) -> None:
    job = "".join(job.splitlines()).strip()[:256].strip()
    row = {"JobArrayID": "7", "State": state, "NodeList": name, "NumNodes": str(nodes), "Name": job}
    text = "".join(f"{row.get(column, ''):<{width}}" for column, width in answers.widths(answers.SQUEUE))
    (found,) = answers.squeue_columns(text)
    assert (found.state, found.nodelist, found.nodes, found.name) == (state, name, nodes, job)


@cases(line=near(LINE["sacct"]))
def test_any_line_of_sacct_is_a_job_or_none(line: str) -> None:
    for job in answers.sacct_lines(line):
        told(job)


@cases(line=near(LINE["sinfo"]))
def test_any_columns_of_sinfo_are_nodes(line: str) -> None:
    for node in answers.sinfo_columns(line):
        assert node.gpus >= 0
        assert node.cpus >= 0


@cases(text=texts("gres/gpu=4,gres/gpu:a100=4", "gpu:2(IDX:0-1)", "gres:gpu:h100:8", "gpu", "cpu=1"))
def test_any_text_has_a_number_of_gpus(text: str) -> None:
    assert answers.gpus_in(text) >= 0


@cases(
    option=st.sampled_from(sorted(formats.FORMATS)),
    text=texts("1-12:00:00", "1d12h", "64G", "0-99%5", "afterok:12:13,singleton"),
)
def test_any_value_for_slurm_passes_or_is_refused(option: str, text: str) -> None:
    answer(lambda: formats.read(option, text, "job.toml line 3"), 2)
