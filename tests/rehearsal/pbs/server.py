"""pbs_server and its scheduler: the queue, and who of the MOMs runs what."""

from __future__ import annotations

import os
import pickle
import pwd
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from . import wire
from .jobs import (
    QUEUES,
    Job,
    Node,
    Refused,
    amounts,
    clock,
    exec_host,
    exec_vnode,
    node_file,
    place,
    resources,
    seconds,
    stamp,
)  # fmt: skip
from .wire import Caller, Reply, Unreachable, ask

HOME = "/var/spool/pbs/server_priv"
STATE = f"{HOME}/state"
SILENCE = 12.0  # seconds after which a MOM that says nothing is down
ROUND = 1.0  # between looks at what waits; PBS has 10 minutes, and looks when something changes, as this does
TRIES = 20  # of a job that does not start
# A fresh server's, of those that qmgr may set here.
FRESH = {"flatuid": "False", "job_history_enable": "False", "node_fail_requeue": "310"}
FINISHED, FAILED, DELETED = 92, 93, 91  # substates
BEFORE: dict[str, Callable[[int], bool]] = {
    "afterok": lambda code: code == 0,
    "afternotok": lambda code: code != 0,
    "afterany": lambda code: True,
}


def later(what: Any, *words: Any) -> None:
    threading.Thread(target=what, args=words, daemon=True).start()


