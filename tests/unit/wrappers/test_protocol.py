"""wrappers/PROTOCOL.toml against the wrappers, the parser and job.sh. The documentation's page is written from it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from mnrun.files import folder, lean, wrappers
from mnrun.nodes import kit, status
from unit.samples import build, make
from unit.texts import Expected

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOP = Path(__file__).parents[3]
PROTOCOL = tomllib.loads((folder("wrappers") / "PROTOCOL.toml").read_text(encoding="utf-8"))
PYTHON = {path.name: path for path in (TOP / "launcher/mnrun").rglob("*.py")}
SHELL = {name: lean(path.read_text(encoding="utf-8")) for name, path in wrappers().items()}
PAGE = TOP / "docs/internals/protocol.md"
# How a wrapper says a word: to mnrun, to its guard, or to the other end of the pipe.
SAYS = re.compile(
    r"""(?:\b(?:say|last|mnrun_fail|lacking|follow|pump|fail|echo|printf))\ +["'$]*([a-z]+)(?=[\ "';)}]|$)"""
    r"""|\bword=(alive)\b""",
    re.MULTILINE,
)
TITLES = {
    "up": "From a node to mnrun",
    "box": "From a container to its guard",
    "down": "From mnrun to the nodes",
    "ask": "The pipe: from the node that asks",
    "answer": "The pipe: from the node that runs the command",
}


def said(name: str) -> set[str]:
    """Return the words that a wrapper may say. `fail` has no word of its own, where a function says it."""
    text = SHELL[name]
    return {
        *(word for pair in SAYS.findall(text) for word in pair),
        *(["fail"] if re.search(r"\b(fail|mnrun_fail|lacking) ", text) else []),
    }


@pytest.mark.parametrize(("direction", "word"), [(d, w) for d in TITLES for w in PROTOCOL[d]])
def test_a_word_is_said_by_its_senders(direction: str, word: str) -> None:
    for sender in PROTOCOL[direction][word]["by"]:
        if sender.endswith(".py"):
            assert re.search(rf"""["' b]{re.escape(word)}[ \\"'|)]""", PYTHON[sender].read_text(encoding="utf-8")), (
                sender
            )
        else:
            assert word in said(sender), sender


@pytest.mark.parametrize("name", sorted(SHELL))
def test_a_wrapper_says_no_other_word(name: str) -> None:
    """Lines to the guard go through `up`, in the directory of the job or in box."""
    known = {word for direction in TITLES for word, entry in PROTOCOL[direction].items() if name in entry["by"]}
    spoken = re.findall(r"""echo "?([a-z]+)[^"\n]*"? 1<>"?(?:\$mnrun_here/)?up\b""", SHELL[name])
    spoken += re.findall(r"""^ *say "?([a-z]+)\b""", SHELL[name], re.MULTILINE) if "say() {" in SHELL[name] else []
    assert {word for word in spoken if word not in ("stack", "gone", "rank")} <= known or name == "why.sh"


def test_the_parser_reads_each_word_of_a_node() -> None:
    read = set(re.findall(r'word == "(\w+)"', Path(status.__file__).read_text(encoding="utf-8")))
    assert read | {"alive"} == set(PROTOCOL["up"])  # leases.py reads that one


def test_the_guard_reads_each_word_of_the_lease() -> None:
    loop = SHELL["guard.sh"].rpartition("while listen; do")[2]
    read = {word for line in re.findall(r"^    ([a-z+| ]+)\)", loop, re.MULTILINE) for word in line.split(" | ")}
    assert read | {"alive", "copy", "take"} == {*PROTOCOL["down"], "ask", "answer"}


def test_the_guard_admits_the_words_of_containers() -> None:
    admit = SHELL["guard.sh"].partition("mnrun_words=")[2].partition("\nforward() {")[0]
    words = {*PROTOCOL["box"], "rank", "ended", "ready", "starter", "fail", *PROTOCOL["ask"], *PROTOCOL["answer"]}
    assert [word for word in sorted(words - {"in", "out", "err"}) if not re.search(rf"\b{word}\b", admit)] == []


@pytest.mark.parametrize("name", PROTOCOL["constants"])
def test_a_number_is_the_same_wherever_it_stands(name: str) -> None:
    for file, text in PROTOCOL["constants"][name]["in"].items():
        assert text in (PYTHON[file] if file in PYTHON else wrappers()[file]).read_text(encoding="utf-8")


def test_the_values_of_a_job_are_documented() -> None:
    names = re.findall(r"^mnrun_(\w+)='", kit.values(make(build("./app"), 1)), re.MULTILINE)
    assert names == list(PROTOCOL["job"])


def readers(value: str) -> list[str]:
    return sorted(name for name, text in SHELL.items() if re.search(rf"\$\{{?mnrun_{value}\b", text))


@pytest.mark.parametrize("value", PROTOCOL["job"])
def test_a_value_has_a_reader(value: str) -> None:
    assert readers(value)


def kept(word: str) -> str:
    """Return the members of Roster that keep what a node says by this word, as a cell of the page."""
    text = Path(status.__file__).read_text(encoding="utf-8")
    branch = re.search(rf'word == "{word}":\n(.*?)\n {{8}}e', text, re.DOTALL)
    names = dict.fromkeys(re.findall(r"self\.([a-z]\w*)", branch[1])) if branch else ()
    return ", ".join(f"`{name}`" for name in names)


def test_the_roster_keeps_what_ranks_say() -> None:
    assert kept("ended") == "`killed`, `first_bad`, `first_after_term`, `culprit`"
    assert [word for word in PROTOCOL["up"] if not kept(word)] == ["alive"]


def page() -> str:
    """Return the documentation's page."""
    lines = ["# The protocol", "", "mnrun and the wrappers on the nodes exchange lines of text. The table of words is"]
    lines += ["`wrappers/PROTOCOL.toml`, this page is written from it, and a test compares it with both sides.", ""]
    lines += ["[Lease and guard](lease-and-guard.md) explains the parts, and [the pipe](pipe.md) its flow.", ""]
    lines += ["## An example: a rank ends", "", PROTOCOL["about"]["example"]]
    for direction, title in TITLES.items():
        last = (" kept in |", "---|") if direction == "up" else ("", "")
        lines += [f"## {title}", "", PROTOCOL["about"][direction]]
        lines += [f"| word | arguments | meaning | said by |{last[0]}", f"|---|---|---|---|{last[1]}"]
        for word, entry in PROTOCOL[direction].items():
            args = entry["args"].replace("|", "\\|")
            files = ", ".join(f"`{name}`" for name in entry["by"])
            row = f"| `{word}` | {f'`{args}`' if args else ''} | {entry['means']} | {files} |"
            lines.append(f"{row} {kept(word)} |" if direction == "up" else row)
        lines.append("")
    lines += ["## Numbers", "", "| number | meaning | where |", "|---|---|---|"]
    for name, entry in PROTOCOL["constants"].items():
        where = ", ".join(f"`{text.strip()}` in `{file}`" for file, text in entry["in"].items())
        lines.append(f"| {name} | {entry['means']} | {where} |")
    lines += ["", "## The values of job.sh", "", "Each begins with `mnrun_`. An empty value means no.", ""]
    lines += ["| value | meaning | read by |", "|---|---|---|"]
    for value, means in PROTOCOL["job"].items():
        files = ", ".join(f"`{name}`" for name in readers(value))
        lines.append(f"| `{value}` | {means.replace('|', chr(92) + '|')} | {files} |")
    return "\n".join(lines) + "\n"


def test_the_page_is_written_from_the_table(expected: Expected) -> None:
    expected(PAGE, page())
