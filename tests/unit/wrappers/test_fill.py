"""fill.sh run for real by each shell of an image: what a service's words become, and where its token is."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnrun import environment
from mnrun.files import wrapper
from unit.conftest import Shell

PLACE = {"NODE_RANK": "1", "LOCAL_RANK": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "20001"}
SERVICE = {
    "mnrun_port": 20002,
    "mnrun_token": "it's",
    "mnrun_secret": "KEY",
    "mnrun_nnodes": 4,
    "mnrun_addresses": "10.0.0.1 10.0.0.2",
}


@pytest.mark.parametrize(
    ("words", "filled"),
    [
        (("--port={port}", "{head}:{master_port}"), ("--port=20002", "10.0.0.1:20001")),
        (("{node_rank}/{nnodes}", "{local_rank}", "IP={address}"), ("1/4", "2", "IP=10.0.0.2")),
        (("{first:--web}", "{others:--headless}", "{others:{port}}"), ("--headless", "20002")),
        (
            ('{"a": {"b": 1}}', "{", "}{", "{other}", "", "a b\n"),
            ('{"a": {"b": 1}}', "{", "}{", "{other}", "", "a b\n"),
        ),
        (("${port}", '{"port": {port}}'), ("$20002", '{"port": 20002}')),
        ((), ()),
    ],
)
def test_words_of_a_service(
    sh: Shell, tmp_path: Path, shell: str, words: tuple[str, ...], filled: tuple[str, ...]
) -> None:
    (tmp_path / "service").write_text(environment.assignments(SERVICE))
    (tmp_path / "fill.sh").write_text(wrapper("fill.sh"))
    script = f"set -u; mnrun_here={tmp_path}; . ./fill.sh; for it; do printf '%s|' \"$it\"; done; env | grep ^KEY="
    said = sh(script, *words, shell=shell, environ=PLACE).decode()
    assert said == "".join(f"{word}|" for word in filled) + "KEY=it's\n"