class Server:
    """What the server knows; each do_ method is a request."""

    def __init__(self, nodes: list[str], totals: dict[str, int]) -> None:
        self.lock = threading.Condition(threading.RLock())
        # PBS takes its hosts in another order than that of their names: as seen, the last one first.
        self.nodes = {name: Node(name, totals) for name in [*nodes[-1:], *nodes[:-1]]}
        self.jobs: dict[str, Job] = {}
        self.history: dict[str, Job] = {}
        self.ended: dict[str, str] = {}  # for `qsub -W block=true`: job -> what becomes of qsub
        self.settings = dict(FRESH)
        self.next = 0
        self.name = socket.gethostname()
        if os.path.exists(STATE):
            with open(STATE, "rb") as file:
                self.jobs, self.history, self.settings, self.next = pickle.load(file)

    def changed(self) -> None:
        """Keep the queue, wake who waits."""
        with open(f"{STATE}.new", "wb") as file:
            pickle.dump((self.jobs, self.history, self.settings, self.next), file)
        os.rename(f"{STATE}.new", STATE)
        self.lock.notify_all()

    # Requests of users

    def do_submit(self, caller: Caller, request: dict[str, Any], _: object) -> Reply:
        """Take a job, or an array with all its parts."""
        with self.lock:
            try:
                if caller.host != self.name and self.settings["flatuid"] != "True":
                    raise Refused(wire.BAD_USER, "Bad UID for job execution")
                job = self._job(caller, request)
            except Refused as refusal:
                return {"code": refusal.number, "error": str(refusal)}
            self.next += 1
            self._add(job, request["options"].get("J", ""))
            self._hold_for_others(job)
            self.changed()
            return {"id": job.id}

    def _job(self, caller: Caller, request: dict[str, Any]) -> Job:
        options, asked = request["options"], request["resources"]
        queue = options.get("q", "workq")
        if queue not in QUEUES:
            raise Refused(wire.BAD_QUEUE, "Unknown queue")
        listed, chunks = resources(asked, queue)
        user, number, now = pwd.getpwuid(caller.uid).pw_name, str(self.next), stamp()
        name, others = options["N"], request["others"]
        array = "J" in options
        suffix = f"{number}.^array_index^" if array else number
        folder, join = request["variables"]["PBS_O_WORKDIR"], options.get("j", "n")
        attributes = {
            "Job_Name": name, "Job_Owner": f"{user}@{caller.host}", "job_state": "Q", "queue": queue,
            "server": self.name, "Account_Name": options.get("A"), "Checkpoint": "u", "ctime": now,
            "depend": others.get("depend"),
            "Error_Path": self._path(options.get("e"), f"{folder}/{name}.e{suffix}", folder, caller.host),
            "Hold_Types": "u" if "h" in options else "n", "Join_Path": join,
            "Keep_Files": options.get("k", "n"), "Mail_Points": options.get("m", "a"),
            "Mail_Users": options.get("M"), "mtime": now,
            "Output_Path": self._path(options.get("o"), f"{folder}/{name}.o{suffix}", folder, caller.host),
            "Priority": int(options.get("p", 0)), "qtime": now,
            "Rerunable": "False" if options.get("r") == "n" else "True", "Resource_List": listed, "substate": 10,
            "Variable_List": {**request["variables"], "PBS_O_QUEUE": queue, "PBS_O_HOST": caller.host},
            "etime": now, "interactive": "True" if request["interactive"] else None,
            "block": "True" if others.get("block") else None, "Submit_arguments": request["arguments"],
            "executable": f"<jsdl-hpcpa:Executable>{request['argv'][0]}</jsdl-hpcpa:Executable>"
            if request["argv"] else None,
            "argument_list": "".join(f"<jsdl-hpcpa:Argument>{word}</jsdl-hpcpa:Argument>"
                                     for word in request["argv"][1:]) or None,
            "project": options.get("P", "_pbs_project_default"), "Submit_Host": caller.host,
        }  # fmt: skip
        job = Job(
            f"{number}{'[]' if array else ''}.{self.name}", caller.uid,
            {key: value for key, value in attributes.items() if value is not None}, chunks,
            request["script"], request["argv"], options.get("S", ""), request["interactive"],
        )  # fmt: skip
        if "h" in options:
            job.put(job_state="H", substate=20)
        if "a" in options:
            job.after = request["after"]
            job.put(job_state="W", substate=30, Execution_Time=stamp(job.after))
        return job

    def _path(self, given: str | None, default: str, folder: str, host: str) -> str:
        path = given or default
        if ":" in path:
            return path
        return f"{host}:{path if path.startswith('/') else f'{folder}/{path}'}"

    def _add(self, job: Job, array: str) -> None:
        self.jobs[job.id] = job
        if not array:
            return
        indices, limit = array_indices(array)
        shown = array.partition("%")[0]
        job.put(array="True", array_indices_submitted=shown, array_indices_remaining=shown)
        if limit:
            job.put(max_run_subjobs=limit)
        for index in indices:
            own = {key: value for key, value in job.attributes.items() if not key.startswith(("array", "max_run"))}
            paths = {key: own[key].replace("^array_index^", str(index)) for key in ("Output_Path", "Error_Path")}
            part = Job(job.id.replace("[]", f"[{index}]"), job.uid, {**own, **paths}, job.chunks, job.script,
                       job.argv, job.shell, whole=job.id)  # fmt: skip
            part.put(array_id=job.id, array_index=index, job_state="Q", substate=10, Hold_Types="n")
            self.jobs[part.id] = part
            job.parts.append(part.id)

    def _hold_for_others(self, job: Job) -> None:
        """Hold a job until those it depends on let it go. One that is not known is as one that failed."""
        depend = job.attributes.get("depend", "")
        if not depend:
            return
        kinds = [word.split(":") for word in depend.split(",")]
        named = [(kind, self._full(one)) for kind, *ids in kinds for one in ids]
        job.put(depend=",".join(f"{kind}:{one}@{self.name}" for kind, one in named))
        job.put(job_state="H", Hold_Types="us" if job.attributes["Hold_Types"] == "u" else "s", substate=22)
        for kind, one in named:
            if one not in self.jobs:
                old = self.history.get(one)
                self._release(job, kind, one, old.attributes.get("Exit_status") if old else None)

    def _release(self, job: Job, kind: str, one: str, code: int | None) -> None:
        """Take one dependency away, or the job, where it can't be met any more."""
        if code is None or not BEFORE.get(kind, BEFORE["afterany"])(code):
            self._finish(job, None, DELETED)
            return
        left = [word for word in job.attributes["depend"].split(",") if word != f"{kind}:{one}@{self.name}"]
        job.put(depend=",".join(left) or None)
        if not left:
            self._let_go(job, "s")

    def _let_go(self, job: Job, kind: str) -> None:
        """Take a hold of this kind away: the user's, or that of the system for a job that waits for another."""
        left = job.attributes["Hold_Types"].replace(kind, "") or "n"
        then: dict[str, dict[str, Any]] = {"n": {"job_state": "Q", "substate": 10}, "u": {"substate": 20}, "s": {}}
        job.put(Hold_Types=left, **(then[left] if job.state == "H" else {}))

    def do_wait(self, _: Caller, request: dict[str, Any], __: object) -> Reply:
        """Answer when a job has ended, for its qsub."""
        with self.lock:
            while request["id"] not in self.ended:
                self.lock.wait(60)
            return {"said": self.ended[request["id"]]}

    def do_jobs(self, _: Caller, request: dict[str, Any], __: object) -> Reply:
        """Answer with jobs: those asked for, or all; with the parts of arrays if they are wanted."""
        with self.lock:
            known = {**self.history, **self.jobs} if request["history"] else self.jobs
            if request["history"] and self.settings["job_history_enable"] != "True":
                names = request["ids"] or [""]
                return {"history": [f"PBS is not configured to maintain job history {one}" for one in names]}
            ids = request["ids"] or [one for one, job in known.items() if not job.whole]
            found: dict[str, dict[str, Any]] = {}
            refusals = []
            for one in map(self._full, ids):
                if one in known:
                    parts = known[one].parts if request["parts"] else []
                    found.update({each: self._shown(known[each]) for each in (one, *parts) if each in known})
                elif one in self.history:
                    refusals.append([wire.IN_HISTORY, one])
                else:
                    refusals.append([wire.UNKNOWN_JOB, one])
            return {"jobs": found, "refusals": refusals}

    def _shown(self, job: Job) -> dict[str, Any]:
        if not job.parts:
            return job.attributes
        states = [self.jobs[one].state if one in self.jobs else "X" for one in job.parts]
        counts = {"Queued": "QH", "Running": "R", "Exiting": "E", "Expired": "X"}
        text = " ".join(f"{name}:{sum(state in letters for state in states)}" for name, letters in counts.items())
        left = [one.split("[")[1].split("]")[0] for one, state in zip(job.parts, states) if state in "QH"]
        return {**job.attributes, "array_state_count": text, "array_indices_remaining": ranges(left) or "-"}

    def do_nodes(self, _: Caller, request: dict[str, Any], __: object) -> Reply:
        with self.lock:
            return {"nodes": {node.name: self._node(node) for node in self.nodes.values()}}

    def _node(self, node: Node) -> dict[str, Any]:
        assigned = {name: node.used(name) for name in ("mem", "ncpus", "ngpus") if node.used(name)}
        return {
            "Mom": node.name, "ntype": "PBS", "state": node.state, "pcpus": node.total["ncpus"],
            **({"jobs": list(node.parts)} if node.parts else {}),
            "resources_available": {
                "arch": "linux", "host": node.name, "ib": "True", "mem": f"{node.total['mem']}kb",
                "ncpus": node.total["ncpus"], "ngpus": node.total["ngpus"], "vnode": node.name,
            },
            "resources_assigned": {k: f"{v}kb" if k == "mem" else v for k, v in assigned.items()},
            **({"comment": node.comment} if node.comment else {}),
            "resv_enable": "True", "sharing": "default_shared", "license": "l",
            "last_state_change_time": int(node.since),
        }  # fmt: skip

    def do_queues(self, _: Caller, __: dict[str, Any], ___: object) -> Reply:
        with self.lock:
            running = [job for job in self.jobs.values() if job.state == "R"]
            shown = {}
            for name, most in QUEUES.items():
                states = [job.state for job in self.jobs.values() if job.attributes["queue"] == name and not job.whole]
                kinds = ("Transit", "Queued", "Held", "Waiting", "Running", "Exiting", "Begun")
                limits = {key: clock(value) if key == "walltime" else value for key, value in most.items()}
                shown[name] = {
                    "queue_type": "Execution", "total_jobs": len(states),
                    "state_count": "".join(f"{kind}:{states.count(kind[0])} " for kind in kinds),
                    **({"resources_max": limits} if limits else {}), "enabled": "True", "started": "True",
                }  # fmt: skip
            server = {
                "server_state": "Active", "server_host": self.name, "scheduling": "True",
                "total_jobs": len(self.jobs), "default_queue": "workq",
                **{key: value for key, value in self.settings.items() if value != FRESH[key]},
                "resources_assigned": {"ncpus": sum(job.attributes["Resource_List"]["ncpus"] for job in running)},
                "pbs_version": wire.VERSION,
            }  # fmt: skip
            return {"queues": shown, "server": server}

    def do_set(self, caller: Caller, request: dict[str, Any], _: object) -> Reply:
        """Change a setting of the server, as qmgr does for root."""
        if caller.uid or request["name"] not in FRESH:
            return {"code": wire.PERMISSION, "error": "Unauthorized Request"}
        with self.lock:
            self.settings[request["name"]] = request["value"]
            self.changed()
        return {"code": 0}

    def do_change(self, caller: Caller, request: dict[str, Any], _: object) -> Reply:
        """qdel, qsig, qhold, qrls, qalter or qrerun of one job."""
        one = self._full(request["id"])
        with self.lock:
            job = self.jobs.get(one)
            if job is None:
                if one in self.history:
                    return {"code": wire.IN_HISTORY, "error": f"Job has finished {one}"}
                return {"code": wire.UNKNOWN_JOB, "error": f"Unknown Job Id {one}"}
            user = pwd.getpwuid(caller.uid).pw_name
            flat = self.settings["flatuid"] == "True"
            owns = job.attributes["Job_Owner"] == f"{user}@{caller.host}" or (flat and job.uid == caller.uid)
            operator = caller.uid == 0 and caller.host == self.name
            if not (operator or (owns and request["what"] != "rerun")):
                return {"code": wire.PERMISSION, "error": f"Unauthorized Request  {one}"}
            method = getattr(self, f"_{request['what']}")
            try:
                method(job, request, f"{user}@{caller.host}")
            except Refused as refusal:
                return {"code": refusal.number, "error": f"{refusal} {one}"}
            except Unreachable:
                return {"code": wire.NO_MOM, "error": f"Server could not connect to MOM {one}"}
            self.changed()
            return {"code": 0}

    def _delete(self, job: Job, request: dict[str, Any], who: str) -> None:
        self.ended.setdefault(job.id, f"qsub: {job.id} Job to be deleted at request of {who}")
        for part in [self.jobs[one] for one in job.parts if one in self.jobs]:
            self._delete(part, request, who)
        if job.parts:
            return
        if job.state in "RE":
            if job.state == "E" and not request.get("force"):
                raise Refused(wire.BAD_STATE, "Request invalid for state of job")
            job.ending = "deleted"
            try:
                self._tell(job, "end", force=bool(request.get("force")))
            except Unreachable:
                if not request.get("force"):
                    raise
            if request.get("force"):
                self._finish(job, 265, DELETED)
        else:
            self._finish(job, None, DELETED)

    def _signal(self, job: Job, request: dict[str, Any], _: str) -> None:
        if job.state != "R":
            raise Refused(wire.BAD_STATE, "Request invalid for state of job")
        self._tell(job, "signal", signal=request["signal"])

    def _hold(self, job: Job, _: dict[str, Any], __: str) -> None:
        job.put(Hold_Types="u", **({"job_state": "H", "substate": 20} if job.state in "QW" else {}))

    def _let(self, job: Job, _: dict[str, Any], __: str) -> None:
        self._let_go(job, "u")

    def _alter(self, job: Job, request: dict[str, Any], _: str) -> None:
        if request["resources"]:
            if job.state == "R" and set(request["resources"]) - {"walltime"}:
                raise Refused(wire.BAD_STATE, "Request invalid for state of job")
            asked = {k: v for k, v in job.attributes["Resource_List"].items() if k in ("select", "place", "walltime")}
            listed, chunks = resources({**asked, **request["resources"]}, job.attributes["queue"])
            job.put(Resource_List=listed)
            job.chunks = chunks
        job.put(**request["attributes"])

    def _rerun(self, job: Job, _: dict[str, Any], __: str) -> None:
        if job.attributes["Rerunable"] != "True":
            raise Refused(wire.NO_RERUN, "job is not rerunnable")
        if job.state != "R":
            raise Refused(wire.BAD_STATE, "Request invalid for state of job")
        job.ending = "again"
        self._tell(job, "end")

    def _full(self, one: str) -> str:
        return one if "." in one else f"{one}.{self.name}"

    def _tell(self, job: Job, what: str, **more: Any) -> None:
        ask(job.where[0], wire.MOM, 5, do=what, job=job.id, **more)

    # The scheduler

    def rounds(self) -> None:
        """Look again and again at what waits."""
        with self.lock:
            while True:
                self.look()
                self._give_up_lost_nodes()
                self.lock.wait(ROUND)

    def look(self) -> None:
        """Start what fits, and say of the rest why it waits."""
        with self.lock:
            for job in self._waiting():
                found = place(job, list(self.nodes.values()))
                if not isinstance(found, str):
                    self._start(job, found)
                elif job.attributes.get("comment") != found:
                    job.put(comment=found)

    def _waiting(self) -> Iterator[Job]:
        for job in list(self.jobs.values()):
            if job.state == "W" and time.time() >= job.after:
                job.put(job_state="Q", substate=10)
            whole = self.jobs.get(job.whole)
            running = sum(self.jobs[one].state in "RE" for one in whole.parts if one in self.jobs) if whole else 0
            full = whole and (running >= whole.attributes.get("max_run_subjobs", 10**9) or whole.state == "H")
            if job.state == "Q" and not job.parts and not full:
                yield job

    def _start(self, job: Job, where: list[str]) -> None:
        job.where, job.cookie, job.ending = where, secrets.token_hex(16).upper(), ""
        first = self.nodes[where[0]]
        used = {other.index for other in self.jobs.values() if other.id in first.parts and other.where[:1] == where[:1]}
        job.index = next(number for number in range(10**6) if number not in used)
        for host, chunk in zip(where, job.chunks):
            part = self.nodes[host].parts.setdefault(job.id, {})
            for name, amount in amounts(chunk).items():
                part[name] = part.get(name, 0) + amount
            if "excl" in job.attributes["Resource_List"]["place"]:
                self.nodes[host].alone = job.id
        day = time.strftime("%a %b %d at %H:%M")
        job.put(
            job_state="R", substate=41, exec_host=exec_host(job), exec_vnode=exec_vnode(job), stime=stamp(),
            comment=f"Job run at {day} on {exec_vnode(job)}", run_count=job.attributes.get("run_count", 0) + 1,
        )  # fmt: skip
        if job.whole and self.jobs[job.whole].state == "Q":
            self.jobs[job.whole].put(job_state="B", substate=70, stime=stamp(), comment=f"Job Array Began at {day}")
        self.changed()
        later(self._launch, job)

    def _launch(self, job: Job) -> None:
        """Hand a job to the MOM of its first host."""
        limit = job.attributes["Resource_List"].get("walltime")
        first = job.chunks[0]
        told = {
            "id": job.id, "uid": job.uid, "name": job.attributes["Job_Name"], "queue": job.attributes["queue"],
            "variables": job.attributes["Variable_List"], "script": job.script, "argv": job.argv,
            "shell": job.shell, "interactive": job.interactive, "hosts": job.hosts, "node_file": node_file(job),
            "ncpus": first["ncpus"], "threads": first.get("ompthreads", first["ncpus"]),
            "limit": seconds(limit) if limit else 0, "cookie": job.cookie,
            "output": job.attributes["Output_Path"], "error": job.attributes["Error_Path"],
            "join": job.attributes["Join_Path"], "keep": job.attributes["Keep_Files"],
            "account": job.attributes.get("Account_Name", ""), "array": job.whole, "run": job.attributes["run_count"],
            "index": job.attributes.get("array_index"),
        }  # fmt: skip
        try:
            reply = ask(job.where[0], wire.MOM, 30, do="run", told=told)
        except Unreachable:
            reply = {}
        with self.lock:
            if self.jobs.get(job.id) is not job or job.state != "R" or job.attributes["run_count"] != told["run"]:
                return
            if "session" in reply:
                job.put(session_id=reply["session"], jobdir=reply["home"], substate=42)
                if job.ending:  # before it had begun
                    self._tell(job, "end")
            elif told["run"] > TRIES:
                self._free(job)
                job.put(job_state="H", Hold_Types="s", substate=20, exec_host=None, exec_vnode=None,
                        comment="job held, too many failed attempts to run")  # fmt: skip
            else:
                self._again(job)
            self.changed()

    def _again(self, job: Job) -> None:
        self._free(job)
        job.put(job_state="Q", substate=10, exec_host=None, exec_vnode=None, session_id=None)

    def _free(self, job: Job) -> None:
        for node in self.nodes.values():
            node.parts.pop(job.id, None)
            if node.alone == job.id:
                node.alone = ""
        job.where = []

    def _finish(self, job: Job, code: int | None, substate: int) -> None:
        """A job is over: those that depend on it hear it, and its array, and its qsub."""
        self._free(job)
        comment = job.attributes.get("comment", "")
        if code is not None:
            how = "finished" if code == 0 else "terminated by a signal" if code > 256 else "failed"
            job.put(Stageout_status=1, Exit_status=code, obittime=stamp(), comment=f"{comment} and {how}")
        job.put(job_state="X" if job.whole in self.jobs else "F", substate=substate)
        self.ended.setdefault(job.id, str((code or 0) & 255))
        whole = self.jobs.get(job.whole)
        if whole is None:
            for one in (job.id, *job.parts):
                gone = self.jobs.pop(one, None)
                if gone and self.settings["job_history_enable"] == "True":
                    gone.put(job_state="X" if gone.whole else "F", history_timestamp=int(time.time()))
                    self.history[one] = gone
        elif all(self.jobs[one].state == "X" for one in whole.parts):
            codes = [self.jobs[one].attributes.get("Exit_status", 1) for one in whole.parts]
            self._finish(whole, int(any(codes)), FAILED if any(codes) else FINISHED)
        for other in list(self.jobs.values()):
            for word in other.attributes.get("depend", "").split(","):
                kind, _, named = word.partition(":")
                if named == f"{job.id}@{self.name}" and other.id in self.jobs:
                    self._release(other, kind, job.id, code)

    # The MOMs

    def do_obit(self, caller: Caller, request: dict[str, Any], _: object) -> Reply:
        """Hear of a MOM that the processes of a job have ended, and then that its output is where it belongs."""
        wire.only_root(caller)
        with self.lock:
            job = self.jobs.get(request["job"])
            if job is None or job.attributes.get("run_count") != request["run"] or job.state not in "RE":
                return {"code": 0}
            if "status" in request:
                job.put(job_state="E", substate=51, Exit_status=request["status"])
                job.put(resources_used={
                    "cpupercent": 0, "cput": "00:00:00", "mem": "0kb", "vmem": "0kb",
                    "ncpus": job.attributes["Resource_List"]["ncpus"], "walltime": request["walltime"],
                })  # fmt: skip
                if job.ending != "deleted":
                    # as seen: qsub leaves before the output is there
                    self.ended.setdefault(job.id, str(request["status"] & 255))
            elif job.ending == "again":
                self._again(job)
                job.put(Exit_status=None)
            else:
                code = job.attributes["Exit_status"]
                deleted = job.ending == "deleted"
                self._finish(job, code, DELETED if deleted else FINISHED if code == 0 else FAILED)
            self.changed()
        return {"code": 0}

    def do_hello(self, caller: Caller, request: dict[str, Any], link: socket.socket) -> None:
        """A MOM is there as long as it says so. What it had at work when it ended before is lost, or runs on."""
        wire.only_root(caller)
        node = self.nodes[caller.host]
        with self.lock:
            stale = [one for one in request["jobs"] if one not in self.jobs or caller.host not in self.jobs[one].where]
            for job in [self.jobs[one] for one in request["lost"] if one in self.jobs]:
                later(self._lost, job)
            node.up, node.since, node.comment = True, time.time(), ""
            self.changed()
        link.sendall(f"{' '.join(stale)}\n".encode())
        link.settimeout(SILENCE)
        try:
            while link.recv(100):
                pass
        except OSError:
            pass
        with self.lock:
            node.up, node.since, node.comment = False, time.time(), "node down: communication closed"
            self.changed()

    def _lost(self, job: Job) -> None:
        """The MOM of its first host knows no more of it."""
        for host in job.hosts[1:]:
            try:
                ask(host, wire.MOM, 5, do="leave", job=job.id)
            except Unreachable:
                continue
        with self.lock:
            if job.state in "RE" and job.attributes["Rerunable"] == "True" and not job.ending:
                self._again(job)
            elif job.state in "RE":
                self._finish(job, -4, DELETED if job.ending else FAILED)
            self.changed()

    def _give_up_lost_nodes(self) -> None:
        for job in list(self.jobs.values()):
            first = self.nodes[job.where[0]] if job.where and job.state in "RE" else None
            if first and not first.up and time.time() - first.since > float(self.settings["node_fail_requeue"]):
                self._lost(job)


