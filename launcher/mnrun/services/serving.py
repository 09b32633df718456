"""Follow a service: the values that its nodes get, the record of its state, and the lines that show its page."""

from __future__ import annotations

import getpass
import json
import platform
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from mnrun import environment, versioned
from mnrun.errors import NotServing
from mnrun.model import BOX, Plan, Worker
from mnrun.nodes.status import Roster
from mnrun.schedulers.protocols import Reach
from mnrun.schedulers.vocabulary import StepPlace
from mnrun.system.paths import content, entered

FILE = "service"  # in the directory of a launch, and on its nodes
READY, WAITS, IDLE = "ready", "waits", "idle"  # states, as the first node reports them
LINES = 3  # nodes whose last line an error shows


@dataclass(frozen=True)
class Serving:
    """A service. In the record of its launch, with mode 0600, `page` is a path."""

    node: Annotated[str, "the node that answers"]
    port: Annotated[int, "the port there, on the loopback unless the program was told otherwise"]
    page: Annotated[str, "the address of its page through a tunnel of the same port, with the token"]
    token: Annotated[str, "the token, or empty for a program without one"] = ""
    state: Annotated[str, "`waits`, or `ready`"] = WAITS
    open: Annotated[bool, "whether it listens on more than the loopback, by its node once it is ready"] = False
    answer: Annotated[str, "why it is not ready, by its last answer: `it refuses connections`; else empty"] = ""

    @property
    def url(self) -> str:
        """Return the address of the page, as a tunnel of the same port shows it."""
        return f"http://127.0.0.1:{self.port}{self.page}"

    def lines(self, scheduler: Reach, number: str, entrance: Callable[[], str]) -> tuple[str, ...]:
        """Return the lines to paste, most of them on a machine that reaches this one by ssh. `number` is the id of the
        job there, and `entrance` gives the words by which ssh there enters the job itself, or ""."""
        place, login = StepPlace(number, (self.node,)), (getpass.getuser(), platform.node())
        tunnels = scheduler.tunnels(place, self.port, login, entrance)
        return (f"page:   {self.url}", *(f"{name + ':':7} {line}" for name, line in tunnels.items()), *self.who)

    def told(self, job: str) -> tuple[str, ...]:
        """Return what a launch says where others may be able to read it."""
        return (f"the service is ready on {self.node}; mnrun serve --show {job} prints its page", *self.who)

    @property
    def who(self) -> tuple[str, ...]:
        """Return a line about other people who can open it."""
        if self.token:
            return ()
        others = "everybody whom the network lets reach" if self.open else "every user of"
        more = " and listens on more than the loopback" if self.open else ""
        return (f"it has no token{more}: {others} {self.node} can open it",)


def of(plan: Plan, head: Worker) -> Serving:
    """Return the service of a launch whose nodes are ready. Its token is new, unless the job brings one."""
    service, token = plan.spec.service, ""
    if service.token:
        given = next((v.value for v in plan.spec.program.env if v.name == service.token), None)
        token = given or secrets.token_hex(16)
    port = service.address[1] or head.service
    return Serving(head.name, port, service.page.replace("{token}", token), token)


def files(serving: Serving, plan: Plan, workers: Sequence[Worker]) -> dict[str, str]:
    """Return name -> text of the file for both sides of a node: the values of its ranks, and those of the probe."""
    service, addresses = plan.spec.service, [worker.address or worker.host for worker in workers]
    host, _, path = service.address
    busy, _, sign = service.busy.partition(" ")
    text = "# shellcheck shell=sh disable=SC2034\n" + environment.assignments(
        {
            "mnrun_port": serving.port,
            "mnrun_token": serving.token,
            "mnrun_secret": service.token,
            "mnrun_nnodes": plan.layout.nnodes,
            "mnrun_addresses": " ".join(addresses),
            "mnrun_web": host.replace("{head}", addresses[0]),
            "mnrun_path": path,
            "mnrun_idle": service.idle or "",
            "mnrun_busy": busy,
            "mnrun_sign": sign,
        }
    )
    return {FILE: text, f"{BOX}/{FILE}": text}


def late(plan: Plan, roster: Roster) -> NotServing:
    """Return the error for a service that is not ready in time."""
    service, node = plan.spec.service, plan.layout.nodes[0]
    waits = "; ".join(f"{name} waits for {what}" for name, what in roster.waits.items())
    late = f"not ready {service.ready_timeout} s after the start: {roster.serves or 'no answer'}"
    problem = f"{service.ready} of {node} is {late}"
    return NotServing(f"{problem}{f'; {waits}' if waits else ''}", "--ready-timeout allows more time")


def last_lines(nodes: Mapping[int, str], labelled: bool, lines: Sequence[str]) -> str:
    """Return the last line of each node's ranks, the node that has been quiet for longest first. `nodes` are those of
    all ranks, or {} if they are unknown. With `labelled`, a line begins with its rank."""
    said: dict[str, tuple[int, str]] = dict.fromkeys(nodes.values(), (-1, "nothing"))  # node -> (place, line)
    for place, line in enumerate(lines):
        match = re.match(r" *(\d+): (.*)", line) if labelled else None
        rank, text = (int(match[1]), match[2]) if match else (0, line)
        if text.strip() and (rank in nodes or not nodes) and (match or (len(said) < 2 and not labelled)):
            said[nodes.get(rank, f"rank {rank}")] = (place, text.strip()[-200:])
    quiet = sorted(said.items(), key=lambda item: item[1][0])
    return "; ".join(f"last of {node}: {text}" for node, (_, text) in quiet[:LINES])


def read(folder: Path) -> Serving | None:
    """Return the record in the directory of a launch, or None if it is no service, or not begun."""
    try:
        with entered(folder) as place:
            return of_text(content(place, FILE))
    except OSError:
        return None


def of_text(text: str) -> Serving | None:
    """Return the record in a text, or None. An older mnrun may have written less of it."""
    try:
        values = json.loads(text)
        return Serving(**{field.name: values[field.name] for field in fields(Serving) if field.name in values})
    except (ValueError, TypeError):
        return None


def text(serving: Serving) -> str:
    return versioned.text(serving)


def words(serving: Serving | None) -> str:
    """Return the state of a service and its address, or "" without one."""
    if serving is None:
        return ""
    return f"{'serves' if serving.state == READY else 'starts'} {serving.node}:{serving.port}"
