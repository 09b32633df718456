"""`mnrun proxy` and `mnrun ssh-config`: ssh, scp and rsync into a running job, without an open port."""

from __future__ import annotations

import os
import sys

import click

from mnrun.cli import complete
from mnrun.cli.parsing import job_dir_option
from mnrun.errors import UsageError


@click.command("proxy")
@click.argument("identity", metavar="[ID]", default="", shell_complete=complete.running)
@click.option(
    "--node",
    default="",
    metavar="N",
    help="Connect to this node.  [default: the first node]",
    shell_complete=complete.job_nodes,
)
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Connect to this port of the node.")
@click.option("--socket", default="", metavar="PATH", help="Connect to this Unix socket of the node.")
@click.option("--outside", is_flag=True, help="Give ssh the shell and the files of the node, not of the container.")
@job_dir_option
def proxy(identity: str, node: str, port: int | None, socket: str, outside: bool, job_dir: str | None) -> None:
    """Connect standard input and output to a running job, as a ProxyCommand of ssh.

    At the other end is your own sshd. --port and --socket name a service of the node instead. No port is opened. ID may
    be written as mnrun-ID. Without an ID, or with mnrun, the job is your only one that runs.
    """
    if (port is not None) + bool(socket) + outside > 1:
        raise UsageError("--port, --socket and --outside together", "choose one")
    if socket and not socket.startswith("/"):
        raise UsageError(f"--socket {socket} is no whole path", "let it begin with /")
    from pathlib import Path

    from mnrun.attach import connection, meant, target, user
    from mnrun.config import load
    from mnrun.schedulers import SCHEDULERS
    from mnrun.system import client

    load.refuse_unwanted("proxy", os.environ, str(Path.home()))
    bases = user.bases(job_dir)
    launch = target.entered(meant.running(connection.identity(identity), bases), bases, os.environ)
    place = target.node(launch, None, node, os.environ)
    if port is not None or socket:
        made = connection.to(launch, place, socket or str(port))
    else:
        made = connection.by_sshd(launch, place, connection.user_keys(Path.home()), outside)
    scheduler = SCHEDULERS[launch.scheduler]
    environ = scheduler.client_environment(os.environ)
    sys.exit(client.run(made.command, environ, scheduler.CLIENT_LINES.own, first=made.first))


@click.command("ssh-config")
@click.argument("identity", metavar="[ID]", default="", shell_complete=complete.running)
@click.option("--login", default="", metavar="HOST", help="Write lines for your laptop, which logs in to HOST first.")
def ssh_config(identity: str, login: str) -> None:
    """Print the lines of ~/.ssh/config by which ssh, scp and rsync enter your running jobs.

    ssh mnrun-ID then enters job ID, and ssh mnrun your only running job. With an ID, the lines are for that job.
    """
    import getpass
    from pathlib import Path

    from mnrun.attach import connection
    from mnrun.config import load
    from mnrun.running import submission

    load.refuse_unwanted("proxy", os.environ, str(Path.home()))
    texts = connection.user_keys(Path.home())
    name = connection.identity(identity)
    click.echo(connection.config(submission.own_call(), name, getpass.getuser(), login, texts), nl=False)
