"""The stand-in of OpenPBS says what the real one was recorded saying, so that it can't drift into kindness."""

from __future__ import annotations

import io
import json
import pwd
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal.pbs import commands, jobs, qsub, server, show, tm, wire
from rehearsal.pbs.__main__ import WHERE

RECORDED = Path(__file__).parent / "recorded/pbs"
NODES = ["node01", "node02", "node03"]
TOTAL = {"ncpus": 8, "ngpus": 4, "mem": 24684084}
ALICE, BOB = 1500, 1501
TIMES = ("ctime", "mtime", "qtime", "stime", "etime", "obittime", "timestamp", "history_timestamp")


class Site:
    """A server without MOMs: what the commands ask goes to it at once, and a job that starts has begun."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = server.Server(NODES, TOTAL)
        for node in self.server.nodes.values():
            node.up = True
        self.capsys, self.monkeypatch = capsys, monkeypatch
        self.caller = wire.Caller(ALICE, "login")

    def request(self, do: str, **more: Any) -> wire.Reply:
        reply: wire.Reply = getattr(self.server, f"do_{do}")(self.caller, json.loads(json.dumps(more)), None)
        self.server.look()
        return reply

    def run(self, *words: str, stdin: str = "") -> tuple[int, str, str]:
        """Return the code of a command, and what it said on both streams."""
        self.monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        module = {"qsub": qsub, "tm": tm}.get(WHERE.get(words[0], ""), commands)
        try:
            code = getattr(module, words[0])(list(words[1:]))
        except SystemExit as end:
            code = end.code
        return code, *self.capsys.readouterr()

    def submit(self, *words: str, stdin: str = "") -> str:
        code, out, err = self.run("qsub", *words, stdin=stdin)
        assert code == 0, err
        return out.strip()

    def jobs(self, *words: str) -> dict[str, dict[str, Any]]:
        text = self.run("qstat", "-f", "-F", "json", *words)[1]
        found: dict[str, dict[str, Any]] = json.loads(text).get("Jobs", {})
        return found

    def ended(self, job: str, status: int) -> None:
        """A MOM tells that a job is over."""
        told = {"job": job, "run": self.server.jobs[job].attributes["run_count"]}
        root = wire.Caller(0, "node03")
        self.server.do_obit(root, {**told, "status": status, "walltime": "00:00:00"}, None)
        self.server.do_obit(root, told, None)
        self.server.look()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Site]:
    (tmp_path / "w").mkdir()
    monkeypatch.chdir(tmp_path / "w")
    monkeypatch.setattr(qsub, "here", lambda: "/home/alice/w")
    names = {ALICE: "alice", BOB: "bob", 0: "root"}
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: pwd.struct_passwd((names[uid], "*", uid, uid, "", "/", "/bin/sh")))
    monkeypatch.setattr("socket.gethostname", lambda: "login")
    monkeypatch.setenv("PBS_SERVER", "login")
    path = "/opt/pbs/bin:/opt/pbs/sbin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
    given = {"HOME": "/home/alice", "LANG": "C.UTF-8", "LOGNAME": "alice", "PATH": path, "SHELL": "/bin/bash"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(server, "STATE", str(tmp_path / "state"))
    monkeypatch.setattr(server, "later", lambda what, *words: what(*words))
    monkeypatch.setattr(server, "ask", lambda *_, **__: {"session": 414, "home": "/home/alice"})
    ours = Site(capsys, monkeypatch)
    monkeypatch.setattr(commands, "request", ours.request)
    monkeypatch.setattr(qsub, "request", ours.request)
    yield ours


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDED / name).read_text())
    return found


def transcript() -> list[tuple[str, str, int]]:
    """Return command, answer and code of each in refusals.txt."""
    blocks = re.split(r"(?m)^\$ ", (RECORDED / "refusals.txt").read_text())[1:]
    return [
        (lines[0], "\n".join(lines[1:-1]), int(lines[-1].split()[1].rstrip("]")))
        for lines in (block.splitlines() for block in blocks)
    ]


def same(ours: dict[str, Any], theirs: dict[str, Any], *besides: str) -> None:
    """Compare keys in their order, types and values; times and `besides` by their types alone."""
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        if name in (*TIMES, *besides):
            assert type(ours[name]) is type(value), name
        else:
            assert (name, ours[name]) == (name, value)


@pytest.mark.parametrize(("line", "said", "code"), transcript(), ids=[line for line, *_ in transcript()])
def test_refusals_of_qsub(site: Site, line: str, said: str, code: int) -> None:
    Path("job.sh").write_text("true\n")
    words = shlex.split(line.replace("echo x | ", ""))
    assert site.run(*words, stdin="x\n") == (code, "", f"{said}\n")


RUNNING = "-N jsonjob -l select=2:ncpus=4:mpiprocs=2:ngpus=2:mem=2gb -l place=scatter:excl -l walltime=0:02:00 -A proj1"


def test_a_running_job_in_json(site: Site) -> None:
    site.server.next = 57
    words = ["-v", 'A=1,B=x y,C="p,q"', "--", "/bin/sleep", "30"]
    assert site.submit(*RUNNING.split(), *words) == "57.login"
    (job,) = site.jobs("57").values()
    for name in ("session_id", "jobdir"):  # not yet there when it was recorded
        del job[name]
    same({**job, "substate": 41}, recorded("qstat-running.json")["Jobs"]["57.login"], "comment")
    assert job["comment"].endswith(f" on {job['exec_vnode']}")


def test_a_finished_job_in_json(site: Site) -> None:
    site.server.settings["job_history_enable"] = "True"
    Path("job.sh").write_text(
        "#!/bin/bash\n#PBS -N fromscript\n#PBS -l select=2:ncpus=4:mpiprocs=2:ngpus=2:mem=2gb\n#PBS -l place=scatter\n"
        "#PBS -l walltime=0:05:00\n\n# more\n#PBS -j oe\nhostname\n#PBS -N late\n"
    )
    job = site.submit("job.sh")
    site.ended(job, 0)
    (found,) = site.jobs("-x", "0").values()
    del found["session_id"]  # it was over before its MOM had told
    same(found, recorded("qstat-finished.json")["Jobs"]["0.login"], "comment", "resources_used")
    assert found["comment"].endswith(" and finished")


def test_an_array_in_json(site: Site) -> None:
    site.server.next = 58
    assert site.submit("-J", "0-3%2", "-N", "arr", "--", "/bin/sleep", "8") == "58[].login"
    (job,) = site.jobs("58[]").values()
    same(job, recorded("qstat-array.json")["Jobs"]["58[].login"], "comment")
    parts = site.jobs("-t", "58[]")
    assert [parts[f"58[{index}].login"]["job_state"] for index in range(4)] == ["R", "R", "Q", "Q"]
    assert parts["58[1].login"]["Output_Path"] == "login:/home/alice/w/arr.o58.1"


def test_nodes_and_queues_in_json(site: Site) -> None:
    site.submit(*RUNNING.split(), stdin="x")
    ours = json.loads(site.run("pbsnodes", "-a", "-F", "json")[1])["nodes"]
    theirs = recorded("nodes.json")["nodes"]
    assert list(ours) == list(theirs)
    busy = {key: value for key, value in theirs["node03"].items() if key != "last_used_time"}
    ours["node03"]["resources_available"].pop("ib")  # a feature that the site has
    same(ours["node03"], busy, "pcpus", "jobs", "last_state_change_time")
    queues = json.loads(site.run("qstat", "-Q", "-f", "-F", "json")[1])["Queue"]
    same(queues["short"], recorded("queues.json")["Queue"]["short"])
    assert {**queues["workq"], "resources_assigned": {}}.keys() == recorded("queues.json")["Queue"]["workq"].keys()


def test_attributes_as_text(site: Site) -> None:
    """Broken lines are put together, and broken again at the same places."""
    blocks = (RECORDED / "qstat-f.txt").read_text().split("Job Id: ")[1:]
    assert len(blocks) == 2
    for block in blocks:
        lines = block.replace("\n\t", "").splitlines()
        pairs = [line.strip().split(" = ", 1) for line in lines[1:] if line.strip()]
        ours = "\n".join([lines[0], *(show.wrapped(name, value) for name, value in pairs)])
        assert ours == block.rstrip("\n")


def test_the_table(site: Site) -> None:
    for line in (RECORDED / "qstat-x.txt").read_text().splitlines():
        words = line.split()
        if words[0].endswith(".login"):
            name = words[1] if "*" not in words[1] else "this_is_a_very_long_name_over_fifteen_chars"
            used = {"resources_used": {"cput": words[3]}} if words[3] != "0" else {}
            has = {"Job_Name": name, "Job_Owner": "alice@login", "job_state": words[4], "queue": words[5], **used}
            assert show.table({words[0]: has}).splitlines()[2] == line


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("007", 7), ("1e5", 100000), ("nan", "nan"), ("-5", -5), ("0x1f", "0x1f"), ("", ""), ("+3", "+3"),
        ("1.50", 1.5), ("true", True), ("99999999999999999999", 1e20), (" 7", 7),
    ],
)  # fmt: skip
def test_json_guesses_types(site: Site, given: str, seen: object) -> None:
    job = site.submit("-h", "-N", "123", "-v", f"X='{given}'", stdin="x")
    (found,) = site.jobs(job).values()
    assert (type(found["Variable_List"]["X"]), found["Variable_List"]["X"]) == (type(seen), seen)
    assert found["Job_Name"] == "123"


@pytest.mark.parametrize(
    ("words", "comment"),
    [
        ("select=4:ncpus=1,place=scatter", "Can Never Run: Not enough total nodes available"),
        ("select=1:ncpus=99", "Can Never Run: Insufficient amount of resource: ncpus (R: 99 A: 24 T: 24)"),
        (
            "select=3:ncpus=8,place=scatter:excl",
            "Not Running: Insufficient amount of resource: ncpus (R: 24 A: 22 T: 24)",
        ),
    ],
)
def test_why_a_job_waits(site: Site, words: str, comment: str) -> None:
    site.submit("-l", "ncpus=2", stdin="x")
    job = site.submit("-l", words, stdin="x")
    assert site.jobs(job)[job]["comment"] == comment


@pytest.mark.parametrize(
    ("select", "hosts", "vnodes", "file"),
    [
        (
            "select=1:ncpus=4:mpiprocs=4+2:ncpus=2:mpiprocs=1:ngpus=1,place=scatter",
            "node03/0*4+node01/0*2+node02/0*2",
            "(node03:ncpus=4)+(node01:ncpus=2:ngpus=1)+(node02:ncpus=2:ngpus=1)",
            "node03 node03 node03 node03 node01 node02",
        ),
        (
            "select=4:ncpus=2:mpiprocs=2,place=free",
            "node03/0*2+node03/1*2+node03/2*2+node03/3*2",
            "(node03:ncpus=2)+(node03:ncpus=2)+(node03:ncpus=2)+(node03:ncpus=2)",
            " ".join(["node03"] * 8),
        ),
        ("nodes=2:ppn=2", "node03/0*2+node01/0*2", "(node03:ncpus=2)+(node01:ncpus=2)", "node03 node03 node01 node01"),
        (
            "select=2:ncpus=8,place=scatter",
            "node03/0*8+node01/0*8",
            "(node03:ncpus=8)+(node01:ncpus=8)",
            "node03 node01",
        ),
    ],
)
def test_where_a_job_runs(site: Site, select: str, hosts: str, vnodes: str, file: str) -> None:
    job = site.submit("-l", select, stdin="x")
    found = site.jobs(job)[job]
    assert (found["exec_host"], found["exec_vnode"]) == (hosts, vnodes)
    assert jobs.node_file(site.server.jobs[job]).split() == file.split()


def test_what_may_be_done_with_a_job(site: Site) -> None:
    """Codes and texts of qdel, qsig, qhold, qalter and qrerun, of its owner, another user, and from a node."""
    job = site.submit("-r", "n", stdin="x")
    assert site.run("qdel", "99999") == (153, "", "qdel: Unknown Job Id 99999.login\n")
    assert site.run("qdel", "nonsense") == (1, "", "qdel: illegally formed job identifier: nonsense\n")
    assert site.run("qrerun", job) == (159, "", f"qrerun: Unauthorized Request  {job}\n")
    for caller in (wire.Caller(BOB, "login"), wire.Caller(ALICE, "node03")):
        site.caller = caller
        for words in (["qdel"], ["qsig", "-s", "TERM"], ["qhold"], ["qalter", "-N", "x"]):
            assert site.run(*words, job) == (159, "", f"{words[0]}: Unauthorized Request  {job}\n")
    assert site.run("qsub", stdin="x") == (175, "", "qsub: Bad UID for job execution\n")
    site.server.settings["flatuid"] = "True"
    assert site.run("qsig", "-s", "USR2", job)[0] == 0
    site.caller = wire.Caller(0, "login")
    assert site.run("qrerun", job) == (190, "", f"qrerun: job is not rerunnable {job}\n")


def test_a_job_that_has_finished_is_unknown(site: Site) -> None:
    """As long as the server keeps no history, which is a fresh one's way."""
    job = site.submit(stdin="x")
    site.ended(job, 4)
    assert site.run("qstat", job) == (153, "", f"qstat: Unknown Job Id {job}\n")
    said = f"qstat: PBS is not configured to maintain job history {job}\n"
    assert site.run("qstat", "-x", "-f", job)[1:] == ("", said)
    site.server.settings["job_history_enable"] = "True"
    job, other = site.submit(stdin="x"), site.submit("-h", stdin="x")
    site.ended(job, 271)
    said = f"qstat: {job} Job has finished, use -x or -H to obtain historical job information\n"
    assert site.run("qstat", job) == (35, "", said)
    code, out, err = site.run("qstat", "-f", "-F", "json", job, other, "99999")
    assert (code, list(json.loads(out)["Jobs"])) == (153, [other])
    assert err == f"{said}qstat: Unknown Job Id 99999.login\n"


