"""A job file on the command line, and the verbs that a person types once: init, profile, completion."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from pytest_mock import MockerFixture

from mnrun.cli import main
from mnrun.config import jobfile, load
from mnrun.config.options import OPTIONS
from mnrun.schedulers import slurm
from published import checked
from unit.typed import Answer, Launched, Terminal, complaint

FILE = 'command = ["./app", "x"]\nimage = "/app.sif"\nntasks = 3\n'


@pytest.fixture(autouse=True)
def site(monkeypatch: pytest.MonkeyPatch, mocker: MockerFixture, tmp_path: Path) -> Path:
    """The site's directory, empty at first, on cluster1."""
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


@pytest.mark.parametrize(
    ("words", "command", "ntasks"),
    [
        (("job.toml",), ("./app", "x"), 3),
        (("run", "job.toml"), ("./app", "x"), 3),
        (("job.toml", "-n", "2"), ("./app", "x"), 2),
        (("-n", "2", "job.toml"), ("./app", "x"), 2),
        (("-n2", "--keep", "job.toml", "--force"), ("./app", "x"), 2),
        (("job.toml", "-n", "2", "--", "./other", "y.toml"), ("./other", "y.toml"), 2),
        (("job.toml", "./other", "-n", "2"), ("./other", "-n", "2"), 3),
        (("--image", "/b.toml", "job.toml"), ("./app", "x"), 3),
    ],
)
def test_where_a_job_file_stands(
    mnrun: Terminal, job: Launched, tmp_path: Path, words: tuple[str, ...], command: tuple[str, ...], ntasks: int
) -> None:
    """The first word that is no option, with options before and after; a command replaces the file's."""
    write(tmp_path / "job.toml", FILE)
    answer = mnrun(*words)
    assert answer.code == 0, answer
    assert (job.plan.spec.program.command, job.plan.spec.resources.ntasks) == (command, ntasks)


@pytest.mark.parametrize(
    ("words", "command"),
    [(("--", "job.toml"), ("job.toml",)), (("./app", "job.toml"), ("./app", "job.toml"))],
)
def test_what_is_no_job_file(mnrun: Terminal, job: Launched, words: tuple[str, ...], command: tuple[str, ...]) -> None:
    """After `--`, or after the command's first word, a word is the program's."""
    assert mnrun("--image", "/app.sif", *words).code == 0
    assert job.plan.spec.program.command == command


def test_a_verbs_own_option_before_the_job_file(mnrun: Terminal, job: Launched, tmp_path: Path) -> None:
    """Its value is not taken for the command."""
    write(tmp_path / "job.toml", FILE)
    done = mnrun("plan", "--format", "json", "job.toml")
    assert done.code == 0, done
    assert checked("plan", done.out)["values"]["ntasks"] == {"value": "3", "origin": "job.toml line 3"}


def test_another_tools_option_after_the_job_file(mnrun: Terminal, tmp_path: Path) -> None:
    """Answered as before it."""
    write(tmp_path / "job.toml", FILE)
    assert "-npernode is an option of Open MPI" in complaint(mnrun("job.toml", "-npernode", "2"))


