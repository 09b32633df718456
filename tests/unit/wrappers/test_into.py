"""The ways into a job's directory on a node, into.sh and await.sh, run for real: neither believes a name in /tmp."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mnrun.nodes import kit
from unit.conftest import Shell, own

SHELLS = (("sh",), ("dash",), ("bash",), ("bash", "-p"), ("busybox", "sh"))
# As root: in a directory that all may enter, which Python's own is not. $place is the job's directory, $as who enters.
FOREIGN = """
above=$(mktemp -d /tmp/mnrun-test.XXXXXX) && trap 'rm -rf "$above"' EXIT && chmod 755 "$above"
place=$above/mnrun.7
mkdir "$place" && echo "$place node01 1 0" >"$place/own" && mkfifo "$place/gate" && : >"$place/open"
echo 'echo ran' | tee "$place/script.sh" >"$place/head.sh"
chmod -R a+rX "$place"; chown -R 1500:1500 "$place"
as='setpriv --reuid 1500 --regid 1500 --clear-groups'
cd "$above"
"""
root = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can play two users, and by setpriv"
)


@pytest.fixture(params=SHELLS, ids=" ".join)
def words(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Return the words of a shell that is here."""
    found: tuple[str, ...] = request.param
    if shutil.which(found[0]) is None:
        pytest.skip(f"there is no {found[0]} here")
    return (*found, "-c", kit.spoken(kit.INTO))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Make a job's directory with a script that says how it was started."""
    made = own(tmp_path / "mnrun.7")
    script = 'printf "<%s>" "$mnrun_here" "$mnrun_back" "${mnrun_from-}" "$@"; pwd; exit 7\n'
    (made / "script.sh").write_text(script)
    return made


def test_a_script_runs_in_the_directory_with_its_words(sh: Shell, words: tuple[str, ...], place: Path) -> None:
    given = ("a b", "", "$x", "-n", "two\nlines")
    said = sh('exec "$@"', *words, str(place), "script.sh", *given, code=7).decode()
    shown = "".join(f"<{word}>" for word in (place, place.parent, "", *given))
    assert said == f"{shown}{place}\n"


def test_whence_it_came_may_be_told(sh: Shell, words: tuple[str, ...], place: Path) -> None:
    said = sh('exec "$@"', *words, str(place), "script.sh", environ={"mnrun_from": "/usr"}, code=7).decode()
    assert said == f"<{place}></usr><>{place}\n"


@pytest.mark.parametrize(
    "spoilt",
    [
        pytest.param('rm -r "$1"', id="not there"),
        pytest.param('rm "$1/own"', id="without a name"),
        pytest.param(': >"$1/own"', id="with no name"),
        pytest.param('echo "${1%7}8 node01 1 0" >"$1/own"', id="with another's name"),
        pytest.param('mkdir elsewhere && mv "$1" elsewhere && ln -s elsewhere/mnrun.7 "$1"', id="a link to it"),
        pytest.param('mv "$1" x && cp x/script.sh "$1"', id="a file"),
    ],
)
def test_what_is_not_the_jobs_directory_is_refused(sh: Shell, words: tuple[str, ...], place: Path, spoilt: str) -> None:
    said = sh(f'{spoilt}\nshift; exec "$@" 2>&1', str(place), *words, str(place), "script.sh", code=121)
    assert said.decode().splitlines()[-1] == f"mnrun: {place} is not the directory of this job"
    assert b"<" not in said


@root
@pytest.mark.parametrize("theirs", ["", '"$place"', '"$place/own"', '-R "$place"'])
def test_a_directory_of_somebody_else_is_refused(sh: Shell, words: tuple[str, ...], theirs: str) -> None:
    spoilt = f"chown 1501 {theirs}" if theirs else ":"
    script = f'{FOREIGN}{spoilt}\n$as "$@" "$place" script.sh 2>&1; code=$?; echo "$place"; exit $code'
    *said, name = sh(script, *words, code=121 if theirs else 0).decode().splitlines()
    assert said == ([f"mnrun: {name} is not the directory of this job"] if theirs else ["ran"])


AWAIT = ("bash", "-p", "-c", kit.spoken(kit.AWAIT))
# Tells the last one that was started to end, once it can hear it: proc(5), status, SigCgt.
TELL = r"""
until [ $((0x$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$!/status") & 0x4000)) != 0 ]; do sleep 0.02; done
sleep 0.2; kill -TERM $!; wait $!
"""


def test_the_head_waits_for_a_directory_that_comes_late(sh: Shell, tmp_path: Path) -> None:
    place = tmp_path / "mnrun.7-abcdef"
    script = """{
    sleep 0.1; mkdir -m 700 "$1"; sleep 0.1; echo "$1 node01 1 0" >"$1/own"
    sleep 0.1; echo 'printf "<%s>" "$PWD" "$MNRUN_JOB_ID" "$@"' >"$1/head.sh"; sleep 0.1; : >"$1/open"
    } &
    shift; exec "$@" 2>&1"""
    said = sh(script, str(place), *AWAIT, str(place), "head.sh", "a b", "$x;")
    assert said.decode() == f"<{place}><7-abcdef><a b><$x;>"
    assert {path.name for path in place.iterdir()} == {"own", "open", "head.sh", "gate"}


