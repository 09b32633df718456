"""Which variables reach a container, and that values get there byte for byte."""

from __future__ import annotations

import pytest

from mnrun import environment
from mnrun.environment import BARE, CONTEXTS, INSIDE, MPIRUN, SCHEDULER, all_rules
from mnrun.errors import UsageError
from mnrun.jobspec import Variable
from mnrun.schedulers import VARIABLES
from mnrun.schedulers.slurm.variables import for_srun
from unit.conftest import Shell
from unit.texts import Refused


def dropped(name: str, context: str) -> bool:
    return environment.dropped(name, context, all_rules(VARIABLES))


ALL = (INSIDE, MPIRUN, SCHEDULER)
# the contexts in which these names are taken away
TAKEN: dict[tuple[str, ...], str] = {
    (INSIDE, MPIRUN): "SLURM_NTASKS SLURM_JOB_ID SLURM_",
    ALL: "SRUN_DEBUG SBATCH_PARTITION SALLOC_ACCOUNT",
    (INSIDE,): """PMI_RANK PMI2_X PMIX_RANK PMIX_SERVER_URI41 OMPI_COMM_WORLD_RANK OMPI_MCA_ess OMPI_MCA_orte_hnp_uri
        OMPI_MCA_plm_slurm_args PRTE_MCA_plm_slurm_args PRTE_MCA_ras_base_x HYDRA_BOOTSTRAP HYDRA_LAUNCHER_EXTRA_ARGS
        I_MPI_HYDRA_BOOTSTRAP I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS""",
    (): """SLURMD_NODENAME OMPI_MCA_btl OMPI_MCA_btl_tcp_if_include I_MPI_FABRICS CUDA_VISIBLE_DEVICES NCCL_DEBUG PATH
        HOME MNRUN_JOB_ID A_SLURM_X""",
}
# The host's own, which only a container must not see.
HOSTS: dict[tuple[str, ...], str] = {
    ALL: """OMPI_MCA_mca_base_component_path OPAL_PREFIX PRTE_PREFIX LD_LIBRARY_PATH LD_PRELOAD PYTHONPATH PYTHONHOME
        BASH_ENV BASH_FUNC_module%%""",
    (): "PYTHONUNBUFFERED",
}
FATES = {name: set(contexts) for contexts, names in TAKEN.items() for name in names.split()}
BOXED = {name: set(contexts) for contexts, names in HOSTS.items() for name in names.split()}
ODD = ("", "_", "slurm_ntasks", "SLURM", "X SLURM_A", "SLURM_A B", "PATH*", "BASH_FUNC_ml()", "A:SLURM_X", "ü")

NASTY = [
    *("", " ", "a b", " lead and trail ", "it's", "''", "'\\''", '"', '"$HOME"', "$HOME", "${x:-y}"),
    *("$(touch x)", "`id`"),
    *("\\", "\\\\n", "a\\", "*", "?[a-z]*", "~", "#no", "!!", "a;b&c|d>e<f(g)", "-n", "--", "a=b=c", "a,b:c", "%s%%"),
    *("\n", "two\nlines", "trailing\n\n", "\n\nleading", "\t", "\r", "\r\n", "\x1b[31m", "\x01\x7f", "\x0b\x0c\x1c"),
    *("ü 漢 🚀", "\u2028 \x85", "\udcff\udc80", "x" * 100_000, "'" * 999),
]


@pytest.mark.parametrize("name", FATES)
def test_what_is_taken_away(name: str) -> None:
    everywhere = {context + bare for context in FATES[name] for bare in ("", BARE)}
    assert {c + bare for c in CONTEXTS for bare in ("", BARE) if dropped(name, c + bare)} == everywhere


@pytest.mark.parametrize("name", BOXED)
def test_what_is_taken_away_from_a_container_alone(name: str) -> None:
    assert {c + bare for c in CONTEXTS for bare in ("", BARE) if dropped(name, c + bare)} == BOXED[name]


def test_pmix_reaches_a_rank_that_the_host_started() -> None:
    assert not dropped("PMIX_RANK", MPIRUN)
    assert not dropped("PMIX_RANK", SCHEDULER)
    assert dropped("PMIX_PREFIX", SCHEDULER)
    assert not dropped("PMIX_PREFIX", SCHEDULER + BARE)


def test_the_shell_says_the_same(sh: Shell) -> None:
    """clean_env.sh takes the pattern of its context. It matches the names that Python removes."""
    names = [*FATES, *BOXED, *ODD]
    asked = [(context + bare, name) for name in names for context in CONTEXTS for bare in ("", BARE)]
    script = f"""{environment.rules_script(VARIABLES)}
for word; do
  removed "${{word%%=*}}"
  if [[ ${{word#*=}} == $mnrun_removed ]]; then echo yes; else echo no; fi
done"""
    said = sh(script, *(f"{context}={name}" for context, name in asked), shell="bash").decode().splitlines()
    assert dict(zip(asked, said)) == {(c, name): "yes" if dropped(name, c) else "no" for c, name in asked}


