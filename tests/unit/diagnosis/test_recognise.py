"""The texts in texts/*.txt are what tools print. Each block has four lines in front:

    @@ the entry that recognises it
    @ made: the command that printed it on the rehearsal cluster, or  @ quoted: the place that shows it
    @ code: the exit code
    @ says: the diagnosis

A line with … stands for lines that were left out. The programs in w/ have one fault each. `arm` is for another CPU, and
`ls.newer` for a newer glibc. `needslib` needs a library. `segv` reads at address 0, and `bus` fills a file system by
mmap. `dfree` frees memory twice, and `badalloc` asks for all memory. `noexec.sh` is not executable, and
`badshebang.py` has a wrong #! line.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from mnrun.diagnosis.recognise import LINES, TABLE, diagnose, exception
from mnrun.model import ULIMITS

TEXTS = Path(__file__).parent / "texts"
HEAD = re.compile(r"^@@ (\S+)\n@ (made|quoted): (.+)\n@ code: (\d+)\n@ says: (.+)\n", re.MULTILINE)


@dataclass(frozen=True)
class Text:
    entry: str
    source: str
    code: int
    diagnosis: str
    output: str


def read() -> list[Text]:
    found = []
    for path in sorted(TEXTS.glob("*.txt")):
        content = path.read_text(encoding="utf-8")
        heads = list(HEAD.finditer(content))
        ends = [*(head.start() for head in heads[1:]), len(content)]
        for head, end in zip(heads, ends):
            entry, source, _, code, diagnosis = head.groups()
            found.append(Text(entry, source, int(code), diagnosis, content[head.end() : end]))
    return found


ALL = read()
MODULE = "ModuleNotFoundError: No module named 'pandas'"
TAKEN = "OSError: [Errno 98] Address already in use"


@pytest.mark.parametrize("text", ALL, ids=lambda text: text.entry)
def test_a_real_text_has_its_diagnosis(text: Text) -> None:
    found = diagnose(text.output.split("\n"), text.code)
    assert found is not None
    assert (found.name, str(found)) == (text.entry, text.diagnosis)


BARE = [text for text in ALL if text.entry.startswith(("python-", "shell-program", "env-program", "loader-", "tool-"))]


@pytest.mark.parametrize("text", BARE, ids=lambda text: text.entry)
def test_without_a_container_no_remedy_is_one(text: Text) -> None:
    found = diagnose(text.output.split("\n"), text.code, contained=False)
    assert found is not None and found.name == text.entry
    assert re.search(r"container|image|--bind", str(found)) is None


@pytest.mark.parametrize("text", ALL, ids=lambda text: text.entry)
def test_a_job_that_succeeds_has_none(text: Text) -> None:
    assert diagnose(text.output.split("\n"), 0) is None


def test_every_entry_has_a_real_text_and_a_name_of_its_own() -> None:
    names = [entry.name for entry in TABLE]
    assert sorted(names) == sorted({text.entry for text in ALL})
    assert len(names) >= 50
    assert sum(text.source == "made" for text in ALL) >= 20


@pytest.mark.parametrize("label", ["3: ", "  12: ", "[1,0]<stderr>: ", "[1,2]<stderr>:", "[rank3]: ", "[0] "])
@pytest.mark.parametrize("text", ["\x1b[31m{}\x1b[0m", "\x00{}", " 5%|#   | 1/20\r{}", "{}\r", "\x1b]0;job\x07{}"])
def test_labels_and_colours_do_not_matter(label: str, text: str) -> None:
    line = f"{label}{MODULE}" if "\r" in text[:-3] else label + text.format(MODULE)
    found = diagnose([text.format(line) if "\r" in text else line], 1)
    assert found is not None
    assert found.name == "python-module"


def test_a_diagnosis_has_no_control_characters() -> None:
    found = diagnose(["FileNotFoundError: [Errno 2] No such file or directory: 'a\x1b[2Jb\x9bc\x07'"], 1)
    assert str(found).startswith("the program found no ab")
    assert str(found).isprintable()


ORDINARY = (Path(__file__).parent / "ordinary.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("code", [None, *range(1, 126)])
def test_a_program_that_fails_by_its_own_code_has_none(code: int | None) -> None:
    assert diagnose([], code) is None
    assert diagnose(ORDINARY, code) is None


@pytest.mark.parametrize("line", ORDINARY)
def test_an_ordinary_line_has_none(line: str) -> None:
    assert diagnose([line], 1) is None


def test_a_message_of_a_shell_counts_only_with_its_code() -> None:
    lines = ["sh: 1: ./nosuch: not found"]
    assert diagnose(lines, 127) is not None
    assert diagnose(lines, 1) is None


def test_an_error_that_the_program_dealt_with_is_no_cause() -> None:
    assert diagnose([TAKEN, "ValueError: the matrix is singular"], 1) is None
    found = diagnose([TAKEN, MODULE], 1)
    assert found is not None
    assert found.name == "python-module"


def test_an_error_with_another_as_its_direct_cause() -> None:
    chain = "The above exception was the direct cause of the following exception:"
    found = diagnose([TAKEN, "", chain, "", "Traceback (most recent call last):", "app.StartError: no server"], 1)
    assert found is not None
    assert found.name == "python-address"


def test_the_end_of_a_child_is_no_new_cause() -> None:
    lines = [MODULE, "subprocess.CalledProcessError: Command '['python3', 'x.py']' returned non-zero exit status 1."]
    assert diagnose(lines, 1) is not None


def test_a_cause_precedes_what_follows_from_it() -> None:
    aborted = "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD"
    for lines in ([aborted, MODULE], [MODULE, aborted]):
        found = diagnose(lines, 1)
        assert found is not None
        assert found.name == "python-module"


def test_endless_output_is_read_in_bounded_time() -> None:
    begun = time.monotonic()
    assert diagnose((f"step {number}" for number in range(1_000_000)), 1) is None
    for letter in ("x", " ", "1", ":", "'", "x.", "[", "/a: "):
        long = letter * (1_000_000 // len(letter))
        assert diagnose([long] * 3 + [long + MODULE], 1) is None
        assert diagnose([long[:999]] * LINES, 1) is None
    assert time.monotonic() - begun < 60
    assert diagnose([MODULE, *["step"] * LINES], 1) is None


def test_invalid_text_does_no_harm() -> None:
    broken = b"\xff\xfe\x00 \xc3\x28"
    for errors in ("replace", "surrogateescape"):
        lines = [broken.decode("utf-8", errors), MODULE]
        assert diagnose(lines, 1) is not None


def test_a_remedy_names_a_limit_that_mnrun_takes() -> None:
    remedies = " ".join(entry.remedy for entry in TABLE)
    limits = re.findall(r"--ulimit (\w+)=", remedies)
    assert {"nofile", "fsize"} <= set(limits) <= set(ULIMITS)


RAISED = """Traceback (most recent call last):
  File "train.py", line 7, in <module>
    load(17)
ValueError: shard 17 is missing
"""


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (RAISED, 1, "ValueError: shard 17 is missing"),
        (RAISED * 2, 1, "ValueError: shard 17 is missing"),
        (RAISED + RAISED.replace("17", "18"), 1, ""),
        (RAISED, 3, ""),
        ("ValueError: shard 17 is missing\n", 1, ""),
    ],
)
def test_the_exception_of_a_program(text: str, code: int, said: str) -> None:
    """The one by which it ended. Several would be of several ranks, or were dealt with."""
    assert exception(text.splitlines(), code) == said