def test_dependencies(site: Site) -> None:
    first = site.submit(stdin="x")
    kinds = ("afterok", "afternotok", "afterany")
    after = {kind: site.submit("-W", f"depend={kind}:{first}", stdin="x") for kind in kinds}
    shown = site.jobs(after["afterok"])[after["afterok"]]
    assert (shown["job_state"], shown["Hold_Types"], shown["substate"]) == ("H", "s", 22)
    assert shown["depend"] == f"afterok:{first}@login"
    site.ended(first, 1)
    left = site.jobs()
    assert after["afterok"] not in left
    assert {left[after[kind]]["job_state"] for kind in kinds[1:]} == {"R"}
    unknown = site.submit("-W", "depend=afterok:99999", stdin="x")
    assert unknown not in site.jobs()


def test_a_held_job_that_waits_for_another(site: Site) -> None:
    """It needs both: the end of that one, and qrls."""
    first = site.submit(stdin="x")
    held, freed = (site.submit("-h", "-W", f"depend=afterany:{first}", stdin="x") for _ in range(2))
    assert site.run("qrls", freed)[0] == 0
    shown = site.jobs()
    assert [(shown[one]["job_state"], shown[one]["Hold_Types"]) for one in (held, freed)] == [("H", "us"), ("H", "s")]
    site.ended(first, 0)
    assert [site.jobs()[one]["job_state"] for one in (held, freed)] == ["H", "R"]
    assert site.run("qrls", held)[0] == 0
    assert site.jobs()[held]["job_state"] == "R"


