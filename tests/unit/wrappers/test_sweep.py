"""Whom sweep.sh takes for the job's, and what leftovers.sh takes for what is left of one: run for real, killing nobody.

Processes are told by processes.sh, and what is read in /proc may have been written to mislead us.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Protocol

import pytest

from mnrun.files import wrapper, wrappers
from mnrun.nodes import kit
from unit.conftest import Shell, own
from unit.samples import build, make
from unit.wrappers.node import lay

# A process with any name; it says `named` once it has it, and stays for a while.
NAMED = """import ctypes, os, sys, time
assert ctypes.CDLL(None).prctl(15, os.fsencode(sys.argv[1]), 0, 0, 0) == 0 # PR_SET_NAME, proc(5), comm
open(sys.argv[2], "w").close()
time.sleep(60)
"""
# stay NAME VARIABLE=VALUE…: a process in a session of its own; its number is in $NAME. call NAME PROGRAM-NAME: the same
# for one that calls itself so. All end with the script.
STAY = """trap 'kill -KILL $(jobs -p) 2>/dev/null' EXIT
stay() {
  env "${@:2}" setsid sleep 60 >/dev/null 2>&1 & printf -v "$1" %s $!
  local name='' session=''
  until [[ $name == "(sleep)" && $session == $! ]]; do sleep 0.02; read -r _ name _ _ _ session _ <"/proc/$!/stat"; done
}
call() {
  setsid "$python" -c "$named" "$2" "$PWD/$1.named" >/dev/null 2>&1 & printf -v "$1" %s $!
  until [[ -e $1.named ]]; do sleep 0.02; done
}
"""


class Scripts(Protocol):
    """`scripts(script, **environ)` runs it in bash, after STAY, and gives the lines it has said."""

    def __call__(self, script: str, **environ: str) -> list[str]: ...


@pytest.fixture
def scripts(sh: Shell, tmp_path: Path) -> Scripts:
    flat = tmp_path / "wrappers"  # as on a node
    flat.mkdir()
    for name, path in wrappers().items():
        (flat / name).write_text(path.read_text(encoding="utf-8"))

    def run(script: str, **environ: str) -> list[str]:
        told = {"wrappers": str(flat), "python": sys.executable, "named": NAMED}
        said = sh(STAY + script, shell="bash", environ={**told, **environ})
        return said.decode("utf-8", "surrogateescape").splitlines()

    return run


NAMES = ["plain", "a b", "\n1 2\n", ") Z 1 (", "x) ", "((((", "))))", "\n\n\n", "\udcff) \udcfe", "\\n \t$x"]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_process_is_known_by_its_start_whatever_its_name(scripts: Scripts, name: str) -> None:
    script = r"""source "$wrappers/processes.sh"; call it "$name"
    began "$it" && echo "$REPLY"; cat "/proc/$it/stat"; echo
    began "$it"; lives "$it" "$REPLY" && echo lives; lives "$it" "${REPLY}0" || echo another"""
    start, *stat, lives, another = scripts(script, name=name)
    assert start == "\n".join(stat).rpartition(") ")[2].split()[19]
    assert (lives, another) == ("lives", "another")


@pytest.mark.parametrize("pid", ["", "0", "-1", "x", "1/../self", "999999999", "$(echo 1)", "a[0]"])
def test_no_such_process(scripts: Scripts, pid: str) -> None:
    script = 'source "$wrappers/processes.sh"; lives "$pid" ""; echo $?; lives "$pid" 0; echo $?'
    assert [code != "0" for code in scripts(script, pid=pid)] == [True, True]


def test_a_process_that_has_ended_lives_no_more(scripts: Scripts) -> None:
    script = """source "$wrappers/processes.sh"; stay it; began "$it"; start=$REPLY
    kill -KILL "$it"; wait "$it" 2>/dev/null; lives "$it" "$start"; echo $?"""
    assert scripts(script) == ["1"]


@pytest.mark.parametrize("shell", ["sh", "dash", "bash"])
def test_a_process_notes_its_number_and_start(sh: Shell, shell: str) -> None:
    script = """. "$1"; mnrun_self; echo "$mnrun_process"; mnrun_names=pid:[42]; mnrun_self; echo "$mnrun_process"
    set -- $(cat /proc/$$/stat); echo "$$ ${22}" """
    bare, spaced, who = sh(script, str(wrappers()["pid.sh"]), shell=shell).decode().splitlines()
    assert (bare, spaced) == (who, f"{who} pid:[42]")


# Whose is a process


@pytest.fixture
def job(tmp_path: Path) -> str:
    """Make a job's directory with all that a node is given; its id is that of no other test."""
    return fill(own(tmp_path / f"mnrun.7-{os.getpid()}"))