@pytest.mark.parametrize("script", ["head.sh", "script.sh"])
@pytest.mark.parametrize("gone", ['rm "$1/own"', 'rm -r "$1"'])
def test_who_waits_for_a_guard_ends_with_it(sh: Shell, place: Path, gone: str, script: str) -> None:
    text = f'{{ sleep 0.2; {gone}; }} &\nshift; exec timeout 10 "$@" 2>&1'
    assert sh(text, str(place), *AWAIT, str(place), script, "a") == b""


RANKS = """cd "$1" || exit 1; shift
mkfifo go; exec 3<>go; : >open
for rank in 0 1 2; do "$@" "$rank" 3<&- & done
"""


def test_ranks_wait_for_go_which_is_a_line_for_each(sh: Shell, place: Path) -> None:
    (place / "script.sh").write_text('echo "$PWD, $mnrun_here, $mnrun_back, $*"\n')
    script = f"""{RANKS}sleep 0.3; echo go; printf '\\n\\n\\n\\n' >&3; wait"""
    first, *said = sh(script, str(place), *AWAIT, str(place), "script.sh", "a b").decode().splitlines()
    assert (first, sorted(said)) == ("go", [f"{place}, {place}, {place}, a b {rank}" for rank in range(3)])


def test_ranks_that_have_no_go_end_with_their_guard(sh: Shell, place: Path) -> None:
    """Each of them: those that wait, and one that comes after the guard was killed, and before its files are gone."""
    script = f"""{RANKS}sleep 0.3; exec 3<&-; wait; timeout 10 "$@" 3 && ls"""
    said = sh(script, str(place), *AWAIT, str(place), "script.sh")
    assert said.decode().split() == ["go", "open", "own", "script.sh"]


def test_a_signal_to_waiting_ranks_is_for_their_program(sh: Shell, place: Path) -> None:
    (place / "script.sh").write_text("echo ran\n")
    script = f"""{RANKS}sleep 0.3; for _ in 1 2 3 4 5; do kill -USR1 $!; kill -TERM $!; sleep 0.02; done
    printf '\\n\\n\\n' >&3; wait"""
    assert sh(script, str(place), *AWAIT, str(place), "script.sh").decode().split() == 3 * ["ran"]


def test_the_head_is_told_to_end_where_there_is_no_guard(sh: Shell, tmp_path: Path) -> None:
    assert sh(f'"$@" 2>&1 &{TELL}', *AWAIT, f"{tmp_path}/none", "head.sh", "a") == b""


def test_the_head_is_told_by_a_row_of_signals(sh: Shell, tmp_path: Path) -> None:
    """srun forwards USR1, but not TERM. One or two may be a scheduler's or a user's, and do not end it."""
    told = TELL.replace("kill -TERM $!; wait $!", "")
    script = f"""exec 2>&1; "$@" &{told}
    tell() {{ kill -USR1 $! && sleep 0.2; }}
    tell; tell; kill -0 $! && echo waits
    tell; kill -USR1 $!; wait $!"""
    assert sh(script, *AWAIT, f"{tmp_path}/none", "head.sh", "a") == b"waits\n"


@pytest.mark.parametrize(
    "spoilt",
    [
        pytest.param('echo "${1%7}8 node01 1 0" >"$1/own"', id="another's name"),
        pytest.param('mkdir elsewhere && mv "$1" elsewhere && ln -s elsewhere/mnrun.7 "$1"', id="a link to it"),
    ],
)
def test_the_head_goes_on_waiting_before_what_is_not_the_jobs_directory(sh: Shell, place: Path, spoilt: str) -> None:
    (place / "head.sh").write_text("echo ran\n")
    script = f'mkfifo "$1/gate"; : >"$1/open"; {spoilt}\nshift; "$@" 2>&1 &{TELL}'
    assert sh(script, str(place), *AWAIT, str(place), "head.sh") == b""


@root
@pytest.mark.parametrize("mode", ["755", "700"])
def test_the_head_refuses_a_directory_of_somebody_else(sh: Shell, mode: str) -> None:
    script = f'{FOREIGN}chown -R 1501 "$place"; chmod {mode} "$place"'
    script += '\ntimeout 10 $as "$@" "$place" head.sh 2>&1; code=$?; echo "$place"; exit $code'
    said, name = sh(script, *AWAIT, code=121).decode().splitlines()
    assert said == f"mnrun: {name} belongs to another user"


@pytest.mark.skipif(os.geteuid() == 0, reason="the test above says more")
def test_the_head_refuses_what_is_not_its_users(sh: Shell) -> None:
    said = sh('exec timeout 10 "$@" 2>&1', *AWAIT, "/usr", "head.sh", code=121)
    assert said == b"mnrun: /usr belongs to another user\n"
