"""Follow submitted jobs: the verbs status, nodes, logs, cancel and wait."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from mnrun.cli import complete
from mnrun.cli.parsing import job_dir_option, json_option, print_json, rank_numbers, some_options
from mnrun.errors import LaunchError, NotYours, SchedulerError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from mnrun.jobs.state import Jobs, JobView, Partition

LOOK = 2.0  # seconds between two looks of --watch


def known(ctx: click.Context, parameter: click.Parameter, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    """Return the ids of an argument as mnrun writes them."""
    if not value or ctx.resilient_parsing:  # a completion
        return value
    from mnrun.attach import user

    return user.identity(value) if isinstance(value, str) else tuple(map(user.identity, value))


def _ids(values: complete.Values) -> Callable[[Any], Any]:
    return click.argument("ids", nargs=-1, metavar="[ID]…", callback=known, shell_complete=values)


@click.command()
@_ids(complete.jobs)
@json_option
@click.option("-n", "--last", type=click.IntRange(0), metavar="N", help="Show so many ended jobs.  [default: 20]")
@click.option("--state", "wanted", metavar="STATE", default="", help="Show failed, running, pending, active, ended ….")
@click.option("--since", metavar="TIME", help="Show jobs that ended within 12h, 2d or 4w.  [default: 7d]")
@click.option("-w", "--watch", "watching", is_flag=True, help="Show it anew as it changes, until the jobs have ended.")
@click.option("--fresh", is_flag=True, help="Ask the scheduler now, also if its last answer is young.")
@click.option(
    "--metrics", metavar="FILE.prom", default="", help="Write the jobs that run for Prometheus's node_exporter."
)
@job_dir_option
@some_options("scheduler")
def status(
    ids: tuple[str, ...],
    as_json: bool,
    last: int | None,
    wanted: str,
    since: str | None,
    watching: bool,
    fresh: bool,
    metrics: str,
    job_dir: str | None,
    scheduler: str | None,
) -> None:
    """Show jobs: their state, why they wait, where they run, and how they ended.

    Without an ID, it shows your jobs that wait or run, the live runs of now, and submitted jobs of the last 7 days.
    Live runs that have ended are shown for as long as the scheduler remembers their jobs. An ID may be a job's name.
    """
    from functools import partial

    from mnrun import formats
    from mnrun.attach import user
    from mnrun.jobs import state

    if watching and as_json:
        raise UsageError("--watch and --json together", "choose one")
    if metrics and (watching or as_json):
        raise UsageError("--metrics with --watch or --json", "choose one")
    span = formats.age(since, "--since") if since else state.SHOWN
    states = state.states(wanted)
    look = partial(_look, ids, user.bases(job_dir), scheduler or "", span)
    if watching:
        _watch(look, states, last, bool(ids))
        return
    jobs, unknown = look(fresh)
    older = 0
    if metrics:
        _give(metrics, jobs.jobs, user.bases(job_dir))
        return
    if not as_json:
        jobs, older = _chosen(jobs, states, None if ids else 20 if last is None else last)
    elif states or last is not None:
        jobs, _ = _chosen(jobs, states, last)
    _show(jobs, older, as_json, bool(ids or states))
    if unknown is not None:
        raise unknown


def _look(
    ids: Sequence[str], bases: Sequence[Path], scheduler: str, span: float, fresh: bool
) -> tuple[Jobs, LaunchError | None]:
    """Return jobs and live runs, and the error for ids that nobody knows."""
    from dataclasses import replace
    from pathlib import Path

    from mnrun.attach import meant, served
    from mnrun.jobs import archive, asking, launches, state
    from mnrun.schedulers.vocabulary import is_id

    ids = meant.jobs(ids, bases, "status", lambda text: None) if ids else ()
    submitted = [identity for identity in ids if is_id(identity) or not launches.is_name(identity)]
    asked_for = submitted or not ids
    views, unknown, asked = _views(submitted, bases, fresh, scheduler, span) if asked_for else ([], [], 0.0)
    views = asking.with_ends(views, archive.live_ends(Path.home()), launches.killed(bases))
    lives = list(launches.live(bases))
    runs = asking.live(lives, ids, views)
    views = [*views, *runs]
    folders = asking.folders(views, bases, lives)
    views = [replace(view, service=served.words(view, folders, bases)) for view in asking.with_idle(views, folders)]
    unknown += [name for name in ids if name not in submitted and name not in {run.id for run in runs}]
    return state.Jobs(tuple(views), asked), asking.unknown(unknown, bases) if unknown else None


def _chosen(jobs: Jobs, states: Collection[str], last: int | None) -> tuple[Jobs, int]:
    """Return the jobs in these states, and of those that have ended the last ones; and how many were left out."""
    from dataclasses import replace

    found = [view for view in jobs.jobs if not states or view.words in states]
    ended = sorted((view for view in found if not view.active), key=lambda view: view.ended or view.submitted)
    left_out = {view.id for view in ended[: len(ended) - last]} if last is not None and last < len(ended) else set()
    return replace(jobs, jobs=tuple(view for view in found if view.id not in left_out)), len(left_out)


def _show(jobs: Jobs, older: int, as_json: bool, chosen: bool) -> None:
    from mnrun.jobs import asking
    from mnrun.nodeset import counted
    from mnrun.system.screen import Screen, table

    if as_json:
        print_json(jobs)
        return
    if jobs.jobs:
        table(*_columns(jobs.jobs, time.time()), _style)
    elif not chosen:
        Screen().say("no jobs of yours in the last 7 days")
    if older:
        every = older + sum(not view.active for view in jobs.jobs)
        Screen().say(f"{counted(older, 'older job')} left out; --last {every} shows more")
    if jobs.asked and time.time() - jobs.asked > asking.SOON:
        Screen().say(f"as of {time.strftime('%H:%M:%S', time.localtime(jobs.asked))}; --fresh asks again")


def _watch(
    look: Callable[[bool], tuple[Jobs, LaunchError | None]], states: Collection[str], last: int | None, named: bool
) -> None:
    """Show jobs until all that were named have ended, or for ever."""
    from mnrun.system.screen import Board

    with Board(_style) as board:
        while True:
            jobs, unknown = look(False)
            if unknown is not None:
                raise unknown
            chosen, _ = _chosen(jobs, states, None if named else 20 if last is None else last)
            board.show(*_columns(chosen.jobs, time.time(), board.moves))
            if named and not any(view.active for view in jobs.jobs):
                return
            time.sleep(LOOK)


def _views(
    ids: Sequence[str], bases: Sequence[Path], fresh: bool, scheduler: str, span: float
) -> tuple[list[JobView], list[str], float]:
    """Return what asking.views does, of each scheduler whose ids are among these or in the records. Without a scheduler
    here, the records tell."""
    from functools import partial

    from mnrun.attach import user
    from mnrun.jobs import archive, asking, launches, state
    from mnrun.schedulers.vocabulary import JobState
    from mnrun.system.screen import Screen

    changed = archive.changed(bases)  # before the records are read
    by_id = archive.read(bases, ids, time.time() - span)
    ask = partial(
        asking.views,
        read=partial(archive.read, bases),
        changed=changed,
        killed=list(launches.killed(bases)),
        fresh=fresh,
        span=span,
    )
    views, unknown, times = [], [], []
    for its, records in user.by_scheduler(scheduler, ids, by_id):
        others = bool(its) and not ids  # of another scheduler, which need not answer here
        found, lost, asked = *state.gather((), (), (), records, time.time(), span), 0.0
        try:
            if ids or user.scheduler(scheduler, its).is_here(os.environ):
                found, lost, asked = ask(its, records, partial(user.queue, scheduler, its))
        except SchedulerError as error:
            if not others:
                raise
            Screen().warn(str(error))
        views += [view for view in found if not others or view.state != JobState.UNKNOWN]
        unknown += lost
        times += [asked] if asked else []
    return views, unknown, min(times, default=0.0)


def _give(where: str, views: Sequence[JobView], bases: Sequence[Path]) -> None:
    """Write the jobs that run as metrics. A live run has the id of its scheduler's job."""
    import getpass

    from mnrun import nodeset
    from mnrun.jobs import launches
    from mnrun.schedulers.vocabulary import JobState, is_id
    from mnrun.watching import exporter, metrics

    user = getpass.getuser()
    numbers = {one.job: one.number for one in launches.live(bases) if is_id(one.number)}
    running = [
        metrics.Job(numbers.get(view.id, view.id), user, view.name, nodeset.expand(view.nodelist))
        for view in views
        if view.state is JobState.RUNNING and view.nodelist
    ]
    with exporter.given(where, stays=True) as give:
        give([metrics.jobs(running)])