def unreachable(number: int) -> Callable[..., wire.Reply]:
    def request(*_: object, **__: object) -> wire.Reply:
        raise wire.Unreachable(number)

    return request


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("qstat 1", 255, "qstat: cannot connect to server login (errno=15010)\n"),
        ("qsub -- /bin/true", 162, "qsub: cannot connect to server login (errno=15010)\n"),
        ("qdel 1", 162, "Couldn't connect to cluster: login\n"),
        ("pbsnodes -a", 1, "pbsnodes: cannot connect to server login, error=15010\n"),
        ("qselect", 162, "qselect: cannot connect to server login (errno=15010)\n"),
    ],
)
def test_a_server_that_is_down(site: Site, words: str, code: int, said: str) -> None:
    for module in (commands, qsub):
        site.monkeypatch.setattr(module, "request", unreachable(wire.REFUSED))
    assert site.run(*words.split()) == (code, "", f"Connection refused\n{said}")
    if words == "qstat 1":
        out = site.run(*words.split(), "-f", "-F", "json")[1]
        assert out == "" or "Jobs" not in json.loads(out)


def test_without_a_terminal_no_job_has_one(site: Site) -> None:
    said = "qsub:\tstandard input and output must be a terminal for\n\tinteractive job submission\n"
    assert site.run("qsub", "-I", "-l", "select=1") == (1, "", said)


def test_a_job_that_never_starts_is_held(site: Site) -> None:
    site.monkeypatch.setattr(server, "ask", lambda *_, **__: {"code": 1, "error": "No such file"})
    job = site.submit("-k", "doe", "-o", "/home/alice/notthere/x", stdin="x")
    for _ in range(30):
        site.server.look()
    found = site.jobs(job)[job]
    assert (found["job_state"], found["Hold_Types"], found["run_count"]) == ("H", "s", 21)
    assert found["comment"] == "job held, too many failed attempts to run"