def array_indices(text: str) -> tuple[list[int], int]:
    """Return the indices of X-Y:Z%LIMIT, and the limit."""
    found = re.fullmatch(r"(\d+)-(\d+)(?::(\d+))?(?:%(\d+))?", text)
    if not found:
        raise Refused(wire.BAD_VALUE, "Illegal attribute or resource value")
    first, last, step, limit = (int(group or 0) for group in found.groups())
    return list(range(first, last + 1, step or 1)), limit


def ranges(numbers: list[str]) -> str:
    """Return numbers as PBS writes them: 2-3,7."""
    found: list[list[int]] = []
    for number in map(int, numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{low}-{high}" if low != high else f"{low}" for low, high in found)


def main() -> None:
    """Serve until killed."""
    os.makedirs(HOME, 0o755, exist_ok=True)
    with open("/etc/rehearsal/pbs", encoding="ascii") as file:
        nodes, cpus, gpus, memory = file.read().split("\n")[:4]
    server = Server(nodes.split(), {"ncpus": int(cpus), "ngpus": int(gpus), "mem": int(memory)})
    listener = wire.Listener(wire.SERVER, server)
    wire.become_daemon("/var/spool/pbs/server.log")
    later(server.rounds)
    listener.serve_forever()
    sys.exit(0)
