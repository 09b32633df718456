"""docs/troubleshooting.md has a section for each entry, and shows its message."""

from __future__ import annotations

import re
from pathlib import Path

from mnrun.diagnosis.recognise import TABLE, plain

PAGE = Path(__file__).resolve().parents[3] / "docs" / "troubleshooting.md"
TITLE = "## Messages of MPIs, runtimes, Slurm and Python\n"


def anchor(heading: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def sections() -> dict[str, list[str]]:
    _, text = PAGE.read_text(encoding="utf-8").split(TITLE)
    parts = re.findall(r"^### (.+)\n\n```text\n((?:.+\n)+)```\n\n.", text, re.MULTILINE)
    assert len(parts) == len(re.findall("^###? ", text, re.MULTILINE))
    return {anchor(heading): messages.splitlines() for heading, messages in parts}


def test_every_entry_has_a_section_and_every_section_an_entry() -> None:
    assert sorted(sections()) == sorted({entry.anchor for entry in TABLE})


def test_an_anchor_is_the_only_one_of_its_name_on_the_page() -> None:
    anchors = [anchor(heading) for heading in re.findall(r"^##+ (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)]
    assert {name for name in anchors if anchors.count(name) > 1} & set(sections()) == set()


def test_a_section_names_the_codes_of_its_entries() -> None:
    _, text = PAGE.read_text(encoding="utf-8").split(TITLE)
    for heading, line in re.findall(r"^### (.+)\n\n```text\n(?:.+\n)+```\n\nCodes?: (.+)\n", text, re.MULTILINE):
        entries = [entry.name for entry in TABLE if entry.anchor == anchor(heading)]
        assert re.findall("`([^`]+)`", line) == entries, heading
    assert text.count("\nCode: ") + text.count("\nCodes: ") == len(sections())


def test_a_section_shows_the_messages_of_its_entries() -> None:
    shown = sections()
    for entry in TABLE:
        assert any(entry.read(plain(message)) for message in shown[entry.anchor]), entry.name
    for name, messages in shown.items():
        for message in messages:
            found = [entry for entry in TABLE if entry.read(plain(message))]
            assert name in {entry.anchor for entry in found}, message
