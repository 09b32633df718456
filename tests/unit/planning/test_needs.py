"""The files of a job that this machine may see: which ones, and a line about each fault."""

from __future__ import annotations

from typing import Any

import pytest

from mnrun.jobspec import JobSpec
from mnrun.model import Fault
from mnrun.planning import needs
from mnrun.planning.needs import Need
from unit.samples import build

RUN = "/home/alice/run"


def of_program(*command: str, **given: Any) -> list[str]:
    return [need.path for need in needs.files(build(*command, **given)) if need.subject == "program"]


def test_the_files_of_a_job() -> None:
    """The image, what is mounted, where it starts, and the program."""
    assert list(needs.files(build("./app", bind=("data:/d",), chdir="/scratch/run"))) == [
        Need("image", f"{RUN}/app.sif", "image"),
        Need("bind source", f"{RUN}/data"),
        Need("working directory", "/scratch/run"),
        Need("program", "/scratch/run/app", "program"),
        Need("job directory", "/home/alice/.mnrun/jobs", "written"),
    ]
    scripted = build(script="job.sh", image="docker://a/b")
    assert list(needs.files(scripted))[1:-1] == [Need("script", f"{RUN}/job.sh", "program")]


@pytest.mark.parametrize(
    ("word", "given", "path"),
    [
        ("app", {}, None),
        ("./app", {}, f"{RUN}/app"),
        ("bin/../app", {}, f"{RUN}/app"),
        ("/home/alice/app", {}, "/home/alice/app"),
        ("/opt/mpi/hello", {}, None),
        ("/opt/mpi/hello", {"runtime": "host"}, "/opt/mpi/hello"),
        ("/home/alice/app", {"no_home": True}, None),
        ("/d/app", {"bind": ("/scratch/data:/d",)}, "/scratch/data/app"),
        ("/d/app", {"bind": ("/scratch:/d", "/apps/app:/d/app")}, "/apps/app"),
        ("/dd/app", {"bind": ("/scratch:/d",)}, None),
    ],
)
def test_the_program_of_a_job(word: str, given: dict[str, Any], path: str | None) -> None:
    """A program that the image may have is the image's matter."""
    assert of_program(word, **given) == ([path] if path else [])


def test_torchrun_reads_its_program() -> None:
    """So it need not be executable."""
    (need,) = [need for need in needs.files(build("./train.py", launcher="torchrun")) if need.subject == "program"]
    assert need.kind == "path"


def test_a_line_about_each_fault() -> None:
    """Nodes may have other files, so that no fault is sure, unless this machine is the node."""

    def look(kind: str, path: str) -> str:
        return "is not on this machine" if kind in ("image", "program") else ""

    job: JobSpec = build("./app")
    assert needs.faults(job, lambda kind, path: "") == []
    assert needs.faults(job, look) == [
        Fault("image", f"the image {RUN}/app.sif is not on this machine; the job will fail unless its nodes have it"),
        Fault("program", f"the program {RUN}/app is not on this machine; the job will fail unless its nodes have it"),
    ]
    assert needs.faults(job, look, True) == [
        Fault("image", f"the image {RUN}/app.sif is not on this machine", True),
        Fault("program", f"the program {RUN}/app is not on this machine", True),
    ]


def test_the_directory_of_records_is_on_this_machine() -> None:
    """Whatever the nodes have."""
    (fault,) = needs.faults(build("app"), lambda kind, path: "cannot be written" if kind == "written" else "")
    assert fault == Fault("job-directory", "the job directory /home/alice/.mnrun/jobs cannot be written", True)
