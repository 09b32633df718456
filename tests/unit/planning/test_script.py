"""Batch scripts: #SBATCH lines, modules, and one call of mnrun, all with their origins."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from mnrun import environment
from mnrun import files as render
from mnrun.errors import UsageError
from mnrun.jobspec import JobSpec, Variable
from mnrun.planning import layout, plan, script
from mnrun.schedulers import slurm
from unit.conftest import Shell
from unit.samples import build, changed, origin


def written(*command: str, **given: Any) -> str:
    job = build(*(command or ("./app",)), **{"nodes": "2", "ntasks_per_node": "2", **given})
    return of_the_job(job, "")


def of_the_job(job: JobSpec, source: str, call: tuple[str, ...] = ("/bin/mnrun",)) -> str:
    made = plan.make(job, script.on_paper(layout.lay_out(job, None)), "JOB")
    return script.write(made, slurm, call, source)


OPTIONS = re.compile(r"^mnrun_options=\(\n(.*?)^\)$", re.MULTILINE | re.DOTALL)


def options(text: str) -> list[str]:
    """The words in the script's array, one to a line, without their origins."""
    found = OPTIONS.search(text)
    assert found
    return [line.partition("  # ")[0].strip() for line in found[1].splitlines()]


def called(sh: Shell, text: str) -> list[str]:
    """The words with which bash would start mnrun."""
    return printed(sh, text, "printf '%s\\0' ")


def handed_over(sh: Shell, text: str) -> list[str]:
    """The variables that mnrun would read from its descriptor, as bash passes them on."""
    reader = 'reader() { for word; do [[ $word != --env-file=/dev/fd/* ]] || cat "${word#*=}"; done; }; reader '
    return printed(sh, text, reader)


def printed(sh: Shell, text: str, instead: str) -> list[str]:
    """The words, with NUL at their ends, that the script prints with `instead` in the place of `exec mnrun`."""
    script = text.replace("exec /bin/mnrun ", instead).replace("exit 122", "")
    said = sh('exec bash -c "$1" 2>/dev/null', script.partition("\necho ")[0])
    return [os.fsdecode(word) for word in said.split(b"\0")[:-1]]


@pytest.mark.parametrize("word", ["plain", "two words", "$HOME `x` \\ \"q\" 'q'", "\n*", "it's", "é!", ""])
def test_words_arrive_byte_for_byte(sh: Shell, word: str) -> None:
    """Of the program, of variables, and words for the runtime, which mnrun splits again."""
    made = written("./app", word, env=(f"A={word}",), container_args=(shlex.quote(word),))
    found = called(sh, made) if "\n" not in word else []
    if found:
        assert found[found.index("--") + 1 :] == ["./app", word]
        assert handed_over(sh, made) == [f"A={word}"]
        assert environment.read_file(f"A={word}\0", "f") == (Variable("A", word),)
        (given,) = (one.partition("=")[2] for one in found if one.startswith("--container-args="))
        assert shlex.split(given) == [word]


def test_what_is_decided_here_stands_in_the_script() -> None:
    """Each option with its origin, paths absolute; what is left to the nodes is not there."""
    given = {"image": "a.sif", "bind": ("data:/d:ro",), "no_home": True, "start_timeout": "2m", "launcher": "auto"}
    here = "/home/alice/run"
    assert options(written(**given)) == [
        *(f"--image={here}/a.sif", "--no-home", "--start-timeout=120s", f"--bind={here}/data:/d:ro", f"--chdir={here}"),
    ]
    assert options(written(mode="outside-in", launcher="srun", mpi_args=("-v",)))[:2] == [
        "--mode=outside-in",
        "--launcher=srun",
    ]


def test_an_image_that_the_runtime_has_no_use_for() -> None:
    assert not any(word.startswith("--image") for word in options(written(image="a.sif", runtime="host")))


def test_resources_are_asked_of_sbatch_alone() -> None:
    """Who edits a line of #SBATCH need not edit another; a step has no other GRES unless it says so."""
    assert not [word for word in options(written(cpus_per_task="2", gpus_per_node="2")) if "gpus" in word]
    assert "--gres=gpu:1,tmp:2" in options(written(gres="gpu:1,tmp:2"))
    assert not [word for word in options(written(gres="gpu:a100:1")) if "gres" in word]


