"""A job file on the command line, and the verbs that a person types once: init, profile, completion."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from pytest_mock import MockerFixture

from mnrun.cli import main
from mnrun.config import jobfile, load
from mnrun.config.options import OPTIONS
from mnrun.running import session
from mnrun.schedulers.slurm import scheduler as slurm
from published import checked
from unit.texts import Says
from unit.typed import Answer, Complaint, Launched, Terminal

FILE = 'command = ["./app", "x"]\nimage = "/app.sif"\nntasks = 3\n'


@pytest.fixture(autouse=True)
def site(monkeypatch: pytest.MonkeyPatch, mocker: MockerFixture, tmp_path: Path) -> Path:
    folder = tmp_path / "etc"
    (folder / "profiles").mkdir(parents=True)
    monkeypatch.setattr(load, "SITE", folder)
    monkeypatch.setattr(load, "OWNER", os.getuid())
    mocker.patch.object(slurm, "name", return_value="cluster1")
    mocker.patch.object(platform, "node", return_value="login1")
    for path in (folder, folder / "profiles"):
        path.chmod(0o755)
    return folder


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o644)


def test_a_verbs_own_option_before_the_job_file(mnrun: Terminal, job: Launched, tmp_path: Path) -> None:
    write(tmp_path / "job.toml", FILE)
    done = mnrun("plan", "--format", "json", "job.toml")
    assert done.code == 0, done
    assert checked("plan", done.out)["values"]["ntasks"] == {"value": "3", "origin": "job.toml line 3"}


def test_plan_shows_every_origin(
    mnrun: Terminal, job: Launched, tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(site / "profiles/here.toml", 'match.cluster = "cluster1"\nresources.partition = "gpu"\nbind = ["/site"]')
    write(tmp_path / "job.toml", f'{FILE}bind = ["/mine"]\n[env]\nTOKEN = true\nKEY = "also-secret"\n')
    monkeypatch.setenv("TOKEN", "very-secret")
    monkeypatch.setenv("MNRUN_KEEP", "1")
    monkeypatch.delenv("SLURM_JOB_ID")
    monkeypatch.setenv("SBATCH_ACCOUNT", "physics")
    answer = mnrun("plan", "job.toml", "-N", "2")
    assert (answer.code, answer.err) == (0, "")
    for line in (
        "image = /app.sif    # job.toml line 2",
        *("bind = /site:/site /mine:/mine    # profile here, job.toml line 4", "partition = gpu    # profile here"),
        *("profile = here    # its match fits this place", "env = TOKEN KEY    # job.toml line 5"),
        *("keep = true    # MNRUN_KEEP", "account = physics    # SBATCH_ACCOUNT", "nodes = 2    # command line"),
    ):
        assert f"{line}\n" in answer.out
    assert "secret" not in answer.out


def test_what_has_no_effect_in_a_job_that_runs(
    mnrun: Terminal, job: Launched, tmp_path: Path, site: Path, says: Says
) -> None:
    write(site / "profiles/here.toml", 'match.cluster = "cluster1"\nresources.partition = "gpu"\nresources.mem = "1G"')
    write(tmp_path / "job.toml", f'{FILE}time = "1:00"\n')
    answer = mnrun("job.toml", "--array", "0-3")
    assert answer.code == 0
    says(answer.err)
    says(mnrun("--image", "/app.sif", "./app").err)


def test_a_warning_is_no_failure(mnrun: Terminal, job: Launched, site: Path) -> None:
    (site / "config.toml").write_text("keep = true")
    (site / "config.toml").chmod(0o666)
    answer = mnrun("--image", "/app.sif", "./app")
    assert answer.code == 0
    assert f"mnrun: warning: {site}/config.toml is ignored: " in answer.err
    assert not job.plan.spec.keep


# init


def test_init_writes_a_job_file(mnrun: Terminal, job: Launched, tmp_path: Path, site: Path) -> None:
    write(site / "config.toml", 'account = "physics"\nbind = ["/ä b"]\n[env]\nTOKEN = "very-secret"')
    assert mnrun("init", "--full") == Answer(0, "job.toml\n", "")
    text = (tmp_path / "job.toml").read_text(encoding="utf-8")
    assert f'# account = "physics"  # Account that the job is charged to.  ({site}/config.toml line 1)\n' in text
    assert '# bind = ["/ä b"]  # ' in text
    assert "very-secret" not in text
    assert "# Every key but lines (--setup) and modules (--module) is a long option with _ for -; " in text
    for option in OPTIONS:
        if option.name not in ("env", "local", "profile"):
            key = {"job_name": "name", "module": "modules", "setup": "lines"}.get(option.name, option.name)
            assert f"{key} = " in text
    assert mnrun("job.toml").code == 0
    assert job.plan.spec.program.command == ("./app",)


def test_what_init_proposes_is_accepted(mnrun: Terminal, tmp_path: Path) -> None:
    mnrun("init", "--full", "my.toml")
    for line in (tmp_path / "my.toml").read_text(encoding="utf-8").splitlines():
        if line.startswith("# ") and " = " in line and " with _ for -" not in line:
            page = jobfile.TomlFile("my.toml", line[2:], "/", {})
            assert jobfile.load(page), line
            if "OMP" not in line:
                assert jobfile.read(page).settings, line


def test_a_first_job_file_is_short(mnrun: Terminal, job: Launched, tmp_path: Path) -> None:
    assert mnrun("init", "mine") == Answer(0, "mine\n", "")
    (tmp_path / "mine").rename(tmp_path / "mine.toml")
    assert len((tmp_path / "mine.toml").read_text().splitlines()) <= 17
    assert mnrun("mine.toml").code == 0
    assert job.plan.spec.program.command == ("./app",)


LINES = r"""
-N 2 --image x.sif -- ./app
-N 2 -n 4 --image docker://org/x:1 -t 1:00:00 -x A='it is' -x B='"q" $HOME ${A}' -x '!C' -- sh -c 'echo "$A" | cat'
--image=images/x.sif -B data:/d:ro -B /a -B '!/b' -D /opt --mpi-args '--mca btl ^tcp' --keep --no-home ./app -v
--launcher env --runtime host --module a --module b/1 --mem 4G -J name -o '/tmp/out-%j.txt' --array 0-3%2 -- ./app
--image x.sif --slurm switches=1@30:00 --sge '-l foo=1' --no-requeue --start-timeout 5m --no-gpu -- ./app
--image x.sif --script run.sh -- --steps 5
--image x.sif -B '${X}/d:/d' -D '${Y}' --setup 'echo ä' -- ./app 'a\nb' "'"
""".strip().splitlines()


@pytest.mark.parametrize("form", ["json", "sbatch"])
@pytest.mark.parametrize("typed", LINES)
def test_a_written_line_gives_the_same_plan(
    mnrun: Terminal,
    job: Launched,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mocker: MockerFixture,
    typed: str,
    form: str,
) -> None:
    monkeypatch.setenv("C", "1")
    mocker.patch.object(session, "token", return_value="abcdef")
    (tmp_path / "images").mkdir()
    for name in ("x.sif", "images/x.sif", "run.sh"):
        (tmp_path / name).touch()
    words = shlex.split(typed)
    right = mnrun("plan", "--format", form, *words)
    for file in ("job.toml", "images/other.toml"):
        assert mnrun("init", *(() if file == "job.toml" else (file,)), *words) == Answer(0, f"{file}\n", "")
        assert right.code == 0 and _bare(mnrun("plan", "--format", form, file).out, form) == _bare(right.out, form)


def _bare(text: str, form: str) -> object:
    """Return a plan without the origins of its values, and a script without its comments."""
    if form == "sbatch":
        return [line.partition("  # ")[0] for line in text.splitlines() if not line.startswith("# ")]
    plan = json.loads(re.sub(r"\((command line|[\w./]+ line \d+)\)", "", text))
    plan["values"] = {name: entry["value"] for name, entry in plan["values"].items()}
    return plan


def test_init_never_writes_what_no_file_can_hold(mnrun: Terminal, tmp_path: Path, complaint: Complaint) -> None:
    complaint(mnrun("init", "--full", "-N", "2", "--image", "x.sif", "--", "./app"))
    complaint(mnrun("init", "-x", "A-B=1", "--image", "x.sif", "--", "./app"))
    complaint(mnrun("init", "-N", "two", "--", "./app"))
    assert not (tmp_path / "job.toml").exists()


def test_init_never_overwrites(mnrun: Terminal, tmp_path: Path, complaint: Complaint) -> None:
    (tmp_path / "job.toml").write_text("")
    complaint(mnrun("init"))
    (tmp_path / "link.toml").symlink_to("nowhere.toml")
    complaint(mnrun("init", "link.toml"))
    complaint(mnrun("init", "no/such/x.toml"))
    assert (tmp_path / "job.toml").read_text() == ""


# texts for others to run, and the way back


def test_texts_of_a_job(mnrun: Terminal, tmp_path: Path, complaint: Complaint) -> None:
    claim = '[kubernetes]\nttl = 60\n[[kubernetes.volume]]\nname = "data"\nsize = "1Gi"\nlabels = { v = "data" }\n'
    write(tmp_path / "job.toml", f'image = "lab/app:1"\ncommand = ["./app"]\nbind = ["pvc:data:/data"]\n{claim}')
    answer = mnrun("plan", "--format", "mpijob", "-N2", "job.toml")
    assert answer.code == 0 and "ttlSecondsAfterFinished: 60 # ttl (job.toml line 5)" in answer.out
    assert "claimName: data # job.toml line 3" in answer.out and "storage: 1Gi # job.toml line 6" in answer.out
    write(tmp_path / "app.yaml", answer.out)
    back = mnrun("import", "app.yaml")
    assert back.code == 0 and back.err == "" and 'bind = ["pvc:data:/data"]' in back.out
    write(tmp_path / "back.toml", back.out)
    again = mnrun("plan", "--format", "mpijob", "back.toml")
    assert [line.partition(" # ")[0] for line in again.out.splitlines() if "as-given" not in line][1:] == [
        line.partition(" # ")[0] for line in answer.out.splitlines() if "as-given" not in line
    ][1:]
    assert mnrun("plan", "--format", "rbac").code == 0  # needs neither image nor program
    complaint(mnrun("plan", "--format", "pv", "job.toml"), 122)
    complaint(mnrun("plan", "--format", "statefulset", "job.toml"), 122)
    complaint(mnrun("plan", "--format", "pod", "--image", "./app.sif", "--", "./app"), 122)
    complaint(mnrun("import", "no.yaml"))


def test_a_field_that_a_job_file_cannot_say(mnrun: Terminal, tmp_path: Path) -> None:
    write(tmp_path / "pod.yaml", "kind: Pod\nspec: {hostPID: true, containers: [{image: lab/app:1}]}\n")
    assert (
        mnrun("import", "pod.yaml").err == "mnrun: warning: pod.yaml: Pod: spec.hostPID = True is not in the job file\n"
    )


# profile


def test_profile_list(mnrun: Terminal, tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mnrun("profile", "list").err.startswith("mnrun: no profiles: ")
    own = tmp_path / ".config/mnrun/profiles"
    own.mkdir(parents=True)
    write(site / "profiles/here.toml", 'match.cluster = "cluster1"')
    write(site / "profiles/other.toml", 'match.cluster = "cluster2"\nmatch.hostname = ["a*", "b*"]')
    write(own / "debug.toml", "keep = true")
    here, other = f"here  {site}/profiles/here.toml", f"other  {site}/profiles/other.toml"
    assert mnrun("profile", "list") == Answer(
        0,
        f"*  {here}  cluster=cluster1\n   {other}  cluster=cluster2  hostname=a*  hostname=b*\n"
        f"   debug  {own}/debug.toml\n",
        "",
    )
    monkeypatch.setenv("MNRUN_PROFILE", "debug")
    assert "*  debug" in mnrun("profile", "list").out
    monkeypatch.delenv("MNRUN_PROFILE")
    write(tmp_path / ".config/mnrun/config.toml", 'profile = "other"')
    assert "*  other" in mnrun("profile", "list").out  # as everything else chooses


def test_profile_show(mnrun: Terminal, site: Path, complaint: Complaint) -> None:
    write(site / "config.toml", 'account = "physics"\nbind = ["/data"]\n[env]\nTOKEN = "very-secret"\nGONE = false')
    debug = 'keep = true\nbind = ["/scratch"]\nenv.FABRIC = { value = "ib0", why = "the route" }\nsge.pe = "mpi"'
    write(site / "profiles/debug.toml", debug)
    answer = mnrun("profile", "show", "debug")
    assert answer.code == 0, answer
    for line in (
        "runtime = auto    # built-in",
        f"account = physics    # {site}/config.toml line 1",
        "keep = true    # profile debug",
        "profile = debug    # command line",
        f"env = TOKEN    # {site}/config.toml line 4",
        "env = FABRIC    # the route (profile debug)",
        f"env = !GONE    # {site}/config.toml line 5",
        f"bind = /data    # {site}/config.toml line 2",
        "bind = /scratch    # profile debug",
        "sge.pe = mpi    # settings of the site",
    ):
        assert f"{line}\n" in answer.out
    assert "secret" not in answer.out
    assert "keep" not in mnrun("profile", "show").out
    keys = {line.partition(" = ")[0] for line in mnrun("profile", "show").out.splitlines()}
    assert {f"site.{key}" for key in ("poll", "ports", "jobs", "cache")} <= keys  # as a profile takes them
    complaint(mnrun("profile", "show", "none"))


# completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(mnrun: Terminal, mocker: MockerFixture, shell: str, complaint: Complaint) -> None:
    mocker.patch("subprocess.run", return_value=subprocess.CompletedProcess([], 0, b"5.2.15", b""))  # bash --version
    answer = mnrun("completion", shell)
    assert answer.code == 0, answer
    assert "_MNRUN_COMPLETE" in answer.out
    complaint(mnrun("completion", "tcsh"))


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("mnrun sub", "submit"),
        ("mnrun run --ntasks-p", "--ntasks-per-node"),
        ("mnrun submit --dry", "--dry-run"),
        ("mnrun plan job.toml --ima", "--image"),
        ("mnrun --ima", "--image"),
        ("mnrun run --mode out", "outside-in"),
    ],
)
def test_what_is_completed(line: str, wanted: str) -> None:
    words = line.split()
    env = {"_MNRUN_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = CliRunner().invoke(main.main, [], env=env, prog_name="mnrun", complete_var="_MNRUN_COMPLETE")
    assert wanted in [found.partition(",")[2] for found in done.stdout.splitlines()], done
