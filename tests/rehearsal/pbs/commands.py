"""qstat, qdel, qsig, qhold, qrls, qalter, qrerun, qselect, pbsnodes, qmgr: each is a request and what it prints."""

from __future__ import annotations

import getopt
import json
import re
import signal
import sys
from collections.abc import Mapping
from typing import Any

from . import show, wire
from .wire import Unreachable

JOB = re.compile(r"\d+(\[\d*\])?(\.[\w.-]+)?")
UNREACHABLE = {wire.NO_HOST: "Unknown Host.", wire.REFUSED: "Connection refused"}


def request(do: str, **more: Any) -> wire.Reply:
    """Return the server's answer."""
    return wire.ask(wire.conf("PBS_SERVER"), wire.SERVER, do=do, **more)


def say(text: str) -> None:
    print(text, file=sys.stderr)


def usage(text: str) -> int:
    say(text)
    return 2


def qstat(words: list[str]) -> int:
    """Show jobs, queues or the server."""
    try:
        options, ids = getopt.getopt(words, "fF:xtHQB")
    except getopt.GetoptError as error:
        return usage(f"qstat: invalid option -- '{error.opt}'")
    given = dict(options)
    as_json = given.get("-F") == "json"
    server = wire.conf("PBS_SERVER")
    try:
        if "-Q" in given or "-B" in given:
            return _queues(given, ids, as_json)
        for word in ids:
            if not JOB.fullmatch(word):
                say(f"qstat: Unknown queue destination {word}")
                return wire.BAD_QUEUE & 255
        history = "-x" in given or "-H" in given
        reply = request("jobs", ids=ids, history=history, parts="-t" in given)
    except Unreachable as error:
        say(f"{UNREACHABLE[error.number]}\nqstat: cannot connect to server {server} (errno={error.number})")
        if as_json:
            print(show.document("Jobs", {}, server))
        return 255
    for text in reply.get("history", ()):
        say(f"qstat: {text}")
    if "history" in reply:
        return wire.NO_HISTORY & 255
    code = 0
    for number, one in reply["refusals"]:
        finished = number == wire.IN_HISTORY
        text = f"{one} Job has finished, use -x or -H to obtain historical job information"
        say(f"qstat: {text if finished else f'Unknown Job Id {one}'}")
        code = number & 255
    print(_jobs(reply["jobs"], given, server), end="")
    return code


def _jobs(jobs: Mapping[str, Any], given: Mapping[str, str], server: str) -> str:
    if given.get("-F") == "json":
        return show.document("Jobs", jobs, server) + "\n"
    if "-f" in given:
        return "".join(f"{show.full(one, has)}\n" for one, has in jobs.items())
    text = show.table(jobs)
    return text + "\n" if text else ""


def _queues(given: Mapping[str, str], names: list[str], as_json: bool) -> int:
    reply, server = request("queues"), wire.conf("PBS_SERVER")
    for name in names:
        if name not in (*reply["queues"], server):
            say(f"qstat: Unknown queue {name}")
            return wire.BAD_QUEUE & 255
    queues = {name: has for name, has in reply["queues"].items() if name in (names or reply["queues"])}
    kind, things = ("Queue", queues) if "-Q" in given else ("Server", {server: reply["server"]})
    if as_json:
        print(show.document(kind, things, server))
    else:
        for name, has in things.items():
            lines = [show.wrapped(key, value) for key, value in show.flat(has)]
            print("\n".join([f"{kind}: {name}", *lines, ""]))
    return 0


def _change(name: str, what: str, ids: list[str], **more: Any) -> int:
    code = 0
    for one in ids:
        if not JOB.fullmatch(one):
            say(f"{name}: illegally formed job identifier: {one}")
            code = 1
            continue
        try:
            reply = request("change", what=what, id=one, **more)
        except Unreachable as error:
            say(f"{UNREACHABLE[error.number]}\nCouldn't connect to cluster: {wire.conf('PBS_SERVER')}")
            return error.number & 255
        if reply["code"]:
            say(f"{name}: {reply['error']}")
            code = reply["code"] & 255
    return code


def _parsed(words: list[str], options: str, text: str) -> tuple[dict[str, str], list[str]]:
    try:
        pairs, rest = getopt.getopt(words, options)
    except getopt.GetoptError as error:
        raise SystemExit(usage(f"{error}\n{text}")) from None
    if not rest:
        raise SystemExit(usage(text))
    return dict(pairs), rest


def qdel(words: list[str]) -> int:
    text = "usage:\n\tqdel [-W force|suppress_email=X] [-x] job_identifier...\n\tqdel --version"
    given, ids = _parsed(words, "W:x", text)
    return _change("qdel", "delete", ids, force=given.get("-W") == "force")


