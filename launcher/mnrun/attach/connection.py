"""Open a connection into a running job over standard input and output, and write the lines by which ssh does so."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

from mnrun import environment
from mnrun.attach import target
from mnrun.errors import Impossible, UsageError
from mnrun.files import BASH, lean, spoken, wrapper
from mnrun.jobs.launches import LaunchRecord, is_name
from mnrun.model import Command, Words
from mnrun.record import Record
from mnrun.schedulers import SCHEDULERS
from mnrun.system import keys, paths

PREFIX = "mnrun"  # of the names of hosts for ssh: mnrun-42, and mnrun for the only job
FOLDER = "ssh"  # in ~/.mnrun: the keys of these connections


class Connection(Record):
    """A command on a node whose standard input and output are the connection, and the bytes that it reads first."""

    command: Command
    first: bytes = b""


def identity(word: str) -> str:
    """Return the id of a job that is written as the name of a host."""
    rest = word[len(PREFIX) :].lstrip("-") if word == PREFIX or word.startswith(f"{PREFIX}-") else word
    return rest if not rest or is_name(rest) else word


def by_sshd(launch: LaunchRecord, node: str, texts: Mapping[str, str], outside: bool) -> Connection:
    """Return a connection to the user's own sshd on a node. Its sessions are in the container, or `outside` of it."""
    from mnrun.reach import login_shell

    mark = {"mnrun_connection": os.urandom(8).hex()}
    where = environment.assignments({**mark, "mnrun_where": "outside" if outside else "inside"})
    session = _entering(launch, where + spoken("proxy_session.sh"))
    values = {
        **mark,
        "mnrun_hostkey": texts["hostkey"],
        "mnrun_public": texts["authorized_keys"],
        "mnrun_session": login_shell.line(session),
    }
    text = (environment.assignments(values) + lean(wrapper("proxy.sh"))).encode("ascii")
    words = _entering(launch, spoken("told.sh"))
    return Connection(_on(launch, node, words), b"%d\n%s" % (len(text), text))


def _entering(launch: LaunchRecord, lines: str) -> Words:
    """Return the words that run these lines in the job's directory on a node."""
    return (*BASH, "-c", f"{spoken('into.sh')}\n{lines}", launch.node_dir, "job.sh")


def to(launch: LaunchRecord, node: str, place: str) -> Connection:
    """Return a connection to a port of a node, or to the Unix socket of this path."""
    return Connection(_on(launch, node, (*BASH, "-c", spoken("forward.sh"), place)))


def _on(launch: LaunchRecord, node: str, words: Words) -> Command:
    scheduler = SCHEDULERS[launch.scheduler]
    if not scheduler.BINARY:
        problem = (
            f"{scheduler.CLIENT.partition(' -')[0]} of {scheduler.TITLE} loses bytes, so no connection goes through it"
        )
        raise Impossible(problem, f"use ssh to {node}, or mnrun exec and mnrun cp")
    return target.on_nodes(launch, [node], words, whole_lines=False)[0]


def user_keys(home: Path) -> dict[str, str]:
    """Return the keys of this user's connections by their names, which are made once. Raises UsageError."""
    folder = home / ".mnrun" / FOLDER
    try:
        if not folder.is_dir():
            _make(folder)
        with paths.entered(folder) as place:
            return {name: paths.content(place, name) for name in os.listdir(place)}
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}", "remove it, and mnrun makes new keys") from None


def _make(folder: Path) -> None:
    """Make the directory with all its files at once. Another process may do the same."""
    paths.private(folder.parent)
    made = Path(mkdtemp(prefix=f".{FOLDER}.", dir=folder.parent))  # 0700 (tempfile)
    for name, text in keys.make().items():
        with open(made / name, "w", encoding="utf-8", opener=_private) as file:
            file.write(text)
    with suppress(OSError):  # it is there, with its files (rename(2), ENOTEMPTY)
        made.rename(folder)
    shutil.rmtree(made, ignore_errors=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL, 0o600)


def config(call: Words, identity: str, user: str, login: str, texts: Mapping[str, str]) -> str:
    """Return the lines of ~/.ssh/config. `call` starts mnrun. `login` is the host through which another machine goes,
    which has the host's key in its line, and uses its own keys."""
    hosts = f"{PREFIX}-{identity}" if identity else f"{PREFIX} {PREFIX}-*"
    proxy = f"{_proxy(call, login)} %n"
    own = f"~/.mnrun/{FOLDER}"
    trust = [
        f"IdentityFile {own}/key",
        "IdentitiesOnly yes",
        "HostKeyAlias mnrun",
        f"UserKnownHostsFile {own}/known_hosts",
    ]
    lines = [f"ProxyCommand {proxy}", f"User {user}", *(_trust(texts) if login else trust)]
    return "\n  ".join([f"Host {hosts}", *lines, "StrictHostKeyChecking yes"]) + "\n"


def from_elsewhere(call: Words, job: str, user: str, login: str, texts: Mapping[str, str]) -> str:
    """Return the words behind `ssh -N -L …` by which another machine enters a job without a file of settings. The name
    of its node would be that of another key."""
    settings = (f"ProxyCommand {_proxy(call, f'{user}@{login}')} {job}", *_trust(texts))
    return shlex.join((*(word for one in settings for word in ("-o", one)), f"{user}@{PREFIX}-{job}"))


def _proxy(call: Words, login: str) -> str:
    proxy = f"{shlex.join(call)} proxy".replace("%", "%%")
    if not login:
        return proxy
    return f"ssh {shlex.quote(login)} {shlex.quote(proxy) if ' ' in shlex.join(call) else proxy}"


def _trust(texts: Mapping[str, str]) -> tuple[str, ...]:
    known = f"KnownHostsCommand /bin/echo {texts['known_hosts'].strip()}"
    return ("HostKeyAlias mnrun", known, "UserKnownHostsFile none")
