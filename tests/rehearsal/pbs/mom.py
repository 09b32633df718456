"""pbs_mom: what a node runs of jobs, by sessions, and how it ends them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import wire
from .jobs import clock
from .wire import Caller, Reply, Unreachable, ask

HOME = Path("/var/spool/pbs")
JOBS, AUX, SPOOL, UNDELIVERED = HOME / "mom_priv/jobs", HOME / "aux", HOME / "spool", HOME / "undelivered"
# PBS looks every 2 to 12 s, and kills 20 to 22 s after a TERM (queue's kill_delay, and its look).
LOOK, KILL_AFTER = 1.0, 6.0
SISTERS = 15.0  # seconds for other MOMs to end their part; how long a real one waits was not seen
TIOCVHANGUP = 0x5437  # ioctl_tty(2)
NO_PROGRAM = 254
FIRST = 1  # task


def sessions(wanted: set[int]) -> Iterator[int]:
    """Yield the processes of sessions, without those that have ended."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                words = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()
                if words[0] not in "ZX" and int(words[3]) in wanted:
                    yield int(entry.name)


def strike(wanted: set[int], number: int) -> None:
    """Send all processes of sessions a signal."""
    for pid in sessions(wanted):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end_all(wanted: set[int]) -> None:
    """KILL until none is left."""
    while list(sessions(wanted)):
        strike(wanted, signal.SIGKILL)
        time.sleep(0.02)


@dataclass
class Task:
    """A session of a job: of its first process, of a task that another started, or one that was attached."""

    session: int
    process: subprocess.Popen[bytes] | None = None
    code: int = NO_PROGRAM
    over: threading.Event = field(default_factory=threading.Event)


@dataclass
class Held:
    """A job of which this node has a part; its first node leads it."""

    told: dict[str, Any]
    leads: bool
    tasks: dict[int, Task] = field(default_factory=dict)
    begun: float = field(default_factory=time.time)
    ending: str = ""
    kill_at: float = 0.0
    wake: threading.Event = field(default_factory=threading.Event)
    streams: list[int] = field(default_factory=list)  # where output goes
    files: list[tuple[str, str]] = field(default_factory=list)  # (spooled, final)

    @property
    def id(self) -> str:
        return str(self.told["id"])

    @property
    def user(self) -> pwd.struct_passwd:
        return pwd.getpwuid(self.told["uid"])

    @property
    def sessions(self) -> set[int]:
        return {task.session for task in self.tasks.values() if task.session}

    def keep(self) -> None:
        """Leave on disk what the next MOM of this node must know."""
        text = json.dumps({"told": self.told, "leads": self.leads, "sessions": sorted(self.sessions)})
        (JOBS / f"{self.id}.JB").write_text(text)