def test_srun_keeps_nothing_that_would_shape_a_step() -> None:
    environ = {
        **{"PATH": "/bin", "SLURM_JOB_ID": "7", "SLURM_JOBID": "7", "SLURM_CONF": "/etc/slurm/slurm.conf"},
        **{"SLURM_CONF_SERVER": "ctl:6817", "SLURM_CLUSTER_NAME": "mnrun", "SLURM_DEBUG": "1", "SLURM_NTASKS": "8"},
        **{"SLURM_NTASKS_PER_NODE": "2", "SLURM_CPU_BIND": "quiet", "SLURM_GPUS": "5", "SLURM_STEP_ID": "0"},
        **{"SLURM_PMIX_FENCE": "tree", "SRUN_DEBUG": "3", "SLURMD_NODENAME": "node01", "OMPI_MCA_btl": "tcp"},
    }
    assert sorted(for_srun(environ)) == [
        *("OMPI_MCA_btl", "PATH", "SLURMD_NODENAME", "SLURM_CLUSTER_NAME", "SLURM_CONF"),
        *("SLURM_CONF_SERVER", "SLURM_JOBID", "SLURM_JOB_ID"),
    ]


@pytest.mark.parametrize("shell", ["sh", "dash", "bash"])
def test_values_arrive_byte_for_byte(sh: Shell, shell: str) -> None:
    variables = [Variable(f"V{number}", value) for number, value in enumerate(NASTY)]
    script = environment.exports(variables) + "exec env -0"
    found = sh("cat >vars; . ./vars", shell=shell, stdin=script.encode("utf-8", "surrogateescape"))
    arrived = dict(line.split(b"=", 1) for line in found.split(b"\0") if line.startswith(b"V"))
    wanted = {v.name.encode(): (v.value or "").encode("utf-8", "surrogateescape") for v in variables}
    assert arrived == wanted


def test_a_variable_without_a_value_is_taken_away(sh: Shell) -> None:
    """`unset`, and no complaint where it was not set."""
    lines = environment.exports([Variable("GONE", None), Variable("NEVER", None), Variable("KEPT", "")])
    assert lines == "unset GONE\nunset NEVER\nexport KEPT=''\n"
    assert sh(f'set -eu\n{lines}echo "${{GONE-gone}}${{KEPT-lost}}"', environ={"GONE": "1"}) == b"gone\n"


def test_assignments_are_for_our_own_wrappers(sh: Shell) -> None:
    lines = environment.assignments({"mnrun_id": "7-abcdef", "mnrun_chdir": "/it's here", "count": 3})
    assert lines == "mnrun_id='7-abcdef'\nmnrun_chdir='/it'\\''s here'\ncount='3'\n"
    assert sh(lines + 'echo "$mnrun_chdir"; env | grep -c job_ || true') == b"/it's here\n0\n"


def test_an_env_file_is_read_as_docker_reads_it() -> None:
    text = "# comment\n\nA=1\nB= blank 'and' \"quotes\" \nC=\nD\n   # indented\nE=a=b#c\nF=$HOME\\n"
    assert environment.read_file(text, "f") == (
        Variable("A", "1"),
        Variable("B", " blank 'and' \"quotes\" "),
        Variable("C", ""),
        Variable("D", None),
        Variable("E", "a=b#c"),
        Variable("F", "$HOME\\n"),
    )


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_an_env_files_lines_end_at_newlines_alone(odd: str) -> None:
    """A value may hold what Python, and nobody else, takes for the end of a line."""
    assert environment.read_file(f"A=one{odd}two\nB=3\n", "f") == (Variable("A", f"one{odd}two"), Variable("B", "3"))


def test_an_env_file_may_be_what_env_0_prints() -> None:
    text = "A=one\r\ntwo\n# three\0B=\0"
    assert environment.read_file(text, "f") == (Variable("A", "one\r\ntwo\n# three"), Variable("B", ""))


def test_an_env_file_from_elsewhere_may_end_its_lines_with_cr() -> None:
    assert environment.read_file("A=1\r\n\r\nB=2\r\n", "f") == (Variable("A", "1"), Variable("B", "2"))


def test_what_was_typed_is_shown_without_values() -> None:
    words = ["-x", "T=s", "-xU=t", "--env=V=u", "--env", "W", "-N", "2", "--", "sh", "-x", "A=b"]
    shown = ["-x", "T=…", "-xU=…", "--env=V=…", "--env", "W", "-N", "2", "--", "sh", "-x", "A=b"]
    assert environment.masked(words) == shown


@pytest.mark.parametrize("text", ["A=1\nexport B=2\n", "# x\n=1\n", "A-B=1", "UID=1", "MNRUN_JOB_ID=1", " A=1"])
def test_an_env_file_that_is_none(refused: Refused, text: str) -> None:
    with refused(UsageError):
        environment.read_file(text, "f")


def test_another_job_gets_nothing_of_the_one_that_hands_it_in() -> None:
    """("R2") Nor does a job that no job of mnrun's hands in lose anything."""
    kept = {
        "HOME": "/h",
        "PMIX_MCA_gds": "hash",
        "SLURM_CONF": "/c",
        "MNRUN_IMAGE": "/a.sif",
        "HOROVOD_FUSION_THRESHOLD": "1",
    }
    path = {"PATH": "/tmp/mnrun.7-abcdef/out:/a:/tmp/mnrun.7-abcdef/bin:/b"}
    ours = {"TMPDIR": "/tmp/mnrun.7-abcdef/tmp", "OMPI_MCA_btl_sm_backing_directory": "/dev/shm/mnrun.7-abcdef"}
    place = {"RANK": "0", "PMI_RANK": "0", "SLURM_JOB_ID": "7", "HOROVOD_RANK": "0", "OMPI_MCA_plm": "rsh"}
    inner = {**kept, **ours, **place, **path}
    assert environment.for_another_job({**inner, "MNRUN_JOB_ID": "7-abcdef"}, VARIABLES) == {**kept, "PATH": "/a:/b"}
    assert environment.for_another_job(inner, VARIABLES) == inner