def test_a_mnrun_that_is_not_there_is_said(sh: Shell) -> None:
    """In one line, with the code of what cannot work; also where its interpreter is not there."""
    for lacking in ("/nowhere/mnrun", "./broken"):
        text = of_the_job(build("./app", nodes="1"), "", (lacking,))
        line = 'printf "#!/nowhere/python\\n" >broken; chmod +x broken; bash -c "$1" 2>&1; echo $?'
        said = sh(line, text, environ={"SLURMD_NODENAME": "n1"}).decode().splitlines()
        assert said[-1] == "122"
        assert said[-2].startswith(f"mnrun: cannot start {lacking} on n1: "), said


def test_what_is_passed_on_is_never_written() -> None:
    """A name whose value is the job's own: the script has the name."""
    made = written(env=("TOKEN", "!GONE"), environ={"TOKEN": "s3cret", "SLURM_JOB_ID": "7"})
    assert [word for word in options(made) if "env" in word] == ["--env=TOKEN", "--env='!GONE'"]
    assert "--env-file" not in made
    assert "s3cret" not in made
    assert "SLURM_JOB_ID" not in made


def test_values_are_no_words_of_a_command(sh: Shell) -> None:
    """(S2) Everybody can read a command line, so values go through a pipe, after the files that they overrule."""
    made = written(
        *("./app", "x"),
        env=("TOKEN=open sesame", "LINES=one\ntwo\r\n", "EMPTY="),
        env_file=("a.env",),
        env_files={"a.env": "TOKEN=weak\n"},
    )
    words = called(sh, made)
    assert not [word for word in words if "sesame" in word or "two" in word], words
    assert handed_over(sh, made) == ["TOKEN=open sesame", "LINES=one\ntwo\r\n", "EMPTY="]
    (first, second) = [word for word in words if word.startswith("--env-file=")]
    assert (first, second[:19]) == ("--env-file=/home/alice/run/a.env", "--env-file=/dev/fd/"), words


def test_no_process_of_the_script_stays_below_mnrun(sh: Shell) -> None:
    """(S2) Its exit code would wait for mnrun until the end of the job."""
    instead = """exec sh -c 'read -r pids </proc/thread-self/children; printf "%s\\0" "$pids"' """
    for value in ("open sesame", "x" * 100000):  # a pipe takes the one at once, and holds only a part of the other
        assert printed(sh, written("./app", env=(f"TOKEN={value}",)), instead) == [""]


def test_a_template_that_would_lose_variables_is_refused(tmp_path: Path) -> None:
    """(S2) A site's template of the time when they were options."""
    (tmp_path / "slurm.sh").write_text("#!/bin/bash\nexec mnrun {{ command }}\n")
    assert written(templates=str(tmp_path))
    with pytest.raises(UsageError, match=f"the template in {tmp_path} has no .. variables .., which this job needs; "):
        written(templates=str(tmp_path), env=("TOKEN=a",))


def test_directives_say_where_they_come_from() -> None:
    """In sbatch's words, quoted where a shell would; what mnrun does not read goes last."""
    lines = written(partition="gpu", constraint="a&b", exclusive=True, slurm=("switches=1@30:00",)).split("\n")
    assert [re.sub(" +#", "  #", line) for line in lines if line.startswith("#SBATCH")] == [
        "#SBATCH --job-name=app  # the program's name",
        "#SBATCH --partition=gpu  # command line",
        "#SBATCH '--constraint=a&b'  # command line",
        "#SBATCH --exclusive  # command line",
        "#SBATCH --nodes=2  # command line",
        "#SBATCH --ntasks-per-node=2  # command line",
        "#SBATCH --output=%x-%j.out  # built-in",
        "#SBATCH --switches=1@30:00  # command line",
    ]


def test_an_origin_is_one_line() -> None:
    """Whatever a profile's author wrote."""
    job = build("./a\nb", nodes="1", env=("A=1",))
    job = changed(job, explicit=(Variable("A", "1", why="one\ntwo"),), options={"job_name": "x"})
    made = of_the_job(job, "\n")
    assert re.search(r"  A=1 +# one two\n", made)
    assert made.splitlines()[2].startswith("# Written by mnrun")