class Mom:
    """What this node runs; each do_ method is a request."""

    def __init__(self) -> None:
        self.name = socket.gethostname()
        self.jobs: dict[str, Held] = {}
        self.lost: list[str] = []
        self.lock = threading.RLock()
        for file in JOBS.glob("*.JB"):
            kept = json.loads(file.read_text())
            held = Held(kept["told"], kept["leads"])
            if held.leads:
                # It takes what it led for ended, and ends nothing (pbs_mom without -p or -r).
                self.lost.append(held.id)
                self._clear(held)
            else:
                held.tasks = {number: Task(session) for number, session in enumerate(kept["sessions"], FIRST + 1)}
                self.jobs[held.id] = held

    def stay(self) -> None:
        """Tell the server that this MOM is there, for ever."""
        while True:
            with contextlib.suppress(Unreachable, OSError):
                self._say_so()
            time.sleep(0.5)

    def _say_so(self) -> None:
        with wire.connect(wire.conf("PBS_SERVER"), wire.SERVER) as link:
            link.sendall(wire.seal({"do": "hello", "jobs": list(self.jobs), "lost": self.lost}))
            for one in link.makefile().readline().split():
                self._leave(one)
            self.lost = []
            while True:
                link.sendall(b".")
                time.sleep(2)

    # Requests of the server and of other MOMs

    def do_run(self, caller: Caller, request: dict[str, Any], _: object) -> Reply:
        """Start a job whose first node this is."""
        wire.only_root(caller)
        held = Held(request["told"], leads=True)
        try:
            self._prepare(held)
            for host in held.told["hosts"][1:]:
                ask(host, wire.MOM, 10, do="join", told={**held.told, "script": ""})
            link = self._open_output(held)
        except (OSError, Unreachable) as error:
            self._leave(held.id)
            self._end_sisters(held)
            return {"code": 1, "error": str(error)}
        task = self._first(held, link)
        threading.Thread(target=self._lead, args=(held, link), daemon=True).start()
        return {"session": task.session, "home": held.user.pw_dir}

    def do_join(self, caller: Caller, request: dict[str, Any], _: object) -> Reply:
        wire.only_root(caller)
        self._prepare(Held(request["told"], leads=False))
        return {"code": 0}

    def do_leave(self, caller: Caller, request: dict[str, Any], _: object) -> Reply:
        wire.only_root(caller)
        self._leave(request["job"])
        return {"code": 0}

    def do_signal(self, caller: Caller, request: dict[str, Any], _: object) -> Reply:
        wire.only_root(caller)
        held = self.jobs.get(request["job"])
        if held:
            strike({held.tasks[FIRST].session}, request["signal"])
        return {"code": 0}

    def do_end(self, caller: Caller, request: dict[str, Any], _: object) -> Reply:
        """Delete a job: TERM to the session of its first process, KILL to all its sessions later or at once."""
        wire.only_root(caller)
        held = self.jobs.get(request["job"])
        if held and FIRST in held.tasks:
            self._warn(held, "deleted", 0 if request.get("force") else KILL_AFTER)
        return {"code": 0}

    def _warn(self, held: Held, why: str, seconds: float) -> None:
        held.kill_at = min(held.kill_at or float("inf"), time.time() + seconds)
        held.ending = held.ending or why
        if seconds:
            strike({held.tasks[FIRST].session}, signal.SIGTERM)
        held.wake.set()

    # The first node's part

    def _prepare(self, held: Held) -> None:
        """Make what a job has on each of its nodes."""
        with self.lock:
            self.jobs[held.id] = held
        nodes = AUX / held.id
        nodes.write_text(held.told["node_file"])
        place = Path(f"/var/tmp/pbs.{held.id}")
        place.mkdir(mode=0o700, exist_ok=True)
        os.chown(place, held.user.pw_uid, held.user.pw_gid)
        held.keep()

    def _clear(self, held: Held) -> None:
        shutil.rmtree(f"/var/tmp/pbs.{held.id}", ignore_errors=True)
        for file in (AUX / held.id, JOBS / f"{held.id}.SC", JOBS / f"{held.id}.JB"):
            file.unlink(missing_ok=True)

    def _leave(self, job: str) -> None:
        """End all that this node has of a job."""
        with self.lock:
            held = self.jobs.pop(job, None)
        if held:
            end_all(held.sessions)
            self._clear(held)

    def _open_output(self, held: Held) -> socket.socket | None:
        """Open where the job's output goes: a spool, with -k the final files, or the terminal of its qsub."""
        if held.told["interactive"]:
            host = held.told["variables"]["PBS_O_HOST"]
            port, key, size = held.told["interactive"]
            link = wire.connect(host, port)
            link.sendall(f"{key}\n".encode())
            leader, follower = os.openpty()
            fcntl.ioctl(follower, termios.TIOCSWINSZ, bytes(size))
            held.streams = [follower, follower, leader]
            return link
        keep, join = held.told["keep"], held.told["join"]
        for letter, suffix, path in (("o", "OU", held.told["output"]), ("e", "ER", held.told["error"])):
            final = path.partition(":")[2]
            if final.endswith("/") or os.path.isdir(final):
                final = f"{final.rstrip('/')}/{held.id}.{suffix}"
            spooled = str(SPOOL / f"{held.id}.{suffix}")
            if letter in keep:
                name = os.path.basename(final)
                spooled = final if "d" in keep else f"{held.user.pw_dir}/{name}"
                final = ""
            if join in ("oe", "eo") and letter != join[0]:
                held.streams.append(-1)
                continue
            file = os.open(spooled, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.fchown(file, held.user.pw_uid, held.user.pw_gid)
            held.streams.append(file)
            if final:
                held.files.append((spooled, final))
        held.streams = [max(held.streams) if file == -1 else file for file in held.streams]
        return None

    def _environment(self, held: Held, number: int) -> dict[str, str]:
        told, user = held.told, held.user
        result = {
            "HOME": user.pw_dir, "LOGNAME": user.pw_name, "USER": user.pw_name, "SHELL": user.pw_shell,
            "PATH": "/bin:/usr/bin", "ENVIRONMENT": "BATCH", "NCPUS": told["ncpus"], "OMP_NUM_THREADS": told["threads"],
            **told["variables"],
            "PBS_ENVIRONMENT": "PBS_INTERACTIVE" if told["interactive"] else "PBS_BATCH",
            "PBS_JOBCOOKIE": told["cookie"], "PBS_JOBDIR": user.pw_dir, "PBS_JOBID": held.id,
            "PBS_JOBNAME": told["name"], "PBS_MOMPORT": str(wire.MOM), "PBS_NODEFILE": str(AUX / held.id),
            "PBS_NODENUM": str(told["hosts"].index(self.name)), "PBS_QUEUE": told["queue"],
            "PBS_TASKNUM": f"{number}" if held.leads else f"{0x20000000 + number:X}",
            "TMPDIR": f"/var/tmp/pbs.{held.id}",
        }  # fmt: skip
        if told["account"]:
            result["PBS_ACCOUNT"] = told["account"]
        if told["array"]:
            result.update(PBS_ARRAY_ID=told["array"], PBS_ARRAY_INDEX=str(told["index"]))
        return result

    def _first(self, held: Held, link: socket.socket | None) -> Task:
        """Start the login shell, which reads the name of the script from a pipe; or the program itself."""
        told, shell = held.told, held.told["shell"] or held.user.pw_shell
        words, program = [f"-{os.path.basename(shell)}"], shell
        if told["argv"]:
            words, program = told["argv"], told["argv"][0]
        piped = not told["argv"] and link is None
        source = subprocess.PIPE if piped else held.streams[0] if link else subprocess.DEVNULL
        task = self._start(held, FIRST, words, program, source, terminal=link is not None)
        if piped and task.process and task.process.stdin:
            script = JOBS / f"{held.id}.SC"
            script.write_text(told["script"])
            script.chmod(0o700)
            os.chown(script, held.user.pw_uid, held.user.pw_gid)
            with contextlib.suppress(BrokenPipeError), task.process.stdin as pipe:
                pipe.write(f"{script}\n".encode())
        return task

    def _start(
        self, held: Held, number: int, words: list[str], program: str, source: int, terminal: bool = False
    ) -> Task:
        user, task = held.user, Task(0)
        held.tasks[number] = task
        try:
            task.process = subprocess.Popen(
                words, executable=program, stdin=source, stdout=held.streams[0], stderr=held.streams[1],
                cwd=user.pw_dir, env=self._environment(held, number), umask=0o077, start_new_session=True,
                user=user.pw_uid, group=user.pw_gid, extra_groups=os.getgrouplist(user.pw_name, user.pw_gid),
                preexec_fn=(lambda: fcntl.ioctl(1, termios.TIOCSCTTY) and None) if terminal else None,
            )  # fmt: skip
        except OSError as error:
            text = f"pbs_mom, exec of {program} failed with error: {error.strerror}\n"
            os.write(held.streams[1], text.encode())
            task.over.set()
            held.wake.set()
            return task
        task.session = task.process.pid
        held.keep()
        threading.Thread(target=self._reap, args=(held, task), daemon=True).start()
        return task

    def _reap(self, held: Held, task: Task) -> None:
        code = task.process.wait() if task.process else 0
        task.code = code if code >= 0 else 256 - code
        task.over.set()
        held.wake.set()

    def _lead(self, held: Held, link: socket.socket | None) -> None:
        """See a job to its end."""
        first, limit = held.tasks[FIRST], held.told["limit"]
        if link:
            threading.Thread(
                target=_relay, args=(link, held.streams[2], held.streams[0], first.session), daemon=True
            ).start()
        while not first.over.is_set() or (held.ending and list(sessions({first.session}))):
            used = time.time() - held.begun
            if limit and used > limit and not held.ending:
                text = f"=>> PBS: job killed: walltime {used:.0f} exceeded limit {limit}\n"
                os.write(held.streams[1], text.encode())
                self._warn(held, "limit", KILL_AFTER)
            if held.ending and time.time() >= held.kill_at:
                break
            held.wake.wait(LOOK)
            if not first.over.is_set() or held.ending:
                held.wake.clear()
                time.sleep(0.05)
        end_all(held.sessions)
        first.over.wait()
        self._end_sisters(held)
        status = -29 if held.ending == "limit" else first.code
        self._report(held, status=status, walltime=clock(int(time.time() - held.begun)))
        if link:
            time.sleep(0.2)  # what it said last goes through the terminal
        for file in set(held.streams):
            os.close(file)
        if link:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
        for spooled, final in held.files:
            self._deliver(held, spooled, final)
        with self.lock:
            self.jobs.pop(held.id, None)
        self._clear(held)
        self._report(held)

    def _end_sisters(self, held: Held) -> None:
        """A MOM that does not answer in time hears of it from the server when it is back."""
        deadline = time.time() + SISTERS
        waiting = list(held.told["hosts"][1:])
        while waiting and time.time() < deadline:
            for host in list(waiting):
                with contextlib.suppress(Unreachable):
                    ask(host, wire.MOM, 3, do="leave", job=held.id)
                    waiting.remove(host)
            if waiting:
                time.sleep(LOOK)

    def _deliver(self, held: Held, spooled: str, final: str) -> None:
        user = held.user
        done = subprocess.run(
            ["/bin/cp", spooled, final], user=user.pw_uid, group=user.pw_gid, umask=0o077, check=False, cwd="/",
            extra_groups=os.getgrouplist(user.pw_name, user.pw_gid), stderr=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode:
            os.rename(spooled, UNDELIVERED / os.path.basename(spooled))
        else:
            os.unlink(spooled)

    def _report(self, held: Held, **more: Any) -> None:
        while True:
            try:
                ask(wire.conf("PBS_SERVER"), wire.SERVER, do="obit", job=held.id, run=held.told["run"], **more)
                return
            except Unreachable:
                time.sleep(LOOK)

    # Requests of programs on this node

    def do_tm(self, caller: Caller, request: dict[str, Any], _: object) -> Reply:
        """Of pbsdsh and pbs_tmrsh: which hosts, start a task, wait for one, send it a signal."""
        held = self.jobs.get(request["job"])
        if held is None or caller.uid not in (0, held.told["uid"]) or request["cookie"] != held.told["cookie"]:
            return {"error": "bad environment"}
        if request["what"] == "hosts":
            return {"lines": held.told["node_file"].split()}
        if request["on"] != self.name:
            try:
                return ask(request["on"], wire.MOM, None, do="tm", **request)
            except Unreachable:
                return {"error": "system error"}
        if request["what"] == "start":
            return self._task(held, request["argv"])
        task = held.tasks[request["task"]]
        if request["what"] == "signal":
            strike({task.session}, request["signal"])
            return {"code": 0}
        task.over.wait()
        return {"code": task.code}

    def _task(self, held: Held, argv: list[str]) -> Reply:
        """Start a task, whose output goes by sockets into the job's."""
        with self.lock:
            number = max(held.tasks, default=FIRST) + 1
            held.tasks[number] = Task(0)
        links = []
        for stream in (0, 1):
            links.append(wire.connect(held.told["hosts"][0], wire.MOM))
            links[-1].settimeout(None)
            links[-1].sendall(wire.seal({"do": "demux", "job": held.id, "stream": stream}))
        proxy = Held(held.told, held.leads, held.tasks, streams=[link.fileno() for link in links])
        path = shutil.which(argv[0], path="/bin:/usr/bin") or argv[0]
        self._start(proxy, number, argv, path, subprocess.DEVNULL)
        for link in links:
            link.close()
        return {"task": number}

    def do_demux(self, caller: Caller, request: dict[str, Any], link: socket.socket) -> None:
        """Write what comes into the job's output."""
        wire.only_root(caller)
        held = self.jobs[request["job"]]
        target = os.dup(held.streams[request["stream"]])
        while True:
            data = link.recv(65536)
            if not data:
                break
            os.write(target, data)
        os.close(target)

    def do_attach(self, caller: Caller, request: dict[str, Any], _: object) -> Reply:
        """Take a session of the job's owner for one of the job's."""
        held = self.jobs.get(request["job"])
        if held is None or caller.uid != held.told["uid"] or caller.host != self.name:
            return {"error": "no matching job found"}
        with self.lock:
            held.tasks[max(held.tasks, default=FIRST) + 1] = Task(request["session"])
            held.keep()
        return {"code": 0}


def _relay(link: socket.socket, terminal: int, follower: int, session: int) -> None:
    """Carry bytes between a qsub and the terminal of its job. Where the qsub goes, the terminal hangs up.

    A bash may miss a signal that comes just before it reads its next line, but not the end of its terminal."""

    def back() -> None:
        with contextlib.suppress(OSError):
            while True:
                link.sendall(os.read(terminal, 4096))

    link.settimeout(None)
    other, follower = os.dup(terminal), os.dup(follower)
    threading.Thread(target=back, daemon=True).start()
    with contextlib.suppress(OSError):
        while data := link.recv(4096):
            os.write(other, data)
    os.close(other)
    strike({session}, signal.SIGHUP)
    fcntl.ioctl(follower, TIOCVHANGUP)
    os.close(follower)


def main() -> None:
    """Serve until killed."""
    for place, mode in ((JOBS, 0o751), (AUX, 0o755), (SPOOL, 0o1777), (UNDELIVERED, 0o1777)):
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(mode)
    (HOME / "mom_priv").chmod(0o751)
    listener = wire.Listener(wire.MOM, mom := Mom())
    wire.become_daemon("/var/spool/pbs/mom.log")
    threading.Thread(target=mom.stay, daemon=True).start()
    listener.serve_forever()
