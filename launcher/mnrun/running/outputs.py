"""Open the files for a live run's output, by --output and --error: one file of all ranks, as with srun.

The names are patterns (jobs/patterns.py).

After a failure, mnrun reads the last part of the program's output again where it went to a file: of a batch job, of a
redirection, of --output or of --split-output. A terminal and a pipe cannot be read again. So errors for these pass
through mnrun, which keeps their last part. What goes to a file passes through mnrun, too, but for --split-output: only
so does mnrun hear that a disk is full. Output for a terminal or a pipe does not.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from mnrun.errors import Impossible, LaunchError, UsageError
from mnrun.jobs import archive, patterns
from mnrun.jobspec import JobSpec, Layer
from mnrun.model import Culprit, Plan, Site, job_name
from mnrun.mpi.endings import Endings
from mnrun.record import Record
from mnrun.schedulers import BATCH, SCHEDULERS, choose
from mnrun.schedulers.vocabulary import ClientLines, JobId
from mnrun.system.copied import PART, Copied, is_file
from mnrun.system.paths import open_file
from mnrun.system.process import Starter, start
from mnrun.system.screen import Screen
from mnrun.system.signals import Signals

_PARTS = {"t": "rank", "n": "node", "N": "node", "s": "step"}


@contextmanager
def opened(
    plan: Plan, site: Site, environ: Mapping[str, str], starter: Starter | None
) -> Iterator[tuple[Starter, Written]]:
    """Yield a starter whose programs write where --output and --error say, and what it has written. Raises UsageError
    if a file cannot be written, and Impossible if the pattern asks for several files."""
    spec = plan.spec
    out, err = (name(flag, pattern, plan, site, environ) for flag, pattern in live_files(spec).items())
    files = {path: _open(path) for path in dict.fromkeys(filter(None, (out, err)))}
    copies: list[Copy] = []
    try:
        if spec.program.prompt != "terminal":
            # srun(1), --error: without it, errors go to the file of --output
            given = ((out, files.get(out, 1)), (err or out, files.get(err or out, 2)))
            copies = _copies(given, SCHEDULERS[site.scheduler].CLIENT_LINES)
        ends = {stream: copy.copied.end for copy in copies for stream in copy.streams}
        output = (ends.get(1, files.get(out)), ends.get(2, files.get(err or out)))
        written = Written((*Signals.OUTPUTS, *files.values()), copies, spec.program.split_output)
        yield partial(starter or start, output=output), written
        written.drain()
        copies = []
    finally:
        for copy in copies:
            copy.copied.close()
        for file in files.values():
            os.close(file)


NO_LINES = ClientLines()
_OWN = re.compile(r"mnrun: (?!the program of )")  # start.sh tells why it ends a program, which counts as its output


class Copy(Record):
    """A copy of what passes through mnrun."""

    streams: tuple[int, ...]  # 1 and 2, if they have one file
    name: str  # of the file, if it was given
    copied: Copied
    endings: Endings  # the messages in it about the end of ranks


def _copy(streams: tuple[int, ...], name: str, file: int, lines: ClientLines = NO_LINES) -> Copy:
    endings = Endings(True, lines.ends.pattern, lines.ends.begins)
    return Copy(streams, name, Copied(file, lines.own, endings.put_last), endings)


def _copies(files: tuple[tuple[str, int], tuple[str, int]], lines: ClientLines) -> list[Copy]:
    """Return the copies for the name and the open file of each stream: a regular file, and errors that cannot be read
    again. One file of both streams has one copy, which keeps their order."""
    (out, output), (err, errors) = files
    if is_file(output) and is_file(errors) and os.path.samestat(os.fstat(output), os.fstat(errors)):
        return [_copy((1, 2), out, output, lines)]
    copies = [_copy((1,), out, output)] if is_file(output) else []
    if is_file(errors) or not _can_be_read(errors):
        copies.append(_copy((2,), err, errors, lines))
    return copies


def _can_be_read(file: int) -> bool:
    """Return whether an open file can be read again. A closed one counts too, because nothing can be written to it."""
    try:
        return stat.S_ISREG(os.fstat(file).st_mode) and os.access(f"/proc/self/fd/{file}", os.R_OK)
    except OSError:
        return True


def live_files(spec: JobSpec) -> dict[str, str]:
    """Return --output and --error as given for a live run. The values of a job file or a site are for batch jobs."""

    def here(option: str) -> bool:
        origin = spec.origins.get(option)
        live = {Layer.COMMAND_LINE, Layer.VARIABLE}
        return not spec.program.prompt and origin is not None and bool(origin.layers & live)

    return {f"--{o}": spec.batch.text(o) if here(o) else "" for o in ("output", "error")}


def refuse_parts(texts: Mapping[str, str], letters: str = "tnNs") -> None:
    """Raise Impossible if a pattern asks for a file for each rank, node or step, by one of `letters`."""
    for flag, pattern in texts.items():
        for letter in sorted(patterns.letters(pattern) & set(letters)):
            problem = f"{flag} {pattern}: a file for each {_PARTS[letter]}"
            raise Impossible(problem, "mnrun writes one file for all ranks; --split-output DIR writes one for each")


def name(flag: str, pattern: str, plan: Plan, site: Site, environ: Mapping[str, str]) -> str:
    """Return the file that `pattern` names in this job, or "" if it names none."""
    if pattern in ("", "none"):
        return os.devnull if pattern else ""
    refuse_parts({flag: pattern})
    job = site.job if site.scheduler in BATCH else plan.job
    start = choose(site.scheduler, environ).start(environ)
    title = plan.spec.batch.text("job_name") or start.name or job_name(plan.spec)
    identity = JobId.of(start.id) if start.task else JobId(job)
    known = patterns.values(identity, title, environ.get("USER") or str(os.getuid()))
    return patterns.filled(pattern, {**known, "j": job, "J": job})


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(f"cannot write to {path}: {error.strerror}", "name another with --output or --error") from None


class Written:
    """The files that the program writes to, from their present end on, and the copies of what it writes."""

    def __init__(self, files: Iterable[int], copies: Sequence[Copy] = (), split_output: str = "") -> None:
        self._copies = copies
        self._split_output = split_output
        self._begins: dict[tuple[int, int], tuple[int, int]] = {}  # the file's identity -> (open file, its size now)
        for file in files:
            if is_file(file):
                found = os.fstat(file)
                self._begins.setdefault((found.st_dev, found.st_ino), (file, found.st_size))

    def drain(self) -> None:
        """Wait until all that the program has written is where it belongs. The program has ended."""
        for copy in self._copies:
            copy.copied.drain()

    def leave_out_ends(self) -> None:
        """Show no message of mpirun about the end of ranks: it is about the end by mnrun or the scheduler alone."""
        for copy in self._copies:
            copy.endings.wanted = False

    def leave_out_named(self, node_of_rank: Mapping[int, str]) -> None:
        """Show no message of mpirun that only names a failed rank of these, as mnrun's last line does."""
        from mnrun.diagnosis.culprit import culprit

        for copy in self._copies:
            copy.endings.told = lambda lines: culprit(lines, node_of_rank) is not None

    def lines(self) -> list[str]:
        self.drain()
        texts = [_end(f"/proc/self/fd/{file}", size) for file, size in self._begins.values()]
        # a file may have lines of others, such as slurmstepd, and a full disk lacks the last ones
        copies = [copy.copied for copy in self._copies]
        texts += [copied.text for copied in copies if copied.failure or not _can_be_read(copied.target)]
        return _lines([*texts, *(text for copy in self._copies if (text := copy.endings.left_out))])

    @contextmanager
    def telling(self, screen: Screen) -> Iterator[list[str]]:
        """Enclose a launch, and yield the lines about files whose disk did not take all of the program's output. It
        shows them at the end. An error means that mnrun or the scheduler has ended the program."""
        lost: list[str] = []
        try:
            yield lost
        except LaunchError:
            self.leave_out_ends()
            raise
        finally:
            self.drain()
            lost += [line for copy in self._copies if (line := copy.copied.lost(copy.name))]
            lost += _full(self._split_output)
            for line in lost:
                screen.error(line)


def _full(split_output: str) -> Iterator[str]:
    """Yield a line if the disk of --split-output is full. Ranks write there without mnrun, and may not look."""
    if not os.path.isdir(split_output):
        return
    try:
        with tempfile.TemporaryFile(dir=split_output) as probe:
            probe.write(b" ")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            yield f"{split_output}: {os.strerror(error.errno).lower()}: the last output of ranks may be lost"


def lines_of(culprit: Culprit, split_output: str) -> list[str]:
    files = archive.rank_files(split_output)
    return _lines(_end(str(path), 0) for (rank, _), path in files.items() if rank == culprit.rank)


def _lines(texts: Iterable[str]) -> list[str]:
    return [line for text in texts for line in text.split("\n") if not _OWN.match(line)]


def _end(path: str, begin: int) -> str:
    """Return the end of a file, in whole lines, from `begin` on at the earliest."""
    try:
        file = open_file(path)
    except OSError:
        return ""
    try:
        start = max(begin, os.fstat(file).st_size - PART)
        text = os.pread(file, PART, start).decode("utf-8", "replace")
        return text if start == begin else text.partition("\n")[2]
    finally:
        os.close(file)
