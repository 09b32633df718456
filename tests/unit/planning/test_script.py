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
from mnrun.config.options import OPTIONS as TABLE
from mnrun.config.options import Option
from mnrun.errors import UsageError
from mnrun.jobspec import JobSpec, Variable
from mnrun.planning import layout, plan, script
from mnrun.schedulers.slurm import scheduler as slurm
from unit.conftest import Shell
from unit.samples import build, changed, origin
from unit.texts import Refused


def written(*command: str, **given: Any) -> str:
    job = build(*(command or ("./app",)), **{"nodes": "2", "ntasks_per_node": "2", **given})
    return of_the_job(job, "")


def of_the_job(job: JobSpec, source: str, call: tuple[str, ...] = ("/bin/mnrun",)) -> str:
    made = plan.make(job, script.on_paper(layout.lay_out(job, None)), "JOB")
    return script.write(made, slurm, call, source, {})


OPTIONS = re.compile(r"^mnrun_options=\(\n(.*?)^\)$", re.MULTILINE | re.DOTALL)


def options(text: str) -> list[str]:
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
    made = written("./app", word, env=(f"A={word}",), container_args=(shlex.quote(word),))
    found = called(sh, made) if "\n" not in word else []
    if found:
        assert found[found.index("--") + 1 :] == ["./app", word]
        assert handed_over(sh, made) == [f"A={word}"]
        assert environment.read_file(f"A={word}\0", "f") == (Variable("A", word),)
        (given,) = (one.partition("=")[2] for one in found if one.startswith("--container-args="))
        assert shlex.split(given) == [word]


def test_what_is_decided_here_stands_in_the_script() -> None:
    given = {"image": "a.sif", "bind": ("data:/d:ro",), "no_home": True, "start_timeout": "2m", "launcher": "auto"}
    here = "/home/alice/run"
    assert options(written(**given)) == [
        *(f"--image={here}/a.sif", "--no-home", "--start-timeout=120s", f"--bind={here}/data:/d:ro", f"--chdir={here}")
    ]
    assert options(written(mode="outside-in", launcher="srun", mpi_args=("-v",)))[:2] == [
        "--mode=outside-in",
        "--launcher=srun",
    ]


def test_an_image_that_the_runtime_has_no_use_for() -> None:
    assert not any(word.startswith("--image") for word in options(written(image="a.sif", runtime="host")))


def test_resources_are_asked_of_sbatch_alone() -> None:
    assert not [word for word in options(written(cpus_per_task="2", gpus_per_node="2")) if "gpus" in word]
    assert "--gres=gpu:1,tmp:2" in options(written(gres="gpu:1,tmp:2"))
    assert not [word for word in options(written(gres="gpu:a100:1")) if "gres" in word]


def test_a_mnrun_that_is_not_there_is_said(sh: Shell) -> None:
    for lacking in ("/nowhere/mnrun", "./broken"):
        text = of_the_job(build("./app", nodes="1"), "", (lacking,))
        line = 'printf "#!/nowhere/python\\n" >broken; chmod +x broken; bash -c "$1" 2>&1; echo $?'
        said = sh(line, text).decode().splitlines()
        assert said[-1] == "122"
        assert said[-2].startswith(f"mnrun: cannot start {lacking} on {os.uname().nodename}: "), said


def test_what_is_passed_on_is_never_written() -> None:
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


def test_a_template_that_would_lose_variables_is_refused(refused: Refused, tmp_path: Path) -> None:
    """(S2) A site's template of the time when they were options."""
    (tmp_path / "slurm.sh").write_text("#!/bin/bash\nexec mnrun {{ command }}\n")
    assert written(templates=str(tmp_path))
    with refused(UsageError):
        written(templates=str(tmp_path), env=("TOKEN=a",))


def test_directives_say_where_they_come_from() -> None:
    lines = written(partition="gpu", constraint="a&b", exclusive=True, slurm=("switches=1@30:00",)).split("\n")
    assert [re.sub(" +#", "  #", line) for line in lines if line.startswith("#SBATCH")] == [
        *("#SBATCH --job-name=app  # the program's name", "#SBATCH --partition=gpu  # command line"),
        *("#SBATCH '--constraint=a&b'  # command line", "#SBATCH --exclusive  # command line"),
        *("#SBATCH --nodes=2  # command line", "#SBATCH --ntasks-per-node=2  # command line"),
        *("#SBATCH --output=%x-%j.out  # built-in", "#SBATCH --switches=1@30:00  # command line"),
    ]


def test_an_origin_is_one_line() -> None:
    job = build("./a\nb", nodes="1", env=("A=1",))
    job = changed(job, explicit=(Variable("A", "1", why="one\ntwo"),), options={"job_name": "x"})
    made = of_the_job(job, "\n")
    assert re.search(r"  A=1 +# one two\n", made)
    assert made.splitlines()[2].startswith("# Written by mnrun")