def fill(place: Path, **given: Any) -> str:
    """Write the kit there, for a job that is called as the directory is; say that name."""
    job = place.name.partition(".")[2]
    files = kit.files(make(build("./app", **given), 1), {"sessions": ""})
    lay(place, {name: text.replace("7-abcdef", job) for name, text in files.items()})
    return job


# In the job's directory. tell FUNCTION NAME…: which of these that function of sweep.sh lists, in a shell of its own as
# it is the guard's, since nobody ends his own helpers.
SWEEP = r"""cd "mnrun.$job"; source ./processes.sh
ours() { began "$1"; echo "$1 $REPLY" >>sessions; }
tell() {
  local found name
  found=" $(bash -p -c 'set -euo pipefail +o posix; mnrun_here=$PWD; source ./sweep.sh
    "$0" && declare -n list=mnrun_$0 && echo "${list[*]}"' "$1") "
  for name in "${@:2}"; do [[ $found != *" ${!name} "* ]] || echo "$name"; done
}
"""


def test_a_process_with_the_jobs_mark_is_the_jobs(scripts: Scripts, job: str) -> None:
    script = """stay mine "MNRUN_JOB_ID=$job"; stay other "MNRUN_JOB_ID=${job}0"; stay more "XMNRUN_JOB_ID=$job"
    stay plain; tell alive mine other more plain"""
    assert scripts(SWEEP + script, job=job) == ["mine"]


def test_a_job_that_was_handed_in_from_a_job_does_not_end_with_it(scripts: Scripts, job: str) -> None:
    """sbatch hands on our mark, as it does all variables; but Slurm gives it a number of its own ("B1")."""
    script = """stay mine "MNRUN_JOB_ID=$job" SLURM_JOB_ID=7; stay other "MNRUN_JOB_ID=$job" SLURM_JOB_ID=8
    stay bare "MNRUN_JOB_ID=$job"; stay odd "MNRUN_JOB_ID=$job" SLURM_JOB_ID=7 "A=
SLURM_JOB_ID=8"
    tell alive mine other bare odd"""
    assert scripts(SWEEP + script, job=job, SLURM_JOB_ID="7") == ["mine", "bare", "odd"]


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"])
def test_a_job_of_a_scheduler_is_another_job(scripts: Scripts, job: str, name: str) -> None:
    """A run with --local or --hosts has no job of a scheduler's, or passes on the number of the one around it (R2)."""
    script = """echo "mnrun_jobs='X=1 $name=7'" >>job.sh
    stay mine "MNRUN_JOB_ID=$job"; stay given "MNRUN_JOB_ID=$job" "$name=7"
    stay empty "MNRUN_JOB_ID=$job" "$name="; stay other "MNRUN_JOB_ID=$job" "$name=8"; tell alive mine given empty other
    echo mnrun_jobs= >>job.sh; tell alive mine given other"""
    assert scripts(SWEEP + script, job=job, name=name) == ["mine", "given", "empty", "mine"]


def test_a_noted_session_is_the_jobs_for_as_long_as_it_is_that_very_one(scripts: Scripts, job: str) -> None:
    script = """stay mine; ours "$mine"; stay later; echo "$later 1" >>sessions
    stay hidden; echo "$hidden 0" >>sessions; stay plain; tell alive mine later hidden plain"""
    assert scripts(SWEEP + script, job=job) == ["mine", "hidden"]


