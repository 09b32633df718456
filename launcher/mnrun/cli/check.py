"""`mnrun check`: survey this machine, or every node of a job, for the programs that jobs in containers need."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mnrun import nodeset
from mnrun.cli.parsing import json_option, print_json, some_options
from mnrun.errors import Impossible, UsageError

if TYPE_CHECKING:
    from mnrun.nodes.survey import Finding
    from mnrun.running.findings import Checked
    from mnrun.running.view import View

# Options that ask Slurm for nodes, if there are none.
REQUEST = ("nodes", "nodelist", "exclude", "partition", "account", "qos", "time", "constraint", "reservation")


@click.command()
@some_options(*REQUEST, "module", "image", "runtime", "hosts", "hostfile", "ssh_user", "ssh_port", "local")
@json_option
def check(as_json: bool, **options: object) -> None:
    """Show the runtimes, GPUs and MPIs of nodes, what is missing, and how to get it.

    The nodes are those of the job that you are in, of --hosts, or else this machine. Outside a job, -N, -p, -w
    and the like get nodes from the scheduler. --image also shows whether that image fits the nodes. The exit code is
    122 if no runtime works on all of them, or the image does not fit.
    """
    from mnrun.nodes.survey import Findings
    from mnrun.running import findings
    from mnrun.system import screen

    if options["runtime"] and not options["image"]:
        problem = f"--runtime {options['runtime']} has no effect without an image"
        raise UsageError(problem, "name one with --image REF, or leave it out: check shows every runtime")
    checked = findings.check(options, any(options[name] for name in REQUEST))
    if as_json:
        print_json(Findings((*checked.rows, *_of_image(checked.view))))
    else:
        screen.table(("SUBJECT", "", "NODES", "FOUND", "TO DO"), _rows(checked.rows))
        for line in _verdict(checked.view):
            click.echo(line)
    _refuse(checked)


def _verdict(view: View | None) -> list[str]:
    return [line.rstrip() for line in view.judgement.lines if line.strip()] if view else []


def _of_image(view: View | None) -> list[Finding]:
    from mnrun.nodes.survey import NO, OK, PART, Finding

    if view is None:
        return []
    verdict = view.judgement.verdict
    state = PART if verdict is None else OK if verdict.chosen.works else NO
    return [Finding("", "image", state, "; ".join(map(str.strip, _verdict(view))))]


def _refuse(checked: Checked) -> None:
    """Raise Impossible if no job could run. Say where to ask if only the login node was asked."""
    from mnrun.nodes import survey
    from mnrun.system.screen import Screen

    sys.stdout.flush()
    elsewhere = "ask the nodes: mnrun check -N 2"
    if not survey.usable(checked.rows):
        problem = "no container runtime works on "
        if checked.login:
            raise Impossible(f"{problem}this machine, and this is the login node only", elsewhere)
        raise Impossible(f"{problem}all of these nodes", "--runtime host runs without one")
    view = checked.view
    if view and view.judgement.verdict and not view.judgement.verdict.chosen.works:
        raise Impossible("this image does not fit these nodes", "the verdict above says why, and what works")
    if checked.login:
        Screen().say(f"this is the login node only; {elsewhere}")


def _rows(findings: list[Finding]) -> list[tuple[str, ...]]:
    from mnrun.nodes.survey import NO, OK

    groups = nodeset.grouped((row.node, (row.subject, row.state, row.found, row.fix)) for row in findings)
    order = {row.subject: place for place, row in reversed(list(enumerate(findings)))}
    return [
        (subject, {OK: "ok", NO: "-"}.get(state, "!"), names, finding, fix)
        for names, (subject, state, finding, fix) in sorted(groups, key=lambda group: order[group[1][0]])
    ]
