"""How the master's container reaches the others: the texts that go to every node."""

from __future__ import annotations

import re
from pathlib import Path

from mnrun import connect
from mnrun.model import Worker
from unit.texts import Expected

WORKERS = (
    Worker("node01", "node01", "10.0.0.1", 22345, "3"),
    Worker("node02", "n2.site", "10.0.0.2", 22346, "3"),
    Worker("node03", "node03", "", 22345, "3"),
)


def test_ssh_config_whole(expected: Expected) -> None:
    """A Host block per worker with its own address and port, by both of its names; nothing of ~/.ssh is read."""
    (config,) = connect.files("ssh", "/tmp/mnrun.7-abc", WORKERS).items()
    assert config[0] == "ssh_config"
    expected(Path(__file__).parent / "recorded/ssh_config", config[1])


def test_a_user_of_any_name() -> None:
    """B6: as guards say it in one word, for ssh in quotes; AD's have an @, a backslash or a blank."""
    users = {"alice@ad.example.com": "alice@ad.example.com", "AD\\vic": "AD\\vic", "first:last": "first last"}
    for said, user in users.items():
        worker = Worker("node01", "node01", "10.0.0.1", 22345, "3", said)
        config = connect.files("ssh", "/tmp/x", [worker])["ssh_config"]
        assert f'    User "{user}"\n' in config, config


def test_sixty_four_workers_have_sixty_four_blocks() -> None:
    """One for each; the common part once, at the end, where ssh takes what was not said before."""
    workers = [Worker(f"node{n:02}", f"node{n:02}", f"10.0.0.{n}", 20000 + n) for n in range(1, 65)]
    text = connect.files("ssh", "/tmp/x", workers)["ssh_config"]
    assert re.findall(r"^Host (\S+)", text, re.MULTILINE) == [*(worker.name for worker in workers), "*"]


def test_the_names_of_nodes_whole() -> None:
    assert connect.files("pipe", "/tmp/x", WORKERS) == {"nodes": "node01 10.0.0.1\nnode02 n2.site 10.0.0.2\nnode03\n"}
