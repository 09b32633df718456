"""`mnrun serve`: a service on the nodes of a job, which people open in a browser or ask by HTTP."""

from __future__ import annotations

import os
import sys

import click

from mnrun.cli import complete
from mnrun.cli.parsing import COMMAND, JobVerb, job_options, json_option, print_json
from mnrun.errors import UsageError


class ServeVerb(JobVerb):
    """A verb whose first word may be the name of a service."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[SERVICE]", *super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = bool(args) and not args[0].startswith("-") and not args[0].endswith(".toml")
        rest = super().parse_args(ctx, args[1:] if named else args)
        ctx.params["service"] = args[0] if named else ""
        return rest


@click.command(cls=ServeVerb, context_settings=COMMAND)
@click.option("--detach", is_flag=True, help="Run it as a batch job, which goes on without this terminal.")
@click.option(
    "--show",
    metavar="ID",
    default="",
    help="Show the page of a service, and the tunnel to it.",
    shell_complete=complete.running,
)
@click.option(
    "--beside",
    metavar="ID",
    default="",
    help="Run it on a node of a running job, with the job's image.",
    shell_complete=complete.running,
)
@click.option(
    "--node",
    metavar="N",
    default="",
    help="With --beside, run it on this node.  [default: the first node]",
    shell_complete=complete.job_nodes,
)
@json_option
@job_options
def serve(
    command: tuple[str, ...],
    service: str,
    detach: bool,
    show: str,
    beside: str,
    node: str,
    as_json: bool,
    **options: object,
) -> None:
    """Run a service: jupyter, tensorboard, digits, vllm, sglang, one of a profile or job file, or COMMAND.

    COMMAND starts once on each node. Behind the name of a service, its words are added to the service's own. Write
    {port} where it takes its port: mnrun chooses a free one. {head}, {master_port}, {address}, {nnodes}, {node_rank}
    and {local_rank} tell a node its place. {first:WORD} is WORD on the first node only, {others:WORD} on all others.
    """
    from mnrun.running import request, session
    from mnrun.system.clock import begun

    if show:
        _show(show, options["job_dir"], as_json)
        return
    options["service"] = service
    if node and not beside:
        raise UsageError("--node without --beside", "name nodes of a new job with --nodelist")
    if detach and beside:
        raise UsageError("--detach and --beside together", "leave one out: it runs in your terminal")
    if detach:
        _submit(command, options)
        return
    place = None
    if beside:
        from mnrun.running import beside as besides

        place = besides.found(beside, node, options["job_dir"], os.environ)
    sys.exit(session.carry_out(request.read(command, options, live=True, beside=place), begun()))


def _submit(command: tuple[str, ...], options: dict[str, object]) -> None:
    from mnrun.cli.run import handed_in
    from mnrun.running import request, submission
    from mnrun.system.screen import Screen

    batch = submission.make(request.read(command, options, batch=True))
    number, _ = handed_in(batch)
    Screen(batch.spec.quiet).say(f"its page, once it is ready: mnrun serve --show {number}")


def _show(identity: str, job_dir: object, as_json: bool) -> None:
    from dataclasses import replace
    from functools import partial

    from mnrun.attach import meant, served, user
    from mnrun.running import tunnel
    from mnrun.services import serving

    bases = user.bases(str(job_dir) if job_dir else None)
    name = meant.running(identity, bases)
    its = served.of(name, bases, os.environ)
    if as_json:
        print_json(replace(its.serving, page=its.serving.url))
    if its.serving.state != serving.READY:
        raise served.unready(name, bases, its.serving.answer)
    if not as_json:
        entrance = partial(tunnel.entrance, its.job, os.environ)
        click.echo("\n".join(its.serving.lines(its.scheduler, its.number, entrance)))