def test_modules_limits_and_lines_come_before_anything_of_ours() -> None:
    text = written(module=("a/1", "b"), ulimit=("memlock=unlimited",), setup=("export X=$Y",))
    places = [text.index(line) for line in ("module load a/1", "module load b", "ulimit -l unlimited", "export X=$Y")]
    assert places == sorted(places)
    assert places[-1] < text.index("mnrun_options=(")


def test_lines_of_the_users_own_stay_as_they_are() -> None:
    job = build("./app", nodes="1", setup=("cat <<end", "text \\", "end"))
    job = changed(job, setup_origins=tuple(map(origin, ("profile one", "profile one", "job.toml\nline 3"))))
    lines = of_the_job(job, "").splitlines()
    first = lines.index("# setup: profile one")
    assert lines[first + 1 : first + 5] == ["cat <<end", "text \\", "# setup: job.toml line 3", "end"]


def test_a_template_of_the_sites_own(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "slurm.sh").write_text("#!/bin/bash\n# ours\n{{ title }}\n")
    assert written(templates=str(tmp_path)).startswith("#!/bin/bash\n# ours\napp: 2 nodes x 2 ranks")
    (tmp_path / "slurm.sh").write_text("{{ nothing }}")
    with refused(UsageError):
        written(templates=str(tmp_path))
    (tmp_path / "slurm.sh").write_text("{% if %}")
    with refused(UsageError):
        render.render("slurm.sh", str(tmp_path))
    for text in (b"\xff", b"{{ 1/0 }}"):
        (tmp_path / "slurm.sh").write_bytes(text)
        with refused(UsageError):
            render.render("slurm.sh", str(tmp_path))
    with refused(UsageError):
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
def test_a_template_runs_nothing(refused: Refused, tmp_path: Path, way: str) -> None:
    """(S8) A job file of somebody else may bring one, and is looked at with `mnrun submit --dry-run`."""
    (tmp_path / "slurm.sh").write_text("{{ " + way.replace("RAN", f"{tmp_path}/ran") + " }}")
    with refused(UsageError):
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
def test_no_value_becomes_a_line_of_its_own(given: dict[str, str], refused: Refused) -> None:
    """B11: outside its comment it would be run, as shell, in the job."""
    with refused(UsageError):
        written(**given)


def test_a_programs_name_becomes_no_line_of_its_own(refused: Refused) -> None:
    """B11: it is the job's, unless that has another."""
    program = "./app\ntouch x"
    with refused(UsageError):
        written(program)
    assert "#SBATCH --job-name=app " in written(program, job_name="app")


# Options of which a batch script has nothing, and why.
LEFT_OUT = {
    **dict.fromkeys(("hosts", "hostfile", "ssh_user", "ssh_port", "rsh", "local"), "no scheduler starts such a job"),
    "alloc": "the job has its nodes",
    "profile": "the script has its values",
    "poll": "verbs outside the job ask about the queue",
    "templates": "the script is made of them",
    "sge": "only a script of Grid Engine's has its words",
    "pbs": "only a script of PBS's has its words",
    "lsf": "only a script of LSF's has its words",
    "flux": "only a script of Flux's has its words",
    "kubernetes": "only pods have its words",
}
# Options that a script says in another way than by their own name.
OTHERWISE = {"module": "module load x", "setup": "x", "slurm": "--comment=x", "script": "--script /home/alice/run/x"}
OTHERWISE["mnrun"] = "exec /bin/mnrun"  # the words of the call come from the caller
VALUES: dict[str, object] = {
    **{"gres": "nvme:1", "gpu_bind": "closest", "gpus": "4", "gpus_per_node": "4", "gpus_per_task": "1"},
    **{"image": "./x", "slurm": ("comment=x",), "ulimit": ("memlock=unlimited",), "ports": "2000-3000"},
    **{"stage_limit": "50G", "time": "30", "array": "0-3", "dependency": "afterok:1", "signal": "USR1@60"},
    **{"ready": "/health", "page": "/lab", "busy": "/api busy"},
    **dict.fromkeys(("mem", "mem_per_cpu", "mem_per_gpu"), "4G"),
}


def value_of(option: Option) -> object:
    """Return a value that is not the default."""
    kinds = {"flag": True, "number": "2", "seconds": "77s", "list": ("x",), "words": ("x",), "env": ("X=x",)}
    choices = [choice for choice in option.choices if choice != option.default]
    return VALUES.get(option.name, choices[0] if choices else kinds.get(option.kind, "x"))


@pytest.mark.parametrize("option", [o for o in TABLE if o.name not in LEFT_OUT], ids=lambda option: str(option.name))
def test_a_script_loses_no_option(option: Option) -> None:
    engine = {"runtime": "docker"} if option.name in ("privileged", "hardened") else {}
    text = written("./app", env_files={"x": "X=x"}, **engine, **{option.name: value_of(option)})
    otherwise = "X=x" if option.kind == "env" else f"--{option.name.replace('_', '-')}"
    assert OTHERWISE.get(option.name, otherwise) in text
