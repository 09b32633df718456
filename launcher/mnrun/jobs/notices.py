"""Tell people of the start and the end of a job: by mail, by a POST to a URL, or by a command of theirs."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Annotated
from urllib.parse import urlsplit

from mnrun.errors import BUG, JobEnded, LaunchError, Requeued, TimeLimit, UsageError
from mnrun.model import Outcome
from mnrun.schedulers.vocabulary import span

START, END, FAIL = "start", "end", "fail"
SECONDS = 5.0  # for a server or a mail program
COMMAND = 30.0  # for a command of the user's
SBIN = "/usr/sbin:/usr/lib"  # places of sendmail (FHS 3.0, 4.10), which a user's PATH may lack
MAIL = re.compile(r"mail(:[^\s@:<>,;()|&$-][^\s@:<>,;()|&$]*(@[\w.-]+)?)?", re.ASCII)
_STATES = {0: "done", TimeLimit.code: "timed out", JobEnded.code: "cancelled"}
WRITE = "write mail, mail:ADDRESS, a URL or a command"


@dataclass(frozen=True)
class Notice:
    """The start or the end of a job, as a URL gets it."""

    job: Annotated[str, "its id, or the name of a live run"]
    name: Annotated[str, "the job's name"]
    event: Annotated[str, "`start` or `end`"]
    state: Annotated[str, "`running`, `done`, `failed`, `cancelled` or `timed out`"]
    code: Annotated[int | None, "the exit code, at the end"]
    why: Annotated[str, "the reason of a failure; empty if unknown"]
    seconds: Annotated[int, "seconds since its start"]
    text: Annotated[str, "all this in a line for people"]


def check(way: str, events: str) -> None:
    """Raise UsageError for a way or a list of events that cannot be."""
    if not _chosen(events) <= {START, END, FAIL}:
        raise UsageError(f"--notify-on {events!r} is no list of events", f"write {START}, {END} or {FAIL}")
    if "://" in way.split(" ", 1)[0]:
        try:
            url = urlsplit(way)
            good = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
        except ValueError:
            good = False
        if not good or re.search(r"[^!-~]", way):
            raise UsageError(f"--notify {way} is no URL of http or https", WRITE)
    elif way.startswith("mail:") and not MAIL.fullmatch(way):
        raise UsageError(f"--notify {way} has no address of a mail", "write mail:NAME@HOST")
    elif not MAIL.fullmatch(way):
        try:
            words = shlex.split(way)
        except ValueError:
            words = []
        if not words:
            raise UsageError(f"--notify {way!r} is no command", WRITE)


def _chosen(events: str) -> set[str]:
    return set(re.split(r"[,\s]+", events or END))


def refuse_missing(way: str, mail: bool = True) -> None:
    """Raise UsageError if this machine lacks the program of a way. Another machine may have a `mail` program."""
    if MAIL.fullmatch(way):
        if mail and not _mailer("a", "b"):
            raise UsageError(f"--notify {way}: this machine has neither sendmail nor mail", "use a URL or a command")
    elif "://" not in way and not re.search(r"[=|&;<>()$`]", word := shlex.split(way)[0]) and not shutil.which(word):
        raise UsageError(f"--notify {way}: there is no program {word} here", WRITE)


def send(way: str, notice: Notice) -> str:
    """Tell it, and return "" or the reason why that failed. It takes a few seconds at most."""
    by, limit = (_mail, SECONDS) if MAIL.fullmatch(way) else (_post, SECONDS) if "://" in way else (_run, COMMAND)
    said: list[str] = []
    # A resolver may hang for longer than any limit of urllib.
    thread = threading.Thread(target=lambda: said.append(_tried(by, way, notice, limit)), daemon=True)
    thread.start()
    thread.join(limit + 1)
    return said[0] if said else f"no answer in {limit:.0f} s"


def _tried(by: Callable[[str, Notice, float], None], way: str, notice: Notice, limit: float) -> str:
    try:
        by(way, notice, limit)
    except subprocess.TimeoutExpired:
        return f"no answer in {limit:.0f} s"
    except subprocess.CalledProcessError as error:
        return f"{error.cmd[0]} exited with {error.returncode}"
    except Exception as error:  # a notice must not change the end of a job
        return str(error) or type(error).__name__
    return ""


def _post(url: str, notice: Notice, limit: float) -> None:
    from urllib.request import Request, urlopen

    from mnrun import versioned

    headers = {"Content-Type": "application/json", "User-Agent": "mnrun"}
    request = Request(url, versioned.text(notice).encode(), headers)
    with urlopen(request, timeout=limit):  # nosec B310 # `check` lets http and https through
        pass


def _mailer(address: str, subject: str) -> tuple[str, ...]:
    """Return the words of the mail program of this machine, or () without one."""
    if sendmail := shutil.which("sendmail") or shutil.which("sendmail", path=SBIN):
        return (sendmail, "-oi", "-t")
    mail = shutil.which("mail")
    return (mail, "-s", subject, address) if mail else ()


def _mail(way: str, notice: Notice, limit: float) -> None:
    from email.message import EmailMessage

    address = way.partition(":")[2] or getpass.getuser()
    subject = re.sub(r"[\x00-\x1f\x7f]", "?", notice.text)
    words = _mailer(address, subject)
    if not words:
        raise FileNotFoundError("this machine has neither sendmail nor mail")
    letter = EmailMessage()
    letter["To"], letter["Subject"] = address, subject
    letter.set_content("".join(f"{name}: {value}\n" for name, value in asdict(notice).items() if name != "text"))
    text = letter.as_bytes() if words[-1] == "-t" else letter.get_content().encode()
    subprocess.run(words, input=text, timeout=limit, check=True, stdout=subprocess.DEVNULL)


def _run(command: str, notice: Notice, limit: float) -> None:
    known = {name: "" if value is None else value for name, value in asdict(notice).items()}
    words = ("env", *(f"MNRUN_{name.upper()}={value}" for name, value in known.items()), "sh", "-c", command)
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=2, start_new_session=True)
    try:
        if code := process.wait(limit):
            raise subprocess.CalledProcessError(code, ("the command",))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


class Teller:
    """Tells of one launch, by the way and the events that are asked for."""

    def __init__(self, way: str, events: str, warn: Callable[[str], None]) -> None:
        self._way, self._events, self._warn = way, _chosen(events), warn
        self.job = self.name = ""
        self.outcome: Outcome | None = None
        self._begun = 0.0

    def started(self, job: str, name: str, nodes: str) -> None:
        """Tell that a launch has its nodes. Its id and name may have been set. From now on, its end is told, too."""
        self.job, self.name, self._begun = self.job or job, self.name or name, time.time()
        if START in self._events:
            text = f"job {self.job} ({self.name}) has started on {nodes}"
            notice = Notice(self.job, self.name, START, "running", None, "", 0, text)
            # The launch does not wait for it.
            threading.Thread(target=self._send, args=(notice,), daemon=True).start()

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Enclose a launch, and tell its end."""
        code, why = BUG, ""
        try:
            yield
            if self.outcome is not None:
                code, why = self.outcome.code, self.outcome.why
        except LaunchError as error:
            code, why = error.code, error.message
            self._begun = 0.0 if isinstance(error, Requeued) else self._begun
            raise
        except KeyboardInterrupt:
            code, why = 130, "interrupted"
            raise
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else BUG
            raise
        finally:
            if self._begun and (END in self._events or (FAIL in self._events and code)):
                self._send(ended(self.job, self.name, code, why, time.time() - self._begun))

    def _send(self, notice: Notice) -> None:
        if problem := send(self._way, notice):
            self._warn(f"--notify {self._way}: {problem}")


def ended(job: str, name: str, code: int, why: str, seconds: float) -> Notice:
    """Return the notice of an end."""
    state, took = _STATES.get(code, "failed"), max(int(seconds), 0)
    title = f"job {job} ({name})" if name else f"job {job}"
    text = f"{title}: {state}, with code {code}, after {span(took)}{f': {why}' if why else ''}"
    return Notice(job, name, END, state, code, why, took, text)