def test_modules_limits_and_lines_come_before_anything_of_ours() -> None:
    """In that order."""
    text = written(module=("a/1", "b"), ulimit=("memlock=unlimited",), setup=("export X=$Y",))
    places = [text.index(line) for line in ("module load a/1", "module load b", "ulimit -l unlimited", "export X=$Y")]
    assert places == sorted(places)
    assert places[-1] < text.index("mnrun_options=(")


def test_lines_of_the_users_own_stay_as_they_are() -> None:
    """Where they come from stands above those of one place, since a comment between two could be part of a text."""
    job = build("./app", nodes="1", setup=("cat <<end", "text \\", "end"))
    job = changed(job, setup_origins=tuple(map(origin, ("profile one", "profile one", "job.toml\nline 3"))))
    lines = of_the_job(job, "").splitlines()
    first = lines.index("# setup: profile one")
    assert lines[first + 1 : first + 5] == ["cat <<end", "text \\", "# setup: job.toml line 3", "end"]


def test_a_template_of_the_sites_own(tmp_path: Path) -> None:
    """--templates goes in front; an unknown name in it, or what is none, is said with the file."""
    (tmp_path / "slurm.sh").write_text("#!/bin/bash\n# ours\n{{ title }}\n")
    assert written(templates=str(tmp_path)).startswith("#!/bin/bash\n# ours\napp: 2 nodes x 2 ranks")
    (tmp_path / "slurm.sh").write_text("{{ nothing }}")
    with pytest.raises(UsageError, match=r"slurm.sh: 'nothing' is undefined"):
        written(templates=str(tmp_path))
    (tmp_path / "slurm.sh").write_text("{% if %}")
    with pytest.raises(UsageError, match=r"slurm.sh line 1: "):
        render.render("slurm.sh", str(tmp_path))
    for text, said in ((b"\xff", "UnicodeDecodeError: "), (b"{{ 1/0 }}", "ZeroDivisionError: ")):
        (tmp_path / "slurm.sh").write_bytes(text)
        with pytest.raises(UsageError, match=f"^{tmp_path}/slurm.sh: {said}"):
            render.render("slurm.sh", str(tmp_path))
    with pytest.raises(UsageError, match=r"^--templates /nope is not a directory; "):
        render.render("slurm.sh", "/nope")


@pytest.mark.parametrize(
    "way",
    [
        "cycler.__init__.__globals__.os.popen('touch RAN').read()",
        "''.__class__.__mro__[1].__subclasses__()",
        "options.append('--force')",
        "self.__init__.__globals__",
    ],
)
def test_a_template_runs_nothing(tmp_path: Path, way: str) -> None:
    """(S8) A job file of somebody else may bring one, and is looked at with `mnrun submit --dry-run`."""
    (tmp_path / "slurm.sh").write_text("{{ " + way.replace("RAN", f"{tmp_path}/ran") + " }}")
    with pytest.raises(UsageError, match=f"^{tmp_path}/slurm.sh: "):
        render.render("slurm.sh", str(tmp_path), options=["-N2"])
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "given",
    [
        {"gres": "gpu:1\ntouch /tmp/x #"},
        {"nodelist": "n1\ntouch /tmp/x"},
        {"exclude": "n1\r"},
        {"gpus_per_node": "a\n:1"},
        {"gpus": "a\t:1"},
        {"gpus_per_task": "\x7f:1"},
    ],
)
def test_no_value_becomes_a_line_of_its_own(given: dict[str, str]) -> None:
    """B11: outside its comment it would be run, as shell, in the job."""
    (name,) = given
    with pytest.raises(UsageError, match="contains a tab, a newline or another control character") as wrong:
        written(**given)
    assert wrong.value.message.startswith(f"--{name.replace('_', '-')} "), wrong.value


def test_a_programs_name_becomes_no_line_of_its_own() -> None:
    """B11: it is the job's, unless that has another."""
    program = "./app\ntouch x"
    with pytest.raises(
        UsageError, match=r"--job-name 'app.ntouch x' contains a tab, a newline or another control"
    ) as wrong:
        written(program)
    assert wrong.value.remedy == "name the job with --job-name"
    assert "#SBATCH --job-name=app " in written(program, job_name="app")
