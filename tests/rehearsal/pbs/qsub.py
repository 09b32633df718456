"""qsub: read options and directives, hand the job in; wait for it, or be its terminal."""

from __future__ import annotations

import contextlib
import fcntl
import getopt
import os
import re
import secrets
import select
import signal
import socket
import sys
import termios
import time
import tty
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import wire
from .commands import UNREACHABLE, request, say
from .wire import Unreachable

OPTIONS = "a:A:c:C:e:fhIXj:J:k:l:m:M:N:o:p:P:q:r:R:S:u:W:v:Vz"
USAGE = """\
usage: qsub [-a date_time] [-A account_string] [-c interval]
	[-C directive_prefix] [-e path] [-f ] [-h ] [-I [-X]] [-j oe|eo] [-J X-Y[:Z]]
	[-k keep] [-l resource_list] [-m mail_options] [-M user_list]
	[-N jobname] [-o path] [-p priority] [-P project] [-q queue] [-r y|n]
	[-R o|e|oe] [-S path] [-u user_list] [-W otherattributes=value...]
	[-v variable_list] [-V ] [-z] [script | -- command [arg1 ...]]
       qsub --version"""
NO_TERMINAL = "qsub:\tstandard input and output must be a terminal for\n\tinteractive job submission"
NAME = re.compile(r"[\w.+-]+", re.ASCII)


@dataclass
class Asked:
    """What the command line asks for; directives fill what it leaves open."""

    options: dict[str, str] = field(default_factory=dict)
    resources: dict[str, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)

    def add(self, pairs: Sequence[tuple[str, str]]) -> None:
        given: dict[str, str] = {}
        for key, value in pairs:
            if key == "-l":
                for word in re.split(r",(?=\w+=)", value):
                    name, _, amount = word.partition("=")
                    self.resources.setdefault(name, amount)
            elif key == "-W":
                for word in re.split(r",(?=\w+=)", value):
                    name, _, other = word.partition("=")
                    self.others.setdefault(name, other)
            else:
                given[key[1:]] = value
        self.options = {**given, **self.options}


def fail(text: str, code: int) -> SystemExit:
    say(text)
    return SystemExit(code)


def parsed(words: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    try:
        pairs, rest = getopt.getopt(list(words), OPTIONS)
    except getopt.GetoptError as error:
        kind = "invalid option" if "not recognized" in error.msg else "option requires an argument"
        raise fail(f"qsub: {kind} -- '{error.opt}'\n{USAGE}", 2) from None
    for key, value in pairs:
        if key == "-N" and (not NAME.fullmatch(value) or len(value) > 230):
            long = len(value) > 230
            raise fail("qsub: Job name is too long " if long else f"qsub: illegal -N value\n{USAGE}", 2)
        found = re.fullmatch(r"(\d+)-(\d+)(:\d+)?(%\d+)?", value)
        if key == "-J" and not (found and int(found[1]) < int(found[2])):  # chk_Jrange.c
            raise fail(f"qsub: illegal -J value\n{USAGE}", 2)
    return pairs, rest


def directives(script: str, prefix: str) -> list[tuple[str, str]]:
    """Return the options of the lines before the first command."""
    found: list[tuple[str, str]] = []
    for line in script.splitlines():
        if line.startswith(prefix):
            text = line[len(prefix):].split(" #")[0]  # fmt: skip
            words = [re.sub(r"[\"']", "", word) for word in re.findall(r"(?:[^\s\"']|\"[^\"]*\"|'[^']*')+", text)]
            found += parsed(words)[0]
        elif line.strip() and not line.startswith("#"):
            break
    return found


def here() -> str:
    return os.getcwd()


def variables(options: dict[str, str]) -> dict[str, str]:
    """Return Variable_List: where qsub ran, and what -v and -V name."""
    environ = os.environ
    known = {"HOME": "HOME", "LANG": "LANG", "LOGNAME": "LOGNAME", "PATH": "PATH", "SHELL": "SHELL"}
    result = {f"PBS_O_{name}": environ[key] for name, key in known.items() if key in environ}
    result.update(PBS_O_INTERACTIVE_AUTH_METHOD="resvport", PBS_O_INTERACTIVE_ENCRYPT_METHOD="",
                  PBS_O_WORKDIR=here(), PBS_O_SYSTEM="Linux")  # fmt: skip
    if "V" in options:
        result.update({name: value for name, value in environ.items() if not name.startswith("PBS_")})
    for word in re.findall(r"(?:[^,\"']|\"[^\"]*\"|'[^']*')+", options.get("v", "")):
        name, equals, value = re.sub(r"[\"']", "", word).partition("=")
        if equals or name in environ:
            result[name] = value if equals else environ[name]
    if "I" in options:
        result["TERM"] = environ.get("TERM", "dumb")
    return result


def check(asked: Asked) -> None:
    """Refuse what qsub itself knows to be wrong."""
    if "nodes" in asked.resources and {"select", "place"} & set(asked.resources):
        raise fail("qsub: Cannot be used with select or place: nodes", 6)
    for name in ("ncpus", "mem", "ngpus", "mpiprocs", "host"):
        if "select" in asked.resources and name in asked.resources:
            text = f'qsub: "-lresource=" cannot be used with "select" or "place", resource is: {name}'
            raise fail(text, 5)


def begin(text: str) -> float:
    """Return the moment of -a [[CC]YYMMDD]hhmm[.SS]."""
    clock = text.split(".")[0][-4:]
    day = time.localtime()
    moment = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, int(clock[:2]), int(clock[2:]), 0, 0, 0, -1))
    return moment if moment > time.time() else moment + 86400


