"""How the master's container reaches the others: the texts that go to every node."""

from __future__ import annotations

import re

from mnrun.connect import pipe, ssh
from mnrun.model import Worker

WORKERS = (
    Worker("node01", "node01", "10.0.0.1", 22345, "3"),
    Worker("node02", "n2.site", "10.0.0.2", 22346, "3"),
    Worker("node03", "node03", "", 22345, "3"),
)


def test_ssh_config_whole() -> None:
    """A Host block per worker with its own address and port, by both of its names; nothing of ~/.ssh is read."""
    assert ssh.files("/tmp/mnrun.7-abc", WORKERS) == {
        "ssh_config": """\
# Written by mnrun for one job; always used as `ssh -F`, so that neither ~/.ssh nor /etc/ssh is read.
Host node01
    HostName 10.0.0.1
    Port 22345
Host node02 n2.site
    HostName 10.0.0.2
    Port 22346
Host node03
    HostName node03
    Port 22345
Host *
    IdentityFile /tmp/mnrun.7-abc/key
    IdentitiesOnly yes
    HostKeyAlias mnrun
    UserKnownHostsFile /tmp/mnrun.7-abc/known_hosts
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    BatchMode yes
    ForwardAgent no
    ForwardX11 no
    LogLevel ERROR
    ConnectTimeout 30
    ConnectionAttempts 3
    ServerAliveInterval 30
    ControlMaster no
"""
    }


def test_a_user_of_any_name() -> None:
    """B6: as guards say it in one word, for ssh in quotes; AD's have an @, a backslash or a blank."""
    users = {"alice@ad.example.com": "alice@ad.example.com", "AD\\vic": "AD\\vic", "first:last": "first last"}
    for said, user in users.items():
        config = ssh.files("/tmp/x", [Worker("node01", "node01", "10.0.0.1", 22345, "3", said)])["ssh_config"]
        assert f'    User "{user}"\n' in config, config


def test_sixty_four_workers_have_sixty_four_blocks() -> None:
    """One for each; the common part once, at the end, where ssh takes what was not said before."""
    workers = [Worker(f"node{n:02}", f"node{n:02}", f"10.0.0.{n}", 20000 + n) for n in range(1, 65)]
    text = ssh.files("/tmp/x", workers)["ssh_config"]
    assert re.findall(r"^Host (\S+)", text, re.MULTILINE) == [*(worker.name for worker in workers), "*"]


def test_the_names_of_nodes_whole() -> None:
    """Each worker by all the names that it has, once."""
    assert pipe.files("/tmp/x", WORKERS) == {
        "nodes": "node01 10.0.0.1\nnode02 n2.site 10.0.0.2\nnode03\n",
    }
