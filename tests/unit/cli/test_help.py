"""Help without a network: verbs, pages and messages."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import setuptools
from pytest_mock import MockerFixture

from mnrun import files
from mnrun.cli import explain, main
from mnrun.cli import help as helping
from mnrun.cli.words import pages
from mnrun.cli.words.verbs import VERBS
from unit.typed import Complaint, Terminal

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_is_its_own(mnrun: Terminal, verb: str) -> None:
    """Their usage lines differ in the word `help` of click's path alone."""
    asked, own = mnrun("help", verb), mnrun(verb, "--help")
    assert own.out.startswith(f"Usage: mnrun {verb} ")
    assert (asked.code, asked.out) == (0, own.out)


def test_every_page_is_a_topic() -> None:
    known = pages.topics()
    assert sorted(known.values()) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    assert sorted(topic for _, topics in pages.listed(known) for topic in topics) == sorted(known)
    assert not {*known} & {*VERBS}


@pytest.mark.parametrize("topic", ["exit-codes", "reference/exit-codes", "docs/reference/exit-codes.md", "EXIT CODES"])
def test_a_page_has_several_spellings(mnrun: Terminal, topic: str) -> None:
    answer = mnrun("help", *topic.split())
    assert (answer.code, answer.out) == (0, (DOCS / "reference/exit-codes.md").read_text(encoding="utf-8"))


def test_help_lists_verbs_and_pages(mnrun: Terminal) -> None:
    words = mnrun("help").out.split()
    assert {*VERBS, *pages.topics()} <= {*words}


@pytest.mark.parametrize("topic", ["exit-cods", "troubleshoting", "nosuch", "jobset"])
def test_another_word_gets_the_nearest_topics(mnrun: Terminal, complaint: Complaint, topic: str) -> None:
    complaint(mnrun("help", topic))


@pytest.mark.parametrize("place", pages.SUBJECTS)
def test_a_word_leads_to_its_page(mnrun: Terminal, place: str) -> None:
    path, _, heading = place.partition("#")
    whole = (DOCS / path).read_text(encoding="utf-8")
    for word in pages.SUBJECTS[place].split():
        answer = mnrun("help", *word.split("-"))
        assert answer.code == 0
        if heading:
            assert answer.out.startswith(f"# {heading}\n")
            assert answer.out.splitlines()[2] in whole.partition(f"# {heading}\n")[2]
        else:
            assert answer.out == whole


def test_each_word_leads_to_one_page() -> None:
    words = [word for line in pages.SUBJECTS.values() for word in line.split()]
    assert len(words) == len({*words})
    assert not {*words} & {*VERBS, *pages.topics()}


def test_a_terminal_gets_a_page_without_links(
    mnrun: Terminal, mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = mocker.patch("click.echo_via_pager")
    mocker.patch.object(sys, "stdout", mocker.Mock(isatty=lambda: True))
    known = pages.topics()
    helping.show(pages.text("howto/kubernetes.md"), "howto/kubernetes.md", known)
    (page,) = said.call_args.args
    assert "](" not in page and "!!!" not in page and "What has run" in page
    assert "kubernetes-detached" in page.split("Pages:")[1]


@pytest.mark.parametrize("code", [0, 2, *explain.OWN, 126, 127, 130, 137, 139, 143])
def test_a_code_is_explained(mnrun: Terminal, code: int) -> None:
    answer = mnrun("explain", str(code))
    assert answer.code == 0
    assert len(answer.out.splitlines()) > 2


def test_code_121_leads_to_its_messages(mnrun: Terminal) -> None:
    out = mnrun("explain", "121").out
    assert "- its guard was killed\n" in out
    assert "job N reached its time limit" not in out


def test_every_reason_is_explained(mnrun: Terminal) -> None:
    reasons = [word for word in explain.known() if not word.isdigit()]
    assert {"node", "no-answer", "out-of-memory"} <= {*reasons}
    for word in (*reasons, "cuda-no-device"):
        assert explain.of_reason(word), word


@pytest.mark.parametrize(
    ("message", "heading"),
    [
        ("guard was killed", "its guard was killed"),
        ("mnrun: node01: its guard was killed (slurmstepd: error); look there for", "its guard was killed"),
        ("Batch job submission failed: Invalid partition name specified", "Invalid partition name specified"),
        ("9 ranks do not fit into 4 slots", "N ranks do not fit into M slots"),
        ("out of memory on n7: rank 0 was killed: the job has 9 MB", "out of memory on NODE: rank N was killed"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB", "GPU memory"),
        ("srun has started mnrun", "srun has started mnrun N times"),
    ],
)
def test_words_of_a_message_find_its_section(mnrun: Terminal, message: str, heading: str) -> None:
    assert mnrun("explain", message).out.startswith(f"# {heading}\n")
    assert mnrun("explain", *message.split()).out.startswith(f"# {heading}\n")


@pytest.mark.parametrize("words", ["xyzzy", "999", "frobnicate the widget"])
def test_what_no_page_has_is_told(mnrun: Terminal, complaint: Complaint, words: str) -> None:
    complaint(mnrun("explain", words))


def test_a_heading_finds_itself_and_its_anchor_leads_to_it() -> None:
    parts = pages.sections(explain.MESSAGES)
    anchors = {part: explain.anchor(part.heading, 1) for part in parts}
    assert [part.heading for part in parts if explain.ranked(part.heading)[0] != part] == []
    assert [anchor for part, anchor in anchors.items() if anchor and explain.ranked(anchor)[0] != part] == []
    assert max(len(anchor.split()) for anchor in anchors.values()) <= 4
    assert sum(map(bool, anchors.values())) > 150


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_alone_gets_the_anchor_of_a_message(mnrun: Terminal, mocker: MockerFixture, terminal: bool) -> None:
    error = mocker.patch.object(sys.stderr, "isatty", return_value=terminal)
    answer = mnrun("--no-alloc", "--image", "app.sif", "./app")
    assert error.called
    assert answer.err.endswith(" (mnrun explain allocation here)\n") == terminal


def test_a_message_without_a_page_gets_its_code() -> None:
    assert explain.anchor("xyzzy", 121) == "121"
    assert explain.anchor("xyzzy", 2) == ""


def test_the_wheel_has_the_pages(monkeypatch: pytest.MonkeyPatch, mocker: MockerFixture) -> None:
    setup = mocker.patch.object(setuptools, "setup")
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    words = setup.call_args.kwargs
    for path in DOCS.rglob("*.md"):
        package = ".".join(("mnrun", *path.parent.relative_to(ROOT).parts))
        assert package in words["packages"] and words["package_data"][package] == ["*.md"], path
        assert words["package_dir"][package] == str(path.parent.relative_to(ROOT))
    assert "py.typed" in words["package_data"]["mnrun"] and (files.folder("docs") / "index.md").is_file()
    assert main.VERBS is VERBS