def test_a_process_whose_name_looks_like_another_is_not_believed(scripts: Scripts, job: str) -> None:
    r"""A7: one called "\nP Q\n" made P a child of Q, of the job's session, and so P was killed, whoever that was.

    The sweep.sh of before read all of /proc's stat files as lines of one stream, and lists `plain` here.
    """
    script = r"""stay mine; ours "$mine"; stay plain; call liar $'\n'"$plain $mine"$'\n'
    tell alive mine plain liar"""
    assert scripts(SWEEP + script, job=job) == ["mine"]


def test_a_session_ends_with_all_that_its_leader_started(scripts: Scripts, job: str) -> None:
    script = """stay guard; ours "$guard"; stay later; echo "$later 1" >>sessions
    setsid bash -c 'setsid sleep 60 & echo $! >below.new; mv below.new below; wait' >/dev/null 2>&1 & leader=$!
    until [[ -e below ]]; do sleep 0.02; done; read -r below <below
    ours "$leader"; tell end_sessions; wait "$leader" 2>/dev/null; echo $?
    while kill -0 "$below" 2>/dev/null; do sleep 0.02; done; kill -0 "$guard" && kill -0 "$later" && echo both"""
    assert scripts(SWEEP + script, job=job) == ["137", "both"]


@pytest.mark.parametrize("awk", ["mawk", "gawk", "busybox"])
def test_any_awk_will_do(scripts: Scripts, job: str, tmp_path: Path, awk: str) -> None:
    found = shutil.which(awk)
    if found is None:
        pytest.skip(f"there is no {awk} here")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/awk").symlink_to(found)
    script = r"""stay mine; ours "$mine"; stay marked "MNRUN_JOB_ID=$job"; stay plain
    call liar $'\n'"$plain $mine"$'\n'; call odd ') Z 1 ('; ours "$odd"; tell alive mine marked plain liar odd"""
    environ = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    assert scripts(SWEEP + script, job=job, **environ) == ["mine", "marked", "odd"]


# A removal that another user's file in /dev/shm withstands. Only root could make such a file here.
FOREIGN = """mkdir bin; PATH=$PWD/bin:$PATH
cat >bin/rm <<'EOF'; chmod 700 bin/rm
#!/bin/sh
PATH=${PATH#*:}
case $* in */dev/shm/[cs]*) exit 1 ;; esac
exec rm "$@"
EOF
"""


