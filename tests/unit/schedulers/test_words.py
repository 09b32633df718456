"""docs/reference/words.md has each option of a batch job in the words of each scheduler. Its lines are made, not typed.

A new scheduler of the table appears there by itself: `pytest tests/unit/schedulers/test_words.py --accept`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from mnrun.config.options import OPTIONS, OWN
from mnrun.errors import Impossible
from mnrun.jobspec import SiteSettings
from mnrun.planning.layout import lay_out, share_gpus
from mnrun.schedulers import BATCH
from unit.cases import given
from unit.samples import build, changed
from unit.test_systems import TABLE, mark
from unit.texts import Expected

PAGE = Path(__file__).parents[3] / "docs/reference/words.md"
HEAD = """# Options in the words of each scheduler

Each option that asks a scheduler for something, and the lines that it adds to the job's script. The code that writes
scripts has made these lines. The job has two ranks on each of two nodes, unless the first column says more.

mnrun leaves out nothing that you asked for. It refuses a job with an option that the scheduler lacks (exit code 122).
Its remedy stands here behind "not there".

Below each name is what has run such scripts: tests on a real scheduler (seen) or on a stand-in, a person by hand, or
nothing (text only). [Systems](systems.md) tells more.

"""
FOOT = """
For all else that a scheduler has, mnrun has an option with its name, such as `--slurm` ([options](../options.md)).
"""


@dataclass(frozen=True)
class Column:
    """A scheduler, and the settings of a site in its profile. `key` is its column in tests/systems.toml."""

    scheduler: str
    title: str
    key: str
    site: SiteSettings = field(default_factory=dict)


# Schedulers with several dialects, and what sites say of them.
DIALECTS: dict[str, tuple[Column, ...]] = {
    "pbs": (Column("pbs", "OpenPBS", "pbs"), Column("pbs", "Torque, Moab", "torque", {"dialect": "torque"})),
}
COLUMNS = [one for name, batch in BATCH.items() for one in DIALECTS.get(name, (Column(name, batch.TITLE, name),))]
JOB = "nodes=2 ntasks_per_node=2"
# Options of these sections that ask no scheduler for anything.
OTHERS = (
    *("no_gpu", "gpu_bind", "hosts", "hostfile", "ssh_user", "ssh_port", "rsh", "reach", "local", "scheduler", "alloc"),
    *(*OWN, "setup", "ulimit", "mnrun", "templates"),
)
# The examples of an option. Behind a / is the job without it. Where neither has nodes, both have those of JOB.
EXAMPLES = {
    "nodes": ("nodes=2 / nodes=1",),
    "ntasks": ("nodes=2 ntasks=4 / nodes=2", "nodes=2 ntasks=3 / nodes=2"),
    "ntasks_per_node": ("nodes=2 ntasks_per_node=4 / nodes=2",),
    "cpus_per_task": ("cpus_per_task=4",),
    "gres": ("gres=gpu:2", "gres=nvme:1"),
    "gpus_per_node": ("gpus_per_node=2", "gpus_per_node=a100:2"),
    "gpus": ("gpus=4",),
    "gpus_per_task": ("gpus_per_task=1",),
    "mem": ("mem=64G",),
    "mem_per_cpu": ("mem_per_cpu=4G",),
    "mem_per_gpu": ("mem_per_gpu=32G gpus_per_node=2 / gpus_per_node=2",),
    "nodelist": ("nodelist=node[01-02]",),
    "exclude": ("exclude=node[03,07]",),
    "constraint": ("constraint=ib", "constraint='ib&big'", "constraint='ib|opa'"),
    "exclusive": ("exclusive",),
    "licenses": ("licenses=app:2",),
    "reservation": ("reservation=beam",),
    "partition": ("partition=long",),
    "account": ("account=physics",),
    "qos": ("qos=high",),
    "time": ("time=1:30:00",),
    "signal": ("signal=USR1@120 time=10 / time=10",),
    "requeue": ("requeue", "requeue=no"),
    "array": ("array=0-9%2", "array=1,5,7"),
    "dependency": ("dependency=afterok:123", "dependency=afterany:123", "dependency=singleton"),
    "job_name": ("job_name=wave",),
    "output": ("output=%x-%j.log", "output=all.log"),
    "error": ("error=%x-%j.err",),
    "mail_type": ("mail_type=END,FAIL",),
    "mail_user": ("mail_user=alice@site",),
    "export": ("export=NONE", "export=DATA"),
}


def lines(column: Column, words: str) -> list[tuple[str, str]]:
    """Return the lines of a batch script, with their origins. Raises Impossible."""
    options = {name: value != "no" and value for name, value in given(words).items()}
    options = options if "nodes" in options else {**given(JOB), **options}
    job = changed(share_gpus(build("./app", **options)), site={column.scheduler: column.site})
    nowhere = {"PATH": ""}  # there are no commands to ask
    return BATCH[column.scheduler].directives(job, lay_out(job, None), nowhere)


def cell(column: Column, words: str, without: str) -> str:
    """Return what an option changes in the lines of a job without it, or which line it asks for, or the remedy."""
    try:
        found = lines(column, words)
    except Impossible as error:
        return f"not there: {error.remedy}".replace("|", "\\|")
    now, before = (Counter(line for line, _ in some) for some in (found, lines(column, without)))
    if now == before:  # the same as by default
        now.update(line for line, _ in set(found) - set(lines(column, without)))
    added, gone = (list(map(code, some.elements())) for some in (now - before, before - now))
    changed = {line.split()[0].partition("=")[0] for line in added}
    return "<br>".join([*added, *(f"no {line}" for line in gone if line.split()[0].partition("=")[0] not in changed)])


def code(line: str) -> str:
    """Return a line as code, without the scheduler's mark. Others are lines of the shell."""
    text = line.partition(" ")[2] if line.startswith("#") else line
    return f"`{text}`".replace("|", "\\|")


def typed(words: str) -> str:
    """Return the options as people type them."""
    flags = {name: f"--{'no-' * (value == 'no')}{name.replace('_', '-')}" for name, value in given(words).items()}
    return code(
        " ".join(
            flags[name] + (f" {value}" if value not in (True, "no") else "") for name, value in given(words).items()
        )
    )


def table() -> dict[str, list[str]]:
    """Return the cells of each example."""
    found = {}
    for example in (example for examples in EXAMPLES.values() for example in examples):
        words, _, without = example.partition(" / ")
        found[typed(words)] = [cell(column, words, without) for column in COLUMNS]
    return found


def test_each_option_in_the_words_of_each_scheduler(expected: Expected) -> None:
    marks = [lines(column, "")[0][0].partition(" ")[0] for column in COLUMNS]
    known = [mark(TABLE["features"]["submit"][column.key]) for column in COLUMNS]
    heads = ["option", *(f"{column.title}<br>`{sign}`<br>{how}" for column, sign, how in zip(COLUMNS, marks, known))]
    rows = [heads, ["---"] * len(heads), *([name, *cells] for name, cells in table().items())]
    expected(PAGE, HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows) + FOOT)


def test_no_option_is_dropped() -> None:
    """Each is written, or refused by name."""
    assert [(name, COLUMNS[cells.index("")].title) for name, cells in table().items() if "" in cells] == []


def test_no_option_is_missing() -> None:
    asked = [option.name for option in OPTIONS if option.section in ("Nodes and ranks", "Batch job")]
    assert {name for name in asked if name not in OTHERS} == set(EXAMPLES)
