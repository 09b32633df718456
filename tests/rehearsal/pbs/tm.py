"""pbsdsh, pbs_tmrsh and pbs_attach: tasks of a job, by the MOM of this node."""

from __future__ import annotations

import getopt
import os
import signal
import socket
import sys
import threading
from typing import Any, NoReturn

from . import wire
from .commands import say
from .wire import Unreachable

PBSDSH = """\
Usage: pbsdsh [-c copies][-s][-v][-o] -- program [args...]
       pbsdsh [-n node_index][-s][-v][-o] -- program [args...]
       pbsdsh --version
Where -c copies =  run a copy of "program" on the first "copies" nodes,
      -n node_index = run a copy of "program" on the "node_index"-th node,
      -h hostname = run a copy of "program" on the node named by hostname,
      -s = forces synchronous execution,
      -v = forces verbose output.
      -o = no obits are waited for."""
TMRSH = "usage: pbs_tmrsh [-n][-l username] host [-n][-l username] command\n       pbs_tmrsh --version"


def tm(what: str, **more: Any) -> wire.Reply:
    """Ask this node's MOM; the environment of the job says who we are."""
    job, cookie = os.environ.get("PBS_JOBID", ""), os.environ.get("PBS_JOBCOOKIE", "")
    try:
        return wire.ask("localhost", wire.MOM, None, do="tm", what=what, job=job, cookie=cookie, **more)
    except Unreachable:
        return {"error": "system error"}


def hosts(program: str) -> list[str]:
    reply = tm("hosts")
    if "error" in reply:
        say(f"{program}: tm_init failed, rc = {reply['error']} (17005) (17005)")
        raise SystemExit(1)
    lines: list[str] = reply["lines"]
    return lines


def pbs_tmrsh(words: list[str]) -> int:
    """Run a command on a host of the job, and leave with its code."""
    if not words:
        say(TMRSH)
        return 255
    job = os.environ.get("PBS_JOBID", "")
    if words[0] == "-n":
        words = words[1:]
    if words[0] == "-l":
        say(f'pbs_tmrsh: bad user "{words[1]}"\n{TMRSH}')
        return 255
    host, *argv = words
    if host not in hosts("pbs_tmrsh"):
        say(f'pbs_tmrsh: host "{host}" is not a node in job <{job}>')
        return 255
    started = tm("start", on=host, argv=argv)
    if "error" in started:
        say(f"pbs_tmrsh: error on spawn: {started['error']}")
        return 255
    return int(tm("wait", on=host, task=started["task"]).get("code", 255)) & 255


def pbsdsh(words: list[str]) -> int:
    """Run a program once for each line of the node file."""
    try:
        pairs, argv = getopt.getopt(words, "c:n:h:svo")
    except getopt.GetoptError:
        pairs, argv = [], []
    given, lines = dict(pairs), hosts("pbsdsh")
    chosen = lines
    if "-n" in given:
        chosen = [lines[int(given["-n"]) % len(lines)]]
    elif "-c" in given:
        chosen = lines[: int(given["-c"])]
    elif "-h" in given:
        chosen = [line for line in lines if line == given["-h"]][:1]
    if not argv or not chosen:
        say(PBSDSH)
        return 1
    tasks: list[tuple[str, int]] = []

    def pass_on(number: int, _: object) -> None:
        for place, (host, task) in enumerate(tasks):
            say(f"pbsdsh: killing task 0x{0x40000000 + place:08X} signal {number}")
            tm("signal", on=host, task=task, signal=number)
        os._exit(1)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, pass_on)
    waits = []
    for place, host in enumerate(chosen):
        started = tm("start", on=host, argv=argv)
        if "error" in started:
            say(f"pbsdsh: spawn failed on node {place} err {started['error']}")
            continue
        tasks.append((host, started["task"]))
        waits.append(threading.Thread(target=_end, args=(place, host, started["task"], "-v" in given), daemon=True))
        waits[-1].start()
        if "-s" in given:
            waits[-1].join()
    for thread in waits if "-o" not in given else ():
        thread.join()
    return 0


def _end(place: int, host: str, task: int, verbose: bool) -> None:
    code = tm("wait", on=host, task=task).get("code", 0)
    if code or verbose:
        say(f"pbsdsh: task 0x{place:08X} exit status {code}")


def pbs_attach(words: list[str]) -> int:
    """Take this session for one of the job's, and become the command. With -s it is a session of its own."""
    pairs, argv = getopt.getopt(words, "j:sm:p:h:")
    given = dict(pairs)
    if not argv:
        say("usage: pbs_attach [-s] [-j jobid] [-m port] [-p pid] cmd [arg1 ...]")
        return 2
    if "-s" in given:
        child = os.fork()
        if child:
            code = os.waitpid(child, 0)[1]
            return os.WEXITSTATUS(code) if os.WIFEXITED(code) else 128 + os.WTERMSIG(code)
        os.setsid()
    if "-j" in given:
        name = socket.gethostname()
        try:
            reply = wire.ask(name, wire.MOM, do="attach", job=given["-j"], session=os.getsid(0))
        except Unreachable:
            reply = {"error": "system error"}
        if "error" in reply:
            say(f"{wire.conf('PBS_EXEC')}/bin/pbs_attach: tm_attach: {reply['error']} (17006)")
            return 1
    return _become(argv)


def _become(argv: list[str]) -> NoReturn:
    for number in (signal.SIGPIPE, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)  # Python's own
    try:
        os.execvpe(argv[0], argv, {**os.environ, "MPICH_PROCESS_GROUP": "no"})
    except OSError as error:
        print(f"pbs_attach: {argv[0]}: {error.strerror}", file=sys.stderr)
        os._exit(254)