@pytest.mark.parametrize(
    ("runtime", "script"),
    [
        pytest.param("apptainer", 'rm "mnrun.$job/sessions"', id="a guard that noted no session"),
        pytest.param("apptainer", f'{FOREIGN}echo "1 999999999" >"mnrun.$job/holder"', id="a foreign instance"),
        pytest.param("charliecloud", FOREIGN, id="foreign shared memory"),
    ],
)
def test_the_directory_goes_with_the_jobs_processes(
    scripts: Scripts, tmp_path: Path, runtime: str, script: str
) -> None:
    job = fill(own(tmp_path / f"mnrun.7-{os.getpid()}"), runtime=runtime)
    script += """
    stay mine "MNRUN_JOB_ID=$job"; bash -p -c "$into" "$PWD/mnrun.$job" stop.sh; echo $?
    wait "$mine" 2>/dev/null; echo $?; ls -d mnrun.*"""
    assert scripts(f"{script} || :", job=job, into=kit.spoken(kit.INTO)) == ["0", "137"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make it somebody else's")
def test_a_directory_beside_it_that_is_somebody_elses_stays(scripts: Scripts, job: str) -> None:
    script = """cd "mnrun.$job"; mkdir mine theirs; ln -s mine link; chown 1501 theirs; mnrun_here=$PWD
    source ./sweep.sh; for each in mine theirs link; do ! is_our_directory "$each" || echo "$each"; done"""
    assert scripts(script, job=job) == ["mine"]


def test_numbers_of_sessions_end_with_the_boot(scripts: Scripts, tmp_path: Path) -> None:
    job = fill(own(tmp_path / f"mnrun.7-{os.getpid()}"), runtime="apptainer")
    script = """
    stay mine; began "$mine"; echo "$mine $REPLY" >"mnrun.$job/sessions"
    [[ -z $boot ]] || sed -i "s/[^ ]*$/$boot/" "mnrun.$job/own"
    bash -p -c "$into" "$PWD/mnrun.$job" stop.sh; echo $?
    ls /proc/$mine/comm 2>/dev/null | wc -l; ls -d mnrun.*"""
    script = f'source "$wrappers/processes.sh"; {script} || :'
    assert scripts(script, job=job, into=kit.spoken(kit.INTO), boot="another") == ["0", "1"]
    job = fill(own(tmp_path / f"mnrun.8-{os.getpid()}"), runtime="apptainer")
    assert scripts(script, job=job, into=kit.spoken(kit.INTO), boot="") == ["0", "0"]


# What is left of jobs

# `tmp` and `shm` play /tmp and /dev/shm. What stays of them is said at the end, then what leftovers.sh says.
REMAINS = """source "$wrappers/processes.sh"; eval "$remains_sh"; mnrun_node=node01
place=$PWD/tmp/mnrun.7 twin=$PWD/shm/mnrun.7
stay owner; began "$owner"; born=$REPLY; stay other
dead() { kill -KILL "$owner"; wait "$owner" 2>/dev/null; }
own() { mkdir -pm 700 "$1" && echo "$1 ${2-node01} $owner $born" >"$1/own"; echo x >"$1/key"; mkdir "$1/.hidden"; }
found() { remains >said; ls -d tmp/* 2>/dev/null; ls -d shm/* 2>/dev/null; cat said; }
mkdir -p tmp shm; own "$place"; own "$twin"
"""


@pytest.fixture
def remains(scripts: Scripts, tmp_path: Path) -> Scripts:
    """Run a script after REMAINS, with leftovers.sh for a /tmp and a /dev/shm of the test's own."""
    text = wrapper("leftovers.sh")
    assert "/tmp/mnrun.* /dev/shm/mnrun.*" in text
    text = re.sub(r"(?<=[ !])/(tmp|dev/shm)/", lambda found: f"{tmp_path}/{found[1].removeprefix('dev/')}/", text)

    def run(script: str, **environ: str) -> list[str]:
        told = {"remains_sh": text, "mnrun_into": kit.spoken(kit.INTO)}
        said = scripts(REMAINS + script, **told, **environ)
        return [line.replace(f"{tmp_path}/", "removed ") for line in said]

    return run


KEPT = ["tmp/mnrun.7", "shm/mnrun.7"]
GONE = ["removed tmp/mnrun.7", "removed shm/mnrun.7"]
BOTH = 'for each in "$place" "$twin"; do'


@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param("dead", GONE, id="nobody lives"),
        pytest.param("", KEPT, id="its guard lives"),
        pytest.param('began "$other"; echo "$other $REPLY" >"$place/undertaker"; dead', KEPT, id="an undertaker lives"),
        pytest.param('echo "$other 1" >"$place/undertaker"; dead', GONE, id="its undertaker's number is another's"),
        pytest.param(': >"$place/undertaker"; dead', GONE, id="its undertaker had no time to say who it is"),
        pytest.param(f'{BOTH} echo "$each node01 $other 1" >"$each/own"; done', GONE, id="its guard's is another's"),
        pytest.param('mkfifo "$place/up"; exec 9<>"$place/up"; dead', KEPT, id="its guard's number is not to be seen"),
        pytest.param('mkfifo "$place/up"; dead', GONE, id="nobody reads its pipe"),
        pytest.param('rm "$place/own"; dead', KEPT, id="kept"),
        pytest.param(': >"$place/own"; dead', KEPT, id="being made"),
        pytest.param(f'{BOTH} echo "$each node02 $owner 1" >"$each/own"; done', KEPT, id="another node's"),
        pytest.param(f'{BOTH} echo "${{each}}0 node01 $owner 1" >"$each/own"; done', KEPT, id="of another name"),
        pytest.param('mv "$place" x; mv "$twin" y; ln -s "$PWD/x" "$place"; ln -s "$PWD/y" "$twin"; dead',
                     [*KEPT, "key", "own"], id="links"),
        pytest.param('rm -r "$place"; dead', GONE[1:], id="only in shared memory"),
    ],
)  # fmt: skip
def test_what_is_left_of_a_job(remains: Scripts, script: str, said: list[str]) -> None:
    """Goes where nobody of the job lives any more who would see to it; and only there."""
    assert remains(f"{script}\nfound; ls x 2>/dev/null || :") == said