_HEADERS = ("JOB", "NAME", "STATE", "NODES", "GPUS", "TIME", "LEFT", "ENDED", "CODE", "WHY")
_STYLES = {"running": "green", "done": "green", "pending": "yellow", "failed": "red", "timed out": "red"}


def _columns(views: Sequence[JobView], now: float, moves: bool = True) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the headers and the rows of jobs. Columns without a word are left out, but for the first four. What each
    second changes is left out unless it `moves`, and so are no columns then."""
    rows = [_row(view, now, moves) for view in views]
    kept = [place for place in range(len(_HEADERS)) if place < 4 or not moves or any(row[place] for row in rows)]
    return tuple(_HEADERS[place] for place in kept), [tuple(row[place] for place in kept) for row in rows]


def _row(view: JobView, now: float, moves: bool) -> tuple[str, ...]:
    from mnrun.jobs import state
    from mnrun.schedulers.vocabulary import JobState, span

    time_left = span(view.left) if view.left is not None else "no limit" if view.state == JobState.RUNNING else ""
    took = view.took(now)
    expected = f"; expected at {state.moment(view.expected, now)}" if view.expected else ""
    return (
        view.id,
        view.name,
        view.words,
        view.nodelist or str(view.nodes or ""),
        str(view.gpus or ""),
        span(int(took)) if took is not None and (moves or not view.active) else "",
        time_left if moves else "",
        state.moment(view.ended, now) if view.ended else "",
        "" if view.code is None else str(view.code),
        view.service or view.why + expected,
    )


def _style(header: str, word: str) -> str:
    """Return the colour of a word on a terminal."""
    return _STYLES.get(word, "") if header == "STATE" else ""


@click.command()
@click.option(
    "-p",
    "--partition",
    metavar="NAME",
    default="",
    help="Show this partition alone.",
    shell_complete=complete.partitions,
)
@json_option
def nodes(partition: str, as_json: bool) -> None:
    """Show partitions: what is free, and what their nodes have."""
    from mnrun.attach import user
    from mnrun.jobs import state
    from mnrun.system.screen import table

    entries = user.queue().nodes()
    partitions = state.partitions(entries, partition)
    if not partitions:
        names = ", ".join(sorted({node.partition for node in entries}))
        raise UsageError(f"there is no partition {partition}", f"the partitions are {names or 'none'}")
    if as_json:
        print_json(state.Partitions(tuple(partitions)))
        return
    rows = [row for partition in partitions for row in _kinds(partition)]
    table(("PARTITION", "LIMIT", "FREE NOW", "NODES", "CPUS", "MEM", "GPUS", "FEATURES", "TAKES NO JOBS"), rows)


def _kinds(partition: Partition) -> Iterator[tuple[str, ...]]:
    """Yield a row for each kind of nodes. The first one tells of the whole partition."""
    name = partition.name + ("*" if partition.default else "")
    first, last = (name, partition.limit, partition.words), "; ".join(partition.out)
    for kind in partition.kinds:
        yield (*first, *kind.columns, last)
        first, last = ("", "", ""), ""


@click.command()
@_ids(complete.unfinished)
@click.option(
    "-s", "--signal", metavar="SIG", default="", help="Signal for the job's program, which then goes on: USR1, TERM …."
)
@job_dir_option
def cancel(ids: tuple[str, ...], signal: str, job_dir: str | None) -> None:
    """End jobs, or send them a signal. Without an ID, it asks about the last one that you have submitted."""
    from mnrun.attach import meant, user
    from mnrun.system.screen import Screen

    bases = user.bases(job_dir)
    if not ids:
        ids = (_agreed(bases),)
    whole = re.compile(r"(0|[1-9]\d*)_\[[\d,:-]+\]", re.ASCII)
    ids = sum(
        ((word,) if whole.fullmatch(word) else meant.jobs([word], bases, "cancel", Screen().say) for word in ids), ()
    )
    told = _told_runs(ids, bases, signal)
    ids = tuple(identity for identity in ids if identity not in told)
    refuse_other_ids([word for word in ids if not whole.fullmatch(word)])
    if ids:
        _cancel(ids, bases, signal)


def _told_runs(ids: Sequence[str], bases: Sequence[Path], signal: str) -> list[str]:
    """End those of these live runs that have no job of their own, by a signal to their mnrun. Or send any of them a
    signal that it hands on to its program. Return their ids."""
    from pathlib import Path

    from mnrun import formats
    from mnrun.jobs import launches
    from mnrun.system.screen import Screen

    told = []
    for run in launches.live(bases):
        for identity in {run.job, run.own_job if signal else run.job}.intersection(ids):
            pid, host = launches.launcher(Path(run.folder))
            if not run.near:
                raise UsageError(f"{identity} was started on {host}", f"there, mnrun cancel {identity} ends it")
            os.kill(int(pid), formats.SIGNALS[_forwarded(signal, formats.OF_PROGRAMS) if signal else "TERM"])
            Screen().say(f"job {identity} was {f'sent {signal}' if signal else 'cancelled'}")
            told.append(identity)
    return told


def _forwarded(signal: str, known: Collection[str]) -> str:
    """Return the name of a signal that mnrun hands on to its program. Raises UsageError for one that is not `known`."""
    from mnrun import formats

    if (name := formats.signal(signal)) in known:
        return name
    problem = f"--signal {signal}: mnrun does not forward this signal to programs"
    raise UsageError(problem, f"use one of {', '.join(known)}, or end the job without -s")


def _cancel(ids: Sequence[str], bases: Sequence[Path], signal: str) -> None:
    """End jobs by their scheduler, or send them a signal."""
    from functools import partial

    from mnrun import formats
    from mnrun.attach import target, user
    from mnrun.jobs import asking
    from mnrun.system.screen import Screen

    scripts = _with_records(bases, ids) if signal else []
    scheduler = user.scheduler("", ids)
    told_by_us = signal != "" and not scheduler.SIGNALS
    name = _forwarded(signal, formats.SIGNALS) if scripts or told_by_us else ""
    try:
        if told_by_us:
            for identity in ids:
                target.send(target.launch(identity, bases, os.environ), name, os.environ)
        ended = [] if told_by_us else user.queue("", ids).cancel(ids, signal, scripts)
    except NotYours as error:
        ended = asking.over(error.ids, bases, partial(user.queue, "", ids))
        if foreign := [identity for identity in error.ids if identity not in ended]:
            raise asking.unknown(foreign, bases) from None
    for identity in dict.fromkeys((*ended, *ids)):
        done = scheduler.ENDED if identity in ended else f"was sent {signal}" if signal else "was cancelled"
        Screen().say(f"job {identity} {done}")


def _agreed(bases: Sequence[Path]) -> str:
    """Return the job that was submitted last, once the user agrees to its end."""
    from mnrun.attach import meant
    from mnrun.system.screen import Screen

    asks = sys.stdin.isatty() and sys.stderr.isatty()
    identity = meant.last(bases, "cancel", Screen().say if asks else lambda text: None)
    if not asks:
        raise UsageError(
            "cancel needs the ID of a job where nobody can agree", f"the last one is mnrun cancel {identity}"
        )
    click.confirm(f"cancel job {identity}?", abort=True, err=True)
    return identity


def _with_records(bases: Sequence[Path], ids: Sequence[str]) -> list[str]:
    from mnrun.jobs import archive

    known = archive.read(bases, [identity.partition("_")[0] for identity in ids]).values()
    arrays = {record.array for record in known if record.submitted is None or not record.submitted.own}
    return [identity for identity in ids if identity.partition("_")[0] in arrays]


@click.command()
@_ids(complete.unfinished)
@some_options("notify")
@job_dir_option
def wait(ids: tuple[str, ...], notify: str | None, job_dir: str | None) -> None:
    """Wait until jobs have ended, and exit with the job's code, or the largest of several.

    Code 124 is the time limit, 143 a cancelled job, 121 a lost node. Without an ID, the job is the last one that you
    have submitted.
    """
    from mnrun.attach import meant, user
    from mnrun.jobs import waiting
    from mnrun.system.screen import Screen

    if notify:
        from mnrun.jobs import notices

        notices.check(notify, notices.END)
        notices.refuse_missing(notify)
    bases = user.bases(job_dir)
    ids = meant.jobs(ids, bases, "wait", Screen().say)
    refuse_other_ids(ids)
    begin = time.time()
    code = waiting.wait_and_tell(ids, bases, user.queue("", ids), Screen().say)
    if notify:
        notice = notices.ended(", ".join(ids), "", code, "", time.time() - begin)
        if problem := notices.send(notify, notice):
            Screen().warn(f"--notify {notify}: {problem}")
    sys.exit(code)


@click.command()
@_ids(complete.jobs)
@click.option("-f", "--follow", "following", is_flag=True, help="Follow the output until the job has ended.")
@click.option(
    "-n", "--lines", type=click.IntRange(0), metavar="LINES", help="Number of last lines to show of each file."
)
@click.option(
    *("--rank", "--ranks", "ranks"),
    default="",
    metavar="LIST",
    help="Show the output of these ranks: 3, or 0-3,8 (of a job with --label or --split-output).",
)
@click.option(
    "--node",
    default="",
    metavar="N",
    help="Show the output of the ranks on this node (of a job with --label or --split-output).",
    shell_complete=complete.job_nodes,
)
@click.option("--failed", is_flag=True, help="Show only what failed: jobs, tasks of an array, and ranks.")
@click.option("-v", "--verbose", is_flag=True, help="Show mnrun's own lines about the nodes, too.")
@click.option("--exit-status", is_flag=True, help="With -f, exit with the job's code at its end.")
@job_dir_option
def logs(
    ids: tuple[str, ...],
    following: bool,
    lines: int | None,
    ranks: str,
    node: str,
    failed: bool,
    verbose: bool,
    exit_status: bool,
    job_dir: str | None,
) -> None:
    """Show the output of jobs. It is read from files, so the scheduler is seldom asked.

    Without an ID, the job is the last one that you have submitted. Lines of several jobs begin with the job's ID.
    """
    from functools import partial

    from mnrun.attach import meant, output, user
    from mnrun.jobs import waiting
    from mnrun.system.screen import Screen

    given = {"--rank": ranks, "--node": node, "--failed": failed, "--follow": failed and following}
    if len(chosen := [name for name, value in given.items() if value]) > 1:
        raise UsageError(f"{' and '.join(chosen)} together", "choose one")
    if exit_status and not following:
        raise UsageError("--exit-status without -f", "add -f, or use mnrun wait")
    bases = user.bases(job_dir)
    ids = meant.jobs(ids, bases, "logs", Screen().say)
    refuse_other_ids(ids)
    if failed:
        ids = _failed(ids, bases)
    if user.scheduler("", ids).logs(ids[0], following, lines, os.environ):
        if ranks or node:
            raise UsageError(f"the output of job {ids[0]} is in one piece", "leave out --rank and --node")
        _by_scheduler(ids, following, lines)
    else:
        choice = output.Choice(lines, rank_numbers(ranks, "--rank"), node, failed, verbose)
        output.show(ids, bases, following, partial(user.queue, "", ids), choice)
    if not following:
        return
    code = waiting.tell_ends(ids, bases, user.queue("", ids), Screen().say)
    if exit_status and code is None:
        which = ", ".join(ids)
        raise SchedulerError(f"the end of job {which} is unknown", f"see mnrun status {' '.join(ids)}")
    if exit_status:
        sys.exit(code)


def _failed(ids: Sequence[str], bases: Sequence[Path]) -> tuple[str, ...]:
    """Return those of these jobs and tasks that have failed, and tell how. Exit if there is none."""
    from functools import partial

    from mnrun.attach import output, user
    from mnrun.jobs import state
    from mnrun.system.screen import Screen

    views = output.failed(ids, bases, partial(user.queue, "", ids))
    for view in views:
        Screen().say(state.line(view.id, view.state, view.code, view.why, view.took(time.time())))
    if not views:
        Screen().say(f"job {', '.join(ids)} has not failed")
        sys.exit(0)
    return tuple(view.id for view in views)


def _by_scheduler(ids: Sequence[str], following: bool, lines: int | None) -> None:
    """Show the output of jobs whose scheduler keeps it, one after the other."""
    import subprocess

    from mnrun.attach import user

    words = [user.scheduler("", [identity]).logs(identity, following, lines, os.environ) for identity in ids]
    codes = [subprocess.run(one, check=False).returncode for one in words]
    if not following:
        sys.exit(max(codes))


def refuse_other_ids(ids: Sequence[str]) -> None:
    """Raise UsageError for a word that is no id of a job, such as the name of a live run."""
    from mnrun.jobs import launches
    from mnrun.schedulers.vocabulary import is_id

    for identity in ids:
        if not is_id(identity):
            if launches.is_name(identity):
                problem = f"{identity} is a live run, which shows its output and its end where it was started"
                raise UsageError(
                    problem, f"mnrun cancel {identity} ends it; mnrun why {identity} shows where it stands"
                )
            raise UsageError(f"{identity!r} is not the ID of a job", "write 123, or 123_4 for a task of an array")
