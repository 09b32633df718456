"""`mnrun check`: its options. work/check.py does its work."""

from __future__ import annotations

from typing import Any

import click

from mnrun.cli.parsing import json_option
from mnrun.config.options import BY_NAME

# Options that ask Slurm for nodes, if there are none.
REQUEST = ("nodes", "nodelist", "exclude", "partition", "account", "qos", "time", "constraint", "reservation")
OPTIONS = (*REQUEST, "module", "image", "runtime", "hosts", "hostfile", "ssh_user", "ssh_port", "local")


def _options(verb: Any) -> Any:
    for name in reversed(OPTIONS):
        option = BY_NAME[name]
        rest: dict[str, Any] = (
            {"is_flag": True, "default": None}
            if option.kind == "flag"
            else {"metavar": "|".join(option.choices) or option.metavar, "multiple": option.repeats}
        )
        verb = click.option(*option.flags, name, help=option.help, **rest)(verb)
    return verb


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@_options
@json_option
def check(**given: Any) -> None:
    """Show the runtimes, GPUs and MPIs of nodes, what is missing, and how to get it.

    The nodes are those of the Slurm job that you are in, of --hosts, or else this machine. Outside a job, -N, -p, -w
    and the like get nodes from Slurm. --image also shows whether that image fits the nodes. The exit code is 122 if no
    runtime works on all of them, or the image does not fit.
    """
    from mnrun.cli.work import check as work

    work.check(**given)