def test_a_name_that_becomes_a_link_at_the_last_moment(remains: Scripts) -> None:
    script = 'dead; is_left "$place" && echo left; cd "$OLDPWD"; mv "$place" x; ln -s "$PWD/x" "$place"'
    assert remains(f'{script}; is_left "$place" || echo another') == ["left", "another"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make it somebody else's")
@pytest.mark.parametrize("theirs", ["", "/own"])
def test_what_is_left_of_somebody_elses_job_stays(remains: Scripts, theirs: str) -> None:
    script = f'dead; chown 1501 "$place{theirs}" "$twin{theirs}"; found; is_left "$place" || echo another'
    assert remains(script) == [*KEPT, "another"]


def test_what_a_killed_job_has_left_running_ends(remains: Scripts, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    place = own(tmp_path / f"tmp/mnrun.9-{os.getpid()}", pid=999999999)
    script = """rm -r "$place" "$twin"; shm=/dev/shm/mnrun.$job; mkdir -m 700 "$shm"; : >"$shm/x"
    stay mine "MNRUN_JOB_ID=$job"; found; wait "$mine" 2>/dev/null; echo $?; ls -d "$shm" 2>/dev/null; rm -rf "$shm" """
    assert remains(script, job=fill(place)) == [f"removed tmp/{place.name}", "137"]


def test_a_process_that_is_started_while_others_end(scripts: Scripts) -> None:
    """One look at /proc misses it: a podman that is ended as it starts may leave such a child."""
    script = """
stay first X=1; stay second X=1
mnrun_runtime=docker; source "$wrappers/engines.sh"
printf '%s\n' "$first" "$second" >looks
marked() { head -n 1 looks; sed -i 1d looks; }
end_marked any
for pid in "$first" "$second"; do code=0; wait "$pid" || code=$?; echo "$code"; done"""
    assert scripts(script) == ["137", "137"]


def test_a_process_in_the_middle_of_execve(scripts: Scripts) -> None:
    script = r"""source "$wrappers/processes.sh"
stat() { printf '%s (sh \n) x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 900 %s 300 18446744073709551615 %s 0\n' "$@"; }
mkdir -p programs proc/{1,22,333,4444,55,6}
stat 1 4096 4194304 >proc/1/stat # it has no environment
stat 22 4096 0 >proc/22/stat # it is in the middle
stat 333 0 0 >proc/333/stat # it is the kernel's
mkfifo proc/6/stat # it gets to its program before its stat is read
{ printf 'MNRUN_JOB_ID=%s\0' 9-abc >proc/6/environ; stat 6 4096 4194304; } >proc/6/stat &
touch proc/{1,22,333,6}/environ
printf 'MNRUN_JOB_ID=%s\0' 9-abc "9-abc\0SLURM_JOB_ID=7" >proc/4444/environ
printf 'MNRUN_JOB_ID=%s\0' 9-abcd >proc/55/environ
cat >programs/sleep <<'END'
#!/bin/sh
echo "$1" >>sleeps
[ "$(wc -l <sleeps)" != 2 ] || printf 'A=\nB\0MNRUN_JOB_ID=9-abc\0' >proc/22/environ
END
chmod +x programs/sleep
PATH=$PWD/programs:$PATH
(marked 9-abc "$PWD/proc")
cat sleeps"""
    assert scripts(script) == ["22", "4444", "6", "0.01", "0.01"]


def test_processes_of_one_mark_end_alone(scripts: Scripts) -> None:
    script = """
stay mine MNRUN_JOB_ID="job-$$"; stay other MNRUN_JOB_ID="job-${$}1"
mnrun_runtime=docker; source "$wrappers/processes.sh"; source "$wrappers/engines.sh"
end_marked "job-$$"
wait "$mine" || echo $?
kill -0 "$other" && echo lives"""
    assert scripts(script) == ["137", "lives"]
