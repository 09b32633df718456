"""The lines of the first five minutes: help, verbs that do not exist, and the lines that answers propose."""

from __future__ import annotations

import re
import shlex

import pytest

from published import checked

from .cells import HELLO, OMPI5
from .reports import check, only_line
from .stage import Cluster, Desk

BOX = ("--image", OMPI5)


def test_first_words_help(cluster: Cluster) -> None:
    page = cluster.alice(["mnrun", "--help"])
    assert (page.code, page.err) == (0, ""), page
    assert len(page.out.splitlines()) <= 24, page
    assert page.out == cluster.alice(["mnrun"]).out
    assert cluster.alice(["mnrun", "help"]).out.startswith(page.out)
    assert cluster.alice(["mnrun", "help", "submit"]).out == cluster.alice(["mnrun", "submit", "--help"]).out
    every = cluster.alice(["mnrun", "run", "--help-all"]).out
    assert "--start-timeout" in every
    assert "--start-timeout" not in cluster.alice(["mnrun", "run", "--help"]).out
    assert cluster.alice(["mnrun", "version"]).out == cluster.alice(["mnrun", "--version"]).out


@pytest.mark.parametrize(
    "words",
    [
        (HELLO, *BOX, "-n", "2"),
        (OMPI5, HELLO),
        ("apptainer", "exec", OMPI5, HELLO),
        (*BOX, "srun", HELLO),
        (*BOX, "--report-bindings", HELLO),
        (*BOX, "--writable-tmpfs", HELLO),
    ],
)
def test_first_words_of_an_answer_work(cluster: Cluster, desk: Desk, words: tuple[str, ...]) -> None:
    with cluster.held("-N2") as job:
        typed = ["env", f"SLURM_JOB_ID={job}", "mnrun"]
        answer = only_line(cluster.alice([*typed, *words], cwd=desk.path), 2)
        whole = re.search(r"mnrun (--image .*)", answer)
        option = re.search(r"use (--.*)", answer)
        assert whole or option, answer
        right = shlex.split(whole[1]) if whole else [*BOX, *shlex.split(option[1] if option else ""), HELLO]
        check(cluster.alice([*typed, *right], cwd=desk.path), "node01", "node02", tasks=1)


def test_first_words_of_sbatch_are_handed_on(cluster: Cluster, desk: Desk) -> None:
    words = [*BOX, "-N1", "-o", "out", "--job-dir", f"{desk.path}/jobs", HELLO]
    answer = only_line(cluster.alice(["mnrun", "submit", "--comment=a b", *words], cwd=desk.path), 2)
    option = re.search(r"use (--slurm .*)", answer)
    assert option, answer
    done = cluster.alice(["mnrun", "submit", "--wait", *shlex.split(option[1]), *words], cwd=desk.path)
    assert done.code == 0, done
    number = done.out.split()[0]
    assert "Comment=a b " in cluster.alice(["scontrol", "show", "job", "-o", number]).out


def test_first_words_behind_a_job_file(cluster: Cluster, desk: Desk) -> None:
    file = desk.put("job.toml", f'command = ["echo", "from the file"]\nimage = "{OMPI5}"\nnodes = 1\noutput = "out"\n')
    line = ("-Q", "-n", "1", "--")
    live = cluster.mnrun(file, *line, "--lr", "0 2", nodes=1, tasks=0)
    assert (live.code, live.out) == (0, "from the file --lr 0 2\n"), live
    other = cluster.mnrun(file, *line, "echo", "other", nodes=1, tasks=0)
    assert (other.code, other.out) == (0, "other\n"), other
    words = ["--wait", file, "-n", "1", "--job-dir", f"{desk.path}/jobs", "--", "--lr", "0 2"]
    done = cluster.alice(["mnrun", "submit", *words], cwd=desk.path)
    assert done.code == 0, done
    assert b"from the file --lr 0 2\n" in desk.read("out")


def test_first_words_with_a_tilde(cluster: Cluster, desk: Desk) -> None:
    desk.put("data", "text\n")
    home = f"~/{desk.path.rpartition('/')[2]}"
    line = ["-Q", "-n", "1", *BOX, f"--bind={home}:/there", f"--split-output={home}/out", "cat", "/there/data"]
    result = cluster.mnrun(*line, nodes=1, tasks=0)
    assert (result.code, desk.read("out/rank.0.out")) == (0, b"text\n"), result
    line = ["-Q", "-n", "1", *BOX, "cat", "/there/data"]
    result = cluster.mnrun(*line, nodes=1, tasks=0, env={"MNRUN_BIND": f"{home}:/there"})
    assert (result.code, result.out) == (0, "text\n"), result


def test_first_words_that_have_no_effect_are_noted(cluster: Cluster) -> None:
    line = ("-n", "1", *BOX, "--runtime", "host", "--env=A=1,B=2", "sh", "-c", "echo $A")
    result = cluster.mnrun(*line, nodes=1, tasks=0)
    assert (result.code, result.out) == (0, "1,B=2\n"), result
    assert "mnrun: warning: --image has no effect, since --runtime host" in result.err, result
    assert "mnrun: warning: -x A=…,B=… sets A alone" in result.err, result


def test_first_words_json_in_both_spellings(cluster: Cluster) -> None:
    for words in (("status",), ("nodes",), ("plan", "-N", "1", *BOX)):
        verb, *rest = words
        short = cluster.alice(["mnrun", verb, "--json", *rest, *([HELLO] if rest else [])])
        long = cluster.alice(["mnrun", verb, "--format", "json", *rest, *([HELLO] if rest else [])])
        assert (short.code, long.code) == (0, 0), (short, long)
        assert checked(verb, short.out).keys() == checked(verb, long.out).keys()
