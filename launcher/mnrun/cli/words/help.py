"""Show the help: one page for mnrun, and the options of a verb in groups. Its verb is version."""

from __future__ import annotations

import sys

import click

from mnrun import __version__
from mnrun.cli.words.verbs import VERBS
from mnrun.config.options import BY_NAME, COMMON, OPTIONS, SERVICE, sections

EXAMPLES = (
    ("mnrun --image app.sif -- ./app", "on the nodes of this job"),
    ("mnrun submit -N 4 --image org/app:1 -- ./app", "as a batch job"),
    ("mnrun shell -N 1 --image app.sif", "a prompt in the container"),
)
# The options of the first page, with fewer words than in the table.
FIRST = {
    "image": "image: a file, or docker://NAME:TAG",
    "nodes": "number of nodes",
    "ntasks": "number of ranks in all",
    "ntasks_per_node": "number of ranks on each node",
    "cpus_per_task": "number of CPUs for each rank",
    "gpus_per_node": "number of GPUs on each node",
    "time": "time limit of the job",
    "bind": "path to mount in the container",
    "env": "variable for every rank",
    "chdir": "directory to start in",
    "launcher": "starter: mpirun, srun, env, torchrun, ray",
    "verbose": "show the commands that mnrun runs",
}
MORE = "More: mnrun VERB --help, mnrun help TOPIC; all options: mnrun plan --help-all"
SHOWN = "mnrun.every_option"  # a key of click's Context.meta


def page() -> str:
    width = max(len(line) for line, _ in EXAMPLES) + 2
    lines = ["mnrun: run one job on many nodes, in containers. The usual verb is run.", ""]
    lines += [f"  {line.ljust(width)}{purpose}" for line, purpose in EXAMPLES]
    purposes: dict[str, list[str]] = {}
    for name, verb in VERBS.items():
        purposes.setdefault(f"{verb.purpose}:", []).append(name)
    rows = {purpose: "  ".join(verbs) for purpose, verbs in purposes.items()}
    narrow = {purpose: row if len(row) <= 72 else row.replace("  ", " ") for purpose, row in rows.items()}
    lines += ["", *(f"{purpose:8}{row}" for purpose, row in narrow.items()), ""]
    lines += [f"  {_spelt(name):28}{text}" for name, text in FIRST.items()]
    return "\n".join([*lines, MORE])


def _spelt(name: str) -> str:
    option = BY_NAME[name]
    long = next(flag for flag in option.flags if flag.startswith("--"))
    short = next((flag for flag in option.flags if len(flag) == 2), "")
    return ", ".join(part for part in (short, long) if part) + (
        f" {option.metavar or 'NAME'}" if option.takes_value else ""
    )


def write_options(verb: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the options with an effect in a verb, in the groups of the table: the usual ones, or all of them."""
    every = bool(context.meta.get(SHOWN))
    records: dict[str, tuple[str, str]] = {}
    for param in verb.get_params(context):
        record = param.get_help_record(context) if isinstance(param, click.Option) else None
        if record is not None:
            records[str(param.name)] = record
    own = [record for name, record in records.items() if name not in BY_NAME]
    usual = COMMON.union(SERVICE if verb.name == "serve" else ())
    with formatter.section("Options"):
        formatter.write_dl(own)
    for title, group in sorted(sections(), key=lambda section: section[0] != "Container"):
        shown = [option for option in group if verb.name in option.verbs and (every or option.name in usual)]
        if shown:
            with formatter.section(title):
                formatter.write_dl([records[option.name] for option in shown])
    if not every:
        rest = sum(verb.name in option.verbs and option.name not in usual for option in OPTIONS)
        formatter.write(f"\nmnrun {context.info_name} --help-all shows {rest} more options.\n")


def _every(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.meta[SHOWN] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


def help_all() -> click.Option:
    text = "Show all options, and exit."
    return click.Option(["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_every, help=text)


class Verbs(click.Group):
    """A group whose help has the first sentences of its verbs whole. click's own cuts them at the end of a line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        verbs = {name: verb for name, verb in sorted(self.commands.items()) if not verb.hidden}
        with formatter.section("Verbs"):
            formatter.write_dl(
                [(name, " ".join((verb.help or "").partition("\n\n")[0].split())) for name, verb in verbs.items()]
            )


@click.command()
@click.option("--python", is_flag=True, help="Show the Python that runs mnrun instead: it finds `import mnrun`.")
def version(python: bool) -> None:
    """Show mnrun's version."""
    click.echo(sys.executable if python else f"mnrun {__version__}")
