"""Completions of values: the words of a line as bash cuts them, and answers that come too late."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.shell_completion import CompletionItem
from pytest_mock import MockerFixture

from mnrun.attach import user
from mnrun.cli import complete, main
from mnrun.jobs import archive, launches
from mnrun.schedulers.flux import answers as flux
from mnrun.schedulers.kubernetes import answers as kubernetes
from mnrun.schedulers.lsf import answers as lsf
from mnrun.schedulers.pbs import answers as pbs
from mnrun.schedulers.queue import Job
from mnrun.schedulers.sge import answers as sge
from unit.cli.test_jobs import Slurm, lives
from unit.jobs.test_archive import made
from unit.samples import RECORDED

IMAGE = "docker://host:5000/app:1"


@pytest.mark.parametrize(
    ("cut", "words", "last", "goes_on"),
    [
        ("mnrun logs", ["logs"], "", IMAGE),
        ("mnrun logs do", ["logs"], "do", IMAGE),
        ("mnrun plan --image = docker", ["plan", "--image"], "docker", IMAGE),
        ("mnrun plan --image =", ["plan", "--image"], "", IMAGE),
        ("mnrun plan --image docker :", ["plan", "--image"], "docker:", "//host:5000/app:1"),
        ("mnrun plan --image = docker : //host : 50", ["plan", "--image"], "docker://host:50", "5000/app:1"),
        ("mnrun plan -x A = b docker : //h", ["plan", "-x", "A=b"], "docker://h", "//host:5000/app:1"),
    ],
)
def test_words_that_bash_cuts(
    monkeypatch: pytest.MonkeyPatch, cut: str, words: list[str], last: str, goes_on: str
) -> None:
    monkeypatch.setenv("COMP_WORDS", cut.replace(" ", "\n"))
    monkeypatch.setenv("COMP_CWORD", str(len(cut.split()) - (last != "" or cut.endswith("="))))
    bash = complete.Bash(main.main, {}, "mnrun", complete.ASKED)
    assert bash.get_completion_args() == (words, last)
    assert bash.format_completion(CompletionItem(IMAGE)) == f"plain,{goes_on}"


def test_records_that_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complete, "SECONDS", 0.05)
    monkeypatch.setattr(archive, "read", lambda *_: time.sleep(30))
    monkeypatch.setattr(user, "queue", None)
    begin = time.monotonic()
    assert complete.jobs(main.main.make_context("mnrun", ["status"]), main.main.params[0], "") == []
    assert time.monotonic() - begin < 10


def _said(path: str) -> str:
    return (RECORDED / path).read_text(encoding="utf-8")


def _pbs(name: str) -> list[Job]:
    return pbs.queue(pbs.records(_said(f"pbs/{name}.json"), "Jobs"), "alice")


def _of_kubernetes() -> list[Job]:
    job = {"kind": "Pod", "metadata": {"name": "train-abcde-0", "labels": {kubernetes.LABEL: "train-abcde"}}}
    return kubernetes.jobs([{**job, "spec": {}, "status": {"phase": "Running"}}])


@pytest.mark.parametrize(
    ("said", "ids"),
    [
        (_pbs("qstat-running"), ["57"]),
        (_pbs("qstat-array"), ["58"]),
        (sge.queue(_said("sge/qstat.xml"), {"24": "0-2"})[2:4], ["24_0", "24_1"]),
        (lsf.jobs(_said("lsf/bjobs.json"), 0)[2:4], ["22007_5"]),
        ([flux.job(entry) for entry in json.loads(_said("flux/jobs.json"))["jobs"][:1]], ["39578559840256"]),
        (_of_kubernetes(), ["train-abcde"]),
    ],
    ids=["pbs", "pbs-array", "sge", "lsf", "flux", "kubernetes"],
)
def test_jobs_of_each_scheduler(
    said: Sequence[Job], ids: list[str], mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A word is one that a verb takes. A job counts that only its records tell of, and a live run."""
    monkeypatch.setenv("HOME", str(tmp_path))
    base = tmp_path / ".mnrun" / "jobs"
    made(base, "4711", 0, time=time.time())
    lives(base, "hosts-abcdef", launches.mark())
    queue = Slurm()
    queue.known = tuple(said)
    mocker.patch.object(user, "queue", return_value=queue)

    def completed(values: complete.Values, begin: str = "") -> set[str]:
        context = main.main.make_context("mnrun", ["status"])
        return {item.value for item in values(context, main.main.params[0], begin)}

    assert {"4711", "hosts-abcdef", *ids} == completed(complete.jobs)
    assert {"hosts-abcdef", *ids} == completed(complete.unfinished)
    assert completed(complete.jobs, ids[0][:2]) == {*ids}