def submit(words: list[str]) -> tuple[str, Asked, socket.socket | None, str]:
    """Hand a job in; its id, what was asked, and where its terminal will come."""
    asked = Asked()
    pairs, rest = parsed(words)
    asked.add(pairs)
    argv = rest if "--" in words and words.index("--") == len(words) - len(rest) - 1 else []
    if not argv and len(rest) > 1:
        raise fail(USAGE, 2)
    interactive = "I" in asked.options
    script, name = "", "STDIN"
    if interactive:
        if not (os.isatty(0) and os.isatty(1)):
            raise fail(NO_TERMINAL, 1)
    elif not argv and rest and rest != ["-"]:
        try:
            with open(rest[0], encoding="utf-8", errors="surrogateescape") as file:
                script = file.read()
        except OSError as error:
            raise fail(f"qsub: script file:: {error.strerror}", 1) from None
        name = os.path.basename(rest[0])
    elif not argv:
        script = sys.stdin.read()
    asked.add(directives(script, asked.options.get("C", "#PBS")))
    asked.options.setdefault("N", name)
    check(asked)
    listener = socket.create_server(("", 0)) if interactive else None
    key = secrets.token_hex(16)
    size = list(fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))) if interactive else []
    reply = request(
        "submit", options=asked.options, resources=asked.resources, others=asked.others, script=script, argv=argv,
        arguments=" ".join(words), variables=variables(asked.options),
        interactive=[listener.getsockname()[1], key, size] if listener else [],
        after=begin(asked.options["a"]) if "a" in asked.options else 0,
    )  # fmt: skip
    if "error" in reply:
        raise fail(f"qsub: {reply['error']}", reply["code"] & 255)
    return reply["id"], asked, listener, key


def qsub(words: list[str]) -> int:
    """Be qsub."""
    if words == ["--version"]:
        print(f"pbs_version = {wire.VERSION}")
        return 0
    server = wire.conf("PBS_SERVER")
    try:
        job, asked, listener, key = submit(words)
    except Unreachable as error:
        say(f"{UNREACHABLE[error.number]}\nqsub: cannot connect to server {server} (errno={error.number})")
        return error.number & 255
    if listener:
        return _terminal(job, listener, key)
    if "z" not in asked.options:
        print(job, flush=True)
    return _wait(job) if asked.others.get("block") == "true" else 0


def _wait(job: str) -> int:
    def interrupted(number: int, _: object) -> None:
        say(f"qsub: wait for job {job} interrupted by signal {number}\nJob {job} is being deleted")
        request("change", what="delete", id=job)
        os._exit(2)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    said = str(wire.ask(wire.conf("PBS_SERVER"), wire.SERVER, None, do="wait", id=job)["said"])
    if said.isdigit():
        return int(said)
    say(said)
    return 3


def _terminal(job: str, listener: socket.socket, key: str) -> int:
    """Be the terminal of a job."""
    print(f"qsub: waiting for job {job} to start", flush=True)
    try:
        while True:
            link = listener.accept()[0]
            if link.makefile("rb", 0).readline().strip() == key.encode():
                break
            link.close()
    except KeyboardInterrupt:
        print("Do you wish to terminate the job and exit (y|[n])? y", flush=True)
        request("change", what="delete", id=job)
        print(f"Job {job} is being deleted")
        return 1
    print(f"qsub: job {job} ready\n", flush=True)
    before: list[Any] = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        with contextlib.suppress(OSError):
            while True:
                ready = select.select([0, link.fileno()], [], [])[0]
                data = link.recv(65536) if link.fileno() in ready else b"."
                if not data:
                    break
                if link.fileno() in ready:
                    os.write(1, data)
                if 0 in ready:
                    link.sendall(os.read(0, 4096))
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
    print(f"\nqsub: job {job} completed")
    return 0