def qsig(words: list[str]) -> int:
    given, ids = _parsed(words, "s:", "usage: qsig [-s signal] job_identifier...")
    name = given.get("-s", "TERM")
    if name in ("suspend", "resume"):
        return _change("qsig", "rerun", ids)  # operators' alone
    try:
        number = int(name) if name.isdigit() else signal.Signals[f"SIG{name.replace('SIG', '')}"].value
    except KeyError:
        say(f"qsig: Unknown or illegal signal name {ids[0]}")
        return 1
    return _change("qsig", "signal", ids, signal=number)


def qhold(words: list[str]) -> int:
    return _change("qhold", "hold", _parsed(words, "h:", "usage: qhold [-h hold_list] job_identifier...")[1])


def qrls(words: list[str]) -> int:
    return _change("qrls", "let", _parsed(words, "h:", "usage: qrls [-h hold_list] job_identifier...")[1])


def qrerun(words: list[str]) -> int:
    return _change("qrerun", "rerun", _parsed(words, "W:", "usage: qrerun [-W force] job_identifier...")[1])


def qalter(words: list[str]) -> int:
    given, ids = _parsed(words, "a:A:c:e:h:j:k:l:m:M:N:o:p:r:S:u:W:P:", "usage: qalter [options] job_identifier...")
    names = {"-N": "Job_Name", "-o": "Output_Path", "-e": "Error_Path", "-A": "Account_Name", "-p": "Priority"}
    attributes = {names[key]: value for key, value in given.items() if key in names}
    resources = dict(word.split("=", 1) for word in given.get("-l", "").split(",") if word)
    return _change("qalter", "alter", ids, attributes=attributes, resources=resources)


def qselect(words: list[str]) -> int:
    given = dict(getopt.getopt(words, "N:s:u:x")[0])
    try:
        jobs = request("jobs", ids=[], history="-x" in given, parts=False).get("jobs", {})
    except Unreachable as error:
        say(f"{UNREACHABLE[error.number]}\n"
            f"qselect: cannot connect to server {wire.conf('PBS_SERVER')} (errno={error.number})")  # fmt: skip
        return error.number & 255
    for one, has in jobs.items():
        fits = has["job_state"] in given.get("-s", has["job_state"])
        fits = fits and has["Job_Name"] == given.get("-N", has["Job_Name"])
        if fits and has["Job_Owner"].split("@")[0] == given.get("-u", has["Job_Owner"].split("@")[0]):
            print(one)
    return 0


def pbsnodes(words: list[str]) -> int:
    pairs, names = getopt.getopt(words, "aF:lvSj")
    given, server = dict(pairs), wire.conf("PBS_SERVER")
    try:
        nodes = request("nodes")["nodes"]
    except Unreachable as error:
        say(f"{UNREACHABLE[error.number]}\npbsnodes: cannot connect to server {server}, error={error.number}")
        return 1
    unknown = [name for name in names if name not in nodes]
    for name in unknown:
        say(f"Node: {name},  Error: Unknown node ")
    shown = {name: has for name, has in nodes.items() if not names or name in names}
    if given.get("-F") == "json":
        print(show.document("nodes", shown, server))
    elif "-l" in given:
        for name, has in shown.items():
            if has["state"] in ("down", "offline"):
                print(f"{name:<20} {has['state']} {has.get('comment', '')}")
    else:
        for name, has in shown.items():
            values = [(key, ", ".join(value) if isinstance(value, list) else value) for key, value in has.items()]
            print("\n".join([name, *(f"     {key} = {value}" for key, value in show.flat(dict(values))), ""]))
    return int(bool(unknown))


def qmgr(words: list[str]) -> int:
    """Set or list what tests need of the server."""
    line = dict(getopt.getopt(words, "c:")[0]).get("-c", "")
    found = re.fullmatch(r"set server (\w+) *= *(\w+)", line)
    if found:
        reply = request("set", name=found[1], value=found[2].capitalize())
        if reply["code"]:
            say(f"qmgr obj= svr=default: {reply['error']}")
            return 1
        return 0
    if re.fullmatch(r"(l|list|p|print) (s|server)", line):
        server = request("queues")["server"]
        form = "    {} = {}" if line.startswith("l") else "set server {} = {}"
        print(f"Server {wire.conf('PBS_SERVER')}" if line.startswith("l") else "#\n# Set server attributes.\n#")
        print("\n".join(form.format(key, value) for key, value in show.flat(server)))
        return 0
    say(f"qmgr: this stand-in does not know {json.dumps(line)}")
    return 1