def test_plan_shows_every_origin(
    mnrun: Terminal, job: Launched, tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Job file, profile, both kinds of variables; and no secret."""
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
        "bind = /site:/site /mine:/mine    # profile here, job.toml line 4",
        "partition = gpu    # profile here",
        "profile = here    # its match fits this place",
        "env = TOKEN KEY    # job.toml line 5",
        "keep = true    # MNRUN_KEEP",
        "account = physics    # SBATCH_ACCOUNT",
        "nodes = 2    # command line",
    ):
        assert f"{line}\n" in answer.out
    assert "secret" not in answer.out


def test_what_has_no_effect_in_a_job_that_runs(mnrun: Terminal, job: Launched, tmp_path: Path, site: Path) -> None:
    """One note on all that this job was asked for; what a site says of every job is no mistake here."""
    write(site / "profiles/here.toml", 'match.cluster = "cluster1"\nresources.partition = "gpu"\nresources.mem = "1G"')
    write(tmp_path / "job.toml", f'{FILE}time = "1:00"\n')
    answer = mnrun("job.toml", "--array", "0-3")
    assert answer.code == 0
    notes = [line for line in answer.err.splitlines() if "no effect" in line]
    assert notes == ["mnrun: --time, --array: no effect here, since the job runs already; use mnrun submit"]
    assert "no effect" not in mnrun("--image", "/app.sif", "./app").err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodez = 2\n", "job.toml line 1: unknown key nodez; did you mean nodes (a number)?"),
        ("\ufeffnodes = 2", "job.toml line 1: it begins with a byte order mark; save it as UTF-8 without one"),
        ("image = 'x", "job.toml line 1: "),
        ("name = 'a\tb'", "--job-name 'a\\tb' contains a tab, "),
        ("nodes = 'x'", 'job.toml line 1: nodes = "x" is not a number; '),
    ],
)
def test_a_wrong_job_file(mnrun: Terminal, job: Launched, tmp_path: Path, text: str, said: str) -> None:
    """One line, code 2, for every verb."""
    (tmp_path / "job.toml").write_text(text, encoding="utf-8")
    for verb in ((), ("plan",), ("submit", "--dry-run")):
        assert complaint(mnrun(*verb, "job.toml")).startswith(said)
    assert job.plans == []


def test_a_warning_is_no_failure(mnrun: Terminal, job: Launched, site: Path) -> None:
    """A site's file that somebody else could have written is passed over."""
    (site / "config.toml").write_text("keep = true")
    (site / "config.toml").chmod(0o666)
    answer = mnrun("--image", "/app.sif", "./app")
    assert answer.code == 0
    assert f"mnrun: warning: {site}/config.toml is ignored: " in answer.err
    assert not job.plan.spec.keep


# init


def test_init_writes_a_job_file(mnrun: Terminal, job: Launched, tmp_path: Path, site: Path) -> None:
    """Every key in it as a comment, with what the site says; it can be run as it is."""
    write(site / "config.toml", 'account = "physics"\nbind = ["/ä b"]\n[env]\nTOKEN = "very-secret"')
    assert mnrun("init") == Answer(0, "job.toml\n", "")
    text = (tmp_path / "job.toml").read_text(encoding="utf-8")
    assert f'# account = "physics"  # Account that the job is charged to.  ({site}/config.toml line 1)\n' in text
    assert '# bind = ["/ä b"]  # ' in text
    assert "secret" not in text
    assert "# Every key but modules (--module) and lines (--setup) is a long option with _ for -; " in text
    for option in OPTIONS:
        if option.name not in ("env", "local", "profile"):
            key = {"job_name": "name", "module": "modules", "setup": "lines"}.get(option.name, option.name)
            assert f"{key} = " in text
    assert mnrun("job.toml").code == 0
    assert job.plan.spec.program.command == ("./app",)


def test_what_init_proposes_is_accepted(mnrun: Terminal, tmp_path: Path) -> None:
    """Each line with its # taken away is TOML, of the right type, but for values that stand for others."""
    mnrun("init", "my.toml")
    for line in (tmp_path / "my.toml").read_text(encoding="utf-8").splitlines():
        if line.startswith("# ") and " = " in line and " with _ for -" not in line:
            page = jobfile.Page("my.toml", line[2:], "/", {})
            assert jobfile.load(page), line
            if "OMP" not in line:
                assert jobfile.read(page).settings, line


def test_init_never_overwrites(mnrun: Terminal, tmp_path: Path) -> None:
    """Not even an empty file, or where a link points."""
    (tmp_path / "job.toml").write_text("")
    assert complaint(mnrun("init")) == "job.toml exists; name another: mnrun init FILE"
    (tmp_path / "link.toml").symlink_to("nowhere.toml")
    assert complaint(mnrun("init", "link.toml")).startswith("link.toml exists")
    assert complaint(mnrun("init", "no/such/x.toml")) == "cannot write no/such/x.toml: No such file or directory"
    assert (tmp_path / "job.toml").read_text() == ""


# profile


def test_profile_list(mnrun: Terminal, tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that there are, where, when they are chosen, and which one is. Without any, it says so."""
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


def test_profile_show(mnrun: Terminal, site: Path) -> None:
    """What a job begins with, and where each value comes from; a variable's value may be a secret."""
    write(site / "config.toml", 'account = "physics"\nbind = ["/data"]\n[env]\nTOKEN = "very-secret"\nGONE = false')
    debug = 'keep = true\nbind = ["/scratch"]\nenv.FABRIC = { value = "ib0", why = "the route" }'
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
    ):
        assert f"{line}\n" in answer.out
    assert "secret" not in answer.out
    assert "keep" not in mnrun("profile", "show").out
    assert complaint(mnrun("profile", "show", "none")) == "there is no profile none; known profiles: debug"


def test_schema(mnrun: Terminal) -> None:
    """JSON, for editors."""
    assert json.loads(mnrun("profile", "schema").out)["title"]


# completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(mnrun: Terminal, mocker: MockerFixture, shell: str) -> None:
    """click's own script, with our name in it."""
    mocker.patch("subprocess.run", return_value=subprocess.CompletedProcess([], 0, b"5.2.15", b""))  # bash --version
    answer = mnrun("completion", shell)
    assert answer.code == 0, answer
    assert "_MNRUN_COMPLETE" in answer.out
    assert complaint(mnrun("completion", "tcsh"))


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
    """Verbs, options of each, and values where there are few."""
    words = line.split()
    env = {"_MNRUN_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = CliRunner().invoke(main.main, [], env=env, prog_name="mnrun", complete_var="_MNRUN_COMPLETE")
    assert wanted in [found.partition(",")[2] for found in done.stdout.splitlines()], done
