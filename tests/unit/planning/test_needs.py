"""The files of a job that this machine may see: which ones, and a line about each fault."""

from __future__ import annotations

from typing import Any

from mnrun.jobspec import JobSpec
from mnrun.model import Fault
from mnrun.planning import needs
from mnrun.planning.needs import Need
from unit.cases import Cases, given
from unit.samples import build
from unit.texts import Says

RUN = "/home/alice/run"


def of_program(*command: str, **given: Any) -> list[str]:
    return [need.path for need in needs.files(build(*command, **given)) if need.subject == "program"]


def test_the_files_of_a_job() -> None:
    assert list(needs.files(build("./app", bind=("data:/d",), chdir="/scratch/run"))) == [
        Need("image", f"{RUN}/app.sif", "image"),
        Need("bind source", f"{RUN}/data"),
        Need("working directory", "/scratch/run"),
        Need("program", "/scratch/run/app", "program"),
        Need("job directory", "/home/alice/.mnrun/jobs", "written"),
    ]
    scripted = build(script="job.sh", image="docker://a/b")
    assert list(needs.files(scripted))[1:-1] == [Need("script", f"{RUN}/job.sh", "program")]


def test_the_program_of_a_job(cases: Cases) -> None:
    cases(lambda options, word: of_program(word, **given(options)))


def test_torchrun_reads_its_program() -> None:
    (need,) = [need for need in needs.files(build("./train.py", launcher="torchrun")) if need.subject == "program"]
    assert need.kind == "path"


def test_a_line_about_each_fault(says: Says) -> None:
    """Nodes may have other files, so that no fault is sure, unless this machine is the node."""

    def look(kind: str, path: str) -> str:
        return "is not on this machine" if kind in ("image", "program") else ""

    job: JobSpec = build("./app")
    assert needs.faults(job, lambda kind, path: "") == []
    for sure in (False, True):
        found = needs.faults(job, look, sure)
        assert [(fault.code, fault.sure) for fault in found] == [("image", sure), ("program", sure)]
        for fault in found:
            says(fault.text)


def test_the_directory_of_records_is_on_this_machine() -> None:
    (fault,) = needs.faults(build("app"), lambda kind, path: "cannot be written" if kind == "written" else "")
    assert fault == Fault("job-directory", "the job directory /home/alice/.mnrun/jobs cannot be written", True)
